//! Checks that ask for a proof: only an approval of the pod's own run counts.

use serde_json::{Value, json};

use super::*;
use crate::lineage::LineageReason;
use crate::lineage::tekton::RunKind;
use crate::lineage::tests::World;

/// A check of ApprovalTasks, asked for an honest run.
pub(super) fn asked(world: &World) -> PolicyQuestion {
    let labelled = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["labels"] = json!({"run": "r1"});
        object
    };
    let mut question = question();
    question.policy["metadata"]["namespace"] = "ns".into();
    question.check()["selector"]["objectRef"] =
        json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
    question.context = labelled(&world.pod);
    question.lineage = world.objects.clone();
    question.found([labelled(&world.approval)])
}

fn after(world: &World, runs: &[Value]) -> PolicyQuestion {
    asked(world).with(|it| {
        it.stage = Stage::AfterGrant;
        it.lineage = runs.to_vec();
    })
}

fn reasons(judgement: &Judgement) -> (AccessCheckReady, ResultReason) {
    (judgement.only().verdict, judgement.only().reason)
}

fn refused(reason: LineageReason) -> (AccessCheckReady, ResultReason) {
    (Failed, ResultReason::Lineage(reason))
}

#[test]
fn an_approval_of_the_pods_own_run_passes_with_what_proves_it() {
    for provenance in ["Auto", "Required"] {
        let judgement = asked(&World::honest())
            .with(|it| it.check()["provenance"] = provenance.into())
            .judged();
        assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
        assert!(judgement.rules.is_some_and(|it| it.is_ok()));
        let [object] = judgement.checks[0].objects.as_slice() else {
            panic!("one object was asked about");
        };
        let names = object.lineage.iter().map(|it| (&*it.kind, &*it.name));
        let names: Vec<_> = names.collect();
        let proof = [
            ("PipelineRun", "run"),
            ("TaskRun", "run-deploy"),
            ("CustomRun", "run-wait"),
        ];
        assert_eq!(names, proof);
        assert_eq!(object.approved_by, ["alice"]);
    }
}

#[test]
fn an_approval_of_another_run_is_refused_and_named() {
    let mut world = World::honest();
    world.approval = World::another().approval;
    let objects = World::another().objects;
    let judgement = asked(&world).with(|it| it.lineage.extend(objects)).judged();
    assert_eq!(reasons(&judgement), refused(LineageReason::OtherRun));
    assert_eq!((judgement.verdict, &judgement.rules), (Failed, &None));
    assert!(judgement.only().message.contains("of PipelineRun run asks"));
    let object = &judgement.only().objects[0];
    assert!(object.lineage.is_empty() && object.approved_by.is_empty());
}

#[test]
fn what_is_missing_between_pod_and_approval_is_waited_for() {
    let world = World::honest();
    let judgement = asked(&world).with(|it| it.lineage.clear()).judged();
    assert_eq!(judgement.said(), (Pending, JudgeReason::LineageIncomplete));
    let message = &judgement.only().message;
    assert!(
        message.contains("TaskRun run-deploy, which is not there")
            || message.contains("CustomRun run-wait, which is not there"),
        "{message}"
    );
}

#[test]
fn an_undecided_approval_says_which_approvers_are_awaited() {
    let mut world = World::honest();
    world.approval["status"]["state"] = "pending".into();
    for approver in world.approval["spec"]["approvers"].as_array_mut().unwrap() {
        approver["input"] = "pending".into();
    }
    let judgement = asked(&world).judged();
    assert_eq!(judgement.said(), (Pending, JudgeReason::Pending));
    assert_eq!(
        judgement.only().message,
        "ApprovalTask ns/run-wait waits for its approvers alice, group team: \
         kubectl connectors approve approvaltask/run-wait -n ns"
    );
}

/// The reason for the end of a grant is shown in the policy's namespace, which may be another one.
#[test]
fn after_the_grant_no_awaited_approver_is_named() {
    let mut world = World::honest();
    world.approval["status"]["state"] = "pending".into();
    for approver in world.approval["spec"]["approvers"].as_array_mut().unwrap() {
        approver["input"] = "pending".into();
    }
    for provenance in ["Auto", "None"] {
        let runs = [world.objects[2].clone()];
        let judgement = after(&world, &runs)
            .with(|it| it.check()["provenance"] = provenance.into())
            .judged();
        assert_eq!(judgement.said(), (Pending, JudgeReason::Pending));
        let message = &judgement.only().message;
        assert!(message.contains("waits for its approvers: "), "{message}");
    }
}

