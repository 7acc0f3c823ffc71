use std::sync::Mutex;

use ::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Bytes, client::conn::http1};
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::danger::ClientCertVerifier,
};
use serde_json::{Value, json};
use service_kit::{clock, readiness::Readiness, report, retry::RetryPolicy, shutdown::Tasks};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

mod clients;
mod connections;

use super::*;
use crate::{
    admission::Admission,
    certs::{
        CertificateStore, Keeper, creator,
        plan::{KEPT, SPREADING},
    },
    evaluator::{self, Evaluator},
    metrics::Metrics,
    peer_quota::PeerLimits,
    testing::{FakeApi, MUTATING, NAMESPACE, config_map, pod, secret},
};

/// A whole replica in this process, without the loop that looks after the certificates.
struct Replica {
    api: FakeApi,
    keeper: Keeper,
    readiness: Readiness,
    address: std::net::SocketAddr,
    tasks: Tasks,
    ahead: Arc<Mutex<SignedDuration>>,
    trusted: watch::Receiver<Arc<ClientConfig>>,
    handler: Handler,
}

impl Replica {
    async fn start() -> Self {
        Self::for_callers(None).await
    }

    async fn for_callers(callers: Option<Arc<dyn ClientCertVerifier>>) -> Self {
        let api = FakeApi::installed();
        api.let_read("ada");
        api.put(
            &pod("team", "build-1"),
            json!({
                "metadata": {"name": "build-1", "namespace": "team", "uid": "u1"},
                "spec": {"containers": [], "serviceAccountName": "builder"},
            }),
        );
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (readiness, start) = Readiness::starting();
        let store = CertificateStore {
            client: api.client(),
            policy: RetryPolicy::default(),
            namespace: NAMESPACE.to_owned(),
            mutating: "connectors-approval".to_owned(),
            validating: "connectors-approval".to_owned(),
            creator: creator(),
        };
        let ahead = Arc::new(Mutex::new(SignedDuration::ZERO));
        let added = Arc::clone(&ahead);
        let time = move || -> Timestamp { clock::now() + *added.lock().unwrap() };
        let serving = Serving::default();
        let tls = config(&serving, callers);
        let ready = readiness.part("certificate");
        let (roots, trusted) = evaluator::trust();
        let certificates = metrics.certificates;
        let keeper = Keeper::new(store, Arc::new(time), serving, roots, certificates, ready);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = PeerLimits::new(metrics.peers);
        let handler = Handler::new(
            Admission::new(
                api.client(),
                NAMESPACE,
                "plugin".to_owned(),
                Evaluator::Fake(None),
                &limits,
            ),
            metrics.reviews,
            limits,
        );
        let served = handler.clone();
        let mut tasks = Tasks::new();
        let stop = tasks.stop();
        tasks.spawn("admission", async move {
            serve(listener, tls, served, stop).await;
            Ok::<_, std::convert::Infallible>(())
        });
        start.ready();
        Self {
            api,
            keeper,
            readiness,
            address,
            tasks,
            ahead,
            trusted,
            handler,
        }
    }

    /// With its first certificate, that everybody trusts.
    async fn serving() -> Self {
        let mut replica = Self::start().await;
        replica.keeper.pass().await.unwrap();
        replica
    }

    fn later(&self, time: SignedDuration) {
        *self.ahead.lock().unwrap() += time;
    }

    fn certificate(&self) -> String {
        self.api.text(&secret("webhook-tls"), "tls.crt")
    }

    fn caller(&self) -> Caller {
        Caller {
            api: self.api.clone(),
            address: self.address,
        }
    }
}

/// The API server's side: trusts what its webhook configuration says at the time of each connection.
#[derive(Clone)]
struct Caller {
    api: FakeApi,
    address: std::net::SocketAddr,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Sender = http1::SendRequest<Full<Bytes>>;

impl Caller {
    async fn connect(&self) -> Result<Sender, Failure> {
        let (sender, conversation) = http1::handshake(self.handshake().await?).await?;
        tokio::spawn(conversation);
        Ok(sender)
    }

    async fn handshake(&self) -> Result<TokioIo<TlsStream<TcpStream>>, Failure> {
        let config = ClientConfig::builder()
            .with_root_certificates(self.trusted()?)
            .with_no_client_auth();
        self.handshake_trusting(Arc::new(config)).await
    }

    fn trusted(&self) -> Result<RootCertStore, Failure> {
        let bundle = self.api.announced(MUTATING, 1).unwrap_or_default();
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(root?)?;
        }
        Ok(roots)
    }

