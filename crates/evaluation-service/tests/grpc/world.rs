//! The service as it runs, but for the API server, and a client of it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evaluation_api::access::{AccessQuestion, ConnectorName, PodRef, ServiceAccountName};
use evaluation_api::client::{Client, ClientSettings, Event, Subscription};
use evaluation_service::auth::{CallerReviews, IndexedRights};
use evaluation_service::caller_quotas::CallerLimits;
use evaluation_service::live::Live;
use evaluation_service::metrics::Metrics;
use evaluation_service::server::{serve_socket, serve_tls};
use evaluation_service::service::Service;
use evaluation_service::slots::Slots;
use evaluation_service::world::{Follow, Shared};
use http::Uri;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rego_workers::{ModuleLimits, WorkerPool};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use service_kit::readiness::Readiness;
use service_kit::serve::{self, InUse, UnixSocket};
use service_kit::shutdown::{ProcessEnd, Signal, Tasks};
use service_kit::tls::{ClientTls, ServerTls, TlsMetrics};
use service_kit::watches::WatchMetrics;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};

use crate::fake_api::{self, FakeApi};

pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) api: FakeApi,
    pub(crate) readiness: Readiness,
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    /// Where the service is without TLS and tokens.
    pub(crate) socket: PathBuf,
    url: String,
    directory: TempDir,
    signals: mpsc::UnboundedSender<Signal>,
    running: JoinHandle<ProcessEnd>,
    tls: ClientTls,
}

const LIMITS: CallerLimits = CallerLimits {
    calls: 128,
    streams: 8,
};

fn limits() -> ModuleLimits {
    ModuleLimits {
        workers: 2,
        time: Duration::from_secs(1),
        memory: 128 << 20,
        output: 16 << 10,
        module: 16 << 10,
    }
}

impl World {
    /// A service that waits for its lists.
    pub(crate) async fn start(api: FakeApi) -> Self {
        Self::start_with(api, Duration::from_mins(3)).await
    }

    /// The same, with another idea of how old an answer may be.
    pub(crate) async fn start_with(api: FakeApi, max_staleness: Duration) -> Self {
        Self::start_as(api, max_staleness, LIMITS).await
    }

    /// A service that is ready, of which one caller may have so much.
    pub(crate) async fn limited(limits: CallerLimits) -> Self {
        let world = Self::start_as(FakeApi::new(), Duration::from_mins(3), limits).await;
        world.ready().await;
        world
    }

    async fn start_as(api: FakeApi, max_staleness: Duration, caller_limits: CallerLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        certificates(path("ca.crt"), path("tls.crt"), path("tls.key"));
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let watches = WatchMetrics::register(&registry).unwrap();
        let tls_metrics = TlsMetrics::register(&registry).unwrap();
        let tls = ServerTls::load(path("tls.crt"), path("tls.key"), &["h2"], &tls_metrics);
        let config = tls.unwrap().config();
        let (readiness, start) = Readiness::starting();
        let mut tasks = Tasks::new();
        let shared = Arc::new(Shared::default());
        let follow = Follow {
            client: &api.client(),
            namespace: fake_api::INSTALLATION,
            shared: &shared,
            readiness: &readiness,
            watches: &watches,
            metrics: &metrics,
        };
        follow.start(&mut tasks);
        let program = PathBuf::from(env!("CARGO_BIN_EXE_evaluation-service"));
        let rego = WorkerPool::start(program, limits(), metrics.clone())
            .await
            .unwrap();
        let indexed = IndexedRights::new(Arc::clone(&shared), max_staleness);
        let service = Service {
            shared,
            live: Live::new(api.client()),
            callers: CallerReviews::new(
                api.client(),
                metrics.clone(),
                caller_limits,
                indexed,
                None,
            ),
            slots: Slots::new(rego.workers()),
            rego,
            answers: Arc::default(),
            policies: Arc::default(),
            programs: Arc::default(),
            memory: Arc::default(),
            readiness: readiness.clone(),
            metrics,
            max_staleness,
            stop: tasks.stop(),
        };
        let socket = path("socket");
        let local = UnixSocket::bind(&socket, InUse::Refuse).unwrap();
        let serving = serve_socket(local, service.clone(), tasks.stop());
        tasks.spawn_infallible("socket", serving);
        let (listener, address) = serve::bind(([127, 0, 0, 1], 0).into(), "gRPC")
            .await
            .unwrap();
        let url = format!("https://localhost:{}", address.port());
        let serving = serve_tls(listener, service, config, tasks.stop());
        tasks.spawn_infallible("grpc", serving);
        start.ready();
        let (signals, received) = mpsc::unbounded_channel();
        let state = readiness.clone();
        let running = tokio::spawn(async move {
            let signals = UnboundedReceiverStream::new(received);
            tasks.run(signals, &state, Duration::from_secs(10)).await
        });
        let roots = ClientTls::load(path("ca.crt"), &["h2"], &tls_metrics).unwrap();
        let client = Client::new(ClientSettings {
            url: url.clone(),
            tls: roots.config(),
            token_file: path("token"),
        });
        let world = Self {
            api,
            readiness,
            client: client.unwrap(),
            registry,
            socket,
            url,
            directory,
            signals,
            running,
            tls: roots,
        };
        world.token(&fake_api::token("good-csi-node"));
        world
    }

