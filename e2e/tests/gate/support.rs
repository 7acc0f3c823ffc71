//! What the scenarios share: a connector behind an approval, pods that mount it, and what can be seen of it all.

mod installation;
mod objects;
mod turns;
mod watched;

use std::{sync::Arc, thread, time::Duration};

use csi_recorder::{Call, Recorder};
use e2e::{
    Deadline, Kubectl, checker,
    harness::{PATIENCE, Scene},
    poll,
};
use serde_json::{Value, json};

use objects::reason_of;
use turns::Turn;
use watched::{Recording, Watched};

pub(crate) use installation::Installation;
pub(crate) use objects::{
    check_of, condition, definition_of, items, name, parsed, policy, timestamp, uid, volume,
};

/// Held as long as a scenario needs the installation as it is, or for itself.
enum Hold {
    Turn(Turn),
    /// Another gate of the same test holds it.
    Lent,
}

/// A namespace with a connector, and the installation around it.
pub(crate) struct Gate {
    // Dropped in this order: the observers judge before the namespace goes.
    watched: Watched,
    scene: Scene,
    hold: Hold,
}

/// The connector of every scenario.
pub(crate) const CONNECTOR: &str = "prod";
/// Where the volume is mounted in the test's pods.
pub(crate) const MOUNT: &str = "/connector";

/// How an approval is expressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    /// A `ConfigMap` whose data a Rego module reads.
    ConfigMap,
    /// An object of the test's own kind, with the word in `status.state`.
    SignOff,
}

impl Gate {
    /// A namespace with a connector, for a test that leaves the installation alone.
    pub(crate) fn new(test: &str) -> Self {
        Self::with_connector(test, Hold::Turn(Turn::shared(test)))
    }

    /// The same for a test that nothing else may run beside.
    pub(crate) fn alone(test: &str) -> Self {
        Self::with_connector(test, Hold::Turn(Turn::alone(test)))
    }

    /// The same with a question to the API server before the kubelet hears that a volume is mounted. It
    /// takes its time, and a test that turns the switch cannot have it.
    pub(crate) fn alone_asking(test: &str) -> Self {
        let ask = |scene: &Scene| {
            let kubectl = scene.kubectl().clone();
            Recording::MountsAndAccess(Arc::new(move |call: &Call| {
                let (namespace, pod) = (&call.pod_namespace, &call.pod_name);
                if may_use(&kubectl, namespace, "default", pod) {
                    Ok(())
                } else {
                    Err("the API server says no".to_owned())
                }
            }))
        };
        let gate = Self::watched_by(test, Hold::Turn(Turn::alone(test)), ask);
        gate.create_connector(CONNECTOR);
        gate
    }

    /// The same for a test in which nothing is mounted, so that there is nothing for the recorder to judge.
    pub(crate) fn alone_without_mounts(test: &str) -> Self {
        let gate = Self::watched_by(test, Hold::Turn(Turn::alone(test)), |_| Recording::None);
        gate.create_connector(CONNECTOR);
        gate
    }

    /// A namespace in which the connector is not there yet.
    pub(crate) fn empty(test: &str) -> Self {
        Self::without_connector(test, Hold::Turn(Turn::shared(test)))
    }

    /// Another namespace for the same test.
    pub(crate) fn another(&self, test: &str) -> Self {
        assert!(
            !matches!(self.hold, Hold::Lent),
            "lent by the first gate only"
        );
        Self::without_connector(test, Hold::Lent)
    }

    fn with_connector(test: &str, hold: Hold) -> Self {
        let gate = Self::without_connector(test, hold);
        gate.create_connector(CONNECTOR);
        gate
    }

    fn without_connector(test: &str, hold: Hold) -> Self {
        let alone = matches!(&hold, Hold::Turn(turn) if turn.is_alone());
        Self::watched_by(test, hold, |_| {
            if alone {
                Recording::Mounts
            } else {
                Recording::None
            }
        })
    }

