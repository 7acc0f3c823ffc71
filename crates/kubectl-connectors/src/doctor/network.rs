//! The NetworkPolicies around the services, and whether something enforces them.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{Selector, SelectorExt as _};
use serde_json::{Value, json};

use super::commands::upgrade;
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord, FixObject};
use crate::terms::NamespacedName;

/// The evaluation service. Pods of the installation call it.
const EVALUATION: &str = "evaluation-service";
/// The services with ports that NetworkPolicies guard, and the names of these ports.
const GUARDED: [(&str, &str); 2] = [(EVALUATION, "grpc"), ("webhook", "https")];
/// The port of probes and metrics.
const ADMIN_PORT: &str = "admin";
/// The label of every pod of the chart.
const NAME: (&str, &str) = ("app.kubernetes.io/name", "connectors-approval");
/// The label with the service of a pod.
const COMPONENT: &str = "app.kubernetes.io/component";
/// The names of DaemonSets that enforce NetworkPolicies.
const ENFORCING: [&str; 14] = [
    "anetd",
    "antrea-agent",
    "azure-npm",
    "calico-node",
    "canal",
    "cilium",
    "kube-ovn-cni",
    "kube-router",
    "ovnkube-node",
    "ovs-ovn",
    "rke2-calico-node",
    "rke2-canal",
    "sdn",
    "weave-net",
];

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let Some(policies) = &read.network_policies else {
        return Vec::new();
    };
    if super::installation::is_nowhere(read) {
        return Vec::new();
    }
    let open = GUARDED.into_iter().filter(|(service, _)| {
        let labels = labels_of(read, service);
        !policies.iter().any(|it| guards(it, &labels))
    });
    let open: Vec<_> = open
        .map(|(service, port)| unguarded(read, service, port))
        .collect();
    if !open.is_empty() {
        return open;
    }
    let Some(agents) = &read.agents else {
        return Vec::new();
    };
    let is_enforced = agents.iter().any(|it| {
        let name = it.metadata.name.as_deref().unwrap_or_default();
        let ready = it.status.as_ref().map_or(0, |it| it.number_ready);
        ENFORCING.contains(&name) && ready > 0
    });
    if is_enforced {
        return Vec::new();
    }
    let system = &read.system_namespace;
    let finding = DoctorFinding::new(
        DoctorSeverity::Hint,
        DoctorWord::NetworkOpen,
        format!("Namespace {system}"),
        "no DaemonSet of the cluster is known to enforce NetworkPolicies: they may be without effect",
        "find out whether the network enforces them: the command prints `reached` where it does not, and anything else says nothing",
    );
    vec![finding.with_command(format!(
        "kubectl -n default run network-test --rm -i --restart=Never --image=busybox -- sh -c 'nc -z -w 3 evaluation-service.{system} 8443 && echo reached'"
    ))]
}

/// The labels of the pods of a service.
fn labels_of(read: &DoctorRead, service: &str) -> BTreeMap<String, String> {
    let mut deployments = read.deployments.iter().flatten();
    let deployment = deployments.find(|it| it.metadata.name.as_deref() == Some(service));
    let template = deployment.and_then(|it| it.spec.as_ref()?.template.metadata.as_ref());
    let written = template.and_then(|it| it.labels.clone());
    written.unwrap_or_else(|| {
        let labels = [NAME, (COMPONENT, service)];
        labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    })
}

/// True for a NetworkPolicy that limits the callers of the pods with these labels. One without types limits them too.
fn guards(policy: &NetworkPolicy, labels: &BTreeMap<String, String>) -> bool {
    let Some(spec) = &policy.spec else {
        return false;
    };
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let is_about_callers = types.is_empty() || types.iter().any(|it| it == "Ingress");
    let selector = Selector::try_from(spec.pod_selector.clone().unwrap_or_default());
    is_about_callers && selector.is_ok_and(|it| it.matches(labels))
}

fn unguarded(read: &DoctorRead, service: &str, port: &str) -> DoctorFinding {
    let system = &read.system_namespace;
    let (effect, ingress) = if service == EVALUATION {
        let from = json!([{"podSelector": {"matchLabels": {NAME.0: NAME.1}}}]);
        let effect =
            "; the object lets pods of this installation alone ask: add other callers to `from`";
        (effect, json!({"from": from, "ports": [tcp(port)]}))
    } else {
        ("", json!({"ports": [tcp(port)]}))
    };
    let finding = DoctorFinding::new(
        DoctorSeverity::Hint,
        DoctorWord::NetworkOpen,
        format!("Deployment {system}/{service}"),
        "no NetworkPolicy selects its pods: unless something else guards them, every pod of the cluster reaches all of their ports",
        format!("set the chart's networkPolicy.enabled, or guard the ports in another way{effect}"),
    );
    let command = format!("{} --set networkPolicy.enabled=true", upgrade(read));
    // Under a name that the chart does not use, so that both can stand beside each other.
    let name = NamespacedName::new(system, format!("ports-of-{service}"));
    let policy = FixObject::new("networking.k8s.io/v1", "NetworkPolicy", name).with_field(
        "spec",
        json!({
            "podSelector": {"matchLabels": {NAME.0: NAME.1, COMPONENT: service}},
            "policyTypes": ["Ingress"],
            "ingress": [ingress, {"ports": [tcp(ADMIN_PORT)]}],
        }),
    );
    finding.with_command(command).with_object(policy)
}

fn tcp(port: &str) -> Value {
    json!({"protocol": "TCP", "port": port})
}
