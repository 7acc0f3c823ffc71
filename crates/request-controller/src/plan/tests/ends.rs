//! What an end says, and what counts on the way there.

use connectors_api::{
    AccessRequestCondition as Is, ConditionStatus,
    access_request::{AccessRequestStatus, GrantState, Phase},
    reason::{
        AccessCheckReady::{
            AccessCheckPassed as Passed, AccessCheckPending as Pending,
            AccessCheckRejected as Rejected,
        },
        NOT_JUDGED, Ready,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, answer, line, objects};
use crate::plan::{Action, conditions};
use crate::seen::{EvidenceState, GrantKind, PodSeen, PolicyJudgement};
use crate::selection::CheckTrouble;

#[test]
fn what_changes_nothing_is_idle_and_nothing_else_is() {
    assert!(Scene::granted().plan().is_idle());
    let mut crashed = Scene::new().policy("p", Passed);
    crashed.seen.request.status = crashed.plan().status;
    let (first, again) = (Scene::new().plan(), crashed.plan());
    assert!(first.status.is_some() && first.actions.is_empty() && !first.is_idle());
    assert!(again.status.is_none() && !again.actions.is_empty() && !again.is_idle());
    let live = Scene::new().policy("p", Passed).cached().plan();
    assert!(live.look_live && !live.is_idle());
}

#[test]
fn a_no_weighs_more_than_a_wait_that_was_too_long() {
    let timed = Scene::new()
        .policy("p", Rejected)
        .limited(
            "q",
            &json!({"pendingTimeout": "1h"}),
            PolicyJudgement::Answered(answer(Pending)),
        )
        .carried_out()
        .after(SignedDuration::from_hours(1));
    let status = timed.planned();
    let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
    assert_eq!(status.phase, Some(Phase::Rejected));
    assert_eq!(ready.reason, Ready::CheckRejected.to_string());
    assert!(ready.message.starts_with("policy p: "), "{}", ready.message);
}

#[test]
fn the_end_of_a_request_ends_what_is_open_and_changes_no_earlier_end() {
    let both = Scene::new()
        .policy("p", Passed)
        .policy("q", Passed)
        .carried_out();
    let one = both
        .with(|seen| seen.frozen[0].exists = false)
        .carried_out();
    assert_eq!(one.status().phase, Some(Phase::Granted));
    let none = one.clone().after(SignedDuration::from_secs(10));
    let none = none.pod(|pod| pod.finished = true);
    let grants = none.planned().policies.into_iter().map(|it| it.grant);
    let ends: Vec<_> = grants
        .map(|it| it.unwrap())
        .map(|it| (it.state, it.reason, it.ended_at))
        .collect();
    let end = |reason, at| (GrantState::Ended, Some(reason), Some(at));
    assert_eq!(
        ends,
        [
            end(Ready::PolicyDeleted, one.now.wall),
            end(Ready::PodFinished, none.now.wall)
        ]
    );
}

#[test]
fn of_several_that_lapse_one_that_does_not_pass_is_told() {
    let both = Scene::new()
        .policy("p", Passed)
        .policy("q", Passed)
        .carried_out();
    let lapsed = |verdict| EvidenceState::Lapsed {
        check: None,
        verdict,
        message: String::new(),
    };
    let ended = both.with(|seen| {
        seen.frozen[0].held = lapsed(Passed);
        seen.frozen[1].held = lapsed(Pending);
    });
    let told = line(&ended.planned());
    assert!(told.contains("checks:F:AccessCheckPending"), "{told}");
}

#[test]
fn that_the_pod_of_a_decided_request_is_gone_is_noted_with_its_time_beside_what_was_known() {
    let decided = Scene::new().policy("p", Rejected).carried_out();
    let hour = SignedDuration::from_hours(1);
    let noted = decided
        .clone()
        .after(hour)
        .with(|seen| seen.pod = PodSeen::Gone);
    let (before, after) = (decided.status(), noted.planned());
    assert_eq!(after.conditions.len(), before.conditions.len());
    for (then, now) in before.conditions.iter().zip(&after.conditions) {
        let moved = now.last_transition_time != then.last_transition_time;
        assert_eq!(moved, now.type_ == Is::ContextObjectValid, "{now:?}");
    }
}

#[test]
fn only_what_is_recorded_in_full_was_in_force() {
    let status = Scene::granted().status();
    assert!(status.was_in_force(&status.policies[0]));
    let without: [fn(&mut AccessRequestStatus); 5] = [
        |it| it.granted_at = None,
        |it| it.evidence = None,
        |it| it.connector_uid = None,
        |it| it.policies[0].check_refs.clear(),
        |it| it.policies[0].grant.as_mut().unwrap().granted_at = None,
    ];
    for (index, change) in without.into_iter().enumerate() {
        let mut less = status.clone();
        change(&mut less);
        assert!(!less.was_in_force(&less.policies[0]), "{index}");
    }
}

#[test]
fn what_is_not_ours_or_going_already_is_not_removed() {
    let scene = Scene::new().policy("p", Passed);
    let plan = scene.plan();
    let Some(Action::Grant(written)) = plan.actions.first() else {
        panic!("{:?}", plan.actions);
    };
    let removed = |change: fn(&mut crate::seen::Managed)| {
        let mut stray = objects(written);
        stray.iter_mut().for_each(change);
        let plan = Scene::new().with(|seen| seen.grants = stray.into()).plan();
        let removed = plan.actions.iter();
        removed
            .filter(|it| matches!(it, Action::Remove { .. }))
            .count()
    };
    assert_eq!(removed(|_| {}), GrantKind::ALL.len());
    assert_eq!(removed(|it| it.metadata.labels = None), 0);
    assert_eq!(
        removed(|it| {
            let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
            it.metadata.deletion_timestamp = Some(now);
        }),
        0
    );
}

#[test]
fn what_is_granted_again_is_what_may_be_granted_now() {
    let again = Scene::granted().with(|seen| {
        seen.grants.clear();
        let mut now = answer(Passed);
        now.rules[0].verbs = vec!["get".to_owned()];
        seen.frozen[0].again = Some(PolicyJudgement::Answered(now));
    });
    let grant = again.planned().policies[0].grant.clone().unwrap();
    assert_eq!(grant.rules[0].verbs, ["get"]);
}

#[test]
fn the_words_for_what_cannot_be_judged_are_those_of_the_documentation() {
    for (trouble, word) in [
        (CheckTrouble::KindMissing, "KindMissing"),
        (CheckTrouble::KindForbidden, "KindForbidden"),
        (CheckTrouble::KindRefused, "KindRefused"),
        (CheckTrouble::KindNotNamespaced, "KindNotNamespaced"),
        (CheckTrouble::SelectorInvalid, "SelectorInvalid"),
        (CheckTrouble::ObjectUnreadable, "ObjectUnreadable"),
    ] {
        assert_eq!(trouble.as_str(), word);
    }
}

#[test]
fn every_condition_is_there_and_what_was_not_judged_is_unknown() {
    let unknown = |status: &AccessRequestStatus| -> Vec<Is> {
        let types: Vec<_> = status.conditions.iter().map(|it| it.type_).collect();
        assert_eq!(types, Is::ALL);
        let unknown = status
            .conditions
            .iter()
            .filter(|it| it.reason == NOT_JUDGED);
        unknown
            .inspect(|it| assert_eq!(it.status, ConditionStatus::Unknown))
            .map(|it| it.type_)
            .collect()
    };
    let new = Scene::new;
    let missing = new().with(|seen| seen.connector = None);
    let limited = new().with(|seen| seen.over_limit = true);
    let wrong = new().pod(|pod| pod.account = "other".to_owned());
    let after_the_connector = vec![
        Is::AccessPolicyMatched,
        Is::AccessCheckReady,
        Is::AccessPermissionSync,
    ];
    for (scene, expected) in [
        (new(), vec![Is::AccessCheckReady, Is::AccessPermissionSync]),
        (missing, after_the_connector),
        (limited, Is::ALL[1..5].to_vec()),
        (new().policy("p", Pending), vec![Is::AccessPermissionSync]),
        (new().policy("p", Rejected), vec![Is::AccessPermissionSync]),
        (wrong, Is::ALL[..5].to_vec()),
        (Scene::granted(), vec![]),
        (
            Scene::granted().pod(|pod| pod.finished = true),
            vec![Is::AccessCheckReady],
        ),
    ] {
        let status = scene.planned();
        assert_eq!(unknown(&status), expected, "{}", line(&status));
    }
    let unreadable = crate::plan::unreadable("it has no spec", Scene::new().now.wall);
    assert_eq!(unknown(&unreadable), Is::ALL[..5]);
}

#[test]
fn what_has_ended_expires_no_more_and_its_grant_says_when_it_would_have() {
    let limited = Scene::granted_under(&json!({"maxDuration": "4h"}));
    let end = limited.status().expires_at;
    assert!(end.is_some());
    for over in [
        limited.clone().pod(|pod| pod.finished = true),
        limited.clone().with(|seen| seen.frozen[0].exists = false),
        limited.after(SignedDuration::from_hours(4)),
    ] {
        let status = over.planned();
        assert_eq!(status.expires_at, None);
        assert!(status.granted_at.is_some());
        assert_eq!(status.policies[0].grant.as_ref().unwrap().expires_at, end);
    }
}

/// The gate takes no more answers for a rejected `ApprovalTask`, so a new pod of the same run would be refused again.
#[test]
fn a_rejection_by_the_approvers_of_a_run_asks_for_a_new_run() {
    for (kind, reason, expected) in [
        ("ApprovalTask", "Rejected", "start a new one"),
        ("ApprovalTask", "TimedOut", "start a new one"),
        ("ApprovalTask", "Pending", "start a new pod"),
        ("ConfigMap", "Rejected", "start a new pod"),
    ] {
        let mut said = answer(Rejected);
        let object = &mut said.checks[0].objects[0];
        object.object.api_version = "openshift-pipelines.org/v1alpha1".to_owned();
        object.object.kind = kind.to_owned();
        object.reason = reason.to_owned();
        let scene = Scene::new().limited("p", &json!({}), PolicyJudgement::Answered(said));
        let status = scene.planned();
        let ready = conditions::find(&status.conditions, Is::Ready).unwrap();
        assert!(
            ready.message.contains(expected),
            "{kind} {reason}: {}",
            ready.message
        );
    }
}
