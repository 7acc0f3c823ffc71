//! A request that waits while its pod gets a standing permission.

use connectors_api::{
    AccessRequestCondition as Is,
    access_request::{GrantState, Phase},
    reason::AccessCheckReady::{
        AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
        AccessCheckRejected as Rejected,
    },
};
use jiff::SignedDuration;
use serde_json::json;

use super::scene::{Scene, line};
use crate::{
    grant,
    plan::{
        Action, conditions,
        tell::{EventObject, ToldKind},
    },
    seen::{Freshness, GrantKind, OLDEST, PodSeen, PolicyJudgement, StandingSeen},
};

const ENDED: &str = "Ended pod:T:UnCompleted connector:T:Resolved ready:F:StandingPermission";

fn covered(scene: Scene) -> Scene {
    scene.standing(StandingSeen::There)
}

/// A request that waited for a policy and ended by a standing permission.
fn ended() -> Scene {
    covered(Scene::new()).carried_out()
}

#[test]
fn a_request_that_waits_ends_when_a_standing_permission_is_confirmed() {
    let limited = |judged| Scene::new().limited("p", &json!({}), judged);
    let off = |scene: Scene| scene.with(|seen| seen.config.enabled = false);
    for (what, scene) in [
        ("no policy", Scene::new()),
        ("pending", Scene::new().policy("p", Pending)),
        ("failed", Scene::new().policy("p", Failed)),
        (
            "no answer about checks",
            limited(PolicyJudgement::Unanswered),
        ),
        ("switched off", off(Scene::new().policy("p", Passed))),
    ] {
        let waits = scene.carried_out();
        assert_eq!(waits.status().phase, Some(Phase::Pending), "{what}");
        let scene = covered(waits);
        assert!(scene.clone().cached().plan().look_live, "{what}");
        let plan = scene.plan();
        let removes =
            |it: &Action| matches!(it, Action::Remove { kind, .. } if *kind == GrantKind::Role);
        assert!(
            plan.ends && plan.actions.iter().all(removes),
            "{what}: {plan:?}"
        );
        let status = plan.status.clone().unwrap();
        assert_eq!(status.phase, Some(Phase::Ended), "{what}");
        assert_eq!(status.ended_at, Some(scene.now.wall), "{what}");
        let next = scene.carry_out(plan).plan();
        assert!(next.is_idle() && next.events.is_empty(), "{what}: {next:?}");
    }
    assert_eq!(line(&covered(Scene::new()).planned()), ENDED);
}

#[test]
fn what_the_checks_say_is_not_judged_any_more() {
    let scene = covered(Scene::new().policy("p", Pending).carried_out());
    let status = scene.planned();
    let checks = conditions::find(&status.conditions, Is::AccessCheckReady).unwrap();
    assert_eq!(checks.reason, connectors_api::reason::NOT_JUDGED);
    assert!(line(&status).contains("policy:T:AccessPolicyMatched"));
}

#[test]
fn without_a_confirmed_standing_permission_nothing_ends() {
    for standing in [StandingSeen::Unknown, StandingSeen::Absent] {
        for scene in [Scene::new(), Scene::new().policy("p", Pending)] {
            let expected = scene.plan();
            assert_eq!(scene.clone().standing(standing).plan(), expected);
            let cached = scene.cached();
            assert_eq!(cached.clone().standing(standing).plan(), cached.plan());
        }
    }
}

#[test]
fn an_answer_that_is_old_by_now_ends_nothing() {
    let mut scene = covered(Scene::new());
    scene.seen.freshness = Freshness::Live(scene.now.mono);
    scene.now.mono += OLDEST;
    let plan = scene.plan();
    assert!(!plan.ends && !plan.look_live, "{plan:?}");
    assert_eq!(scene.planned().phase, Some(Phase::Pending));
}

#[test]
fn a_request_that_a_policy_grants_or_granted_does_not_end() {
    let passed = Scene::new().policy("p", Passed);
    // The grant is decided in this very look, or in one before that did not get to the end of it.
    let mut begun = passed.clone();
    begun.seen.request.status = passed.plan().status;
    for scene in [passed, begun] {
        let plan = covered(scene.clone()).plan();
        assert_eq!(plan, scene.plan());
        assert!(matches!(plan.actions.as_slice(), [Action::Grant(_)]));
    }
    let granted = Scene::granted();
    assert!(covered(granted.clone()).plan().is_idle());
    assert!(covered(granted.clone()).cached().plan().is_idle());
    // A permission that was taken away is written again, or not, by the same rule as before.
    let lost = granted.with(|seen| seen.grants.clear());
    assert_eq!(covered(lost.clone()).plan(), lost.plan());
}

/// What was begun is first taken back as it is without a standing permission.
#[test]
fn a_grant_that_was_begun_and_is_dropped_is_not_called_ended() {
    let passed = Scene::new().policy("p", Passed);
    let mut begun = passed.clone();
    begun.seen.request.status = passed.plan().status;
    let dropped = begun.with(|seen| {
        seen.policies.clear();
        seen.standing = StandingSeen::There;
    });
    let status = dropped.planned();
    assert_eq!(status.phase, Some(Phase::Pending));
    assert!(status.policies.is_empty());
    assert_eq!(dropped.carried_out().planned().phase, Some(Phase::Ended));
}

