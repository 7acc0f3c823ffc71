//! Where calls run: at once on the task of their connection, for as long as they need not wait.
//!
//! An answer from memory takes less time than to hand its call to another task, which another thread may
//! have to be woken for, and the answer back. What is said at once is also sent in one piece.

use std::panic::AssertUnwindSafe;
use std::task::{Context, Waker};

use futures::FutureExt;
use hyper::rt::Executor;
use tokio::task::coop::consume_budget;

/// Runs calls.
#[derive(Clone)]
pub(super) struct AtOnce;

impl<F> Executor<F> for AtOnce
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let call = async {
            // Whoever asks without a pause keeps a thread for so many calls and no longer.
            consume_budget().await;
            call.await;
        };
        // As in a task of its own: the end of one call is nothing to the others of its connection.
        let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
        let mut nobody = Context::from_waker(Waker::noop());
        if call.as_mut().poll(&mut nobody).is_pending() {
            // Its task begins with another look, so that nothing that came meanwhile is missed.
            tokio::spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn what_need_not_wait_is_done_and_what_must_goes_on_by_itself() {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        AtOnce.execute(async move {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 1);
        let (sender, receiver) = oneshot::channel::<()>();
        let count = Arc::clone(&done);
        AtOnce.execute(async move {
            receiver.await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        });
        yield_now().await;
        assert_eq!(done.load(Ordering::Relaxed), 1);
        sender.send(()).unwrap();
        while done.load(Ordering::Relaxed) < 2 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_flood_of_calls_does_not_keep_its_thread() {
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..1000 {
            let count = Arc::clone(&done);
            AtOnce.execute(async move {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(done.load(Ordering::Relaxed) < 1000);
        while done.load(Ordering::Relaxed) < 1000 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_call_that_panics_ends_alone() {
        AtOnce.execute(async { panic!("a call") });
    }
}
