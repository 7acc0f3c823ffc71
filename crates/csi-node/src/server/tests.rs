//! The services as the kubelet meets them: real gRPC over real unix sockets.

mod malformed;

use std::{path::PathBuf, sync::Arc, time::Duration};

use service_kit::{
    readiness::Readiness,
    serve::{InUse, UnixSocket},
    shutdown::Tasks,
};
use tempfile::TempDir;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};

use super::{DriverIdentity, DriverNode, Registrar, serve_csi, serve_registration};
use crate::{
    mounter::Mounter,
    proto::{
        csi::{
            GetPluginCapabilitiesRequest, GetPluginInfoRequest, NodeGetCapabilitiesRequest,
            NodeGetInfoRequest, NodePublishVolumeRequest, NodeUnpublishVolumeRequest, ProbeRequest,
            identity_client::IdentityClient, node_client::NodeClient,
        },
        registration::{InfoRequest, RegistrationStatus, registration_client::RegistrationClient},
    },
    testing::{FakeMounter, World, granted, request},
};

async fn connect(path: PathBuf) -> Channel {
    let url = format!("unix://{}", path.display());
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

struct Served<M = FakeMounter> {
    world: World<M>,
    channel: Channel,
    readiness: Readiness,
    start: Option<service_kit::readiness::ReadinessPart>,
    tasks: Tasks,
    serving: tokio::task::JoinHandle<()>,
    folder: TempDir,
}

async fn served() -> Served {
    serve(World::new()).await
}

async fn serve<M: Mounter>(world: World<M>) -> Served<M> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("csi.sock");
    let (readiness, start) = Readiness::starting();
    let identity = DriverIdentity {
        name: "connectors-csi".to_owned(),
        readiness: readiness.clone(),
    };
    let node = DriverNode(Arc::clone(&world.driver));
    let tasks = Tasks::new();
    let socket = UnixSocket::bind(&path, InUse::Replace).unwrap();
    let serving = tokio::spawn(serve_csi(socket, identity, node, tasks.stop()));
    Served {
        world,
        channel: connect(path).await,
        readiness,
        start: Some(start),
        tasks,
        serving,
        folder,
    }
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn identity_says_who_it_is_and_has_no_controller() {
    let mut served = served().await;
    let mut identity = IdentityClient::new(served.channel.clone());
    let info = identity
        .get_plugin_info(GetPluginInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.get_ref().name, "connectors-csi");
    assert!(!info.get_ref().vendor_version.is_empty());
    let able = identity
        .get_plugin_capabilities(GetPluginCapabilitiesRequest {})
        .await;
    assert_eq!(able.unwrap().get_ref().capabilities, []);
    let ready = async |identity: &mut IdentityClient<Channel>| {
        identity
            .probe(ProbeRequest {})
            .await
            .unwrap()
            .get_ref()
            .ready
    };
    assert_eq!(ready(&mut identity).await, Some(false));
    served.start.take().unwrap().ready();
    assert_eq!(ready(&mut identity).await, Some(true));
    served.readiness.stop();
    assert_eq!(ready(&mut identity).await, Some(false));
}

#[tokio::test]
async fn the_node_says_where_it_is() {
    let served = served().await;
    let mut node = NodeClient::new(served.channel.clone());
    let info = node.node_get_info(NodeGetInfoRequest {}).await.unwrap();
    assert_eq!(
        (
            info.get_ref().node_id.as_str(),
            info.get_ref().max_volumes_per_node
        ),
        ("node-1", 0)
    );
    let able = node
        .node_get_capabilities(NodeGetCapabilitiesRequest {})
        .await
        .unwrap();
    assert_eq!(able.get_ref().capabilities, []);
}

/// The kubelet opens a connection for each call, also while many mounts are held.
#[tokio::test]
async fn many_open_connections_leave_one_for_the_end_of_a_pod() {
    let served = served().await;
    let path = served.folder.path().join("csi.sock");
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut node = NodeClient::new(connect(path.clone()).await);
        let answered = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
        let answered = tokio::time::timeout(Duration::from_secs(20), answered).await;
        answered.expect("an answer in time").unwrap();
        open.push(node);
    }
    assert_eq!(open.len(), 200);
}