/// Any account that may create an ApprovalTask could otherwise end the requests of others for good.
#[test]
fn a_rejection_counts_only_with_a_proof() {
    let mut world = World::honest();
    world.approval["status"]["state"] = "rejected".into();
    world.approval["spec"]["approvers"][0]["input"] = "reject".into();
    let judgement = asked(&world).judged();
    assert_eq!(
        reasons(&judgement),
        (Rejected, ResultReason::Lineage(LineageReason::Rejected))
    );
    let judgement = asked(&world).with(|it| it.lineage.clear()).judged();
    assert_eq!(judgement.said(), (Pending, JudgeReason::LineageIncomplete));
    world.approval["metadata"]["ownerReferences"] = json!([]);
    let judgement = asked(&world).judged();
    let reason = LineageReason::ApprovalWithoutCustomRun;
    assert_eq!(reasons(&judgement), refused(reason));
}

/// Another approval may take its place, so the request of the pod does not end.
#[test]
fn an_approval_that_is_being_deleted_is_waited_for_before_the_grant_alone() {
    let mut world = World::honest();
    world.approval["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z".into();
    world.approval["status"]["state"] = "rejected".into();
    let judgement = asked(&world).judged();
    assert_eq!(judgement.said(), (Pending, JudgeReason::BeingDeleted));
    let runs = [world.objects[2].clone()];
    assert_eq!(
        reasons(&after(&world, &runs).judged()),
        (Rejected, ResultReason::Lineage(LineageReason::TimedOut))
    );
}

#[test]
fn a_proof_does_not_replace_the_approvers_that_the_policy_names() {
    for (users, expected) in [
        (json!(["alice"]), (Passed, JudgeReason::Approved)),
        (json!(["bob"]), (Failed, JudgeReason::QuorumNotMet)),
    ] {
        let judgement = asked(&World::honest())
            .with(|it| it.check()["approvers"] = json!({"users": users}))
            .judged();
        assert_eq!(judgement.said(), expected);
    }
}

#[test]
fn of_any_match_a_proven_one_is_enough_and_of_all_it_is_not() {
    for (match_, expected) in [("Any", Passed), ("All", Failed)] {
        let world = World::honest();
        let mut question = asked(&world).with(|it| it.check()["match"] = match_.into());
        let mut forged = question.candidates["gate"][0].clone();
        forged["metadata"]["name"] = "a".into();
        forged["metadata"]["uid"] = "uid-a".into();
        question.candidates.get_mut("gate").unwrap().push(forged);
        assert_eq!(question.judged().only().verdict, expected, "{match_}");
    }
}

/// A run that asks for a second approval, which is given too.
fn with_review(world: &mut World) -> Value {
    let run = world.run();
    let mut task = run["status"]["pipelineSpec"]["tasks"]
        .as_array()
        .unwrap()
        .clone();
    task.retain(|it| it["name"] == "wait");
    let mut task = task.remove(0);
    task["name"] = "review".into();
    for at in ["spec", "status"] {
        let tasks = &mut run[at]["pipelineSpec"]["tasks"];
        if let Some(tasks) = tasks.as_array_mut() {
            tasks.push(task.clone());
        }
    }
    run["metadata"]["labels"] = json!({"run": "r1"});
    world.adopt(RunKind::CustomRun, "run-review", "review");
    let mut custom_run = world.objects[1].clone();
    custom_run["metadata"]["name"] = "run-review".into();
    custom_run["metadata"]["uid"] = "uid-review".into();
    world.objects.push(custom_run);
    let mut review = world.approval.clone();
    review["metadata"]["name"] = "run-review".into();
    review["metadata"]["uid"] = "uid-review-task".into();
    let owner = &mut review["metadata"]["ownerReferences"][0];
    owner["name"] = "run-review".into();
    owner["uid"] = "uid-review".into();
    review["metadata"]["labels"] = json!({"run": "r1"});
    review
}

/// The gate lets every approver change the labels of an approval.
#[test]
fn an_approval_of_the_run_that_labels_do_not_find_is_waited_for() {
    let mut world = World::honest();
    let review = with_review(&mut world);
    let judgement = asked(&world).judged();
    assert_eq!(
        judgement.said(),
        (Pending, JudgeReason::OtherApprovalMissing)
    );
    assert_eq!(judgement.rules, None);
    let message = &judgement.only().message;
    assert!(message.contains("ApprovalTask run-review"), "{message}");

    let mut both = asked(&world);
    both.candidates.get_mut("gate").unwrap().push(review);
    assert_eq!(both.judged().said(), (Passed, JudgeReason::Approved));
}

#[test]
fn only_approvals_that_the_check_would_select_are_waited_for() {
    type Change = fn(&mut World, &mut PolicyQuestion);
    let own = |task: &str| json!({"run": "r1", "tekton.dev/pipelineTask": task});
    let by_task = move |task: &'static str| {
        move |question: &mut PolicyQuestion| {
            question.check()["selector"]["labels"] = own(task);
            question.candidates.get_mut("gate").unwrap()[0]["metadata"]["labels"] = own("wait");
        }
    };
    let table: [(&str, Change, AccessCheckReady); 6] = [
        (
            "any is enough",
            |_, it| it.check()["match"] = "Any".into(),
            Passed,
        ),
        (
            "the run has not come to it",
            |world, _| {
                let children = world.run()["status"]["childReferences"].as_array_mut();
                children.unwrap().pop();
            },
            Passed,
        ),
        (
            "it asks for something else",
            |world, _| {
                let tasks = world.run()["status"]["pipelineSpec"]["tasks"]
                    .as_array_mut()
                    .unwrap();
                tasks.last_mut().unwrap()["taskRef"]["kind"] = "Other".into();
            },
            Passed,
        ),
        (
            "fields select too",
            |_, it| it.check()["selector"]["fieldSelector"] = json!({"status.state": "approved"}),
            Passed,
        ),
        (
            "no proof is asked for",
            |_, it| it.check()["provenance"] = "None".into(),
            Passed,
        ),
        (
            "access was granted before",
            |_, it| it.stage = Stage::AfterGrant,
            Passed,
        ),
    ];
    for (situation, change, expected) in table {
        let mut world = World::honest();
        with_review(&mut world);
        let mut question = asked(&world);
        change(&mut world, &mut question);
        question.lineage = if question.stage == Stage::AfterGrant {
            vec![world.run().clone()]
        } else {
            world.objects.clone()
        };
        let judgement = question.judged();
        assert_eq!(
            judgement.only().verdict,
            expected,
            "{situation}: {judgement:?}"
        );
    }
    for (task, expected) in [("wait", Passed), ("review", Failed)] {
        let mut world = World::honest();
        with_review(&mut world);
        let mut question = asked(&world);
        by_task(task)(&mut question);
        assert_eq!(question.judged().only().verdict, expected, "{task}");
    }
}

