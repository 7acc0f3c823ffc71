//! The use of leadership by a process: it waits for it, notices its end, and gives it back last.

use std::convert::Infallible;

use futures::future::join_all;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{Election, Leadership};
use crate::shutdown::Tasks;

impl Leadership {
    /// The outcome of the next step of the election, or of the last one if it made this process the leader. False when
    /// there is no election any more.
    pub async fn known(leadership: &mut watch::Receiver<Self>) -> bool {
        leadership.borrow_and_update().may_begin() || leadership.changed().await.is_ok()
    }

    /// Waits until this process does not lead any more, or begins no more work. No event has to say so.
    pub async fn lost(mut leadership: watch::Receiver<Self>) {
        loop {
            let until = match *leadership.borrow_and_update() {
                Self::Follower | Self::Leaving { .. } => return,
                Self::Leader { until } => until,
            };
            if Instant::now() >= until {
                return;
            }
            tokio::select! {
                biased;
                changed = leadership.changed() => if changed.is_err() { return },
                () = sleep_until(until) => {}
            }
        }
    }
}

impl Election {
    /// Runs for election as long as workers run: the lease is given back after the last write.
    pub fn spawn_with(self, tasks: &mut Tasks, workers: Vec<JoinHandle<()>>) {
        let (working, ended) = oneshot::channel::<Infallible>();
        let workers = join_all(workers);
        tasks.spawn("workers", async move {
            let ended = workers.await;
            drop(working);
            ended.into_iter().collect::<Result<(), _>>()
        });
        let released = async move {
            let _ = ended.await;
        };
        tasks.spawn_infallible("lease", self.run(released));
    }
}