/// The cases of the conformance suite that apply to a driver of inline volumes.
#[tokio::test]
async fn calls_without_their_arguments_are_refused() {
    let served = served().await;
    let mut node = NodeClient::new(served.channel.clone());
    let without = |change: fn(&mut NodePublishVolumeRequest)| {
        let mut request = request();
        change(&mut request);
        request
    };
    for request in [
        NodePublishVolumeRequest::default(),
        without(|request| request.volume_id.clear()),
        without(|request| request.target_path.clear()),
        without(|request| request.volume_capability = None),
    ] {
        assert_eq!(
            code(node.node_publish_volume(request).await),
            Code::InvalidArgument
        );
    }
    for (volume_id, target_path) in [("", "/x"), ("x", "")] {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            target_path: target_path.to_owned(),
        };
        assert_eq!(
            code(node.node_unpublish_volume(request).await),
            Code::InvalidArgument
        );
    }
}

#[tokio::test]
async fn a_volume_is_published_twice_and_unpublished_twice() {
    let served = served().await;
    served.world.evaluator.says("tools/harbor", Some(granted()));
    let mut node = NodeClient::new(served.channel.clone());
    for _ in 0..2 {
        assert_eq!(code(node.node_publish_volume(request()).await), Code::Ok);
    }
    let request = NodeUnpublishVolumeRequest {
        volume_id: request().volume_id,
        target_path: request().target_path,
    };
    for _ in 0..2 {
        assert_eq!(
            code(node.node_unpublish_volume(request.clone()).await),
            Code::Ok
        );
    }
    assert!(served.world.mounter.node().found.is_empty());
}

#[tokio::test]
async fn the_callers_limit_reaches_the_driver() {
    let served = served().await;
    let mut node = NodeClient::new(served.channel.clone());
    let mut held = Request::new(request());
    held.set_timeout(Duration::from_millis(400));
    let status = node.node_publish_volume(held).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(
        status.message().starts_with("connector tools/harbor: "),
        "{status:?}"
    );
}

#[tokio::test]
async fn many_calls_for_one_volume_of_which_some_hang_up_end_in_one_volume() {
    let served = served().await;
    for round in 0_u64..4 {
        let calls = (0..16_u64).map(|call| {
            let mut node = NodeClient::new(served.channel.clone());
            tokio::spawn(async move {
                let published = node.node_publish_volume(request());
                let patience = Duration::from_millis(5 + (call * 7 + round) % 40);
                tokio::time::timeout(patience, published).await.map(code)
            })
        });
        for call in futures::future::join_all(calls.collect::<Vec<_>>()).await {
            // Held until they hang up, or turned away: never let in.
            assert!(matches!(call.unwrap(), Err(_) | Ok(Code::Aborted)));
        }
    }
    served.world.evaluator.says("tools/harbor", Some(granted()));
    let mut node = NodeClient::new(served.channel.clone());
    let mut result = Code::Aborted;
    // The last one that hung up may still be on its way out.
    for _ in 0..1000 {
        result = code(node.node_publish_volume(request()).await);
        if result != Code::Aborted {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(result, Code::Ok);
    assert_eq!(served.world.mounter.node().found.len(), 1);
}

#[tokio::test]
async fn held_calls_are_answered_when_the_process_ends() {
    let served = served().await;
    let mut node = NodeClient::new(served.channel.clone());
    let held = tokio::spawn(async move { code(node.node_publish_volume(request()).await) });
    while served.world.evaluator.followers("tools/harbor") == 0 {
        tokio::task::yield_now().await;
    }
    served.world.terminate();
    drop(served.tasks);
    assert_eq!(held.await.unwrap(), Code::Unavailable);
    drop(served.channel);
    served.serving.await.unwrap();
    assert!(!served.folder.path().join("csi.sock").exists());
}

#[tokio::test]
async fn the_kubelet_is_told_where_the_driver_is_and_says_whether_it_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("connectors-csi-reg@localhost.sock");
    let endpoint = "/var/lib/kubelet/plugins/connectors-csi/csi.sock";
    let (registrar, registered) = Registrar::new("connectors-csi", endpoint.to_owned());
    let socket = UnixSocket::bind(&path, InUse::Replace).unwrap();
    let tasks = Tasks::new();
    let serving = tokio::spawn(serve_registration(socket, registrar, tasks.stop()));
    let mut kubelet = RegistrationClient::new(connect(path.clone()).await);
    let info = kubelet.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(
        (info.r#type.as_str(), info.name.as_str()),
        ("CSIPlugin", "connectors-csi")
    );
    assert_eq!(
        (info.endpoint.as_str(), info.supported_versions),
        (endpoint, vec!["1.0.0".to_owned()])
    );
    assert_eq!(*registered.borrow(), None);
    for taken in [true, false] {
        let status = RegistrationStatus {
            plugin_registered: taken,
            error: String::new(),
        };
        kubelet.notify_registration_status(status).await.unwrap();
        assert_eq!(*registered.borrow(), Some(taken));
    }
    drop((kubelet, tasks));
    serving.await.unwrap();
    assert!(!path.exists());
}