/// While a run is stopping, Tekton takes a deleted child off the list and does not make it again.
#[test]
fn an_approval_that_a_run_skipped_because_it_ended_too_early_is_waited_for() {
    let results = "Results were missing";
    let early = [
        "PipelineRun was stopping",
        "PipelineRun was gracefully stopped",
        "PipelineRun timeout has been reached",
        "PipelineRun Tasks timeout has been reached",
        "a reason of a later version",
        "",
        results,
    ];
    let condition = "When Expressions evaluated to false";
    let of_the_pipeline = [condition, "Matrix Parameters have an empty array"];
    let behind = "Parent Tasks were skipped";
    let alone = |reason| json!([{"name": "review", "reason": reason}]);
    let after = |reason, own| json!([{"name": "build", "reason": reason}, {"name": "review", "reason": own}]);
    let mut table: Vec<(Value, AccessCheckReady)> = vec![
        (json!([]), Passed),
        (json!([{"name": "build", "reason": early[0]}]), Passed),
        (alone(behind), Passed),
        // The results of a task that its condition left out.
        (after(condition, results), Passed),
    ];
    table.extend(early.map(|it| (alone(it), Pending)));
    table.extend(early.map(|it| (after(it, behind), Pending)));
    table.extend(of_the_pipeline.map(|it| (alone(it), Passed)));
    table.extend(of_the_pipeline.map(|it| (after(it, behind), Passed)));
    for (skipped, expected) in table {
        let mut world = World::honest();
        with_review(&mut world);
        let status = &mut world.run()["status"];
        status["childReferences"].as_array_mut().unwrap().pop();
        status["skippedTasks"] = skipped.clone();
        let judgement = asked(&world).judged();
        let only = judgement.only();
        assert_eq!(only.verdict, expected, "{skipped}: {judgement:?}");
        let names_it = only.message.contains("ApprovalTask run-review");
        assert_eq!(names_it, expected == Pending, "{skipped}: {}", only.message);
    }
}

