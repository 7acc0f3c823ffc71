use connectors_api::AccessPolicy;
use futures::FutureExt;
use serde_json::json;
use service_kit::controller::queue::Urgency;

use super::*;
use crate::{
    cache::{PolicyCached, State, Wakes},
    testing::{OWN, job, job_of, owner, reading, spec},
};

const SAID: Fingerprint = [1; 32];
const ROLE: &str = "policy-uid-p";

fn name() -> Name {
    Name::new(OWN, ROLE)
}

/// A Role of the policy, as a watch shows it.
fn role(version: &str, said: Fingerprint) -> ManagedCached {
    ManagedCached {
        version: version.to_owned(),
        said: Some(said),
        terminating: false,
    }
}

fn shows(state: &mut State, role: Option<ManagedCached>) -> Wakes {
    let uid = job().uid;
    state.object(ManagedKind::Role, &name(), role.map(|it| (&*uid, it)))
}

fn versions(before: Option<&str>, made: &[&str]) -> OwnVersions {
    OwnVersions {
        before: before.map(str::to_owned),
        made: made.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn wrote(state: &mut State, versions: OwnVersions) {
    let object = OwnObject {
        key: (ManagedKind::Role, ROLE.to_owned()),
        versions,
        said: SAID,
    };
    state.wrote(&job(), object, Instant::now());
}

/// The content that counts.
fn counts(state: &State) -> Option<Fingerprint> {
    let there = state.managed(&job());
    let role = there.get(&(ManagedKind::Role, ROLE.to_owned()));
    role.and_then(|it| it.said)
}

fn urgent() -> Wakes {
    vec![(job(), Urgency::Urgent)]
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_own_write_wakes_nothing_and_any_other_event_does() {
    let other = [2; 32];
    for (before, made) in [
        (None, &["5"][..]),
        (Some("3"), &["5"]),
        (Some("3"), &["4", "5"]),
    ] {
        let written = || {
            let mut state = State::default();
            if let Some(before) = before {
                shows(&mut state, Some(role(before, other)));
            }
            wrote(&mut state, versions(before, made));
            assert_eq!(counts(&state), Some(SAID));
            state
        };
        let mut state = written();
        for version in made {
            let event = role(version, if *version == "5" { SAID } else { other });
            assert_eq!(shows(&mut state, Some(event)), [], "{version}");
            assert_eq!(counts(&state), Some(SAID));
        }
        assert_eq!(state.own.census(), 0);
        // The same again is news.
        assert_eq!(shows(&mut state, Some(role("5", SAID))), urgent());

        // Another client's version before ours, or after it, and a deletion.
        for (event, left) in [
            (Some(role("2", other)), Some(other)),
            (Some(role("6", other)), Some(other)),
            (Some(role("6", SAID)), Some(SAID)),
            (None, None),
        ] {
            let mut state = written();
            let wakes = shows(&mut state, event);
            assert_eq!(wakes.len(), 1);
            assert_eq!(wakes[0].0, job());
            assert_eq!(counts(&state), left);
            assert_eq!(state.own.census(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_counts_only_on_the_version_that_it_changed() {
    let other = [2; 32];
    for (cached, before, counted) in [
        (None, None, SAID),
        (Some("3"), Some("3"), SAID),
        // The intermediate version of the same look.
        (Some("4"), Some("3"), SAID),
        // Its event came first, or that of another client's change of it.
        (Some("5"), Some("3"), other),
        (Some("6"), Some("3"), other),
        (Some("6"), None, other),
        (Some("2"), Some("3"), other),
    ] {
        let mut state = State::default();
        if let Some(cached) = cached {
            shows(&mut state, Some(role(cached, other)));
        }
        wrote(&mut state, versions(before, &["4", "5"]));
        assert_eq!(counts(&state), Some(counted), "{cached:?} {before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_written_object_that_now_names_another_policy_counts_for_that_one_alone() {
    let other = job_of("other");
    for cached in [false, true] {
        let mut state = State::default();
        let before = cached.then_some("3");
        if let Some(before) = before {
            shows(&mut state, Some(role(before, SAID)));
        }
        wrote(&mut state, versions(before, &["5"]));
        let relabelled = Some(("other", role("6", SAID)));
        let wakes = state.object(ManagedKind::Role, &name(), relabelled);
        let woken: Vec<_> = wakes.into_iter().map(|(job, _)| job).collect();
        assert_eq!(woken, [other.clone(), job()], "{cached}");
        assert_eq!(counts(&state), None);
        assert!(!state.managed(&other).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_with_written_objects_is_urgent_before_the_watch_shows_them() {
    let mut state = State::default();
    assert_eq!(state.wake(job()).1, Urgency::Normal);
    wrote(&mut state, versions(None, &["5"]));
    assert_eq!(state.wake(job()).1, Urgency::Urgent);
}

/// A policy as a watch shows it, with this number of subjects told.
fn policy(version: &str, told: Option<i64>) -> PolicyCached {
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    let mut policy = AccessPolicy::new("p", spec(&reading(&json!({}), &subjects)));
    policy.metadata.resource_version = Some(version.to_owned());
    policy.status = told.map(status);
    PolicyCached::of(job().uid, false, Some(policy))
}

fn status(granted: i64) -> AccessPolicyStatus {
    AccessPolicyStatus {
        observed_generation: Some(granted),
        ..AccessPolicyStatus::default()
    }
}

fn told(state: &State) -> Option<i64> {
    state.status_of(&job())?.observed_generation
}

#[tokio::test(start_paused = true)]
async fn a_written_status_counts_until_the_watch_shows_the_policy() {
    let policy_is = |state: &mut State, policy| state.policy(&owner().name, policy);
    let written = || {
        let mut state = State::default();
        policy_is(&mut state, Some(policy("3", Some(1))));
        let own = versions(Some("3"), &["5"]);
        state.told(&job(), own, status(2), Instant::now());
        assert_eq!(told(&state), Some(2));
        state
    };
    let mut state = written();
    assert_eq!(policy_is(&mut state, Some(policy("5", Some(2)))), []);
    assert_eq!((told(&state), state.own.census()), (Some(2), 0));
    for (event, left) in [
        (Some(policy("4", Some(1))), Some(1)),
        (Some(policy("6", Some(3))), Some(3)),
        (None, None),
    ] {
        let mut state = written();
        assert_eq!(policy_is(&mut state, event).len(), 1);
        assert_eq!((told(&state), state.own.census()), (left, 0));
    }
    // Another policy of the name.
    let mut state = written();
    let mut second = policy("5", None);
    "second".clone_into(&mut second.uid);
    assert_eq!(policy_is(&mut state, Some(second)).len(), 2);
    assert_eq!((told(&state), state.own.census()), (None, 0));
    // What the cache knows already, or knows more of.
    for cached in ["4", "5", "6"] {
        let mut state = State::default();
        policy_is(&mut state, Some(policy(cached, Some(1))));
        let own = versions(Some("3"), &["5"]);
        state.told(&job(), own, status(2), Instant::now());
        assert_eq!(told(&state), Some(1), "{cached}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_event_does_not_come_is_forgotten_and_its_policy_looked_at() {
    let mut state = State::default();
    state.policy(&owner().name, Some(policy("3", None)));
    wrote(&mut state, versions(None, &["5"]));
    let own = versions(Some("3"), &["6"]);
    let put = state.unseen_writes();
    assert!(put.notified().now_or_never().is_some());
    state.told(&job(), own, status(2), Instant::now());
    assert!(put.notified().now_or_never().is_some());
    let early = Instant::now() + UNSEEN - Duration::from_millis(1);
    assert_eq!(state.forget_late(early), []);
    assert_eq!((counts(&state), told(&state)), (Some(SAID), Some(2)));
    let late = Instant::now() + UNSEEN;
    assert_eq!(state.first_late(), Some(late));
    assert_eq!(state.forget_late(late), [(job(), Urgency::Normal)]);
    assert_eq!(state.first_late(), None);
    assert_eq!((counts(&state), told(&state)), (None, None));
    assert_eq!(state.own.census(), 0);
}
