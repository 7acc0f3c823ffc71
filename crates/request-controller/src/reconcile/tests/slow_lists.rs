//! An API server whose lists take seconds: its caches hear late from etcd how new they are.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::json;
use service_kit::retry::RetryPolicy;
use tokio::time::{Instant, sleep};

use super::{guards::ONCE, look};
use crate::{
    apply::{Applier, Writes},
    reconcile::Reconciler,
    seen::OLDEST,
    testing::Cluster,
};

/// The longest list: after three seconds the API server reads etcd itself.
const LIST: Duration = Duration::from_millis(3100);

/// The lists that a controller has begun, and how many of them at a time.
#[derive(Debug, Default)]
struct Lists {
    begun: Vec<String>,
    running: usize,
    most: usize,
}

/// Whether the API server waits before it answers.
fn is_slow(request: &Request<Body>) -> bool {
    let below = request.uri().path().rsplit_once("/namespaces/");
    let is_list = below.is_some_and(|(_, below)| below.split('/').count() == 2);
    is_list && *request.method() == Method::GET
}

/// A client whose slow calls take so long.
fn slow(
    cluster: &Cluster,
    is_slow: fn(&Request<Body>) -> bool,
    delay: Duration,
) -> (Client, Arc<Mutex<Lists>>) {
    slow_beside(cluster, is_slow, delay, Duration::ZERO)
}

/// The same where the other calls take a time, too.
fn slow_beside(
    cluster: &Cluster,
    is_slow: fn(&Request<Body>) -> bool,
    delay: Duration,
    others: Duration,
) -> (Client, Arc<Mutex<Lists>>) {
    let behind = cluster.server.client();
    let lists = Arc::new(Mutex::new(Lists::default()));
    let noted = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (behind, noted) = (behind.clone(), Arc::clone(&noted));
        async move {
            if is_slow(&request) {
                {
                    let mut lists = noted.lock().unwrap();
                    lists.begun.push(request.uri().path().to_owned());
                    lists.running += 1;
                    lists.most = lists.most.max(lists.running);
                }
                sleep(delay).await;
                noted.lock().unwrap().running -= 1;
            } else if !others.is_zero() {
                sleep(others).await;
            }
            Ok::<_, Infallible>(behind.send(request).await.unwrap())
        }
    });
    (Client::new(service, "default"), lists)
}

const PATIENT: RetryPolicy = RetryPolicy {
    attempt: Duration::from_secs(4),
    total: Duration::from_secs(4),
    ..ONCE
};

/// The policy has a second check, whose approval exists.
fn check_two_approvals(cluster: &Cluster) {
    cluster.server.change("accesspolicies", "p", |policy| {
        let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
        let mut other = checks[0].clone();
        other["name"] = "other".into();
        other["selector"]["labels"] = json!({"also": "{.object.metadata.name}"});
        checks.as_array_mut().unwrap().push(other);
    });
    cluster.approval("approved");
    let mut other = cluster.server.named("configmaps", "approval-1").unwrap();
    other["metadata"]["name"] = "approval-2".into();
    other["metadata"]["uid"] = "approval-2-uid".into();
    other["metadata"]["labels"] = json!({"also": "run-deploy-pod"});
    cluster.server.put("configmaps", other);
}

/// More policies than are read by their names.
fn add_policies(cluster: &Cluster, change: fn(&mut serde_json::Value)) {
    let policy = cluster.server.named("accesspolicies", "p").unwrap();
    for number in 0..4 {
        let mut other = policy.clone();
        other["metadata"]["name"] = format!("p{number}").into();
        other["metadata"]["uid"] = format!("p{number}-uid").into();
        change(&mut other);
        cluster.server.put("accesspolicies", other);
    }
}

fn of_another_connector(policy: &mut serde_json::Value) {
    policy["spec"]["connector"] = json!({"names": ["another"]});
}

