//! Readiness, authentication and quotas of every call, before a byte of its message is read: messages may be large, and
//! every client that reaches the port may send one.

mod guarded_body;
mod message;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evaluation_api::v1::evaluation_server::EvaluationServer;
use evaluation_api::{DESCRIPTOR, LONGEST_MESSAGE};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use service_kit::deadline;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower::util::BoxCloneSyncService;
use tower::{Service as TowerService, ServiceExt};

use crate::auth::Caller;
use crate::call_names::{
    BATCH_CHECK_ACCESS, CHECK_ACCESS, COUNTED_CALLS, EVALUATE_CHECKS, OTHER, VALIDATE_POLICY,
    WATCH_ACCESS,
};
use crate::caller_quotas::Rpc;
use crate::error::Refused;
use crate::health::Healthy;
use crate::service::Service;

pub(crate) use guarded_body::GuardedBody;

/// The time limit of a call, including the read of its message and the wait for its turn. A stream has begun by then,
/// and continues.
const LONGEST_CALL: Duration = Duration::from_secs(30);
/// The time limit for receiving a message with many questions, because it occupies a place.
const LONGEST_COMING: Duration = Duration::from_secs(5);
/// The longest message with many questions. The most questions of one call, all with the longest possible names, are
/// shorter.
const LONGEST_QUESTIONS: usize = 2 * 1024 * 1024;
/// The longest message with one question, or of a stream, or about a token.
const LONGEST_QUESTION: usize = 64 * 1024;
/// The longest health request, which needs no token: it contains a name.
const LONGEST_PROBE: usize = 1024;
/// Health requests at the same time, and the time for each.
const PROBES: usize = 64;
const PROBE_WITHIN: Duration = Duration::from_secs(2);

const BATCHES: &str = "/connectors.evaluation.v1.Evaluation/BatchCheckAccess";
const HEALTH: &str = "/grpc.health.v1.Health/";
/// Reflection needs a token like every call: without one, a client cannot use the protocol.
const REFLECTION: &str = "/grpc.reflection.";

/// The proof of the caller's identity.
#[derive(Clone)]
enum CallProof {
    /// A token.
    Token,
    /// The connection itself, which only trusted users of this machine can open.
    Connection(Caller),
}

/// Marks a call that began when its connection had no other call.
#[derive(Clone)]
pub(crate) struct AloneOnConnection;

type Other = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

/// The service behind the gate.
#[derive(Clone)]
pub(crate) struct Gate {
    behind: Arc<Behind>,
    proof: CallProof,
}

/// The services behind the gate. They are shared, so that a call does not copy each of them.
struct Behind {
    service: Service,
    health: Other,
    reflection: Option<Other>,
    /// The service for calls with objects.
    objects: EvaluationServer<Service>,
    /// The service for all other calls.
    questions: EvaluationServer<Service>,
    probes: Semaphore,
}

impl Gate {
    /// The gate for callers that show a token.
    pub(crate) fn new(service: Service) -> Self {
        let behind = Behind {
            health: health(service.clone()),
            reflection: reflection(),
            objects: service.clone().into_server(LONGEST_MESSAGE),
            questions: service.clone().into_server(LONGEST_QUESTION),
            service,
            probes: Semaphore::new(PROBES),
        };
        Self {
            behind: Arc::new(behind),
            proof: CallProof::Token,
        }
    }

    /// The gate for a user of this machine, who needs no token.
    pub(crate) fn for_user(&self, user: u32) -> Self {
        Self {
            behind: Arc::clone(&self.behind),
            proof: CallProof::Connection(self.behind.service.callers.local(user)),
        }
    }

    async fn admit(&self, request: &Request<Incoming>) -> Result<Caller, Refused> {
        let service = &self.behind.service;
        service.check_ready()?;
        if let CallProof::Connection(caller) = &self.proof {
            return Ok(caller.clone());
        }
        service.callers.authenticate(request.headers()).await
    }

    async fn answer(self, mut request: Request<Incoming>) -> Response<Body> {
        let since = Instant::now();
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return self.behind.probe(request).await;
        }
        let call = path.rsplit('/').next().unwrap_or_default();
        let call = COUNTED_CALLS.into_iter().find(|known| *known == call);
        let call = call.unwrap_or(OTHER);
        let behind = Arc::clone(&self.behind);
        let refused = |refused: Refused| {
            let metrics = &behind.service.metrics;
            metrics.call(call, refused.code(), since.elapsed());
            Status::from(refused).into_http()
        };
        let caller = match self.admit(&request).await {
            Ok(caller) => caller,
            Err(error) => return refused(error),
        };
        let is_stream = call == WATCH_ACCESS || path.starts_with(REFLECTION);
        let kind = if is_stream { Rpc::Stream } else { Rpc::Call };
        let open = match caller.quotas.begin(kind) {
            Ok(open) => open,
            Err(error) => return refused(error),
        };
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(open.clone());
        match timeout(
            limit(request.headers()),
            behind.pass(&caller, call, request),
        )
        .await
        {
            // Held until the answer is sent or the client is gone.
            Ok(Ok(response)) => response.map(|body| Body::new(GuardedBody::new(body, open))),
            Ok(Err(error)) => refused(error),
            Err(_) => refused(Refused::TooLate),
        }
    }
}

