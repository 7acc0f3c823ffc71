//! A real gRPC server behind TLS, with answers controlled by the test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::v1::evaluation_server::{Evaluation, EvaluationServer};
use crate::v1::{
    AccessAnswer, AccessDecision, BatchCheckAccessRequest, BatchCheckAccessResponse,
    CheckAccessRequest, CheckAccessResponse, EvaluateChecksRequest, EvaluateChecksResponse,
    ExplainRequest, ExplainResponse, Finding, ReviewTokenRequest, ReviewTokenResponse,
    ValidatePolicyRequest, ValidatePolicyResponse, WatchAccessRequest, WatchAccessResponse,
    WhoCanRequest, WhoCanResponse,
};

/// An authority, and the certificate that it issued for the server.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn server(&self, protocol: &[u8]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}

/// A call that the test answers in place of the service.
pub(super) enum Asked {
    Check(
        Request<CheckAccessRequest>,
        mpsc::Sender<Result<CheckAccessResponse, Status>>,
    ),
    Evaluate(mpsc::Sender<Result<EvaluateChecksResponse, Status>>),
    Watch(Conversation),
}

/// One stream, from the server's side.
pub(super) struct Conversation {
    pub(super) bearer: String,
    pub(super) heard: Streaming<WatchAccessRequest>,
    pub(super) said: mpsc::Sender<Result<WatchAccessResponse, Status>>,
}

/// The path and the headers of a call.
pub(super) type Seen = (String, http::HeaderMap);

struct Service {
    asked: mpsc::Sender<Asked>,
    /// While it is true, no stream begins.
    holds: watch::Receiver<bool>,
}

pub(super) fn bearer<T>(request: &Request<T>) -> String {
    let value = request.metadata().get("authorization").unwrap();
    value.to_str().unwrap().to_owned()
}

#[tonic::async_trait]
impl Evaluation for Service {
    async fn check_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<Response<CheckAccessResponse>, Status> {
        let (sender, mut answer) = mpsc::channel(1);
        self.asked
            .send(Asked::Check(request, sender))
            .await
            .unwrap();
        answer.recv().await.unwrap().map(Response::new)
    }

    async fn batch_check_access(
        &self,
        request: Request<BatchCheckAccessRequest>,
    ) -> Result<Response<BatchCheckAccessResponse>, Status> {
        // No permission, and as the reason the connector of the question.
        let BatchCheckAccessRequest { questions, details } = request.into_inner();
        let decisions = vec![AccessDecision::Denied.into(); questions.len()];
        let answers = questions.into_iter().filter(|_| details);
        let answers = answers.map(|question| AccessAnswer {
            decision: AccessDecision::Denied.into(),
            reason: question.connector.unwrap_or_default().name,
            ..AccessAnswer::default()
        });
        Ok(Response::new(BatchCheckAccessResponse {
            decisions,
            answers: answers.collect(),
            ..BatchCheckAccessResponse::default()
        }))
    }

    async fn who_can(&self, _: Request<WhoCanRequest>) -> Result<Response<WhoCanResponse>, Status> {
        Ok(Response::new(WhoCanResponse::default()))
    }

    async fn validate_policy(
        &self,
        request: Request<ValidatePolicyRequest>,
    ) -> Result<Response<ValidatePolicyResponse>, Status> {
        // A finding with the policy itself as its message.
        let policy = request.into_inner().policy;
        let finding = Finding {
            message: String::from_utf8(policy).unwrap(),
            ..Finding::default()
        };
        let findings = vec![finding];
        Ok(Response::new(ValidatePolicyResponse { findings }))
    }

    async fn explain(
        &self,
        _: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(ExplainResponse::default()))
    }

    async fn review_token(
        &self,
        _: Request<ReviewTokenRequest>,
    ) -> Result<Response<ReviewTokenResponse>, Status> {
        Ok(Response::new(ReviewTokenResponse::default()))
    }

    type WatchAccessStream = ReceiverStream<Result<WatchAccessResponse, Status>>;

    async fn watch_access(
        &self,
        request: Request<Streaming<WatchAccessRequest>>,
    ) -> Result<Response<Self::WatchAccessStream>, Status> {
        let (said, unsent) = mpsc::channel(1);
        let is_shown = request.metadata().contains_key("authorization");
        let conversation = Conversation {
            bearer: if is_shown {
                bearer(&request)
            } else {
                String::new()
            },
            heard: request.into_inner(),
            said,
        };
        self.asked.send(Asked::Watch(conversation)).await.unwrap();
        let _ = self.holds.clone().wait_for(|holds| !holds).await;
        Ok(Response::new(ReceiverStream::new(unsent)))
    }

    async fn evaluate_checks(
        &self,
        _: Request<EvaluateChecksRequest>,
    ) -> Result<Response<EvaluateChecksResponse>, Status> {
        let (sender, mut answer) = mpsc::channel(1);
        self.asked.send(Asked::Evaluate(sender)).await.unwrap();
        answer.recv().await.unwrap().map(Response::new)
    }
}

