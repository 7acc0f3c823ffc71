//! The memory of volumes: each namespace has its share, and a pod without memory waits.

use std::path::Path;

use super::{
    deliver::{class, file, request_with},
    *,
};
use crate::{
    memory_quota::{MemoryLimits, MemoryQuotaFull},
    testing::{KUBELET, place_of, request_at},
};

/// A file of which two sets, with all else of a volume, take less than half a mebibyte.
const LARGE: usize = 180 << 10;

/// A node with so many mebibytes for volumes, whose class makes a large file.
fn node(node: usize, namespace: usize) -> World {
    let mut world = World::new();
    let driver = Arc::get_mut(&mut world.driver).unwrap();
    let gauge = driver.metrics.memory.clone();
    driver.memory = MemoryQuota::new(MemoryLimits { node, namespace }, gauge);
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().class = class(&"x".repeat(LARGE));
    world
}

/// The call for a volume of a pod of this namespace, whose token is the one that counts.
fn of(world: &World, namespace: &str, volume: &str) -> NodePublishVolumeRequest {
    let place = place_of(Path::new(KUBELET), "uid-1", volume);
    let mut request = request_at(&place);
    request.secrets = request_with("t1").secrets;
    for (key, value) in [
        ("csi.storage.k8s.io/pod.namespace", namespace),
        ("configuration.names", "docker"),
    ] {
        let context = &mut request.volume_context;
        context.insert(key.to_owned(), value.to_owned());
    }
    let mut cluster = world.kubernetes.cluster();
    let user = cluster.token.user.as_mut().unwrap();
    user.username = Some(format!("system:serviceaccount:{namespace}:builder"));
    drop(cluster);
    request
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_its_share_of_memory_waits_for_itself_alone() {
    let world = node(2, 1);
    let publish = |request| world.driver.publish(request, None);
    for volume in ["tool", "tool-1"] {
        publish(of(&world, "shop", volume)).await.unwrap();
    }
    let third = of(&world, "shop", "tool-2");
    let result = publish(third.clone()).await;
    assert_eq!(
        result,
        Err(PublishError::NoMemory(MemoryQuotaFull::Namespace(1)))
    );
    assert!(!is_final(code(&result)));
    assert!(text(&result).contains("csiNode.maxVolumeMebibytesPerNamespace: 1"));
    assert_eq!(world.mounter.node().found.len(), 2);
    // Others have theirs, up to what there is.
    for volume in ["bank", "bank-1"] {
        publish(of(&world, "bank", volume)).await.unwrap();
    }
    let full = publish(of(&world, "mill", "mill")).await;
    assert_eq!(full, Err(PublishError::NoMemory(MemoryQuotaFull::Node(2))));
    // A volume that goes makes room.
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    publish(of(&world, "shop", "tool-2")).await.unwrap();
    assert_eq!(world.driver.memory.census(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_fails_takes_no_memory() {
    let world = node(2, 1);
    world.mounter.node().publish_fails = true;
    let result = world.driver.publish(of(&world, "shop", "tool"), None).await;
    assert_eq!(code(&result), Code::Internal);
    assert_eq!(world.driver.memory.total(), 0);
    // Of something that could not be removed it stays until that is.
    {
        let mut node = world.mounter.node();
        (node.publish_fails, node.clear_fails) = (true, true);
    }
    let result = world.driver.publish(of(&world, "shop", "tool"), None).await;
    assert_eq!(code(&result), Code::Aborted);
    assert!(world.driver.memory.total() > 0);
    world.mounter.node().clear_fails = false;
    world.evaluator.says("tools/harbor", None);
    let limit = Some(Duration::from_secs(1));
    let request = of(&world, "shop", "tool");
    let result = world.driver.publish(request, limit).await;
    assert_eq!(code(&result), Code::Unavailable);
    assert_eq!(world.driver.memory.total(), 0);
}

/// A running pod is not torn down.
#[tokio::test(start_paused = true)]
async fn newer_files_that_do_not_fit_are_not_written_and_the_pod_keeps_what_it_has() {
    let world = node(2, 1);
    world.kubernetes.cluster().class = class("small");
    for volume in ["tool", "tool-1", "tool-2"] {
        let request = of(&world, "shop", volume);
        world.driver.publish(request, None).await.unwrap();
    }
    world.kubernetes.cluster().class = class(&"x".repeat(LARGE));
    sleep(crate::tool_cache::AGE).await;
    let mut failed = Vec::new();
    for volume in ["tool", "tool-1", "tool-2", "tool-2"] {
        let request = of(&world, "shop", volume);
        world.driver.publish(request, None).await.unwrap();
        let count = counted(&world, "connectors_mount_refreshes_total", "failed");
        failed.push(format!("{count}"));
    }
    assert_eq!(failed, ["0", "0", "1", "2"]);
    assert_eq!(world.mounter.node().compared, 2);
}

/// Volumes that are found at the start stay, whatever the limits are.
#[tokio::test(start_paused = true)]
async fn volumes_of_an_earlier_process_keep_their_memory_and_leave_none_to_new_ones() {
    let world = node(2, 1);
    let request = of(&world, "shop", "tool");
    world.driver.publish(request.clone(), None).await.unwrap();
    let next = node(2, 1);
    let found = world.mounter.node().found.clone();
    next.mounter.node().found = found;
    next.driver
        .memory
        .found(place("tool"), "shop".to_owned(), 1 << 20);
    next.driver.publish(request, None).await.unwrap();
    assert_eq!(file(&next, "config").map(|it| it.len()), Some(LARGE));
    let other = next.driver.publish(of(&next, "shop", "other"), None).await;
    assert_eq!(code(&other), Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn an_error_takes_memory_of_the_pods_namespace_too() {
    let world = node(1, 1);
    rejects(&world, "uid-1");
    let mut request = request();
    asks_for_a_file(&mut request);
    call(&world, request).await.unwrap();
    let taken = world.driver.memory.total();
    assert!((1..64 << 10).contains(&taken), "{taken}");
}
