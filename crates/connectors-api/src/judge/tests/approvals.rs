//! The approvals that count.

use serde_json::{Value, json};

use super::*;

/// The policy's approvers, the object's, whether they are enough, and the names of the approving users.
type Case = (Value, Value, bool, &'static [&'static str]);

#[allow(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let user = |name: &str, input: &str| json!({"name": name, "type": "User", "input": input});
    let group = |name: &str, users: Value| json!({"name": name, "type": "Group", "input": "approve", "users": users});
    let (alice, bob) = (user("alice", "approve"), user("bob", "approve"));
    let wanted = |users: &[&str], groups: &[&str], minimum: i32| json!({"users": users, "groups": groups, "minimum": minimum});
    let only_alice = wanted(&["alice"], &[], 1);
    vec![
        (only_alice.clone(), json!([alice]), true, &["alice"]),
        (only_alice.clone(), json!([bob]), false, &[]),
        (
            only_alice.clone(),
            json!([user("alice", "pending")]),
            false,
            &[],
        ),
        (
            only_alice.clone(),
            json!([user("alice", "approved")]),
            false,
            &[],
        ),
        (
            only_alice.clone(),
            json!([{"name": "alice", "input": "approve"}]),
            true,
            &["alice"],
        ),
        (
            only_alice.clone(),
            json!([{"name": "alice", "input": "approve", "type": ""}]),
            true,
            &["alice"],
        ),
        (
            only_alice.clone(),
            json!([{"name": "alice", "input": "approve", "type": null}]),
            true,
            &["alice"],
        ),
        (
            only_alice.clone(),
            json!([{"name": "alice", "input": "approve", "type": "Robot"}]),
            false,
            &[],
        ),
        (
            only_alice.clone(),
            json!([{"name": "alice", "input": "approve", "type": 1}]),
            false,
            &[],
        ),
        // A group does not match a user of the same name, nor the reverse.
        (
            only_alice.clone(),
            json!([group("alice", json!([]))]),
            false,
            &[],
        ),
        (
            wanted(&[], &["sec"], 1),
            json!([user("sec", "approve")]),
            false,
            &[],
        ),
        // A member counts as itself and for its group; the group alone does not count.
        (
            only_alice.clone(),
            json!([group("sec", json!([alice]))]),
            true,
            &["alice"],
        ),
        (
            wanted(&[], &["sec"], 1),
            json!([group("sec", json!([bob]))]),
            true,
            &["bob"],
        ),
        (
            wanted(&[], &["sec"], 1),
            json!([group("ops", json!([bob]))]),
            false,
            &[],
        ),
        (
            wanted(&[], &["sec"], 1),
            json!([group("sec", json!([]))]),
            false,
            &[],
        ),
        // A member without an approval does not count, although the group entry approved.
        (
            wanted(&[], &["sec"], 1),
            json!([group("sec", json!([user("bob", "pending")]))]),
            false,
            &[],
        ),
        // Nor does one with an approval while the group entry has none.
        (
            wanted(&["bob"], &["sec"], 1),
            json!([{"name": "sec", "type": "Group", "input": "pending", "users": [bob]}]),
            false,
            &[],
        ),
        // One user counts as one approval, however often it is given.
        (
            wanted(&["alice", "bob"], &["sec"], 2),
            json!([alice, alice, group("sec", json!([alice]))]),
            false,
            &["alice"],
        ),
        (
            wanted(&["alice"], &["sec"], 2),
            json!([alice, group("sec", json!([bob]))]),
            true,
            &["alice", "bob"],
        ),
        (wanted(&["alice"], &[], 0), json!([]), false, &[]),
    ]
}

pub(super) fn task(approvers: &Value, state: &str) -> Value {
    let mut task = gate("task", state);
    task["apiVersion"] = "openshift-pipelines.org/v1alpha1".into();
    task["kind"] = "ApprovalTask".into();
    task["spec"] = json!({"approvers": approvers});
    task
}

pub(super) fn about_tasks(question: PolicyQuestion) -> PolicyQuestion {
    question.with(|it| {
        it.check()["selector"]["objectRef"] =
            json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
        it.check()["provenance"] = "None".into();
    })
}

#[test]
fn approvals_are_counted_from_what_each_approver_said() {
    for (wanted, approvers, met, approved_by) in cases() {
        let judged = |state: &str, stage| {
            about_tasks(question())
                .with(|it| {
                    it.stage = stage;
                    it.check()["approvers"] = wanted.clone();
                })
                .found([task(&approvers, state)])
                .judged()
        };
        for stage in [Stage::BeforeGrant, Stage::AfterGrant] {
            let judgement = judged("approved", stage);
            let expected = if met {
                (Passed, JudgeReason::Approved)
            } else {
                (Failed, JudgeReason::QuorumNotMet)
            };
            assert_eq!(judgement.said(), expected, "{wanted} {approvers}");
            assert_eq!(judgement.only().objects[0].approved_by, approved_by);
        }
        // Approvals alone are not enough.
        assert_eq!(
            judged("pending", Stage::BeforeGrant).only().verdict,
            Pending
        );
        assert_eq!(
            judged("rejected", Stage::BeforeGrant).only().verdict,
            Rejected
        );
    }
}

