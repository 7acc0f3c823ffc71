use connectors_api::{AccessRequest, config::CONFIG_MAP};
use futures::FutureExt;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use service_kit::readiness::Status;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{api::Name, plan::pace::Pace, testing::Cluster};

const NAMESPACE: &str = "connectors-system";

fn settings(cluster: &Cluster) -> Settings {
    let now = Arc::clone(&cluster.now);
    let terms = [60, 50, 20].map(Duration::from_secs);
    Settings {
        client: cluster.server.client(),
        evaluator: cluster.evaluator(),
        clock: Arc::new(move || *now.lock().unwrap()),
        namespace: NAMESPACE.to_owned(),
        identity: "replica".to_owned(),
        lease: LeaseTerms::new(terms[0], terms[1], terms[2]).unwrap(),
        sweep_every: Duration::from_mins(5),
        retention: SignedDuration::from_hours(168),
        most_waiting: 2,
        shards: cluster.shards,
        lanes: [Handle::current(), Handle::current()],
    }
}

/// The watches, the election, the workers and the gauges.
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_is_elected_grants_what_was_approved_and_shows_it() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.server.put(
        "configmaps",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {"enable-connectors-approval": "true"},
        }),
    );
    let (registry, mut tasks) = (Registry::new(), Tasks::new());
    let (readiness, started) = Readiness::starting();
    start(settings(&cluster), &registry, &mut tasks, &readiness).unwrap();
    started.ready();
    sleep(Duration::from_secs(15)).await;
    assert_eq!(readiness.status(), Status::Ready);
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
    let shown = TextEncoder::new().encode_to_string(&registry.gather());
    let shown = shown.unwrap();
    for line in [
        "connectors_leader{controller=\"request-controller\"} 1\n",
        "connectors_approval_enabled 1\n",
        // No watch has told of the grant.
        "connectors_requests_pending 1\n",
        "connectors_request_granting_seconds_count 1\n",
    ] {
        assert!(shown.contains(line), "{line}{shown}");
    }
}

#[tokio::test]
async fn jobs_of_one_namespace_take_half_of_the_workers_of_a_lane() {
    for (urgency, most) in [(Urgency::Urgent, 6), (Urgency::Normal, 32)] {
        let queue = queue(Arc::default());
        queue.open(urgency);
        for number in 0..100 {
            queue.wake(Job::Grant(Name::new("tools", &number.to_string())), urgency);
        }
        let mut taken = 0;
        while queue.take(&[urgency]).now_or_never().is_some() {
            taken += 1;
        }
        assert_eq!(taken, most, "{urgency:?}");
        let all = match urgency {
            Urgency::Urgent => URGENT_WORKERS,
            Urgency::Normal => WORKERS,
        };
        assert_eq!(all, 2 * most, "{urgency:?}");
    }
}

#[tokio::test]
async fn a_namespace_that_asks_in_all_shards_has_the_share_of_one() {
    let reconciler = Arc::new(Cluster::new().controller());
    let places = FairLimiter::new(2, 1);
    let lane = ShardWorkers {
        reconciler,
        shard: 0,
        places: places.clone(),
    };
    let taken = Taken {
        job: Job::Request(Cluster::request()),
        since: Instant::now(),
    };
    // A job of the same pods' namespace runs in another shard.
    let elsewhere = places.take("apps".to_owned()).await;
    assert_eq!(lane.look(&taken).now_or_never(), None);
    let _another = places.take("shop".to_owned()).await;
    drop(elsewhere);
    assert_eq!(lane.look(&taken).await, Looked::Done);
}

#[tokio::test(start_paused = true)]
async fn the_leader_alone_tells_of_a_decided_request_that_was_deleted() {
    for (leads, phase, about) in [
        (true, "Rejected", vec!["AccessRequest", "Pod"]),
        (false, "Rejected", vec![]),
        (true, "Pending", vec![]),
    ] {
        let cluster = Cluster::new();
        let controller = Arc::new(cluster.controller());
        cluster
            .leads
            .store(leads, std::sync::atomic::Ordering::SeqCst);
        let pace = Box::new(("request-uid".into(), Pace::default()));
        let paces = || controller.paces.lock().unwrap();
        paces().insert(Cluster::request(), pace);
        let mut request = cluster.server.named("accessrequests", "request").unwrap();
        request["status"] = json!({ "phase": phase });
        let request: AccessRequest = serde_json::from_value(request).unwrap();
        deleted(Arc::clone(&controller))(Arc::new(request));
        sleep(Duration::from_secs(1)).await;
        let events = cluster.server.events();
        let told = |it: &Value| it["regarding"]["kind"].as_str().unwrap().to_owned();
        let mut told: Vec<_> = events.iter().map(told).collect();
        told.sort_unstable();
        assert_eq!(told, about, "{leads} {phase}");
        // Each replica drops what it knows of the request.
        assert!(paces().is_empty());
    }
}
