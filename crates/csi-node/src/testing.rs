//! What tests of several modules share: a call as the kubelet makes it, and a world that answers.

pub(crate) mod dice;
pub(crate) mod namespace;
pub(crate) mod shown;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use connector_files::{FileConflict, FileSet};
use connectors_api::{
    AccessRequest, Connector, ConnectorClass, ConnectorKey, Permission, PodIdentity,
    access_request::Phase,
    config::{Config, OnEnable},
    pod_wish::attributes::VolumeOptions,
    reason::Ready,
};
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, BindingRef, Decision, Gating, RequestSeen, Requestable,
};
use futures::StreamExt;
use k8s_openapi::api::{
    authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
    storage::v1::CSIDriver,
};
use prometheus::Registry;
use serde_json::json;
use service_kit::{
    readiness::Readiness,
    shutdown::{Signal, Stop, Tasks},
};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::sleep,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::{
    content::{ConnectorFacts, Content, Record},
    content_digests::ContentDigests,
    driver::{Driver, RENDERS, Settings},
    error::DriverProblem,
    error_file::ErrorFile,
    evaluator::{AnswerStream, Evaluator},
    event_cache::EventCache,
    hold_quota::{HoldLimits, HoldQuota},
    kubernetes::{Created, EventWord, Kubernetes, Lookup, NoAnswer},
    locks::Locks,
    memory_quota::{MemoryLimits, MemoryQuota},
    metrics::Metrics,
    mounter::{MountError, Mounter, OnDisk, Passage},
    noted_volumes::NotedVolumes,
    proto::csi::{
        NodePublishVolumeRequest, VolumeCapability,
        volume_capability::{AccessType, MountVolume},
    },
    refused_reviews::RefusedReviews,
    request_quota::RequestQuota,
    switch::{DriverObject, Switch},
    tool_cache::ToolCache,
    volume::{AUDIENCE, PodsDir, ProxyTokens, Token, VolumePath, Wish},
};

/// The size of a page on most nodes.
pub(crate) const PAGE: usize = 4096;
/// More than any test takes.
pub(crate) const MEMORY: MemoryLimits = MemoryLimits {
    node: 128,
    namespace: 64,
};

pub(crate) const KUBELET: &str = "/var/lib/kubelet";
pub(crate) const NODE: &str = "node-1";

/// Mounts are gated, and this becomes of those that were not.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it is what the switch holds: a process may not know it yet"
)]
pub(crate) const fn on(on_enable: OnEnable) -> Option<Config> {
    Some(Config {
        enabled: true,
        on_enable,
        ..Config::CLOSED
    })
}
/// Mounts are gated.
pub(crate) const ON: Option<Config> = on(OnEnable::Keep);
/// Nothing is gated.
pub(crate) const OFF: Option<Config> = Some(Config::CLOSED);

