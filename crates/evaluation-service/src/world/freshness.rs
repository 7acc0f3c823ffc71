//! The age of each cache: when it last received something from the API server, and whether that is recent enough.
//!
//! Events alone are not enough: a cluster role may not change for weeks. The API server sends at least a bookmark on
//! every watch about once a minute. kube hides bookmarks from its users, so they are noted in the body of the watch's
//! response.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::clock;
use http::Request;
use http::header::{ACCEPT, HeaderValue};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;

use super::SOURCES;

/// Moments of the caches, in microseconds.
#[derive(Debug)]
pub(super) struct CacheTimes([AtomicI64; SOURCES]);

const NEVER: i64 = i64::MIN;

impl Default for CacheTimes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicI64::new(NEVER)))
    }
}

impl CacheTimes {
    /// A cache shows the cluster as of this moment. It never goes back.
    pub(super) fn note(&self, place: usize, moment: Timestamp) {
        if let Some(heard) = self.0.get(place) {
            heard.fetch_max(moment.as_microsecond(), Ordering::AcqRel);
        }
    }

    /// The moment of the slowest of the first caches. None while one of them has never received anything.
    pub(super) fn oldest(&self, first: usize) -> Option<Timestamp> {
        let moments = self.0.iter().take(first);
        let moments = moments.map(|heard| heard.load(Ordering::Acquire));
        let oldest = moments.min().filter(|oldest| *oldest != NEVER)?;
        Timestamp::from_microsecond(oldest).ok()
    }
}

/// How long a cache that shows the cluster as of `fresh_as_of` may still be used. None if it is too old.
#[must_use]
pub fn fresh_for(
    fresh_as_of: Option<Timestamp>,
    now: Timestamp,
    most: Duration,
) -> Option<Duration> {
    let age = now.duration_since(fresh_as_of?);
    // A clock that was set back does not make a cache fresher.
    let age = Duration::try_from(age.max(SignedDuration::ZERO)).ok()?;
    most.checked_sub(age).filter(|left| !left.is_zero())
}

/// The same client, which reports each time that everything received on a watch so far has been processed. On request,
/// it asks for the metadata of objects only.
pub(super) fn listening<F>(client: &Client, metadata_only: bool, heard: F) -> Client
where
    F: Fn(Timestamp) + Clone + Send + Sync + Unpin + 'static,
{
    let inner = client.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (inner, heard) = (inner.clone(), heard.clone());
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|it| it == "watch=true");
        if metadata_only {
            let accepted = if is_watch { METADATA } else { METADATA_LIST };
            let accepted = HeaderValue::from_static(accepted);
            request.headers_mut().insert(ACCEPT, accepted);
        }
        async move {
            let response = inner.send(request).await?;
            // A refusal is a line as well, and shows nothing of the cluster.
            let is_heard = is_watch && response.status().is_success();
            Ok::<_, kube::Error>(response.map(|body| Listened {
                body,
                heard: is_heard.then_some(heard),
                unsaid: None,
            }))
        }
    });
    Client::new(service, client.default_namespace())
}

/// The media type that requests only metadata from the API server.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A line on a watch shows the cluster as of its sending, and does not contain that time. On a busy machine the
/// delivery takes tens of milliseconds.
const DELIVERY: SignedDuration = SignedDuration::from_secs(1);

/// The body of a response.
struct Listened<F> {
    body: Body,
    /// Set only for a watch that the API server granted.
    heard: Option<F>,
    /// The time at which the last whole lines were sent, or later. They count when the reader comes back for more.
    unsaid: Option<Timestamp>,
}

