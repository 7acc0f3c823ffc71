//! Tekton's controller and the controller of its approval gate in one namespace, as far as a proof depends on them.
//!
//! They behave as the real ones do, mistakes included: children get their derived names; an object that took such a name
//! first is adopted as it is, and so is a `TaskRun` or `CustomRun` with copied labels and owner reference, or a pod with
//! the label and the owner reference of a `TaskRun`; names of deleted children stay in `status.childReferences`; a cancelled
//! approval can still be given; `status.state` is counted from the approvers' inputs.

use e2e::{
    ApiError,
    api::kinds::{
        APPROVAL_REQUEST, APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, POD, ResourceKind, TASK_RUN,
    },
};
use serde_json::{Value, json};

use super::{CONNECTOR, Gate, MOUNT, name, volume};

/// Group and version of the gate.
pub(crate) const GATE: &str = "openshift-pipelines.org/v1alpha1";
const RUN_LABEL: &str = "tekton.dev/pipelineRun";
const TASK_LABEL: &str = "tekton.dev/taskRun";
/// What the names of members begin with. The gate lists a member once the member answers.
const MEMBER: &str = "member-of-";

/// Both controllers, which work when a test says so.
pub(crate) struct Pipelines<'a> {
    gate: &'a Gate,
}

/// A pipeline task that waits for so many approvals of these approvers.
pub(crate) fn wait_for(approvers: &Value, needed: &str) -> Value {
    json!({
        "name": "wait", "taskRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
        "params": [
            {"name": "approvers", "value": approvers},
            {"name": "numberOfApprovalsRequired", "value": needed},
        ],
    })
}

/// A pipeline with a task that waits for its approvers and one that deploys.
pub(crate) fn pipeline(approvers: &Value, needed: &str) -> Value {
    json!({"tasks": [
        wait_for(approvers, needed),
        {"name": "deploy", "taskSpec": {"steps": [{"name": "deploy", "image": "tool:1"}]}},
    ]})
}

/// A policy that asks for the approval of the pod's own run, with the defaults for everything else.
pub(crate) fn policy_of_runs() -> Value {
    let mut policy = super::policy("release", super::Approval::SignOff);
    let check = super::check_of(&mut policy);
    check["selector"] = json!({
        "labels": {RUN_LABEL: "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
        "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
    });
    policy
}

/// Waits until the check of a pod's request has one of these reasons.
pub(crate) fn wait_for_word(gate: &Gate, pod: &str, words: &[&str]) -> Value {
    let request = gate.request_of(pod);
    let has_word = |request: &Value| {
        let policies = request["status"]["policies"]
            .as_array()
            .into_iter()
            .flatten();
        let mut refs = policies.flat_map(|it| it["checkRefs"].as_array().into_iter().flatten());
        refs.any(|it| words.iter().any(|word| it["status"]["reason"] == *word))
    };
    gate.wait_for_request(
        &name(&request),
        &format!("to say one of {words:?}"),
        has_word,
    )
}

/// The references of an object to its controller.
pub(crate) fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

fn is_owned_by(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|it| it["uid"] == owner["metadata"]["uid"] && it["controller"] == true)
}

impl<'a> Pipelines<'a> {
    /// Defines the kinds.
    pub(crate) fn of(gate: &'a Gate) -> Self {
        for kind in [
            PIPELINE_RUN,
            TASK_RUN,
            CUSTOM_RUN,
            APPROVAL_TASK,
            APPROVAL_REQUEST,
        ] {
            gate.api().define(&kind.definition()).unwrap();
        }
        Self { gate }
    }