/// A connector by its full name.
pub(crate) fn key(name: &str) -> ConnectorKey {
    let (namespace, name) = name.split_once('/').unwrap();
    ConnectorKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// What the usual pod wishes for.
pub(crate) fn wish(connectors: &[&str]) -> Wish {
    Wish {
        pod: PodIdentity {
            namespace: "shop".to_owned(),
            name: "deploy-1".to_owned(),
            uid: "uid-1".to_owned(),
            service_account: "builder".to_owned(),
        },
        connectors: connectors.iter().map(|name| key(name)).collect(),
        permission: Permission::Apis,
        options: VolumeOptions::default(),
    }
}

/// Whom the tokens in volumes are for.
pub(crate) const PROXY: &str = "connectors-proxy";

/// The tokens that the driver object asks for.
pub(crate) fn proxy_tokens() -> ProxyTokens {
    ProxyTokens::new(PROXY.to_owned(), Duration::from_hours(1))
}

/// A volume of the usual pod.
pub(crate) fn place(volume: &str) -> VolumePath {
    place_in(Path::new(KUBELET), volume)
}

/// A volume of the usual pod of another kubelet.
pub(crate) fn place_in(kubelet: &Path, volume: &str) -> VolumePath {
    place_of(kubelet, "uid-1", volume)
}

/// A volume of any pod.
pub(crate) fn place_of(kubelet: &Path, pod: &str, volume: &str) -> VolumePath {
    let pods = PodsDir::new(kubelet);
    let target = pods
        .path()
        .join(pod)
        .join("volumes/kubernetes.io~csi")
        .join(volume)
        .join("mount");
    pods.at(&target).unwrap()
}

/// A publish call as the kubelet makes it.
pub(crate) fn request() -> NodePublishVolumeRequest {
    request_at(&place("tool"))
}

/// The same for another volume.
pub(crate) fn request_at(place: &VolumePath) -> NodePublishVolumeRequest {
    let context = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "deploy-1"),
        ("csi.storage.k8s.io/pod.namespace", "shop"),
        ("csi.storage.k8s.io/pod.uid", "uid-1"),
        ("csi.storage.k8s.io/serviceAccount.name", "builder"),
        ("connectors", "tools/harbor"),
    ];
    let tokens =
        json!({AUDIENCE: {"token": "the-token", "expirationTimestamp": "2026-01-01T00:00:00Z"}});
    NodePublishVolumeRequest {
        volume_id: place.volume_id(),
        target_path: place.target().display().to_string(),
        volume_capability: Some(VolumeCapability {
            access_mode: None,
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        readonly: true,
        secrets: HashMap::from([(
            "csi.storage.k8s.io/serviceAccount.tokens".to_owned(),
            tokens.to_string(),
        )]),
        volume_context: context
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..NodePublishVolumeRequest::default()
    }
}

/// The same for other connectors.
pub(crate) fn request_for(connectors: &str) -> NodePublishVolumeRequest {
    let mut request = request();
    request
        .volume_context
        .insert("connectors".to_owned(), connectors.to_owned());
    request
}

fn binding() -> BindingRef {
    BindingRef {
        kind: "RoleBinding".to_owned(),
        namespace: "tools".to_owned(),
        name: "binding".to_owned(),
        uid: "binding-uid".to_owned(),
    }
}

fn answer(decision: Decision, request: Option<RequestSeen>) -> AccessAnswer {
    AccessAnswer {
        decision,
        reason: String::new(),
        request,
        fresh_as_of: None,
        gating: Gating::On,
        requestable: Requestable::Yes,
    }
}

/// A request that stands so.
pub(crate) fn seen(uid: &str, phase: Option<Phase>, ready: Option<Ready>) -> RequestSeen {
    RequestSeen {
        name: "the-request".to_owned(),
        uid: uid.to_owned(),
        resource_version: "1".to_owned(),
        phase,
        check_reason: None,
        permission_reason: None,
        ready_reason: ready,
        message: "the sentence of the request".to_owned(),
    }
}

/// No permission, and no request.
pub(crate) fn no_request() -> AccessAnswer {
    answer(Decision::Denied, None)
}

/// The same where this is known about policies.
pub(crate) fn no_request_and(requestable: Requestable) -> AccessAnswer {
    AccessAnswer {
        requestable,
        ..no_request()
    }
}

/// No permission, and a request that stands so.
pub(crate) fn denied(phase: Phase, ready: Ready) -> AccessAnswer {
    answer(Decision::Denied, Some(seen("r1", Some(phase), Some(ready))))
}

/// The pod's own permission.
pub(crate) fn granted() -> AccessAnswer {
    let request = seen("r1", Some(Phase::Granted), Some(Ready::Granted));
    answer(Decision::AllowedPod(binding()), Some(request))
}

/// A permission at any time.
pub(crate) fn standing() -> AccessAnswer {
    answer(Decision::AllowedStanding(binding()), None)
}

/// What the evaluation service says, per connector; nothing while it cannot be reached.
#[derive(Clone, Default)]
pub(crate) struct FakeEvaluator(Arc<Mutex<BTreeMap<String, watch::Sender<Option<AccessAnswer>>>>>);

impl FakeEvaluator {
    /// From now on this is the answer.
    pub(crate) fn says(&self, connector: &str, answer: Option<AccessAnswer>) {
        self.topic(connector, |topic| {
            topic.send_replace(answer);
        });
    }

    /// How many follow a question now.
    pub(crate) fn followers(&self, connector: &str) -> usize {
        self.topic(connector, watch::Sender::receiver_count)
    }

    fn topic<T>(
        &self,
        connector: &str,
        look: impl FnOnce(&watch::Sender<Option<AccessAnswer>>) -> T,
    ) -> T {
        let mut topics = self.0.lock().unwrap();
        let topic = topics
            .entry(connector.to_owned())
            .or_insert_with(|| watch::Sender::new(Some(no_request())));
        look(topic)
    }
}

fn name(question: &AccessQuestion) -> String {
    assert_eq!(question.verb, "*");
    assert!(question.pod.is_some());
    format!(
        "{}/{}",
        question.connector.namespace, question.connector.name
    )
}

pub(crate) struct FakeAnswers(watch::Receiver<Option<AccessAnswer>>);

impl AnswerStream for FakeAnswers {
    async fn next(&mut self) -> Option<AccessAnswer> {
        self.0.changed().await.unwrap();
        self.0.borrow_and_update().clone()
    }
}

impl Evaluator for FakeEvaluator {
    type Watch = FakeAnswers;

    async fn ask(&self, question: AccessQuestion) -> Option<AccessAnswer> {
        self.topic(&name(&question), |topic| topic.borrow().clone())
    }

    fn follow(&self, question: AccessQuestion) -> FakeAnswers {
        let mut answers = self.topic(&name(&question), watch::Sender::subscribe);
        answers.mark_changed();
        FakeAnswers(answers)
    }
}

/// The API server. It stays beside `testkit`, because it stands for the plugin's own trait, below which there is no HTTP.
#[derive(Clone)]
pub(crate) struct FakeKubernetes(Arc<Mutex<Cluster>>);

/// What is in it.
pub(crate) struct Cluster {
    pub(crate) reachable: bool,
    /// How long a review of an access takes.
    pub(crate) review_takes: Duration,
    pub(crate) token: TokenReviewStatus,
    pub(crate) standing: bool,
    pub(crate) pod_form: bool,
    pub(crate) created: Created,
    pub(crate) found: Lookup<AccessRequest>,
    pub(crate) connectors: BTreeMap<String, Connector>,
    pub(crate) class: Lookup<ConnectorClass>,
    pub(crate) driver: Lookup<CSIDriver>,
    /// What was asked, in order.
    pub(crate) calls: Vec<String>,
    /// What was created.
    pub(crate) requests: Vec<AccessRequest>,
    /// What pods were told.
    pub(crate) told: Vec<(EventWord, String)>,
}

impl FakeKubernetes {
    pub(crate) fn new() -> Self {
        let connector = |name: &str| {
            let key = key(name);
            serde_json::from_value(json!({
                "metadata": {"namespace": key.namespace, "name": key.name},
                "spec": {"connectorClassName": "oci", "address": format!("https://{}", key.name)},
            }))
            .unwrap()
        };
        let names = ["tools/harbor", "tools/git", "shop/own"];
        Self(Arc::new(Mutex::new(Cluster {
            reachable: true,
            review_takes: Duration::ZERO,
            token: serde_json::from_value(json!({
                "authenticated": true,
                "audiences": [AUDIENCE],
                "user": {
                    "username": "system:serviceaccount:shop:builder",
                    "extra": {
                        "authentication.kubernetes.io/pod-name": ["deploy-1"],
                        "authentication.kubernetes.io/pod-uid": ["uid-1"],
                        "authentication.kubernetes.io/node-name": [NODE],
                    },
                },
            }))
            .unwrap(),
            standing: false,
            pod_form: true,
            created: Created::Made,
            found: Lookup::Absent,
            connectors: names.map(|name| (name.to_owned(), connector(name))).into(),
            class: Lookup::Absent,
            driver: Lookup::Absent,
            calls: Vec::new(),
            requests: Vec::new(),
            told: Vec::new(),
        })))
    }

    /// From now on the token is that of this pod.
    pub(crate) fn prove(&self, pod: &str) {
        let mut cluster = self.cluster();
        let user = cluster.token.user.as_mut();
        let extra = user.and_then(|it| it.extra.as_mut()).unwrap();
        let key = "authentication.kubernetes.io/pod-uid";
        extra.insert(key.to_owned(), vec![pod.to_owned()]);
    }

    /// To look at it and to change it.
    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.0.lock().unwrap()
    }

    fn called(&self, call: &str) -> Result<MutexGuard<'_, Cluster>, NoAnswer> {
        let mut cluster = self.cluster();
        cluster.calls.push(call.to_owned());
        cluster.reachable.then_some(cluster).ok_or(NoAnswer)
    }
}

