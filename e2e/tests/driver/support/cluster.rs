//! The API server, with what the driver and the evaluation service read there.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{ApiServer, Caller, Kind, ServedPort, TokenFacts};

/// The namespace of the installation.
pub(super) const INSTALLATION: &str = "connectors-system";
/// The node that the driver is on.
pub(super) const NODE: &str = "node-1";
/// The name of the driver.
pub(super) const DRIVER: &str = "connectors-csi";
/// The namespace of the connector, and of the pods.
const NAMESPACE: &str = "tools";
const CONNECTOR: &str = "harbor";
const ACCOUNT: &str = "builder";

/// A moment of the API server's clock, which no test looks at.
const START: &str = "2026-01-01T00:00:00Z";

/// An API server, and the ports of those who read from it.
pub(crate) struct Cluster {
    api: ApiServer,
    ports: Vec<ServedPort>,
}

/// A pod that mounts the connector, with its own token for the driver.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) token: String,
}

impl Cluster {
    /// The installation, and one connector without permissions.
    pub(crate) fn new(is_gated: bool) -> Self {
        let api = ApiServer::new(START.parse().unwrap());
        api.register(Kind {
            group: "storage.k8s.io".to_owned(),
            version: "v1".to_owned(),
            kind: "CSIDriver".to_owned(),
            plural: "csidrivers".to_owned(),
            namespaced: false,
            status: false,
        });
        for object in objects(is_gated) {
            api.create(object);
        }
        let ports = Vec::new();
        Self { api, ports }
    }

    /// Lets a service in, by the kubeconfig in its folder.
    pub(super) async fn admit(&mut self, process: &str, dir: &Path) {
        let caller = Caller {
            process: process.to_owned(),
            ..Caller::admin()
        };
        let port = self.api.listen(&caller).await.unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "memory",
            "clusters": [{"name": "memory", "cluster": {"server": port.url()}}],
            "users": [{"name": "service", "user": {}}],
            "contexts": [{"name": "memory", "context": {"cluster": "memory", "user": "service"}}],
        });
        fs::write(dir.join("kubeconfig"), kubeconfig.to_string()).unwrap();
        self.ports.push(port);
    }

    /// The driver's own token for the evaluation service.
    pub(super) fn token_of_driver(&self) -> String {
        self.api.issue_token(TokenFacts {
            user: format!("system:serviceaccount:{INSTALLATION}:csi-node"),
            audiences: vec!["connectors-evaluation".to_owned()],
            ..TokenFacts::default()
        })
    }

    /// A new pod on the driver's node.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        let uid = format!("uid-{name}");
        self.api.create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": uid},
            "spec": {"nodeName": NODE, "serviceAccountName": ACCOUNT},
        }));
        let token = self.api.issue_token(TokenFacts {
            user: format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"),
            audiences: vec!["connectors.alauda.io".to_owned()],
            pod: Some((name.to_owned(), uid.clone())),
            node: Some(NODE.to_owned()),
            ..TokenFacts::default()
        });
        Pod {
            name: name.to_owned(),
            uid,
            token,
        }
    }

    /// How many requests pods have made.
    pub(crate) fn requests(&self) -> usize {
        self.api.list("accessrequests.connectors.alauda.io").len()
    }
}

impl Pod {
    /// The context of its volume, as the kubelet makes it.
    pub(crate) fn context(&self) -> Value {
        json!({
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.name": self.name,
            "csi.storage.k8s.io/pod.namespace": NAMESPACE,
            "csi.storage.k8s.io/pod.uid": self.uid,
            "csi.storage.k8s.io/serviceAccount.name": ACCOUNT,
            "connectors": CONNECTOR,
        })
    }

    /// The secrets of a call for it, as the kubelet makes them.
    pub(crate) fn secrets(&self) -> Value {
        let tokens =
            json!({"connectors.alauda.io": {"token": self.token, "expirationTimestamp": START}});
        json!({"csi.storage.k8s.io/serviceAccount.tokens": tokens.to_string()})
    }
}

fn objects(is_gated: bool) -> Vec<Value> {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let rule = json!({"apiGroups": ["connectors.alauda.io"], "resources": ["evaluations/mount"], "verbs": ["create"]});
    vec![
        namespace(INSTALLATION),
        namespace(NAMESPACE),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": INSTALLATION, "name": "connectors-config"},
            "data": {"enable-connectors-approval": is_gated.to_string()},
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {
                "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"],
                "requiresRepublish": true, "tokenRequests": [{"audience": "connectors.alauda.io"}],
            },
        }),
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"namespace": NAMESPACE, "name": CONNECTOR},
            "spec": {"connectorClassName": "oci", "address": "https://harbor.example.com"},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "csi-node"}, "rules": [rule],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "csi-node"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "csi-node"},
            "subjects": [{"kind": "ServiceAccount", "namespace": INSTALLATION, "name": "csi-node"}],
        }),
    ]
}
