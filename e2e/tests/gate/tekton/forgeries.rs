//! Forged runs: an author of the namespace, with the role `edit` and what Tekton and the gate add to it, tries to have a
//! pod let in that no approver has approved. The numbers are those of docs/threat-model.md.
//!
//! A forgery that the API server refuses has failed too: then admission, or the gate's webhook, stops it earlier.

use e2e::{
    ApiClient, ApiError,
    api::kinds::{APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, POD, TASK_RUN},
    harness::say,
};
use serde_json::{Value, json};

use super::forged::{approval, custom_run, labels, pod, task_run};
use super::live::Live;
use super::pipelines::{deploy_with, run, step, wait, wait_for, with};
use crate::support::{
    Gate, check_of,
    pipelines::{policy_of_runs, wait_for_word},
    uid,
};

/// What the tenant does. An error is the refusal of the API server.
type Deed = fn(&Live, &ApiClient) -> Result<(), ApiError>;

struct Forgery {
    name: &'static str,
    /// Before the honest run.
    before: Option<Deed>,
    run: fn() -> Value,
    /// Once its children are there.
    after: Deed,
    /// The pod that must not be let in.
    pod: &'static str,
    /// Several where the order of creation within a second decides, or which of two contradictions is seen first.
    words: &'static [&'static str],
}

const POD_NAME: &str = "run-deploy-pod";

/// The pod that deploys is there before the approval.
fn honest() -> Value {
    run(&json!([wait(&json!(["alice"])), deploy_with(json!({}))]))
}

fn of_two() -> Value {
    run(&json!([
        wait_for(&json!(["alice", "bob"]), "2"),
        deploy_with(json!({}))
    ]))
}

fn approve(live: &Live, _: &ApiClient) -> Result<(), ApiError> {
    live.answer("run-wait", "alice", None, "approve")
}

fn approve_as_mallory(live: &Live, approval: &str) -> Result<(), ApiError> {
    live.answer(approval, "mallory", None, "approve")
}