impl Kubernetes for FakeKubernetes {
    async fn review_token(&self, token: &Token) -> Result<TokenReviewStatus, NoAnswer> {
        assert_eq!(token.expose(), "the-token");
        Ok(self.called("review token")?.token.clone())
    }

    async fn review_access(&self, question: SubjectAccessReviewSpec) -> Result<bool, NoAnswer> {
        let subresource = question.resource_attributes.unwrap().subresource.unwrap();
        drop(self.called(&format!("review {subresource}"))?);
        let takes = self.cluster().review_takes;
        if takes > Duration::ZERO {
            sleep(takes).await;
        }
        let cluster = self.cluster();
        let standing = !subresource.contains('/');
        Ok(if standing {
            cluster.standing
        } else {
            cluster.pod_form
        })
    }

    async fn create_request(
        &self,
        namespace: &str,
        request: &AccessRequest,
    ) -> Result<Created, NoAnswer> {
        let mut cluster = self.called(&format!("create request in {namespace}"))?;
        if cluster.created == Created::Made {
            cluster.requests.push(request.clone());
        }
        Ok(cluster.created)
    }

    async fn request(&self, _: &str, _: &str) -> Result<Lookup<AccessRequest>, NoAnswer> {
        Ok(self.called("get request")?.found.clone())
    }

