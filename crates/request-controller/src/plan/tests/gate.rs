//! When the scheduling gate of a pod goes, and which requests are made for the pod meanwhile.

use std::{sync::Arc, time::Duration};

use connectors_api::{
    AccessRequest, ConnectorKey, Permission, PodIdentity,
    pod_wish::{self, VolumeTextError},
    request_creation::Created,
};
use serde_json::{Value, json};

use crate::{
    api::Name,
    plan::gate::{GateEnd, GatePlan, GateTold, QUESTIONS, after, plan},
    seen::{GateSeen, GatedVolumes, MountAccess, RequestMade, WantSeen},
};

fn pod() -> PodIdentity {
    PodIdentity {
        namespace: "apps".to_owned(),
        name: "job".to_owned(),
        uid: "u".to_owned(),
        service_account: "builder".to_owned(),
    }
}

/// A connector that a request could be accepted for, and of which no request is there.
fn want(connector: &str) -> WantSeen {
    let (namespace, name) = connector.split_once('/').unwrap();
    let connector = ConnectorKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    WantSeen {
        ours: pod_wish::request(&pod(), &connector, Permission::Apis),
        at_home: connector.is_home_of(&pod()),
        connector,
        requests: Vec::new(),
        line_is_full: false,
        access: MountAccess::Denied,
    }
}

/// Another request of the same tuple.
fn with(mut want: WantSeen, status: &Value) -> WantSeen {
    let mut request = want.ours.clone();
    request.metadata.uid = Some(format!("r{}", want.requests.len()));
    request.status = serde_json::from_value(status.clone()).unwrap();
    want.requests.push(Arc::new(request));
    want
}

fn answered(mut want: WantSeen, access: MountAccess) -> WantSeen {
    want.access = access;
    want
}

fn ended(reason: &str) -> Value {
    json!({"phase": "Ended", "conditions": [{
        "type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-03-01T10:00:00Z",
    }]})
}

fn seen(wants: Vec<WantSeen>) -> GateSeen {
    GateSeen {
        pod: Name::new("apps", "job"),
        uid: "u".to_owned(),
        gates_pods: Some(true),
        over_limit: false,
        volumes: GatedVolumes::Want(wants),
    }
}

fn removed(end: GateEnd) -> GatePlan {
    GatePlan {
        end: Some(end),
        ..GatePlan::default()
    }
}

fn later(seconds: u64) -> GatePlan {
    GatePlan {
        again: Some(Duration::from_secs(seconds)),
        ..GatePlan::default()
    }
}

fn kept() -> GatePlan {
    GatePlan::default()
}

fn makes(wants: &[WantSeen]) -> GatePlan {
    GatePlan {
        make: wants.iter().map(|it| it.ours.clone()).collect(),
        ..GatePlan::default()
    }
}

#[test]
fn the_request_of_a_connector_decides_about_the_gate() {
    let harbor = || want("tools/harbor");
    let pending = json!({"phase": "Pending"});
    let granted = json!({"phase": "Granted"});
    for (what, want, expected) in [
        ("new", with(harbor(), &Value::Null), kept()),
        ("pending", with(harbor(), &pending), kept()),
        (
            "granted",
            with(harbor(), &granted),
            removed(GateEnd::Allowed),
        ),
        (
            "rejected",
            with(harbor(), &json!({"phase": "Rejected"})),
            removed(GateEnd::Refused),
        ),
        (
            "revoked",
            with(harbor(), &json!({"phase": "Revoked"})),
            removed(GateEnd::Refused),
        ),
        (
            "invalid",
            with(harbor(), &json!({"phase": "Invalid"})),
            removed(GateEnd::Refused),
        ),
        (
            "ended with its pod",
            with(harbor(), &ended("PodGone")),
            removed(GateEnd::Refused),
        ),
        // It makes way for a later one.
        (
            "ended",
            with(harbor(), &ended("StandingPermission")),
            kept(),
        ),
        (
            "one of two is invalid",
            with(with(harbor(), &json!({"phase": "Invalid"})), &pending),
            kept(),
        ),
        (
            "one of two is granted",
            with(with(harbor(), &pending), &granted),
            removed(GateEnd::Allowed),
        ),
    ] {
        assert_eq!(plan(&seen(vec![want.clone()])), expected, "{what}");
        // Whatever else is known of it.
        let unanswered = answered(want, MountAccess::Unknown);
        assert_eq!(plan(&seen(vec![unanswered])), expected, "{what}");
    }
}

