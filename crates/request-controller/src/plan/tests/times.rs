//! Ends that come by time alone, and that no time begins anew when something is written again.

use std::collections::BTreeMap;

use connectors_api::{
    access_request::Phase,
    reason::AccessCheckReady::{
        AccessCheckPassed as Passed, AccessCheckPending as Pending, AccessCheckRejected as Rejected,
    },
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::scene::{Scene, answer};
use crate::plan::Action;
use crate::seen::{PodSeen, PolicyJudgement, StandingSeen};

fn lasting(scene: Scene, name: &str, limit: &str) -> Scene {
    let limits = match limit {
        "" => json!({}),
        limit => json!({"maxDuration": limit}),
    };
    scene.limited(name, &limits, PolicyJudgement::Answered(answer(Passed)))
}

fn waiting(scene: Scene, name: &str, limit: &str) -> Scene {
    let limits: Value = match limit {
        "" => json!({}),
        limit => json!({"pendingTimeout": limit}),
    };
    scene.limited(name, &limits, PolicyJudgement::Answered(answer(Pending)))
}

/// In how many seconds it is looked at again.
fn due(scene: &Scene) -> Option<u64> {
    scene.plan().requeue.map(|it| it.as_secs())
}

#[test]
fn of_several_ends_the_first_is_looked_at_whichever_policy_it_is_of() {
    for (p, q, expected) in [
        ("90s", "30s", Some(30)),
        ("30s", "90s", Some(30)),
        ("30s", "30s", Some(30)),
        ("", "30s", Some(30)),
        ("30s", "", Some(30)),
        ("", "", None),
    ] {
        let granted = lasting(lasting(Scene::new(), "p", p), "q", q).carried_out();
        assert_eq!(granted.status().phase, Some(Phase::Granted));
        assert_eq!(due(&granted), expected, "granted under {p:?} and {q:?}");
        // The request was made ten seconds ago.
        let awaited = waiting(waiting(Scene::new(), "p", p), "q", q).carried_out();
        let expected = expected.map(|it| it - 10);
        assert_eq!(due(&awaited), expected, "awaited for {p:?} and {q:?}");
    }
    // What is granted does not outlast its end for what is awaited beside it, nor the other way round.
    for (granted, awaited, expected) in [("30s", "2m", 30), ("2m", "40s", 30)] {
        let scene = waiting(lasting(Scene::new(), "p", granted), "q", awaited).carried_out();
        assert_eq!(due(&scene), Some(expected), "{granted} {awaited}");
    }
}

#[test]
fn with_the_first_end_its_policy_alone_ends_and_the_next_is_looked_at() {
    let both = lasting(lasting(Scene::new(), "p", "30s"), "q", "90s").carried_out();
    let one = both.after(SignedDuration::from_secs(30));
    assert_eq!(one.plan().actions.len(), 2, "its Role and its RoleBinding");
    let one = one.carried_out();
    assert_eq!(
        (one.status().phase, one.seen.grants.len(), due(&one)),
        (Some(Phase::Granted), 2, Some(60))
    );
    let none = one.after(SignedDuration::from_secs(60)).carried_out();
    assert_eq!(
        (none.status().phase, none.seen.grants.len()),
        (Some(Phase::Revoked), 0)
    );
}

/// The request has another version, and says the same.
fn written_again(scene: Scene) -> Scene {
    scene.with(|seen| {
        let metadata = &mut seen.request.metadata;
        metadata.resource_version = Some("99".to_owned());
        metadata.annotations = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        for policy in &mut seen.policies {
            let PolicyJudgement::Answered(answer) = &mut policy.judged else {
                continue;
            };
            for object in answer.checks.iter_mut().flat_map(|it| &mut it.objects) {
                object.object.resource_version = Some("99".to_owned());
            }
        }
    })
}

#[test]
fn what_is_written_again_and_says_the_same_begins_no_time_anew() {
    let rejected = Scene::new().policy("p", Rejected).carried_out();
    let gone = rejected.with(|seen| seen.pod = PodSeen::Gone).carried_out();
    let covered = Scene::new().standing(StandingSeen::There).carried_out();
    for (what, scene) in [
        ("granted", lasting(Scene::new(), "p", "90s").carried_out()),
        ("awaited", waiting(Scene::new(), "p", "90s").carried_out()),
        ("kept as a record", gone),
        ("makes way", covered),
    ] {
        let mut scene = scene;
        let first = due(&scene).unwrap();
        for passed in [10, 20, 30] {
            scene = written_again(scene.after(SignedDuration::from_secs(10)));
            assert_eq!(due(&scene), Some(first - passed), "{what}");
            assert!(scene.plan().is_idle(), "{what}");
            scene = scene.carried_out();
        }
        // And it comes.
        let rest = i64::try_from(first - 30).unwrap();
        let end = scene.after(SignedDuration::from_secs(rest));
        assert!(!end.plan().is_idle(), "{what}");
    }
}

/// What was taken away and is written again has the end that it had.
#[test]
fn what_is_granted_again_ends_when_it_would_have_ended() {
    let granted = lasting(Scene::new(), "p", "90s").carried_out();
    let end = granted.status().expires_at;
    let taken_away = granted.after(SignedDuration::from_secs(40)).with(|seen| {
        seen.grants.clear();
        seen.frozen[0].again = Some(PolicyJudgement::Answered(answer(Passed)));
    });
    let again = taken_away.carried_out();
    assert_eq!(
        (again.seen.grants.len(), again.status().expires_at),
        (2, end)
    );
    assert_eq!(due(&again), Some(50));
}

/// The retention is over, and a Role that cannot be deleted keeps the request: the look is repeated because the removal
/// failed, and not because of a time that is past.
#[test]
fn a_request_whose_grant_is_not_confirmed_gone_is_neither_deleted_nor_looked_at_because_of_the_time()
 {
    let gone = Scene::granted()
        .with(|seen| seen.pod = PodSeen::Gone)
        .carried_out();
    let at = gone.status().ended_at;
    let old = |revoked_at| {
        let gone = gone
            .clone()
            .carried_out()
            .after(SignedDuration::from_hours(1000));
        let plan = gone
            .with(|seen| {
                let status = seen.request.status.as_mut().unwrap();
                assert_eq!(status.phase, Some(Phase::Revoked));
                status.revoked_at = revoked_at;
            })
            .plan();
        (
            plan.actions.contains(&Action::DeleteRequest),
            plan.requeue.is_some(),
        )
    };
    assert_eq!(old(None), (false, false));
    assert!(old(at).0);
}
