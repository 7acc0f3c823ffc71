//! A random world: the objects of a cluster, and a changed set of policies. It comes from a seed.

use std::collections::BTreeMap;

use campaign::stage::{APPS, MORE_APPS, MORE_TOOLS, TOOLS, approver};
use connectors_api::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::policies;

pub(crate) const OURS: &str = "connectors.alauda.io/v1alpha1";
/// The connectors that policies name. Pods also ask for one that is nowhere.
pub(crate) const CONNECTORS: [&str; 3] = ["harbor", "gitlab", "nexus"];
/// The label of namespaces by which subjects may be selected.
pub(crate) const TEAM: &str = "team";

/// One pod's attempt to use one connector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ask {
    /// The pod's namespace.
    pub(crate) home: String,
    pub(crate) pod: String,
    pub(crate) account: String,
    /// The connector's namespace.
    pub(crate) owner: String,
    pub(crate) connector: String,
    pub(crate) permission: Permission,
}

/// An event after the first policies had their effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Meanwhile {
    /// A pod is being deleted, and stays.
    PodGoes(String, String),
    /// A pod ran to its end.
    PodEnds(String, String),
    /// An approval says another word.
    Decided(String, String, String),
    /// The request of this number is deleted, and stays.
    RequestGoes(usize),
    /// A connector is being deleted, and stays.
    ConnectorGoes(String, String),
    /// A connector is deleted and made again.
    ConnectorReplaced(String, String),
}

/// A world, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// Further values of the installation's `ConfigMap`.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) objects: Vec<Value>,
    /// The first policies.
    pub(crate) policies: Vec<Value>,
    pub(crate) asks: Vec<Ask>,
    pub(crate) meanwhile: Vec<Meanwhile>,
    /// The policies of the files: in place of those of the same name, or beside them.
    pub(crate) files: Vec<Value>,
    /// The policies that are deleted, as namespace and name.
    pub(crate) removed: Vec<(String, String)>,
    /// The dimensions that the generator used, for the count.
    pub(crate) marks: Vec<String>,
}

