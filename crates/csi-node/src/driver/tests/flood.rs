//! A namespace whose pods ask for many connectors that do not exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use connectors_api::access_request::MOST_OF_A_POD;

use super::*;
use crate::{
    hold_quota::{HoldLimits, HoldQuotaFull},
    testing::{KUBELET, place_of, request_at},
};

const PODS: usize = 12;
/// Volumes of a pod, and connectors of a volume: together more than a pod may ask for.
const VOLUMES: usize = 3;
const CONNECTORS: usize = 10;
/// Calls that may be held, so that not all pods of one namespace wait at the same time.
const LIMITS: HoldLimits = HoldLimits {
    node: 10,
    namespace: 8,
};

/// The call for a volume of a pod. From now on the token is that of the pod.
fn of(
    world: &World,
    namespace: &str,
    pod: &str,
    volume: &str,
    connectors: &str,
) -> NodePublishVolumeRequest {
    let mut request = request_at(&place_of(Path::new(KUBELET), pod, volume));
    for (key, value) in [
        ("csi.storage.k8s.io/pod.namespace", namespace),
        ("csi.storage.k8s.io/pod.uid", pod),
        ("connectors", connectors),
    ] {
        let context = &mut request.volume_context;
        context.insert(key.to_owned(), value.to_owned());
    }
    world.kubernetes.prove(pod);
    let mut cluster = world.kubernetes.cluster();
    let user = cluster.token.user.as_mut().unwrap();
    user.username = Some(format!("system:serviceaccount:{namespace}:builder"));
    drop(cluster);
    request
}

/// Starts a call, up to where it waits or has ended.
async fn begun(
    world: &World,
    request: NodePublishVolumeRequest,
) -> tokio::task::JoinHandle<Result_> {
    let driver = Arc::clone(&world.driver);
    let limit = Some(Duration::from_mins(2));
    let call = tokio::spawn(async move { driver.publish(request, limit).await });
    sleep(Duration::from_millis(10)).await;
    call
}

/// The calls for all volumes of a pod.
async fn floods(world: &World, pod: usize) -> Vec<tokio::task::JoinHandle<Result_>> {
    let mut calls = Vec::new();
    for volume in 0..VOLUMES {
        // Of the pod's own namespace, where a request is made without any policy.
        let connectors = (0..CONNECTORS).map(|it| format!("missing-{pod}-{volume}-{it}"));
        let connectors: Vec<_> = connectors.collect();
        let (uid, volume) = (format!("uid-{pod}"), format!("tool-{volume}"));
        let request = of(world, "shop", &uid, &volume, &connectors.join(","));
        calls.push(begun(world, request).await);
    }
    calls
}

/// The names of the requests in a namespace, by the UID of their pods.
fn requests(world: &World, namespace: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut pods: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for request in &world.kubernetes.cluster().requests {
        if request.metadata.namespace.as_deref() == Some(namespace) {
            let pod = request.spec.context.object_ref.uid.clone().unwrap();
            let names = pods.entry(pod).or_default();
            names.insert(request.metadata.name.clone().unwrap());
        }
    }
    pods
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_asks_for_what_does_not_exist_makes_sixteen_requests_for_a_pod_and_others_are_served()
 {
    let mut world = World::new();
    Arc::get_mut(&mut world.driver).unwrap().holds = HoldQuota::new(LIMITS);
    let mut seen = BTreeSet::new();
    // Each time other pods come first, so that each pod waits some time.
    for round in 0..4 {
        let mut calls = Vec::new();
        for pod in 0..PODS {
            let pod = (pod + round * LIMITS.namespace) % PODS;
            calls.extend(floods(&world, pod).await);
        }
        // Only pods that wait have made any.
        let waiting = calls.iter().filter(|call| !call.is_finished()).count();
        assert_eq!(waiting, LIMITS.namespace);
        let most = LIMITS.namespace * (round + 1) * MOST_OF_A_POD;
        let made: usize = requests(&world, "shop").values().map(BTreeSet::len).sum();
        assert!(made <= most, "{made} in round {round}");

        // A pod with access is served at once, and one without it waits for itself.
        let (ready, late) = (format!("uid-ready-{round}"), format!("uid-late-{round}"));
        world.evaluator.says("tools/harbor", Some(granted()));
        let request = of(&world, "bank", &ready, "tool", "tools/harbor");
        let before = Instant::now();
        world.driver.publish(request, None).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        world.evaluator.says("tools/git", Some(no_request()));
        let request = of(&world, "bank", &late, "tool", "tools/git");
        let waits = begun(&world, request).await;
        assert!(!waits.is_finished());
        assert_eq!(requests(&world, "tools")[&late].len(), 1);
        world.evaluator.says("tools/git", Some(granted()));
        let before = Instant::now();
        waits.await.unwrap().unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);

        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            seen.insert(error.as_str());
            let is_known = matches!(
                &error,
                PublishError::Waiting { .. }
                    | PublishError::Crowded(HoldQuotaFull::Requests | HoldQuotaFull::Namespace(_))
            );
            assert!(is_known, "{error}");
        }
    }
    assert_eq!(seen, BTreeSet::from(["crowded", "waiting"]));
    let made = requests(&world, "shop");
    assert_eq!(made.len(), PODS);
    for (pod, names) in made {
        assert_eq!(names.len(), MOST_OF_A_POD, "{pod}");
    }
}