/// The calls of all connections.
#[derive(Clone)]
struct Calls {
    service: EvaluationServer<Service>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Calls {
    async fn carried_by(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { service, seen } = self;
        let service = Recorded { service, seen };
        let _ = Builder::new(TokioExecutor::new())
            .http2_only()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .await;
    }
}

/// Writes down each call before it is made.
#[derive(Clone)]
struct Recorded<S> {
    service: S,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl<B, S: tower::Service<http::Request<B>>> tower::Service<http::Request<B>> for Recorded<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> S::Future {
        let call = (request.uri().path().to_owned(), request.headers().clone());
        self.seen.lock().unwrap().push(call);
        self.service.call(request)
    }
}

pub(super) struct FakeServer {
    pub(super) url: String,
    pub(super) asked: mpsc::Receiver<Asked>,
    pub(super) seen: Arc<Mutex<Vec<Seen>>>,
    pub(super) holds: watch::Sender<bool>,
    address: SocketAddr,
    running: JoinHandle<()>,
}

impl FakeServer {
    pub(super) async fn start(authority: &Authority) -> Self {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        Self::start_at(authority, any, b"h2").await
    }

    pub(super) async fn start_at(
        authority: &Authority,
        address: SocketAddr,
        protocol: &[u8],
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(authority.server(protocol));
        Self::with(address, |calls| async move {
            // Connections end with the server.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, calls) = (acceptor.clone(), calls.clone());
                connections.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        calls.carried_by(stream).await;
                    }
                });
            }
        })
    }

    /// Behind a socket, without TLS.
    pub(super) fn start_on(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        Self::with(([127, 0, 0, 1], 0).into(), |calls| async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(calls.clone().carried_by(stream));
            }
        })
    }

    fn with<F: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        run: impl FnOnce(Calls) -> F,
    ) -> Self {
        let (asked_sender, asked) = mpsc::channel(16);
        let (holds, held) = watch::channel(false);
        let service = EvaluationServer::new(Service {
            asked: asked_sender,
            holds: held,
        });
        // The limits of the client are looked at, and not those of the server.
        let service = service
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let seen = Arc::default();
        let calls = Calls {
            service,
            seen: Arc::clone(&seen),
        };
        Self {
            url: format!("https://localhost:{}", address.port()),
            asked,
            seen,
            holds,
            address,
            running: tokio::spawn(run(calls)),
        }
    }

    pub(super) async fn next(&mut self) -> Asked {
        self.asked.recv().await.unwrap()
    }

    pub(super) async fn next_stream(&mut self) -> Conversation {
        loop {
            if let Asked::Watch(conversation) = self.next().await {
                return conversation;
            }
        }
    }

    /// The URL of a relay of bytes in front of the server. When `true` is sent, it carries nothing any more, and
    /// closes no connection.
    pub(super) async fn behind_a_relay(&self) -> (String, watch::Sender<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let (silence, is_silent) = watch::channel(false);
        let behind = self.address;
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut is_silent = is_silent.clone();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(behind).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = until(&mut is_silent) => std::future::pending().await,
                    }
                });
            }
        });
        (url, silence)
    }

    /// Stops, and returns its address.
    pub(super) async fn stop(self) -> SocketAddr {
        self.running.abort();
        let _ = self.running.await;
        self.address
    }
}

pub(super) fn tls(
    authority: &Authority,
) -> (
    watch::Sender<Arc<ClientConfig>>,
    watch::Receiver<Arc<ClientConfig>>,
) {
    watch::channel(authority.client())
}

async fn until(is_it: &mut watch::Receiver<bool>) {
    let _ = is_it.wait_for(|it| *it).await;
}
