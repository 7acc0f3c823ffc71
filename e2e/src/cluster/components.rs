//! The components of the cluster and the command line of each.

use std::{
    fmt,
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::{
    config::{ADMISSION, net},
    layout::{ClusterName, Layout},
    tools::Tools,
};

/// A process of the cluster, in the order in which they are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The built-in controllers.
    KubeControllerManager,
    /// The scheduler.
    KubeScheduler,
    /// The container runtime.
    Containerd,
    /// The node's agent.
    Kubelet,
    /// Services on the node.
    KubeProxy,
}

impl Component {
    /// All of them, in starting order.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Containerd,
        Self::Kubelet,
        Self::KubeProxy,
    ];

    /// The program's name, also used for its log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// Whether the component takes connections; asked from inside the cluster's network.
    pub(crate) fn listens(self, layout: &Layout) -> bool {
        let tcp = |port| TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok();
        match self {
            Self::Etcd => tcp(net::ETCD_PORT),
            Self::KubeApiserver => tcp(net::API_PORT),
            Self::KubeControllerManager => tcp(10257),
            Self::KubeScheduler => tcp(10259),
            Self::Containerd => UnixStream::connect(layout.path("containerd.sock")).is_ok(),
            Self::Kubelet => tcp(10248),
            Self::KubeProxy => tcp(10256),
        }
    }

    /// The command line, all of it explicit, nothing from the machine's own configuration.
    pub(crate) fn command(self, layout: &Layout, name: &ClusterName, tools: &Tools) -> Vec<String> {
        let program = match self {
            Self::Containerd => "containerd".to_owned(),
            Self::Etcd
            | Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubelet
            | Self::KubeProxy => tools.path(self.name()).display().to_string(),
        };
        let flags = match self {
            Self::Etcd => etcd(layout),
            Self::KubeApiserver => kube_apiserver(layout),
            Self::KubeControllerManager => kube_controller_manager(layout),
            Self::KubeScheduler => kube_scheduler(layout),
            Self::Containerd => vec![format!("--config={}", layout.text("containerd.toml"))],
            Self::Kubelet => kubelet(layout, name),
            Self::KubeProxy => vec![format!("--config={}", layout.text("kube-proxy.yaml"))],
        };
        std::iter::once(program).chain(flags).collect()
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no component.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no component `{0}`; there are: {names}", names = Component::ALL.map(Component::name).join(", "))]
pub struct UnknownComponent(String);

impl FromStr for Component {
    type Err = UnknownComponent;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == word)
            .ok_or_else(|| UnknownComponent(word.to_owned()))
    }
}

