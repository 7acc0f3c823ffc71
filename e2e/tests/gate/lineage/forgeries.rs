//! Forged runs: an author of the namespace tries to have a pod let in that no approver has approved. The numbers are those
//! of docs/threat-model.md.
//!
//! The forgeries of one theme share a namespace. Each has a run of its own, named by its number.

mod approvals;
mod children;
mod pods;

use e2e::api::kinds::{APPROVAL_TASK, ResourceKind};
use serde_json::{Value, json};

use super::{gate, gate_asking};
use crate::support::{
    Gate, name,
    pipelines::{GATE, Pipelines, RUN_LABEL, deploy_with, wait_for},
    uid,
};

/// A forgery in its namespace.
struct Attempt<'a> {
    gate: &'a Gate,
    pipelines: &'a Pipelines<'a>,
    run: &'static str,
}

struct Forgery {
    name: &'static str,
    run: &'static str,
    before: fn(&Attempt<'_>),
    /// The pipeline of the run.
    tasks: fn(&Attempt<'_>) -> Value,
    after: fn(&Attempt<'_>),
    /// The pod that must not be let in, behind the name of the run.
    pod: &'static str,
    /// Several where the order of creation within one second decides.
    words: &'static [&'static str],
}

impl Attempt<'_> {
    /// A name that begins with that of the run.
    fn name(&self, rest: &str) -> String {
        format!("{}-{rest}", self.run)
    }

    fn object(&self, kind: ResourceKind, rest: &str) -> Value {
        self.gate.object(kind, &self.name(rest))
    }

    fn patch(&self, kind: ResourceKind, rest: &str, fields: &Value) {
        let patched = self.gate.api().patch(kind, &self.name(rest), fields);
        patched.unwrap();
    }

    fn create(&self, object: &Value) {
        self.gate.create(object).unwrap();
    }

    fn answer(&self, rest: &str, approver: &str) {
        self.pipelines.answer(&self.name(rest), approver, "approve");
    }
}

/// The honest pipeline. Its pod is there before the approval.
fn honest(_: &Attempt<'_>) -> Value {
    json!([wait_for(&json!(["alice"]), "1"), deploy_with(&json!({}))])
}

fn nothing(_: &Attempt<'_>) {}

fn approve(attempt: &Attempt<'_>) {
    attempt.answer("wait", "alice");
}

/// What a `CustomRun` of the author asks for.
fn asking_mallory() -> Value {
    json!({
        "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
        "params": [{"name": "approvers", "value": ["mallory"]}],
    })
}

/// A task of the author.
fn evil_task() -> Value {
    json!({"serviceAccountName": "default", "taskSpec": {"steps": [{"name": "evil", "image": "evil:1"}]}})
}

/// The labels that an author can copy before the run is there.
fn copied_labels(run: &str, task: &str) -> Value {
    json!({RUN_LABEL: run, "tekton.dev/pipelineTask": task})
}

/// Tries all forgeries of a theme.
fn try_all(theme: &str, change: impl FnOnce(&mut Value), forgeries: &[Forgery]) {
    let gate = gate_asking(&format!("lineage-forged-{theme}"), change);
    let pipelines = Pipelines::of(&gate);
    let attempt = |forgery: &Forgery| Attempt {
        gate: &gate,
        pipelines: &pipelines,
        run: forgery.run,
    };
    for forgery in forgeries {
        (forgery.before)(&attempt(forgery));
    }
    for forgery in forgeries {
        let tasks = (forgery.tasks)(&attempt(forgery));
        pipelines.create_run(forgery.run, &json!({"pipelineSpec": {"tasks": tasks}}));
    }
    pipelines.work();
    for forgery in forgeries {
        (forgery.after)(&attempt(forgery));
    }
    let pods: Vec<_> = forgeries
        .iter()
        .map(|it| attempt(it).name(it.pod))
        .collect();
    let requests = forgeries.iter().zip(&pods);
    let requests: Vec<_> = requests
        .map(|(it, pod)| pipelines.wait_for_word(pod, it.words))
        .collect();
    gate.assert_all_held(&pods.iter().map(String::as_str).collect::<Vec<_>>());
    for ((forgery, pod), request) in forgeries.iter().zip(&pods).zip(requests) {
        assert!(!gate.may_use(pod), "{}", forgery.name);
        gate.assert_unbound(&uid(&request));
    }
}

#[test]
fn each_forged_pod_is_refused_with_its_own_reason() {
    try_all("pods", |_| (), pods::ALL);
}

#[test]
fn each_forged_child_is_refused_with_its_own_reason() {
    try_all("children", |_| (), children::ALL);
}

#[test]
fn each_forged_approval_is_refused_with_its_own_reason() {
    let of_alice = |check: &mut Value| check["approvers"] = json!({"users": ["alice"]});
    try_all("approvals", of_alice, approvals::ALL);
}

/// The policy names the pipeline task whose approval it wants.
#[test]
fn an_approval_for_another_task_is_refused_whatever_its_labels_say() {
    let of_wait = |check: &mut Value| {
        check["selector"]["labels"]["tekton.dev/pipelineTask"] = "wait".into();
        check["match"] = "Any".into();
    };
    try_all("tasks", of_wait, approvals::OF_ANOTHER_TASK);
}

/// F15.
#[test]
fn an_approval_of_another_namespace_is_not_found_whatever_its_labels_say() {
    let gate = gate("lineage-here");
    let elsewhere = gate.another("lineage-elsewhere");
    let pipelines = Pipelines::of(&gate);
    let attempt = Attempt {
        gate: &gate,
        pipelines: &pipelines,
        run: "f15",
    };
    let forged = elsewhere.create(&approvals::squatted(&attempt)).unwrap();
    elsewhere.set_state_of(APPROVAL_TASK, &name(&forged), "approved");
    let tasks = json!([deploy_with(&json!({}))]);
    pipelines.create_run(attempt.run, &json!({"pipelineSpec": {"tasks": tasks}}));
    pipelines.work();
    let request = pipelines.wait_for_word("f15-deploy-pod", &["no ApprovalTask with"]);
    gate.assert_held("f15-deploy-pod");
    gate.assert_unbound(&uid(&request));
}
