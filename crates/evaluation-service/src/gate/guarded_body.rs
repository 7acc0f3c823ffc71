//! The body of an answer, with a guard that is dropped when the answer is sent or the client is gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// The body of an answer, with its guard.
pub(crate) struct GuardedBody<T> {
    body: Body,
    _held: T,
}

impl<T> GuardedBody<T> {
    pub(crate) const fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> HttpBody for GuardedBody<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn it_is_as_long_as_the_answer_in_it() {
        let answer = Body::new(Full::new(Bytes::from_static(b"answer")));
        let guarded = GuardedBody::new(answer, ());
        assert_eq!(guarded.size_hint().exact(), Some(6));
        assert!(!guarded.is_end_stream());
        assert!(GuardedBody::new(Body::empty(), ()).is_end_stream());
    }
}