    async fn connector(&self, namespace: &str, name: &str) -> Result<Lookup<Connector>, NoAnswer> {
        let cluster = self.called("get connector")?;
        let found = cluster.connectors.get(&format!("{namespace}/{name}"));
        Ok(found.map_or(Lookup::Absent, |found| {
            Lookup::Found(Box::new(found.clone()))
        }))
    }

    async fn class(&self, _: &str) -> Result<Lookup<ConnectorClass>, NoAnswer> {
        Ok(self.called("get class")?.class.clone())
    }

    async fn driver(&self, _: &str) -> Result<Lookup<CSIDriver>, NoAnswer> {
        Ok(self.called("get driver")?.driver.clone())
    }

    fn tell(&self, pod: &PodIdentity, word: EventWord, note: String) {
        assert!(pod.uid.starts_with("uid-"), "{}", pod.uid);
        self.cluster().told.push((word, note));
    }
}

/// A node's file system.
#[derive(Default)]
pub(crate) struct FakeMounter(Mutex<Node>);

/// What is on it.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a failure that a test chooses"
)]
pub(crate) struct Node {
    /// What is at each place.
    pub(crate) found: HashMap<VolumePath, OnDisk>,
    /// Places of volumes that were mounted while nothing was gated, and not emptied since.
    pub(crate) while_off: HashSet<VolumePath>,
    /// What was written last.
    pub(crate) facts: Vec<ConnectorFacts>,
    pub(crate) files: FileSet,
    /// The error that was written last.
    pub(crate) error: Option<ErrorFile>,
    /// How many times a volume was compared with what it should hold.
    pub(crate) compared: usize,
    /// How many times newer content was written.
    pub(crate) renewed: usize,
    /// The next newer content fails, and some of it is written.
    pub(crate) refresh_fails: bool,
    /// The next publication fails, and leaves something.
    pub(crate) publish_fails: bool,
    /// The next publication fails when everything but its last step was done.
    pub(crate) seal_fails: bool,
    /// The next publication waits until something comes through this.
    pub(crate) publish_waits: Option<std::sync::mpsc::Receiver<()>>,
    /// The next publication panics, and leaves something.
    pub(crate) publish_panics: bool,
    /// Nothing can be removed.
    pub(crate) clear_fails: bool,
    /// How a pod came to a volume cannot be read.
    pub(crate) passage_fails: bool,
    /// How many times content was taken away and given back.
    pub(crate) emptied: usize,
    pub(crate) refilled: usize,
}

