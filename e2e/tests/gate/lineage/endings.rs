//! Runs and attempts that end before they are approved.

use e2e::{
    Deadline,
    api::kinds::{APPROVAL_TASK, CUSTOM_RUN, POD, TASK_RUN},
    harness::PATIENCE,
    poll,
};
use serde_json::{Value, json};

use super::{end, gate};
use crate::support::{
    Gate,
    pipelines::{Pipelines, deploy_with, wait_for},
    uid, wait_until,
};

/// A pipeline whose deploying pod is there before the approval.
fn pipeline(approvers: &Value) -> Value {
    json!({"pipelineSpec": {"tasks": [wait_for(approvers, "1"), deploy_with(&json!({}))]}})
}

fn assert_not_granted(gate: &Gate, pod: &str, request: &Value) {
    gate.assert_unbound(&uid(request));
    assert!(!gate.may_use(pod), "{pod}");
}

#[test]
fn a_no_and_approvers_who_take_too_long_reject_for_good() {
    let gate = gate("lineage-no");
    let pipelines = Pipelines::of(&gate);
    let mut late = pipeline(&json!(["alice"]));
    let timeout = json!({"name": "timeout", "value": "2s"});
    let params = late["pipelineSpec"]["tasks"][0]["params"].as_array_mut();
    params.unwrap().push(timeout);
    pipelines.create_run("no", &pipeline(&json!(["alice", "bob"])));
    pipelines.create_run("late", &late);
    pipelines.work();
    pipelines.answer("no-wait", "bob", "reject");
    wait_until("the gate's timeout", || {
        pipelines.work();
        gate.object(APPROVAL_TASK, "late-wait")["status"]["state"] == "rejected"
    });
    for (run, says) in [("no", "is rejected"), ("late", "timed out")] {
        let pod = format!("{run}-deploy-pod");
        let request = gate.wait_for_phase(&pod, "Rejected");
        assert!(request.to_string().contains(says), "{request}");
        gate.assert_held(&pod);
        assert_not_granted(&gate, &pod, &request);
    }
}

/// Tekton leaves the retries of a custom task to its controller, and the gate makes none.
#[test]
fn an_approval_with_retries_is_asked_for_once_and_a_no_is_final() {
    let gate = gate("lineage-asked-once");
    let pipelines = Pipelines::of(&gate);
    let mut spec = pipeline(&json!(["alice"]));
    spec["pipelineSpec"]["tasks"][0]["retries"] = 2.into();
    pipelines.create_run("run", &spec);
    pipelines.work();
    let asked = uid(&gate.object(APPROVAL_TASK, "run-wait"));
    pipelines.answer("run-wait", "alice", "reject");
    let pod = "run-deploy-pod";
    let request = gate.wait_for_phase(pod, "Rejected");
    assert_not_granted(&gate, pod, &request);
    pipelines.work();
    let custom_run = gate.object(CUSTOM_RUN, "run-wait");
    assert_eq!(custom_run["spec"]["retries"], 2);
    assert_eq!(custom_run["status"]["retriesStatus"], Value::Null);
    assert_eq!(uid(&gate.object(APPROVAL_TASK, "run-wait")), asked);
    assert_eq!(pipelines.children("run", "wait"), ["run-wait"]);
}

/// Tekton ends the pods of such runs. The gate goes on, so the approval is given to a run that is over.
#[test]
fn an_approval_of_a_run_that_was_cancelled_or_took_too_long_opens_nothing() {
    let gate = gate("lineage-over");
    let pipelines = Pipelines::of(&gate);
    let runs = ["cancelled", "late"];
    pipelines.create_run("cancelled", &pipeline(&json!(["alice"])));
    let mut late = pipeline(&json!(["alice"]));
    late["timeouts"] = json!({"pipeline": "3s"});
    pipelines.create_run("late", &late);
    pipelines.work();
    let requests = runs.map(|it| gate.request_of(&format!("{it}-deploy-pod")));
    end(&gate, "cancelled", "Cancelled");
    for (run, request) in runs.iter().zip(requests) {
        let pod = format!("{run}-deploy-pod");
        poll(
            &format!("the end of {pod}"),
            Deadline::after(PATIENCE),
            || {
                pipelines.work();
                match gate.api().get(POD, &pod) {
                    Ok(None) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            },
        )
        .unwrap();
        let approval = format!("{run}-wait");
        assert_eq!(
            gate.object(CUSTOM_RUN, &approval)["spec"]["status"],
            "RunCancelled"
        );
        pipelines.answer(&approval, "alice", "approve");
        let given = gate.object(APPROVAL_TASK, &approval);
        assert_eq!(given["status"]["state"], "approved");
        let request = gate.wait_for_phase_of(&request, "Ended");
        assert_not_granted(&gate, &pod, &request);
    }
}

/// The first attempt takes too long at its mount. A pod in its place is none of the second one.
#[test]
fn the_pod_of_the_second_attempt_is_let_in_and_none_of_the_first_one() {
    let gate = gate("lineage-attempts");
    let pipelines = Pipelines::of(&gate);
    let tasks = json!([
        wait_for(&json!(["alice"]), "1"),
        deploy_with(&json!({"retries": 1, "timeout": "3s"})),
    ]);
    pipelines.create_run("run", &json!({"pipelineSpec": {"tasks": tasks}}));
    pipelines.work();
    let (first, second) = ("run-deploy-pod", "run-deploy-pod-retry1");
    let labels = gate.object(POD, first)["metadata"]["labels"].take();
    let request = gate.request_of(first);
    wait_until("the second attempt", || {
        pipelines.work();
        gate.object(TASK_RUN, "run-deploy")["status"]["podName"] == second
    });
    gate.api().wait_until_gone(POD, first, PATIENCE).unwrap();
    let owner = gate.object(TASK_RUN, "run-deploy");
    gate.create(&pipelines.pod(first, &labels, &owner)).unwrap();
    // Tekton would end the second attempt in its turn.
    pipelines.answer_before_tekton_looks("run-wait", "alice", "approve");
    gate.wait_for_output(second);
    let ended = gate.wait_for_phase_of(&request, "Ended");
    assert_not_granted(&gate, first, &ended);
    let request = pipelines.wait_for_word(first, &["PodNotCurrent"]);
    gate.assert_held(first);
    assert_not_granted(&gate, first, &request);
}
