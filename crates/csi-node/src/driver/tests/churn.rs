//! Three days in which pods come and go, on virtual time: nothing is remembered of those that are gone.

use std::path::Path;

use super::*;
use crate::{
    event_cache,
    testing::{FakeEvaluator, FakeKubernetes, FakeMounter, KUBELET, place_of, request_at},
    tool_cache,
    volume::VolumePath,
};

const TIME: Duration = Duration::from_hours(72);
/// Pods of which each is let in, or not, in another way.
const WAYS: usize = 6;

/// How many entries each map has. A new field does not compile uncounted.
fn census(driver: &Driver<FakeEvaluator, FakeKubernetes, FakeMounter>) -> [usize; 11] {
    let Driver {
        settings: _,
        evaluator: _,
        kubernetes: _,
        mounter: _,
        switch: _,
        object: _,
        metrics: _,
        stop: _,
        holds,
        asked,
        events,
        refused,
        tools,
        renders,
        kept,
        outdated,
        digests,
        memory,
        locks,
    } = driver;
    [
        holds.census(),
        asked.census(),
        kept.census(),
        outdated.census(),
        locks.census(),
        digests.census(),
        memory.census(),
        events.len(),
        refused.len(),
        tools.len(),
        RENDERS - renders.available_permits(),
    ]
}

pub(super) fn publish_request(pod: &str, place: &VolumePath) -> NodePublishVolumeRequest {
    let mut request = request_at(place);
    let uid = request.volume_context.get_mut("csi.storage.k8s.io/pod.uid");
    pod.clone_into(uid.unwrap());
    request
}

/// A pod from its first call to the removal of its volume.
async fn lives(world: &World, number: usize) {
    let pod = format!("uid-{number}");
    let place = place_of(Path::new(KUBELET), &pod, "tool");
    world.kubernetes.prove(&pod);
    world.switch.send_replace(ON);
    world.evaluator.says("tools/harbor", Some(no_request()));
    let publish = || {
        let driver = Arc::clone(&world.driver);
        let request = publish_request(&pod, &place);
        tokio::spawn(async move {
            let limit = Some(Duration::from_mins(2));
            driver.publish(request, limit).await
        })
    };
    match number % WAYS {
        0 => {
            let call = publish();
            sleep(Duration::from_secs(20)).await;
            world.evaluator.says("tools/harbor", Some(granted()));
            call.await.unwrap().unwrap();
        }
        1 => {
            // In vain, and again.
            for _ in 0..2 {
                assert_eq!(code(&publish().await.unwrap()), Code::PermissionDenied);
            }
        }
        2 => {
            world.evaluator.says("tools/harbor", Some(standing()));
            world.kubernetes.cluster().standing = true;
            publish().await.unwrap().unwrap();
            // Its files cannot be renewed.
            let connectors = world.kubernetes.cluster().connectors.clone();
            world.kubernetes.cluster().connectors.clear();
            sleep(tool_cache::AGE).await;
            publish().await.unwrap().unwrap();
            assert_eq!(world.driver.outdated.census(), 1);
            world.kubernetes.cluster().connectors = connectors;
            world.kubernetes.cluster().standing = false;
        }
        3 => {
            world.switch.send_replace(OFF);
            publish().await.unwrap().unwrap();
            world.switch.send_replace(ON);
            publish().await.unwrap().unwrap();
        }
        4 => {
            let refused = denied(Phase::Rejected, Ready::CheckRejected);
            world.evaluator.says("tools/harbor", Some(refused));
            assert!(publish().await.unwrap().is_err());
        }
        _ => {
            rejects(world, &pod);
            let mut request = publish_request(&pod, &place);
            asks_for_a_file(&mut request);
            world.driver.publish(request, None).await.unwrap();
        }
    }
    sleep(Duration::from_mins(1)).await;
    let request = publish_request(&pod, &place);
    let gone = NodeUnpublishVolumeRequest {
        volume_id: request.volume_id,
        target_path: request.target_path,
    };
    world.driver.unpublish(&gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_map_is_as_it_was_after_three_days_of_churn() {
    let world = World::new();
    let before = census(&world.driver);
    let (began, mut pods, mut most) = (Instant::now(), 0, 0);
    while began.elapsed() < TIME {
        let life = lives(&world, pods);
        tokio::pin!(life);
        // While it waits it is counted.
        let is_over = tokio::time::timeout(Duration::from_secs(10), &mut life).await;
        most = most.max(census(&world.driver)[..2].iter().sum());
        if is_over.is_err() {
            life.await;
        }
        world.kubernetes.cluster().calls.clear();
        pods += 1;
    }
    assert!(pods > 1000 && most > 0, "{pods} pods, {most} entries");
    let after = census(&world.driver);
    assert_eq!(after[..7], before[..7]);
    // The latest notes are remembered, also those to pods that are gone.
    assert!(after[7] <= event_cache::MOST, "{after:?}");
}
