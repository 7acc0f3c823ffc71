//! The cost of a gate, whatever the author of the pod writes.

use super::{super::answers::Slow, *};
use crate::{observe::LOOK, plan::gate, standing};

#[tokio::test]
async fn a_removal_that_is_refused_is_told_once_counted_and_tried_again_ever_more_seldom() {
    for code in [StatusCode::FORBIDDEN, StatusCode::UNPROCESSABLE_ENTITY] {
        let cluster = Cluster::gated("tools/harbor");
        cluster.server.refuse("PATCH pods", code);
        let controller = controller(&cluster);
        learn(&controller, "true", "Release");
        let (patch, event) = (1, 1);
        for (at, minutes) in [1, 2, 4].into_iter().enumerate() {
            cluster.server.breaks(Break::Never);
            let pause = Some(Duration::from_mins(minutes));
            assert_eq!(controller.gate(&pod()).await.unwrap(), pause);
            let events = if at == 0 { event } else { 0 };
            assert_eq!(cluster.server.calls(), patch + events, "{minutes}");
            // Whatever wakes it meanwhile.
            assert_eq!(controller.gate(&pod()).await.unwrap(), pause);
            assert_eq!(cluster.server.calls(), patch + events, "{minutes}");
            cluster.now.lock().unwrap().mono += Duration::from_mins(minutes);
        }
        let (reason, _) = told(&cluster).unwrap();
        assert_eq!(reason, "AccessGateKept");
        assert_eq!(controller.metrics.gates_kept.get(), 3);
        cluster.server.accept();
        assert_eq!(controller.gate(&pod()).await.unwrap(), None);
        assert_eq!(gates(&cluster), ["example.com/quota"]);
        let removed = &controller.metrics.gates_removed;
        assert_eq!(removed.with_label_values(&["Released"]).get(), 1);
    }
}

#[tokio::test]
async fn a_new_configuration_has_a_refused_removal_tried_again_at_once() {
    let cluster = Cluster::gated("tools/harbor");
    cluster.server.refuse("PATCH pods", StatusCode::FORBIDDEN);
    let controller = controller(&cluster);
    learn(&controller, "true", "Release");
    controller.gate(&pod()).await.unwrap();
    cluster.server.accept();
    learn(&controller, "false", "Release");
    assert_eq!(controller.gate(&pod()).await.unwrap(), None);
    assert_eq!(cluster.server.writes(), [REMOVED]);
    assert_eq!(gates(&cluster), ["example.com/quota"]);
}

/// Any author of pods can write the gate, and this installation has no right to remove it.
#[tokio::test]
async fn a_gate_costs_nothing_where_the_installation_has_none() {
    let cluster = Cluster::gated("tools/harbor");
    let controller = controller(&cluster);
    for enabled in ["true", "false"] {
        learn(&controller, enabled, "Absent");
        cluster.server.breaks(Break::Never);
        assert_eq!(controller.gate(&pod()).await.unwrap(), None);
        assert_eq!(cluster.server.calls(), 0, "{enabled}");
    }
    assert_kept(&cluster);
}

/// A pod of so many connectors, 16 in a volume.
fn many(count: usize) -> Cluster {
    let cluster = Cluster::gated("tools/harbor");
    let names: Vec<_> = (0..count).map(|it| format!("tools/c{it:02}")).collect();
    let volumes: Vec<_> = names
        .chunks(16)
        .enumerate()
        .map(|(at, names)| {
            json!({"name": format!("v{at}"), "csi": {
                "driver": "connectors-csi", "readOnly": true, "volumeAttributes": {"connectors": names.join(",")},
            }})
        })
        .collect();
    cluster
        .server
        .change("pods", POD, |pod| pod["spec"]["volumes"] = json!(volumes));
    cluster
}

