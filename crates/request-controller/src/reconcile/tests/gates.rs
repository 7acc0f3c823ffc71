//! The scheduling gate of pods, on the fake API server.

mod limits;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use connectors_api::{ConnectorKey, Permission, PodIdentity, pod_wish};
use http::StatusCode;
use serde_json::{Value, json};
use service_kit::controller::queue::{Looked, Taken, Urgency};
use tokio::time::{Duration, Instant};

use super::ReconcileError;
use crate::{
    api::Name,
    apply::ApplyError,
    cache::{Job, World},
    observe::Observer,
    reconcile::Reconciler,
    seen::MountAccess,
    testing::{Break, Cluster},
};

const POD: &str = "run-deploy-pod";
const REMOVED: &str = "PATCH pods run-deploy-pod";

fn pod() -> Name {
    Name::new("apps", POD)
}

/// The request that the node plugin would make at the mount.
fn at_the_mount(connector: &str) -> Value {
    let pod = PodIdentity {
        namespace: "apps".to_owned(),
        name: POD.to_owned(),
        uid: "pod-uid".to_owned(),
        service_account: "builder".to_owned(),
    };
    let (namespace, name) = connector.split_once('/').unwrap();
    let connector = ConnectorKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let request = pod_wish::request(&pod, &connector, Permission::Apis);
    serde_json::to_value(request).unwrap()
}

fn name_of(request: &Value) -> &str {
    request["metadata"]["name"].as_str().unwrap()
}

fn learn(controller: &Reconciler, enabled: &str, gate: &str) {
    let data = [
        ("enable-connectors-approval", enabled),
        ("scheduling-gate", gate),
    ];
    let data: BTreeMap<_, _> = data
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let _ = controller.world.write().learn(&data);
}

/// A controller that was just started, where pods wait with the gate.
fn controller(cluster: &Cluster) -> Reconciler {
    let controller = cluster.controller();
    learn(&controller, "true", "Set");
    controller
}

/// One look at the gate with caches that are up to date.
async fn look(cluster: &Cluster) -> Result<Option<Duration>, ReconcileError> {
    let controller = controller(cluster);
    Box::pin(controller.gate(&pod())).await
}

