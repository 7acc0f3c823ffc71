//! Tekton's controller and the controller of its approval gate in one namespace, as far as a proof depends on them.
//!
//! They behave as the real ones do, mistakes included:
//!
//! | object | file | mistakes |
//! |---|---|---|
//! | `PipelineRun` | `pipeline_run`, `children`, `tasks`, `matrix`, `values` | An object that took a derived name first is used as it is. A stranger with the labels and the owner of a run is adopted, and takes the place of a child that is not there yet. A child that is gone is made again under its name, unless the run lists another one of its task |
//! | `TaskRun` | `task_run` | The pod is found by the name in the status alone, and before that by a label and the owner. The author of a run chooses the labels of its pods |
//! | `CustomRun` | `gate` | An object under the name of an approval is adopted with its approvers. A status stays as long as the approvers do not change. A cancelled approval can still be given |
//!
//! Not played: the webhooks of both, tasks and pipelines of the cluster, workspaces, pipelines in pipelines.

mod children;
mod gate;
mod matrix;
mod names;
mod objects;
mod pipeline_run;
mod task_run;
mod tasks;
#[cfg(test)]
mod tests;
mod values;

use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    api::{
        ApiClient, ApiError, ApiUser,
        kinds::{
            APPROVAL_REQUEST, APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, POD, ResourceKind, TASK_RUN,
        },
    },
    checker,
    tekton::STAND_IN,
};
use objects::{MANAGED_BY, changes, elements, name};
use pipeline_run::SeenChildren;

pub use gate::{approval, is_open};
pub use objects::{RUN_LABEL, labels_of_child, owned_by};

/// Group and version of the gate.
pub const GATE: &str = "openshift-pipelines.org/v1alpha1";

const KINDS: [ResourceKind; 5] = [
    PIPELINE_RUN,
    TASK_RUN,
    CUSTOM_RUN,
    APPROVAL_TASK,
    APPROVAL_REQUEST,
];

/// The controllers react to each other. A run is calm after fewer rounds than this, or waits for its pods.
const MOST_ROUNDS: usize = 8;

/// Both controllers, which work when they are told to. `pipeline-controllers` tells them so all the time.
#[derive(Debug)]
pub struct Pipelines {
    api: ApiClient,
    pod_spec: Value,
    /// Counts the writes.
    written: AtomicUsize,
}

/// A write with which a controller is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateWrite {
    /// The status of `TaskRun`s, with the name of the pod.
    PodName,
    /// The list of children in the status of `PipelineRun`s.
    ChildReferences,
}

/// One look of both controllers at everything.
#[derive(Debug, Clone, Copy)]
struct Round {
    now: Timestamp,
    late: Option<LateWrite>,
}

/// A pipeline task that waits for so many approvals of these approvers.
#[must_use]
pub fn wait_for(approvers: &Value, needed: &str) -> Value {
    json!({
        "name": "wait", "taskRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
        "params": [
            {"name": "approvers", "value": approvers},
            {"name": "numberOfApprovalsRequired", "value": needed},
        ],
    })
}

/// A pipeline with a task that waits for its approvers and one that deploys.
fn pipeline(approvers: &Value, needed: &str) -> Value {
    json!({"tasks": [
        wait_for(approvers, needed),
        {"name": "deploy", "taskSpec": {"steps": [{"name": "deploy", "image": "tool:1"}]}},
    ]})
}