const FORGERIES: &[Forgery] = &[
    Forgery {
        name: "f1: a pod with copied labels",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&pod("evil", "run-deploy", &json!([])))?;
            approve(live, tenant)
        },
        pod: "evil",
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f2: a pod of another run, which says in its labels that it is of this one",
        before: None,
        run: honest,
        after: |live, tenant| {
            let of_run = live.gate.object(PIPELINE_RUN, "run");
            let spoofed = with(
                labels("deploy"),
                json!({
                    "tekton.dev/taskRun": "run-deploy", "tekton.dev/pipelineRunUID": uid(&of_run),
                }),
            );
            let evil = with(
                run(&json!([deploy_with(json!({}))])),
                json!({
                    "metadata": {"name": "evil"},
                    "spec": {"taskRunSpecs": [{"pipelineTaskName": "deploy", "metadata": {"labels": spoofed}}]},
                }),
            );
            tenant.create(&evil)?;
            live.pod("evil-deploy");
            approve(live, tenant)
        },
        pod: "evil-deploy-pod",
        words: &["OtherRun"],
    },
    Forgery {
        name: "f3: a CustomRun with copied labels, and its own approval",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&custom_run("evil", &json!([])))?;
            live.wait_for_approval("evil");
            approve_as_mallory(live, "evil")
        },
        pod: POD_NAME,
        words: &["OtherRun"],
    },
    Forgery {
        name: "f4: a CustomRun with copied labels and owner, which Tekton adopts, and its own approval",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&custom_run("evil", &live.owner_of_children()))?;
            live.wait_for_approval("evil");
            approve_as_mallory(live, "evil")
        },
        pod: POD_NAME,
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f5: a CustomRun that took the derived name before the run",
        before: Some(|_, tenant| tenant.create(&custom_run("run-wait", &json!([]))).map(drop)),
        run: honest,
        after: |live, _| approve_as_mallory(live, "run-wait"),
        pod: POD_NAME,
        words: &["CustomRunWithoutRun"],
    },
    Forgery {
        name: "f5: the same, with the owner written afterwards",
        before: Some(|_, tenant| tenant.create(&custom_run("run-wait", &json!([]))).map(drop)),
        run: honest,
        after: |live, tenant| {
            approve_as_mallory(live, "run-wait")?;
            let owned = json!({"metadata": {"ownerReferences": live.owner_of_children()}});
            tenant.patch(CUSTOM_RUN, "run-wait", &owned).map(drop)
        },
        pod: POD_NAME,
        words: &["ChildOlderThanRun", "OtherParams"],
    },
    Forgery {
        name: "f6: a status that says approved without approvals",
        before: None,
        run: honest,
        after: |_, tenant| {
            let status = json!({"state": "approved"});
            tenant
                .patch_status(APPROVAL_TASK, "run-wait", &status)
                .map(drop)
        },
        pod: POD_NAME,
        words: &["QuorumNotMet"],
    },
    Forgery {
        name: "f7: an approver who asks for fewer approvals",
        before: None,
        run: of_two,
        after: |live, _| {
            let alice = live.gate.api().acting_as(&e2e::ApiUser::named("alice"));
            let fields = json!({"spec": {"numberOfApprovalsRequired": 1, "approvers": [
                {"name": "alice", "type": "User", "input": "approve"}, {"name": "bob", "type": "User", "input": "pending"},
            ]}});
            alice.patch(APPROVAL_TASK, "run-wait", &fields).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovalCount"],
    },
    Forgery {
        name: "f7: an approver who adds another one",
        before: None,
        run: of_two,
        after: |live, _| {
            let alice = live.gate.api().acting_as(&e2e::ApiUser::named("alice"));
            let fields = json!({"spec": {"approvers": [
                {"name": "alice", "type": "User", "input": "approve"}, {"name": "bob", "type": "User", "input": "pending"},
                {"name": "mallory", "type": "User", "input": "approve"},
            ]}});
            alice.patch(APPROVAL_TASK, "run-wait", &fields).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovers"],
    },
    Forgery {
        name: "f7: the parameters of the CustomRun, changed before the approval is made or after",
        before: None,
        run: honest,
        after: |live, tenant| {
            let spec = custom_run("", &json!([]))["spec"].take();
            tenant.patch(
                CUSTOM_RUN,
                "run-wait",
                &json!({"spec": {"params": spec["params"]}}),
            )?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["OtherApprovers", "OtherParams"],
    },
    Forgery {
        name: "f12: an approval after the run was cancelled",
        before: None,
        run: honest,
        after: |live, tenant| {
            live.wait_for_approval("run-wait");
            tenant.patch(
                PIPELINE_RUN,
                "run",
                &json!({"spec": {"status": "StoppedRunFinally"}}),
            )?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["RunCancelled", "RunDone"],
    },
    Forgery {
        name: "f17: a TaskRun with copied labels and owner, which Tekton adopts, and its own task",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&task_run("evil", &live.owner_of_children()))?;
            live.pod("evil");
            approve(live, tenant)
        },
        pod: "evil-pod",
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f18: a TaskRun that took the derived name before the run",
        before: Some(|_, tenant| tenant.create(&task_run("run-deploy", &json!([]))).map(drop)),
        run: honest,
        after: approve,
        pod: POD_NAME,
        words: &["TaskRunWithoutRun"],
    },
    Forgery {
        name: "f18: the same, with the owner written afterwards",
        before: Some(|_, tenant| tenant.create(&task_run("run-deploy", &json!([]))).map(drop)),
        run: honest,
        after: |live, tenant| {
            let owned = json!({"metadata": {"ownerReferences": live.owner_of_children()}});
            tenant.patch(TASK_RUN, "run-deploy", &owned)?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["ChildOlderThanRun", "OtherTask"],
    },
    Forgery {
        name: "f19: a pod that took the derived name before the TaskRun",
        before: Some(|_, tenant| {
            tenant
                .create(&pod(POD_NAME, "run-deploy", &json!([])))
                .map(drop)
        }),
        run: honest,
        after: approve,
        pod: POD_NAME,
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f20: a pod of a TaskRun that has ended",
        before: None,
        run: || {
            let ended = json!({"name": "deploy", "taskSpec": {"steps": [step("s", &json!(["say", "done"]))]}});
            run(&json!([wait(&json!(["alice"])), ended]))
        },
        after: |live, tenant| {
            let owners = live.owner(TASK_RUN, "run-deploy");
            live.gate.scene().wait_for_object(
                "the end of the TaskRun",
                TASK_RUN,
                "run-deploy",
                |it| it["status"]["conditions"][0]["status"] == "True",
            );
            tenant.delete(POD, POD_NAME)?;
            live.gate
                .api()
                .wait_until_gone(POD, POD_NAME, e2e::harness::PATIENCE)
                .unwrap();
            tenant.create(&pod(POD_NAME, "run-deploy", &owners))?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["TaskRunDone", "RunDone"],
    },
    Forgery {
        name: "f22: a pod of the tenant in the status of the TaskRun",
        before: None,
        run: honest,
        after: |live, tenant| {
            let owners = live.owner(TASK_RUN, "run-deploy");
            tenant.create(&pod("evil", "run-deploy", &owners))?;
            approve(live, tenant)?;
            // Tekton writes the true name again and again.
            for _ in 0..10 {
                let status = json!({"podName": "evil"});
                tenant.patch_status(TASK_RUN, "run-deploy", &status)?;
            }
            Ok(())
        },
        pod: "evil",
        words: &["PodNotCurrent"],
    },
    Forgery {
        name: "f21: an approval that took the name before the gate",
        before: Some(|_, tenant| tenant.create(&approval("run-wait")).map(drop)),
        run: honest,
        after: |live, _| approve_as_mallory(live, "run-wait"),
        pod: POD_NAME,
        words: &["ApprovalWithoutCustomRun"],
    },
    Forgery {
        name: "f21: the same, with the owner written afterwards, so that every link agrees",
        before: Some(|_, tenant| tenant.create(&approval("run-wait")).map(drop)),
        run: honest,
        // The gate lets its author change anything else together with the own answer.
        after: |live, tenant| {
            let approvers = json!([{"name": "mallory", "type": "User", "input": "approve"}]);
            let both = json!({
                "metadata": {"ownerReferences": live.custom_run_owner()}, "spec": {"approvers": approvers},
            });
            tenant.patch(APPROVAL_TASK, "run-wait", &both).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovers", "ApprovalOlderThanCustomRun"],
    },
];

/// Tries one forgery; true when the API server let it through.
fn is_tried(forgery: &Forgery, number: usize) -> bool {
    let Forgery {
        name,
        before,
        run,
        after,
        pod,
        words,
    } = forgery;
    let live = Live::new(&format!("tk-forged-{number}"));
    let tenant = live.tenant();
    let refusal = match before.map_or(Ok(()), |before| before(&live, &tenant)) {
        Ok(()) => {
            live.create(&run());
            live.wait_for_both();
            after(&live, &tenant).err()
        }
        Err(refusal) => Some(refusal),
    };
    if let Some(refusal) = refusal {
        let text = refusal.to_string();
        let is_no = text.contains("forbidden") || text.contains("denied the request");
        assert!(is_no, "{name}: {text}");
        say(&format!("{name}: refused by the API server: {text}"));
        return false;
    }
    let scene = live.gate.scene();
    scene.wait_for_object(&format!("pod {pod} of {name}"), POD, pod, |_| true);
    let request = wait_for_word(&live.gate, pod, words);
    live.gate.assert_held(pod);
    assert!(!live.gate.may_use(pod), "{name}");
    assert_eq!(
        live.gate.grants(&uid(&request)),
        Vec::<String>::new(),
        "{name}"
    );
    true
}

#[test]
fn each_forgery_is_refused_with_its_own_reason() {
    let tried: Vec<bool> = FORGERIES
        .iter()
        .enumerate()
        .map(|(number, it)| is_tried(it, number))
        .collect();
    let tried = tried.iter().filter(|it| **it).count();
    say(&format!(
        "{tried} of {} forgeries got past the API server, none past the proof",
        FORGERIES.len()
    ));
}

/// F8: the author of a run chooses its approvers. The policy says whose word counts.
#[test]
fn f8_an_author_who_approves_an_own_run_needs_an_approver_of_the_policy() {
    let gate = Gate::new("tk-forged-author");
    let mut policy = policy_of_runs();
    check_of(&mut policy)["approvers"] = json!({"users": ["alice"], "minimum": 1});
    gate.scene().apply(&policy).unwrap();
    let live = Live { gate };
    let own = run(&json!([wait(&json!(["mallory"])), deploy_with(json!({}))]));
    live.tenant().create(&own).unwrap();
    live.wait_for_both();
    live.wait_for_approval("run-wait");
    approve_as_mallory(&live, "run-wait").unwrap();
    let request = live.gate.request_of(POD_NAME);
    let name = crate::support::name(&request);
    live.gate
        .wait_for_request(&name, "to count approvals", |it| {
            it.to_string().contains("has 0 of the 1 approvals")
        });
    live.gate.assert_held(POD_NAME);
}

/// F14: the policy names the pipeline task whose approval it wants.
#[test]
fn f14_the_approval_for_one_task_opens_no_other() {
    let gate = Gate::new("tk-forged-task");
    let mut policy = policy_of_runs();
    check_of(&mut policy)["selector"]["labels"]["tekton.dev/pipelineTask"] = "wait".into();
    gate.scene().apply(&policy).unwrap();
    let live = Live { gate };
    let staging = with(wait(&json!(["alice"])), json!({"name": "staging"}));
    live.create(&run(&json!([
        staging,
        wait(&json!(["bob"])),
        deploy_with(json!({}))
    ])));
    live.wait_for_approval("run-staging");
    live.answer("run-staging", "alice", None, "approve")
        .unwrap();
    live.wait_for_both();
    live.gate.wait_for_note(
        "Pod",
        POD_NAME,
        "AccessPending",
        "waits for its approvers bob",
    );
    live.gate.assert_held(POD_NAME);
    live.answer("run-wait", "bob", None, "approve").unwrap();
    live.gate.wait_for_phase(POD_NAME, "Granted");
}
