//! What a status keeps of that on which it was decided, and how much.

use std::sync::Arc;

use connectors_api::{
    AccessPolicy,
    access_policy::{CheckState, Match},
    access_request::{
        AccessRequestStatus, Approval, CheckRef, CheckRefStatus, GrantState, ObservedObject, Phase,
    },
    check_selector::CompiledPolicy,
    policy_order::MOST_PER_CONNECTOR,
    reason::AccessCheckReady::{
        self, AccessCheckFailed as Failed, AccessCheckPassed as Passed,
        AccessCheckPending as Pending, AccessCheckRejected as Rejected,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, answer, line};
use crate::evidence::{ListRoom, MOST_OBJECTS, awaited, listable, of_grant, of_refusal};
use crate::seen::{CheckSeen, LeftOut, PolicyAnswer, PolicyJudgement};

/// A request whose check was awaited longer than the policy allows.
fn late() -> Scene {
    let limits = json!({"pendingTimeout": "1h"});
    Scene::new()
        .limited("p", &limits, PolicyJudgement::Answered(answer(Pending)))
        .after(SignedDuration::from_hours(1))
}

/// A check of that name with so many objects that all say the same.
fn check(name: &str, match_: Match, answer: &PolicyAnswer, objects: usize) -> CheckSeen {
    let mut check = answer.checks[0].clone();
    let object = check.objects.remove(0);
    check.objects = (0..objects)
        .map(|number| {
            let mut object = object.clone();
            object.object.uid = Some(format!("{name}-{number}"));
            object
        })
        .collect();
    CheckSeen {
        name: name.to_owned(),
        match_,
        ..check
    }
}

fn passing(checks: &[(&str, Match, usize)]) -> Scene {
    let mut passed = answer(Passed);
    passed.checks = checks
        .iter()
        .map(|(name, match_, objects)| check(name, *match_, &answer(Passed), *objects))
        .collect();
    Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(passed))
}

/// How many objects of each check are listed, and how many are left out.
fn listed(status: &AccessRequestStatus, names: &[&str]) -> (Vec<usize>, Option<i32>) {
    let entry = &status.policies[0];
    let of = |name: &&str| {
        entry
            .check_refs
            .iter()
            .filter(|it| it.name == **name)
            .count()
    };
    assert!(entry.check_refs.len() <= MOST_OBJECTS);
    (names.iter().map(of).collect(), entry.check_refs_left_out)
}

#[test]
fn a_grant_lists_every_object_that_has_to_hold_or_is_not_made() {
    let fits = passing(&[("a", Match::All, MOST_OBJECTS)]);
    assert_eq!(listed(&fits.planned(), &["a"]), (vec![MOST_OBJECTS], None));
    assert_eq!(fits.carried_out().status().phase, Some(Phase::Granted));
    for checks in [
        [("a", Match::All, MOST_OBJECTS), ("b", Match::All, 1)],
        [("a", Match::All, MOST_OBJECTS), ("b", Match::Any, 1)],
    ] {
        let scene = passing(&checks);
        let plan = scene.plan();
        assert!(plan.actions.is_empty());
        let status = scene.planned();
        assert!(
            line(&status).ends_with("ready:F:ChecksFailed"),
            "{}",
            line(&status)
        );
        let told = &status.conditions.last().unwrap().message;
        assert!(told.contains("513 objects"), "{told}");
    }
}

#[test]
fn of_objects_of_which_any_suffices_those_are_left_out_that_do_not_fit() {
    let many = passing(&[("a", Match::Any, 600)]);
    assert_eq!(listed(&many.planned(), &["a"]), (vec![512], Some(88)));
    assert_eq!(many.carried_out().status().phase, Some(Phase::Granted));
    let mixed = passing(&[
        ("all", Match::All, 500),
        ("any", Match::Any, 600),
        ("few", Match::Any, 3),
    ]);
    let expected = (vec![500, 6, 3], Some(594));
    assert_eq!(listed(&mixed.planned(), &["all", "any", "few"]), expected);
}

#[test]
fn objects_that_are_awaited_or_refuse_are_counted_where_they_do_not_fit() {
    for (verdict, most) in [(Pending, 48), (Rejected, 384)] {
        let mut said = answer(verdict);
        said.checks = vec![check("a", Match::All, &answer(verdict), 600)];
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
        let status = scene.planned();
        let (shown, left_out) = listed(&status, &["a"]);
        assert_eq!(shown[0] + usize::try_from(left_out.unwrap()).unwrap(), 600);
        assert!(shown[0] > 100, "{verdict}: {shown:?}");
        let size = serde_json::to_vec(&status.policies).unwrap().len();
        assert!(size < most * 1024, "{verdict}: {size}");
    }
}

