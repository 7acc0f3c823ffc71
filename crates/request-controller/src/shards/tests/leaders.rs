//! The work of processes that lead some of the shards.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectors_api::config::CONFIG_MAP;
use jiff::SignedDuration;
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use service_kit::{
    controller::queue::{Looked, Taken, Urgency},
    lease::LeaseTerms,
    readiness::{Readiness, Status},
    shutdown::Tasks,
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    api::Name,
    cache::Job,
    controller::{self, Settings},
    reconcile::{ReconcileError, Reconciler},
    shards::ShardCount,
    sweep::sweep,
    testing::Cluster,
};

/// The shard of namespace `tools`, of which the cluster's request is.
const TOOLS: usize = 1;
/// A namespace of the other shard.
const OTHER: &str = "loud";

/// Two shards, of which a process leads one.
fn without(mut cluster: Cluster, shard: usize) -> Cluster {
    cluster.shards = ShardCount::TWO;
    cluster.not_led.lock().unwrap().push(shard);
    cluster
}

fn taken(job: Job) -> Taken<Job> {
    Taken {
        job,
        since: Instant::now(),
    }
}

fn stray(cluster: &Cluster, namespace: &str) {
    cluster.server.put(
        "roles",
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": format!("car-{namespace}"), "namespace": namespace, "labels": {
                "app.kubernetes.io/managed-by": "connectors-approval",
                "connectors.alauda.io/accessRequestUid": "no-request",
            }},
        }),
    );
}

#[test]
fn the_namespaces_of_these_tests_are_in_different_shards() {
    let shards = ["tools", "apps", OTHER].map(|it| ShardCount::TWO.of(it));
    assert_eq!(shards, [TOOLS, TOOLS, 0]);
}

/// Such a job may come from a queue by a mistake, or have been taken before the shard was lost.
#[tokio::test]
async fn a_job_of_a_shard_that_is_not_led_is_not_begun() {
    for (not_led, calls) in [(TOOLS, false), (0, true)] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let cluster = without(cluster, not_led);
        let controller = cluster.controller();
        let jobs = [
            Job::Request(Cluster::request()),
            Job::Grant(Name::new("tools", "car-x")),
        ];
        for job in jobs {
            assert_eq!(controller.look(&taken(job)).await, Looked::Done);
        }
        assert_eq!(cluster.server.calls() > 0, calls, "{not_led}");
    }
}

/// The check before each write does not rely on the queue.
#[tokio::test]
async fn nothing_is_written_for_a_shard_that_is_not_led() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let cluster = without(cluster, TOOLS);
    let controller = cluster.controller();
    let refused = controller
        .request(&Cluster::request(), Instant::now())
        .await;
    assert!(
        matches!(refused, Err(ReconcileError::Apply(_))),
        "{refused:?}"
    );
    stray(&cluster, "tools");
    let refused = controller.grant(&Name::new("tools", "car-tools")).await;
    assert!(
        matches!(refused, Err(ReconcileError::Apply(_))),
        "{refused:?}"
    );
    assert_eq!(cluster.server.writes(), Vec::<String>::new());
    stray(&cluster, OTHER);
    let removed = controller.grant(&Name::new(OTHER, "car-loud")).await;
    assert_eq!(removed.unwrap(), 1);
}

/// The connectors of a pod may be in namespaces of other shards. Its gate has one leader, that of the pod's namespace, who
/// also creates its requests.
#[tokio::test]
async fn the_leader_of_a_pods_namespace_creates_its_requests_in_all_namespaces() {
    for (not_led, created) in [(0, 1), (TOOLS, 0)] {
        let cluster = Cluster::gated("loud/harbor");
        let connector = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"name": "harbor", "namespace": OTHER, "uid": "other-uid"},
            "spec": {"connectorClassName": "harbor"},
        });
        cluster.server.put("connectors", connector);
        let mut policy = cluster.server.named("accesspolicies", "p").unwrap();
        policy["metadata"]["namespace"] = OTHER.into();
        policy["metadata"]["name"] = "other".into();
        policy["metadata"]["uid"] = "other-policy".into();
        cluster.server.put("accesspolicies", policy);
        let cluster = without(cluster, not_led);
        let controller = cluster.controller();
        let gates = [
            ("enable-connectors-approval", "true"),
            ("scheduling-gate", "Set"),
        ];
        let gates = gates.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let _ = controller.world.write().learn(&BTreeMap::from(gates));
        let gate = Job::Gate(Name::new("apps", "run-deploy-pod"));
        controller.look(&taken(gate)).await;
        let requests = cluster.server.all("accessrequests");
        assert_eq!(
            requests.len(),
            created,
            "{not_led}: {:?}",
            cluster.server.writes()
        );
    }
}