#[tokio::test(start_paused = true)]
async fn a_grant_comes_through_when_each_list_takes_three_seconds() {
    let cluster = Cluster::new();
    check_two_approvals(&cluster);
    add_policies(&cluster, of_another_connector);
    let mut controller = cluster.controller();
    let (client, lists) = slow(&cluster, is_slow, LIST);
    cluster.reads_by(&mut controller, client, PATIENT);
    let begun = Instant::now();
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    assert!(begun.elapsed() < OLDEST, "{:?}", begun.elapsed());
    let lists = lists.lock().unwrap();
    assert_eq!((lists.begun.len(), lists.most), (3, 3), "{lists:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_began_ahead_and_failed_is_made_again() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let mut controller = cluster.controller();
    let behind = cluster.server.client();
    let lists = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (behind, noted) = (behind.clone(), Arc::clone(&noted));
        async move {
            if is_slow(&request) {
                let mut lists = noted.lock().unwrap();
                *lists += 1;
                if *lists == 1 {
                    let mut refused = Response::new(Body::from(Vec::new()));
                    *refused.status_mut() = StatusCode::BAD_REQUEST;
                    return Ok::<_, Infallible>(refused);
                }
            }
            Ok(behind.send(request).await.unwrap())
        }
    });
    let client = Client::new(service, "default");
    cluster.reads_by(&mut controller, client, PATIENT);
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), *lists.lock().unwrap()),
        ("Granted", 2)
    );
}

/// What the caches have of a check is what the list will bring.
#[tokio::test(start_paused = true)]
async fn lists_of_many_bytes_come_one_after_the_other() {
    for (bytes, at_a_time) in [(1024, 2), (64 * 1024, 1)] {
        let cluster = Cluster::new();
        check_two_approvals(&cluster);
        cluster.server.change("configmaps", "approval-2", |it| {
            it["data"] = json!({"text": "x".repeat(bytes)});
        });
        let mut controller = cluster.controller();
        let (client, lists) = slow(&cluster, is_slow, Duration::from_secs(1));
        cluster.reads_by(&mut controller, client, PATIENT);
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), "Granted");
        let lists = lists.lock().unwrap();
        assert_eq!((lists.begun.len(), lists.most), (2, at_a_time), "{bytes}");
    }
}

/// The text of an object that is too large to be a check is not in the caches. Another policy grants.
#[tokio::test(start_paused = true)]
async fn lists_of_large_objects_come_one_after_the_other() {
    let cluster = Cluster::new();
    let mut other = cluster.server.named("accesspolicies", "p").unwrap();
    other["metadata"]["name"] = "q".into();
    other["metadata"]["uid"] = "q-uid".into();
    other["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
        json!({"also": "{.object.metadata.name}"});
    cluster.server.put("accesspolicies", other);
    cluster.approval("approved");
    let mut large = cluster.server.named("configmaps", "approval-1").unwrap();
    large["metadata"]["name"] = "approval-2".into();
    large["metadata"]["uid"] = "approval-2-uid".into();
    large["metadata"]["labels"] = json!({"also": "run-deploy-pod"});
    large["data"] = json!({"text": "x".repeat(300 * 1024)});
    cluster.server.put("configmaps", large);
    let mut controller = cluster.controller();
    let (client, lists) = slow(&cluster, is_slow, Duration::from_secs(1));
    cluster.reads_by(&mut controller, client, PATIENT);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    let lists = lists.lock().unwrap();
    assert_eq!((lists.begun.len(), lists.most), (2, 1));
}

/// The caches do not know yet that the pod has ended, so its lists begin ahead.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_decided_by_itself_waits_for_no_list() {
    let cluster = Cluster::new();
    let mut controller = cluster.controller();
    let (client, lists) = slow_beside(&cluster, is_slow, LIST, Duration::from_millis(500));
    cluster.reads_by(&mut controller, client, PATIENT);
    look(&controller).await.unwrap();
    cluster.approval("approved");
    cluster.fill(&controller);
    super::end_pod(&cluster.server);
    let begun = Instant::now();
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Ended");
    assert!(begun.elapsed() < LIST, "{:?}", begun.elapsed());
    assert_eq!(lists.lock().unwrap().begun.len(), 1);
}

