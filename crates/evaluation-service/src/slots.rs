//! Slots for the evaluation of checks. The modules of one tenant may be as slow as their limits allow, and must not
//! take the slots of others. Checks of existing grants precede new grants. Policies that are being written have slots
//! of their own, for which no approval waits.

use std::sync::Arc;
use std::time::Duration;

use connectors_api::judge::Stage;
use service_kit::fair::{TenantTurn, TenantTurns};
use service_kit::quota::{Permit, Quota};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::Refused;

/// Open calls before a grant, or about a policy that is being written. There are fewer than messages with objects, so
/// that calls about existing grants find a place.
const MOST_NEW: usize = 9;
/// Of those, calls about policies that are being written. As many as can run are left to approvals.
const MOST_WRITTEN: usize = 3;
/// Of those, calls of one policy namespace.
const MOST_OF_ONE: usize = 5;
/// The same for policies that are being written. One is left to others.
const MOST_WRITTEN_BY_ONE: usize = MOST_WRITTEN - 1;
/// Calls that are evaluated at the same time: shared slots, and slots only for calls after a grant.
const FOR_ALL: usize = 6;
const FOR_GRANTED: usize = 2;
/// Policies being written that are evaluated at the same time, each by one worker.
const FOR_WRITTEN: usize = 2;
/// Of those, calls of one policy namespace.
const RUNNING_OF_ONE: usize = 3;
/// The same for policies that are being written.
const RUNNING_WRITTEN_BY_ONE: usize = 1;
/// How long a call waits for its turn. The caller tries again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Whether an existing grant still holds.
    Granted,
    /// Whether a new grant is given.
    New,
    /// Whether a policy could decide at all.
    Written,
}

impl From<Stage> for Purpose {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::AfterGrant => Self::Granted,
            Stage::BeforeGrant => Self::New,
        }
    }
}

/// Slots for evaluations. Clones share them.
#[derive(Clone)]
pub struct Slots(Arc<SlotState>);

struct SlotState {
    /// Running calls: in shared slots, after a grant, and about policies that are being written.
    all: Semaphore,
    granted: Semaphore,
    written: Semaphore,
    /// Open calls that are not after a grant.
    open_new: Arc<Semaphore>,
    after_grant: Lane,
    before_grant: Lane,
    of_written: Lane,
}

/// The shares of policy namespaces in the calls for one purpose. A tenant's new pods do not delay checks of its old
/// pods, nor do its new policies delay its pods.
struct Lane {
    open: Quota<String>,
    running: TenantTurns<String>,
    /// Rego workers that are busy.
    workers: TenantTurns<String>,
}

/// A call that may wait for its turn, until this is dropped.
struct OpenSlot {
    _of_lane: Permit<String>,
    _of_new: Option<OwnedSemaphorePermit>,
}

/// A call that has its turn, until this is dropped.
pub(crate) struct Slot<'a> {
    workers: &'a TenantTurns<String>,
    namespace: String,
    _turn: SemaphorePermit<'a>,
    _running: TenantTurn<String>,
    _open: OpenSlot,
}