/// The deletion of the request would forget the no.
#[test]
fn a_no_of_one_policy_outlasts_a_standing_permission() {
    let scene = Scene::new().policy("p", Rejected).policy("q", Pending);
    let waits = scene.carried_out();
    assert_eq!(waits.status().phase, Some(Phase::Pending));
    for scene in [covered(scene), covered(waits)] {
        let status = scene.planned();
        assert_eq!(status.phase, Some(Phase::Pending));
        let grants = status.policies.iter().filter_map(|it| it.grant.as_ref());
        let came_to: Vec<_> = grants.map(|it| it.state).collect();
        assert_eq!(came_to, [GrantState::Ended]);
    }
    let no = covered(Scene::new().policy("p", Rejected)).planned();
    assert_eq!(no.phase, Some(Phase::Rejected));
}

#[test]
fn what_ends_the_request_anyway_is_said_first() {
    type End = fn(Scene) -> Scene;
    let gone = |scene: Scene| scene.with(|seen| seen.pod = PodSeen::Gone);
    let finished = |scene: Scene| scene.pod(|pod| pod.finished = true);
    let other = |scene: Scene| scene.pod(|pod| pod.account = "other".to_owned());
    let missing = |scene: Scene| scene.with(|seen| seen.connector = None);
    let limited = |scene: Scene| scene.with(|seen| seen.over_limit = true);
    let going = |scene: Scene| scene.pod(|pod| pod.terminating = true);
    let ends: [(&str, End); 6] = [
        ("PodGone", gone),
        ("PodFinished", finished),
        ("WrongSubject", other),
        ("ConnectorNotFound", missing),
        ("TooManyRequests", limited),
        ("PodTerminating", going),
    ];
    for (reason, end) in ends {
        let status = covered(end(Scene::new())).planned();
        let line = line(&status);
        assert!(line.ends_with(&format!("ready:F:{reason}")), "{line}");
    }
}

#[test]
fn it_is_deleted_one_minute_after_its_end() {
    let ended = ended();
    let minute = Some(std::time::Duration::from_mins(1));
    assert_eq!(ended.plan().requeue, minute);
    let before = ended.clone().after(SignedDuration::from_secs(59));
    assert!(before.plan().is_idle());
    let after = ended.clone().after(SignedDuration::from_secs(60));
    assert_eq!(after.plan().actions, [Action::DeleteRequest]);
    assert!(after.plan().ends && after.plan().status.is_none());
    assert!(after.cached().plan().look_live);
    // Whatever became of the permission and of the pod.
    for scene in [
        ended.clone().standing(StandingSeen::Absent),
        ended.with(|seen| seen.pod = PodSeen::Gone),
    ] {
        assert!(scene.plan().is_idle());
        let after = scene.after(SignedDuration::from_secs(60));
        assert_eq!(after.plan().actions, [Action::DeleteRequest]);
    }
}

#[test]
fn a_clock_that_was_set_back_does_not_keep_it() {
    let mut scene = ended();
    scene.now.wall -= SignedDuration::from_hours(1);
    assert_eq!(scene.plan().actions, [Action::DeleteRequest]);
}

#[test]
fn no_other_request_that_ended_is_deleted_before_its_pod_is_gone() {
    let hour = SignedDuration::from_hours(1);
    let without_time = ended().with(|seen| {
        if let Some(status) = &mut seen.request.status {
            status.ended_at = None;
        }
    });
    for (what, scene) in [
        ("rejected", Scene::new().policy("p", Rejected).carried_out()),
        (
            "revoked",
            Scene::granted()
                .pod(|pod| pod.finished = true)
                .carried_out(),
        ),
        (
            "its pod ended",
            Scene::new().pod(|pod| pod.finished = true).carried_out(),
        ),
        ("no time of its end", without_time),
    ] {
        assert!(grant::is_terminal(scene.status().phase.unwrap()), "{what}");
        let plan = scene.after(hour).plan();
        assert!(plan.is_idle(), "{what}: {plan:?}");
    }
}

#[test]
fn every_end_has_its_time() {
    let at = |scene: &Scene| scene.planned().ended_at;
    let now = Scene::new().now.wall;
    for scene in [
        Scene::new().policy("p", Rejected),
        Scene::new().pod(|pod| pod.account = "other".to_owned()),
        Scene::new().with(|seen| seen.pod = PodSeen::Gone),
        Scene::granted().with(|seen| seen.frozen[0].exists = false),
        covered(Scene::new()),
    ] {
        assert_eq!(at(&scene), Some(now));
        // It stays what it was.
        let later = scene.carried_out().after(SignedDuration::from_hours(1));
        assert_eq!(at(&later), Some(now));
    }
    for scene in [Scene::new(), Scene::granted()] {
        assert_eq!(at(&scene), None);
    }
    let unreadable = crate::plan::unreadable("it has no spec", now);
    assert_eq!(unreadable.ended_at, Some(now));
}

#[test]
fn its_end_is_told_once_without_a_warning_and_says_nothing_of_policies_elsewhere() {
    let scene = covered(Scene::new().policy("p", Pending).carried_out());
    let events = scene.plan().events;
    let told: Vec<_> = events
        .iter()
        .map(|it| (it.about.clone(), it.kind, it.kind.is_warning()))
        .collect();
    let expected =
        [EventObject::Request, EventObject::Pod].map(|it| (it, ToldKind::AccessEnded, false));
    assert_eq!(told, expected);
    assert_eq!(
        events[0].note,
        "the pod needs no request: its service account may use the connector at any time"
    );
    assert!(events[1].note.contains(&events[0].note), "{events:?}");
    // At a pod elsewhere, the same words as at its end.
    let elsewhere = scene.elsewhere().plan().events;
    let gone = Scene::new().with(|seen| seen.pod = PodSeen::Gone);
    assert_eq!(elsewhere[1..], gone.elsewhere().plan().events[1..]);
    assert_eq!(elsewhere[1].why, None);
    assert_eq!(
        elsewhere[1].note,
        "connector tools/harbor: the request for access ended; whoever looks after namespace tools can tell more"
    );
}
