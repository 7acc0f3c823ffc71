//! The open calls of one connection. A connection without calls is closed after some time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tower::Service;

use crate::gate::{AloneOnConnection, GuardedBody};

/// Counts calls. Clones count the same ones.
#[derive(Clone)]
pub(super) struct Calls(Arc<Mutex<OpenCalls>>);

struct OpenCalls {
    calls: usize,
    /// The last moment without a call.
    since: Instant,
}

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(OpenCalls {
            calls: 0,
            since: Instant::now(),
        })))
    }
}

/// One call, until this is dropped.
pub(super) struct CallInProgress(Calls);

impl Calls {
    pub(super) fn begin(&self) -> CallInProgress {
        self.open().calls += 1;
        CallInProgress(self.clone())
    }

    /// Whether exactly one call is open.
    fn is_one(&self) -> bool {
        self.open().calls == 1
    }

    /// Returns when no call was open for so long. It checks at the earliest possible moment, because a notification
    /// for each call would slow down each call.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let end = {
                let OpenCalls { calls, since } = *self.open();
                let since = if calls == 0 { since } else { Instant::now() };
                since + limit
            };
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenCalls> {
        // Nothing in between can fail.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        let mut open = self.0.open();
        open.calls -= 1;
        open.since = Instant::now();
    }
}

/// A service whose calls are counted until their answers are sent or the client is gone.
#[derive(Clone)]
pub(super) struct CountedService<S> {
    pub(super) inner: S,
    pub(super) calls: Calls,
}

impl<S, B> Service<Request<B>> for CountedService<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let call = self.calls.begin();
        if self.calls.is_one() {
            request.extensions_mut().insert(AloneOnConnection);
        }
        let answer = self.inner.call(request);
        let answer = answer.map(|answer| {
            answer.map(|response| response.map(|body| Body::new(GuardedBody::new(body, call))))
        });
        answer.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http_body_util::Full;
    use hyper::body::{Body as _, Bytes};
    use tokio::time::sleep;
    use tower::ServiceExt;
    use tower::util::{BoxCloneSyncService, future_service};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_it_had_no_call_for_so_long() {
        let calls = Calls::default();
        let started = Instant::now();
        calls.idle(LIMIT).await;
        assert_eq!(started.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_call_keeps_a_connection_and_so_does_a_short_one_for_a_while() {
        let calls = Calls::default();
        let started = Instant::now();
        let one = calls.begin();
        let two = calls.begin();
        let ended = async {
            sleep(LIMIT * 10).await;
            drop(one);
            sleep(LIMIT * 10).await;
            drop(two);
            sleep(LIMIT / 2).await;
            drop(calls.begin());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = calls.idle(LIMIT) => {}
            () = ended => {}
        }
        assert_eq!(started.elapsed(), LIMIT * 21 + LIMIT / 2);
    }

    #[tokio::test]
    async fn a_counted_service_is_ready_when_the_one_in_it_is() {
        type Inner = BoxCloneSyncService<Request<()>, Response<Body>, Infallible>;
        let mut service = CountedService {
            inner: future_service(pending::<Result<Inner, Infallible>>()),
            calls: Calls::default(),
        };
        let ready = ServiceExt::<Request<()>>::ready(&mut service);
        assert!(ready.now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_call_is_alone_on_its_connection_when_no_other_is_open() {
        let inner = tower::service_fn(|request: Request<()>| async move {
            let is_alone = request.extensions().get::<AloneOnConnection>().is_some();
            let said = if is_alone { "alone" } else { "beside others" };
            Ok::<_, Infallible>(Response::new(Body::new(Full::new(Bytes::from(said)))))
        });
        let mut service = CountedService {
            inner,
            calls: Calls::default(),
        };
        let mut open = Vec::new();
        for expected in ["alone", "beside others", "beside others"] {
            let response = service.call(Request::new(())).await.unwrap();
            // The length tells the words apart.
            let length = u64::try_from(expected.len()).unwrap();
            assert_eq!(response.body().size_hint().exact(), Some(length));
            open.push(response);
        }
        open.clear();
        let response = service.call(Request::new(())).await.unwrap();
        assert_eq!(response.body().size_hint().exact(), Some(5));
    }

    #[tokio::test]
    async fn a_call_is_open_until_its_answer_is_gone() {
        let calls = Calls::default();
        let inner = tower::service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Body::new(Full::new(Bytes::from("answer")))))
        });
        let mut service = CountedService {
            inner,
            calls: calls.clone(),
        };
        let response = service.call(Request::new(())).await.unwrap();
        assert_eq!(calls.open().calls, 1);
        drop(response);
        assert_eq!(calls.open().calls, 0);
        drop(service.call(Request::new(())));
        assert_eq!(calls.open().calls, 0);
    }
}