/// The mount asks about it first, too.
#[test]
fn a_pod_that_may_mount_waits_for_no_request_and_for_no_no() {
    for status in [Value::Null, json!({"phase": "Rejected"})] {
        let allowed = answered(with(want("tools/harbor"), &status), MountAccess::Allowed);
        assert_eq!(plan(&seen(vec![allowed])), removed(GateEnd::Allowed));
    }
    let standing = answered(want("tools/harbor"), MountAccess::Allowed);
    assert_eq!(plan(&seen(vec![standing])), removed(GateEnd::Allowed));
}

#[test]
fn a_request_is_made_where_one_can_wait_and_else_the_gate_goes() {
    let (at_home, elsewhere) = (want("apps/harbor"), want("tools/harbor"));
    let full = |mut want: WantSeen| {
        want.line_is_full = true;
        want
    };
    for want in [&at_home, &elsewhere] {
        assert_eq!(
            plan(&seen(vec![want.clone()])),
            makes(std::slice::from_ref(want))
        );
        let full = full(want.clone());
        assert_eq!(plan(&seen(vec![full])), removed(GateEnd::NoRequest));
    }
    // At home, the request itself says what is missing.
    let no = answered(at_home, MountAccess::Unaccepted);
    assert_eq!(plan(&seen(vec![no.clone()])), makes(&[no]));
    let no = answered(elsewhere, MountAccess::Unaccepted);
    assert_eq!(plan(&seen(vec![no])), removed(GateEnd::NoRequest));
}

#[test]
fn nothing_is_made_and_nothing_goes_while_an_answer_is_missing() {
    let harbor = || want("tools/harbor");
    for (access, seconds) in [(MountAccess::Unknown, 10), (MountAccess::Requested, 1)] {
        let open = answered(harbor(), access);
        assert_eq!(plan(&seen(vec![open.clone()])), later(seconds));
        assert_eq!(plan(&seen(vec![want("apps/git"), open])), later(seconds));
    }
    let mut going = with(harbor(), &json!({"phase": "Rejected"}));
    let mut request: AccessRequest = going.requests[0].as_ref().clone();
    request.metadata.deletion_timestamp = serde_json::from_str("\"2026-03-01T10:00:00Z\"").unwrap();
    going.requests = vec![Arc::new(request)];
    assert_eq!(
        plan(&seen(vec![going])),
        kept(),
        "its deletion wakes the gate"
    );
}

#[test]
fn of_several_connectors_all_must_be_there_and_one_no_is_enough() {
    let granted = with(want("tools/harbor"), &json!({"phase": "Granted"}));
    let waits = with(want("tools/git"), &json!({"phase": "Pending"}));
    let refused = with(want("tools/maven"), &json!({"phase": "Rejected"}));
    let missing = want("apps/helm");
    let nowhere = answered(want("ops/vault"), MountAccess::Unaccepted);
    let unknown = answered(want("ops/npm"), MountAccess::Unknown);
    let standing = answered(want("ops/nexus"), MountAccess::Allowed);
    let planned = |all: &[&WantSeen]| {
        let all = all.iter().map(|it| (*it).clone());
        plan(&seen(all.collect()))
    };
    assert_eq!(planned(&[&granted, &standing]), removed(GateEnd::Allowed));
    assert_eq!(planned(&[&granted, &waits]), kept());
    assert_eq!(
        planned(&[&waits, &missing]),
        makes(std::slice::from_ref(&missing))
    );
    assert_eq!(planned(&[&waits, &nowhere]), removed(GateEnd::NoRequest));
    assert_eq!(planned(&[&unknown, &nowhere]), removed(GateEnd::NoRequest));
    for beside in [&granted, &waits, &missing, &nowhere, &unknown, &standing] {
        assert_eq!(planned(&[beside, &refused]), removed(GateEnd::Refused));
    }
}

#[test]
fn a_pod_asks_for_as_much_as_a_pod_may_ask_for() {
    let waiting = |count: usize| {
        let names = (0..count).map(|it| format!("tools/c{it:02}"));
        names.map(|it| with(want(&it), &json!({"phase": "Pending"})))
    };
    assert_eq!(plan(&seen(waiting(16).collect())), kept());
    assert_eq!(
        plan(&seen(waiting(17).collect())),
        removed(GateEnd::TooMany)
    );
    // Those that need no request do not count.
    let standing = answered(want("ops/nexus"), MountAccess::Allowed);
    let wants = waiting(16).chain([standing]);
    assert_eq!(plan(&seen(wants.collect())), kept());
    // Those without an answer may need none.
    let unknown = answered(want("ops/nexus"), MountAccess::Unknown);
    let wants = waiting(16).chain([unknown]);
    assert_eq!(plan(&seen(wants.collect())), later(10));
}

