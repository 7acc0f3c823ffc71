//! The objects of a run of a shape.

use serde_json::{Value, json};

use super::super::world::{World, claim, owner, stamped};
use super::{LIST, Shape, Uses, Workspace, names};

impl Shape {
    fn pipeline_run(&self) -> Value {
        let reference = |kind: &str, version: &str, name: &str, task: &str| json!({"apiVersion": format!("tekton.dev/{version}"), "kind": kind, "name": name, "pipelineTaskName": task});
        let mut children = vec![
            reference("TaskRun", "v1", &names::child(&self.run, "-who"), "who"),
            reference(
                "CustomRun",
                "v1beta1",
                &names::child(&self.run, "-ask"),
                "ask",
            ),
            reference(
                "CustomRun",
                "v1beta1",
                &self.custom_run_name(),
                &self.approve,
            ),
        ];
        children.extend(
            self.names()
                .iter()
                .map(|it| reference("TaskRun", "v1", it, &self.task)),
        );
        let mut run = stamped("tekton.dev/v1", "PipelineRun", &self.run, &self.uid, 0);
        run["spec"] = json!({
            "pipelineRef": {"name": "deploy"},
            "taskRunTemplate": {"serviceAccountName": "builder"},
        });
        if self.has_template {
            run["spec"]["taskRunTemplate"]["podTemplate"] = json!({
                "nodeSelector": {"disk": "ssd"}, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            });
        }
        let mut own = json!({"pipelineTaskName": self.task});
        if self.own_account {
            own["serviceAccountName"] = "deployer".into();
        }
        if self.has_template {
            own["podTemplate"] = json!({"env": [{"name": "B", "value": "3"}], "hostNetwork": true});
            own["stepSpecs"] = json!([{"name": "s", "computeResources": {}}]);
        }
        if self.own_account || self.has_template {
            run["spec"]["taskRunSpecs"] =
                json!([{"pipelineTaskName": "lint", "serviceAccountName": "no"}, own]);
        }
        match self.workspace {
            Workspace::None => {}
            Workspace::Secret => {
                run["spec"]["workspaces"] = json!([{
                    "name": "shared", "secret": {"secretName": "s"}, "subPath": "of/$(context.pipelineRun.name)",
                }]);
            }
            Workspace::Claim => {
                run["spec"]["workspaces"] = json!([{"name": "shared", "volumeClaimTemplate": {
                    "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]},
                }}]);
            }
        }
        run["status"] = json!({
            "pipelineSpec": self.pipeline_spec(),
            "childReferences": children,
            "conditions": [{"type": "Succeeded", "status": "Unknown"}],
            "startTime": "2026-11-21T10:00:00Z",
        });
        if self.has_conditions {
            let reason = "When Expressions evaluated to false";
            run["status"]["skippedTasks"] = json!([{"name": "scan", "reason": reason}]);
        }
        run
    }

    pub(super) fn custom_run_name(&self) -> String {
        names::child(&self.run, &format!("-{}", self.approve))
    }

