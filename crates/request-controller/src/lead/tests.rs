use std::{sync::Arc, time::Duration};

use connectors_api::access_policy::ObjectKind;
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;
use serde_json::{Value, json};
use service_kit::{
    controller::{
        leader,
        queue::{Looked, Queue, Taken, Urgency},
        worker::{self, Controller},
    },
    lease::Leadership,
    readiness::{Readiness, ReadinessPart, Status},
    shutdown::Tasks,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{KINDS, Leading};
use crate::{
    api::Name,
    cache::{Job, KindState},
    reconcile::Reconciler,
    testing::Cluster,
    watches::Caches,
};

struct Led {
    readiness: Readiness,
    leadership: watch::Sender<Leadership>,
    _tasks: Tasks,
}

/// The workers of the only shard.
struct OneShard(Arc<Reconciler>);

impl Controller for OneShard {
    type Job = Job;

    fn queue(&self) -> &Queue<Job> {
        self.0.queues.of(0)
    }

    async fn look(&self, taken: &Taken<Job>) -> Looked {
        self.0.look(taken).await
    }
}

/// Leads with workers of both lanes, as the process does.
fn start(controller: &Arc<Reconciler>) -> Led {
    let (caches, all_taken) = Caches::starting();
    all_taken.into_iter().for_each(ReadinessPart::ready);
    start_with(controller, caches)
}

fn leading(controller: &Arc<Reconciler>, caches: Caches) -> Leading {
    Leading {
        reconciler: Arc::clone(controller),
        shard: 0,
        caches,
        every: Duration::from_mins(5),
    }
}

fn start_with(controller: &Arc<Reconciler>, caches: Caches) -> Led {
    let (readiness, start) = Readiness::starting();
    let (leadership, known) = watch::channel(Leadership::Follower);
    let mut tasks = Tasks::new();
    let leading = leader::follow(
        leading(controller, caches),
        known,
        readiness.part("first sweep"),
        tasks.stop(),
    );
    tasks.spawn("leading", async move {
        leading.await;
        Ok::<(), std::io::Error>(())
    });
    for urgency in Urgency::ALL {
        let (controller, stop) = (Arc::clone(controller), tasks.stop());
        tasks.spawn("worker", async move {
            worker::work(&OneShard(controller), &[urgency], stop).await;
            Ok::<(), std::io::Error>(())
        });
    }
    start.ready();
    Led {
        readiness,
        leadership,
        _tasks: tasks,
    }
}

/// A Role that is managed for a request that there is not.
fn stray(cluster: &Cluster) {
    cluster.server.put(
        "roles",
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "car-stray", "namespace": "tools", "labels": {
                "app.kubernetes.io/managed-by": "connectors-approval",
                "connectors.alauda.io/accessRequestUid": "nobody",
            }},
        }),
    );
}

/// A request without a grant, whose first look writes its end.
fn ask_for_a_pod_that_is_gone(cluster: &Cluster) {
    let mut asks = cluster.server.named("accessrequests", "request").unwrap();
    asks["metadata"]["name"] = "another".into();
    asks["metadata"]["uid"] = "another-uid".into();
    asks["spec"]["connectorRef"]["name"] = "missing".into();
    asks["spec"]["context"]["objectRef"]["name"] = "gone".into();
    asks.as_object_mut().unwrap().remove("status");
    cluster.server.put("accessrequests", asks);
}