fn etcd(layout: &Layout) -> Vec<String> {
    let url = format!("https://127.0.0.1:{}", net::ETCD_PORT);
    let peer = "https://127.0.0.1:2380";
    vec![
        "--name=local".to_owned(),
        format!("--data-dir={}", layout.text("etcd/data")),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=local={peer}"),
        format!("--cert-file={}", layout.pki("etcd.crt")),
        format!("--key-file={}", layout.pki("etcd.key")),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={}", layout.pki("etcd-ca.crt")),
        format!("--peer-cert-file={}", layout.pki("etcd.crt")),
        format!("--peer-key-file={}", layout.pki("etcd.key")),
        "--peer-client-cert-auth".to_owned(),
        format!("--peer-trusted-ca-file={}", layout.pki("etcd-ca.crt")),
        // The data lives as long as the cluster: a machine's crash may lose it, and tests run twice as fast.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn kube_apiserver(layout: &Layout) -> Vec<String> {
    vec![
        format!("--advertise-address={}", net::NODE_IP),
        format!("--secure-port={}", net::API_PORT),
        "--allow-privileged=true".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--client-ca-file={}", layout.pki("ca.crt")),
        format!("--tls-cert-file={}", layout.pki("apiserver.crt")),
        format!("--tls-private-key-file={}", layout.pki("apiserver.key")),
        format!("--etcd-servers=https://127.0.0.1:{}", net::ETCD_PORT),
        format!("--etcd-cafile={}", layout.pki("etcd-ca.crt")),
        format!(
            "--etcd-certfile={}",
            layout.pki("apiserver-etcd-client.crt")
        ),
        format!("--etcd-keyfile={}", layout.pki("apiserver-etcd-client.key")),
        format!("--kubelet-certificate-authority={}", layout.pki("ca.crt")),
        format!(
            "--kubelet-client-certificate={}",
            layout.pki("apiserver-kubelet-client.crt")
        ),
        format!(
            "--kubelet-client-key={}",
            layout.pki("apiserver-kubelet-client.key")
        ),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!(
            "--proxy-client-cert-file={}",
            layout.pki("front-proxy-client.crt")
        ),
        format!(
            "--proxy-client-key-file={}",
            layout.pki("front-proxy-client.key")
        ),
        format!(
            "--requestheader-client-ca-file={}",
            layout.pki("front-proxy-ca.crt")
        ),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!(
            "--service-account-key-file={}",
            layout.pki("service-account.pub")
        ),
        format!(
            "--service-account-signing-key-file={}",
            layout.pki("service-account.key")
        ),
        format!("--service-cluster-ip-range={}", net::SERVICE_CIDR),
        format!("--admission-control-config-file={}", layout.text(ADMISSION)),
        format!("--audit-policy-file={}", layout.text("audit-policy.yaml")),
        format!("--audit-log-path={}", layout.text("audit.log")),
        // Megabytes: one file, for readers that replay it.
        "--audit-log-maxsize=16384".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn kube_controller_manager(layout: &Layout) -> Vec<String> {
    let mut flags = control_plane(layout, "controller-manager");
    flags.extend([
        "--use-service-account-credentials=true".to_owned(),
        "--allocate-node-cidrs=true".to_owned(),
        format!("--cluster-cidr={}", net::POD_CIDR),
        format!("--service-cluster-ip-range={}", net::SERVICE_CIDR),
        format!("--root-ca-file={}", layout.pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", layout.pki("ca.crt")),
        format!("--cluster-signing-key-file={}", layout.pki("ca.key")),
        format!(
            "--service-account-private-key-file={}",
            layout.pki("service-account.key")
        ),
    ]);
    flags
}

fn kube_scheduler(layout: &Layout) -> Vec<String> {
    control_plane(layout, "scheduler")
}

/// The common arguments of the two controllers of the control plane.
fn control_plane(layout: &Layout, identity: &str) -> Vec<String> {
    let kubeconfig = layout.text(&format!("{identity}.kubeconfig"));
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!(
            "--tls-cert-file={}",
            layout.pki(&format!("{identity}-serving.crt"))
        ),
        format!(
            "--tls-private-key-file={}",
            layout.pki(&format!("{identity}-serving.key"))
        ),
        format!("--client-ca-file={}", layout.pki("ca.crt")),
        format!(
            "--requestheader-client-ca-file={}",
            layout.pki("front-proxy-ca.crt")
        ),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

fn kubelet(layout: &Layout, name: &ClusterName) -> Vec<String> {
    vec![
        format!("--config={}", layout.text("kubelet.yaml")),
        format!("--kubeconfig={}", layout.text("kubelet.kubeconfig")),
        format!("--root-dir={}", layout.text("kubelet")),
        format!("--cert-dir={}", layout.text("kubelet/pki")),
        format!("--hostname-override={}", name.node()),
        format!("--node-ip={}", net::NODE_IP),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_is_found_by_its_name() {
        for component in Component::ALL {
            assert_eq!(component.name().parse(), Ok(component));
        }
    }

    #[test]
    fn an_unknown_component_is_answered_with_the_known_ones() {
        let text = "etdc".parse::<Component>().unwrap_err().to_string();
        assert!(
            text.starts_with("no component `etdc`; there are: etcd, kube-apiserver"),
            "{text}"
        );
    }
}