impl FakeMounter {
    /// To look at it and to change it.
    pub(crate) fn node(&self) -> MutexGuard<'_, Node> {
        // A test that panics on purpose poisons it.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn broken() -> MountError {
    MountError::Step {
        step: "break",
        path: "/x".into(),
        source: std::io::Error::other("broken"),
    }
}

impl Mounter for FakeMounter {
    fn look(&self, place: &VolumePath) -> Result<OnDisk, MountError> {
        Ok(self
            .node()
            .found
            .get(place)
            .cloned()
            .unwrap_or(OnDisk::Nothing))
    }

    fn publish(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
        passage: Passage,
    ) -> Result<(), MountError> {
        let waits = {
            let mut node = self.node();
            assert!(!node.found.contains_key(place), "mounted over something");
            node.found.insert(place.clone(), OnDisk::Partial);
            node.publish_waits.take()
        };
        if let Some(waits) = waits {
            let _ = waits.recv();
        }
        let mut node = self.node();
        if std::mem::take(&mut node.publish_fails) {
            return Err(broken());
        }
        assert!(!std::mem::take(&mut node.publish_panics), "on purpose");
        node.found
            .insert(place.clone(), OnDisk::Published(record.clone()));
        node.facts.clone_from(&content.facts);
        node.files = content.files.clone();
        if std::mem::take(&mut node.seal_fails) {
            return Err(broken());
        }
        if passage == Passage::WhileOff {
            node.while_off.insert(place.clone());
        }
        Ok(())
    }

    fn publish_error(
        &self,
        place: &VolumePath,
        record: &Record,
        error: &ErrorFile,
    ) -> Result<(), MountError> {
        let mut node = self.node();
        assert!(!node.found.contains_key(place), "mounted over something");
        node.found.insert(place.clone(), OnDisk::Partial);
        if std::mem::take(&mut node.publish_fails) {
            return Err(broken());
        }
        node.found
            .insert(place.clone(), OnDisk::Rejected(record.clone()));
        node.error = Some(error.clone());
        Ok(())
    }

    fn passage(&self, place: &VolumePath) -> Result<Passage, MountError> {
        let node = self.node();
        if node.passage_fails {
            return Err(broken());
        }
        Ok(if node.while_off.contains(place) {
            Passage::WhileOff
        } else {
            Passage::Gated
        })
    }

    fn empty(&self, place: &VolumePath) -> Result<(), MountError> {
        let mut node = self.node();
        node.while_off.remove(place);
        if let Some(OnDisk::Published(record)) = node.found.get(place).cloned() {
            node.found.insert(place.clone(), OnDisk::Emptied(record));
            node.emptied += 1;
        }
        Ok(())
    }

    fn refill(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
    ) -> Result<(), MountError> {
        let mut node = self.node();
        node.found
            .insert(place.clone(), OnDisk::Published(record.clone()));
        node.while_off.remove(place);
        node.facts.clone_from(&content.facts);
        node.files = content.files.clone();
        node.refilled += 1;
        Ok(())
    }

    fn refresh(&self, place: &VolumePath, content: &Content) -> Result<bool, MountError> {
        let mut node = self.node();
        assert!(matches!(node.found.get(place), Some(OnDisk::Published(_))));
        node.compared += 1;
        let lively = |facts: &[ConnectorFacts]| -> Vec<String> {
            let all = facts.iter().flat_map(ConnectorFacts::lively);
            all.map(|(_, fact)| fact.to_owned()).collect()
        };
        if lively(&node.facts) == lively(&content.facts) && node.files == content.files {
            return Ok(false);
        }
        if std::mem::take(&mut node.refresh_fails) {
            node.files = FileSet::default();
            return Err(broken());
        }
        let requests: Vec<_> = node.facts.iter().map(|it| it.request.clone()).collect();
        node.facts.clone_from(&content.facts);
        for (facts, request) in node.facts.iter_mut().zip(requests) {
            facts.request = request;
        }
        node.files = content.files.clone();
        node.renewed += 1;
        Ok(true)
    }

    fn clear(&self, place: &VolumePath) -> Result<(), MountError> {
        let mut node = self.node();
        if node.clear_fails {
            return Err(broken());
        }
        node.while_off.remove(place);
        node.found.remove(place);
        Ok(())
    }
}

