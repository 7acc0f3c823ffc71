//! Requests made by hand: the fields that the admission of a request adds, and the refused users.

use std::collections::BTreeMap;

use e2e::{
    ApiError, ApiUser,
    api::kinds::{ACCESS_REQUEST, POD},
    install::NAMESPACE,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR, Gate,
    rights::{self, RightHolder, RightRule},
};

/// May ask for access, and see no pod.
const STRANGER: &str = "stranger";

#[test]
fn a_request_made_by_hand_is_filled_in_and_used_by_the_mount() {
    let gate = Gate::new("request-by-hand");
    gate.scene().start_pod("plain", &["wait"]).unwrap();
    gate.scene().wait_for_running("plain");
    let stored = gate.create(&gate.hand_made("mine", "plain")).unwrap();
    assert_eq!(
        stored["spec"]["context"]["objectRef"]["uid"],
        gate.pod_uid("plain")
    );
    assert_eq!(
        stored["spec"]["connectorRef"]["namespace"],
        gate.namespace()
    );
    let labels = &stored["metadata"]["labels"];
    assert_eq!(
        labels["connectors.cpaas.io/contextObjectUID"],
        gate.pod_uid("plain")
    );
    assert_eq!(labels["connectors.cpaas.io/contextObjectName"], "plain");
    assert_eq!(labels["connectors.cpaas.io/connector"], CONNECTOR);
    // It follows its policies like any other.
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "plain", Approval::SignOff, "approved");
    gate.wait_for_phase("plain", "Granted");
    gate.wait_for_access("plain");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    name: String,
    #[serde(default, rename = "as")]
    author: Option<Author>,
    #[serde(default)]
    pod: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    message: String,
    held_by: HeldBy,
    /// The same for the accepted request.
    #[serde(default)]
    neighbour: Attempt,
}

impl Case {
    fn refused(&self) -> Attempt {
        Attempt {
            author: self.author,
            pod: self.pod.clone(),
            set: self.set.clone(),
        }
    }
}

/// The differences of a request from the plain one.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Attempt {
    #[serde(rename = "as")]
    author: Option<Author>,
    pod: Option<String>,
    /// Fields of the spec, by their paths.
    set: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Author {
    Stranger,
    /// The node plugin's account without the claim of a node, as a token that was taken elsewhere would have it.
    Plugin,
    PluginElsewhere,
    PluginHere,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HeldBy {
    Webhook,
    Policy,
    Schema,
}

/// The pods of the cases, and a user that may request but may not see pods.
pub(crate) struct Table<'a> {
    gate: &'a Gate,
    node: String,
}

impl<'a> Table<'a> {
    pub(crate) fn set(gate: &'a Gate) -> Self {
        let scene = gate.scene();
        scene.start_pod("plain", &["wait"]).unwrap();
        scene.start_pod("over", &["say", "done"]).unwrap();
        scene.start_pod("going", &["wait"]).unwrap();
        assert_eq!(scene.wait_for_end("over"), "Succeeded");
        scene.wait_for_running("going");
        scene.wait_for_running("plain");
        keep(gate, &json!(["e2e.example.com/kept"])).unwrap();
        gate.delete(POD, "going");
        let create = RightRule {
            group: "connectors.alauda.io",
            resource: "accessrequests",
            name: None,
            verbs: &["create"],
        };
        rights::give(gate, "requests", &[create], RightHolder::User(STRANGER));
        let plain = gate.object(POD, "plain");
        Self {
            gate,
            node: plain["spec"]["nodeName"].as_str().unwrap().to_owned(),
        }
    }

    /// The API server's answer to an attempt, as a dry run.
    fn attempt(&self, attempt: &Attempt) -> Result<(), String> {
        let own = self.gate.namespace();
        let pod = attempt.pod.as_deref().unwrap_or("plain");
        let mut request = self.gate.hand_made("tried", pod);
        for (path, value) in &attempt.set {
            let (parent, field) = path.rsplit_once('/').unwrap();
            let parent = request["spec"].pointer_mut(parent).unwrap();
            parent[field] = if value == "NAMESPACE" {
                json!(own)
            } else {
                value.clone()
            };
        }
        let plugin = || ApiUser::service_account(NAMESPACE, "csi-node");
        let on = |node: &str| plugin().with_extra("authentication.kubernetes.io/node-name", node);
        let author = attempt.author.map(|author| match author {
            Author::Stranger => ApiUser::named(STRANGER),
            Author::Plugin => plugin(),
            Author::PluginElsewhere => on("elsewhere"),
            Author::PluginHere => on(&self.node),
        });
        let mut api = self.gate.api().clone();
        if let Some(author) = author {
            api = api.acting_as(&author);
        }
        let answer = api.try_create(&request);
        answer.map(drop).map_err(|error| error.to_string())
    }

    /// The attempts that are still refused when no service of ours is called.
    pub(crate) fn holds_without_the_webhook(&self) {
        for case in Cases::read().cases {
            let answer = self.attempt(&case.refused());
            let message = case.message.replace("NAMESPACE", self.gate.namespace());
            match (case.held_by, answer) {
                (HeldBy::Webhook, answer) => assert!(answer.is_ok(), "{}: {answer:?}", case.name),
                (HeldBy::Policy | HeldBy::Schema, answer) => {
                    let refusal = answer.expect_err(&case.name);
                    assert!(refusal.contains(&message), "{}: {refusal}", case.name);
                }
            }
        }
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        let _ = keep(self.gate, &json!(null));
    }
}

/// Sets the finalizers that keep the pod that is going.
fn keep(gate: &Gate, finalizers: &Value) -> Result<Value, ApiError> {
    let fields = json!({"metadata": {"finalizers": finalizers}});
    gate.api().patch(POD, "going", &fields)
}

impl Cases {
    fn read() -> Self {
        serde_yaml::from_str(include_str!("../../cases/webhook/requests.yaml")).unwrap()
    }
}

#[test]
fn every_request_that_is_not_the_pods_is_refused_with_the_reason_and_its_neighbour_is_not() {
    let gate = Gate::new("requests");
    let table = Table::set(&gate);
    for case in Cases::read().cases {
        let refusal = table.attempt(&case.refused()).expect_err(&case.name);
        let message = case.message.replace("NAMESPACE", gate.namespace());
        assert!(refusal.contains(&message), "{}: {refusal}", case.name);
        let by_webhook = refusal.contains("admission webhook");
        let is_held = case.held_by == HeldBy::Webhook;
        assert_eq!(by_webhook, is_held, "{}: {refusal}", case.name);
        let neighbour = table.attempt(&case.neighbour);
        neighbour.unwrap_or_else(|refusal| panic!("{}: {refusal}", case.name));
    }
    let stored = gate.api().list(ACCESS_REQUEST, "").unwrap();
    assert_eq!(stored, Vec::<Value>::new());
}

#[test]
fn who_may_not_see_a_pod_learns_nothing_about_it() {
    let gate = Gate::new("request-stranger");
    let table = Table::set(&gate);
    let asked = |pod: &str| {
        let attempt = Attempt {
            author: Some(Author::Stranger),
            pod: Some(pod.to_owned()),
            set: BTreeMap::new(),
        };
        table.attempt(&attempt).unwrap_err()
    };
    let there = asked("plain");
    assert!(there.contains("denied the request"), "{there}");
    assert_eq!(there.replace("plain", "nobody"), asked("nobody"));
}
