//! A stand-in between a webhook and the API server. It answers the calls that a review waits for at once,
//! with the API server's answers. So the remaining time of a review is the webhook's own. All other calls go
//! through to the API server: those for certificates, configurations and leases.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::calls::REVIEWS;
use crate::support::place::{self, Place};

/// Runs on a thread of its own until this process ends.
pub(crate) struct StandIn {
    /// Leads to it instead of the API server.
    pub(crate) kubeconfig: PathBuf,
    answered: Arc<AtomicUsize>,
}

/// The calls that it answers, and the API server behind it.
struct Behind {
    kubeconfig: PathBuf,
    answered: Arc<AtomicUsize>,
}

struct Answers {
    client: Client,
    /// The API server's answers, by path and query.
    known: Mutex<HashMap<String, (StatusCode, Bytes)>>,
    answered: Arc<AtomicUsize>,
}

impl StandIn {
    pub(crate) fn start(place: &Place) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let kubeconfig = place.file("stand-in.kubeconfig");
        let roots = place.file("stand-in.crt");
        fs::write(&roots, certified.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certified.cert.der().clone()],
                PrivateKeyDer::Pkcs8(key),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let answered = Arc::new(AtomicUsize::new(0));
        let (is_listening, port) = oneshot::channel();
        let behind = Behind {
            kubeconfig: place.kubeconfig.clone(),
            answered: Arc::clone(&answered),
        };
        thread::spawn(move || behind.serve(tls, is_listening));
        let port = port.blocking_recv().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://localhost:{port}"), "certificate-authority": roots,
            }}],
            "users": [{"name": "it", "user": {}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        Self {
            kubeconfig,
            answered,
        }
    }

    /// How many answers were its own.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }
}

impl Behind {
    fn serve(self, tls: ServerConfig, is_listening: oneshot::Sender<u16>) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = place::client(&self.kubeconfig).await;
            let answers = Arc::new(Answers {
                client,
                known: Mutex::default(),
                answered: self.answered,
            });
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            is_listening.send(port).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::spawn(converse(acceptor.clone(), stream, Arc::clone(&answers)));
            }
        });
    }
}

/// Serves a connection to its end. The webhook notices the end itself.
async fn converse(acceptor: TlsAcceptor, stream: TcpStream, answers: Arc<Answers>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(answers.answer(request).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

impl Answers {
    async fn answer(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path();
        let is_read = parts.method == Method::GET && READ.iter().any(|it| path.contains(it));
        let (status, own) = if parts.method == Method::POST && path == REVIEWS {
            (StatusCode::CREATED, allowed(&body))
        } else if is_read {
            self.read(parts).await
        } else {
            let request = Request::from_parts(parts, Body::from(body.to_vec()));
            return self.client.send(request).await.unwrap().map(Either::Right);
        };
        self.answered.fetch_add(1, Relaxed);
        let answer = Response::builder()
            .status(status)
            .header("content-type", "application/json");
        answer.body(Either::Left(Full::from(own))).unwrap()
    }

    /// Asks the API server for the first of equal reads.
    async fn read(&self, asked: Parts) -> (StatusCode, Bytes) {
        let place = asked.uri.to_string();
        if let Some(answer) = self.known.lock().unwrap().get(&place) {
            return answer.clone();
        }
        let request = Request::from_parts(asked, Body::empty());
        let (answer, body) = self.client.send(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = (answer.status, body);
        self.known.lock().unwrap().insert(place, answer.clone());
        answer
    }
}

/// The objects that reviews read.
const READ: [&str; 4] = [
    "/pods/",
    "/connectorclasses/",
    "/accesspolicies",
    "/accessrequests",
];

/// The review as it was asked, with a yes.
fn allowed(review: &[u8]) -> Bytes {
    let mut review: Value = serde_json::from_slice(review).unwrap();
    review["status"] = json!({"allowed": true, "reason": "the author may"});
    Bytes::from(review.to_string())
}
