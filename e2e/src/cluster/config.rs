//! The configuration files of the components, all below the cluster's own directory.

use std::{fs, io};

use serde_json::{Value, json};

use super::{
    cgroup,
    layout::{ClusterName, Layout},
    pki::WEBHOOK_CALLER,
    preflight::Machine,
};
use crate::{images, install::NAMESPACE};

/// The user of the kubeconfig that people and tests use, and the name of its files.
pub(crate) const ADMIN: &str = "admin";

/// How the API server calls admission webhooks.
pub(crate) const ADMISSION: &str = "admission.yaml";
/// With which certificate.
const WEBHOOKS: &str = "webhooks.kubeconfig";

/// Addresses inside the cluster's network; every cluster has a network of its own, so all use the same.
pub(crate) mod net {
    /// The node, on a bridge: kubelet and endpoint slices refuse loopback addresses.
    pub(crate) const NODE_IP: &str = "172.31.0.1";
    /// The node's bridge network.
    pub(crate) const NODE_CIDR: &str = "172.31.0.1/24";
    /// Pods.
    pub(crate) const POD_CIDR: &str = "10.244.0.0/24";
    /// Services.
    pub(crate) const SERVICE_CIDR: &str = "10.96.0.0/16";
    /// The first service address, always the API server's.
    pub(crate) const API_SERVICE_IP: &str = "10.96.0.1";
    /// The tenth service address, by custom the DNS service's.
    pub(crate) const DNS_SERVICE_IP: &str = "10.96.0.10";
    /// Where the API server listens.
    pub(crate) const API_PORT: u16 = 6443;
    /// Where etcd listens.
    pub(crate) const ETCD_PORT: u16 = 2379;
}

/// Writes every configuration file.
pub(crate) fn write(layout: &Layout, name: &ClusterName, machine: &Machine) -> io::Result<()> {
    for dir in [
        "logs",
        "containerd",
        "kubelet",
        "etcd",
        "cni/net.d",
        "cni/ipam",
    ] {
        fs::create_dir_all(layout.path(dir))?;
    }
    fs::write(layout.path("containerd.toml"), containerd(layout, machine))?;
    // There is no name server outside the cluster to pass on to pods.
    fs::write(layout.path("resolv.conf"), "options ndots:1\n")?;
    let documents = [
        ("cni/net.d/10-pods.conflist", cni(layout)),
        ("audit-policy.yaml", audit_policy()),
        (ADMISSION, admission(layout)),
        (WEBHOOKS, webhooks(layout)),
        ("kubelet.yaml", kubelet(layout, name)),
        ("kube-proxy.yaml", kube_proxy(layout, name)),
    ];
    for (file, document) in documents {
        fs::write(layout.path(file), format!("{document:#}\n"))?;
    }
    Ok(())
}

fn containerd(layout: &Layout, machine: &Machine) -> String {
    let pause = images::Image::Pause.reference();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # A machine may lack CAP_SYS_RESOURCE; without this every sandbox then fails.
  restrict_oom_score_adj = true
  # A profile would be loaded into the whole machine.
  disable_apparmor = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
"#,
        root = layout.text("containerd/root"),
        state = layout.text("containerd/state"),
        socket = layout.text("containerd.sock"),
        opt = layout.text("containerd/opt"),
        cni = layout.text("cni/net.d"),
        plugins = machine.cni_dir.display(),
    )
}

/// The API server shows a certificate to webhooks of both kinds.
fn admission(layout: &Layout) -> Value {
    let plugin = |name: &str| {
        json!({"name": name, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": layout.path(WEBHOOKS),
        }})
    };
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")],
    })
}

/// The webhook of our installation, by the name of its Service, is shown the certificate; others are not.
fn webhooks(layout: &Layout) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": format!("webhook.{NAMESPACE}.svc"), "user": {
            "client-certificate": layout.pki(&format!("{WEBHOOK_CALLER}.crt")),
            "client-key": layout.pki(&format!("{WEBHOOK_CALLER}.key")),
        }}],
    })
}

