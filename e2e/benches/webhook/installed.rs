//! The webhook as an API server calls it: its process, its service, and the configurations of the chart.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::{Deadline, install, poll};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::support::connection::Connection;
use crate::support::place::Place;
use crate::support::process::{Process, free_address};

/// How long the API server may take to call a newly registered webhook.
const PATIENCE: Duration = Duration::from_mins(1);
/// Namespaces with this label are the webhook's; the others are as if there were none.
const LABEL: &str = "bench-webhook";

/// A running webhook that the API server calls for the objects of one namespace.
pub(crate) struct Installed<'a> {
    pub(crate) replica: Replica<'a>,
    configurations: Vec<String>,
}

/// A process of the webhook.
pub(crate) struct Replica<'a> {
    place: &'a Place,
    pub(crate) process: Process,
    port: u16,
}

impl<'a> Installed<'a> {
    /// Starts it and has the API server call it, as the chart says, for the namespace that carries its label.
    pub(crate) fn new(place: &'a Place) -> Self {
        let port = free_address().port();
        let configurations = configure(place, port);
        Self {
            replica: Replica::start(place, &place.kubeconfig, port),
            configurations,
        }
    }

    /// Waits until the API server calls it: a connector gets the label of its class then.
    pub(crate) fn wait(&self, connector: &Value) {
        let place = self.replica.place;
        let words = format!(
            "--namespace {} create --dry-run=server -o jsonpath={{.metadata.labels}} -f -",
            place.namespace
        );
        let is_labelled = || match place.kubectl.run_with_input(&words, &connector.to_string()) {
            Ok(labels) if labels.contains("harbor") => Ok(()),
            Ok(labels) => Err(format!("its labels are {labels:?}")),
            Err(error) => Err(error.to_string()),
        };
        poll(
            "a labelled connector",
            Deadline::after(PATIENCE),
            is_labelled,
        )
        .unwrap();
    }
}

impl<'a> Replica<'a> {
    /// A replica that the API server does not call, with another way to the API server.
    pub(crate) fn beside(place: &'a Place, kubeconfig: &Path) -> Self {
        Self::start(place, kubeconfig, free_address().port())
    }

    fn start(place: &'a Place, kubeconfig: &Path, port: u16) -> Self {
        let namespace = &place.namespace;
        let token = place.file("token");
        fs::write(&token, "none").unwrap();
        let process = Process::start(
            "webhook",
            &[
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--namespace={namespace}"),
                format!("--listen-address=0.0.0.0:{port}"),
                format!("--mutating-configuration={namespace}"),
                format!("--validating-configuration={namespace}"),
                format!("--node-plugin-account={NODE_PLUGIN}"),
                // No policy here has Rego, so that it never asks the evaluation service.
                "--evaluation-url=https://localhost:1".to_owned(),
                format!("--evaluation-token={}", token.display()),
            ],
        );
        Self {
            place,
            process,
            port,
        }
    }

    /// Connections as an API server keeps them, each for one call at a time.
    pub(crate) async fn connect(&self, count: usize) -> Vec<Connection> {
        let words = "get configmap connectors-ca -o jsonpath={.data.ca\\.crt}";
        let Place {
            kubectl, namespace, ..
        } = self.place;
        let bundle = kubectl.run(&format!("--namespace {namespace} {words}"));
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(bundle.unwrap().as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        let tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = format!("webhook.{namespace}.svc");
        let mut connections = Vec::new();
        for _ in 0..count {
            let connection = Connection::over_tls(self.port, tls.clone(), name.clone());
            connections.push(connection.await);
        }
        connections
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        for name in &self.configurations {
            if let Err(error) = self.replica.place.kubectl.run(&format!("delete {name}")) {
                eprintln!("{name} stays: {error}");
            }
        }
    }
}

/// The user name of the node plugin.
pub(crate) const NODE_PLUGIN: &str = "system:serviceaccount:connectors-system:csi-node";

/// A service that leads to this machine, and the configurations of the chart with names of this run.
fn configure(place: &Place, port: u16) -> Vec<String> {
    let Place {
        kubectl, namespace, ..
    } = place;
    kubectl
        .run(&format!("label namespace {namespace} {LABEL}={namespace}"))
        .unwrap();
    let address = "get nodes -o jsonpath={.items[0].status.addresses[0].address}";
    let address = kubectl.run(address).unwrap();
    let ports = json!([{"name": "https", "port": 443, "targetPort": port}]);
    let endpoints = json!([{"name": "https", "port": port}]);
    let leads = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook", "namespace": namespace},
            "spec": {"ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "webhook", "namespace": namespace, "labels": {"kubernetes.io/service-name": "webhook"},
            },
            "ports": endpoints, "endpoints": [{"addresses": [address]}],
        },
    ]});
    kubectl.apply(&leads.to_string()).unwrap();
    let values = json!({"image": {"registry": "none.example.com"}});
    let only = ["--show-only", "templates/webhook/configurations.yaml"];
    let rendered = install::render(&values, &only).unwrap();
    let adapt = |mut object: Value| {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        object["metadata"]["name"] = json!(namespace);
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["service"]["namespace"] = json!(namespace);
            webhook["namespaceSelector"] = json!({"matchLabels": {LABEL: namespace}});
        }
        kubectl.apply(&object.to_string()).unwrap();
        format!("{kind} {namespace}")
    };
    rendered.into_iter().map(adapt).collect()
}
