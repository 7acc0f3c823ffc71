//! Both controllers on an API server in memory, beside what the real ones do.

mod strangers;

use jiff::SignedDuration;
use testkit::{ApiServer, Kind};

use super::*;
use crate::api::tests::server;

/// The controllers in a namespace where the kinds are defined, and the API server's clock.
struct Stage {
    server: ApiServer,
    controllers: Pipelines,
}

impl Stage {
    fn new() -> Self {
        let (server, api) = server();
        for (group, version, kind) in [
            ("tekton.dev", "v1", "PipelineRun"),
            ("tekton.dev", "v1", "TaskRun"),
            ("tekton.dev", "v1beta1", "CustomRun"),
            ("openshift-pipelines.org", "v1alpha1", "ApprovalTask"),
        ] {
            server.register(Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
                namespaced: true,
                status: true,
            });
        }
        let controllers = Pipelines::on(
            &api,
            json!({"containers": [{"name": "main", "image": "tool:1"}]}),
        );
        Self {
            server,
            controllers,
        }
    }

    fn create(&self, run: &str, spec: &Value) {
        self.controllers.create_run(run, spec).unwrap();
        self.work();
    }

    /// A run with a task that waits for alice and these others.
    fn begin(&self, run: &str, others: &[Value]) {
        let tasks = [&[wait_for(&json!(["alice"]), "1")], others].concat();
        self.create(run, &json!({"pipelineSpec": {"tasks": tasks}}));
    }

    fn work(&self) {
        let now = self.server.now();
        self.controllers.work_in(Round { now, late: None }).unwrap();
    }

    fn get(&self, kind: ResourceKind, name: &str) -> Value {
        self.controllers
            .api
            .get(kind, name)
            .unwrap()
            .unwrap_or_default()
    }

    fn is_there(&self, kind: ResourceKind, name: &str) -> bool {
        !self.get(kind, name).is_null()
    }

    fn succeeded(&self, kind: ResourceKind, name: &str) -> Option<bool> {
        objects::succeeded(&self.get(kind, name))
    }

    fn children(&self, run: &str) -> Vec<String> {
        let run = self.get(PIPELINE_RUN, run);
        let children = elements(&run["status"]["childReferences"]).iter();
        children
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn cancel(&self, run: &str, word: &str) {
        let fields = json!({"spec": {"status": word}});
        self.controllers
            .api
            .patch(PIPELINE_RUN, run, &fields)
            .unwrap();
        self.work();
    }

    /// The kubelet's part.
    fn pod_ends(&self, pod: &str, phase: &str) {
        let status = json!({"phase": phase});
        self.controllers
            .api
            .patch_status(POD, pod, &status)
            .unwrap();
        self.work();
    }

    fn answer(&self, approval: &str, input: &str) {
        self.controllers.answer(approval, "alice", input).unwrap();
        self.work();
    }

    fn jump(&self, seconds: i64) {
        self.server.jump(SignedDuration::from_secs(seconds));
        self.work();
    }
}

fn deploy(more: &Value) -> Value {
    let mut task =
        json!({"name": "deploy", "taskSpec": {"steps": [{"name": "deploy", "image": "tool:1"}]}});
    task.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    task
}

#[test]
fn an_approved_run_goes_on_to_its_end() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({"runAfter": ["wait"]}))]);
    assert_eq!(stage.children("run"), ["run-wait"]);
    let approval = stage.get(APPROVAL_TASK, "run-wait");
    assert_eq!(approval["status"]["state"], "pending");
    let run = stage.get(PIPELINE_RUN, "run");
    assert_eq!(
        approval["metadata"]["labels"]["tekton.dev/pipelineRunUID"],
        run["metadata"]["uid"]
    );
    assert_eq!(approval["metadata"]["labels"]["tekton.dev/pipeline"], "run");
    stage.answer("run-wait", "approve");
    assert_eq!(stage.succeeded(CUSTOM_RUN, "run-wait"), Some(true));
    let task_run = stage.get(TASK_RUN, "run-deploy");
    assert_eq!(task_run["status"]["podName"], "run-deploy-pod");
    let pod = stage.get(POD, "run-deploy-pod");
    assert_eq!(
        pod["metadata"]["labels"]["tekton.dev/taskRunUID"],
        task_run["metadata"]["uid"]
    );
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), None);
    stage.pod_ends("run-deploy-pod", "Succeeded");
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(true));
}

#[test]
fn a_calm_namespace_is_not_written_to() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({}))]);
    let version = stage.server.version();
    stage.work();
    assert_eq!(stage.server.version(), version);
}

