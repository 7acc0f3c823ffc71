//! What the scenarios share: a connector behind an approval, pods that mount it, and what can be seen of it all.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
    time::Duration,
};

use csi_recorder::{AskAccess, Call, Eyes, Recorder, View};
use e2e::{
    Cluster, Deadline, Kubectl,
    checker::{self, Checker, Settings},
    harness::{PATIENCE, Scene},
    poll,
};
use serde_json::{Value, json};

/// Scenarios run side by side, but not beside one that stops a service or turns the switch.
static INSTALLATION: RwLock<()> = RwLock::new(());

/// Held as long as a scenario needs the installation as it is, or for itself.
enum Hold {
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    /// Another gate of the same test holds it.
    Lent,
}

impl Hold {
    fn shared() -> Self {
        let guard = INSTALLATION.read().unwrap_or_else(PoisonError::into_inner);
        Self::Shared { _guard: guard }
    }

    fn alone() -> Self {
        let guard = INSTALLATION.write().unwrap_or_else(PoisonError::into_inner);
        Self::Alone { _guard: guard }
    }
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
const MOUNT: &str = "/connector";

/// Those who look on from outside: at the audit log in every test, at the driver's socket where a test has the
/// installation for itself. An existing cluster shows neither.
struct Watched {
    checker: Option<Checker>,
    recorder: Option<Recorder>,
}

impl Watched {
    fn start(scene: &Scene, alone: bool) -> Self {
        let settings = Settings::in_namespace(scene.namespace());
        let follow = |log: PathBuf| Checker::follow(&log, settings).unwrap();
        let recorder = || scene.cluster().map(|cluster| record(cluster, None));
        Self {
            checker: scene.audit_log().map(follow),
            recorder: alone.then(recorder).flatten(),
        }
    }
}

/// Stands in front of the driver; returns when it does.
fn record(cluster: &Cluster, access: Option<AskAccess>) -> Recorder {
    let kubelet = cluster.kubelet_dir();
    let eyes = Eyes {
        view: Some(View::of_kubelet(&kubelet).unwrap()),
        access,
    };
    let socket = kubelet.join("plugins/connectors-csi/csi.sock");
    let recorder = Recorder::interpose(&socket, eyes).unwrap();
    wait_until("the recorder's place", || recorder.taken() > 0);
    recorder
}

impl Drop for Watched {
    fn drop(&mut self) {
        let report = self.checker.take().map(Checker::finish);
        let recorder = self.recorder.take();
        if thread::panicking() {
            return; // the test says what is wrong
        }
        if let Some(report) = report {
            let report = report.unwrap();
            assert!(report.violations.is_empty(), "{report}");
            println!("{report}");
        }
        if let Some(recorder) = recorder {
            recorder.assert_kept();
        }
    }
}

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
        Self::with_connector(test, Hold::shared())
    }

    /// The same for a test that nothing else may run beside.
    pub(crate) fn alone(test: &str) -> Self {
        Self::with_connector(test, Hold::alone())
    }

    /// The same with a question to the API server before the kubelet hears that a volume is mounted. It
    /// takes its time, and a test that turns the switch cannot have it.
    pub(crate) fn alone_asking(test: &str) -> Self {
        let mut gate = Self::with_connector(test, Hold::alone());
        let kubectl = gate.scene.kubectl().clone();
        let access = move |call: &Call| {
            let (namespace, pod) = (&call.pod_namespace, &call.pod_name);
            if may_use(&kubectl, namespace, "default", pod) {
                Ok(())
            } else {
                Err("the API server says no".to_owned())
            }
        };
        gate.watched.recorder = None;
        let cluster = gate.scene.cluster();
        let recorder = cluster.map(|cluster| record(cluster, Some(Arc::new(access))));
        gate.watched.recorder = recorder;
        gate
    }

    /// A namespace in which the connector is not there yet.
    pub(crate) fn empty(test: &str) -> Self {
        Self::without_connector(test, Hold::shared())
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
        let scene = Scene::new(test);
        let watched = Watched::start(&scene, matches!(hold, Hold::Alone { .. }));
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
        self.watched.recorder.as_ref()
    }

    /// Tells the observer what the audit log does not show: that a pod is over.
    pub(crate) fn pod_ended(&self, pod: &str) {
        if let Some(checker) = &self.watched.checker {
            checker.pod_ended(self.namespace(), pod, "", checker::now());
        }
    }

    /// Tells the observer that an approval does not hold any more.
    pub(crate) fn approval_ended(&self, pod: &str, policy: &str) {
        if let Some(checker) = &self.watched.checker {
            checker.approval_ended(self.namespace(), pod, policy, checker::now());
        }
    }

    /// Tells the observer since when a controller was away.
    pub(crate) fn outage_since(&self, from: checker::Timestamp) {
        if let Some(checker) = &self.watched.checker {
            checker.outage(from, checker::now());
        }
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
        self.scene.apply(&object.to_string()).unwrap();
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
        let mount = json!({
            "volumes": [{"name": "connector", "csi": {
                "driver": "connectors-csi", "readOnly": true, "volumeAttributes": {"connectors": connectors},
            }}],
            "volumeMounts": [{"name": "connector", "mountPath": MOUNT}],
        });
        let args = ["cat", "--then-wait", MOUNT];
        self.scene.start_pod_with(name, &args, &mount).unwrap();
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
        let uid = self.pod_uid(pod);
        let words =
            format!("get accessrequests -l connectors.cpaas.io/contextObjectUID={uid} -o json");
        let list = self
            .scene
            .wait_for("the pod's request", &words, |text| !items(text).is_empty());
        items(&list).remove(0)
    }

    /// Waits until the request of a pod is in a phase.
    pub(crate) fn wait_for_phase(&self, pod: &str, phase: &str) -> Value {
        let name = name(&self.request_of(pod));
        self.wait_for_request(&name, &format!("to be {phase}"), |request| {
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
        let words = "get events.events.k8s.io -o json";
        let is_it = |event: &Value| {
            event["regarding"]["kind"] == kind
                && event["regarding"]["name"] == name
                && event["reason"] == reason
        };
        let what = format!("event {reason} about {kind} {name}");
        let list = self
            .scene
            .wait_for(&what, words, |text| items(text).iter().any(is_it));
        let event = items(&list).into_iter().find(is_it).unwrap();
        event["note"].as_str().unwrap_or_default().to_owned()
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

/// A policy as JSON, for tests that change it further.
pub(crate) fn policy(name: &str, approval: Approval) -> Value {
    let (object, state) = match approval {
        Approval::ConfigMap => (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            json!({"rego": VERDICT}),
        ),
        Approval::SignOff => (
            json!({"apiVersion": "e2e.example.com/v1", "kind": "SignOff"}),
            json!({}),
        ),
    };
    let pod = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name},
        "spec": {
            "connector": {"names": [CONNECTOR]},
            "checkGrantedPermission": {"spec": {
                "checks": [{
                    "name": "approval",
                    "selector": {"labels": {"app": "{.object.metadata.labels.app}"}, "objectRef": object},
                    "state": state,
                }],
                "permissions": {"roleTemplate": {"rules": [
                    {"apiGroups": ["connectors.alauda.io"], "resources": [pod], "verbs": ["*"]},
                ]}},
            }},
        },
    })
}