/// An approval under the name of a forgotten one has to be proven as well.
#[test]
fn another_object_under_the_name_of_a_forgotten_approval_does_not_take_its_place() {
    let mut world = World::honest();
    let mut squatted = with_review(&mut world);
    let status = &mut world.run()["status"];
    status["childReferences"].as_array_mut().unwrap().pop();
    status["skippedTasks"] = json!([{"name": "review", "reason": "PipelineRun was stopping"}]);
    squatted["metadata"]["ownerReferences"] = json!([]);
    let mut question = asked(&world);
    question.candidates.get_mut("gate").unwrap().push(squatted);
    assert_eq!(question.judged().only().verdict, Failed);
}

/// Labels of the run can be changed like those of an approval; those of Tekton tell its approvals apart.
#[test]
fn labels_of_the_run_select_each_of_its_approvals_and_those_of_tekton_only_theirs() {
    let all = [
        ("tekton.dev/pipelineRun", "run", true),
        ("tekton.dev/pipelineRunUID", "uid-run", true),
        ("tekton.dev/memberOf", "tasks", true),
        ("release", "r1", true),
        ("tekton.dev/memberOf", "finally", false),
        ("tekton.dev/pipelineTask", "wait", false),
        ("tekton.dev/customRun", "run-wait", false),
    ];
    for (label, value, is_awaited) in all {
        for run_labels in [json!({}), Value::Null, json!({label: "other", "run": "r1"})] {
            let mut world = World::honest();
            with_review(&mut world);
            world.run()["metadata"]["labels"] = run_labels;
            let mut question = asked(&world);
            question.check()["selector"]["labels"] = json!({label: value});
            question.candidates.get_mut("gate").unwrap()[0]["metadata"]["labels"] =
                json!({label: value});
            let expected = if is_awaited {
                (Pending, JudgeReason::OtherApprovalMissing)
            } else {
                (Passed, JudgeReason::Approved)
            };
            assert_eq!(question.judged().said(), expected, "{label}={value}");
        }
    }
}

#[test]
fn an_approval_of_finally_is_one_of_the_run_too() {
    let mut world = World::honest();
    with_review(&mut world);
    let spec = &mut world.run()["status"]["pipelineSpec"];
    let mut review = spec["tasks"].as_array_mut().unwrap().pop().unwrap();
    let target = review["taskRef"].take();
    review.as_object_mut().unwrap().remove("taskRef");
    review["taskSpec"] = target;
    spec["finally"] = json!([review]);
    let judgement = asked(&world).judged();
    assert_eq!(
        judgement.said(),
        (Pending, JudgeReason::OtherApprovalMissing)
    );
}

/// A result that no label mends is told as it is.
#[test]
fn a_missing_approval_hides_no_answer_but_yes() {
    let mut world = World::honest();
    with_review(&mut world);
    let judgement = asked(&world)
        .with(|it| it.check()["approvers"] = json!({"users": ["bob"]}))
        .judged();
    assert_eq!(judgement.said(), (Failed, JudgeReason::QuorumNotMet));
}

#[test]
fn without_provenance_labels_and_state_decide() {
    let judgement = asked(&World::honest())
        .with(|it| {
            it.check()["provenance"] = "None".into();
            it.lineage.clear();
        })
        .judged();
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
    assert!(judgement.only().objects[0].lineage.is_empty());
}