#[test]
fn a_check_that_found_nothing_is_listed_as_long_as_its_texts_fit() {
    for (bytes, listed) in [(512, 1), (513, 0)] {
        let mut said = answer(Pending);
        let check = &mut said.checks[0];
        check.objects.clear();
        check.message = "m".repeat(bytes - check.name.len() - check.reason.len());
        let room = ListRoom::shared_by(MOST_PER_CONNECTOR);
        assert_eq!(awaited(&said, room).refs.len(), listed, "{bytes} bytes");
    }
}

/// An answer of one object of which everything is known.
fn full(verdict: AccessCheckReady) -> PolicyAnswer {
    let mut said = answer(verdict);
    let object = &mut said.checks[0].objects[0];
    object.message = "go".to_owned();
    object.approvals = vec![Approval {
        user: "bob".to_owned(),
        group: Some("g".to_owned()),
        message: Some("m".to_owned()),
    }];
    object.lineage = vec![ObservedObject {
        name: "r".to_owned(),
        ..ObservedObject::default()
    }];
    object.run_creator = Some("eve".to_owned());
    said
}

#[test]
fn an_object_is_listed_as_long_as_its_texts_and_its_proof_fit() {
    let texts = [
        "approval",
        "v1",
        "ConfigMap",
        "apps",
        "approval-1",
        "approval-uid",
        "pending",
        "Word",
        "ann",
        "bob",
        "g",
        "m",
        "eve",
    ];
    // Of each of the object and its proof, beside their texts.
    let (room, of_each, of_the_proof) = (768, 256, "r".len());
    let rest = room - 2 * of_each - of_the_proof - texts.concat().len();
    for (bytes, listed) in [(rest, 1), (rest + 1, 0)] {
        let mut said = full(Pending);
        said.checks[0].objects[0].message = "x".repeat(bytes);
        let room = ListRoom::shared_by(MOST_PER_CONNECTOR);
        assert_eq!(awaited(&said, room).refs.len(), listed, "{bytes} bytes");
    }
}

#[test]
fn an_object_is_listed_with_all_that_was_seen_of_it() {
    let mut said = full(Passed);
    let object = said.checks[0].objects[0].clone();
    let of = |ref_, status, lineage| CheckRef {
        name: "approval".to_owned(),
        ref_,
        status: Some(status),
        lineage,
    };
    let status = CheckRefStatus {
        state: Some("approved".to_owned()),
        reason: Some("Word".to_owned()),
        message: Some("go".to_owned()),
        approved_by: vec!["ann".to_owned()],
        approvals: object.approvals,
        run_creator: Some("eve".to_owned()),
    };
    let listed = [of(Some(object.object), status, object.lineage)];
    let room = ListRoom::shared_by(1);
    assert_eq!(of_grant(&said).unwrap().refs, listed);
    assert_eq!(of_refusal(&said, room).refs, listed);
    // Without any object the check says why.
    said.checks[0].objects.clear();
    let status = CheckRefStatus {
        reason: Some("Word".to_owned()),
        message: Some("what it says".to_owned()),
        ..CheckRefStatus::default()
    };
    assert_eq!(of_refusal(&said, room).refs, [of(None, status, Vec::new())]);
}

#[test]
fn a_grant_rests_on_the_objects_that_pass_and_on_no_other() {
    let mut said = answer(Passed);
    said.checks = vec![check("a", Match::Any, &answer(Passed), 3)];
    said.checks[0].objects[1].verdict = Failed;
    let listed = of_grant(&said).unwrap();
    let objects = listed.refs.into_iter().filter_map(|it| it.ref_?.uid);
    assert_eq!(objects.collect::<Vec<_>>(), ["a-0", "a-2"]);
    assert_eq!(listed.left_out, None);
}

#[test]
fn objects_are_listed_in_the_order_of_the_policy_where_all_of_them_are() {
    let mut said = answer(Pending);
    said.checks = vec![
        check("done", Match::All, &answer(Passed), 1),
        check("waits", Match::All, &answer(Pending), 1),
    ];
    let names = |said: &PolicyAnswer| {
        let refs = awaited(said, ListRoom::shared_by(1)).refs.into_iter();
        refs.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&said), ["done", "waits"]);
    said.checks[0].left_out.passed = 1;
    assert_eq!(names(&said), ["waits", "done"]);
}