/// The state of a `ConfigMap` is the word in its data.
const VERDICT: &str = r#"package approval
import rego.v1
default output := {"state": "pending", "message": "nobody decided yet"}
output := {"state": input.data.verdict, "message": "decided"} if input.data.verdict
"#;

/// The definition of a kind that follows the duck type; the installation lets checks read it.
pub(crate) fn definition_of(kind: &str) -> String {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let state = json!({"type": "object", "properties": {"state": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.e2e.example.com")},
        "spec": {
            "group": "e2e.example.com",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": state}}},
            }],
        },
    })
    .to_string()
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

pub(crate) fn items(text: &str) -> Vec<Value> {
    parsed(text)["items"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// `status reason` of a condition, or nothing.
pub(crate) fn condition<'a>(request: &'a Value, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = request["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == type_)?;
    Some((condition["status"].as_str()?, condition["reason"].as_str()?))
}

fn reason_of<'a>(request: &'a Value, type_: &str) -> &'a str {
    condition(request, type_).map_or("", |(_, reason)| reason)
}

/// The installation, for tests that hold it alone.
pub(crate) struct Installation<'a> {
    kubectl: &'a Kubectl,
}

/// Undoes what a test did to the installation, also when the test fails.
pub(crate) struct Undo<'a> {
    kubectl: &'a Kubectl,
    words: Vec<String>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for words in &self.words {
            if let Err(error) = self.kubectl.run(words) {
                eprintln!("the installation could not be put back: {error}");
            }
        }
    }
}

const IN_INSTALLATION: &str = "--namespace connectors-system";

impl<'a> Installation<'a> {
    pub(crate) fn of(gate: &'a Gate) -> Self {
        assert!(
            matches!(gate.hold, Hold::Alone { .. }),
            "a test that changes the installation holds it alone"
        );
        Self {
            kubectl: gate.scene.kubectl(),
        }
    }

