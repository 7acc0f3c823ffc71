//! Where the figures are taken: inside the network of a local cluster, with its administrator's rights.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, process};

use e2e::{Cluster, ClusterName, Component, Deadline, Kubectl, install, poll};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;
use tempfile::TempDir;

use super::process::Running;

/// How long the API server may take to come back.
const PATIENCE: Duration = Duration::from_mins(2);

/// To be called inside the runtime that is to use it.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// A namespace of this run in a cluster, and the way to it.
pub(crate) struct Place {
    pub(crate) kubectl: Kubectl,
    /// Leads straight to the API server.
    pub(crate) kubeconfig: PathBuf,
    /// The connectors' namespace.
    pub(crate) namespace: String,
    /// The files of this run.
    pub(crate) files: TempDir,
    /// The process of the API server.
    pub(crate) api_server: Running,
}

impl Place {
    /// To be called before this process has threads: they, and the processes that it starts, are to be in
    /// the cluster's network. The forwarder that leads in from outside would be measured as well.
    pub(crate) fn enter() -> Self {
        let variable = |name: &str| {
            env::var(name)
                .unwrap_or_else(|_| panic!("{name} is not set: run this with `cargo xtask bench`"))
        };
        let name: ClusterName = variable("E2E_CLUSTER").parse().unwrap();
        let cluster = Cluster::find(&name).unwrap().expect("the cluster is up");
        let kubectl = cluster.kubectl();
        install::api(&kubectl).unwrap();
        without_audit(&cluster, &name);
        let files = TempDir::new().unwrap();
        let (api_server, port) = api_server(&cluster);
        let network = File::open(format!("/proc/{}/ns/net", api_server.id())).unwrap();
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let mut config = Kubeconfig::read_from(kubectl.kubeconfig()).unwrap();
        let named = config
            .clusters
            .first_mut()
            .and_then(|it| it.cluster.as_mut());
        named.unwrap().server = Some(format!("https://127.0.0.1:{port}"));
        let kubeconfig = files.path().join("kubeconfig");
        fs::write(&kubeconfig, serde_yaml::to_string(&config).unwrap()).unwrap();
        let kubectl = Kubectl::new(kubectl.program(), &kubeconfig)
            .with_cache(files.path().join("kubectl-cache"));
        let namespace = format!("bench-{}", process::id());
        kubectl.create_namespace(&namespace, &[]).unwrap();
        Self {
            kubectl,
            kubeconfig,
            namespace,
            files,
            api_server,
        }
    }

    /// The administrator: nothing that the API server limits by priority holds for it.
    pub(crate) async fn client(&self) -> Client {
        client(&self.kubeconfig).await
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// A token of a service account of this run, which may ask about its namespace.
    pub(crate) fn token(&self, account: &str) -> PathBuf {
        self.token_in(&self.namespace, account)
    }

    /// The same in another namespace.
    pub(crate) fn token_in(&self, namespace: &str, account: &str) -> PathBuf {
        let run = |words: &str| {
            self.kubectl
                .run(&format!("--namespace {namespace} {words}"))
        };
        run(&format!("create serviceaccount {account}")).unwrap();
        self.role(namespace, account);
        run(&format!(
            "create rolebinding {account} --role={account} --serviceaccount={namespace}:{account}"
        ))
        .unwrap();
        let token = run(&format!(
            "create token {account} --audience connectors-evaluation --duration 4h"
        ));
        let file = self.file(&format!("{namespace}-{account}"));
        fs::write(&file, token.unwrap()).unwrap();
        file
    }

    /// kubectl makes roles only for resources that the API server serves, and it does not serve
    /// `evaluations`.
    fn role(&self, namespace: &str, name: &str) {
        let may_ask = json!({
            "apiGroups": ["connectors.alauda.io"], "resources": ["evaluations"], "verbs": ["create"],
        });
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": namespace}, "rules": [may_ask],
        });
        self.kubectl.apply(&role.to_string()).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let namespace = &self.namespace;
        let words = format!("delete namespace {namespace} --wait=false");
        if let Err(error) = self.kubectl.run(&words) {
            eprintln!("namespace {namespace} stays: {error}");
        }
    }
}

/// The local cluster writes every review to its audit log, whole, as few others do.
fn without_audit(cluster: &Cluster, name: &ClusterName) {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
    });
    let file = cluster.audit_log().with_file_name("audit-policy.yaml");
    fs::write(file, policy.to_string()).unwrap();
    Cluster::restart(name, Component::KubeApiserver).unwrap();
    let kubectl = cluster.kubectl();
    let ready = || {
        kubectl
            .run("get --raw /readyz")
            .map_err(|error| error.to_string())
    };
    poll("the API server", Deadline::after(PATIENCE), ready).unwrap();
}

/// The process of the cluster's API server, and its port.
fn api_server(cluster: &Cluster) -> (Running, u16) {
    let log = format!("--audit-log-path={}", cluster.audit_log().display());
    let port = |process: &Running| {
        let line = process.arguments()?;
        let mut words = line.split('\0');
        let is_it = line.split('\0').any(|word| word == log);
        let port = words.find_map(|word| word.strip_prefix("--secure-port="));
        port.filter(|_| is_it)?.parse().ok()
    };
    let processes = Running::all();
    let mut found = processes.filter_map(|it| port(&it).map(|port| (it, port)));
    found.next().expect("the API server runs on this machine")
}