fn long_approval() -> Approval {
    Approval {
        user: "x".repeat(512),
        group: Some("g".repeat(512)),
        message: Some("m".repeat(256)),
    }
}

#[test]
fn the_lists_of_many_policies_fit_into_one_status() {
    for verdict in [Pending, Rejected] {
        let mut said = answer(verdict);
        said.checks = vec![check("a", Match::All, &answer(verdict), 600)];
        let people = vec!["x".repeat(512); 100];
        said.checks[0].objects[0].approved_by = people;
        said.checks[0].objects[0].approvals = vec![long_approval(); 16];
        let names: Vec<_> = (0..MOST_PER_CONNECTOR).map(|it| format!("p{it}")).collect();
        let scene = names.iter().fold(Scene::new(), |scene, name| {
            scene.limited(name, &json!({}), PolicyJudgement::Answered(said.clone()))
        });
        let status = scene.planned();
        assert_eq!(status.policies.len(), MOST_PER_CONNECTOR);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size < 1024 * 1024, "{verdict}: {size}");
        let left_out = status.policies[0].check_refs_left_out.unwrap();
        let shown = status.policies[0].check_refs.len();
        assert_eq!(shown + usize::try_from(left_out).unwrap(), 600);
    }
}

#[test]
fn what_stands_in_the_way_is_shown_first_where_not_all_fits() {
    let mut said = answer(Pending);
    let passed = check("done", Match::All, &answer(Passed), 600);
    let waits = check("waits", Match::All, &answer(Pending), 3);
    said.checks = vec![passed, waits];
    let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
    let (shown, left_out) = listed(&scene.planned(), &["done", "waits"]);
    assert!(shown[0] > 100 && left_out.is_some(), "{shown:?}");
    assert_eq!(shown[1], 3);
}

#[test]
fn what_refused_is_kept_as_it_was_and_what_is_awaited_is_named() {
    let version = |status: &AccessRequestStatus| {
        let object = status.policies[0].check_refs[0].ref_.clone();
        object.and_then(|it| it.resource_version)
    };
    let waits = Scene::new().policy("p", Pending).planned();
    assert!(!waits.policies[0].policy.0.contains_key("spec"));
    assert_eq!(version(&waits), None);
    for scene in [Scene::new().policy("p", Rejected), late()] {
        let status = scene.planned();
        assert_eq!(status.phase, Some(Phase::Rejected));
        let spec = &status.policies[0].policy.0["spec"];
        let checks = &spec["checkGrantedPermission"]["spec"]["checks"];
        assert_eq!(checks[0]["name"], "approval");
        assert_eq!(version(&status).as_deref(), Some("41"));
        assert!(scene.carried_out().plan().is_idle());
    }
}

#[test]
fn objects_of_another_namespace_are_listed_when_they_let_through_and_not_before() {
    let refs = |status: &AccessRequestStatus| {
        let entry = &status.policies[0];
        (entry.check_refs.len(), entry.check_refs_left_out)
    };
    let off = Scene::new()
        .policy("p", Passed)
        .with(|seen| seen.config.enabled = false);
    for scene in [
        Scene::new().policy("p", Pending),
        Scene::new().policy("p", Failed),
        Scene::new().policy("p", Rejected),
        late(),
        off,
    ] {
        assert_eq!(refs(&scene.planned()), (1, None));
        let elsewhere = scene.elsewhere();
        assert_eq!(refs(&elsewhere.planned()), (0, None));
        assert!(elsewhere.carried_out().plan().is_idle());
    }
    let granted = Scene::new().policy("p", Passed).elsewhere();
    assert_eq!(refs(&granted.planned()), (1, None));
}

/// The same with policies that have so many KiB more.
fn padded(scene: Scene, kib: usize) -> Scene {
    let padded = |policy: &AccessPolicy| {
        let mut policy = policy.clone();
        let granted = policy.spec.check_granted_permission.as_mut().unwrap();
        let rego = "x".repeat(kib * 1024);
        granted.spec.checks[0].state = Some(CheckState { rego });
        Arc::new(CompiledPolicy::of(policy, None))
    };
    scene.with(|seen| {
        for seen in &mut seen.policies {
            seen.policy = padded(&seen.policy.policy);
        }
    })
}