    fn account(&self) -> &'static str {
        if self.own_account {
            "deployer"
        } else {
            "builder"
        }
    }

    fn task_run(&self) -> Value {
        let name = &self.names()[self.index % self.names().len()];
        let mut child = stamped(
            "tekton.dev/v1",
            "TaskRun",
            name,
            &format!("{}-task", self.uid),
            20,
        );
        child["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "PipelineRun", &self.run, &self.uid);
        let mut params = self.combinations()[self.index % self.names().len()].clone();
        params.push(self.param().1);
        child["spec"] = json!({
            "params": params, "serviceAccountName": self.account(), "retries": 2, "timeout": "30m0s",
        });
        let (_, target) = self.target();
        child["spec"]
            .as_object_mut()
            .unwrap()
            .extend(target.as_object().unwrap().clone());
        if self.has_template {
            child["spec"]["podTemplate"] = json!({
                "nodeSelector": {"disk": "ssd"}, "hostNetwork": true,
                "env": [{"name": "B", "value": "3"}, {"name": "A", "value": "1"}],
            });
            child["spec"]["stepSpecs"] = json!([{"name": "s", "computeResources": {}}]);
        }
        match self.workspace {
            Workspace::None => {}
            Workspace::Secret => {
                let path = format!("of/{}/sub", self.run);
                child["spec"]["workspaces"] =
                    json!([{"name": "src", "secret": {"secretName": "s"}, "subPath": path}]);
            }
            Workspace::Claim => {
                let claim = claim("data", "shared", &self.uid);
                child["spec"]["workspaces"] = json!([{
                    "name": "src", "persistentVolumeClaim": {"claimName": claim}, "subPath": "sub",
                }]);
            }
        }
        let suffix = |attempt: usize| match attempt {
            0 => "-pod".to_owned(),
            _ => format!("-pod-retry{attempt}"),
        };
        let pod = |attempt: usize| names::child(name, &suffix(attempt));
        let earlier: Vec<_> = (0..self.attempts)
            .map(|it| json!({"podName": pod(it)}))
            .collect();
        child["status"] = json!({
            "podName": pod(self.attempts),
            "conditions": [{"type": "Succeeded", "status": "Unknown"}],
        });
        if !earlier.is_empty() {
            child["status"]["retriesStatus"] = json!(earlier);
        }
        child
    }

    fn pod(&self, task_run: &Value) -> Value {
        let name = task_run["status"]["podName"].as_str().unwrap();
        let mut pod = stamped("v1", "Pod", name, &format!("{}-pod", self.uid), 30);
        let metadata = &task_run["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap();
        pod["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "TaskRun", text("name"), text("uid"));
        pod["metadata"]["labels"] = json!({"tekton.dev/pipelineRun": self.run});
        pod["spec"] = json!({"serviceAccountName": self.account()});
        pod
    }

    fn custom_run(&self) -> Value {
        let name = self.custom_run_name();
        let mut child = stamped(
            "tekton.dev/v1beta1",
            "CustomRun",
            &name,
            &format!("{}-custom", self.uid),
            10,
        );
        child["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "PipelineRun", &self.run, &self.uid);
        child["spec"] = json!({
            "customRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
            "params": [
                {"name": "approvers", "value": self.approver_params()},
                {"name": "numberOfApprovalsRequired", "value": self.needed.to_string()},
                {"name": "description", "value": "Go?"},
            ],
            "serviceAccountName": "builder",
        });
        child["status"] = json!({"conditions": [{"type": "Succeeded", "status": "True"}]});
        child
    }

    fn approval(&self) -> Value {
        let name = self.custom_run_name();
        let mut approval = stamped(
            "openshift-pipelines.org/v1alpha1",
            "ApprovalTask",
            &name,
            &format!("{}-approval", self.uid),
            11,
        );
        approval["metadata"]["ownerReferences"] = owner(
            "tekton.dev/v1beta1",
            "CustomRun",
            &name,
            &format!("{}-custom", self.uid),
        );
        let entry = |(index, (is_group, name)): (usize, &(bool, String))| {
            let input = if index < self.needed {
                "approve"
            } else {
                "pending"
            };
            if *is_group {
                let member =
                    json!({"name": format!("member-of-{name}"), "input": input, "message": "ok"});
                json!({"name": name, "type": "Group", "input": input, "users": [member]})
            } else {
                json!({"name": name, "type": "User", "input": input, "message": "fine"})
            }
        };
        let approvers: Vec<_> = self.approvers.iter().enumerate().map(entry).collect();
        approval["spec"] = json!({
            "approvers": approvers, "numberOfApprovalsRequired": self.needed, "description": "Go?",
        });
        approval["status"] = json!({"state": "approved"});
        approval
    }

    /// The TaskRun and CustomRun that produce results.
    fn producers(&self) -> Vec<Value> {
        let by_run = owner("tekton.dev/v1", "PipelineRun", &self.run, &self.uid);
        let done = json!([{"type": "Succeeded", "status": "True"}]);
        let mut who = stamped(
            "tekton.dev/v1",
            "TaskRun",
            &names::child(&self.run, "-who"),
            &format!("{}-who", self.uid),
            2,
        );
        who["metadata"]["ownerReferences"] = by_run.clone();
        who["spec"] = json!({"serviceAccountName": "builder", "taskSpec": {"steps": [
            {"name": "s", "image": "image:1", "script": "who"},
        ]}});
        if self.has_template {
            who["spec"]["podTemplate"] =
                self.pipeline_run()["spec"]["taskRunTemplate"]["podTemplate"].clone();
        }
        who["status"] = json!({"conditions": done, "results": [
            {"name": "boss", "type": "string", "value": "eve"},
            {"name": "list", "type": "array", "value": LIST},
            {"name": "map", "type": "object", "value": {"key": "value"}},
            {"name": "approvers", "type": "array", "value": self.approver_params()},
        ]});
        let mut ask = stamped(
            "tekton.dev/v1beta1",
            "CustomRun",
            &names::child(&self.run, "-ask"),
            &format!("{}-ask", self.uid),
            3,
        );
        ask["metadata"]["ownerReferences"] = by_run;
        ask["spec"] = json!({
            "serviceAccountName": "builder",
            "customRef": {"apiVersion": "example.com/v1", "kind": "Ask", "name": "a"},
        });
        ask["status"] =
            json!({"conditions": done, "results": [{"name": "said", "value": "[\"yes\",\"no\"]"}]});
        let mut all = Vec::new();
        if self.needs_who() {
            all.push(who);
        }
        if self.uses == Uses::Custom {
            all.push(ask);
        }
        all
    }

    /// The run, as honest controllers make it.
    pub(in super::super) fn world(&self) -> World {
        let task_run = self.task_run();
        let mut objects = vec![task_run.clone(), self.custom_run(), self.pipeline_run()];
        objects.extend(self.producers());
        World {
            pod: self.pod(&task_run),
            approval: self.approval(),
            objects,
        }
    }
}
