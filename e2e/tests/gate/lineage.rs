//! Approvals of pipeline runs: each opens exactly the run that it belongs to.

use e2e::api::kinds::{APPROVAL_REQUEST, APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, POD, TASK_RUN};
use serde_json::{Value, json};

use crate::support::{
    Gate, name,
    pipelines::{GATE, Pipelines, approval, labels, policy_of_runs},
    uid,
};

const POD_NAME: &str = "run-deploy-pod";

/// A gate whose policy asks for the approval of the pod's own run.
fn gate(test: &str) -> Gate {
    let gate = Gate::new(test);
    gate.scene().apply(&policy_of_runs()).unwrap();
    gate
}

fn cancel(gate: &Gate, run: &str) {
    let fields = json!({"spec": {"status": "Cancelled"}});
    gate.api().patch(PIPELINE_RUN, run, &fields).unwrap();
}

/// The example of the source document, with the default policy.
#[test]
fn the_deploy_pod_of_a_run_waits_for_its_approver_and_starts() {
    let gate = gate("lineage-approved");
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    let says = "waits for its approvers alice";
    gate.wait_for_note("Pod", POD_NAME, "AccessPending", says);
    gate.assert_held(POD_NAME);
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0];
    assert_eq!(proof["status"]["approvedBy"], json!(["alice"]));
    let lineage = proof["lineage"].as_array().unwrap().iter();
    let lineage: Vec<_> = lineage
        .map(|it| it["uid"].as_str().unwrap().to_owned())
        .collect();
    let of = |kind, name| uid(&gate.object(kind, name));
    let expected = [
        of(PIPELINE_RUN, "run"),
        of(TASK_RUN, "run-deploy"),
        of(CUSTOM_RUN, "run-wait"),
    ];
    assert_eq!(lineage, expected);
    // The pod runs on; the end of its run ends its access.
    cancel(&gate, "run");
    gate.approval_ended(POD_NAME, "release");
    gate.wait_for_phase(POD_NAME, "Revoked");
    gate.wait_for_no_access(POD_NAME, &uid(&request));
}

#[test]
fn two_approvers_and_a_group_are_counted_and_a_rejection_is_final() {
    let gate = gate("lineage-quorum");
    let pipelines = Pipelines::of(&gate);
    let approvers = json!(["alice", "group:qa"]);
    pipelines.begin("run", &approvers, "2");
    pipelines.begin("other", &approvers, "2");
    pipelines.answer("run-wait", "alice", "approve");
    let note = gate.wait_for_note("Pod", POD_NAME, "AccessPending", "approvers group qa");
    assert!(!note.contains("alice"), "{note}");
    gate.assert_held(POD_NAME);
    pipelines.answer("run-wait", "member-of-qa", "approve");
    gate.wait_for_output(POD_NAME);
    pipelines.answer("other-wait", "alice", "reject");
    gate.wait_for_phase("other-deploy-pod", "Rejected");
}

/// The last example of the source document: an approval of the run, and a time window beside it.
#[test]
fn an_approval_and_a_time_window_pass_together_and_the_end_of_the_window_revokes() {
    let gate = Gate::new("lineage-window");
    let mut policy = policy_of_runs();
    let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
    let template = r#"{.object.metadata.labels["tekton\.dev/pipelineRun"]}"#;
    let selector = |kind: &str| {
        json!({
            "labels": {"tekton.dev/pipelineRun": template},
            "objectRef": {"apiVersion": GATE, "kind": kind},
        })
    };
    let mut window = selector("ApprovalRequest");
    window["fieldSelector"] = json!({"spec.type": "TimeWindow"});
    *checks = json!([
        {"name": "manual-approval-check", "selector": selector("ApprovalTask"), "state": {}},
        {"name": "business-hour-check", "selector": window, "state": {}},
    ]);
    gate.scene().apply(&policy).unwrap();
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    let window = |name: &str, kind: &str| {
        json!({
            "apiVersion": GATE, "kind": "ApprovalRequest",
            "metadata": {"name": name, "labels": {"tekton.dev/pipelineRun": "run"}}, "spec": {"type": kind},
        })
    };
    gate.apply_with_state(&window("window", "TimeWindow"), "pending");
    gate.apply_with_state(&window("other", "Change"), "rejected");
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_note("Pod", POD_NAME, "AccessPending", "window is pending");
    gate.assert_held(POD_NAME);
    gate.set_state_of(APPROVAL_REQUEST, "window", "passed");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    gate.set_state_of(APPROVAL_REQUEST, "window", "expired");
    gate.approval_ended(POD_NAME, "release");
    gate.wait_for_phase(POD_NAME, "Revoked");
    gate.wait_for_no_access(POD_NAME, &uid(&request));
}