/// The list of a check, or that of policies.
#[tokio::test(start_paused = true)]
async fn reads_that_take_too_long_for_a_decision_are_told_in_the_status_once() {
    for has_many_policies in [false, true] {
        let cluster = Cluster::new();
        if has_many_policies {
            add_policies(&cluster, of_another_connector);
        }
        cluster.look().await.unwrap();
        cluster.approval("approved");
        let mut controller = cluster.controller();
        let (client, _) = slow(&cluster, is_slow, 2 * LIST);
        cluster.reads_by(&mut controller, client, PATIENT);
        let ready = || {
            let status = cluster.status();
            let mut conditions = status["conditions"].as_array().unwrap().iter();
            let ready = conditions.find(|it| it["type"] == "Ready").unwrap();
            ready["reason"].as_str().unwrap().to_owned()
        };
        cluster.server.forget_writes();
        for writes in [1, 0] {
            let looked = look(&controller).await;
            assert_eq!(looked.is_err(), has_many_policies);
            assert_eq!(
                (cluster.phase().as_str(), ready().as_str()),
                ("Pending", "ReadTooSlow")
            );
            assert_eq!(cluster.server.writes().len(), writes);
            cluster.server.forget_writes();
            cluster.fill(&controller);
        }
        look(&cluster.controller()).await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), ready().as_str()),
            ("Granted", "Granted")
        );
    }
}

/// The status of the first attempt describes a grant, and is not one.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_first_attempt_failed_comes_through_as_well() {
    let cluster = Cluster::new();
    check_two_approvals(&cluster);
    add_policies(&cluster, of_another_connector);
    let mut controller = cluster.controller();
    cluster
        .server
        .refuse("POST rolebindings", StatusCode::FORBIDDEN);
    look(&controller).await.unwrap_err();
    assert_eq!(cluster.phase(), "Pending");
    cluster.server.accept();
    cluster.fill(&controller);
    let (client, lists) = slow(&cluster, is_slow, LIST);
    cluster.reads_by(&mut controller, client, PATIENT);
    let begun = Instant::now();
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    assert!(begun.elapsed() < OLDEST, "{:?}", begun.elapsed());
    assert_eq!(lists.lock().unwrap().most, 3);
}

/// Has a controller write a RoleBinding in so much time. Returns the POSTs.
fn write_bindings_within(
    controller: &mut Reconciler,
    cluster: &Cluster,
    delay: Duration,
) -> Arc<Mutex<Lists>> {
    let is_binding: fn(&Request<Body>) -> bool =
        |it| *it.method() == Method::POST && it.uri().path().ends_with("/rolebindings");
    let (client, bindings) = slow(cluster, is_binding, delay);
    let (leads, metrics) = (Arc::clone(&controller.leads), controller.metrics.clone());
    let writes = Writes::new(client, ONCE, leads, metrics.clone());
    let (live, clock) = (controller.live.clone(), Arc::clone(&controller.clock));
    controller.applier = Applier::new(live, writes, clock, metrics);
    bindings
}

/// The API server lists all bindings before it accepts one.
#[tokio::test(start_paused = true)]
async fn the_grants_of_many_policies_are_written_side_by_side() {
    let cluster = Cluster::new();
    add_policies(&cluster, |_| {});
    cluster.look().await.unwrap();
    cluster.approval("approved");
    let mut controller = cluster.controller();
    let bindings = write_bindings_within(&mut controller, &cluster, Duration::from_secs(2));
    let begun = Instant::now();
    look(&controller).await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), begun.elapsed()),
        ("Granted", Duration::from_secs(2))
    );
    let bindings = bindings.lock().unwrap();
    assert_eq!((bindings.begun.len(), bindings.most), (5, 5));
}

#[tokio::test]
async fn a_grant_that_cannot_be_written_keeps_no_other_one_back() {
    let cluster = Cluster::new();
    add_policies(&cluster, |_| {});
    cluster.look().await.unwrap();
    cluster.approval("approved");
    // A Role that nobody manages is in the way of one of them.
    let taken = crate::grant::name("request-uid", "p1-uid");
    cluster.server.remove("roles", &taken);
    cluster.server.put(
        "rolebindings",
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": taken, "namespace": "tools", "uid": "foreign"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"},
            "subjects": [],
        }),
    );
    look(&cluster.controller()).await.unwrap_err();
    assert_eq!(cluster.server.all("rolebindings").len(), 5);
    // The next look writes what is missing, and nothing again.
    cluster.server.remove("rolebindings", &taken);
    let mut controller = cluster.controller();
    let bindings = write_bindings_within(&mut controller, &cluster, Duration::ZERO);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    let bindings = bindings.lock().unwrap();
    assert_eq!(bindings.begun.len(), 1, "{bindings:?}");
}