/// Point-to-point links, so that all traffic between pods is routed and services work from every pod.
fn cni(layout: &Layout) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": layout.text("cni/ipam"),
                    "ranges": [[{"subnet": net::POD_CIDR}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// Every call except the polls of the control plane, reads included: tests prove from this log the reads
/// before a grant. Bodies where tests need them, never for kinds that carry secrets or tokens.
fn audit_policy() -> Value {
    let group = |group: &str| json!({"group": group});
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*", "/version", "/openapi*", "/api*"]},
            // Tests ask tens of thousands of questions about rights.
            {"level": "None", "users": [ADMIN], "verbs": ["create"], "resources": [group("authorization.k8s.io")]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts:connectors-system"], "resources": [{"group": "coordination.k8s.io"}]},
            {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
            {"level": "None", "verbs": ["watch"], "users": ["system:kube-proxy", "system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]},
            {"level": "Metadata", "resources": [
                {"group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io"},
            ]},
            {"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"], "resources": [
                group("connectors.alauda.io"),
                group("rbac.authorization.k8s.io"),
                group("authorization.k8s.io"),
                // The approvals of the tests: docs/operate.md finds the approvers there.
                group("e2e.example.com"),
            ]},
            {"level": "Metadata"},
        ],
    })
}

fn kubelet(layout: &Layout, name: &ClusterName) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": net::NODE_IP,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": layout.pki("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": layout.pki("kubelet-serving.crt"),
        "tlsPrivateKeyFile": layout.pki("kubelet-serving.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup::root(name),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": format!("unix://{}", layout.text("containerd.sock")),
        "clusterDNS": [net::DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": layout.text("resolv.conf"),
        "podLogsDir": layout.text("pod-logs"),
        "volumePluginDir": layout.text("kubelet/volume-plugins"),
        "staticPodPath": "",
        // A small disk or a busy machine is no reason to evict tests.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi", "nodefs.inodesFree": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "nodeStatusUpdateFrequency": "2s",
        "serializeImagePulls": false,
        "registerNode": true,
    })
}

fn kube_proxy(layout: &Layout, name: &ClusterName) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": net::POD_CIDR,
        "hostnameOverride": name.node(),
        "bindAddress": net::NODE_IP,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        // The limits belong to the machine, not to this network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "clientConnection": {"kubeconfig": layout.text("kube-proxy.kubeconfig")},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_lies_below_the_cluster_directory() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::at(dir.path());
        let machine = Machine {
            cni_dir: "/cni".into(),
        };
        write(&layout, &ClusterName::default(), &machine).unwrap();
        let text = fs::read_to_string(layout.path("containerd.toml")).unwrap();
        for key in ["root", "state", "address", "path", "conf_dir"] {
            let value = text
                .lines()
                .find_map(|line| line.trim().strip_prefix(&format!("{key} = ")))
                .unwrap();
            assert!(
                value.starts_with(&format!("\"{}", dir.path().display())),
                "{key}"
            );
        }
    }

    const RBAC: &str = "rbac.authorization.k8s.io";
    const REVIEWS: &str = "authorization.k8s.io";

    /// The level of a call in the log: that of the first rule that matches it.
    fn level(user: &str, verb: &str, group: &str, resource: &str) -> String {
        let allows = |rule: &Value, field: &str, word: &str| {
            let list = rule[field].as_array();
            list.is_none_or(|list| list.iter().any(|item| item == word))
        };
        let is_about = |rule: &Value| {
            let about =
                |item: &Value| item["group"] == group && allows(item, "resources", resource);
            rule["nonResourceURLs"].is_null()
                && rule["resources"]
                    .as_array()
                    .is_none_or(|list| list.iter().any(about))
        };
        let policy = audit_policy();
        let mut rules = policy["rules"].as_array().unwrap().iter();
        let rule = rules.find(|rule| {
            allows(rule, "users", user) && allows(rule, "verbs", verb) && is_about(rule)
        });
        rule.unwrap()["level"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_audit_log_tells_what_our_services_read_and_write() {
        let controller = "system:serviceaccount:connectors-system:request-controller";
        let of_controller =
            |verb: &str, group: &str, resource: &str| level(controller, verb, group, resource);
        for verb in ["get", "list", "watch"] {
            assert_eq!(of_controller(verb, "", "pods"), "Metadata");
            assert_eq!(
                of_controller(verb, "connectors.alauda.io", "connectors"),
                "Metadata"
            );
            assert_eq!(of_controller(verb, "example.com", "anything"), "Metadata");
        }
        for verb in ["create", "delete"] {
            assert_eq!(of_controller(verb, RBAC, "rolebindings"), "RequestResponse");
            assert_eq!(
                of_controller(verb, REVIEWS, "subjectaccessreviews"),
                "RequestResponse"
            );
            assert_eq!(
                of_controller(verb, "authentication.k8s.io", "tokenreviews"),
                "Metadata"
            );
        }
    }

    #[test]
    fn of_the_administrator_the_audit_log_leaves_out_questions_about_rights_alone() {
        assert_eq!(
            level(ADMIN, "create", REVIEWS, "subjectaccessreviews"),
            "None"
        );
        assert_eq!(level(ADMIN, "create", RBAC, "roles"), "RequestResponse");
        assert_eq!(level(ADMIN, "get", "", "pods"), "Metadata");
    }

    #[test]
    fn the_audit_log_never_holds_a_body_with_secrets() {
        let policy = audit_policy();
        let rules = policy["rules"].as_array().unwrap();
        let position = |level: &str| {
            rules
                .iter()
                .position(|rule| rule["level"] == level)
                .unwrap()
        };
        assert!(position("Metadata") < position("RequestResponse"));
        let guarded: String = rules[..position("RequestResponse")]
            .iter()
            .filter(|rule| rule["level"] == "Metadata")
            .map(|rule| rule["resources"].to_string())
            .collect();
        for word in ["secrets", "serviceaccounts/token", "authentication.k8s.io"] {
            assert!(guarded.contains(word), "{word}");
        }
    }
}