impl Slots {
    /// Slots for so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        // One worker is left to other namespaces, unless there is only one. Then a call waits for at most one earlier
        // module, because workers are given out in the order of asking.
        let workers = workers.saturating_sub(1).max(1);
        let lane = |open, running_of_one| Lane {
            open,
            running: TenantTurns::of(running_of_one),
            workers: TenantTurns::of(workers),
        };
        Self(Arc::new(SlotState {
            all: Semaphore::new(FOR_ALL),
            granted: Semaphore::new(FOR_GRANTED),
            // The modules of one policy are looked at one after the other.
            written: Semaphore::new(workers.min(FOR_WRITTEN)),
            open_new: Arc::new(Semaphore::new(MOST_NEW)),
            after_grant: lane(Quota::per_tenant(MOST_OF_ONE), RUNNING_OF_ONE),
            before_grant: lane(Quota::per_tenant(MOST_OF_ONE), RUNNING_OF_ONE),
            of_written: lane(
                Quota::new(MOST_WRITTEN, MOST_WRITTEN_BY_ONE),
                RUNNING_WRITTEN_BY_ONE,
            ),
        }))
    }

    /// Waits for the turn of a call about a policy of this namespace, but not for long.
    pub(crate) async fn take(
        &self,
        namespace: &str,
        purpose: Purpose,
    ) -> Result<Slot<'_>, Refused> {
        let namespace = namespace.to_owned();
        let open = self.open(&namespace, purpose).ok_or(Refused::TooBusy)?;
        let Lane {
            running, workers, ..
        } = self.lane(purpose);
        let turn = async {
            // The namespace's own turn comes first, so that a call that waits for it takes nothing from others.
            let running = running.take(namespace.clone()).await;
            let turn = match purpose {
                Purpose::Granted => tokio::select! {
                    biased;
                    turn = self.0.granted.acquire() => turn,
                    turn = self.0.all.acquire() => turn,
                },
                Purpose::New => self.0.all.acquire().await,
                Purpose::Written => self.0.written.acquire().await,
            };
            (running, turn)
        };
        let turn = timeout(LONGEST_WAIT, turn).await;
        let (running, turn) = turn.map_err(|_| Refused::TooBusy)?;
        Ok(Slot {
            workers,
            namespace,
            _turn: turn.map_err(|_| Refused::Internal)?,
            _running: running,
            _open: open,
        })
    }

    fn lane(&self, purpose: Purpose) -> &Lane {
        match purpose {
            Purpose::Granted => &self.0.after_grant,
            Purpose::New => &self.0.before_grant,
            Purpose::Written => &self.0.of_written,
        }
    }

    fn open(&self, namespace: &str, purpose: Purpose) -> Option<OpenSlot> {
        let of_lane = self.lane(purpose).open.try_take(namespace.to_owned(), 1);
        let of_lane = of_lane.ok()?;
        let of_new = match purpose {
            Purpose::Granted => None,
            Purpose::New | Purpose::Written => {
                Some(Arc::clone(&self.0.open_new).try_acquire_owned().ok()?)
            }
        };
        Some(OpenSlot {
            _of_lane: of_lane,
            _of_new: of_new,
        })
    }
}