    fn run(&self, words: &str) -> String {
        self.kubectl
            .run(&format!("{IN_INSTALLATION} {words}"))
            .unwrap()
    }

    /// Turns the switch until the answer is dropped, and waits until every process has seen it.
    pub(crate) fn switch(&self, value: &str) -> Undo<'a> {
        self.set_switch(value);
        Undo {
            kubectl: self.kubectl,
            words: vec![set_switch("true")],
        }
    }

    fn set_switch(&self, value: &str) {
        self.kubectl.run(&set_switch(value)).unwrap();
        let known = format!("connectors_approval_enabled {}", u8::from(value == "true"));
        self.wait_for_metric(&known);
    }

    /// Waits until the processes that know the switch all say so.
    fn wait_for_metric(&self, line: &str) {
        wait_until(&format!("every process to say {line}"), || {
            let metrics = self.metrics();
            let (name, _) = line.split_once(' ').unwrap();
            let mut said = metrics
                .iter()
                .filter_map(|(_, text)| text.lines().find(|it| it.starts_with(name)))
                .peekable();
            said.peek().is_some() && said.all(|it| it == line)
        });
    }

    /// Deletes the `ConfigMap` of the switch until the answer is dropped.
    pub(crate) fn delete_switch(&self) -> Undo<'a> {
        self.run("delete configmap connectors-config");
        self.wait_for_metric("connectors_config_present 0");
        Undo {
            kubectl: self.kubectl,
            words: vec![format!(
                "{IN_INSTALLATION} create configmap connectors-config --from-literal=enable-connectors-approval=true --from-literal=default-requesters=Namespace"
            )],
        }
    }

    /// Kills every process of a service at once.
    pub(crate) fn kill(&self, service: &str) {
        self.run(&format!(
            "delete pods --selector app.kubernetes.io/component={service} --grace-period=0 --force --wait=false"
        ));
    }

    pub(crate) fn wait_until_ready(&self, service: &str) {
        let kind = if service == "csi-node" {
            "daemonset"
        } else {
            "deployment"
        };
        self.run(&format!("rollout status {kind}/{service} --timeout=120s"));
    }

    /// Takes a service away until the answer is dropped.
    pub(crate) fn away(&self, deployment: &str) -> Undo<'a> {
        let replicas = self.run(&format!(
            "get deployment {deployment} -o jsonpath={{.spec.replicas}}"
        ));
        self.run(&format!("scale deployment {deployment} --replicas=0"));
        self.run(&format!(
            "wait --for=delete pod --selector app.kubernetes.io/component={deployment} --timeout=60s"
        ));
        Undo {
            kubectl: self.kubectl,
            words: vec![
                format!("{IN_INSTALLATION} scale deployment {deployment} --replicas={replicas}"),
                format!("{IN_INSTALLATION} rollout status deployment/{deployment} --timeout=120s"),
            ],
        }
    }

    fn pods(&self) -> Vec<String> {
        let words = "get pods --field-selector=status.phase=Running -o name";
        self.run(words).lines().map(str::to_owned).collect()
    }

    /// What every process has logged.
    pub(crate) fn logs(&self) -> Vec<(String, String)> {
        let log = |pod: String| {
            let text = self.run(&format!("logs {pod}"));
            (format!("the log of {pod}"), text)
        };
        self.pods().into_iter().map(log).collect()
    }

    /// What every process tells about itself.
    pub(crate) fn metrics(&self) -> Vec<(String, String)> {
        let metrics = |pod: String| {
            let name = pod.trim_start_matches("pod/");
            let path =
                format!("/api/v1/namespaces/connectors-system/pods/{name}:9090/proxy/metrics");
            let text = self.kubectl.run(&format!("get --raw {path}")).unwrap();
            (format!("the metrics of {pod}"), text)
        };
        self.pods().into_iter().map(metrics).collect()
    }
}

fn set_switch(value: &str) -> String {
    format!(
        r#"{IN_INSTALLATION} patch configmap connectors-config --type=merge --patch {{"data":{{"enable-connectors-approval":"{value}"}}}}"#
    )
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
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{namespace}:{account}"),
            "groups": [
                "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated",
            ],
            "resourceAttributes": {
                "namespace": namespace, "verb": "*", "group": "connectors.alauda.io",
                "resource": "connectors", "subresource": format!("apis/v1/pod/{namespace}/{pod}"), "name": CONNECTOR,
            },
        },
    });
    let answer = kubectl.run_with_input("create -o json -f -", &review.to_string());
    parsed(&answer.unwrap())["status"]["allowed"] == true
}