/// Both runs have the labels of the other one's candidates, so only the proof tells them apart.
#[test]
fn two_runs_of_one_pipeline_cannot_use_each_others_approval() {
    let gate = Gate::new("lineage-two-runs");
    let mut policy = policy_of_runs();
    let check = crate::support::check_of(&mut policy);
    check["selector"]["labels"] = json!({"tekton.dev/pipelineTask": "wait"});
    check["match"] = "Any".into();
    gate.scene().apply(&policy).unwrap();
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    pipelines.begin("other", &json!(["alice"]), "1");
    pipelines.answer("other-wait", "alice", "approve");
    gate.wait_for_output("other-deploy-pod");
    pipelines.wait_for_word(POD_NAME, &["OtherRun"]);
    gate.assert_held(POD_NAME);
    assert!(!gate.may_use(POD_NAME));
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_output(POD_NAME);
}

/// A forgery: the changes before the run begins, those after its begin, and the reason.
struct Forgery {
    name: &'static str,
    before: fn(&Pipelines<'_>, &Gate),
    after: fn(&Pipelines<'_>, &Gate),
    pod: &'static str,
    /// Several where the order of creation within one second decides.
    words: &'static [&'static str],
}

fn nothing(_: &Pipelines<'_>, _: &Gate) {}

fn approve(pipelines: &Pipelines<'_>, _: &Gate) {
    pipelines.answer("run-wait", "alice", "approve");
}

/// An `ApprovalTask` that says approved, by an author of the namespace.
fn approved(of: &Value) -> Value {
    let mut approval = approval(of);
    approval["spec"]["approvers"] =
        json!([{"name": "mallory", "type": "User", "input": "approve"}]);
    approval
}

/// A `CustomRun` that no run owns, with copied labels and approvers of its author's choice.
fn stranger(name: &str) -> Value {
    json!({
        "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun",
        "metadata": {"name": name, "labels": labels("run", "wait")},
        "spec": {
            "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
            "params": [{"name": "approvers", "value": ["mallory"]}],
        },
    })
}

const FORGERIES: &[Forgery] = &[
    Forgery {
        name: "f1: a pod with copied labels",
        before: nothing,
        after: |pipelines, gate| {
            let labels = json!({"tekton.dev/pipelineRun": "run", "app": "evil"});
            let run = gate.object(PIPELINE_RUN, "run");
            let mut pod = pipelines.pod("evil", &labels, &run);
            pod["metadata"]["ownerReferences"] = json!([]);
            gate.create(&pod).unwrap();
            approve(pipelines, gate);
        },
        pod: "evil",
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f2: a pod of another run with the labels of this one",
        before: nothing,
        after: |pipelines, gate| {
            pipelines.begin("evil", &json!(["mallory"]), "1");
            let labels = json!({"metadata": {"labels": {"tekton.dev/pipelineRun": "run"}}});
            gate.api().patch(POD, "evil-deploy-pod", &labels).unwrap();
            approve(pipelines, gate);
        },
        pod: "evil-deploy-pod",
        words: &["OtherRun"],
    },
    Forgery {
        name: "f3: a CustomRun with copied labels, and its own approval",
        before: nothing,
        after: |pipelines, gate| {
            gate.create(&stranger("evil-wait")).unwrap();
            pipelines.work();
            pipelines.answer("evil-wait", "mallory", "approve");
        },
        pod: POD_NAME,
        words: &["OtherRun"],
    },
    Forgery {
        name: "f4: a CustomRun with copied labels and owner, which Tekton adopts, and its own approval",
        before: nothing,
        after: |pipelines, gate| {
            let mut child = pipelines.forged_child(CUSTOM_RUN, "run", "run-wait-1", "wait");
            child["spec"] = json!({
                "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
                "params": [{"name": "approvers", "value": ["mallory"]}],
            });
            gate.create(&child).unwrap();
            pipelines.work();
            pipelines.answer("run-wait-1", "mallory", "approve");
        },
        pod: POD_NAME,
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f5: a CustomRun that took the derived name before the run",
        before: |_, gate| {
            gate.create(&stranger("run-wait")).unwrap();
        },
        after: |pipelines, _| pipelines.answer("run-wait", "mallory", "approve"),
        pod: POD_NAME,
        words: &["CustomRunWithoutRun"],
    },
    Forgery {
        name: "f6: a status that says approved without approvals",
        before: nothing,
        after: |_, gate| {
            gate.set_state_of(APPROVAL_TASK, "run-wait", "approved");
        },
        pod: POD_NAME,
        words: &["QuorumNotMet"],
    },
    Forgery {
        name: "f7: an approver that the pipeline does not name",
        before: nothing,
        after: |pipelines, gate| {
            let approvers = json!([
                {"name": "alice", "type": "User", "input": "pending"},
                {"name": "mallory", "type": "User", "input": "approve"},
            ]);
            let fields = json!({"spec": {"approvers": approvers}});
            gate.api()
                .patch(APPROVAL_TASK, "run-wait", &fields)
                .unwrap();
            pipelines.work();
        },
        pod: POD_NAME,
        words: &["OtherApprovers"],
    },
    Forgery {
        name: "f12: an approval after the run was cancelled",
        before: nothing,
        after: |pipelines, gate| {
            cancel(gate, "run");
            approve(pipelines, gate);
        },
        pod: POD_NAME,
        words: &["RunCancelled"],
    },
    Forgery {
        name: "f17: a TaskRun with copied labels and owner, which Tekton adopts, and its own task",
        before: nothing,
        after: |pipelines, gate| {
            let mut child = pipelines.forged_child(TASK_RUN, "run", "evil", "deploy");
            child["spec"] = json!({
                "serviceAccountName": "default", "taskSpec": {"steps": [{"name": "evil", "image": "evil:1"}]},
            });
            gate.create(&child).unwrap();
            pipelines.work();
            approve(pipelines, gate);
        },
        pod: "evil-pod",
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f18: a TaskRun that took the derived name before the run",
        before: |_, gate| {
            let labels = json!({"tekton.dev/pipelineRun": "run"});
            let child = json!({
                "apiVersion": "tekton.dev/v1", "kind": "TaskRun", "metadata": {"name": "run-deploy", "labels": labels},
                "spec": {"serviceAccountName": "default", "taskSpec": {"steps": [{"name": "evil", "image": "evil:1"}]}},
            });
            gate.create(&child).unwrap();
        },
        after: approve,
        pod: POD_NAME,
        words: &["TaskRunWithoutRun"],
    },
    Forgery {
        name: "f19: a pod that took the derived name before the TaskRun",
        before: |pipelines, gate| {
            let labels =
                json!({"tekton.dev/pipelineRun": "run", "tekton.dev/taskRun": "run-deploy"});
            let mut pod = pipelines.pod(POD_NAME, &labels, &json!({}));
            pod["metadata"]["ownerReferences"] = json!([]);
            gate.create(&pod).unwrap();
        },
        after: approve,
        pod: POD_NAME,
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f20: a pod of a TaskRun that has ended",
        before: nothing,
        after: |pipelines, gate| {
            let status = json!({"conditions": [{"type": "Succeeded", "status": "False"}]});
            gate.api()
                .patch_status(TASK_RUN, "run-deploy", &status)
                .unwrap();
            approve(pipelines, gate);
        },
        pod: POD_NAME,
        words: &["TaskRunDone"],
    },
    Forgery {
        name: "f21: an approval that took the name before the gate",
        before: |_, gate| {
            let run = json!({"metadata": {"name": "run-wait", "labels": {"tekton.dev/pipelineRun": "run"}}});
            let mut approval = approved(&run);
            approval["metadata"]["ownerReferences"] = json!([]);
            gate.create(&approval).unwrap();
        },
        after: nothing,
        pod: POD_NAME,
        words: &["ApprovalWithoutCustomRun"],
    },
    Forgery {
        name: "f21: the same, with the owner written afterwards, so that every link agrees",
        before: |_, gate| {
            let run = json!({"metadata": {"name": "run-wait", "labels": {"tekton.dev/pipelineRun": "run"}}});
            let mut approval = approved(&run);
            approval["metadata"]["ownerReferences"] = json!([]);
            gate.create(&approval).unwrap();
        },
        after: |pipelines, gate| {
            let owners =
                approval(&gate.object(CUSTOM_RUN, "run-wait"))["metadata"]["ownerReferences"]
                    .take();
            let fields = json!({"metadata": {"ownerReferences": owners}});
            gate.api()
                .patch(APPROVAL_TASK, "run-wait", &fields)
                .unwrap();
            pipelines.work();
        },
        pod: POD_NAME,
        words: &["OtherApprovers", "ApprovalOlderThanCustomRun"],
    },
];

#[test]
fn each_forgery_is_refused_with_its_own_reason() {
    for (number, forgery) in FORGERIES.iter().enumerate() {
        let gate = gate(&format!("lineage-forged-{number}"));
        let pipelines = Pipelines::of(&gate);
        (forgery.before)(&pipelines, &gate);
        pipelines.begin("run", &json!(["alice"]), "1");
        (forgery.after)(&pipelines, &gate);
        let request = pipelines.wait_for_word(forgery.pod, forgery.words);
        gate.assert_held(forgery.pod);
        assert!(!gate.may_use(forgery.pod), "{}", forgery.name);
        assert_eq!(
            gate.grants(&uid(&request)),
            Vec::<String>::new(),
            "{}",
            forgery.name
        );
    }
}

#[test]
fn a_link_that_comes_last_lets_the_pod_start() {
    let gate = gate("lineage-late");
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    // The pod's own TaskRun names no pod yet.
    let status = json!({"podName": null});
    gate.api()
        .patch_status(TASK_RUN, "run-deploy", &status)
        .unwrap();
    let fields =
        json!({"spec": {"approvers": [{"name": "alice", "type": "User", "input": "approve"}]}});
    gate.api()
        .patch(APPROVAL_TASK, "run-wait", &fields)
        .unwrap();
    gate.set_state_of(APPROVAL_TASK, "run-wait", "approved");
    pipelines.wait_for_word(POD_NAME, &["LineageIncomplete"]);
    gate.assert_held(POD_NAME);
    pipelines.work();
    gate.wait_for_output(POD_NAME);
    assert_eq!(name(&gate.object(POD, POD_NAME)), POD_NAME);
}