/// A driver with the usual settings, and room for so many held calls.
pub(crate) fn driver<E, K, M>(
    (evaluator, kubernetes, mounter): (E, K, Arc<M>),
    (switch, object): (Switch, DriverObject),
    stop: Stop,
    registry: &Registry,
    kubelet: &Path,
    held: usize,
) -> Driver<E, K, M> {
    let metrics = Metrics::register(registry).unwrap();
    Driver {
        settings: Settings {
            node: NODE.to_owned(),
            pods: PodsDir::new(kubelet),
            hold: Duration::from_secs(115),
            proxy: proxy_tokens(),
            conflict: FileConflict::Refuse,
            page: PAGE,
        },
        evaluator,
        kubernetes,
        mounter,
        switch,
        object,
        kept: NotedVolumes::new(metrics.kept.clone()),
        outdated: NotedVolumes::new(metrics.outdated.clone()),
        digests: ContentDigests::default(),
        memory: MemoryQuota::new(MEMORY, metrics.memory.clone()),
        metrics,
        stop,
        holds: HoldQuota::new(HoldLimits {
            node: held,
            // All pods are of one namespace.
            namespace: held + 1,
        }),
        asked: RequestQuota::default(),
        events: EventCache::default(),
        refused: RefusedReviews::default(),
        tools: ToolCache::default(),
        renders: Arc::new(Semaphore::new(RENDERS)),
        locks: Locks::default(),
    }
}

/// A driver over fakes, and what the fakes are told by.
pub(crate) struct World<M = FakeMounter> {
    pub(crate) driver: Arc<Driver<FakeEvaluator, FakeKubernetes, M>>,
    pub(crate) evaluator: FakeEvaluator,
    pub(crate) kubernetes: FakeKubernetes,
    pub(crate) mounter: Arc<M>,
    pub(crate) switch: watch::Sender<Option<Config>>,
    pub(crate) object: watch::Sender<Option<Result<(), DriverProblem>>>,
    pub(crate) registry: Registry,
    signals: mpsc::UnboundedSender<Signal>,
}

impl World {
    /// The feature is on, nothing is granted, everything can be reached.
    pub(crate) fn new() -> Self {
        Self::with(FakeMounter::default(), Path::new(KUBELET), 512)
    }

    /// A new process of the driver on the same node, which knows no configuration yet.
    pub(crate) fn restarted(&self) -> Self {
        let world = Self::over(Arc::clone(&self.mounter), Path::new(KUBELET), 512);
        world.switch.send_replace(None);
        world
    }

    /// The same with room for so many held calls.
    pub(crate) fn with_room_for(held: usize) -> Self {
        Self::with(FakeMounter::default(), Path::new(KUBELET), held)
    }
}

impl<M: Mounter> World<M> {
    pub(crate) fn with(mounter: M, kubelet: &Path, held: usize) -> Self {
        Self::over(Arc::new(mounter), kubelet, held)
    }

    /// The same over what another process may have left.
    pub(crate) fn over(mounter: Arc<M>, kubelet: &Path, held: usize) -> Self {
        let (switch, switched) = watch::channel(ON);
        let (object, checked) = watch::channel(Some(Ok(())));
        let (signals, signalled) = mpsc::unbounded_channel();
        let registry = Registry::new();
        let tasks = Tasks::new();
        let stop = tasks.stop();
        tokio::spawn(async move {
            let (readiness, _start) = Readiness::starting();
            let signals = UnboundedReceiverStream::new(signalled).boxed();
            tasks.run(signals, &readiness, Duration::from_secs(1)).await
        });
        let (evaluator, kubernetes) = (FakeEvaluator::default(), FakeKubernetes::new());
        let parts = (evaluator.clone(), kubernetes.clone(), Arc::clone(&mounter));
        let driver = driver(parts, (switched, checked), stop, &registry, kubelet, held);
        Self {
            driver: Arc::new(driver),
            evaluator,
            kubernetes,
            mounter,
            switch,
            object,
            registry,
            signals,
        }
    }

    /// The process is told to end.
    pub(crate) fn terminate(&self) {
        self.signals.send(Signal::Terminate).unwrap();
    }
}
