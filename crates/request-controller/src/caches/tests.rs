use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;

fn name() -> Name {
    Name::new("tools", "r")
}

fn request(name: &str, uid: &str, status: &Value) -> Arc<AccessRequest> {
    let request = json!({
        "metadata": {"name": name, "namespace": "tools", "uid": uid, "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "u"}},
        },
        "status": status,
    });
    Arc::new(serde_json::from_value(request).unwrap())
}

fn granted() -> Value {
    json!({"phase": "Granted", "policies": [{"policy": {}, "grant": {"state": "Granted"}}]})
}

fn with(status: &Value) -> State {
    let mut state = State::default();
    let _ = state.request(&name(), Ok(request("r", "r-uid", status)));
    state
}

fn pod(uid: &str, version: &str, finished: bool) -> PodCached {
    PodCached {
        uid: uid.to_owned(),
        version: version.to_owned(),
        facts: Some(PodFacts {
            finished,
            terminating: false,
            account: "builder".to_owned(),
        }),
    }
}

fn job(lane: Lane) -> Wakes {
    vec![(Job::Request(name()), lane)]
}

#[test]
fn what_may_have_to_be_taken_back_is_urgent() {
    let revoking = json!({"phase": "Revoked"});
    let revoked = json!({"phase": "Revoked", "revokedAt": "2026-03-01T10:00:00Z"});
    for (status, lane) in [
        (Value::Null, Lane::Normal),
        (json!({"phase": "Pending"}), Lane::Normal),
        (granted(), Lane::Urgent),
        (revoking, Lane::Urgent),
        (revoked, Lane::Normal),
    ] {
        let mut state = with(&status);
        let pod_name = Name::new("apps", "p");
        assert_eq!(state.pod(&pod_name, Some(pod("u", "1", false))), job(lane));
        assert_eq!(state.pod(&pod_name, Some(pod("u", "1", false))), []);
        assert_eq!(state.pod(&pod_name, None), job(lane));
        let connector = Name::new("tools", "harbor");
        let seen = ConnectorCached {
            seen: ConnectorSeen {
                uid: "c".to_owned(),
            },
            labels: Labels::new(),
        };
        assert_eq!(state.connector(&connector, Some(seen)), job(lane));
        assert_eq!(state.connector(&connector, None), job(lane));
        assert_eq!(state.connector(&Name::new("tools", "other"), None), []);
    }
}

#[test]
fn a_granted_request_does_not_care_for_other_changes_of_its_pod() {
    let mut state = with(&granted());
    let pod_name = Name::new("apps", "p");
    let _ = state.pod(&pod_name, Some(pod("u", "1", false)));
    assert_eq!(state.pod(&pod_name, Some(pod("u", "2", false))), []);
    assert_eq!(
        state.pod(&pod_name, Some(pod("u", "3", true))),
        job(Lane::Urgent)
    );
    assert_eq!(
        state.pod(&pod_name, Some(pod("v", "4", true))),
        job(Lane::Urgent)
    );
    let mut waiting = with(&Value::Null);
    let _ = waiting.pod(&pod_name, Some(pod("u", "1", false)));
    assert_eq!(
        waiting.pod(&pod_name, Some(pod("u", "2", false))),
        job(Lane::Normal)
    );
}

#[test]
fn the_end_of_a_policy_reaches_what_it_granted_and_an_edit_does_not() {
    let policy = |uid: &str, deleting| {
        Some(PolicyCached {
            uid: uid.to_owned(),
            deleting,
            policy: Err(Unreadable {
                metadata: ObjectMeta::default(),
                problem: String::new(),
            }),
        })
    };
    let name = Name::new("tools", "p");
    for (change, reaches) in [
        (policy("a", false), false),
        (policy("a", true), true),
        (policy("b", false), true),
        (None, true),
    ] {
        let mut state = with(&granted());
        let _ = state.policy(&name, policy("a", false));
        let expected = if reaches { job(Lane::Urgent) } else { vec![] };
        assert_eq!(state.policy(&name, change.clone()), expected, "{change:?}");
    }
    let mut waiting = with(&Value::Null);
    assert_eq!(waiting.policy(&name, policy("a", false)), job(Lane::Normal));
    assert_eq!(waiting.policy(&name, policy("a", false)), job(Lane::Normal));
    assert_eq!(waiting.policy(&Name::new("elsewhere", "p"), None), []);
}

#[test]
fn what_a_deleted_request_held_is_looked_at() {
    let mut state = with(&granted());
    let mut role = Managed {
        object: crate::seen::ManagedObject::Role(Err(crate::seen::Unread)),
        metadata: ObjectMeta::default(),
    };
    let label = connectors_api::labels::ACCESS_REQUEST_UID.to_owned();
    role.metadata.labels = Some(BTreeMap::from([(label, "r-uid".to_owned())]));
    let grant = Name::new("tools", "car-1");
    let urgent = (Job::Grant(grant.clone()), Lane::Urgent);
    assert_eq!(
        state.grant(GrantKind::Role, &grant, Some(&role)),
        std::slice::from_ref(&urgent)
    );
    let (gone, wakes) = state.request_gone(&name());
    assert!(gone.is_some());
    assert_eq!(wakes, [urgent]);
    assert!(state.requests.all().is_empty());
    assert!(
        state
            .requests
            .of_pod(&Name::new("apps", "p"))
            .next()
            .is_none()
    );
}

#[test]
fn requests_over_the_limit_are_the_youngest_that_wait() {
    let mut state = State::default();
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let _ = state.request(
            &Name::new("tools", name),
            Ok(request(name, uid, &Value::Null)),
        );
    }
    let behind = |state: &State| {
        ["a", "b", "c"].map(|name| state.requests.is_behind(&Name::new("tools", name), 2))
    };
    assert_eq!(behind(&state), [false, false, true]);
    let _ = state.request(&Name::new("tools", "a"), Ok(request("a", "1", &granted())));
    assert_eq!(behind(&state), [false, false, false]);
}

#[test]
fn requests_for_connectors_elsewhere_take_no_place_of_anybody() {
    let mut state = State::default();
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let mut other = request(name, uid, &Value::Null).as_ref().clone();
        other.metadata.namespace = Some("elsewhere".to_owned());
        let _ = state.request(
            &Name::new("elsewhere", name),
            Ok(std::sync::Arc::new(other)),
        );
    }
    let own = Name::new("tools", "d");
    let _ = state.request(&own, Ok(request("d", "4", &Value::Null)));
    assert!(!state.requests.is_behind(&own, 1));
    assert!(state.requests.is_behind(&Name::new("elsewhere", "b"), 1));
    assert_eq!(state.requests.counts().pending, 4);
    state.request_gone(&Name::new("elsewhere", "a"));
    assert!(!state.requests.is_behind(&Name::new("elsewhere", "b"), 1));
}

#[test]
fn a_request_finds_those_of_its_tuple() {
    let mut state = with(&Value::Null);
    let wakes = state.request(
        &Name::new("tools", "s"),
        Ok(request("s", "s-uid", &Value::Null)),
    );
    let second = (Job::Request(Name::new("tools", "s")), Lane::Normal);
    assert_eq!(wakes, [second, (Job::Request(name()), Lane::Normal)]);
}
