//! The shared parts of the scenarios: a connector behind an approval, pods that mount it, and their observed
//! state.

mod callers;
mod content;
mod creators;
mod installation;
mod node;
mod objects;
pub(crate) mod pipelines;
mod prometheus;
pub(crate) mod rights;
#[path = "../common/session.rs"]
pub(crate) mod session;
mod turns;
mod watched;

use std::{sync::Arc, thread, time::Duration};

use csi_recorder::{Call, Recorder};
use e2e::{
    ApiClient, ApiError, Deadline,
    api::kinds::{ACCESS_REQUEST, EVENT, POD, ROLE, ROLE_BINDING, ResourceKind},
    checker,
    harness::{PATIENCE, Scene},
    poll,
};
use serde_json::{Value, json};

use objects::{of_pod, reason_of};
use turns::Turn;
use watched::{Recording, Watched};

pub(crate) use callers::{create_caller, evaluation_roots};
pub(crate) use content::{claims, printed};
pub(crate) use creators::wait_until_creators_are_believed;
pub(crate) use installation::Installation;
pub(crate) use node::wait_until_nothing_left;
pub(crate) use objects::{
    Approval, check_of, condition, definition_of, name, policy, timestamp, uid, volume,
};
pub(crate) use prometheus::Prometheus;

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
/// The configuration of its class, and the file of that: the connector's address and the pod's own token.
pub(crate) const TOOL: &str = "tool";
pub(crate) const LOGIN: &str = "login";
const LOGIN_TEMPLATE: &str = "{{ .connector.spec.address }} {{ .context.token }}";
/// Where the volume is mounted in the test's pods.
pub(crate) const MOUNT: &str = "/connector";

impl Gate {
    /// A namespace with a connector, for a test that leaves the installation alone.
    pub(crate) fn new(test: &str) -> Self {
        Self::with_connector(test, Hold::Turn(Turn::shared(test)))
    }

    /// The same for a test that waits for most of its time.
    pub(crate) fn patient(test: &str) -> Self {
        Self::with_connector(test, Hold::Turn(Turn::patient(test)))
    }

    /// The same for a test that nothing else may run beside.
    pub(crate) fn alone(test: &str) -> Self {
        Self::with_connector(test, Hold::Turn(Turn::alone(test)))
    }

