//! The executor of calls: each call begins on the task of its connection, and gets a task of its own when it has to
//! wait.
//!
//! An answer from memory takes less time than handing the call to another task and the answer back, which may wake
//! another thread. Answers that are ready together are also sent in one piece.

use std::panic::AssertUnwindSafe;
use std::task::{Context, Waker};

use futures::FutureExt;
use hyper::rt::Executor;
use tokio::task::coop::consume_budget;

/// Runs calls.
#[derive(Clone)]
pub(super) struct InlineExecutor;

impl<F> Executor<F> for InlineExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let call = async {
            // A client that sends calls without a pause occupies its thread for a limited number of calls.
            consume_budget().await;
            call.await;
        };
        // As in a task of its own: the panic of one call does not end the other calls of its connection.
        let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
        let mut nobody = Context::from_waker(Waker::noop());
        if call.as_mut().poll(&mut nobody).is_pending() {
            // The new task polls the call again, so that no wake-up in between is lost.
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
        InlineExecutor.execute(async move {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 1);
        let (sender, receiver) = oneshot::channel::<()>();
        let count = Arc::clone(&done);
        InlineExecutor.execute(async move {
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
            InlineExecutor.execute(async move {
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
        InlineExecutor.execute(async { panic!("a call") });
    }
}