impl Slot<'_> {
    /// Waits until the namespace may keep one more worker busy.
    pub(crate) async fn worker(&self) -> TenantTurn<String> {
        self.workers.take(self.namespace.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;
    use crate::caller_quotas::MESSAGES;

    const NEW: Purpose = Purpose::New;
    const OLD: Purpose = Purpose::Granted;
    const WRITTEN: Purpose = Purpose::Written;

    async fn take<'a>(slots: &'a Slots, namespace: &str, purpose: Purpose) -> Slot<'a> {
        let before = Instant::now();
        let place = slots.take(namespace, purpose).await;
        assert_eq!(before.elapsed(), Duration::ZERO, "{namespace}");
        place.map_err(|error| error.to_string()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_takes_its_share_and_waits_for_itself() {
        let slots = Slots::new(2);
        let mut greedy = Vec::new();
        for _ in 0..RUNNING_OF_ONE {
            greedy.push(take(&slots, "greedy", NEW).await);
        }
        let before = Instant::now();
        let late = slots.take("greedy", NEW).await;
        assert!(matches!(late, Err(Refused::TooBusy)));
        assert_eq!(before.elapsed(), LONGEST_WAIT);
        // Neither another tenant nor its own existing grants wait for that.
        let _other = take(&slots, "other", NEW).await;
        let _old = take(&slots, "greedy", OLD).await;
        greedy.pop();
        let _again = take(&slots, "greedy", NEW).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_granted_has_places_when_all_others_are_taken() {
        let slots = Slots::new(2);
        let mut taken = Vec::new();
        for number in 0..FOR_ALL {
            taken.push(take(&slots, &number.to_string(), NEW).await);
        }
        assert!(matches!(slots.take("x", NEW).await, Err(Refused::TooBusy)));
        for number in 0..FOR_GRANTED {
            taken.push(take(&slots, &number.to_string(), OLD).await);
        }
        assert!(matches!(slots.take("x", OLD).await, Err(Refused::TooBusy)));
        // It also takes shared slots.
        taken.remove(0);
        let _place = take(&slots, "x", OLD).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_behind_too_many_is_sent_away_at_once() {
        let slots = Slots::new(2);
        let count = |name: &str, purpose| slots.open(name, purpose);
        let one: Vec<_> = (0..10).filter_map(|_| count("one", NEW)).collect();
        assert_eq!(one.len(), MOST_OF_ONE);
        let refused = slots.take("one", NEW).now_or_never();
        assert!(matches!(refused, Some(Err(Refused::TooBusy))));
        let others: Vec<_> = (0..20)
            .filter_map(|number| count(&number.to_string(), NEW))
            .collect();
        assert_eq!(one.len() + others.len(), MOST_NEW);
        assert!(count("yet another", NEW).is_none());
        assert!(count("yet another", WRITTEN).is_none());
        let granted: Vec<_> = (0..MESSAGES - MOST_NEW)
            .filter_map(|_| count("one", OLD))
            .collect();
        assert_eq!(granted.len(), MESSAGES - MOST_NEW);
        drop((one, others, granted));
        let lanes = [OLD, NEW, WRITTEN].map(|purpose| slots.lane(purpose));
        assert!(lanes.iter().all(|lane| lane.open.tenants() == 0));
    }

    #[tokio::test(start_paused = true)]
    async fn policies_that_are_written_take_nothing_from_approvals() {
        let slots = Slots::new(8);
        let count = |number: usize| slots.open(&number.to_string(), WRITTEN);
        let waiting: Vec<_> = (0..20).filter_map(count).collect();
        assert_eq!(waiting.len(), MOST_WRITTEN);
        let refused = slots.take("x", WRITTEN).now_or_never();
        assert!(matches!(refused, Some(Err(Refused::TooBusy))));
        // As many approvals as can run at the same time still run.
        let mut taken = Vec::new();
        for number in 0..FOR_ALL {
            taken.push(take(&slots, &number.to_string(), NEW).await);
        }
        drop(waiting);
        // If all those are taken, policies being written still have a turn.
        let _written = take(&slots, "x", WRITTEN).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_writes_many_policies_leaves_a_turn_to_others() {
        let slots = Slots::new(8);
        let _running = take(&slots, "greedy", WRITTEN).await;
        let _waiting = slots.open("greedy", WRITTEN).unwrap();
        let refused = slots.take("greedy", WRITTEN).now_or_never();
        assert!(matches!(refused, Some(Err(Refused::TooBusy))));
        let _other = take(&slots, "other", WRITTEN).await;
    }

    #[tokio::test(start_paused = true)]
    async fn policies_that_are_written_never_keep_all_workers_busy() {
        for (workers, most) in [(1, 1), (2, 1), (3, 2), (8, FOR_WRITTEN)] {
            let slots = Slots::new(workers);
            let mut busy = Vec::new();
            for number in 0..most {
                busy.push(take(&slots, &number.to_string(), WRITTEN).await);
            }
            let late = slots.take("x", WRITTEN).await;
            assert!(matches!(late, Err(Refused::TooBusy)), "{workers}");
            for place in &busy {
                assert!(place.worker().now_or_never().is_some());
            }
            busy.pop();
            take(&slots, "x", WRITTEN).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_never_keeps_all_workers_busy() {
        for (workers, most) in [(1, 1), (2, 1), (8, 7)] {
            let slots = Slots::new(workers);
            let first = take(&slots, "greedy", NEW).await;
            let second = take(&slots, "greedy", NEW).await;
            let mut busy = Vec::new();
            for _ in 0..most {
                busy.push(first.worker().await);
            }
            assert!(second.worker().now_or_never().is_none(), "{workers}");
            let other = take(&slots, "other", NEW).await;
            assert!(other.worker().now_or_never().is_some());
        }
    }
}
