//! The lineage of a second system, which the judge knows by its row alone.

use serde_json::{Value, json};

use super::lineage::asked as asked_of_tekton;
use super::*;
use crate::approval_kind::made_up::MADE_UP;
use crate::lineage::LineageReason;
use crate::lineage::tests::World;

fn object(kind: &str, name: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "made.up/v1", "kind": kind,
        "metadata": {
            "name": name, "namespace": "devops", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "labels": {"run": "r1"}, "ownerReferences": [{"name": owner, "uid": format!("uid-{owner}")}],
        },
    })
}

fn decision(name: &str, flow: &str) -> Value {
    let mut decision = object("Decision", name, "");
    decision["spec"] = json!({"flow": format!("uid-{flow}")});
    decision["status"] = json!({"state": "approved"});
    decision
}

/// A check of decisions, asked for a pod of a flow.
fn asked() -> PolicyQuestion {
    question()
        .with(|it| {
            it.check()["selector"]["objectRef"] =
                json!({"apiVersion": "made.up/v1", "kind": "Decision"});
            it.context["metadata"]["ownerReferences"] =
                json!([{"name": "step", "uid": "uid-step"}]);
            it.lineage = vec![object("Step", "step", "flow"), object("Flow", "flow", "")];
        })
        .found([decision("yes", "flow")])
}

fn reason(question: PolicyQuestion) -> (AccessCheckReady, ResultReason) {
    let judgement = question.judged();
    (judgement.only().verdict, judgement.only().reason)
}

#[test]
fn an_approval_of_the_pods_run_passes_with_its_evidence() {
    let judgement = asked().judged();
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
    let evidence = judgement.only().objects[0].lineage.iter();
    let kinds: Vec<_> = evidence.map(|it| it.kind.as_str()).collect();
    let named: Vec<_> = MADE_UP.kinds().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, named);
}

#[test]
fn an_approval_of_another_run_is_refused_and_a_missing_link_is_waited_for() {
    let other = asked().found([decision("yes", "other")]);
    let refused = ResultReason::Lineage(LineageReason::OtherRun);
    assert_eq!(reason(other), (Failed, refused));
    for index in 0..2 {
        let lacking = asked().with(|it| drop(it.lineage.remove(index)));
        let waits = (Pending, JudgeReason::LineageIncomplete.into());
        assert_eq!(reason(lacking), waits);
    }
}

#[test]
fn after_the_grant_its_run_must_go_on() {
    for (phase, expected) in [
        ("Running", (Passed, JudgeReason::Approved.into())),
        (
            "Ended",
            (Failed, ResultReason::Lineage(LineageReason::RunDone)),
        ),
    ] {
        let after = asked().with(|it| {
            it.stage = Stage::AfterGrant;
            let mut flow = object("Flow", "flow", "");
            flow["status"] = json!({"phase": phase});
            it.lineage = vec![flow];
        });
        assert_eq!(reason(after), expected, "{phase}");
    }
}

#[test]
fn another_approval_that_its_run_asked_for_is_waited_for() {
    for (names, expected) in [
        (json!(["yes"]), JudgeReason::Approved),
        (json!([]), JudgeReason::Approved),
        (json!(["yes", "also"]), JudgeReason::OtherApprovalMissing),
    ] {
        let question = asked().with(|it| it.lineage[1]["spec"] = json!({"decisions": names}));
        assert_eq!(reason(question).1, expected.into(), "{names}");
    }
}

#[test]
fn without_a_search_for_other_approvals_no_approval_counts() {
    let question = asked().with(|it| it.lineage[1]["spec"] = json!({"decisions": "too many"}));
    let refused = ResultReason::Lineage(LineageReason::TooLarge);
    assert_eq!(reason(question.clone()), (Failed, refused));
    // An approval without a proof keeps the reason of its own.
    let two = question.found([decision("no", "other"), decision("yes", "flow")]);
    let judgement = two.judged();
    let reasons = judgement.only().objects.iter().map(|it| it.reason);
    let own = ResultReason::Lineage(LineageReason::OtherRun);
    assert_eq!(reasons.collect::<Vec<_>>(), [own, refused]);
}

/// The objects of both lineages come in one list, and each refuses kinds that it does not know.
#[test]
fn the_checks_of_one_policy_may_need_the_proofs_of_two_systems() {
    let world = World::honest();
    let both = |change: &dyn Fn(&mut PolicyQuestion)| {
        let mut question = asked_of_tekton(&world).with(|it| {
            let mut second = asked();
            let mut check = second.check().take();
            check["name"] = "second".into();
            let checks = it
                .policy
                .pointer_mut("/spec/checkGrantedPermission/spec/checks");
            checks.unwrap().as_array_mut().unwrap().push(check);
            // One pod has one controller, and the made-up proof reads the UID of the first owner alone.
            let own = it.context["metadata"]["ownerReferences"][0]["uid"].clone();
            let mut step = object("Step", "step", "flow");
            step["metadata"]["uid"] = own;
            let mut found = decision("yes", "flow");
            found["metadata"]["namespace"] = "ns".into();
            it.candidates.insert("second".to_owned(), vec![found]);
            it.lineage.extend([step, object("Flow", "flow", "")]);
        });
        change(&mut question);
        let judgement = question.judged();
        let verdicts = judgement.checks.iter().map(|it| it.verdict);
        verdicts.collect::<Vec<_>>()
    };
    assert_eq!(both(&|_| ()), [Passed, Passed]);
    let without_flow = |it: &mut PolicyQuestion| drop(it.lineage.pop());
    assert_eq!(both(&without_flow), [Passed, Pending]);
    let without_run = |it: &mut PolicyQuestion| it.lineage.retain(|it| it["kind"] != "PipelineRun");
    assert_eq!(both(&without_run), [Pending, Passed]);
    // A kind is known by its version and its name together.
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("tekton.dev/v1", "Task"),
        ("tekton.dev/v1beta1", "TaskRun"),
        ("made.up/v1", "Task"),
    ] {
        let with_a_stranger = |it: &mut PolicyQuestion| {
            let mut stranger = object(kind, "stranger", "");
            stranger["apiVersion"] = api_version.into();
            it.lineage.push(stranger);
        };
        assert_eq!(both(&with_a_stranger), [Failed, Failed], "{kind}");
    }
}
