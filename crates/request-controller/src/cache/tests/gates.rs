//! Which changes have the scheduling gate of a pod looked at.

use jiff::Timestamp;

use super::*;

fn gated(uid: &str, version: &str) -> PodCached {
    PodCached {
        gated_since: Some(Timestamp::UNIX_EPOCH),
        ..pod(uid, version, false)
    }
}

fn pod_name() -> Name {
    Name::new("apps", "p")
}

fn gate() -> (Job, Urgency) {
    (Job::Gate(pod_name()), Urgency::Normal)
}

fn wakes_gate(wakes: &Wakes) -> bool {
    wakes.contains(&gate())
}

#[test]
fn a_pod_that_comes_with_the_gate_is_looked_at_once() {
    let mut state = State::default();
    assert_eq!(state.pod(&pod_name(), Some(gated("u", "1"))), [gate()]);
    assert_eq!(state.pod(&pod_name(), Some(gated("u", "2"))), []);
    assert_eq!(state.pod(&pod_name(), Some(pod("u", "3", false))), []);
    assert_eq!(state.gated.count(|_| true), 0);
    assert_eq!(state.pod(&pod_name(), Some(pod("u", "4", true))), []);
    let _ = state.pod(&pod_name(), Some(gated("u", "5")));
    assert_eq!(state.pod(&pod_name(), Some(gated("v", "6"))), [gate()]);
    assert_eq!(state.pod(&pod_name(), None), []);
    assert_eq!(state.gated.count(|_| true), 0);
}

#[test]
fn a_request_wakes_the_gate_of_its_pod_when_it_is_decided_or_gone() {
    let pending = json!({"phase": "Pending"});
    for status in [Value::Null, pending.clone()] {
        let mut state = State::default();
        let _ = state.pod(&pod_name(), Some(gated("u", "1")));
        let wakes = state.request(&name(), Ok(request("r", "r-uid", &status)));
        assert!(!wakes_gate(&wakes), "{status}");
        assert!(wakes_gate(&state.request_gone(&name()).1), "{status}");
    }
    for phase in ["Granted", "Rejected", "Revoked", "Invalid", "Ended"] {
        let decided = || request("r", "r-uid", &json!({ "phase": phase }));
        let mut state = State::default();
        let _ = state.pod(&pod_name(), Some(gated("u", "1")));
        assert!(
            wakes_gate(&state.request(&name(), Ok(decided()))),
            "{phase}"
        );
        // Another pod of the name waits for requests of its own.
        let _ = state.pod(&pod_name(), Some(gated("v", "2")));
        assert!(
            !wakes_gate(&state.request(&name(), Ok(decided()))),
            "{phase}"
        );
        let _ = state.pod(&pod_name(), Some(pod("u", "3", false)));
        assert!(
            !wakes_gate(&state.request(&name(), Ok(decided()))),
            "{phase}"
        );
        assert!(!wakes_gate(&state.request_gone(&name()).1), "{phase}");
    }
}

#[test]
fn a_decided_request_wakes_the_gate_only_when_something_is_new_for_the_gate() {
    let mut state = State::default();
    let _ = state.pod(&pod_name(), Some(gated("u", "1")));
    let mut wakes = |uid: &str, status: &Value| {
        wakes_gate(&state.request(&name(), Ok(request("r", uid, status))))
    };
    let with = |reason: &str, message: &str| {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-03-01T10:00:00Z",
        });
        json!({"phase": "Ended", "conditions": [ready]})
    };
    assert!(wakes("r-uid", &json!({"phase": "Granted"})));
    assert!(!wakes("r-uid", &json!({"phase": "Granted"})));
    assert!(wakes("r-uid", &with("StandingPermission", "")));
    assert!(!wakes("r-uid", &with("StandingPermission", "another text")));
    assert!(wakes("r-uid", &with("PodGone", "")));
    assert!(wakes("another", &with("PodGone", "")));
}

#[test]
fn a_line_counts_the_stored_requests_that_are_not_granted() {
    let mut state = State::default();
    let count = |state: &State| {
        let requests = &state.requests;
        let full = (1..4).filter(|most| requests.is_full("tools", "apps", *most));
        assert!(!requests.is_full("apps", "tools", 1));
        full.count()
    };
    for (at, uid) in ["a", "b", "c"].into_iter().enumerate() {
        let name = Name::new("tools", uid);
        let _ = state.request(&name, Ok(request(uid, uid, &Value::Null)));
        assert_eq!(count(&state), at + 1);
    }
    for (phase, expected) in [
        ("Pending", 3),
        ("Granted", 2),
        ("Revoked", 3),
        ("Granted", 2),
        ("Rejected", 3),
        ("Invalid", 3),
        ("Ended", 3),
    ] {
        let status = json!({ "phase": phase });
        let _ = state.request(&Name::new("tools", "a"), Ok(request("a", "a", &status)));
        assert_eq!(count(&state), expected, "{phase}");
    }
    for (uid, left) in [("a", 2), ("a", 2), ("b", 1), ("c", 0)] {
        let _ = state.request_gone(&Name::new("tools", uid));
        assert_eq!(count(&state), left);
    }
}

#[test]
fn the_configuration_wakes_every_gate_when_it_changes() {
    let mut state = State::default();
    let _ = state.pod(&pod_name(), Some(gated("u", "1")));
    let mut learn = |enabled: &str, gate: &str| {
        let data = [
            ("enable-connectors-approval", enabled),
            ("scheduling-gate", gate),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        state.learn(&data.into()).1
    };
    assert!(wakes_gate(&learn("true", "Set")));
    assert_eq!(learn("true", "Set"), []);
    assert!(wakes_gate(&learn("true", "Release")));
    assert!(wakes_gate(&learn("false", "Release")));
}
