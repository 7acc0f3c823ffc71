//! A node made of files, a driver with the behaviour of a test, and a caller.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use csi_node::proto::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    node_client::NodeClient,
    node_server::{self, NodeServer},
};
use csi_recorder::{Eyes, Recorder, View};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Notify,
    task::JoinHandle,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    metadata::MetadataMap,
    transport::{Channel, Endpoint, Server},
};

/// Where the test's volume is mounted.
pub(crate) const TARGET: &str = "/kubelet/pods/pod-uid/volumes/kubernetes.io~csi/c/mount";

/// A request as the kubelet sends it.
pub(crate) fn publish() -> NodePublishVolumeRequest {
    let pairs = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    NodePublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: TARGET.to_owned(),
        readonly: true,
        secrets: pairs(&[("csi.storage.k8s.io/serviceAccount.tokens", "s3cret-one")]),
        volume_context: pairs(&[
            ("csi.storage.k8s.io/pod.namespace", "team"),
            ("csi.storage.k8s.io/pod.name", "job"),
            ("csi.storage.k8s.io/pod.uid", "pod-uid"),
            ("csi.storage.k8s.io/serviceAccount.tokens", "s3cret-two"),
            ("connectors", "prod"),
        ]),
        ..NodePublishVolumeRequest::default()
    }
}

/// Waits for the effect of other tasks.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .unwrap();
}

/// A node: a list of mounts, and the files below them.
#[derive(Clone)]
pub(crate) struct Node {
    dir: Arc<tempfile::TempDir>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let node = Self {
            dir: Arc::new(tempfile::tempdir().unwrap()),
        };
        fs::create_dir_all(node.target().parent().unwrap()).unwrap();
        fs::create_dir(node.dir.path().join("plugin")).unwrap();
        fs::write(node.mountinfo(), "").unwrap();
        node
    }

    pub(crate) fn mountinfo(&self) -> PathBuf {
        self.dir.path().join("mountinfo")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("plugin/csi.sock")
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join(TARGET.trim_start_matches('/'))
    }

    pub(crate) fn make_target(&self) {
        fs::create_dir_all(self.target()).unwrap();
    }

    /// Mounts the volume with one file in `.connector`.
    pub(crate) fn mount(&self, mark: &str) {
        fs::create_dir_all(self.target().join(".connector")).unwrap();
        fs::write(self.target().join(".connector").join(mark), "").unwrap();
        fs::write(
            self.mountinfo(),
            format!("1 1 0:1 / {TARGET} ro - tmpfs connectors ro\n"),
        )
        .unwrap();
    }

    /// Mounts the volume with an error and nothing else, whatever was there.
    pub(crate) fn mount_error(&self) {
        // There may be nothing.
        let _ = fs::remove_dir_all(self.target());
        self.mount(".rejected");
        fs::write(self.target().join(".error.json"), "{}").unwrap();
    }

    /// Takes the files of the volume away.
    pub(crate) fn unmark(&self) {
        fs::remove_dir_all(self.target().join(".connector")).unwrap();
    }

    pub(crate) fn eyes(&self) -> Eyes {
        let view = View::at(self.mountinfo(), self.dir.path().to_path_buf());
        Eyes {
            view: Some(view),
            access: None,
        }
    }

    /// A recorder in front of the driver that is there.
    pub(crate) async fn record(&self) -> Recorder {
        let recorder = self.record_with(self.eyes()).await;
        until(|| recorder.taken() == 1).await;
        recorder
    }

    pub(crate) async fn record_with(&self, eyes: Eyes) -> Recorder {
        let socket = self.socket();
        let recorder = Recorder::interpose(&socket, eyes).unwrap();
        until(|| !socket.exists() || recorder.taken() == 1).await;
        recorder
    }

    /// The kubelet: a connection for each call.
    pub(crate) fn client(&self) -> NodeClient<Channel> {
        let socket = self.socket();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        NodeClient::new(channel)
    }
}

type Script = dyn Fn(&Node, &NodePublishVolumeRequest) -> Result<(), Status> + Send + Sync;

/// The behaviour of a driver, and its records.
struct State {
    node: Node,
    script: Box<Script>,
    hold: Option<Notify>,
    received: Mutex<Vec<(NodePublishVolumeRequest, MetadataMap)>>,
    given_up: Mutex<usize>,
}

/// A driver on the node's socket.
pub(crate) struct Driver {
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Driver {
    pub(crate) fn start(
        node: &Node,
        script: impl Fn(&Node, &NodePublishVolumeRequest) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        Self::with(node, Box::new(script), None)
    }

    /// One that keeps every call waiting until it may go.
    pub(crate) fn start_holding(node: &Node) -> Self {
        Self::with(node, Box::new(|_, _| Ok(())), Some(Notify::new()))
    }

    fn with(node: &Node, script: Box<Script>, hold: Option<Notify>) -> Self {
        let state = Arc::new(State {
            node: node.clone(),
            script,
            hold,
            received: Mutex::default(),
            given_up: Mutex::default(),
        });
        remove(&node.socket());
        let listener = UnixListener::bind(node.socket()).unwrap();
        let service = NodeServer::new(Service(Arc::clone(&state)));
        let serving =
            Server::builder().serve_with_incoming(service, UnixListenerStream::new(listener));
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { state, task }
    }

    pub(crate) fn received(&self) -> Vec<(NodePublishVolumeRequest, MetadataMap)> {
        self.state.received.lock().unwrap().clone()
    }

    /// How many calls ended because their caller stopped waiting.
    pub(crate) fn given_up(&self) -> usize {
        *self.state.given_up.lock().unwrap()
    }

    pub(crate) fn let_go(&self) {
        self.state.hold.as_ref().unwrap().notify_waiters();
    }

    /// Ends it as a crash would: its socket stays.
    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn remove(socket: &Path) {
    if socket.exists() {
        fs::remove_file(socket).unwrap();
    }
}

struct Service(Arc<State>);

/// Counts a call that is dropped before it ends.
struct Held<'a>(&'a State, bool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.given_up.lock().unwrap() += 1;
        }
    }
}

#[tonic::async_trait]
impl node_server::Node for Service {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        if let Some(hold) = &self.0.hold {
            let mut held = Held(&self.0, false);
            let mut gone = std::pin::pin!(hold.notified());
            gone.as_mut().enable();
            self.0
                .received
                .lock()
                .unwrap()
                .push((message.clone(), metadata));
            gone.await;
            held.1 = true;
        } else {
            self.0
                .received
                .lock()
                .unwrap()
                .push((message.clone(), metadata));
        }
        (self.0.script)(&self.0.node, &message)?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        _: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(NodeGetCapabilitiesResponse::default()))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}