    async fn handshake_trusting(
        &self,
        config: Arc<ClientConfig>,
    ) -> Result<TokioIo<TlsStream<TcpStream>>, Failure> {
        let name = ServerName::try_from("webhook.connectors-system.svc")?;
        let connection = TcpStream::connect(self.address).await?;
        let connection = TlsConnector::from(config).connect(name, connection).await?;
        Ok(TokioIo::new(connection))
    }

    fn review() -> String {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "review-1", "operation": "CREATE", "namespace": "tools",
                "resource": {"group": "connectors.alauda.io", "version": "v1alpha1", "resource": "accessrequests"},
                "userInfo": {"username": "ada"},
                "object": {"metadata": {}, "spec": {
                    "subject": {"kind": "ServiceAccount", "name": "builder"},
                    "connectorRef": {"name": "harbor"},
                    "context": {"objectRef": {
                        "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build-1", "uid": "u1",
                    }},
                }},
            },
        });
        review.to_string()
    }

    fn request(review: String) -> Request<Full<Bytes>> {
        Request::post("https://webhook.connectors-system.svc/validate/accessrequests")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(review))
            .unwrap()
    }

    async fn create(sender: &mut Sender) -> Result<Value, hyper::Error> {
        sender.ready().await?;
        let response = sender.send_request(Self::request(Self::review())).await?;
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn a_creation_is_admitted_over_tls_that_the_configuration_trusts() {
    let mut replica = Replica::start().await;
    replica.caller().connect().await.unwrap_err();
    replica.keeper.pass().await.unwrap();
    let mut sender = replica.caller().connect().await.unwrap();
    let answer = Caller::create(&mut sender).await.unwrap();
    assert_eq!(
        answer["response"],
        json!({"uid": "review-1", "allowed": true})
    );
}

#[tokio::test]
async fn this_process_trusts_whom_everybody_is_told_to_trust() {
    let mut replica = Replica::start().await;
    let caller = replica.caller();
    let trusting = |replica: &Replica| replica.trusted.borrow().clone();
    for _ in 0..3 {
        let before = trusting(&replica);
        replica.keeper.pass().await.unwrap();
        caller.handshake_trusting(trusting(&replica)).await.unwrap();
        // The same roots are no news.
        let now = trusting(&replica);
        replica.keeper.pass().await.unwrap();
        assert!(Arc::ptr_eq(&now, &trusting(&replica)));
        assert!(!Arc::ptr_eq(&now, &before));
        replica.api.delete(&secret("connectors-ca"));
        replica.api.delete(&config_map("connectors-ca"));
    }
    let nobody = evaluator::trust().1.borrow().clone();
    caller.handshake_trusting(nobody).await.unwrap_err();
}

#[tokio::test]
async fn certificates_rotate_while_requests_run_and_none_fails() {
    let mut replica = Replica::serving().await;
    let first = replica.certificate();
    let (done, running) = tokio::sync::watch::channel(false);
    let calls: Vec<_> = [true, false]
        .map(|keep_alive| {
            let (caller, running) = (replica.caller(), running.clone());
            tokio::spawn(async move {
                let mut count = 0;
                let mut sender = caller.connect().await.unwrap();
                while !*running.borrow() {
                    if !keep_alive {
                        sender = caller.connect().await.unwrap();
                    }
                    let answer = Caller::create(&mut sender).await.unwrap();
                    assert_eq!(answer["response"]["allowed"], true);
                    count += 1;
                }
                count
            })
        })
        .into();
    // The authority is lost, its successor published, and everything signed anew.
    replica.api.delete(&secret("connectors-ca"));
    for wait in [SignedDuration::ZERO, SPREADING, KEPT, KEPT] {
        replica.later(wait);
        replica.keeper.pass().await.unwrap();
        let mut sender = replica.caller().connect().await.unwrap();
        Caller::create(&mut sender).await.unwrap();
    }
    assert_ne!(replica.certificate(), first);
    let bundle = replica.api.text(&config_map("connectors-ca"), "ca.crt");
    assert_eq!(
        bundle.matches("BEGIN CERTIFICATE").count(),
        1,
        "the old authority is forgotten"
    );
    let mut sender = replica.caller().connect().await.unwrap();
    Caller::create(&mut sender).await.unwrap();
    done.send_replace(true);
    for call in calls {
        assert!(call.await.unwrap() > 3);
    }
}
