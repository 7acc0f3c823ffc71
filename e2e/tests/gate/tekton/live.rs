//! A run on the live controllers, from outside: the users' actions, and the visible state.

use std::time::Duration;

use e2e::{
    ApiClient, ApiError, ApiUser, Deadline,
    api::kinds::{
        ADMISSION_POLICY, APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, ResourceKind, TASK_RUN,
    },
    poll,
};
use serde_json::{Value, json};

use crate::support::{
    Gate, check_of,
    pipelines::{owned_by, policy_of_runs},
};

/// Pods of a run begin one after the other, and images may have to be pulled.
const PATIENCE: Duration = Duration::from_mins(2);

/// A namespace whose policy asks for the approval of the pod's own run.
pub(super) struct Live {
    pub(super) gate: Gate,
}

impl Live {
    pub(super) fn new(test: &str) -> Self {
        Self::asking(Gate::new(test), |_| ())
    }

    /// The same with another check.
    pub(super) fn asking(gate: Gate, change: impl FnOnce(&mut Value)) -> Self {
        let mut policy = policy_of_runs();
        change(check_of(&mut policy));
        gate.scene().apply(&policy).unwrap();
        Self { gate }
    }

    /// True where the chart has this rule of `tekton.admission`.
    pub(super) fn has_rule(&self, rule: &str) -> bool {
        let found = self.gate.api().get(ADMISSION_POLICY, rule);
        found.unwrap().is_some()
    }

    /// Creates an object as the administrator.
    pub(super) fn create(&self, object: &Value) -> Value {
        self.gate.create(object).unwrap()
    }

    /// A user with the rights of the cluster's role `edit` in the namespace, and with the additions of Tekton
    /// and the gate.
    pub(super) fn tenant(&self) -> ApiClient {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "mallory"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}],
        });
        let api = self.gate.api();
        api.apply(&binding).unwrap();
        let mallory = ApiUser::named("mallory");
        // The API server learns of a binding a moment later, and a refusal until then would look like a failed forgery.
        for (group, resource) in [("", "pods"), ("tekton.dev", "customruns")] {
            let may = json!({
                "namespace": self.gate.namespace(), "verb": "create", "group": group, "resource": resource,
            });
            let what = format!("the tenant to be allowed to create {resource}");
            wait(&what, || match api.allows(&mallory, &may) {
                Ok(true) => Ok(()),
                other => Err(format!("{other:?}")),
            });
        }
        api.acting_as(&mallory)
    }

    /// The honest run. Its author may leave its name to the API server.
    fn run(&self) -> Value {
        let mut runs = self.gate.api().list(PIPELINE_RUN, "").unwrap();
        runs.retain(|it| it["metadata"]["name"] != "evil");
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// The children of a pipeline task, once there are so many.
    pub(super) fn children(&self, task: &str, count: usize) -> Vec<String> {
        wait(&format!("{count} children of {task}"), || {
            let run = self.run();
            let children = run["status"]["childReferences"].as_array();
            let children = children.into_iter().flatten();
            let of_task = children.filter(|it| it["pipelineTaskName"] == task);
            let names = of_task.map(|it| it["name"].as_str().unwrap_or_default().to_owned());
            let names: Vec<_> = names.collect();
            if names.len() == count {
                Ok(names)
            } else {
                Err(run["status"].to_string())
            }
        })
    }

    /// The current pod of a `TaskRun`, once there is one.
    pub(super) fn pod(&self, task_run: &str) -> String {
        wait(&format!("the pod of TaskRun {task_run}"), || {
            let found = self.gate.api().get(TASK_RUN, task_run);
            let status = found
                .map_err(|error| error.to_string())?
                .unwrap_or_default();
            let pod = status["status"]["podName"].as_str();
            pod.map(str::to_owned).ok_or_else(|| status.to_string())
        })
    }

    /// Waits until the gate has taken an approval up.
    pub(super) fn wait_for_approval(&self, approval: &str) {
        let what = format!("ApprovalTask {approval} to be pending");
        wait(&what, || {
            let found = self.gate.api().get(APPROVAL_TASK, approval);
            let found = found
                .map_err(|error| error.to_string())?
                .unwrap_or_default();
            if found["status"]["state"] == "pending" {
                Ok(())
            } else {
                Err(found.to_string())
            }
        });
    }

    /// A user answers without any right to write other fields.
    pub(super) fn answer(
        &self,
        approval: &str,
        user: &str,
        group: Option<&str>,
        input: &str,
    ) -> Result<(), ApiError> {
        let task = self.gate.object(APPROVAL_TASK, approval);
        let mut approvers = task["spec"]["approvers"].clone();
        for entry in approvers.as_array_mut().unwrap() {
            let is_own = entry["name"] == group.unwrap_or(user);
            if !is_own {
                continue;
            }
            entry["input"] = input.into();
            if group.is_some() {
                let mut members = entry["users"].as_array().cloned().unwrap_or_default();
                members.push(json!({"name": user, "input": input}));
                entry["users"] = json!(members);
            }
        }
        let user = ApiUser::named(user);
        let user = match group {
            Some(group) => user.in_group(group).in_group("system:authenticated"),
            None => user,
        };
        let api = self.gate.api().acting_as(&user);
        let fields = json!({"spec": {"approvers": approvers}});
        api.patch(APPROVAL_TASK, approval, &fields).map(drop)
    }

    /// Both honest children of the run, and the approval: the targets of a forgery.
    pub(super) fn wait_for_both(&self) {
        self.children("wait", 1);
        let deploy = self.children("deploy", 1).remove(0);
        for (kind, name) in [(TASK_RUN, deploy.as_str()), (APPROVAL_TASK, "run-wait")] {
            wait(name, || match self.gate.api().get(kind, name) {
                Ok(Some(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            });
        }
    }

    /// The reference by which an object owns others, for a forger that may read it.
    pub(super) fn owner(&self, kind: ResourceKind, name: &str) -> Value {
        owned_by(&self.gate.object(kind, name))
    }

    pub(super) fn owner_of_children(&self) -> Value {
        self.owner(PIPELINE_RUN, "run")
    }

    pub(super) fn custom_run_owner(&self) -> Value {
        self.owner(CUSTOM_RUN, "run-wait")
    }
}

fn wait<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    poll(what, Deadline::after(PATIENCE), look).unwrap_or_else(|error| panic!("{error}"))
}