#[tokio::test]
async fn a_sweep_removes_only_what_is_of_its_shard() {
    for shard in [0, TOOLS] {
        let cluster = without(Cluster::new(), 1 - shard);
        stray(&cluster, "tools");
        stray(&cluster, OTHER);
        let controller = cluster.controller();
        let swept = sweep(&controller, shard, Duration::ZERO).await.unwrap();
        assert_eq!((swept.managed, swept.removed, swept.left), (1, 1, 0));
        let left = cluster.server.all("roles");
        let expected = ["tools", OTHER][shard];
        assert_eq!(left.len(), 1);
        assert_eq!(left[0]["metadata"]["namespace"], expected);
        let orphaned = controller.gauges.iter().map(|it| it.orphaned.get());
        assert_eq!(orphaned.collect::<Vec<_>>(), [0, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_process_share_the_lists_of_their_sweeps() {
    let mut cluster = Cluster::new();
    cluster.shards = "16".parse().unwrap();
    let controller = Arc::new(cluster.controller());
    let every = Duration::from_mins(5);
    let sweeps = async |age: Duration| {
        let before = cluster.server.calls();
        let all = cluster.shards.all().map(|shard| {
            let controller = Arc::clone(&controller);
            tokio::spawn(async move { sweep(&controller, shard, age).await.is_ok() })
        });
        for swept in all.collect::<Vec<_>>() {
            assert!(swept.await.unwrap());
        }
        cluster.server.calls() - before
    };
    // Three lists each.
    let first = sweeps(Duration::ZERO).await;
    assert!((3..=6).contains(&first), "{first}");
    assert_eq!(sweeps(every / 2).await, 0);
    sleep(every).await;
    let next = sweeps(every / 2).await;
    assert!((3..=6).contains(&next), "{next}");
    // A new leader never relies on what was listed before.
    let fresh = sweeps(Duration::ZERO).await;
    assert!((3..=6).contains(&fresh), "{fresh}");
}

#[tokio::test]
async fn a_job_waits_in_the_queue_of_its_shard() {
    let cluster = without(Cluster::new(), 0);
    let controller = cluster.controller();
    let depth = |controller: &Reconciler| [0, TOOLS].map(|it| controller.queues.of(it).depth());
    for namespace in ["tools", "tools", OTHER] {
        let jobs = [Job::Request, Job::Grant, Job::Gate];
        for job in jobs {
            controller
                .queues
                .wake(job(Name::new(namespace, "a")), Urgency::Normal);
        }
    }
    assert_eq!(depth(&controller), [3, 3]);
    controller.queues.of(0).close();
    let later = Duration::from_secs(1);
    let job = Job::Gate(Name::new("apps", "b"));
    controller.queues.wake_after(job, Urgency::Normal, later);
    let job = Job::Request(Name::new(OTHER, "b"));
    controller.queues.wake_after(job, Urgency::Normal, later);
    assert_eq!(depth(&controller), [0, 4]);
}

#[tokio::test]
async fn requests_and_gates_are_counted_in_one_shard() {
    let cluster = without(Cluster::granted().await, 0);
    let gated = Cluster::gated("tools/harbor");
    let pod = gated.server.named("pods", "run-deploy-pod").unwrap();
    cluster.server.put("pods", pod);
    let controller = cluster.controller();
    let state = controller.world.read();
    let counted = [0, TOOLS].map(|shard| {
        let is_ours = |namespace: &str| cluster.shards.of(namespace) == shard;
        let counts = state.requests.counts(is_ours);
        (counts.granted, counts.pending, state.gated.count(is_ours))
    });
    assert_eq!(counted, [(0, 0, 0), (1, 0, 1)]);
}

/// The elections, the queues, the sweeps, the gauges and the readiness of one process. Two of them are in the campaign.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_alone_leads_all_shards_and_shows_each() {
    let mut cluster = Cluster::new();
    cluster.shards = ShardCount::TWO;
    cluster.approval("approved");
    cluster.server.put(
        "configmaps",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": "connectors-system"},
            "data": {"enable-connectors-approval": "true"},
        }),
    );
    let now = Arc::clone(&cluster.now);
    // Nothing is renewed: this API server replaces no leases.
    let terms = [60, 50, 20].map(Duration::from_secs);
    let settings = Settings {
        client: cluster.server.client(),
        evaluator: cluster.evaluator(),
        clock: Arc::new(move || *now.lock().unwrap()),
        namespace: "connectors-system".to_owned(),
        identity: "alone".to_owned(),
        lease: LeaseTerms::new(terms[0], terms[1], terms[2]).unwrap(),
        sweep_every: Duration::from_mins(5),
        retention: SignedDuration::from_hours(168),
        most_waiting: 2,
        shards: cluster.shards,
        lanes: [Handle::current(), Handle::current()],
    };
    let (registry, mut tasks) = (Registry::new(), Tasks::new());
    let (readiness, started) = Readiness::starting();
    controller::start(settings, &registry, &mut tasks, &readiness).unwrap();
    started.ready();
    sleep(Duration::from_secs(15)).await;
    assert_eq!(readiness.status(), Status::Ready);
    assert_eq!(cluster.phase(), "Granted");
    for lease in ["request-controller", "request-controller-1"] {
        let lease = cluster.server.named("leases", lease).unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "alone");
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.unwrap();
    for line in [
        "connectors_leader{controller=\"request-controller\",shard=\"0\"} 1\n",
        "connectors_leader{controller=\"request-controller\",shard=\"1\"} 1\n",
        "connectors_requests_pending{shard=\"0\"} 0\n",
        "connectors_requests_pending{shard=\"1\"} 1\n",
        "connectors_request_shards 2\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
