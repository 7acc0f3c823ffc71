//! Tekton's controller and the one of its approval gate in a scenario, and policies about runs.

use e2e::{
    api::kinds::{APPROVAL_TASK, PIPELINE_RUN, ResourceKind, TASK_RUN},
    pipelines::{self, counted, selector_of_runs},
};
use serde_json::{Value, json};

use super::{CONNECTOR, Gate, MOUNT, name, volume};

pub(crate) use e2e::pipelines::{GATE, approval, labels, owned_by, wait_for};

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

    /// Lets both controllers work until nothing is left to do.
    pub(crate) fn work(&self) {
        self.controllers.work().unwrap();
    }

    /// An approver answers, and the gate counts. Its webhook refuses further answers once there are enough.
    pub(crate) fn answer(&self, approval: &str, approver: &str, input: &str) {
        let task = self.gate.object(APPROVAL_TASK, approval);
        assert_eq!(counted(&task["spec"]), "pending", "{approval} is final");
        self.controllers.answer(approval, approver, input).unwrap();
        self.work();
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
                "name": child, "ownerReferences": owned_by(&owner), "labels": labels(run, task),
            },
        })
    }
}