#[test]
fn a_rejected_run_fails_and_begins_nothing_more() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({"runAfter": ["wait"]}))]);
    stage.answer("run-wait", "reject");
    assert_eq!(
        stage.get(APPROVAL_TASK, "run-wait")["status"]["state"],
        "rejected"
    );
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(false));
    assert!(!stage.is_there(TASK_RUN, "run-deploy"));
}

#[test]
fn a_cancelled_run_ends_its_pods_and_its_approval_can_still_be_given() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({}))]);
    stage.cancel("run", "Cancelled");
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(false));
    let task_run = stage.get(TASK_RUN, "run-deploy");
    assert_eq!(task_run["spec"]["status"], "TaskRunCancelled");
    assert_eq!(objects::succeeded(&task_run), Some(false));
    assert!(!stage.is_there(POD, "run-deploy-pod"));
    assert_eq!(
        stage.get(CUSTOM_RUN, "run-wait")["spec"]["status"],
        "RunCancelled"
    );
    assert_eq!(
        stage.get(APPROVAL_TASK, "run-wait")["status"]["state"],
        "pending"
    );
    stage.answer("run-wait", "approve");
    assert_eq!(
        stage.get(APPROVAL_TASK, "run-wait")["status"]["state"],
        "approved"
    );
    assert_eq!(stage.succeeded(CUSTOM_RUN, "run-wait"), Some(true));
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(false));
}

#[test]
fn a_stopped_run_lets_its_pods_go_on_and_begins_nothing_but_finally() {
    let stage = Stage::new();
    let spec = json!({"pipelineSpec": {
        "tasks": [deploy(&json!({})), deploy(&json!({"name": "next", "runAfter": ["deploy"]}))],
        "finally": [deploy(&json!({"name": "last"}))],
    }});
    stage.create("run", &spec);
    stage.cancel("run", "StoppedRunFinally");
    assert!(stage.is_there(POD, "run-deploy-pod"));
    assert!(!stage.is_there(TASK_RUN, "run-last"));
    stage.pod_ends("run-deploy-pod", "Succeeded");
    assert!(!stage.is_there(TASK_RUN, "run-next"));
    stage.pod_ends("run-last-pod", "Succeeded");
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(false));
}

#[test]
fn a_run_that_takes_too_long_ends_as_a_cancelled_one() {
    let stage = Stage::new();
    let tasks = json!([wait_for(&json!(["alice"]), "1"), deploy(&json!({}))]);
    stage.create(
        "run",
        &json!({"pipelineSpec": {"tasks": tasks}, "timeouts": {"pipeline": "10s"}}),
    );
    stage.jump(9);
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), None);
    stage.jump(2);
    let run = stage.get(PIPELINE_RUN, "run");
    assert_eq!(
        run["status"]["conditions"][0]["reason"],
        "PipelineRunTimeout"
    );
    assert!(!stage.is_there(POD, "run-deploy-pod"));
    let custom_run = stage.get(CUSTOM_RUN, "run-wait");
    assert_eq!(custom_run["spec"]["status"], "RunCancelled");
    assert_eq!(
        objects::succeeded(&custom_run),
        None,
        "the gate does not listen"
    );
}

#[test]
fn approvers_who_take_too_long_reject() {
    let stage = Stage::new();
    let mut wait = wait_for(&json!(["alice"]), "1");
    let timeout = json!({"name": "timeout", "value": "5s"});
    wait["params"].as_array_mut().unwrap().push(timeout);
    stage.create("run", &json!({"pipelineSpec": {"tasks": [wait]}}));
    stage.jump(6);
    let approval = stage.get(APPROVAL_TASK, "run-wait");
    assert_eq!(approval["status"]["state"], "rejected");
    assert_eq!(approval["status"]["approversResponse"], Value::Null);
    assert_eq!(stage.succeeded(CUSTOM_RUN, "run-wait"), Some(false));
}