fn gates(cluster: &Cluster) -> Vec<String> {
    let pod = cluster.server.named("pods", POD).unwrap();
    let gates = pod["spec"]["schedulingGates"].as_array().cloned();
    let gates = gates.unwrap_or_default().into_iter();
    gates
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The reason of the last event about a gate, and what was done.
fn told(cluster: &Cluster) -> Option<(String, String)> {
    let events = cluster.server.events();
    let event = events.into_iter().rfind(|it| {
        let reason = it["reason"].as_str().unwrap_or_default();
        reason.starts_with("AccessGate")
    })?;
    assert_eq!(event["regarding"]["uid"], "pod-uid");
    let text = |field: &str| event[field].as_str().unwrap().to_owned();
    Some((text("reason"), text("action")))
}

/// Asserts that the look removed our gate, made no request, and gave this reason.
fn assert_removed(cluster: &Cluster, reason: &str) {
    assert_eq!(cluster.server.writes(), [REMOVED], "{reason}");
    assert_eq!(gates(cluster), ["example.com/quota"], "{reason}");
    let expected = ("AccessGateRemoved".to_owned(), reason.to_owned());
    assert_eq!(told(cluster), Some(expected));
}

fn assert_kept(cluster: &Cluster) {
    assert_eq!(gates(cluster).len(), 2);
    assert_eq!(told(cluster), None);
}

fn settle(cluster: &Cluster, request: &Value, phase: &str) {
    cluster
        .server
        .change("accessrequests", name_of(request), |it| {
            it["status"] = json!({ "phase": phase });
        });
    cluster.server.forget_writes();
}

#[tokio::test]
async fn a_gated_pod_gets_the_request_that_its_mount_would_make_and_waits_for_it() {
    let cluster = Cluster::gated("tools/harbor");
    assert_eq!(look(&cluster).await.unwrap(), None);
    let expected = at_the_mount("tools/harbor");
    let made = cluster.server.all("accessrequests");
    let [made] = made.as_slice() else {
        panic!("{made:?}");
    };
    for field in ["name", "namespace", "labels"] {
        assert_eq!(made["metadata"][field], expected["metadata"][field]);
    }
    assert_eq!(made["spec"], expected["spec"]);
    assert_kept(&cluster);
    // The next look finds it.
    cluster.server.forget_writes();
    assert_eq!(look(&cluster).await.unwrap(), None);
    assert_eq!(cluster.server.writes(), [""; 0]);
    let asked = cluster.mounting.lock().unwrap().concat();
    assert_eq!(asked[0].pod.as_ref().unwrap().uid, "pod-uid");
}

#[tokio::test]
async fn the_gate_goes_with_the_grant_or_with_a_final_no_and_the_gates_of_others_stay() {
    for (phase, reason) in [
        ("Granted", "Allowed"),
        ("Rejected", "Refused"),
        ("Revoked", "Refused"),
        ("Invalid", "Refused"),
    ] {
        let cluster = Cluster::gated("tools/harbor");
        look(&cluster).await.unwrap();
        settle(&cluster, &at_the_mount("tools/harbor"), "Pending");
        look(&cluster).await.unwrap();
        assert_kept(&cluster);
        settle(&cluster, &at_the_mount("tools/harbor"), phase);
        assert_eq!(look(&cluster).await.unwrap(), None);
        assert_removed(&cluster, reason);
    }
}

#[tokio::test]
async fn a_pod_of_several_connectors_waits_for_the_last() {
    let cluster = Cluster::gated("tools/harbor,tools/git");
    look(&cluster).await.unwrap();
    assert_eq!(cluster.server.all("accessrequests").len(), 2);
    settle(&cluster, &at_the_mount("tools/harbor"), "Granted");
    look(&cluster).await.unwrap();
    assert_kept(&cluster);
    // A permission that holds at any time ends the other one.
    let says = MountAccess::Allowed;
    cluster
        .mounts
        .lock()
        .unwrap()
        .insert("tools/git".to_owned(), says);
    settle(&cluster, &at_the_mount("tools/git"), "Ended");
    look(&cluster).await.unwrap();
    assert_removed(&cluster, "Allowed");
}

#[tokio::test]
async fn a_standing_permission_needs_no_request_whichever_authorizer_knows_it() {
    let by_service = Cluster::gated("tools/harbor");
    let says = MountAccess::Allowed;
    by_service
        .mounts
        .lock()
        .unwrap()
        .insert("tools/harbor".to_owned(), says);
    let by_review = Cluster::gated("tools/harbor");
    by_review.server.allow();
    for cluster in [by_service, by_review] {
        look(&cluster).await.unwrap();
        assert_removed(&cluster, "Allowed");
    }
}

/// What the volume asks for is read live; and where nothing can wait, nothing is made.
#[tokio::test]
async fn a_pod_that_no_request_can_help_is_scheduled_at_once() {
    let nowhere = |says| {
        let cluster = Cluster::gated("tools/harbor");
        cluster
            .mounts
            .lock()
            .unwrap()
            .insert("tools/harbor".to_owned(), says);
        cluster
    };
    let cluster = nowhere(MountAccess::Unaccepted);
    look(&cluster).await.unwrap();
    assert_removed(&cluster, "NoRequest");
    let cluster = Cluster::gated("tools/harbor,");
    look(&cluster).await.unwrap();
    assert_removed(&cluster, "Unmountable");
    for volumes in [
        json!(null),
        json!([]),
        json!([{"name": "e", "emptyDir": {}}]),
    ] {
        let cluster = Cluster::gated("tools/harbor");
        cluster
            .server
            .change("pods", POD, |pod| pod["spec"]["volumes"] = volumes.clone());
        look(&cluster).await.unwrap();
        assert_removed(&cluster, "NoConnector");
    }
}

#[tokio::test]
async fn a_request_that_the_api_server_does_not_accept_lets_the_pod_go_to_its_mount() {
    for code in [
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::UNPROCESSABLE_ENTITY,
    ] {
        let cluster = Cluster::gated("tools/harbor");
        cluster.server.refuse("POST accessrequests", code);
        look(&cluster).await.unwrap();
        assert_removed(&cluster, "NoRequest");
    }
    // It may be accepted later.
    for code in [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
    ] {
        let cluster = Cluster::gated("tools/harbor");
        cluster.server.refuse("POST accessrequests", code);
        look(&cluster).await.unwrap_err();
        assert_kept(&cluster);
    }
}

/// The caches may not know it yet.
#[tokio::test]
async fn another_object_under_the_name_is_never_waited_for() {
    let stored = |change: fn(&mut Value)| {
        let cluster = Cluster::gated("tools/harbor");
        let controller = controller(&cluster);
        let mut request = at_the_mount("tools/harbor");
        change(&mut request);
        cluster.server.put("accessrequests", request);
        (cluster, controller)
    };
    let (cluster, controller) = stored(|_| {});
    assert_eq!(controller.gate(&pod()).await.unwrap(), None);
    assert_kept(&cluster);
    let (cluster, controller) = stored(|it| {
        it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z".into();
    });
    assert_eq!(
        controller.gate(&pod()).await.unwrap(),
        Some(Duration::from_secs(5))
    );
    assert_kept(&cluster);
    let changes: [fn(&mut Value); 2] = [
        |it| it["spec"]["subject"]["name"] = "attacker".into(),
        |it| it["spec"]["surprise"] = "x".into(),
    ];
    for change in changes {
        let (cluster, controller) = stored(change);
        controller.gate(&pod()).await.unwrap();
        assert_removed(&cluster, "NoRequest");
    }
}

#[tokio::test]
async fn without_an_answer_nothing_is_made_and_the_gate_stays() {
    let cluster = Cluster::gated("tools/harbor");
    cluster.answers.store(false, Ordering::SeqCst);
    assert_eq!(look(&cluster).await.unwrap(), Some(Duration::from_secs(10)));
    assert_eq!(cluster.server.writes(), [""; 0]);
    assert_kept(&cluster);
}

#[tokio::test]
async fn every_gate_goes_without_a_look_at_its_pod_when_pods_wait_at_their_mounts_again() {
    for (enabled, gate) in [("false", "Set"), ("true", "Release"), ("false", "Release")] {
        let cluster = Cluster::gated("tools/harbor");
        let controller = controller(&cluster);
        learn(&controller, enabled, gate);
        cluster.server.breaks(Break::Never);
        controller.gate(&pod()).await.unwrap();
        assert_removed(&cluster, "Released");
        let (patch, event) = (1, 1);
        assert_eq!(cluster.server.calls(), patch + event, "{enabled} {gate}");
    }
}

#[tokio::test]
async fn a_controller_that_does_not_know_the_switch_changes_nothing() {
    let cluster = Cluster::gated("tools/harbor");
    let controller = cluster.controller();
    let world = Arc::new(World::default());
    let observer = Observer::new(
        Arc::clone(&world),
        controller.live.clone(),
        cluster.evaluator(),
        Arc::clone(&controller.clock),
        2,
    );
    let controller = Reconciler {
        world,
        observer,
        ..controller
    };
    cluster.fill_objects(&controller);
    assert_eq!(controller.world.read().gated.count(|_| true), 1);
    assert_eq!(controller.gate(&pod()).await.unwrap(), None);
    assert_eq!(cluster.server.writes(), [""; 0]);
    assert_kept(&cluster);
}

#[tokio::test]
async fn a_pod_that_is_another_or_waits_no_more_is_left_alone() {
    let changes: [fn(&mut Value); 5] = [
        |pod| pod["metadata"]["uid"] = "another-uid".into(),
        |pod| pod["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:00Z".into(),
        |pod| pod["spec"]["schedulingGates"] = json!([]),
        |pod| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]),
        |pod| pod["status"]["phase"] = "Failed".into(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let cluster = Cluster::gated("tools/harbor");
        let controller = controller(&cluster);
        // The caches do not know it yet.
        cluster.server.change("pods", POD, change);
        assert_eq!(controller.gate(&pod()).await.unwrap(), None, "{at}");
        assert_eq!(cluster.server.writes(), [""; 0], "{at}");
        if at > 0 {
            // Now they do.
            assert_eq!(look(&cluster).await.unwrap(), None, "{at}");
            assert_eq!(cluster.server.writes(), [""; 0], "{at}");
        }
    }
    let cluster = Cluster::gated("tools/harbor");
    let controller = controller(&cluster);
    cluster.server.remove("pods", POD);
    assert_eq!(controller.gate(&pod()).await.unwrap(), None);
    assert_eq!(cluster.server.writes(), [""; 0]);
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_goes_to_its_mount_unless_it_is_another_one() {
    for uid in ["pod-uid", "another-uid"] {
        let cluster = Cluster::gated("tools/harbor");
        let controller = controller(&cluster);
        cluster.server.change("pods", POD, |pod| {
            pod["metadata"]["uid"] = uid.into();
            pod["spec"]["volumes"] = "none".into();
        });
        assert_eq!(controller.gate(&pod()).await.unwrap(), None, "{uid}");
        if uid == "pod-uid" {
            assert_removed(&cluster, "Unmountable");
        } else {
            assert_eq!(cluster.server.writes(), [""; 0]);
            assert_kept(&cluster);
        }
    }
}

/// As at the mount.
#[tokio::test]
async fn a_no_is_reviewed_for_the_account_of_the_pod_and_its_connector() {
    let cluster = Cluster::gated("tools/harbor");
    look(&cluster).await.unwrap();
    let reviewed = cluster.server.reviewed();
    let [question] = reviewed.as_slice() else {
        panic!("{reviewed:?}");
    };
    assert_eq!(question["user"], "system:serviceaccount:apps:builder");
    assert_eq!(
        question["resourceAttributes"],
        json!({
            "group": "connectors.alauda.io", "resource": "connectors", "subresource": "apis", "verb": "*",
            "namespace": "tools", "name": "harbor",
        })
    );
}

/// A pod that took the name keeps its own gate.
#[tokio::test]
async fn the_gate_of_another_pod_of_the_name_is_not_removed() {
    let cluster = Cluster::gated("tools/harbor");
    let controller = controller(&cluster);
    learn(&controller, "true", "Release");
    cluster.server.change("pods", POD, |pod| {
        pod["metadata"]["uid"] = "another-uid".into();
    });
    let error = controller.gate(&pod()).await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::Apply(ApplyError::Conflict(_))),
        "{error}"
    );
    assert_kept(&cluster);
}

