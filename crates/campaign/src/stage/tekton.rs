//! A pipeline run as Tekton and its approval gate make it: the base of scenarios with a proof of lineage.

use serde_json::{Value, json};
use testkit::Kind;

use super::{APPS, START, Stage};

/// Group and version of the gate.
pub const GATE: &str = "openshift-pipelines.org/v1alpha1";
/// The label by which checks find the approvals of a run.
pub const RUN_LABEL: &str = "tekton.dev/pipelineRun";
/// The reason for which a run skips a task that it has not begun when another one fails.
pub const STOPPING: &str = "PipelineRun was stopping";
/// A creation time before every run.
pub const BEFORE_ALL: &str = "2026-03-01T09:59:00Z";

/// A run of a pipeline with an approval and several tasks, and the pod of one of the tasks.
#[derive(Clone, Copy)]
pub struct Run {
    /// The run.
    pub name: &'static str,
    /// The pipeline task of the pod.
    pub task: &'static str,
    /// The pod.
    pub pod: &'static str,
}

/// The run that scenarios are about.
pub const RELEASE: Run = Run {
    name: "release",
    task: "deploy",
    pod: "release-deploy-pod",
};
/// A second task of the same run.
pub const VERIFY: Run = Run {
    task: "verify",
    pod: "release-verify-pod",
    ..RELEASE
};
/// Another run of the same pipeline.
pub const ANOTHER: Run = Run {
    name: "another",
    pod: "another-deploy-pod",
    ..RELEASE
};

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The `PipelineRun`.
    Run,
    /// The `TaskRun` of the pod.
    TaskRun,
    /// The `CustomRun` that asks for the approval.
    CustomRun,
    /// The `ApprovalTask`.
    Approval,
    /// The pod.
    Pod,
}

impl Part {
    /// All of them, each after its owner.
    pub const ALL: [Self; 5] = [
        Self::Run,
        Self::TaskRun,
        Self::CustomRun,
        Self::Approval,
        Self::Pod,
    ];

    /// Group and version, and kind.
    const fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Run => ("tekton.dev/v1", "PipelineRun"),
            Self::TaskRun => ("tekton.dev/v1", "TaskRun"),
            Self::CustomRun => ("tekton.dev/v1beta1", "CustomRun"),
            Self::Approval => (GATE, "ApprovalTask"),
            Self::Pod => ("v1", "Pod"),
        }
    }

    fn plural(self) -> String {
        format!("{}s", self.kind().1.to_lowercase())
    }

    const fn owner(self) -> Option<Self> {
        match self {
            Self::Run => None,
            Self::TaskRun | Self::CustomRun => Some(Self::Run),
            Self::Approval => Some(Self::CustomRun),
            Self::Pod => Some(Self::TaskRun),
        }
    }
}

impl Run {
    /// The name of a part.
    #[must_use]
    pub fn name_of(self, part: Part) -> String {
        let Self { name, task, pod } = self;
        match part {
            Part::Run => name.to_owned(),
            Part::TaskRun => format!("{name}-{task}"),
            Part::CustomRun | Part::Approval => format!("{name}-wait"),
            Part::Pod => pod.to_owned(),
        }
    }

    /// The UID that a part has unless it is replaced.
    fn uid_of(self, part: Part) -> String {
        format!("{}-{}", part.plural(), self.name_of(part))
    }

    /// The reference to a part as the controller of another object.
    #[must_use]
    pub fn owns(self, part: Part) -> Value {
        let (api_version, kind) = part.kind();
        json!([{
            "apiVersion": api_version, "kind": kind, "name": self.name_of(part), "uid": self.uid_of(part),
            "controller": true, "blockOwnerDeletion": true,
        }])
    }

    /// The entry of a child in the status of the run.
    #[must_use]
    pub fn child(self, part: Part, name: &str, task: &str) -> Value {
        let (api_version, kind) = part.kind();
        json!({"apiVersion": api_version, "kind": kind, "name": name, "pipelineTaskName": task})
    }

    /// The children of the run.
    #[must_use]
    pub fn children(self) -> Value {
        json!([
            self.child(Part::CustomRun, &self.name_of(Part::CustomRun), "wait"),
            self.child(Part::TaskRun, &self.name_of(Part::TaskRun), self.task),
        ])
    }

