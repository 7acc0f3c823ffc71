//! In front of every call, before a byte of its message is read: is there an answer at all, and who
//! asks? Messages may be large, and anybody may send one.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evaluation_api::v1::evaluation_server::EvaluationServer;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tower::Service as TowerService;

use crate::auth::Caller;
use crate::error::Refused;
use crate::places::MESSAGES;
use crate::service::Service;

/// How long a call may take, reading its message and waiting for its turn included. A stream has begun
/// by then, and goes on.
const LONGEST_CALL: Duration = Duration::from_secs(30);

const EVALUATE_CHECKS: &str = "EvaluateChecks";
const CALLS: [&str; 3] = ["CheckAccess", "WatchAccess", EVALUATE_CHECKS];

/// The service behind the gate.
#[derive(Clone)]
pub(crate) struct Gate {
    service: Service,
    server: EvaluationServer<Service>,
    messages: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new(service: Service) -> Self {
        Self {
            server: service.clone().into_server(),
            service,
            messages: Arc::new(Semaphore::new(MESSAGES)),
        }
    }

    async fn admit(&self, request: &Request<Incoming>) -> Result<Caller, Refused> {
        self.service.check_ready()?;
        let metadata = MetadataMap::from_headers(request.headers().clone());
        self.service.callers.authenticate(&metadata).await
    }

    async fn answer(mut self, mut request: Request<Incoming>) -> Response<Body> {
        let since = Instant::now();
        let path = request.uri().path();
        let call = path.rsplit('/').next().unwrap_or_default();
        let call = CALLS.into_iter().find(|known| *known == call);
        let call = call.unwrap_or("other");
        let refused = |status: Status| {
            self.service
                .metrics
                .call(call, status.code(), since.elapsed());
            status.into_http()
        };
        let admitted = match self.admit(&request).await {
            Ok(caller) => caller,
            Err(error) => return refused(error.into()),
        };
        request.extensions_mut().insert(admitted);
        let answer = async {
            let _place = if call == EVALUATE_CHECKS {
                self.messages.acquire().await.ok()
            } else {
                None
            };
            self.server.call(request).await
        };
        match timeout(LONGEST_CALL, answer).await {
            Ok(Ok(response)) => response,
            Err(_) => {
                let late = Status::new(Code::DeadlineExceeded, "the call took too long");
                self.service
                    .metrics
                    .call(call, late.code(), since.elapsed());
                late.into_http()
            }
        }
    }
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
