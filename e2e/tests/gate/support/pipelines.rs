//! Tekton's controller and the one of its approval gate in a scenario, and policies about runs.

use e2e::{
    api::kinds::{APPROVAL_TASK, PIPELINE_RUN, ResourceKind, TASK_RUN},
    pipelines::{self, is_open, labels_of_child, selector_of_runs},
};
use serde_json::{Value, json};

use super::{CONNECTOR, Gate, MOUNT, name, volume};

pub(crate) use e2e::pipelines::{GATE, LateWrite, RUN_LABEL, approval, owned_by, wait_for};

/// Both controllers, which work when a test says so.
pub(crate) struct Pipelines<'a> {
    gate: &'a Gate,
    controllers: pipelines::Pipelines,
}

/// A policy that asks for the approval of the pod's own run, with the defaults for everything else.
pub(crate) fn policy_of_runs() -> Value {
    let mut policy = super::policy("release", super::Approval::SignOff);
    super::check_of(&mut policy)["selector"] = selector_of_runs();
    policy
}

/// A pipeline task that deploys, with more fields.
pub(crate) fn deploy_with(more: &Value) -> Value {
    let mut task =
        json!({"name": "deploy", "taskSpec": {"steps": [{"name": "deploy", "image": "tool:1"}]}});
    e2e::install::merge(&mut task, more);
    task
}

/// Waits until the check of a pod's request has one of these reasons, or says one of them where it found no object.
pub(crate) fn wait_for_word(gate: &Gate, pod: &str, words: &[&str]) -> Value {
    let request = gate.request_of(pod);
    let has_word = |request: &Value| {
        let policies = request["status"]["policies"]
            .as_array()
            .into_iter()
            .flatten();
        let mut refs = policies.flat_map(|it| it["checkRefs"].as_array().into_iter().flatten());
        let conditions = request["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut messages = conditions.filter_map(|it| it["message"].as_str());
        refs.any(|it| words.iter().any(|word| it["status"]["reason"] == *word))
            || messages.any(|it| words.iter().any(|word| it.contains(word)))
    };
    gate.wait_for_request(
        &name(&request),
        &format!("to say one of {words:?}"),
        has_word,
    )
}

impl<'a> Pipelines<'a> {
    /// Defines the kinds. The pods have the connector's volume.
    pub(crate) fn of(gate: &'a Gate) -> Self {
        let volumes = volume(&json!({"connectors": CONNECTOR}));
        let pod_spec = json!({
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volumes["volumes"],
            "containers": [{
                "name": "main", "image": gate.scene().workload_image(), "imagePullPolicy": "IfNotPresent",
                "command": ["/workload"], "args": ["cat", "--then-wait", MOUNT],
                "volumeMounts": volumes["volumeMounts"],
            }],
        });
        Self {
            gate,
            controllers: pipelines::Pipelines::new(gate.api(), pod_spec).unwrap(),
        }
    }

    /// A run, both of whose tasks were begun.
    pub(crate) fn begin(&self, run: &str, approvers: &Value, needed: &str) {
        self.controllers.begin(run, approvers, needed).unwrap();
    }

    /// A run of this pipeline, all of whose tasks were begun.
    pub(crate) fn begin_pipeline(&self, run: &str, pipeline: &Value) {
        self.controllers.begin_pipeline(run, pipeline).unwrap();
    }

    /// A run that the controllers have not seen yet.
    pub(crate) fn create_run(&self, run: &str, spec: &Value) {
        self.controllers.create_run(run, spec).unwrap();
    }

    /// Lets both controllers work until nothing is left to do.
    pub(crate) fn work(&self) {
        self.controllers.work().unwrap();
    }

    /// The same up to a write that is late.
    pub(crate) fn work_without(&self, late: LateWrite) {
        self.controllers.work_without(late).unwrap();
    }

    /// An approver answers, and the gate counts. Its webhook refuses further answers once there are enough.
    pub(crate) fn answer(&self, approval: &str, approver: &str, input: &str) {
        self.answer_before_tekton_looks(approval, approver, input);
        self.work();
    }

    /// The same with the approver's own rights.
    pub(crate) fn answer_as(&self, approver: &str, approval: &str, input: &str) {
        self.expect_open(approval);
        let answered = self.controllers.answer_as(approver, approval, input);
        answered.unwrap();
        self.work();
    }

    /// The answer of an approver before Tekton looks at anything again.
    pub(crate) fn answer_before_tekton_looks(&self, approval: &str, approver: &str, input: &str) {
        self.expect_open(approval);
        self.controllers.answer(approval, approver, input).unwrap();
        self.controllers.gate_works().unwrap();
    }

    /// A member of a group answers for it.
    pub(crate) fn answer_for(&self, approval: &str, group: &str, member: &str) {
        self.expect_open(approval);
        let answered = self
            .controllers
            .answer_for(approval, group, member, "approve");
        answered.unwrap();
        self.work();
    }

    fn expect_open(&self, approval: &str) {
        let task = self.gate.object(APPROVAL_TASK, approval);
        assert!(is_open(&task), "{approval} is final: {task}");
    }

    /// The children of a pipeline task that the run lists.
    pub(crate) fn children(&self, run: &str, task: &str) -> Vec<String> {
        let run = self.gate.object(PIPELINE_RUN, run);
        let children = run["status"]["childReferences"]
            .as_array()
            .into_iter()
            .flatten();
        let of_task = children.filter(|it| it["pipelineTaskName"] == task);
        let names = of_task.map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect()
    }

    /// The pods of a pipeline task.
    pub(crate) fn pods(&self, run: &str, task: &str) -> Vec<String> {
        let of_child = |child: &String| {
            let child = self.gate.object(TASK_RUN, child);
            child["status"]["podName"].as_str().unwrap().to_owned()
        };
        self.children(run, task).iter().map(of_child).collect()
    }

    /// A step that is run as it is.
    pub(crate) fn step(&self, name: &str, args: &Value) -> Value {
        json!({
            "name": name, "image": self.gate.scene().workload_image(), "imagePullPolicy": "IfNotPresent",
            "command": ["/workload"], "args": args,
        })
    }

    /// Waits until the check of a pod's request has one of these reasons.
    pub(crate) fn wait_for_word(&self, pod: &str, words: &[&str]) -> Value {
        wait_for_word(self.gate, pod, words)
    }

    /// A pod with the connector's volume.
    pub(crate) fn pod(&self, name: &str, labels: &Value, owner: &Value) -> Value {
        self.controllers.pod(name, labels, owner)
    }

    /// A `TaskRun` or `CustomRun` that any user may write, with a copy of everything that names its run.
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
                "name": child, "ownerReferences": owned_by(&owner), "labels": labels_of_child(&owner, task),
            },
        })
    }
}