#[tokio::test]
async fn another_process_that_leads_does_the_work_alone() {
    let cluster = Cluster::gated("tools/harbor");
    cluster.leads.store(false, Ordering::SeqCst);
    look(&cluster).await.unwrap_err();
    let controller = controller(&cluster);
    learn(&controller, "false", "Set");
    controller.gate(&pod()).await.unwrap_err();
    assert_eq!(cluster.server.writes(), [""; 0]);
    assert_kept(&cluster);
}

/// The test's controller lets two pods and two requests of a namespace wait.
#[tokio::test]
async fn a_namespace_has_so_many_gated_pods_and_waiting_requests_and_no_more() {
    let cluster = Cluster::gated("tools/harbor");
    let first = cluster.server.named("pods", POD).unwrap();
    for number in 2..=4 {
        let mut pod = first.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod["metadata"]["uid"] = format!("uid-of-{number}").into();
        pod["metadata"]["creationTimestamp"] = format!("2026-03-01T10:00:0{number}Z").into();
        cluster.server.put("pods", pod);
    }
    let controller = controller(&cluster);
    for number in [3, 4] {
        let behind = Name::new("apps", &format!("pod-{number}"));
        cluster.server.breaks(Break::Never);
        controller.gate(&behind).await.unwrap();
        let (patch, event) = (1, 1);
        assert_eq!(cluster.server.calls(), patch + event, "no look at the pod");
    }
    let expected = ["PATCH pods pod-3", "PATCH pods pod-4"];
    assert_eq!(cluster.server.writes(), expected);
    for name in ["another", "one-more"] {
        let mut request = at_the_mount("tools/harbor");
        request["metadata"]["name"] = name.into();
        request["spec"]["context"]["objectRef"]["uid"] = name.into();
        cluster.server.put("accessrequests", request);
    }
    cluster.server.forget_writes();
    look(&cluster).await.unwrap();
    assert_removed(&cluster, "NoRequest");
}