    /// A connection without a token.
    pub(crate) fn channel(&self) -> Channel {
        let config = self.tls.config().borrow().clone();
        let connector = tower::service_fn(move |uri: Uri| {
            let connector = TlsConnector::from(Arc::clone(&config));
            async move {
                let address = uri.authority().unwrap().to_string();
                let stream = TcpStream::connect(address).await?;
                let name = ServerName::try_from("localhost").unwrap();
                connector.connect(name, stream).await.map(TokioIo::new)
            }
        });
        Endpoint::from_shared(self.url.clone())
            .unwrap()
            .connect_with_connector_lazy(connector)
    }

    /// What comes of somebody who speaks this version of TLS alone.
    pub(crate) async fn handshake(
        &self,
        version: &'static SupportedProtocolVersion,
    ) -> std::io::Result<()> {
        let pem = fs::read(self.directory.path().join("ca.crt")).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&pem).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = self.connect().await;
        let spoken = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await;
        spoken.map(drop)
    }

    /// A connection on which nothing is said.
    pub(crate) async fn connect(&self) -> TcpStream {
        let address = self.url.trim_start_matches("https://").to_owned();
        TcpStream::connect(address).await.unwrap()
    }

    /// A service that is ready.
    pub(crate) async fn new() -> Self {
        let world = Self::start(FakeApi::new()).await;
        world.ready().await;
        world
    }

    pub(crate) async fn ready(&self) {
        timeout(SOON, self.readiness.ready()).await.unwrap();
    }

    pub(crate) fn token(&self, token: &str) {
        fs::write(self.directory.path().join("token"), token).unwrap();
    }

    pub(crate) fn metric(&self, line: &str) -> String {
        let encoder = prometheus::TextEncoder::new();
        let text = encoder.encode_to_string(&self.registry.gather()).unwrap();
        let found = text.lines().find_map(|it| it.strip_prefix(line));
        found.unwrap_or_default().trim().to_owned()
    }

    pub(crate) fn signal(&self) {
        self.signals.send(Signal::Terminate).unwrap();
    }

    pub(crate) async fn ended(self) -> ProcessEnd {
        timeout(SOON, self.running).await.unwrap().unwrap()
    }
}

fn certificates(ca: PathBuf, certificate: PathBuf, key: PathBuf) {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let pair = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let signed = params.signed_by(&pair, &issuer).unwrap();
    fs::write(ca, issuer.pem()).unwrap();
    fs::write(certificate, signed.pem()).unwrap();
    fs::write(key, pair.serialize_pem()).unwrap();
}

pub(crate) fn question() -> AccessQuestion {
    let text = str::to_owned;
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: text("devops"),
            name: text("builder"),
        },
        ConnectorName {
            namespace: text("tools"),
            name: text("harbor"),
        },
        connectors_api::Permission::Apis,
        PodRef {
            name: text("deploy"),
            uid: text("pod-uid"),
        },
    )
}

pub(crate) fn request(phase: &str) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "r", "namespace": "tools", "uid": "request-uid", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "devops", "name": "deploy", "uid": "pod-uid"}},
        },
        "status": {"phase": phase, "policies": [{
            "policy": {"metadata": {"uid": "policy-uid"}}, "grant": {"state": "Granted"},
        }]},
    })
}

pub(crate) fn role() -> Value {
    json!({
        "metadata": {"name": "car-1", "namespace": "tools"},
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis/v1/pod/devops/deploy"],
            "resourceNames": ["harbor"], "verbs": ["*"],
        }],
    })
}

pub(crate) fn binding() -> Value {
    json!({
        "metadata": {
            "name": "car-1", "namespace": "tools", "uid": "binding-uid",
            "labels": {"app.kubernetes.io/managed-by": "connectors-approval", "connectors.alauda.io/accessRequestUid": "request-uid", "connectors.alauda.io/accessPolicyUid": "policy-uid"},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "car-1"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}],
    })
}

pub(crate) async fn next(subscription: &mut Subscription) -> Event {
    timeout(SOON, subscription.next()).await.unwrap().unwrap()
}
