//! A real gRPC server behind TLS, with answers controlled by the test.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::v1::evaluation_server::{Evaluation, EvaluationServer};
use crate::v1::{
    AccessAnswer, AccessDecision, BatchCheckAccessRequest, BatchCheckAccessResponse,
    CheckAccessRequest, CheckAccessResponse, EvaluateChecksRequest, EvaluateChecksResponse,
    ExplainRequest, ExplainResponse, ReviewTokenRequest, ReviewTokenResponse,
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

struct Service(mpsc::Sender<Asked>);

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
        self.0.send(Asked::Check(request, sender)).await.unwrap();
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
        _: Request<ValidatePolicyRequest>,
    ) -> Result<Response<ValidatePolicyResponse>, Status> {
        Ok(Response::new(ValidatePolicyResponse::default()))
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
        let conversation = Conversation {
            bearer: bearer(&request),
            heard: request.into_inner(),
            said,
        };
        self.0.send(Asked::Watch(conversation)).await.unwrap();
        Ok(Response::new(ReceiverStream::new(unsent)))
    }

    async fn evaluate_checks(
        &self,
        _: Request<EvaluateChecksRequest>,
    ) -> Result<Response<EvaluateChecksResponse>, Status> {
        let (sender, mut answer) = mpsc::channel(1);
        self.0.send(Asked::Evaluate(sender)).await.unwrap();
        answer.recv().await.unwrap().map(Response::new)
    }
}

pub(super) struct FakeServer {
    pub(super) url: String,
    pub(super) asked: mpsc::Receiver<Asked>,
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
        let (asked_sender, asked) = mpsc::channel(16);
        let service = EvaluationServer::new(Service(asked_sender));
        let running = tokio::spawn(async move {
            // Connections end with the server.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, service) = (acceptor.clone(), service.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = TowerToHyperService::new(service);
                    let _ = Builder::new(TokioExecutor::new())
                        .http2_only()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            url: format!("https://localhost:{}", address.port()),
            asked,
            address,
            running,
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
