//! What a status keeps of that on which it was decided, and how much.

use std::sync::Arc;

use connectors_api::{
    AccessPolicy,
    access_policy::{CheckState, Match},
    access_request::{AccessRequestStatus, Approval, Phase},
    check_selector::CompiledPolicy,
    policy_order::MOST_PER_CONNECTOR,
    reason::AccessCheckReady::{
        AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
        AccessCheckRejected as Rejected,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, answer, line};
use crate::evidence::{ListRoom, MOST_OBJECTS, awaited, listable};
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

#[test]
fn a_refusal_is_recorded_whatever_the_size_of_the_policies_that_refused() {
    let names = ["p", "q", "r", "s"];
    let padded = |policy: &AccessPolicy| {
        let mut policy = policy.clone();
        let granted = policy.spec.check_granted_permission.as_mut().unwrap();
        let rego = "x".repeat(100 * 1024);
        granted.spec.checks[0].state = Some(CheckState { rego });
        Arc::new(CompiledPolicy::of(policy, None))
    };
    let all = names
        .iter()
        .fold(Scene::new(), |scene, name| scene.policy(name, Rejected))
        .with(|seen| {
            for seen in &mut seen.policies {
                seen.policy = padded(&seen.policy.policy);
            }
        });
    let status = all.planned();
    assert_eq!(status.phase, Some(Phase::Rejected));
    let kept: Vec<_> = status
        .policies
        .iter()
        .map(|it| it.policy.0.contains_key("spec"))
        .collect();
    assert_eq!(kept, [true, true, false, false]);
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