impl World {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let dice = &mut dice;
        let mut world = Self {
            seed,
            settings: BTreeMap::new(),
            objects: Vec::new(),
            policies: Vec::new(),
            asks: Vec::new(),
            meanwhile: Vec::new(),
            files: Vec::new(),
            removed: Vec::new(),
            marks: Vec::new(),
        };
        world.settings(dice);
        world.places(dice);
        world.connectors(dice);
        world.pods(dice);
        world.policies(dice);
        world.events(dice);
        world
    }

    /// As a document that `WORLD` takes back.
    pub(crate) fn written(&self) -> String {
        serde_yaml::to_string(self).unwrap()
    }

    fn mark(&mut self, mark: &str) {
        self.marks.push(mark.to_owned());
    }

    fn settings(&mut self, dice: &mut Dice) {
        let keys = json!(["kubernetes.io/metadata.name", TEAM]).to_string();
        self.settings
            .insert("namespace-selector-keys".to_owned(), keys);
        if dice.percent(8) {
            self.mark("approvals are off");
            let key = "enable-connectors-approval".to_owned();
            self.settings.insert(key, "false".to_owned());
        }
        if dice.percent(15) {
            self.mark("every pod may ask by default");
            let key = "default-requesters".to_owned();
            self.settings.insert(key, "Any".to_owned());
        }
    }

    fn places(&mut self, dice: &mut Dice) {
        for namespace in [TOOLS, APPS, MORE_TOOLS, MORE_APPS] {
            let mut labels = json!({"kubernetes.io/metadata.name": namespace});
            if dice.percent(50) {
                labels[TEAM] = "x".into();
            }
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels},
            }));
        }
        for namespace in [TOOLS, APPS, MORE_APPS] {
            for name in ["builder", "default"] {
                let labels = if dice.percent(50) {
                    json!({"role": "ci"})
                } else {
                    json!({})
                };
                self.objects.push(json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": name, "namespace": namespace, "labels": labels},
                }));
            }
        }
    }

    fn connectors(&mut self, dice: &mut Dice) {
        for (namespace, name) in CONNECTORS
            .map(|it| (TOOLS, it))
            .into_iter()
            .chain([(MORE_TOOLS, CONNECTORS[0])])
        {
            if dice.percent(8) {
                self.mark("a connector is missing");
                continue;
            }
            let labels = dice.pick(&[json!({}), json!({"form": "oci"}), json!({"form": "git"})]);
            let class = dice.pick(&["harbor", "generic"]);
            self.objects.push(json!({
                "apiVersion": OURS, "kind": "Connector",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "spec": {"connectorClassName": class},
            }));
        }
    }

    fn pods(&mut self, dice: &mut Dice) {
        for number in 0..dice.number(1, 4) {
            let (pod, home) = (
                format!("pod-{number}"),
                dice.pick(&[APPS, APPS, MORE_APPS, TOOLS]),
            );
            let account = dice.pick(&["builder", "builder", "default"]);
            let mut labels = json!({});
            if dice.percent(70) {
                labels["change"] = format!("chg-{number}").into();
            }
            self.objects.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": pod, "namespace": home, "labels": labels},
                "spec": {"serviceAccountName": account, "containers": [{"name": "main", "image": "main"}]},
                "status": {"phase": "Pending"},
            }));
            self.approvals(dice, home, number);
            let owner = if dice.percent(92) { TOOLS } else { MORE_TOOLS };
            let mut connectors = dice.some(&CONNECTORS, 25);
            if connectors.is_empty() {
                connectors.push(CONNECTORS[0]);
            }
            for connector in connectors {
                let permission = if dice.percent(93) {
                    Permission::Apis
                } else {
                    Permission::Proxy
                };
                self.asks.push(Ask {
                    home: home.to_owned(),
                    pod: pod.clone(),
                    account: account.to_owned(),
                    owner: owner.to_owned(),
                    connector: connector.to_owned(),
                    permission,
                });
            }
        }
    }

    /// The approvals of a pod: by its name, or by its change.
    fn approvals(&mut self, dice: &mut Dice, home: &str, number: usize) {
        let words = [
            "approved", "approved", "approved", "passed", "pending", "rejected", "odd",
        ];
        let kinds = ["Signoff", "Signoff", "ConfigMap", "ApprovalTask", "Freeze"];
        for (place, kind) in kinds.into_iter().enumerate() {
            if dice.percent(25) {
                continue;
            }
            let word = dice.pick(&words);
            let (key, value) = if dice.percent(85) {
                ("run", format!("pod-{number}"))
            } else {
                ("change", format!("chg-{number}"))
            };
            let metadata = json!({
                "name": format!("of-{number}-{place}"), "namespace": home, "labels": {key: value},
            });
            self.objects.push(match kind {
                "ConfigMap" => json!({
                    "apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"state": word},
                }),
                "ApprovalTask" => {
                    let input = if word == "approved" { "approve" } else { "pending" };
                    let user = dice.pick(&["ada", "bob"]);
                    json!({
                        "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": kind, "metadata": metadata,
                        "spec": {"approvers": [approver(user, input)], "numberOfApprovalsRequired": 1},
                        "status": {"state": if word == "approved" { word } else { "pending" }},
                    })
                }
                _ => json!({
                    "apiVersion": "example.com/v1", "kind": kind, "metadata": metadata,
                    "spec": {"type": dice.pick(&["window", "sign"])}, "status": {"state": word},
                }),
            });
        }
    }

    fn policies(&mut self, dice: &mut Dice) {
        for number in 0..dice.pick(&[0, 1, 2, 2, 3, 3, 4]) {
            let namespace = if dice.percent(92) { TOOLS } else { MORE_TOOLS };
            let policy = policies::policy(dice, namespace, &format!("policy-{number}"));
            if dice.percent(10) {
                self.mark("a policy is unreadable");
                self.policies.push(policies::unreadable(policy));
            } else {
                self.policies.push(policy);
            }
        }
        for policy in self.policies.clone() {
            if dice.percent(65) {
                let (edited, mark) = policies::edited(dice, &policy);
                self.mark(&format!("edit: {mark}"));
                self.files.push(edited);
            }
        }
        let is_empty = self.files.is_empty();
        for number in 0..dice.number(usize::from(is_empty), 2) {
            let namespace = if dice.percent(92) { TOOLS } else { MORE_TOOLS };
            self.mark("edit: a new policy");
            self.files
                .push(policies::policy(dice, namespace, &format!("new-{number}")));
        }
        for policy in &self.policies {
            let text = |policy: &Value, field: &str| {
                policy["metadata"][field].as_str().unwrap().to_owned()
            };
            let name = (text(policy, "namespace"), text(policy, "name"));
            let is_edited = |it: &Value| (text(it, "namespace"), text(it, "name")) == name;
            if !self.files.iter().any(is_edited) && dice.percent(60) {
                self.removed.push(name);
            }
        }
        for _ in 0..self.removed.len() {
            self.mark("edit: a policy is removed");
        }
        if dice.percent(6) {
            self.mark("edit: an unreadable file");
            let policy = policies::policy(dice, TOOLS, "wrong");
            self.files.push(policies::unreadable(policy));
        }
    }

    fn events(&mut self, dice: &mut Dice) {
        let mut events = Vec::new();
        for object in &self.objects {
            let text = |field: &str| {
                object["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let (namespace, name) = (text("namespace"), text("name"));
            match object["kind"].as_str().unwrap() {
                "Pod" if dice.percent(5) => events.push(Meanwhile::PodGoes(namespace, name)),
                "Pod" if dice.percent(5) => events.push(Meanwhile::PodEnds(namespace, name)),
                "Signoff" if dice.percent(15) => {
                    let word = dice.pick(&["approved", "rejected", "pending"]).to_owned();
                    events.push(Meanwhile::Decided(namespace, name, word));
                }
                _ => {}
            }
        }
        if dice.percent(5) {
            events.push(Meanwhile::RequestGoes(0));
        }
        for object in &self.objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let name = || (text("namespace").to_owned(), text("name").to_owned());
            if object["kind"] != "Connector" {
                continue;
            }
            if dice.percent(3) {
                let (namespace, name) = name();
                events.push(Meanwhile::ConnectorGoes(namespace, name));
            } else if dice.percent(4) {
                let (namespace, name) = name();
                events.push(Meanwhile::ConnectorReplaced(namespace, name));
            }
        }
        for event in &events {
            self.mark(match event {
                Meanwhile::PodGoes(..) => "a pod is being deleted",
                Meanwhile::PodEnds(..) => "a pod ended",
                Meanwhile::Decided(..) => "an approval changed",
                Meanwhile::RequestGoes(_) => "a request is being deleted",
                Meanwhile::ConnectorGoes(..) => "a connector is being deleted",
                Meanwhile::ConnectorReplaced(..) => "a connector is another one",
            });
        }
        self.meanwhile = events;
    }
}
