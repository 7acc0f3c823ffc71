//! Tekton's controller and the controller of its approval gate in one namespace, as far as a proof depends on them.
//!
//! They behave as the real ones do, mistakes included: children get their derived names; an object that took such a name
//! first is adopted as it is, and so is a `TaskRun` or `CustomRun` with copied labels and owner reference, or a pod with
//! the label and the owner reference of a `TaskRun`; names of deleted children stay in `status.childReferences`; a cancelled
//! approval can still be given; `status.state` is counted from the approvers' inputs.

use serde_json::{Value, json};

use crate::{
    api::{
        ApiClient, ApiError,
        kinds::{
            APPROVAL_REQUEST, APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, POD, ResourceKind, TASK_RUN,
        },
    },
    tekton::STAND_IN,
};

/// Group and version of the gate.
pub const GATE: &str = "openshift-pipelines.org/v1alpha1";
/// Names the run of an object.
pub const RUN_LABEL: &str = "tekton.dev/pipelineRun";
const TASK_LABEL: &str = "tekton.dev/taskRun";
/// The prefix of the names of members. The gate lists a member once the member answers.
const MEMBER: &str = "member-of-";

const KINDS: [ResourceKind; 5] = [
    PIPELINE_RUN,
    TASK_RUN,
    CUSTOM_RUN,
    APPROVAL_TASK,
    APPROVAL_REQUEST,
];
/// Both controllers, which work when they are told to. `pipeline-controllers` tells them so all the time.
#[derive(Debug)]
pub struct Pipelines {
    api: ApiClient,
    pod_spec: Value,
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

/// The references of an object to its controller.
#[must_use]
pub fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

fn definition(kind: ResourceKind) -> Value {
    let mut definition = kind.definition();
    definition["metadata"]["labels"] = json!({STAND_IN: ""});
    definition
}

fn is_owned_by(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|it| it["uid"] == owner["metadata"]["uid"] && it["controller"] == true)
}

/// Of an object that the API server has stored.
fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The elements of a list that may be missing.
fn elements(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

impl Pipelines {
    /// Defines the kinds. Every pod of a `TaskRun` gets this spec.
    pub fn new(api: &ApiClient, pod_spec: Value) -> Result<Self, ApiError> {
        for kind in KINDS {
            api.define(&definition(kind))?;
        }
        Ok(Self {
            api: api.clone(),
            pod_spec,
        })
    }

    /// A run, both of whose tasks are begun.
    pub fn begin(&self, run: &str, approvers: &Value, needed: &str) -> Result<(), ApiError> {
        self.begin_pipeline(run, &pipeline(approvers, needed))
    }

    /// A run of this pipeline, all of whose tasks are begun.
    pub fn begin_pipeline(&self, run: &str, pipeline: &Value) -> Result<(), ApiError> {
        self.api.create(&json!({
            "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": run},
            "spec": {"pipelineSpec": pipeline, "taskRunTemplate": {"serviceAccountName": "default"}},
        }))?;
        self.work()
    }

    /// Lets both controllers work until nothing is left to do.
    pub fn work(&self) -> Result<(), ApiError> {
        for _ in 0..3 {
            for run in self.api.list(PIPELINE_RUN, "")? {
                self.pipeline_run(&run)?;
            }
            for run in self.api.list(CUSTOM_RUN, "")? {
                self.custom_run(&run)?;
            }
            for run in self.api.list(TASK_RUN, "")? {
                self.task_run(&run)?;
            }
        }
        Ok(())
    }

    /// An approver answers. The gate counts when it works.
    pub fn answer(&self, approval: &str, approver: &str, input: &str) -> Result<(), ApiError> {
        let task = self.api.get(APPROVAL_TASK, approval)?.unwrap_or_default();
        let mut approvers = task["spec"]["approvers"].clone();
        for entry in approvers.as_array_mut().into_iter().flatten() {
            if entry["name"] == approver {
                entry["input"] = input.into();
            }
            let group = approver.strip_prefix(MEMBER);
            if entry["type"] == "Group" && group.is_some_and(|it| entry["name"] == it) {
                entry["input"] = input.into();
                entry["users"] = json!([{"name": approver, "input": input}]);
            }
        }
        let fields = json!({"spec": {"approvers": approvers}});
        self.api.patch(APPROVAL_TASK, approval, &fields).map(drop)
    }

    fn status(&self, kind: ResourceKind, object: &Value, status: &Value) -> Result<(), ApiError> {
        self.api.patch_status(kind, name(object), status).map(drop)
    }

    fn pipeline_run(&self, run: &Value) -> Result<(), ApiError> {
        let run_name = name(run);
        if run["status"]["pipelineSpec"].is_null() {
            let status = json!({
                "pipelineSpec": run["spec"]["pipelineSpec"], "childReferences": [],
                "conditions": [{"type": "Succeeded", "status": "Unknown"}],
            });
            self.status(PIPELINE_RUN, run, &status)?;
        }
        let mut children = elements(&run["status"]["childReferences"]).to_vec();
        let mut add = |kind: &str, api_version: &str, name: &str, task: &str| {
            let child = json!({"apiVersion": api_version, "kind": kind, "name": name, "pipelineTaskName": task});
            if !children.contains(&child) {
                children.push(child);
            }
        };
        let cancelled = !run["spec"]["status"].is_null();
        let tasks = elements(&run["spec"]["pipelineSpec"]["tasks"]);
        for task in tasks.iter().filter(|_| !cancelled) {
            let task_name = task["name"].as_str().unwrap_or_default();
            let child = format!("{run_name}-{task_name}");
            let is_custom = task["taskRef"]["apiVersion"] == GATE;
            let (kind, kind_name, version) = if is_custom {
                (CUSTOM_RUN, "CustomRun", "tekton.dev/v1beta1")
            } else {
                (TASK_RUN, "TaskRun", "tekton.dev/v1")
            };
            // An object of that name is taken for the child, regardless of its content.
            if self.api.get(kind, &child)?.is_none() {
                let account = &run["spec"]["taskRunTemplate"]["serviceAccountName"];
                let mut spec = json!({"serviceAccountName": account});
                if is_custom {
                    spec["customRef"] = task["taskRef"].clone();
                    spec["params"] = task["params"].clone();
                } else {
                    spec["taskSpec"] = task["taskSpec"].clone();
                    spec["timeout"] = "1h0m0s".into();
                }
                self.api.create(&json!({
                    "apiVersion": version, "kind": kind_name,
                    "metadata": {
                        "name": child, "ownerReferences": owned_by(run),
                        "labels": labels(run_name, task_name),
                    },
                    "spec": spec,
                }))?;
            }
            add(kind_name, version, &child, task_name);
        }
        // Strangers with the run's label and owner reference are adopted.
        for (kind, kind_name, version) in [
            (CUSTOM_RUN, "CustomRun", "tekton.dev/v1beta1"),
            (TASK_RUN, "TaskRun", "tekton.dev/v1"),
        ] {
            for object in self.api.list(kind, &format!("{RUN_LABEL}={run_name}"))? {
                if is_owned_by(&object, run) {
                    let task = &object["metadata"]["labels"]["tekton.dev/pipelineTask"];
                    let task = task.as_str().unwrap_or_default();
                    add(kind_name, version, name(&object), task);
                }
            }
        }
        self.status(PIPELINE_RUN, run, &json!({"childReferences": children}))
    }

    fn task_run(&self, run: &Value) -> Result<(), ApiError> {
        if !run["status"]["podName"].is_null() {
            return Ok(());
        }
        let run_name = name(run);
        let pods = self.api.list(POD, &format!("{TASK_LABEL}={run_name}"))?;
        let adopted = pods.iter().find(|it| is_owned_by(it, run));
        let pod = if let Some(pod) = adopted {
            name(pod).to_owned()
        } else {
            let pod = format!("{run_name}-pod");
            let run_label = &run["metadata"]["labels"][RUN_LABEL];
            let labels = json!({TASK_LABEL: run_name, RUN_LABEL: run_label, "app": pod});
            match self.api.create(&self.pod(&pod, &labels, run)) {
                Ok(_) => pod,
                // A pod that has the name and another owner fails the TaskRun.
                Err(error) if error.to_string().contains("AlreadyExists") => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        let status =
            json!({"podName": pod, "conditions": [{"type": "Succeeded", "status": "Unknown"}]});
        self.status(TASK_RUN, run, &status)
    }

    /// A pod of a `TaskRun`.
    #[must_use]
    pub fn pod(&self, name: &str, labels: &Value, owner: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": owned_by(owner)},
            "spec": self.pod_spec,
        })
    }

    fn custom_run(&self, run: &Value) -> Result<(), ApiError> {
        if run["spec"]["customRef"]["apiVersion"] != GATE {
            return Ok(());
        }
        let task = match self.api.get(APPROVAL_TASK, name(run))? {
            // An object of that name is taken for the approval, regardless of its content.
            Some(task) => task,
            None => self.api.create(&approval(run))?,
        };
        let state = counted(&task["spec"]);
        if task["status"]["state"] != state {
            self.status(APPROVAL_TASK, &task, &json!({"state": state}))?;
        }
        let succeeded = match state {
            "approved" => "True",
            "rejected" => "False",
            _ => "Unknown",
        };
        let conditions = json!([{"type": "Succeeded", "status": succeeded}]);
        self.status(CUSTOM_RUN, run, &json!({"conditions": conditions}))
    }
}