    /// The same with a question to the API server before the kubelet hears that a volume is mounted. It
    /// takes its time, and a test that turns the switch cannot have it. Pods of other namespaces are not asked about: they
    /// may be ending, with a volume that was mounted while the switch was off.
    pub(crate) fn alone_asking(test: &str) -> Self {
        let ask = |scene: &Scene| {
            let (api, namespace) = (scene.api().clone(), scene.namespace().to_owned());
            Recording::MountsAndAccess(Arc::new(move |call: &Call| {
                let is_ours = call.pod_namespace == namespace;
                if !is_ours || rights::may_use(&api, &call.pod_namespace, &call.pod_name, "apis") {
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
            "metadata": {"name": "e2e"}, "spec": {
                "address": {"name": "address", "type": "string"},
                "configurations": [{"name": TOOL, "data": {LOGIN: LOGIN_TEMPLATE}}],
            },
        });
        scene.api().apply_over(&class).unwrap();
        scene.api().define(&definition_of("SignOff")).unwrap();
        Self {
            watched,
            scene,
            hold,
        }
    }

    /// The recorder in front of the driver; for a test that holds the installation alone on a local cluster.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.watched.recorder()
    }

    /// Tells the observer a fact that the audit log does not show: the end of a pod. The time is that of the test's look,
    /// a moment after the end, so the observer allows that moment more.
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

    /// The API server, for calls in the scenario's namespace.
    pub(crate) fn api(&self) -> &ApiClient {
        self.scene.api()
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
        self.scene.apply(&connector).unwrap();
    }

    /// A policy whose check looks for objects labelled with the pod's `app`.
    pub(crate) fn create_policy(&self, name: &str, approval: Approval) {
        self.scene.apply(&policy(name, approval)).unwrap();
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
                self.scene.apply(&object).unwrap();
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
        self.scene.apply(object).unwrap();
        let kind = ResourceKind::of(object).unwrap();
        self.set_state_of(kind, &name(object), state);
    }

    /// Changes the state of an object that is there.
    pub(crate) fn set_state_of(&self, kind: ResourceKind, name: &str, state: &str) {
        let status = json!({"state": state});
        self.api().patch_status(kind, name, &status).unwrap();
    }

    /// Starts a pod that prints the content of its volume and then waits.
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

    /// The text that a running pod reads below a path now.
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
    pub(crate) fn request_by_hand(&self, name: &str, pod: &str) -> Result<Value, ApiError> {
        self.create(&self.hand_made(name, pod))
    }

    /// Creates an object. Returns the stored one, or the refusal.
    pub(crate) fn create(&self, object: &Value) -> Result<Value, ApiError> {
        self.api().create(object)
    }

    /// An object of the namespace that is there.
    pub(crate) fn object(&self, kind: ResourceKind, name: &str) -> Value {
        let found = self.api().get(kind, name).unwrap();
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    pub(crate) fn delete(&self, kind: ResourceKind, name: &str) {
        self.api().delete(kind, name).unwrap();
    }

    /// Deletes a pod, and waits until it is gone.
    pub(crate) fn delete_pod_and_wait(&self, name: &str, limit: Duration) {
        self.delete(POD, name);
        self.api().wait_until_gone(POD, name, limit).unwrap();
    }

    pub(crate) fn pod_uid(&self, name: &str) -> String {
        uid(&self.object(POD, name))
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
        let labels = format!("{}{more}", of_pod(&self.pod_uid(pod)));
        let is_there = |requests: &[Value]| !requests.is_empty();
        let what = "the pod's request";
        let mut found = self
            .scene
            .wait_for_list(what, ACCESS_REQUEST, &labels, is_there);
        found.remove(0)
    }

    /// The requests of a pod, by its UID.
    pub(crate) fn requests_of(&self, pod_uid: &str) -> Vec<Value> {
        let labels = of_pod(pod_uid);
        self.api().list(ACCESS_REQUEST, &labels).unwrap()
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
        let what = format!("request {name} {what}");
        self.scene
            .wait_for_object(&what, ACCESS_REQUEST, name, accepts)
    }

    /// Waits until a condition of a pod's request has a reason, and returns the request.
    pub(crate) fn wait_for_reason(&self, pod: &str, condition: &str, reason: &str) -> Value {
        let name = name(&self.request_of(pod));
        self.wait_for_request(&name, &format!("to say {condition} {reason}"), |request| {
            reason_of(request, condition) == reason
        })
    }

    /// Asks the API server whether a pod may use the connector.
    pub(crate) fn may_use(&self, pod: &str) -> bool {
        self.may_use_capability(pod, "apis")
    }

    /// The same about another capability of the connector, or about its APIs.
    pub(crate) fn may_use_capability(&self, pod: &str, capability: &str) -> bool {
        rights::may_use(self.api(), self.namespace(), pod, capability)
    }

    /// Waits until the API server says yes: it looks into caches that lag behind a little.
    pub(crate) fn wait_for_access(&self, pod: &str) {
        wait_until("the API server to allow the access", || self.may_use(pod));
    }

    /// Waits until the access is gone and no grant of the request is left. The observer judges that no grant follows.
    pub(crate) fn wait_for_no_access(&self, pod: &str, request_uid: &str) {
        self.wait_until_nothing_is_left(request_uid);
        wait_until("the API server to refuse the access", || !self.may_use(pod));
        assert_eq!(self.grants(request_uid), Vec::<String>::new());
    }

    /// Fails if an account is bound to a Role of a request. A Role alone may wait for its approval, and gives nothing.
    pub(crate) fn assert_unbound(&self, request_uid: &str) {
        let objects = self.grant_objects(request_uid);
        let bindings = objects.iter().filter(|(kind, _)| *kind == ROLE_BINDING);
        assert_eq!(bindings.count(), 0, "{objects:?}");
    }

    /// Waits until the Roles and `RoleBindings` of a request are gone: their removal follows the status that ends it.
    pub(crate) fn wait_until_nothing_is_left(&self, request_uid: &str) {
        wait_until("nothing of the grant to be left", || {
            self.grants(request_uid).is_empty()
        });
    }

    /// The grants of a request, as `kind/name`.
    pub(crate) fn grants(&self, request_uid: &str) -> Vec<String> {
        let grants = self.grant_objects(request_uid);
        grants
            .iter()
            .map(|(kind, name)| format!("{kind}/{name}"))
            .collect()
    }

    /// The kinds and names of the objects that grant the access of a request.
    pub(crate) fn grant_objects(&self, request_uid: &str) -> Vec<(ResourceKind, String)> {
        let label = format!("connectors.alauda.io/accessRequestUid={request_uid}");
        let of_kind = |kind| {
            let found = self.api().list(kind, &label).unwrap();
            found.into_iter().map(move |it| (kind, name(&it)))
        };
        [ROLE, ROLE_BINDING].into_iter().flat_map(of_kind).collect()
    }

    /// The changes of a resource in the namespace, in their order: verb and name. They come from the local
    /// cluster's log.
    pub(crate) fn changes_of(&self, resource: &str) -> Vec<(String, String)> {
        let log = self.scene().audit_log().expect("a local cluster");
        let log = std::fs::read_to_string(log).unwrap();
        let lines = log.lines().filter(|it| it.contains(self.namespace()));
        let events = lines.filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let mut changes: Vec<_> = events
            .filter(|it| {
                let object = &it["objectRef"];
                let code = it["responseStatus"]["code"].as_u64().unwrap_or(500);
                let is_change = !["get", "list", "watch"]
                    .iter()
                    .any(|verb| it["verb"] == *verb);
                object["resource"] == resource
                    && object["namespace"] == self.namespace()
                    && it["stage"] == "ResponseComplete"
                    && is_change
                    && code < 300
            })
            .map(|it| {
                let text = |pointer: &str| it.pointer(pointer)?.as_str().map(str::to_owned);
                let [time, verb, name] = ["/stageTimestamp", "/verb", "/objectRef/name"]
                    .map(|it| text(it).unwrap_or_default());
                (time, verb, name)
            })
            .collect();
        changes.sort();
        let changes = changes.into_iter();
        changes.map(|(_, verb, name)| (verb, name)).collect()
    }

    /// Waits until an event with this reason is there about an object of this kind; gives its note.
    pub(crate) fn wait_for_event(&self, kind: &str, name: &str, reason: &str) -> String {
        self.wait_for_note(kind, name, reason, "")
    }

    /// Waits until an event about an object says this; gives all that it says.
    pub(crate) fn wait_for_note(&self, kind: &str, name: &str, reason: &str, says: &str) -> String {
        let is_it = |event: &Value| {
            event["regarding"]["kind"] == kind
                && event["regarding"]["name"] == name
                && event["reason"] == reason
                && event["note"].as_str().unwrap_or_default().contains(says)
        };
        let what = format!("event {reason} about {kind} {name} with {says:?}");
        let is_there = |events: &[Value]| events.iter().any(is_it);
        let events = self.scene.wait_for_list(&what, EVENT, "", is_there);
        let event = events.into_iter().find(is_it).unwrap();
        event["note"].as_str().unwrap_or_default().to_owned()
    }

    /// The events of the namespace.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.api().list(EVENT, "").unwrap()
    }

    /// Makes the kubelet call the driver again for a pod's volume, which it does on its own each minute or two.
    pub(crate) fn look_again(&self, pod: &str) {
        let moment = checker::now().to_string();
        let annotations = json!({"e2e.example.com/looked-at": moment});
        let fields = json!({"metadata": {"annotations": annotations}});
        self.api().patch(POD, pod, &fields).unwrap();
    }

    /// Waits for an event about a pod that only a repeated call of the kubelet brings.
    pub(crate) fn wait_for_event_of_republish(&self, pod: &str, reason: &str) -> String {
        let is_it = |event: &Value| event["regarding"]["name"] == pod && event["reason"] == reason;
        wait_until(&format!("event {reason} about pod {pod}"), || {
            self.look_again(pod);
            self.events().iter().any(is_it)
        });
        self.wait_for_event("Pod", pod, reason)
    }

    /// The notes of Warnings with a reason, by our controllers.
    pub(crate) fn warnings(&self, reason: &str) -> Vec<String> {
        let events = self.events();
        let is_it = |event: &&Value| {
            event["reason"] == reason
                && event["type"] == "Warning"
                && event["reportingController"] == "request-controller"
        };
        let notes = events.iter().filter(is_it);
        notes.map(|it| it["note"].to_string()).collect()
    }

    /// Waits until a pod runs, and returns its container's output about its volume.
    pub(crate) fn wait_for_output(&self, pod: &str) -> String {
        self.scene.wait_for_running(pod);
        let complete = format!("== {MOUNT}/.connector/");
        let output = || {
            let text = self.api().logs(pod).map_err(|error| error.to_string())?;
            if text.contains(&complete) && text.contains("https://") {
                Ok(text)
            } else {
                Err(text)
            }
        };
        let what = format!("the output of pod {pod}");
        poll(&what, Deadline::after(PATIENCE), output).unwrap()
    }

    /// Fails when a pod's containers were started, now or in the next moments.
    pub(crate) fn assert_held(&self, pod: &str) {
        self.assert_all_held(&[pod]);
    }

    /// The same about several pods at once.
    pub(crate) fn assert_all_held(&self, pods: &[&str]) {
        for _ in 0..10 {
            for pod in pods {
                let status = self.object(POD, pod)["status"].take();
                assert_eq!(status["phase"], "Pending", "{pod}: {status}");
                // Until the kubelet has first reported, nothing is said about containers.
                let containers = status["containerStatuses"].as_array();
                let mut containers = containers.into_iter().flatten();
                assert!(
                    containers.all(|it| it["started"] != true),
                    "{pod}: {status}"
                );
            }
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
