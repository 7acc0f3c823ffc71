//! Namesakes: namespaces, accounts, connectors, pods and requests whose names begin like those of the
//! scenario, or are the same in another namespace.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{APPS, CONNECTOR, OURS, SIGNOFF, Stage, TOOLS};

/// A second namespace of connectors.
pub const MORE_TOOLS: &str = "tools-1";
/// A second namespace of pods.
pub const MORE_APPS: &str = "apps-1";
/// The namespaces of connectors.
pub const OWNERS: [&str; 2] = [TOOLS, MORE_TOOLS];
/// The namespaces of pods.
pub const ASKERS: [&str; 2] = [APPS, MORE_APPS];

/// An asking pod, and the connector it asks for.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The namespace of the connector, its policies and its requests.
    pub owner: &'static str,
    /// The connector.
    pub connector: &'static str,
    /// The namespace of the pod.
    pub home: &'static str,
    /// The account of the pod.
    pub account: &'static str,
    /// The pod.
    pub pod: &'static str,
    /// The request.
    pub request: &'static str,
}

impl Asker {
    /// The one that scenarios are about.
    pub const USUAL: Self = Self {
        owner: TOOLS,
        connector: CONNECTOR,
        home: APPS,
        account: "builder",
        pod: "deploy",
        request: "for-deploy",
    };
}

impl Stage {
    /// Creates the namespaces and accounts of namesakes.
    pub fn namesakes(&self) {
        for namespace in [MORE_TOOLS, MORE_APPS] {
            self.put(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
        }
        for (namespace, name) in [(APPS, "builder-1"), (APPS, "build"), (MORE_APPS, "builder")] {
            self.put(json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            }));
        }
    }

    /// The connector of an asker.
    pub fn connector_of(&self, asker: Asker) {
        self.put(json!({
            "apiVersion": OURS, "kind": "Connector",
            "metadata": {"name": asker.connector, "namespace": asker.owner},
            "spec": {"connectorClassName": "harbor"},
        }));
    }

    /// A policy for this asker only. Objects that carry the pod's name under this label approve it.
    pub fn policy_of(&self, name: &str, label: &str, asker: Asker) {
        let Asker {
            owner,
            connector,
            home,
            account,
            ..
        } = asker;
        self.put(json!({
            "apiVersion": OURS, "kind": "AccessPolicy",
            "metadata": {"name": name, "namespace": owner, "uid": format!("policy-{owner}-{name}")},
            "spec": {
                "permission": "apis", "connector": {"names": [connector]},
                "checkGrantedPermission": {
                    "requesters": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
                    "spec": {
                        "checks": [{"name": "approval", "selector": {
                            "labels": {label: "{.object.metadata.name}"},
                            "objectRef": {"apiVersion": SIGNOFF, "kind": "Signoff"},
                        }}],
                        "permissions": {"roleTemplate": {"rules": [{
                            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                            "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                        }]}},
                    },
                },
            },
        }));
    }

    /// Creates the pod, unless it exists, and its request.
    pub fn asks(&self, asker: Asker) {
        let Asker {
            owner,
            connector,
            home,
            account,
            pod,
            request,
        } = asker;
        let there = || self.server.get("pods", home, pod);
        if there().is_none() {
            self.put(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": pod, "namespace": home},
                "spec": {"serviceAccountName": account, "containers": [{"name": "main", "image": "main"}]},
                "status": {"phase": "Pending"},
            }));
        }
        let uid = there().map(|it| it["metadata"]["uid"].clone());
        self.put(json!({
            "apiVersion": OURS, "kind": "AccessRequest",
            "metadata": {
                "name": request, "namespace": owner,
                "uid": format!("request-{}", self.requests.fetch_add(1, Ordering::SeqCst)),
            },
            "spec": {
                "subject": {"kind": "ServiceAccount", "namespace": home, "name": account},
                "connectorRef": {"name": connector},
                "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": home, "name": pod, "uid": uid}},
                "permission": "apis",
            },
        }));
    }

    /// An approval in a pod's namespace, with the pod's name under this label.
    pub fn signoff_in(&self, namespace: &str, name: &str, label: &str, pod: &str, state: &str) {
        self.put(json!({
            "apiVersion": SIGNOFF, "kind": "Signoff",
            "metadata": {"name": name, "namespace": namespace, "labels": {label: pod}},
            "status": {"state": state},
        }));
    }

    /// The phase of an asker's request; empty when there is none.
    #[must_use]
    pub fn phase_of(&self, asker: Asker) -> String {
        let request = self
            .server
            .get("accessrequests", asker.owner, asker.request)
            .unwrap_or_default();
        let phase = request["status"]["phase"].as_str();
        phase.unwrap_or_default().to_owned()
    }

    /// The number of managed objects of an asker's request: two when it is granted, none while it waits.
    #[must_use]
    pub fn held_by(&self, asker: Asker) -> usize {
        let request = self
            .server
            .get("accessrequests", asker.owner, asker.request)
            .unwrap_or_default();
        let label = "connectors.alauda.io/accessRequestUid";
        let is_its = |it: &Value| {
            it["metadata"]["labels"][label] == request["metadata"]["uid"]
                && it["metadata"]["namespace"] == asker.owner
        };
        let all = ["roles", "rolebindings"].map(|plural| self.given(plural));
        all.iter().flatten().filter(|it| is_its(it)).count()
    }

    /// Deletes an object that stays because of a finalizer.
    pub fn delete_and_keep(&self, plural: &str, namespace: &str, name: &str) {
        if self.server.get(plural, namespace, name).is_none() {
            return;
        }
        self.server.change(plural, namespace, name, |it| {
            it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
        });
        self.server.delete(plural, namespace, name);
    }

    /// Removes the finalizer.
    pub fn let_go(&self, plural: &str, namespace: &str, name: &str) {
        if self.server.get(plural, namespace, name).is_none() {
            return;
        }
        self.server.change(plural, namespace, name, |it| {
            it["metadata"]["finalizers"] = json!([]);
        });
    }

    /// Rewrites an object with the same content.
    pub fn write_again(&self, plural: &str, namespace: &str, name: &str) {
        if self.server.get(plural, namespace, name).is_none() {
            return;
        }
        self.server.change(plural, namespace, name, |it| {
            let count = it["metadata"]["annotations"]["count"]
                .as_str()
                .map(str::len);
            let more = "x".repeat(count.unwrap_or_default() + 1);
            it["metadata"]["annotations"] = json!({"count": more});
        });
    }
}
