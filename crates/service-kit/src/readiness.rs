//! Readiness: a process is ready when every part that has to catch up has reported so.
//!
//! A part cannot revoke its report: a service continues with its last knowledge, and metrics show a part that
//! falls behind later. Only the end of the process makes it unready again.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

/// The parts that a process still waits for. Clones share one state.
#[derive(Clone, Debug)]
pub struct Readiness {
    state: Arc<watch::Sender<ReadinessState>>,
}

#[derive(Debug, Default)]
struct ReadinessState {
    missing: BTreeMap<u64, String>,
    next: u64,
    stopping: bool,
}

/// The answer to the question whether the process may get work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Every part has caught up.
    Ready,
    /// These parts have not caught up, in the order in which they were taken.
    Missing(Vec<String>),
    /// The process is about to end.
    Stopping,
}

impl Readiness {
    /// The readiness of a process that has just started, with the part that stands for the start itself.
    /// It is to be released after all other parts were taken: until then nothing is ready by accident.
    pub fn starting() -> (Self, ReadinessPart) {
        let readiness = Self {
            state: Arc::new(watch::Sender::new(ReadinessState::default())),
        };
        let start = readiness.part("start");
        (readiness, start)
    }

    /// Takes a part under a name that an operator understands.
    pub fn part(&self, name: impl Into<String>) -> ReadinessPart {
        let mut id = 0;
        self.state.send_modify(|state| {
            id = state.next;
            state.next += 1;
            state.missing.insert(id, name.into());
        });
        ReadinessPart {
            id,
            state: Arc::clone(&self.state),
        }
    }

    /// How the process stands now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state.borrow().status()
    }

    /// From now on the process takes no new work, regardless of its parts.
    pub fn stop(&self) {
        self.state.send_modify(|state| state.stopping = true);
    }

    /// Waits until every part has caught up. Never returns once the process is stopping.
    pub async fn ready(&self) {
        let mut state = self.state.subscribe();
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = state
            .wait_for(|state| state.status() == Status::Ready)
            .await;
    }
}

impl ReadinessState {
    fn status(&self) -> Status {
        if self.stopping {
            Status::Stopping
        } else if self.missing.is_empty() {
            Status::Ready
        } else {
            Status::Missing(self.missing.values().cloned().collect())
        }
    }
}

/// One part that has not caught up yet.
///
/// Dropping it changes nothing: a task that died before it caught up leaves the process unready, under the
/// name of the missing part.
#[derive(Debug)]
#[must_use = "a part that is dropped keeps the process unready for ever"]
pub struct ReadinessPart {
    id: u64,
    state: Arc<watch::Sender<ReadinessState>>,
}

impl ReadinessPart {
    /// The part has caught up.
    pub fn ready(self) {
        self.state.send_modify(|state| {
            state.missing.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, poll};

    use super::{Readiness, Status};

    fn missing(names: &[&str]) -> Status {
        Status::Missing(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_process_that_has_just_started_is_unready() {
        let (readiness, _start) = Readiness::starting();
        assert_eq!(readiness.status(), missing(&["start"]));
    }

    #[test]
    fn every_part_is_named_until_it_has_caught_up() {
        let (readiness, start) = Readiness::starting();
        let (pods, policies) = (readiness.part("pods"), readiness.part("policies"));
        start.ready();
        assert_eq!(readiness.status(), missing(&["pods", "policies"]));
        pods.ready();
        assert_eq!(readiness.status(), missing(&["policies"]));
        policies.ready();
        assert_eq!(readiness.status(), Status::Ready);
    }

    #[test]
    fn parts_of_one_name_are_counted_apart() {
        let (readiness, start) = Readiness::starting();
        let (one, two) = (readiness.part("pods"), readiness.part("pods"));
        start.ready();
        one.ready();
        assert_eq!(readiness.status(), missing(&["pods"]));
        two.ready();
        assert_eq!(readiness.status(), Status::Ready);
    }

    #[test]
    fn a_part_that_is_dropped_stays_missing() {
        let (readiness, start) = Readiness::starting();
        let pods = readiness.part("pods");
        start.ready();
        drop(pods);
        assert_eq!(readiness.status(), missing(&["pods"]));
    }

    #[test]
    fn a_process_that_stops_is_unready_though_all_parts_have_caught_up() {
        let (readiness, start) = Readiness::starting();
        start.ready();
        readiness.stop();
        assert_eq!(readiness.status(), Status::Stopping);
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_part() {
        let (readiness, start) = Readiness::starting();
        let mut ready = std::pin::pin!(readiness.ready());
        assert!(poll!(&mut ready).is_pending());
        start.ready();
        assert_eq!(ready.now_or_never(), Some(()));
    }
}