#[tokio::test]
async fn a_crash_at_any_call_leaves_one_request_and_in_the_end_no_gate() {
    let calls = {
        let cluster = Cluster::gated("tools/harbor,tools/git");
        cluster.server.breaks(Break::Never);
        look(&cluster).await.unwrap();
        cluster.server.calls()
    };
    for at in 0..=calls {
        for breaks in [Break::Before(at), Break::After(at)] {
            let cluster = Cluster::gated("tools/harbor,tools/git");
            cluster.server.breaks(breaks);
            let _ = look(&cluster).await;
            cluster.server.breaks(Break::Never);
            look(&cluster).await.unwrap();
            assert_kept(&cluster);
            let all = cluster.server.all("accessrequests");
            assert_eq!(all.len(), 2, "{breaks:?}");
            for request in &all {
                settle(&cluster, request, "Granted");
            }
            cluster.server.breaks(breaks);
            let _ = look(&cluster).await;
            cluster.server.breaks(Break::Never);
            look(&cluster).await.unwrap();
            assert_eq!(gates(&cluster), ["example.com/quota"], "{breaks:?}");
            assert_eq!(cluster.server.all("accessrequests").len(), 2);
        }
    }
}

#[tokio::test]
async fn a_worker_looks_at_a_gate_and_looks_again_when_it_should() {
    let cluster = Cluster::gated("tools/harbor");
    cluster.answers.store(false, Ordering::SeqCst);
    let controller = controller(&cluster);
    let taken = Taken {
        job: Job::Gate(pod()),
        since: Instant::now(),
    };
    assert_eq!(controller.look(&taken).await, Looked::Done);
    assert_eq!(controller.queues.of(0).depth(), 1, "it waits for its time");
    let wakes = controller.world.read().gated.wakes();
    assert_eq!(wakes, [(Job::Gate(pod()), Urgency::Normal)]);
}