    /// A part as honest controllers make it. No approver has answered.
    #[must_use]
    pub fn part(self, part: Part) -> Value {
        let (api_version, kind) = part.kind();
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": self.name_of(part), "namespace": APPS, "uid": self.uid_of(part),
                "creationTimestamp": START, "labels": {RUN_LABEL: self.name},
            },
        });
        if let Some(owner) = part.owner() {
            object["metadata"]["ownerReferences"] = self.owns(owner);
        }
        let succeeded = json!([{"type": "Succeeded", "status": "Unknown"}]);
        match part {
            Part::Run => {
                object["spec"] = json!({
                    "pipelineRef": {"name": "release"}, "taskRunTemplate": {"serviceAccountName": "builder"},
                });
                object["status"] = json!({
                    "pipelineSpec": pipeline(), "childReferences": self.children(), "conditions": succeeded,
                });
            }
            Part::TaskRun => {
                object["spec"] =
                    json!({"serviceAccountName": "builder", "taskSpec": script("tool:1")});
                object["status"] = json!({"podName": self.pod, "conditions": succeeded});
            }
            Part::CustomRun => {
                object["spec"] = json!({
                    "serviceAccountName": "builder", "customRef": gate(), "params": params("alice"),
                });
                object["status"] = json!({"conditions": succeeded});
            }
            Part::Approval => {
                object["spec"] = json!({"approvers": [approver("alice", "pending")], "numberOfApprovalsRequired": 1});
                object["status"] = json!({"state": "pending"});
            }
            Part::Pod => {
                object["spec"] = json!({
                    "serviceAccountName": "builder", "containers": [{"name": "main", "image": "main"}],
                });
                object["status"] = json!({"phase": "Pending"});
            }
        }
        object
    }
}

fn gate() -> Value {
    json!({"apiVersion": GATE, "kind": "ApprovalTask"})
}

/// A task that runs this image.
#[must_use]
pub fn script(image: &str) -> Value {
    json!({"steps": [{"name": "main", "image": image}]})
}

/// The parameters that ask this user for an approval.
#[must_use]
pub fn params(approver: &str) -> Value {
    json!([
        {"name": "approvers", "value": [approver]}, {"name": "numberOfApprovalsRequired", "value": "1"},
    ])
}

/// An approver with an answer.
#[must_use]
pub fn approver(name: &str, input: &str) -> Value {
    json!({"name": name, "type": "User", "input": input})
}

/// The approver of an approval answers, and the gate counts.
pub fn answered(approval: &mut Value, input: &str, state: &str) {
    approval["spec"]["approvers"][0]["input"] = input.into();
    approval["status"]["state"] = state.into();
}

/// The pipeline of all runs.
fn pipeline() -> Value {
    json!({"tasks": [
        {"name": "wait", "taskRef": gate(), "params": params("alice")},
        {"name": "deploy", "taskSpec": script("tool:1")},
        {"name": "verify", "taskSpec": script("tool:1")},
    ]})
}

impl Stage {
    /// Installs Tekton.
    pub fn tekton(&self) {
        for part in [Part::Run, Part::TaskRun, Part::CustomRun] {
            let (api_version, kind) = part.kind();
            let (group, version) = api_version.split_once('/').unwrap_or_default();
            self.server.register(Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                plural: part.plural(),
                namespaced: true,
                status: true,
            });
        }
    }

    /// A run with everything that belongs to it, without the pod's request.
    pub fn run(&self, run: Run) {
        for part in Part::ALL {
            self.put(run.part(part));
        }
    }

    /// The same without one part.
    pub fn run_without(&self, run: Run, missing: Part) {
        for part in Part::ALL.into_iter().filter(|it| *it != missing) {
            self.put(run.part(part));
        }
    }

    /// Creates a part with differences from the honest one.
    pub fn put_part(&self, run: Run, part: Part, edit: impl FnOnce(&mut Value)) {
        let mut object = run.part(part);
        edit(&mut object);
        self.put(object);
    }

    /// Changes a part.
    pub fn change_part(&self, run: Run, part: Part, change: impl FnOnce(&mut Value)) {
        let name = run.name_of(part);
        self.server.change(&part.plural(), APPS, &name, change);
    }

    /// Deletes a part.
    pub fn delete_part(&self, run: Run, part: Part) {
        self.server.delete(&part.plural(), APPS, &run.name_of(part));
    }

    /// Deletes a part, and creates it again with another UID.
    pub fn replace_part(&self, run: Run, part: Part) {
        self.delete_part(run, part);
        self.put_part(run, part, |it| {
            it["metadata"]["uid"] = format!("{}-again", run.uid_of(part)).into();
        });
    }

    /// The approver of a run answers, and the gate counts.
    pub fn answer(&self, run: Run, input: &str, state: &str) {
        self.change_part(run, Part::Approval, |it| answered(it, input, state));
    }

    /// Cancels a run.
    pub fn cancel(&self, run: Run) {
        self.change_part(run, Part::Run, |it| {
            it["spec"]["status"] = "Cancelled".into();
        });
    }
}