/// Each no is reviewed by the API server, one after the other.
#[tokio::test]
async fn no_more_is_reviewed_than_decides() {
    let (read, patch, event) = (1, 1, 1);
    for (no, reviews, reason) in [
        (Some("tools/c00"), 1, "NoRequest"),
        (Some("tools/c07"), 8, "NoRequest"),
        (None, 17, "TooMany"),
    ] {
        let cluster = many(64);
        if let Some(no) = no {
            let mut mounts = cluster.mounts.lock().unwrap();
            mounts.insert(no.to_owned(), MountAccess::Unaccepted);
        }
        cluster.server.breaks(Break::Never);
        look(&cluster).await.unwrap();
        assert_removed(&cluster, reason);
        assert_eq!(cluster.server.calls(), read + reviews + patch + event);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_at_a_gate_that_takes_too_long_decides_nothing_and_is_repeated() {
    let late = Some(Duration::from_secs(10));
    let cluster = many(4);
    let controller = controller(&cluster);
    let began = Instant::now();
    // Each review takes seconds, and none is answered.
    cluster.server.ignore("POST subjectaccessreviews");
    assert_eq!(controller.gate(&pod()).await.unwrap(), late);
    assert_eq!(began.elapsed(), LOOK);
    cluster.server.accept();
    // The same for the requests to make.
    let until = Instant::now() + LOOK;
    let seen = controller
        .observer
        .gate(&pod(), gate::QUESTIONS, until)
        .await;
    let seen = seen.unwrap().unwrap();
    let plan = gate::plan(&seen);
    assert_eq!(plan.make.len(), 4);
    cluster.server.ignore("POST accessrequests");
    let until = Instant::now() + Duration::from_secs(1);
    let applied = controller.applier.gate(&seen, plan, until).await.unwrap();
    assert_eq!((applied.told, applied.again), (None, late));
    assert_eq!(Instant::now(), until);
    assert_kept(&cluster);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_mounts_is_awaited_for_a_limited_time() {
    let late = Some(Duration::from_secs(10));
    for (takes, made, again) in [
        (standing::LIMIT / 2, 1, None),
        (standing::LIMIT * 2, 0, late),
    ] {
        let cluster = Cluster::gated("tools/harbor");
        let mut controller = controller(&cluster);
        controller.observer = Observer::new(
            Arc::clone(&controller.world),
            controller.live.clone(),
            Arc::new(Slow(cluster.evaluator(), takes)),
            Arc::clone(&controller.clock),
            2,
        );
        assert_eq!(controller.gate(&pod()).await.unwrap(), again, "{takes:?}");
        assert_eq!(cluster.server.all("accessrequests").len(), made);
        assert_kept(&cluster);
    }
}

/// Standing reviews ask about waiting requests, once a minute for all of them.
#[tokio::test]
async fn a_connector_whose_request_waits_is_asked_about_no_more() {
    let cluster = Cluster::gated("tools/harbor,tools/git");
    look(&cluster).await.unwrap();
    settle(&cluster, &at_the_mount("tools/harbor"), "Pending");
    cluster.mounting.lock().unwrap().clear();
    cluster.server.breaks(Break::Never);
    look(&cluster).await.unwrap();
    assert_eq!(cluster.mounting.lock().unwrap().len(), 0);
    let read = 1;
    assert_eq!(cluster.server.calls(), read);
    assert_kept(&cluster);
    // A decided one is no answer: another permission may be there.
    settle(&cluster, &at_the_mount("tools/git"), "Rejected");
    look(&cluster).await.unwrap();
    let asked = cluster.mounting.lock().unwrap().concat();
    let asked: Vec<_> = asked.iter().map(|it| it.connector.name.as_str()).collect();
    assert_eq!(asked, ["git"]);
}

/// They cost their author nothing, and stay for days.
#[tokio::test]
async fn requests_that_are_decided_count_as_long_as_they_are_kept_unless_they_are_granted() {
    for (phase, is_full) in [
        ("Pending", true),
        ("Rejected", true),
        ("Ended", true),
        ("Granted", false),
    ] {
        let cluster = Cluster::gated("tools/harbor");
        for name in ["another", "one-more"] {
            let mut request = at_the_mount("tools/harbor");
            request["metadata"]["name"] = name.into();
            request["spec"]["context"]["objectRef"]["uid"] = name.into();
            request["status"] = json!({ "phase": phase });
            cluster.server.put("accessrequests", request);
        }
        cluster.server.forget_writes();
        look(&cluster).await.unwrap();
        if is_full {
            assert_removed(&cluster, "NoRequest");
        } else {
            assert_kept(&cluster);
        }
    }
}

/// The API server may answer in a moment: this is no refusal, and nobody is told.
#[tokio::test]
async fn a_removal_that_fails_for_now_is_tried_again_as_any_other_failure() {
    for code in [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
    ] {
        let cluster = Cluster::gated("tools/harbor");
        cluster.server.refuse("PATCH pods", code);
        let controller = controller(&cluster);
        learn(&controller, "true", "Release");
        let error = controller.gate(&pod()).await.unwrap_err();
        assert!(
            matches!(error, ReconcileError::Apply(ApplyError::Call(_))),
            "{error}"
        );
        assert_eq!(controller.metrics.gates_kept.get(), 0);
        assert_kept(&cluster);
    }
}