/// The approvals of an object with more than names: user, group and message.
fn told(approvers: &Value) -> Vec<(String, Option<String>, Option<String>)> {
    let judgement = about_tasks(question())
        .found([task(approvers, "approved")])
        .judged();
    let approvals = judgement.only().objects[0].approvals.iter();
    let approvals = approvals.cloned();
    approvals
        .map(|it| (it.user, it.group, it.message))
        .collect()
}

#[test]
fn an_approval_is_told_with_its_group_and_its_message() {
    let user = |name: &str, more: Value| {
        let mut user = json!({"name": name, "type": "User", "input": "approve"});
        user.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        user
    };
    let some = |text: &str| Some(text.to_owned());
    let member = user("bob", json!({"message": "as qa"}));
    let group = json!({"name": "qa", "type": "Group", "input": "approve", "users": [member]});
    let with_words = user("alice", json!({"message": "go"}));
    assert_eq!(
        told(&json!([group, with_words])),
        [
            ("alice".to_owned(), None, some("go")),
            ("bob".to_owned(), some("qa"), some("as qa")),
        ]
    );
    for nothing in [
        json!({}),
        json!({"message": ""}),
        json!({"message": null}),
        json!({"message": 7}),
    ] {
        assert_eq!(told(&json!([user("alice", nothing)])), []);
    }
    let refused = json!({"name": "alice", "type": "User", "input": "reject", "message": "no"});
    assert_eq!(told(&json!([refused])), []);
    let red = user("alice", json!({"message": "\u{1b}[31mgo\n"}));
    assert_eq!(told(&json!([red]))[0].2, some("[31mgo"));
}

#[test]
fn approvals_with_fields_that_differ_in_nothing_but_case_are_none() {
    let alice = json!({"name": "alice", "type": "User", "input": "approve", "Input": "pending"});
    let judgement = about_tasks(question())
        .with(|it| it.check()["approvers"] = json!({"users": ["alice"]}))
        .found([task(&json!([alice]), "approved")])
        .judged();
    assert_eq!(judgement.said(), (Failed, JudgeReason::QuorumNotMet));
}

#[test]
fn sixteen_approvals_are_told_with_the_beginning_of_their_messages() {
    let user = |number: usize| json!({"name": format!("u{number:03}"), "input": "approve", "message": "\u{e9}".repeat(1000)});
    let told = told(&(0..200).map(user).collect());
    assert_eq!(told.len(), 16);
    assert_eq!(told[15].0, "u015");
    assert_eq!(told[0].2, Some("\u{e9}".repeat(256)));
}

#[test]
fn approvals_in_no_form_of_a_list_are_none() {
    for approvers in [
        json!(null),
        json!({}),
        json!("alice"),
        json!([1, null, "alice", {"name": 1}]),
    ] {
        let judgement = about_tasks(question())
            .with(|it| it.check()["approvers"] = json!({"users": ["alice"]}))
            .found([task(&approvers, "approved")])
            .judged();
        assert_eq!(judgement.said(), (Failed, JudgeReason::QuorumNotMet));
    }
}

#[test]
fn approvers_of_a_kind_without_approvals_fail_the_check() {
    let judgement = question()
        .with(|it| it.check()["approvers"] = json!({"users": ["alice"]}))
        .found([gate("a", "approved")])
        .judged();
    assert_eq!(
        judgement.said(),
        (Failed, JudgeReason::ApproversUnsupported)
    );
}

#[test]
fn people_and_groups_of_nearly_the_same_name_do_not_approve() {
    let says = |person: &str, group: &str| {
        let person = json!({"name": person, "type": "User", "input": "approve"});
        json!([{"name": group, "type": "Group", "input": "approve", "users": [person]}])
    };
    let passes = |wanted: Value, approvers: Value| {
        let asked = about_tasks(question())
            .with(|it| it.check()["approvers"] = wanted)
            .found([task(&approvers, "approved")]);
        asked.judged().said() == (Passed, JudgeReason::Approved)
    };
    let (users, groups) = (json!({"users": ["alice"]}), json!({"groups": ["security"]}));
    assert!(passes(users.clone(), says("alice", "others")));
    assert!(passes(groups.clone(), says("bob", "security")));
    for other in crate::testing::nearly("alice") {
        assert!(!passes(users.clone(), says(&other, "others")), "{other:?}");
    }
    for other in crate::testing::nearly("security") {
        assert!(!passes(groups.clone(), says("bob", &other)), "{other:?}");
    }
}
