//! A thousand calls that wait for access at the same time, and their kubelet that loses patience.

use std::{collections::HashMap, time::Duration};

use connectors_api::hex;
use csi_node::proto::csi::{
    NodePublishVolumeRequest, VolumeCapability,
    node_client::NodeClient,
    volume_capability::{AccessType, MountVolume},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::support::{Cluster, Driver, Pod, until, within};

const CALLS: usize = 1000;
/// How often so many are held, and given up.
const ROUNDS: usize = 3;
/// Both ends of each connection, and those to the API server.
const FILES: u64 = 8192;

/// Open files of the driver beside those of held calls. A request to the API server takes a connection, so that this is
/// more than may be sent at a time.
const MOST_FILES: usize = 150;

/// The memory of the driver for a held call, beside its memory at rest, after each round. Memory that one round gives back is
/// used by the next one; the allocator keeps some of it in pieces.
const MOST_FOR_A_CALL: u64 = 128 * 1024;
/// A thread of the pool for files goes when it had nothing to do for ten seconds.
const IDLE: Duration = Duration::from_secs(40);

type HeldMount = JoinHandle<Result<(), Status>>;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_are_held_with_little_memory_and_no_thread_each() {
    allow_files();
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(true);
    let room = ["--max-held", "--max-held-per-namespace"].map(|it| format!("{it}={CALLS}"));
    let driver = Driver::gated(&mut cluster, dir.path(), &room).await;
    let pods: Vec<Pod> = (0..CALLS)
        .map(|it| cluster.pod(&format!("p{it}")))
        .collect();
    // Some memory comes with the first call and stays.
    let kubelet = dir.path().to_str().unwrap();
    let one = vec![hold(&driver, kubelet, &pods[0]).await];
    held(&driver, 1).await;
    hang_up(one).await;
    held(&driver, 0).await;
    let (rest, threads) = (driver.memory(), driver.holds().threads);
    for round in 1..=ROUNDS {
        let mut calls = Vec::new();
        for pod in &pods {
            calls.push(hold(&driver, kubelet, pod).await);
        }
        held(&driver, CALLS).await;
        until("a request of each pod", || {
            (cluster.requests() == CALLS).then_some(())
        })
        .await;
        if round == 1 {
            within(IDLE, "threads that have nothing to do to end", || {
                (driver.holds().threads <= threads).then_some(())
            })
            .await;
        }
        let (memory, holds) = (driver.memory(), driver.holds());
        let each = memory.saturating_sub(rest) / u64::try_from(CALLS).unwrap();
        println!(
            "round {round}: {CALLS} held, {} KiB, {each} bytes each, {holds:?}; at rest {} KiB, {threads} threads",
            memory / 1024,
            rest / 1024,
        );
        assert!(each <= MOST_FOR_A_CALL, "{each} bytes for a held call");
        // More files than it was started with: each call has a connection. Those to the API server do not grow with them.
        assert!(holds.files > 1024, "{holds:?}");
        assert!(holds.files < CALLS + MOST_FILES, "{holds:?}");
        // Every other kubelet hangs up, and the rest goes on to be held.
        let (gone, kept): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .enumerate()
            .partition(|(number, _)| number % 2 == 0);
        hang_up(gone.into_iter().map(|(_, call)| call).collect()).await;
        held(&driver, CALLS / 2).await;
        let kept: Vec<_> = kept.into_iter().map(|(_, call)| call).collect();
        assert!(kept.iter().all(|call| !call.is_finished()));
        if round < ROUNDS {
            hang_up(kept).await;
            held(&driver, 0).await;
            continue;
        }
        // Those that are left are answered when the process ends.
        driver.end().await;
        for call in kept {
            let status = call.await.unwrap().unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        }
        return;
    }
}

/// Waits until so many calls are held.
async fn held(driver: &Driver, calls: usize) {
    let what = format!("{calls} held calls");
    let wanted = u32::try_from(calls).unwrap();
    until(&what, || {
        let held = driver.metric("connectors_mount_held")?;
        ((held - f64::from(wanted)).abs() < f64::EPSILON).then_some(())
    })
    .await;
}

/// A call on a connection of its own, with the kubelet's two minutes.
async fn hold(driver: &Driver, kubelet: &str, pod: &Pod) -> HeldMount {
    let mut node = NodeClient::new(driver.connect().await);
    let mut request = Request::new(publish(kubelet, pod));
    request.set_timeout(Duration::from_mins(2));
    tokio::spawn(async move { node.node_publish_volume(request).await.map(|_| ()) })
}

async fn hang_up(calls: Vec<HeldMount>) {
    for call in &calls {
        call.abort();
    }
    for call in calls {
        assert!(call.await.unwrap_err().is_cancelled());
    }
}

fn publish(kubelet: &str, pod: &Pod) -> NodePublishVolumeRequest {
    let map =
        |object: Value| -> HashMap<String, String> { serde_json::from_value(object).unwrap() };
    let uid = &pod.uid;
    let id = hex(&Sha256::digest(format!("{uid}tool")));
    NodePublishVolumeRequest {
        volume_id: format!("csi-{id}"),
        target_path: format!("{kubelet}/pods/{uid}/volumes/kubernetes.io~csi/tool/mount"),
        volume_capability: Some(VolumeCapability {
            access_mode: None,
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        readonly: true,
        secrets: map(pod.secrets()),
        volume_context: map(pod.context()),
        ..NodePublishVolumeRequest::default()
    }
}

/// As many open files as this process and its children need.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|it| it < FILES) {
        let raised = Rlimit {
            current: Some(FILES),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}