fn leader() -> Leadership {
    Leadership::Leader {
        until: Instant::now() + Duration::from_secs(10),
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_sweeps_then_takes_back_then_does_the_rest() {
    let cluster = Cluster::granted().await;
    stray(&cluster);
    cluster.server.change("pods", "run-deploy-pod", |pod| {
        pod["status"]["phase"] = "Failed".into();
    });
    ask_for_a_pod_that_is_gone(&cluster);

    let controller = Arc::new(cluster.controller());
    let (caches, all_taken) = Caches::starting();
    let led = start_with(&controller, caches);
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.server.writes().is_empty(), "nobody leads yet");
    assert_ne!(led.readiness.status(), Status::Ready);

    led.leadership.send_replace(leader());
    sleep(Duration::from_secs(1)).await;
    all_taken.into_iter().for_each(ReadinessPart::ready);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(led.readiness.status(), Status::Ready);
    let writes = cluster.server.writes();
    let at = |wanted: &str| {
        let found = writes.iter().position(|it| it.starts_with(wanted));
        found.unwrap_or_else(|| panic!("{wanted}: {writes:?}"))
    };
    assert_eq!(at("DELETE roles car-stray"), 0);
    assert!(at("DELETE rolebindings car-request-uid") < at("PUT accessrequests/status another"));
    assert!(cluster.managed().is_empty());
}

/// The lists of a sweep take seconds in a large cluster.
#[tokio::test(start_paused = true)]
async fn a_replica_with_complete_caches_revokes_before_its_first_sweep() {
    let ends: [fn(&Cluster); 2] = [
        |cluster| {
            let end = |pod: &mut Value| pod["status"]["phase"] = "Succeeded".into();
            cluster.server.change("pods", "run-deploy-pod", end);
        },
        |cluster| cluster.server.remove("pods", "run-deploy-pod"),
    ];
    for end in ends {
        let cluster = Cluster::granted().await;
        end(&cluster);
        ask_for_a_pod_that_is_gone(&cluster);
        let controller = Arc::new(cluster.controller());
        let refused = StatusCode::INTERNAL_SERVER_ERROR;
        cluster.server.refuse("LIST roles", refused);
        let led = start(&controller);
        led.leadership.send_replace(Leadership::Leader {
            until: Instant::now() + Duration::from_hours(1),
        });
        sleep(Duration::from_secs(2)).await;
        assert!(cluster.managed().is_empty());
        sleep(Duration::from_mins(5)).await;
        let other = || cluster.server.named("accessrequests", "another").unwrap();
        assert_eq!(other()["status"], Value::Null, "it waits for the sweep");
        assert_ne!(led.readiness.status(), Status::Ready);
        cluster.server.accept();
        sleep(Duration::from_mins(1)).await;
        assert_ne!(other()["status"], Value::Null);
        assert_eq!(led.readiness.status(), Status::Ready);
    }
}

/// There may be ten thousand with a grant.
#[tokio::test]
async fn only_requests_that_hold_something_and_lost_their_pod_are_looked_at_before_the_sweep() {
    let ends: [fn(&Cluster); 4] = [
        |_| {},
        |cluster| {
            let end = |pod: &mut Value| pod["status"]["phase"] = "Failed".into();
            cluster.server.change("pods", "run-deploy-pod", end);
        },
        |cluster| cluster.server.remove("pods", "run-deploy-pod"),
        |cluster| {
            let replace = |pod: &mut Value| pod["metadata"]["uid"] = "another-pod".into();
            cluster.server.change("pods", "run-deploy-pod", replace);
        },
    ];
    let mut woken = Vec::new();
    for end in ends {
        let cluster = Cluster::granted().await;
        ask_for_a_pod_that_is_gone(&cluster);
        end(&cluster);
        let controller = Arc::new(cluster.controller());
        let (caches, _parts) = Caches::starting();
        leading(&controller, caches).wake_without_pod();
        woken.push(controller.queues.of(0).depth());
    }
    assert_eq!(woken, [0, 1, 1, 1]);
}

/// The lists are those of another shard of the process.
#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_again_what_was_listed_before_it_led() {
    let cluster = Cluster::new();
    let controller = Arc::new(cluster.controller());
    crate::sweep::sweep(&controller, 0, Duration::ZERO)
        .await
        .unwrap();
    stray(&cluster);
    let led = start(&controller);
    led.leadership.send_replace(leader());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.server.named("roles", "car-stray"), None);
}