/// Whether each policy is kept with its checks.
fn are_whole(status: &AccessRequestStatus) -> Vec<bool> {
    let policies = status.policies.iter();
    policies
        .map(|it| it.policy.0.contains_key("spec"))
        .collect()
}

/// What is in force is followed by it, and what was in force stays on record.
#[test]
fn a_policy_that_grants_or_has_granted_is_kept_whatever_its_size() {
    let both = padded(Scene::new().policy("p", Passed).policy("q", Passed), 300);
    assert_eq!(are_whole(&both.planned()), [true, true], "decided");
    let granted = both.carried_out();
    let one = granted.with(|seen| seen.frozen[0].exists = false).planned();
    let grants = one.policies.iter().map(|it| it.grant.as_ref().unwrap());
    let states: Vec<_> = grants.map(|it| it.state).collect();
    assert_eq!(states, [GrantState::Ended, GrantState::Granted]);
    assert_eq!(are_whole(&one), [true, true]);
}

#[test]
fn a_refusal_is_recorded_whatever_the_size_of_the_policies_that_refused() {
    let names = ["p", "q", "r", "s"];
    let all = names
        .iter()
        .fold(Scene::new(), |scene, name| scene.policy(name, Rejected));
    let all = padded(all, 100);
    let status = all.planned();
    assert_eq!(status.phase, Some(Phase::Rejected));
    assert_eq!(are_whole(&status), [true, true, false, false]);
    let size = serde_json::to_vec(&status).unwrap().len();
    assert!(size < 300 * 1024, "{size}");
    assert!(all.carried_out().plan().is_idle());
}

/// Answers of one check of each kind, with more and with fewer objects than are listed.
fn long_answers() -> Vec<PolicyAnswer> {
    let mut answers = Vec::new();
    for verdict in [Passed, Pending, Rejected, Failed] {
        for (all, any) in [(1, 1), (512, 0), (500, 600), (600, 600), (0, 2000)] {
            let mut said = answer(verdict);
            said.checks = vec![
                check("all", Match::All, &answer(verdict), all),
                check("any", Match::Any, &answer(verdict), any),
            ];
            // Of any, some say something else.
            let others = said.checks[1].objects.iter_mut().step_by(3);
            others.for_each(|it| it.verdict = Failed);
            answers.push(said);
        }
    }
    answers
}

#[test]
fn a_status_is_the_same_whether_an_answer_keeps_what_it_does_not_list() {
    for said in long_answers() {
        let planned = |said: PolicyAnswer| {
            let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
            (scene.planned(), scene.plan().actions.len())
        };
        let kept = listable(said.clone(), ListRoom::shared_by(1));
        let again = listable(kept.clone(), ListRoom::shared_by(1));
        assert_eq!(kept, again);
        assert_eq!(planned(kept), planned(said));
    }
}

#[test]
fn no_more_objects_of_an_answer_are_kept_than_a_status_lists() {
    for mut said in long_answers() {
        let people: Vec<_> = (0..5000).map(|it| format!("person-{it}")).collect();
        for it in said.checks.iter_mut().flat_map(|it| &mut it.objects) {
            it.approved_by.clone_from(&people);
            it.approvals = vec![Approval::default(); 17];
        }
        let (verdict, all) = (said.verdict, said.clone());
        let kept = listable(said, ListRoom::shared_by(64));
        let objects = |it: &PolicyAnswer| it.checks.iter().flat_map(|it| &it.objects).count();
        let left_out = kept.checks.iter().map(|it| it.left_out);
        let left_out: usize = left_out.map(|it| it.passed + it.others).sum();
        assert_eq!(objects(&kept) + left_out, objects(&all));
        let most = if verdict == Passed { MOST_OBJECTS } else { 64 };
        assert!(objects(&kept) <= most, "{verdict}: {}", objects(&kept));
        let mut people = kept.checks.iter().flat_map(|it| &it.objects);
        assert!(people.all(|it| it.approved_by.len() <= 100 && it.approvals.len() <= 16));
    }
}

#[test]
fn a_grant_never_rests_on_an_object_that_is_not_kept() {
    let mut said = answer(Passed);
    let left_out = LeftOut {
        passed: 1,
        others: 0,
    };
    said.checks[0].left_out = left_out;
    let granted = |said: &PolicyAnswer| {
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said.clone()));
        !scene.plan().actions.is_empty()
    };
    assert!(!granted(&said));
    // Where any suffices, the others are only counted.
    said.checks[0].match_ = Match::Any;
    assert!(granted(&said));
}