    /// Starts a run.
    pub(crate) fn start(&self, run: &str, pipeline: &Value) {
        let run = json!({
            "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": run},
            "spec": {"pipelineSpec": pipeline, "taskRunTemplate": {"serviceAccountName": "default"}},
        });
        self.gate.create(&run).unwrap();
    }

    /// A run, both of whose tasks were begun.
    pub(crate) fn begin(&self, run: &str, approvers: &Value, needed: &str) {
        self.start(run, &pipeline(approvers, needed));
        self.work();
    }

    /// Lets both controllers work until nothing is left to do.
    pub(crate) fn work(&self) {
        for _ in 0..3 {
            for run in self.all(PIPELINE_RUN) {
                self.pipeline_run(&run).unwrap();
            }
            for run in self.all(CUSTOM_RUN) {
                self.custom_run(&run).unwrap();
            }
            for run in self.all(TASK_RUN) {
                self.task_run(&run).unwrap();
            }
        }
    }

    /// An approver answers, and the gate counts. Its webhook lets nobody answer once there are enough.
    pub(crate) fn answer(&self, approval: &str, approver: &str, input: &str) {
        let task = self.gate.object(APPROVAL_TASK, approval);
        assert_eq!(counted(&task["spec"]), "pending", "{approval} is final");
        let mut approvers = task["spec"]["approvers"].clone();
        for entry in approvers.as_array_mut().unwrap() {
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
        self.gate
            .api()
            .patch(APPROVAL_TASK, approval, &fields)
            .unwrap();
        self.work();
    }

    /// Waits until the check of a pod's request has one of these reasons.
    pub(crate) fn wait_for_word(&self, pod: &str, words: &[&str]) -> Value {
        wait_for_word(self.gate, pod, words)
    }

    fn all(&self, kind: ResourceKind) -> Vec<Value> {
        self.gate.api().list(kind, "").unwrap()
    }

    fn status(&self, kind: ResourceKind, object: &Value, status: &Value) -> Result<(), ApiError> {
        let name = name(object);
        self.gate.api().patch_status(kind, &name, status).map(drop)
    }

    fn pipeline_run(&self, run: &Value) -> Result<(), ApiError> {
        let api = self.gate.api();
        let run_name = name(run);
        if run["status"]["pipelineSpec"].is_null() {
            let status = json!({
                "pipelineSpec": run["spec"]["pipelineSpec"], "childReferences": [],
                "conditions": [{"type": "Succeeded", "status": "Unknown"}],
            });
            self.status(PIPELINE_RUN, run, &status)?;
        }
        let mut children = run["status"]["childReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut add = |kind: &str, api_version: &str, name: &str, task: &str| {
            let child = json!({"apiVersion": api_version, "kind": kind, "name": name, "pipelineTaskName": task});
            if !children.contains(&child) {
                children.push(child);
            }
        };
        let cancelled = !run["spec"]["status"].is_null();
        let tasks = run["spec"]["pipelineSpec"]["tasks"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for task in tasks.iter().filter(|_| !cancelled) {
            let task_name = task["name"].as_str().unwrap();
            let child = format!("{run_name}-{task_name}");
            let is_custom = task["taskRef"]["apiVersion"] == GATE;
            let (kind, kind_name, version) = if is_custom {
                (CUSTOM_RUN, "CustomRun", "tekton.dev/v1beta1")
            } else {
                (TASK_RUN, "TaskRun", "tekton.dev/v1")
            };
            // What has the name is taken for the child, whatever it is.
            if api.get(kind, &child)?.is_none() {
                let mut spec = json!({"serviceAccountName": "default"});
                if is_custom {
                    spec["customRef"] = task["taskRef"].clone();
                    spec["params"] = task["params"].clone();
                } else {
                    spec["taskSpec"] = task["taskSpec"].clone();
                    spec["timeout"] = "1h0m0s".into();
                }
                self.gate.create(&json!({
                    "apiVersion": version, "kind": kind_name,
                    "metadata": {
                        "name": child, "ownerReferences": owned_by(run),
                        "labels": {RUN_LABEL: run_name, "tekton.dev/pipelineTask": task_name},
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
            for object in api.list(kind, &format!("{RUN_LABEL}={run_name}"))? {
                if is_owned_by(&object, run) {
                    let task = &object["metadata"]["labels"]["tekton.dev/pipelineTask"];
                    add(
                        kind_name,
                        version,
                        &name(&object),
                        task.as_str().unwrap_or_default(),
                    );
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
        let labels = format!("{TASK_LABEL}={run_name}");
        let pods = self.gate.api().list(POD, &labels)?;
        let adopted = pods.iter().find(|it| is_owned_by(it, run));
        let pod = if let Some(pod) = adopted {
            name(pod)
        } else {
            let pod = format!("{run_name}-pod");
            let run_label = &run["metadata"]["labels"][RUN_LABEL];
            let labels = json!({TASK_LABEL: run_name, RUN_LABEL: run_label, "app": pod});
            match self.gate.create(&self.pod(&pod, &labels, run)) {
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

    /// A pod with the connector's volume.
    pub(crate) fn pod(&self, name: &str, labels: &Value, owner: &Value) -> Value {
        let volumes = volume(&json!({"connectors": CONNECTOR}));
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": owned_by(owner)},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volumes["volumes"],
                "containers": [{
                    "name": "main", "image": self.gate.scene().workload_image(), "imagePullPolicy": "IfNotPresent",
                    "command": ["/workload"], "args": ["cat", "--then-wait", MOUNT],
                    "volumeMounts": volumes["volumeMounts"],
                }],
            },
        })
    }

    fn custom_run(&self, run: &Value) -> Result<(), ApiError> {
        if run["spec"]["customRef"]["apiVersion"] != GATE {
            return Ok(());
        }
        let run_name = name(run);
        let task = match self.gate.api().get(APPROVAL_TASK, &run_name)? {
            // What has the name is taken for the approval, whatever it says.
            Some(task) => task,
            None => self.gate.create(&approval(run))?,
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

    /// A `TaskRun` or `CustomRun` as anybody may write it, with everything copied that names its run.
    pub(crate) fn forged_child(
        &self,
        kind: ResourceKind,
        run: &str,
        child: &str,
        task: &str,
    ) -> Value {
        let owner = self.gate.object(PIPELINE_RUN, run);
        let (kind_name, version) = if kind == TASK_RUN {
            ("TaskRun", "tekton.dev/v1")
        } else {
            ("CustomRun", "tekton.dev/v1beta1")
        };
        json!({
            "apiVersion": version, "kind": kind_name,
            "metadata": {
                "name": child, "ownerReferences": owned_by(&owner),
                "labels": {RUN_LABEL: run, "tekton.dev/pipelineTask": task},
            },
        })
    }
}

/// The labels of a child of a run.
pub(crate) fn labels(run: &str, task: &str) -> Value {
    json!({RUN_LABEL: run, "tekton.dev/pipelineTask": task})
}

/// The approval that a `CustomRun` asks for.
pub(crate) fn approval(run: &Value) -> Value {
    let params = run["spec"]["params"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let param = |name: &str| {
        let found = params.iter().find(|it| it["name"] == name);
        found.map(|it| it["value"].clone()).unwrap_or_default()
    };
    let approvers: Vec<Value> = param("approvers")
        .as_array()
        .into_iter()
        .flatten()
        .map(entry)
        .collect();
    let needed = param("numberOfApprovalsRequired");
    json!({
        "apiVersion": GATE, "kind": "ApprovalTask",
        "metadata": {
            "name": run["metadata"]["name"], "ownerReferences": owned_by(run),
            "labels": run["metadata"]["labels"],
        },
        "spec": {
            "approvers": approvers,
            "numberOfApprovalsRequired": needed.as_str().map_or(1, |it| it.parse::<u64>().unwrap()),
        },
    })
}

fn entry(approver: &Value) -> Value {
    let approver = approver.as_str().unwrap();
    match approver.strip_prefix("group:") {
        Some(group) => {
            json!({"name": group, "type": "Group", "input": "pending"})
        }
        None => json!({"name": approver, "type": "User", "input": "pending"}),
    }
}

/// What the gate makes of the inputs.
fn counted(spec: &Value) -> &'static str {
    let entries = spec["approvers"].as_array().cloned().unwrap_or_default();
    if entries.iter().any(|it| it["input"] == "reject") {
        return "rejected";
    }
    let given = entries.iter().filter(|it| it["input"] == "approve").count();
    let needed = spec["numberOfApprovalsRequired"].as_u64().unwrap_or(1);
    if u64::try_from(given).unwrap() >= needed {
        "approved"
    } else {
        "pending"
    }
}