/// The labels of a child of a run.
#[must_use]
pub fn labels(run: &str, task: &str) -> Value {
    json!({RUN_LABEL: run, "tekton.dev/pipelineTask": task})
}

/// The approval that a `CustomRun` asks for.
#[must_use]
pub fn approval(run: &Value) -> Value {
    let params = elements(&run["spec"]["params"]);
    let param = |name: &str| {
        let found = params.iter().find(|it| it["name"] == name);
        found.map(|it| it["value"].clone()).unwrap_or_default()
    };
    let approvers = param("approvers");
    let approvers: Vec<Value> = elements(&approvers).iter().map(entry).collect();
    let needed = param("numberOfApprovalsRequired");
    let needed = needed.as_str().and_then(|it| it.parse::<u64>().ok());
    json!({
        "apiVersion": GATE, "kind": "ApprovalTask",
        "metadata": {
            "name": run["metadata"]["name"], "ownerReferences": owned_by(run),
            "labels": run["metadata"]["labels"],
        },
        "spec": {"approvers": approvers, "numberOfApprovalsRequired": needed.unwrap_or(1)},
    })
}

fn entry(approver: &Value) -> Value {
    let approver = approver.as_str().unwrap_or_default();
    match approver.strip_prefix("group:") {
        Some(group) => {
            json!({"name": group, "type": "Group", "input": "pending"})
        }
        None => json!({"name": approver, "type": "User", "input": "pending"}),
    }
}

/// The state of an approval, from the answers of its approvers.
#[must_use]
pub fn counted(spec: &Value) -> &'static str {
    let entries = elements(&spec["approvers"]);
    if entries.iter().any(|it| it["input"] == "reject") {
        return "rejected";
    }
    let given = entries.iter().filter(|it| it["input"] == "approve").count();
    let needed = spec["numberOfApprovalsRequired"].as_u64().unwrap_or(1);
    if u64::try_from(given).is_ok_and(|it| it >= needed) {
        "approved"
    } else {
        "pending"
    }
}