/// The time limit of a call: no longer than its caller waits.
fn limit(headers: &HeaderMap) -> Duration {
    let wanted = headers.get(deadline::HEADER);
    let wanted = wanted.and_then(|text| deadline::parse(text.to_str().ok()?));
    wanted.map_or(LONGEST_CALL, |wanted| wanted.min(LONGEST_CALL))
}

impl Behind {
    /// Answers health requests of any client, also a hostile one.
    async fn probe(&self, request: Request<Incoming>) -> Response<Body> {
        let refused = |refused: Refused| Status::from(refused).into_http();
        let Ok(_place) = self.probes.try_acquire() else {
            return refused(Refused::TooManyCalls);
        };
        match timeout(PROBE_WITHIN, self.health.clone().oneshot(request)).await {
            Ok(Ok(response)) => response,
            Err(_) => refused(Refused::TooLate),
        }
    }

    async fn pass(
        &self,
        caller: &Caller,
        call: &str,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refused> {
        if request.uri().path().starts_with(REFLECTION)
            && let Some(reflection) = &self.reflection
        {
            let Ok(response) = reflection.clone().oneshot(request).await;
            return Ok(response);
        }
        let is_alone = request.extensions().get::<AloneOnConnection>().is_some();
        if call != CHECK_ACCESS && !(call == EVALUATE_CHECKS && is_alone) {
            // A single question is answered immediately, and so are checks that no other call waits for. Every other call
            // leaves the task of its connection, where it would delay the other calls.
            yield_now().await;
        }
        match call {
            EVALUATE_CHECKS | VALIDATE_POLICY => {
                let _message = caller.quotas.message().await;
                let Ok(response) = self.objects.clone().call(request).await;
                Ok(response)
            }
            BATCH_CHECK_ACCESS if request.uri().path() == BATCHES => {
                // Decoded by the generated code, empty questions take two bytes on the wire and a hundred times as many
                // in memory, and other questions take each of their texts a second time.
                let _batch = caller.quotas.batch().await;
                let since = Instant::now();
                let message = message::read(request.into_body(), LONGEST_QUESTIONS);
                let message = timeout(LONGEST_COMING, message).await;
                let message = message.map_err(|_| Refused::TooLate)??;
                let answer = self.service.answer_batch(caller, &message).await?;
                self.service.metrics.call(call, Code::Ok, since.elapsed());
                Ok(message::answer(answer))
            }
            _ => {
                let Ok(response) = self.questions.clone().call(request).await;
                Ok(response)
            }
        }
    }
}

fn health(service: Service) -> Other {
    let server = HealthServer::new(Healthy(service));
    BoxCloneSyncService::new(server.max_decoding_message_size(LONGEST_PROBE))
}

/// Describes the protocol, in both versions that clients use. None when the description cannot be read, which a test
/// would have noticed.
fn reflection() -> Option<Other> {
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The types of the details of refusals.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let old = describe().build_v1alpha().ok()?;
    let new = describe().build_v1().ok()?;
    Some(BoxCloneSyncService::new(tower::service_fn(
        move |request: Request<Incoming>| {
            let (old, new) = (old.clone(), new.clone());
            async move {
                if request.uri().path().contains(".v1alpha.") {
                    old.oneshot(request).await
                } else {
                    new.oneshot(request).await
                }
            }
        },
    )))
}

impl TowerService<Request<Incoming>> for Gate {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        self.clone().answer(request).map(Ok).boxed()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_call_takes_no_longer_than_its_caller_waits_nor_than_any_may() {
        let said = |text: &'static [u8]| {
            let text = HeaderValue::from_bytes(text).unwrap();
            limit(&HeaderMap::from_iter([(
                http::HeaderName::from_static(deadline::HEADER),
                text,
            )]))
        };
        assert_eq!(limit(&HeaderMap::new()), LONGEST_CALL);
        assert_eq!(said(b"1500m"), Duration::from_millis(1500));
        assert_eq!(said(b"0n"), Duration::ZERO);
        for long_or_odd in [&b"5H"[..], b"", b"1", b"soon", b"\xff"] {
            assert_eq!(said(long_or_odd), LONGEST_CALL);
        }
    }
}