#[tokio::test(start_paused = true)]
async fn strays_go_again_and_again_while_a_kind_is_not_served_and_nothing_else_begins() {
    let cluster = Cluster::new();
    let controller = Arc::new(cluster.controller());
    let (caches, not_served) = Caches::starting();
    let led = start_with(&controller, caches);
    led.leadership.send_replace(Leadership::Leader {
        until: Instant::now() + Duration::from_hours(1),
    });
    for _ in 0..2 {
        stray(&cluster);
        sleep(Duration::from_mins(6)).await;
        assert!(cluster.server.all("roles").is_empty());
    }
    // What cannot be removed is tried again soon.
    cluster.server.refuse("DELETE roles", StatusCode::FORBIDDEN);
    stray(&cluster);
    sleep(Duration::from_mins(6)).await;
    assert_eq!(cluster.server.all("roles").len(), 1);
    cluster.server.accept();
    sleep(Duration::from_secs(11)).await;
    assert!(cluster.server.all("roles").is_empty());
    assert_ne!(cluster.phase(), "Pending");
    assert_ne!(led.readiness.status(), Status::Ready);
    not_served.into_iter().for_each(ReadinessPart::ready);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.phase(), "Pending");
    assert_eq!(led.readiness.status(), Status::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_ready_and_does_nothing() {
    let cluster = Cluster::new();
    let controller = Arc::new(cluster.controller());
    let led = start(&controller);
    sleep(Duration::from_secs(1)).await;
    // A step of the election that another one won.
    led.leadership.send_replace(Leadership::Follower);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(led.readiness.status(), Status::Ready);
    assert_eq!(cluster.server.calls(), 0);
}

/// A kind that only has labels cannot be listed for long. What ends a grant is read live.
#[tokio::test(start_paused = true)]
async fn grants_end_before_accounts_and_namespaces_are_listed_and_none_begins() {
    let cluster = Cluster::granted().await;
    cluster.server.change("pods", "run-deploy-pod", |pod| {
        pod["status"]["phase"] = "Succeeded".into();
    });
    let mut waiting = cluster.server.named("pods", "run-deploy-pod").unwrap();
    waiting["metadata"]["name"] = "another-pod".into();
    waiting["metadata"]["uid"] = "another-uid".into();
    waiting["status"]["phase"] = "Pending".into();
    cluster.server.put("pods", waiting);
    let mut asks = cluster.server.named("accessrequests", "request").unwrap();
    asks.as_object_mut().unwrap().remove("status");
    asks["metadata"]["name"] = "another".into();
    asks["metadata"]["uid"] = "another-request".into();
    asks["spec"]["context"]["objectRef"]["name"] = "another-pod".into();
    asks["spec"]["context"]["objectRef"]["uid"] = "another-uid".into();
    cluster.server.put("accessrequests", asks);
    let controller = Arc::new(cluster.controller());
    let (caches, [of_grants, complete]) = Caches::starting();
    let led = start_with(&controller, caches);
    led.leadership.send_replace(Leadership::Leader {
        until: Instant::now() + Duration::from_hours(1),
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.managed().len(), 2);
    of_grants.ready();
    sleep(Duration::from_mins(1)).await;
    assert!(cluster.managed().is_empty());
    let other = || cluster.server.named("accessrequests", "another").unwrap();
    assert_eq!(other()["status"], Value::Null);
    assert_ne!(led.readiness.status(), Status::Ready);
    complete.ready();
    sleep(Duration::from_mins(1)).await;
    assert_ne!(other()["status"], Value::Null);
    assert_eq!(led.readiness.status(), Status::Ready);
}

/// The same is true of a grant that ends while a kind cannot be listed, and of whose end no event tells.
#[tokio::test(start_paused = true)]
async fn what_holds_something_is_looked_at_with_each_sweep_before_all_is_listed() {
    let cluster = Cluster::granted().await;
    let controller = Arc::new(cluster.controller());
    let (caches, [of_grants, _complete]) = Caches::starting();
    let led = start_with(&controller, caches);
    led.leadership.send_replace(Leadership::Leader {
        until: Instant::now() + Duration::from_hours(1),
    });
    of_grants.ready();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(cluster.managed().len(), 2);
    cluster.approval("rejected");
    cluster.fill_objects(&controller);
    sleep(Duration::from_mins(6)).await;
    assert!(cluster.managed().is_empty());
    assert_ne!(led.readiness.status(), Status::Ready);
}

/// A process that never leads would keep a job of each pod that there ever was.
#[tokio::test(start_paused = true)]
async fn a_follower_keeps_no_jobs_and_a_new_leader_loses_none() {
    let cluster = Cluster::gated("tools/harbor");
    let controller = Arc::new(cluster.controller());
    let (caches, all_taken) = Caches::starting();
    let led = start_with(&controller, caches);
    sleep(Duration::from_secs(1)).await;
    let event = |number: usize| {
        let pod = Name::new("apps", &format!("pod-{number}"));
        controller
            .queues
            .wake(Job::Gate(pod.clone()), Urgency::Normal);
        let later = Duration::from_mins(1);
        controller
            .queues
            .wake_after(Job::Gate(pod), Urgency::Normal, later);
    };
    (0..100).for_each(event);
    assert!(controller.queues.of(0).census().iter().all(|it| *it == 0));
    led.leadership.send_replace(Leadership::Follower);
    sleep(Duration::from_secs(1)).await;
    (0..100).for_each(event);
    assert!(controller.queues.of(0).census().iter().all(|it| *it == 0));

    led.leadership.send_replace(Leadership::Leader {
        until: Instant::now() + Duration::from_hours(1),
    });
    sleep(Duration::from_secs(1)).await;
    // It was swept, and no worker may take anything yet.
    event(0);
    assert_eq!(controller.queues.of(0).depth(), 1);
    let gate = Name::new("apps", "run-deploy-pod");
    assert!(controller.world.read().gated.place(&gate).is_some());
    all_taken.into_iter().for_each(ReadinessPart::ready);
    sleep(Duration::from_secs(20)).await;
    // The job from before the leadership is found in the caches.
    let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
    assert_eq!(pod["spec"]["schedulingGates"].as_array().unwrap().len(), 1);
    assert_eq!(controller.queues.of(0).depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_leading_starts_nothing_more() {
    let cluster = Cluster::new();
    let controller = Arc::new(cluster.controller());
    let led = start(&controller);
    led.leadership.send_replace(leader());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.phase(), "Pending");
    // Nobody says so; its time is simply up.
    sleep(Duration::from_secs(6)).await;
    let calls = cluster.server.calls();
    cluster.approval("approved");
    cluster.fill(&controller);
    controller.queues.wake(
        crate::cache::Job::Request(Cluster::request()),
        Urgency::Urgent,
    );
    sleep(Duration::from_mins(1)).await;
    assert_eq!(cluster.server.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_which_nobody_says_anything_holds_no_leader_up() {
    let listing = KindState::Listing(ApiResource::erase::<ConfigMap>(&()));
    for state in [None, Some(KindState::Starting), Some(listing)] {
        let cluster = Cluster::granted().await;
        cluster.approval("rejected");
        let mut other = cluster.server.named("accesspolicies", "p").unwrap();
        other["metadata"]["name"] = "q".into();
        other["metadata"]["uid"] = "q-uid".into();
        let checks = &mut other["spec"]["checkGrantedPermission"]["spec"]["checks"];
        checks[0]["selector"]["objectRef"] =
            json!({"apiVersion": "example.com/v1", "kind": "Nowhere"});
        cluster.server.put("accesspolicies", other);
        let controller = Arc::new(cluster.controller());
        if let Some(state) = state.clone() {
            let kind = ObjectKind {
                api_version: "example.com/v1".to_owned(),
                kind: "Nowhere".to_owned(),
            };
            let _ = controller.world.write().kind(&kind, state);
        }
        let led = start(&controller);
        led.leadership.send_replace(Leadership::Leader {
            until: Instant::now() + Duration::from_hours(1),
        });
        // A grant is not judged on a kind that is being read.
        sleep(KINDS / 2).await;
        assert_eq!(cluster.managed().len(), 2, "{state:?}");
        sleep(KINDS).await;
        assert!(cluster.managed().is_empty(), "{state:?}");
        assert_eq!(led.readiness.status(), Status::Ready, "{state:?}");
    }
}

/// Another process, an upgrade or an uninstallation may have left it.
#[tokio::test(start_paused = true)]
async fn a_gate_that_nothing_needs_goes_when_a_process_begins_to_lead_and_with_each_sweep() {
    let gates = |cluster: &Cluster| {
        let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
        pod["spec"]["schedulingGates"].as_array().unwrap().len()
    };
    let cluster = Cluster::gated("tools/harbor");
    // The configuration says nothing about gates.
    let controller = Arc::new(cluster.controller());
    let led = start(&controller);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gates(&cluster), 2, "nobody leads yet");
    led.leadership.send_replace(Leadership::Leader {
        until: Instant::now() + Duration::from_hours(1),
    });
    sleep(Duration::from_secs(5)).await;
    assert_eq!(gates(&cluster), 1);
    // A gate of which the watch woke no job.
    let again = Cluster::gated("tools/harbor");
    cluster.server.put(
        "pods",
        again.server.named("pods", "run-deploy-pod").unwrap(),
    );
    cluster.fill_objects(&controller);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(gates(&cluster), 2);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(gates(&cluster), 1);
}
