//! I5 broken and kept.

use super::*;

fn again(ms: i64, who: &str) -> Value {
    let mut event = with(call("again", ms, who, "create", BINDINGS, ""), binding());
    event["responseObject"]["metadata"]["name"] = "car-req-uid-again".into();
    event["responseObject"]["roleRef"]["name"] = "car-req-uid-again".into();
    event
}

/// Whether a rule was broken; a grant after the end breaks others as well, since nothing was read for it.
fn found(report: &Report, words: &str) -> bool {
    report
        .violations
        .iter()
        .any(|violation| violation.rule == Rule::Final && violation.what.contains(words))
}

#[test]
fn nothing_is_granted_after_the_end() {
    for phase in ["Rejected", "Revoked", "Invalid", "Ended"] {
        let scene = || {
            world().edit("status-revoked", |event| {
                event["responseObject"]["status"]["phase"] = phase.into();
            })
        };
        assert!(found(
            &scene().plus(again(30_000, "controller")).report(),
            &format!("its request became {phase}")
        ));
        assert!(!found(
            &scene().plus(again(10_040, "controller")).report(),
            "became"
        ));
    }
}

#[test]
fn nothing_of_a_policy_is_granted_after_its_end() {
    assert!(found(
        &world()
            .without(&["status-revoked"])
            .plus(again(30_000, "controller"))
            .report(),
        "its policy ended"
    ));
    // Another policy may still give.
    let mut other = again(20_400, "controller");
    other["responseObject"]["metadata"]["labels"]["connectors.alauda.io/accessPolicyUid"] =
        "pol-2".into();
    assert!(!found(&world().plus(other).report(), ""));
}

#[test]
fn a_no_counts_in_the_same_process_from_its_beginning() {
    // The grant was sent before the answer to the status was logged as done.
    assert!(found(
        &world()
            .without(&["status-ended"])
            .plus(again(20_601, "controller"))
            .report(),
        "became Revoked"
    ));
    assert!(!found(
        &world()
            .without(&["status-ended"])
            .plus(again(20_601, "second"))
            .report(),
        "became Revoked"
    ));
}

/// The same pod asks again by another request, after the first was decided.
fn twin(phase: &str, deleted: Option<i64>) -> World {
    let mut scene = world().edit("status-revoked", |event| {
        event["responseObject"]["status"]["phase"] = phase.into();
    });
    scene.events.push(with(
        call("create-twin", 25_000, "admin", "create", REQUESTS, "twin"),
        request("twin-uid", "twin", NS),
    ));
    let text = again(30_000, "controller")
        .to_string()
        .replace("req-uid", "twin-uid");
    scene.events.push(serde_json::from_str(&text).unwrap());
    if let Some(ms) = deleted {
        scene.events.push(call(
            "delete-request",
            ms,
            "admin",
            "delete",
            REQUESTS,
            "req",
        ));
    }
    scene
}

#[test]
fn a_no_to_one_request_is_a_no_to_its_twin() {
    for phase in ["Rejected", "Revoked", "Ended"] {
        assert!(found(
            &twin(phase, None).report(),
            &format!("request req of the same pod became {phase}")
        ));
        assert!(found(
            &twin(phase, Some(31_000)).report(),
            "of the same pod"
        ));
        // Deleting it is the reset.
        assert!(!found(&twin(phase, Some(29_000)).report(), ""));
    }
    // A duplicate that was set aside decides nothing for the other.
    assert!(!found(
        &twin("Invalid", None)
            .edit("status-ended", |event| event["responseObject"]["status"]
                ["phase"] = "Pending".into())
            .report(),
        "of the same pod"
    ));
}

#[test]
fn another_pod_or_connector_is_another_matter() {
    for pointer in [
        "/spec/context/objectRef/uid",
        "/spec/connectorRef/name",
        "/spec/subject/name",
    ] {
        let other = |event: &mut Value| {
            *event["responseObject"].pointer_mut(pointer).unwrap() = "other".into();
        };
        assert!(
            !found(
                &twin("Rejected", None).edit("create-twin", other).report(),
                ""
            ),
            "{pointer}"
        );
    }
}

#[test]
fn a_race_that_is_settled_at_once_is_counted() {
    let gone = |ms| {
        let mut event = with(
            call(
                "gone",
                ms,
                "second",
                "delete",
                BINDINGS,
                "car-req-uid-again",
            ),
            json!({"kind": "Status"}),
        );
        event["objectRef"]["name"] = "car-req-uid-again".into();
        event
    };
    let report = world()
        .plus(again(20_700, "second"))
        .plus(gone(21_600))
        .report();
    assert_eq!(
        (report.seen.races, found(&report, "")),
        (1, false),
        "{report}"
    );
    let report = world()
        .plus(again(20_700, "second"))
        .plus(gone(21_800))
        .report();
    assert_eq!(
        (report.seen.races, found(&report, "became")),
        (0, true),
        "{report}"
    );
    // One process knows its own writes.
    assert!(found(
        &world()
            .plus(again(20_700, "controller"))
            .plus(gone(20_800))
            .report(),
        "became"
    ));
}

#[test]
fn a_final_phase_is_not_left() {
    for phase in ["Pending", "Granted", ""] {
        world()
            .plus(status_write("back", 30_000, phase, "Ended"))
            .breaks(Rule::Final, &format!("became `{phase}` after Revoked"));
    }
    world()
        .plus(status_write("more", 30_000, "Revoked", "Ended"))
        .keeps();
    let failed = |mut event: Value| {
        event["responseStatus"]["code"] = 409.into();
        event
    };
    world()
        .plus(failed(status_write("back", 30_000, "Granted", "Ended")))
        .keeps();
}