/// Answers cost calls.
#[test]
fn an_answer_is_needed_where_no_request_waits_or_is_granted_and_while_the_plan_is_open() {
    let harbor = || want("tools/harbor");
    for (status, needed) in [
        (Value::Null, false),
        (json!({"phase": "Pending"}), false),
        (json!({"phase": "Granted"}), false),
        (json!({"phase": "Rejected"}), true),
        (ended("StandingPermission"), true),
    ] {
        assert_eq!(
            (QUESTIONS.is_needed)(&with(harbor(), &status)),
            needed,
            "{status}"
        );
    }
    assert!((QUESTIONS.is_needed)(&harbor()));

    let missing: Vec<_> = (0..17).map(|it| want(&format!("tools/c{it:02}"))).collect();
    let missing: Vec<_> = missing.iter().collect();
    let nowhere = answered(harbor(), MountAccess::Unaccepted);
    let refused = with(harbor(), &json!({"phase": "Rejected"}));
    let unknown = answered(harbor(), MountAccess::Unknown);
    for (answers, enough) in [
        (vec![], false),
        (missing[..16].to_vec(), false),
        (missing, true),
        (vec![&unknown], false),
        (vec![&unknown, &nowhere], true),
        (vec![&refused], true),
    ] {
        assert_eq!(
            (QUESTIONS.are_enough)(&answers),
            enough,
            "{}",
            answers.len()
        );
    }
}

#[test]
fn a_gate_that_nothing_needs_goes() {
    let unmountable = VolumeTextError::Writable("v".to_owned());
    for (volumes, expected) in [
        (GatedVolumes::Want(vec![]), removed(GateEnd::NoConnector)),
        (
            GatedVolumes::Mistaken(unmountable),
            removed(GateEnd::Unmountable),
        ),
        (GatedVolumes::Unreadable, removed(GateEnd::Unmountable)),
        (
            GatedVolumes::Mistaken(VolumeTextError::TooMany),
            removed(GateEnd::TooMany),
        ),
        (GatedVolumes::NotRead, kept()),
    ] {
        let seen = GateSeen {
            volumes: volumes.clone(),
            ..seen(vec![])
        };
        assert_eq!(plan(&seen), expected, "{volumes:?}");
    }
}

#[test]
fn the_switch_and_the_line_of_the_namespace_decide_before_anything_is_read() {
    let unread = || GateSeen {
        volumes: GatedVolumes::NotRead,
        ..seen(vec![])
    };
    for over_limit in [false, true] {
        let gates_pods = |gates_pods| GateSeen {
            gates_pods,
            over_limit,
            ..unread()
        };
        assert_eq!(plan(&gates_pods(Some(false))), removed(GateEnd::Released));
        assert_eq!(plan(&gates_pods(None)), kept(), "nothing is known yet");
    }
    let behind = GateSeen {
        over_limit: true,
        ..seen(vec![want("tools/harbor")])
    };
    assert_eq!(plan(&behind), removed(GateEnd::TooMany));
}

#[test]
fn a_request_that_is_not_accepted_takes_the_gate_away() {
    use RequestMade::{Going, NotAccepted, Squatted, There};
    for (made, expected) in [
        (vec![There], kept()),
        (vec![There, There], kept()),
        (vec![There, Going], later(5)),
        (vec![There, Squatted], removed(GateEnd::NoRequest)),
        (vec![Going, Squatted], removed(GateEnd::NoRequest)),
        (
            vec![NotAccepted(Created::QuotaFull)],
            removed(GateEnd::NoRequest),
        ),
        (
            vec![NotAccepted(Created::NoNamespace)],
            removed(GateEnd::NoRequest),
        ),
        (
            vec![There, NotAccepted(Created::Refused)],
            removed(GateEnd::NoRequest),
        ),
    ] {
        assert_eq!(after(&made), expected, "{made:?}");
    }
}

/// A pod of another namespace learns neither what is there nor why no request waits.
#[test]
fn the_event_has_one_text_for_each_reason_and_names_nothing() {
    let ends = GateEnd::ALL.iter().map(|it| GateTold::Removed(*it));
    let told: Vec<_> = ends.chain([GateTold::Kept]).collect();
    let mut notes: Vec<_> = told.iter().map(|it| it.note()).collect();
    assert!(
        notes
            .iter()
            .all(|it| it.contains("connectors.alauda.io/approval"))
    );
    assert!(
        told.iter()
            .all(|it| it.is_warning() == (*it == GateTold::Kept))
    );
    notes.sort();
    notes.dedup();
    assert_eq!(notes.len(), told.len());
    let words: std::collections::BTreeSet<_> = GateEnd::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(words.len(), GateEnd::ALL.len());
}