    fn watched_by(test: &str, hold: Hold, recording: impl Fn(&Scene) -> Recording) -> Self {
        let scene = Scene::new(test);
        let watched = Watched::start(&scene, recording(&scene));
        let class = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
            "metadata": {"name": "e2e"}, "spec": {"address": {"name": "address", "type": "string"}},
        });
        scene.kubectl().apply(&class.to_string()).unwrap();
        scene.kubectl().apply(&definition_of("SignOff")).unwrap();
        let wait = "wait --for=condition=Established --timeout=60s crd/signoffs.e2e.example.com";
        scene.kubectl().run(wait).unwrap();
        Self {
            watched,
            scene,
            hold,
        }
    }

    /// What stands in front of the driver; for a test that holds the installation alone on a local cluster.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.watched.recorder()
    }

    /// Tells the observer what the audit log does not show: that a pod is over.
    pub(crate) fn pod_ended(&self, pod: &str) {
        self.watched.pod_ended(self.namespace(), pod);
    }

    /// Tells the observer that an approval does not hold any more.
    pub(crate) fn approval_ended(&self, pod: &str, policy: &str) {
        self.watched.approval_ended(self.namespace(), pod, policy);
    }

    /// Tells the observer since when a controller was away.
    pub(crate) fn outage_since(&self, from: checker::Timestamp) {
        self.watched.outage_since(from);
    }

    pub(crate) fn scene(&self) -> &Scene {
        &self.scene
    }

    pub(crate) fn namespace(&self) -> &str {
        self.scene.namespace()
    }

    pub(crate) fn create_connector(&self, name: &str) {
        let connector = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"name": name, "labels": {"e2e": "yes"}},
            "spec": {"connectorClassName": "e2e", "address": format!("https://{name}.example.com")},
        });
        self.scene.apply(&connector.to_string()).unwrap();
    }

    /// A policy whose check looks for objects labelled with the pod's `app`.
    pub(crate) fn create_policy(&self, name: &str, approval: Approval) {
        self.scene
            .apply(&policy(name, approval).to_string())
            .unwrap();
    }

    /// Creates the approval object of a pod, or changes its state.
    pub(crate) fn set_approval(&self, name: &str, app: &str, approval: Approval, state: &str) {
        match approval {
            Approval::ConfigMap => {
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "labels": {"app": app}},
                    "data": {"verdict": state},
                });
                self.scene.apply(&object.to_string()).unwrap();
            }
            Approval::SignOff => self.set_state("SignOff", name, app, state),
        }
    }

    /// Creates an object of a kind that follows the duck type, or changes its state.
    pub(crate) fn set_state(&self, kind: &str, name: &str, app: &str, state: &str) {
        let object = json!({
            "apiVersion": "e2e.example.com/v1", "kind": kind,
            "metadata": {"name": name, "labels": {"app": app}},
        });
        self.apply_with_state(&object, state);
    }

    /// Creates an object or changes it, and then its state.
    pub(crate) fn apply_with_state(&self, object: &Value, state: &str) {
        self.scene.apply(&object.to_string()).unwrap();
        let (kind, name) = (object["kind"].as_str().unwrap(), name(object));
        let status = json!({"status": {"state": state}});
        let words =
            format!("patch {kind} {name} --subresource=status --type=merge --patch {status}");
        self.scene.run(&words).unwrap();
    }

    /// Starts a pod that prints what it finds in its volume and then waits.
    pub(crate) fn start_pod(&self, name: &str) {
        self.start_pod_of(name, CONNECTOR);
    }

    pub(crate) fn start_pod_of(&self, name: &str, connectors: &str) {
        self.start_pod_with(name, &volume(&json!({"connectors": connectors})));
    }

    /// The same with these volumes, or with further ones.
    pub(crate) fn start_pod_with(&self, name: &str, volumes: &Value) {
        let args = ["cat", "--then-wait", MOUNT];
        self.scene.start_pod_with(name, &args, volumes).unwrap();
    }

    /// What a running pod reads below a path now.
    pub(crate) fn read_in(&self, pod: &str, path: &str) -> Result<String, String> {
        let words = format!("exec {pod} -- /workload cat {path}");
        self.scene.run(&words).map_err(|error| error.to_string())
    }

    /// A request as a person would write it.
    pub(crate) fn hand_made(&self, name: &str, pod: &str) -> Value {
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
            "metadata": {"name": name},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "default"},
                "connectorRef": {"name": CONNECTOR},
                "context": {"objectRef": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": self.namespace(), "name": pod,
                }},
            },
        })
    }

    /// Creates a request by hand.
    pub(crate) fn request_by_hand(&self, name: &str, pod: &str) -> Result<Value, String> {
        self.create("", &self.hand_made(name, pod))
    }

    /// Creates an object as somebody, and gives what was stored, or the refusal.
    pub(crate) fn create(&self, as_whom: &str, object: &Value) -> Result<Value, String> {
        let words = format!(
            "--namespace {} create -o json -f - {as_whom}",
            self.namespace()
        );
        let answer = self
            .scene
            .kubectl()
            .run_with_input(words.trim_end(), &object.to_string());
        answer
            .map(|text| parsed(&text))
            .map_err(|error| error.to_string())
    }

    pub(crate) fn pod_uid(&self, name: &str) -> String {
        let words = format!("get pod {name} -o jsonpath={{.metadata.uid}}");
        self.scene.run(&words).unwrap()
    }

    /// The request of a pod, once it is there.
    pub(crate) fn request_of(&self, pod: &str) -> Value {
        self.request_labelled(pod, "")
    }

    /// A pod's request for one of several connectors, once it is there.
    pub(crate) fn request_for(&self, pod: &str, connector: &str) -> Value {
        self.request_labelled(pod, &format!(",connectors.cpaas.io/connector={connector}"))
    }

    fn request_labelled(&self, pod: &str, more: &str) -> Value {
        let uid = self.pod_uid(pod);
        let words = format!(
            "get accessrequests -l connectors.cpaas.io/contextObjectUID={uid}{more} -o json"
        );
        let list = self
            .scene
            .wait_for("the pod's request", &words, |text| !items(text).is_empty());
        items(&list).remove(0)
    }

    /// Waits until the request of a pod is in a phase.
    pub(crate) fn wait_for_phase(&self, pod: &str, phase: &str) -> Value {
        self.wait_for_phase_of(&self.request_of(pod), phase)
    }

    /// Waits until this request is in a phase.
    pub(crate) fn wait_for_phase_of(&self, request: &Value, phase: &str) -> Value {
        self.wait_for_request(&name(request), &format!("to be {phase}"), |request| {
            request["status"]["phase"] == phase
        })
    }

    /// Waits until a request is as the test wants it.
    pub(crate) fn wait_for_request(
        &self,
        name: &str,
        what: &str,
        accepts: impl Fn(&Value) -> bool,
    ) -> Value {
        let words = format!("get accessrequest {name} -o json");
        let text = self
            .scene
            .wait_for(&format!("request {name} {what}"), &words, |text| {
                accepts(&parsed(text))
            });
        parsed(&text)
    }

    /// Waits until a condition of a pod's request has a reason, and that is what it says.
    pub(crate) fn wait_for_reason(&self, pod: &str, condition: &str, reason: &str) -> Value {
        let name = name(&self.request_of(pod));
        self.wait_for_request(&name, &format!("to say {condition} {reason}"), |request| {
            reason_of(request, condition) == reason
        })
    }

    /// Asks the API server whether a pod may use the connector.
    pub(crate) fn may_use(&self, pod: &str) -> bool {
        may_use(self.scene.kubectl(), self.namespace(), "default", pod)
    }

    /// The same about another capability of the connector, or about its APIs.
    pub(crate) fn may_use_capability(&self, pod: &str, capability: &str) -> bool {
        let (kubectl, namespace) = (self.scene.kubectl(), self.namespace());
        may(kubectl, namespace, "default", pod, capability)
    }

    /// Waits until the API server says yes: it looks into caches that lag behind a little.
    pub(crate) fn wait_for_access(&self, pod: &str) {
        wait_until("the API server to allow the access", || self.may_use(pod));
    }

    /// Waits until the access is gone and stays gone, and no grant of the request is left.
    pub(crate) fn wait_for_no_access(&self, pod: &str, request_uid: &str) {
        wait_until("the grant to be gone", || {
            self.grants(request_uid).is_empty()
        });
        wait_until("the API server to refuse the access", || !self.may_use(pod));
        for _ in 0..5 {
            assert!(!self.may_use(pod), "the access came back");
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(self.grants(request_uid), Vec::<String>::new());
    }

    /// The grants of a request, as `kind/name`.
    pub(crate) fn grants(&self, request_uid: &str) -> Vec<String> {
        let label = format!("connectors.alauda.io/accessRequestUid={request_uid}");
        let words = format!("get roles,rolebindings -l {label} -o name");
        let found = self.scene.run(&words).unwrap();
        found.lines().map(str::to_owned).collect()
    }

    /// Waits until an event with this reason is there about an object of this kind; gives its note.
    pub(crate) fn wait_for_event(&self, kind: &str, name: &str, reason: &str) -> String {
        self.wait_for_note(kind, name, reason, "")
    }

    /// Waits until an event about an object says this; gives all that it says.
    pub(crate) fn wait_for_note(&self, kind: &str, name: &str, reason: &str, says: &str) -> String {
        let words = "get events.events.k8s.io -o json";
        let is_it = |event: &Value| {
            event["regarding"]["kind"] == kind
                && event["regarding"]["name"] == name
                && event["reason"] == reason
                && event["note"].as_str().unwrap_or_default().contains(says)
        };
        let what = format!("event {reason} about {kind} {name} with {says:?}");
        let list = self
            .scene
            .wait_for(&what, words, |text| items(text).iter().any(is_it));
        let event = items(&list).into_iter().find(is_it).unwrap();
        event["note"].as_str().unwrap_or_default().to_owned()
    }

    /// Makes the kubelet call the driver again for a pod's volume, which it does on its own each minute or two.
    pub(crate) fn look_again(&self, pod: &str) {
        let moment = checker::now().to_string();
        let words = format!("annotate pod {pod} --overwrite e2e.example.com/looked-at={moment}");
        self.scene.run(&words).unwrap();
    }

    /// Waits for an event about a pod that only a repeated call of the kubelet brings.
    pub(crate) fn wait_for_event_of_republish(&self, pod: &str, reason: &str) -> String {
        let is_it = |event: &Value| event["regarding"]["name"] == pod && event["reason"] == reason;
        wait_until(&format!("event {reason} about pod {pod}"), || {
            self.look_again(pod);
            let events = self.scene.run("get events.events.k8s.io -o json").unwrap();
            items(&events).iter().any(is_it)
        });
        self.wait_for_event("Pod", pod, reason)
    }

    /// What Warnings of a reason say, by our controllers.
    pub(crate) fn warnings(&self, reason: &str) -> Vec<String> {
        let list = self.scene.run("get events.events.k8s.io -o json").unwrap();
        let is_it = |event: &&Value| {
            event["reason"] == reason
                && event["type"] == "Warning"
                && event["reportingController"] == "request-controller"
        };
        let events = items(&list);
        let notes = events.iter().filter(is_it);
        notes.map(|it| it["note"].to_string()).collect()
    }

    /// Waits until a pod runs, and gives what its container printed of its volume.
    pub(crate) fn wait_for_output(&self, pod: &str) -> String {
        self.scene.wait_for_running(pod);
        let complete = format!("== {MOUNT}/.connector/");
        self.scene
            .wait_for("the container's output", &format!("logs {pod}"), |text| {
                text.contains(&complete) && text.contains("https://")
            })
    }

    /// Fails when a pod's containers were started, now or in the next moments.
    pub(crate) fn assert_held(&self, pod: &str) {
        let words = format!(
            "get pod {pod} -o jsonpath={{.status.containerStatuses[*].started}}{{.status.phase}}"
        );
        for _ in 0..10 {
            let seen = self.scene.run(&words).unwrap();
            // Until the kubelet has first reported, nothing is said about containers.
            assert!(["falsePending", "Pending"].contains(&seen.trim()), "{seen}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let judged = || {
        if holds() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    };
    poll(what, Deadline::after(PATIENCE), judged).unwrap();
}

fn may_use(kubectl: &Kubectl, namespace: &str, account: &str, pod: &str) -> bool {
    may(kubectl, namespace, account, pod, "apis")
}

fn may(kubectl: &Kubectl, namespace: &str, account: &str, pod: &str, capability: &str) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{namespace}:{account}"),
            "groups": [
                "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated",
            ],
            "resourceAttributes": {
                "namespace": namespace, "verb": "*", "group": "connectors.alauda.io",
                "resource": "connectors", "subresource": format!("{capability}/v1/pod/{namespace}/{pod}"), "name": CONNECTOR,
            },
        },
    });
    let answer = kubectl.run_with_input("create -o json -f -", &review.to_string());
    parsed(&answer.unwrap())["status"]["allowed"] == true
}