/// The selector of a check on the approval of the pod's own run.
#[must_use]
pub fn selector_of_runs() -> Value {
    json!({
        "labels": {RUN_LABEL: "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
        "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
    })
}

fn definition(kind: ResourceKind) -> Value {
    let mut definition = kind.definition();
    definition["metadata"]["labels"] = json!({STAND_IN: ""});
    definition
}

impl Pipelines {
    /// Defines the kinds. Every pod of a `TaskRun` gets this spec, unless the steps of its task say what they do.
    pub fn new(api: &ApiClient, pod_spec: Value) -> Result<Self, ApiError> {
        for kind in KINDS {
            api.define(&definition(kind))?;
        }
        Ok(Self::on(api, pod_spec))
    }

    /// The same where the kinds are defined.
    fn on(api: &ApiClient, pod_spec: Value) -> Self {
        Self {
            api: api.clone(),
            pod_spec,
            written: AtomicUsize::new(0),
        }
    }

    /// A run, both of whose tasks are begun.
    pub fn begin(&self, run: &str, approvers: &Value, needed: &str) -> Result<(), ApiError> {
        self.begin_pipeline(run, &pipeline(approvers, needed))
    }

    /// A run of this pipeline, all of whose tasks are begun that wait for no other.
    pub fn begin_pipeline(&self, run: &str, pipeline: &Value) -> Result<(), ApiError> {
        self.create_run(run, &json!({"pipelineSpec": pipeline}))?;
        self.work()
    }

    /// A run that the controllers have not seen yet. The label goes to its pods.
    pub fn create_run(&self, run: &str, spec: &Value) -> Result<(), ApiError> {
        let mut object = json!({
            "apiVersion": "tekton.dev/v1", "kind": "PipelineRun",
            "metadata": {"name": run, "labels": {"app": "run"}}, "spec": spec,
        });
        let account = &mut object["spec"]["taskRunTemplate"]["serviceAccountName"];
        if account.is_null() {
            *account = "default".into();
        }
        self.api.create(&object).map(drop)
    }

    /// Lets both controllers work until nothing is left to do.
    pub fn work(&self) -> Result<(), ApiError> {
        self.work_in(Round {
            now: checker::now(),
            late: None,
        })
    }

    /// The same up to a write that is late.
    pub fn work_without(&self, late: LateWrite) -> Result<(), ApiError> {
        self.work_in(Round {
            now: checker::now(),
            late: Some(late),
        })
    }

    /// The gate works, and Tekton has not looked yet.
    pub fn gate_works(&self) -> Result<(), ApiError> {
        self.gate_looks(Round {
            now: checker::now(),
            late: None,
        })
    }

    fn work_in(&self, round: Round) -> Result<(), ApiError> {
        for _ in 0..MOST_ROUNDS {
            let before = self.written.load(Ordering::Relaxed);
            self.tekton_looks(round)?;
            self.gate_looks(round)?;
            if self.written.load(Ordering::Relaxed) == before {
                break;
            }
        }
        Ok(())
    }

    fn tekton_looks(&self, round: Round) -> Result<(), ApiError> {
        let runs = self.api.list(PIPELINE_RUN, "")?;
        let seen = SeenChildren {
            task_runs: self.api.list(TASK_RUN, "")?,
            custom_runs: self.api.list(CUSTOM_RUN, "")?,
        };
        for run in &runs {
            self.pipeline_run(run, &seen, round)?;
        }
        let (label, value) = MANAGED_BY;
        let pods = self.api.list(POD, &format!("{label}={value}"))?;
        for run in self.api.list(TASK_RUN, "")? {
            self.task_run(&run, &pods, round)?;
        }
        Ok(())
    }

    fn gate_looks(&self, round: Round) -> Result<(), ApiError> {
        for run in self.api.list(CUSTOM_RUN, "")? {
            self.custom_run(&run, round)?;
        }
        Ok(())
    }

    /// An approver answers. The gate counts when it works.
    pub fn answer(&self, approval: &str, approver: &str, input: &str) -> Result<(), ApiError> {
        answer(&self.api, approval, approver, input)
    }

    /// The same with the approver's own rights.
    pub fn answer_as(&self, approver: &str, approval: &str, input: &str) -> Result<(), ApiError> {
        let api = self.api.acting_as(&ApiUser::named(approver));
        answer(&api, approval, approver, input)
    }

    /// A member of a group answers for the group.
    pub fn answer_for(
        &self,
        approval: &str,
        group: &str,
        member: &str,
        input: &str,
    ) -> Result<(), ApiError> {
        change_approvers(&self.api, approval, |entry| {
            if entry["name"] == group && entry["type"] == "Group" {
                let answer = json!({"name": member, "input": input});
                entry["users"] = [elements(&entry["users"]), &[answer]].concat().into();
                entry["input"] = input.into();
            }
        })
    }

    /// A pod like those of a `TaskRun`.
    #[must_use]
    pub fn pod(&self, name: &str, labels: &Value, owner: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": owned_by(owner)},
            "spec": self.pod_spec,
        })
    }

    fn create(&self, object: &Value) -> Result<Value, ApiError> {
        self.written.fetch_add(1, Ordering::Relaxed);
        self.api.create(object)
    }

    /// Changes fields of an object, unless it has gone.
    fn change(&self, kind: ResourceKind, object: &Value, fields: &Value) -> Result<(), ApiError> {
        self.written.fetch_add(1, Ordering::Relaxed);
        unless_gone(self.api.patch(kind, name(object), fields).map(drop))
    }

    /// Writes a status that says something new.
    fn write_status(
        &self,
        kind: ResourceKind,
        object: &Value,
        status: &Value,
    ) -> Result<(), ApiError> {
        if !changes(object, status) {
            return Ok(());
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        unless_gone(self.api.patch_status(kind, name(object), status).map(drop))
    }

    fn delete(&self, kind: ResourceKind, name: &str) -> Result<(), ApiError> {
        self.written.fetch_add(1, Ordering::Relaxed);
        unless_gone(self.api.delete(kind, name))
    }
}

fn unless_gone(done: Result<(), ApiError>) -> Result<(), ApiError> {
    done.or_else(|error| {
        if error.is_not_found() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

fn answer(api: &ApiClient, approval: &str, approver: &str, input: &str) -> Result<(), ApiError> {
    change_approvers(api, approval, |entry| {
        if entry["name"] == approver && entry["type"] != "Group" {
            entry["input"] = input.into();
        }
    })
}

fn change_approvers(
    api: &ApiClient,
    approval: &str,
    change: impl Fn(&mut Value),
) -> Result<(), ApiError> {
    let task = api.get(APPROVAL_TASK, approval)?.unwrap_or_default();
    let mut approvers = task["spec"]["approvers"].clone();
    for entry in approvers.as_array_mut().into_iter().flatten() {
        change(entry);
    }
    let fields = json!({"spec": {"approvers": approvers}});
    api.patch(APPROVAL_TASK, approval, &fields).map(drop)
}