#[test]
fn an_attempt_that_fails_or_takes_too_long_is_put_away_and_gets_a_new_pod() {
    let stage = Stage::new();
    stage.create(
        "run",
        &json!({"pipelineSpec": {"tasks": [deploy(&json!({"retries": 2, "timeout": "10s"}))]}}),
    );
    stage.pod_ends("run-deploy-pod", "Failed");
    let attempts = |count: usize, pod: &str| {
        let status = stage.get(TASK_RUN, "run-deploy")["status"].take();
        assert_eq!(elements(&status["retriesStatus"]).len(), count);
        assert_eq!(status["podName"], pod);
    };
    attempts(1, "run-deploy-pod-retry1");
    stage.jump(11);
    attempts(2, "run-deploy-pod-retry2");
    assert!(
        !stage.is_there(POD, "run-deploy-pod-retry1"),
        "a late pod is deleted"
    );
    stage.pod_ends("run-deploy-pod-retry2", "Failed");
    attempts(2, "run-deploy-pod-retry2");
    assert_eq!(stage.succeeded(PIPELINE_RUN, "run"), Some(false));
}

#[test]
fn children_and_pods_that_are_deleted_are_made_again_under_their_names() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({}))]);
    let api = &stage.controllers.api;
    for (kind, name) in [(POD, "run-deploy-pod"), (TASK_RUN, "run-deploy")] {
        let before = stage.get(kind, name)["metadata"]["uid"].take();
        api.delete_now(kind, name).unwrap();
        stage.work();
        let after = stage.get(kind, name)["metadata"]["uid"].take();
        assert!(after.is_string() && after != before, "{name}");
    }
}

/// The other child of the task keeps its place.
#[test]
fn a_deleted_child_of_a_matrix_is_forgotten() {
    let stage = Stage::new();
    let matrix = json!({"matrix": {"params": [{"name": "env", "value": ["a", "b"]}]}});
    stage.create(
        "run",
        &json!({"pipelineSpec": {"tasks": [deploy(&matrix)]}}),
    );
    assert_eq!(stage.children("run"), ["run-deploy-0", "run-deploy-1"]);
    let params = stage.get(TASK_RUN, "run-deploy-1")["spec"]["params"].take();
    assert_eq!(params, json!([{"name": "env", "value": "b"}]));
    stage
        .controllers
        .api
        .delete_now(TASK_RUN, "run-deploy-1")
        .unwrap();
    stage.work();
    assert_eq!(stage.children("run"), ["run-deploy-0"]);
    assert!(!stage.is_there(TASK_RUN, "run-deploy-1"));
}

#[test]
fn results_of_a_task_are_parameters_and_approvers_of_others() {
    let stage = Stage::new();
    let who = json!({"name": "who", "taskSpec": {
        "results": [{"name": "boss", "type": "string"}],
        "steps": [{"name": "s", "image": "tool:1", "args": ["write", "$(results.boss.path)", "alice"]}],
    }});
    let by = json!({"runAfter": ["wait"], "params": [{"name": "by", "value": "by-$(tasks.who.results.boss)"}]});
    let wait = wait_for(&json!(["$(tasks.who.results.boss)"]), "1");
    stage.create(
        "run",
        &json!({"pipelineSpec": {"tasks": [who, wait, deploy(&by)]}}),
    );
    assert_eq!(stage.children("run"), ["run-who"]);
    let left = json!({"containerStatuses": [{"name": "step-s", "state": {"terminated": {"message": "alice"}}}]});
    stage
        .controllers
        .api
        .patch_status(POD, "run-who-pod", &left)
        .unwrap();
    stage.pod_ends("run-who-pod", "Succeeded");
    assert_eq!(
        stage.get(APPROVAL_TASK, "run-wait")["spec"]["approvers"][0]["name"],
        "alice"
    );
    stage.answer("run-wait", "approve");
    let params = stage.get(TASK_RUN, "run-deploy")["spec"]["params"].take();
    assert_eq!(params, json!([{"name": "by", "value": "by-alice"}]));
}

#[test]
fn a_late_write_is_missing_until_the_controller_works_again() {
    let stage = Stage::new();
    let tasks = json!([wait_for(&json!(["alice"]), "1"), deploy(&json!({}))]);
    for (run, late) in [("a", LateWrite::PodName), ("b", LateWrite::ChildReferences)] {
        stage
            .controllers
            .create_run(run, &json!({"pipelineSpec": {"tasks": tasks}}))
            .unwrap();
        let now = stage.server.now();
        let late = Some(late);
        stage.controllers.work_in(Round { now, late }).unwrap();
    }
    assert!(stage.is_there(POD, "a-deploy-pod") && stage.is_there(POD, "b-deploy-pod"));
    assert_eq!(stage.children("b"), Vec::<String>::new());
    stage.work();
    assert_eq!(
        stage.get(TASK_RUN, "a-deploy")["status"]["podName"],
        "a-deploy-pod"
    );
    assert_eq!(stage.children("b"), ["b-wait", "b-deploy"]);
}