/// Whether a piece of a watch ends with a line and contains no error. After an error nothing is certain.
fn is_good(data: &[u8]) -> bool {
    let mut lines = data.split(|byte| *byte == b'\n');
    data.ends_with(b"\n") && !lines.any(|line| line.starts_with(br#"{"type":"ERROR""#))
}

impl<F: Fn(Timestamp) + Unpin> HttpBody for Listened<F> {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let (Some(moment), Some(heard)) = (self.unsaid.take(), &self.heard) {
            heard(moment);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if self.heard.is_some()
            && let Some(Ok(frame)) = &frame
            && frame.data_ref().is_some_and(|data| is_good(data))
        {
            self.unsaid = clock::now().checked_sub(DELIVERY).ok();
        }
        Poll::Ready(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Mutex};

    use futures::channel::mpsc;
    use futures::{FutureExt, StreamExt};
    use http::Response;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_slowest_cache_counts_and_none_goes_back() {
        let heard = CacheTimes::default();
        heard.note(0, at(9));
        assert_eq!(heard.oldest(2), None);
        heard.note(1, at(7));
        assert_eq!(heard.oldest(2), Some(at(7)));
        heard.note(1, at(3));
        assert_eq!(heard.oldest(2), Some(at(7)));
        heard.note(1, at(20));
        assert_eq!(heard.oldest(2), Some(at(9)));
    }

    #[test]
    fn what_was_heard_holds_for_so_long_and_nothing_never() {
        let most = Duration::from_secs(90);
        let left = |heard, now| fresh_for(heard, at(now), most);
        assert_eq!(left(None, 100), None);
        assert_eq!(left(Some(at(100)), 100), Some(most));
        assert_eq!(left(Some(at(100)), 189), Some(Duration::from_secs(1)));
        assert_eq!(left(Some(at(100)), 190), None);
        assert_eq!(left(Some(at(100)), 1000), None);
        assert_eq!(left(Some(at(100)), 50), Some(most));
    }

    #[test]
    fn half_a_line_and_an_error_are_no_news() {
        assert!(is_good(b"{\"type\":\"BOOKMARK\"}\n"));
        assert!(is_good(b"rest\"}\n{\"type\":\"ADDED\"}\n"));
        for odd in [
            &b""[..],
            b"{\"type\":\"ADDED\"",
            b"{\"type\":\"ADDED\"}\n{\"ty",
            b"{\"type\":\"ADDED\"}\n{\"type\":\"ERROR\",\"object\":{}}\n",
        ] {
            assert!(!is_good(odd), "{odd:?}");
        }
    }

    type Sender = mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>;

    async fn body(path: &str, counted: &Arc<AtomicUsize>) -> (Sender, Body) {
        answered(200, path, counted).await
    }

    async fn answered(status: u16, path: &str, counted: &Arc<AtomicUsize>) -> (Sender, Body) {
        let (sender, frames) = mpsc::unbounded();
        let frames = Arc::new(Mutex::new(Some(frames)));
        let service = tower::service_fn(move |_: Request<Body>| {
            let frames = frames.lock().unwrap().take().unwrap();
            let mut response = Response::new(StreamBody::new(frames.boxed()));
            *response.status_mut() = status.try_into().unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let counted = Arc::clone(counted);
        let client = listening(&Client::new(service, "default"), false, move |moment| {
            // A line that came just now was sent a while ago.
            assert!(moment + DELIVERY <= clock::now());
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let request = Request::get(path).body(Body::empty()).unwrap();
        (sender, client.send(request).await.unwrap().into_body())
    }

    #[tokio::test]
    async fn what_came_counts_when_it_has_been_read_and_not_before() {
        let counted = Arc::new(AtomicUsize::new(0));
        let (sender, mut body) = body("/x?a=b&watch=true", &counted).await;
        let said = |text: &'static str| {
            let frame = Frame::data(Bytes::from_static(text.as_bytes()));
            sender.unbounded_send(Ok(frame)).unwrap();
        };
        let count = || counted.load(Ordering::Relaxed);
        said("{\"type\":\"BOOKMARK\"}\n");
        assert!(body.frame().await.is_some());
        assert_eq!(count(), 0);
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(count(), 1);
        said("{\"type\":");
        assert!(body.frame().await.is_some());
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(count(), 1);
    }

    #[tokio::test]
    async fn a_list_is_no_watch() {
        let counted = Arc::new(AtomicUsize::new(0));
        let (sender, mut body) = body("/x?limit=500", &counted).await;
        let frame = Frame::data(Bytes::from_static(b"{}\n"));
        sender.unbounded_send(Ok(frame)).unwrap();
        assert!(body.frame().await.is_some());
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(counted.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_watch_that_is_refused_tells_nothing_of_the_cluster() {
        let counted = Arc::new(AtomicUsize::new(0));
        for status in [401, 403, 429, 500] {
            let (sender, mut body) = answered(status, "/x?watch=true", &counted).await;
            let refusal = Bytes::from_static(b"{\"kind\":\"Status\",\"status\":\"Failure\"}\n");
            sender.unbounded_send(Ok(Frame::data(refusal))).unwrap();
            assert!(body.frame().await.is_some());
            assert!(body.frame().now_or_never().is_none());
            assert_eq!(counted.load(Ordering::Relaxed), 0, "{status}");
        }
    }
}