#[test]
fn modules_are_asked_only_about_proven_objects() {
    for (proven, jobs) in [(true, 1), (false, 0)] {
        let question = asked(&World::honest()).with(|it| {
            it.check()["state"] = json!({"rego": "package approval"});
            if !proven {
                it.lineage.clear();
            }
        });
        let prepared = prepare(question).unwrap();
        assert_eq!(prepared.rego_jobs().count(), jobs);
    }
}

/// Every account that may create approvals can copy the labels of a check, and the name of an object decides its place.
#[test]
fn approvals_of_strangers_do_not_use_up_the_steps_of_an_honest_one() {
    let mut question = asked(&World::honest()).with(|it| it.check()["match"] = "Any".into());
    let approvals = question.candidates.get_mut("gate").unwrap();
    for number in 0..2_000 {
        let mut stranger = approvals[0].clone();
        let name = format!("a-{number}");
        stranger["metadata"]["uid"] = format!("uid-{name}").into();
        // As well with an owner under the name.
        if number % 2 == 0 {
            stranger["metadata"]["ownerReferences"][0]["name"] = name.clone().into();
        }
        stranger["metadata"]["name"] = name.into();
        approvals.push(stranger);
    }
    assert_eq!(question.judged().only().verdict, Passed);
}

#[test]
fn all_approvals_of_a_question_share_its_steps() {
    let mut world = World::honest();
    let children = &mut world.run()["status"]["childReferences"];
    for number in 0..4_000 {
        let name = format!("run-other-{number}");
        children.as_array_mut().unwrap().push(
            json!({"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": name, "pipelineTaskName": "other"}),
        );
    }
    for (strangers, expected) in [(1_000, Passed), (5_000, Failed)] {
        let mut question = asked(&world).with(|it| it.check()["match"] = "Any".into());
        let approvals = question.candidates.get_mut("gate").unwrap();
        for number in 0..strangers {
            let mut stranger = approvals[0].clone();
            let name = format!("a-{number}");
            stranger["metadata"]["ownerReferences"][0]["name"] = name.clone().into();
            stranger["metadata"]["name"] = name.into();
            approvals.push(stranger);
        }
        assert_eq!(question.judged().only().verdict, expected, "{strangers}");
    }
}

#[test]
fn after_the_grant_the_run_must_go_on_and_the_approvers_must_still_say_yes() {
    type Change = fn(&mut World);
    let table: [(Change, Option<LineageReason>); 6] = [
        (|_| {}, None),
        (
            |it| it.run()["spec"]["status"] = "Cancelled".into(),
            Some(LineageReason::RunCancelled),
        ),
        (
            |it| it.run()["status"]["completionTime"] = "2026-11-21T11:00:00Z".into(),
            Some(LineageReason::RunDone),
        ),
        (
            |it| it.run()["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z".into(),
            Some(LineageReason::BeingDeleted),
        ),
        (
            |it| it.approval["spec"]["approvers"][0]["input"] = "reject".into(),
            Some(LineageReason::QuorumNotMet),
        ),
        (
            |it| it.run()["kind"] = "TaskRun".into(),
            Some(LineageReason::Unreadable),
        ),
    ];
    for (change, reason) in table {
        let mut world = World::honest();
        change(&mut world);
        let runs = [world.objects[2].clone()];
        let judgement = after(&world, &runs).judged();
        match reason {
            None => assert_eq!(judgement.said(), (Passed, JudgeReason::Approved)),
            Some(reason) => assert_eq!(reasons(&judgement), refused(reason)),
        }
    }
}

/// The latch decides in the caller how a deleted run counts.
#[test]
fn after_the_grant_a_run_that_is_gone_says_nothing() {
    let world = World::honest();
    assert_eq!(
        after(&world, &[]).judged().said(),
        (Passed, JudgeReason::Approved)
    );
    let mut rejected = world;
    rejected.approval["status"]["state"] = "rejected".into();
    assert_eq!(
        reasons(&after(&rejected, &[]).judged()),
        (Rejected, ResultReason::Lineage(LineageReason::TimedOut))
    );
}

/// A policy of another namespace sees a part of the pod; the proof takes all of it.
#[test]
fn a_policy_of_another_namespace_gets_the_same_proof() {
    let judgement = asked(&World::honest())
        .with(|it| it.policy["metadata"]["namespace"] = "devops".into())
        .judged();
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
}
