//! Who may evaluate checks now. The modules of one tenant may be as slow as their limits allow, and must
//! not take everybody else's turn; whether what was granted still holds comes before what is new; and
//! policies that are being written have places of their own, which no approval waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connectors_api::judge::Stage;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::Refused;

/// Calls whose messages are in memory at the same time, whatever becomes of them.
pub(crate) const MESSAGES: usize = 12;
/// Messages with many questions that are in memory at the same time.
pub(crate) const BATCHES: usize = 24;
/// Of the former, calls that give nobody what they have already: before a grant, or about a policy as it is
/// written.
const MOST_NEW: usize = 9;
/// Of those, calls about policies as they are written. As many as run are left to approvals.
const MOST_WRITTEN: usize = 3;
/// Of those, calls of one policy namespace.
const MOST_OF_ONE: usize = 5;
/// The same about policies as they are written: one is left to others.
const MOST_WRITTEN_BY_ONE: usize = MOST_WRITTEN - 1;
/// Calls that are evaluated at the same time: anybody's, and those after a grant only.
const FOR_ALL: usize = 6;
const FOR_GRANTED: usize = 2;
/// Policies as they are written that are looked at at the same time, each by one worker.
const FOR_WRITTEN: usize = 2;
/// Of those, calls of one policy namespace.
const RUNNING_OF_ONE: usize = 3;
/// The same about policies as they are written.
const RUNNING_WRITTEN_BY_ONE: usize = 1;
/// How long a call waits for its turn. The caller comes again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Whether what was granted still holds.
    Granted,
    /// Whether something is to be granted.
    New,
    /// Whether a policy could decide at all.
    Written,
}

impl Purpose {
    /// How many calls one namespace may have open.
    const fn most_of_one(self) -> usize {
        match self {
            Self::Granted | Self::New => MOST_OF_ONE,
            Self::Written => MOST_WRITTEN_BY_ONE,
        }
    }

    /// How many of them run.
    const fn running_of_one(self) -> usize {
        match self {
            Self::Granted | Self::New => RUNNING_OF_ONE,
            Self::Written => RUNNING_WRITTEN_BY_ONE,
        }
    }
}

impl From<Stage> for Purpose {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::AfterGrant => Self::Granted,
            Stage::BeforeGrant => Self::New,
        }
    }
}

/// The namespace of the policy, and what for: a tenant's new pods do not keep its old ones from being looked
/// after, nor its new policies its pods.
type Key = (String, Purpose);

/// Places for evaluations. Clones share them.
#[derive(Clone)]
pub struct Places(Arc<Inner>);

struct Inner {
    all: Semaphore,
    granted: Semaphore,
    written: Semaphore,
    shares: Mutex<HashMap<Key, Arc<Share>>>,
    /// How many Rego workers one namespace may keep busy.
    workers: usize,
}

struct Share {
    calls: Mutex<usize>,
    running: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

/// A call that is counted, until this is dropped.
struct Counted {
    places: Places,
    key: Key,
    share: Arc<Share>,
}

/// A call that has its turn, until this is dropped.
pub(crate) struct Place<'a> {
    counted: Counted,
    _running: OwnedSemaphorePermit,
    _turn: SemaphorePermit<'a>,
}

impl Places {
    /// As many as fit so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        // One is left to others, if there are others. A single worker is everybody's: whoever asks for it
        // waits for at most one module before, because workers are given out in the order of asking.
        let workers = workers.saturating_sub(1).max(1);
        Self(Arc::new(Inner {
            all: Semaphore::new(FOR_ALL),
            granted: Semaphore::new(FOR_GRANTED),
            // The modules of one policy are looked at one after the other.
            written: Semaphore::new(workers.min(FOR_WRITTEN)),
            shares: Mutex::default(),
            workers,
        }))
    }

    /// Waits for the turn of a call about a policy of this namespace, but not for long.
    pub(crate) async fn take(
        &self,
        namespace: &str,
        purpose: Purpose,
    ) -> Result<Place<'_>, Refused> {
        let counted = self.count((namespace.to_owned(), purpose));
        let counted = counted.ok_or(Refused::TooBusy)?;
        let turn = async {
            // Its own share first, so that who waits for that takes nothing from others.
            let running = Arc::clone(&counted.share.running).acquire_owned().await?;
            let place = match purpose {
                Purpose::Granted => tokio::select! {
                    biased;
                    place = self.0.granted.acquire() => place,
                    place = self.0.all.acquire() => place,
                },
                Purpose::New => self.0.all.acquire().await,
                Purpose::Written => self.0.written.acquire().await,
            };
            Ok::<_, tokio::sync::AcquireError>((running, place?))
        };
        let turn = timeout(LONGEST_WAIT, turn).await;
        let turn = turn.map_err(|_| Refused::TooBusy)?;
        let (running, place) = turn.map_err(|_| Refused::Internal)?;
        Ok(Place {
            counted,
            _running: running,
            _turn: place,
        })
    }

    fn count(&self, key: Key) -> Option<Counted> {
        let mut shares = self.lock();
        let calls = |share: &Arc<Share>| *share.calls();
        let calls_for = |purposes: &[Purpose]| -> usize {
            let of = shares.iter().filter(|((_, it), _)| purposes.contains(it));
            of.map(|(_, share)| calls(share)).sum()
        };
        let (_, purpose) = key;
        let is_too_many = match purpose {
            Purpose::Granted => false,
            Purpose::New => calls_for(&[Purpose::New, Purpose::Written]) >= MOST_NEW,
            Purpose::Written => {
                calls_for(&[Purpose::Written]) >= MOST_WRITTEN
                    || calls_for(&[Purpose::New, Purpose::Written]) >= MOST_NEW
            }
        };
        if is_too_many || shares.get(&key).map_or(0, calls) >= purpose.most_of_one() {
            return None;
        }
        let share = shares.entry(key.clone()).or_insert_with(|| {
            Arc::new(Share {
                calls: Mutex::default(),
                running: Arc::new(Semaphore::new(purpose.running_of_one())),
                workers: Arc::new(Semaphore::new(self.0.workers)),
            })
        });
        let share = Arc::clone(share);
        *share.calls() += 1;
        drop(shares);
        Some(Counted {
            places: self.clone(),
            key,
            share,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Share>>> {
        // Shares are put in and taken out whole.
        self.0.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Only looked at while all shares are locked.
    fn calls(&self) -> MutexGuard<'_, usize> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut shares = self.places.lock();
        let mut calls = self.share.calls();
        *calls -= 1;
        if *calls == 0 {
            shares.remove(&self.key);
        }
    }
}

impl Place<'_> {
    /// Waits until the namespace may keep one more worker busy.
    pub(crate) async fn worker(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.counted.share.workers.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    const NEW: Purpose = Purpose::New;
    const OLD: Purpose = Purpose::Granted;
    const WRITTEN: Purpose = Purpose::Written;

    async fn take<'a>(places: &'a Places, namespace: &str, purpose: Purpose) -> Place<'a> {
        let before = Instant::now();
        let place = places.take(namespace, purpose).await;
        assert_eq!(before.elapsed(), Duration::ZERO, "{namespace}");
        place.map_err(|error| error.to_string()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_takes_its_share_and_waits_for_itself() {
        let places = Places::new(2);
        let mut greedy = Vec::new();
        for _ in 0..RUNNING_OF_ONE {
            greedy.push(take(&places, "greedy", NEW).await);
        }
        let before = Instant::now();
        let late = places.take("greedy", NEW).await;
        assert!(matches!(late, Err(Refused::TooBusy)));
        assert_eq!(before.elapsed(), LONGEST_WAIT);
        // Neither another tenant nor what it was granted before waits for that.
        let _other = take(&places, "other", NEW).await;
        let _old = take(&places, "greedy", OLD).await;
        greedy.pop();
        let _again = take(&places, "greedy", NEW).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_granted_has_places_when_all_others_are_taken() {
        let places = Places::new(2);
        let mut taken = Vec::new();
        for number in 0..FOR_ALL {
            taken.push(take(&places, &number.to_string(), NEW).await);
        }
        assert!(matches!(places.take("x", NEW).await, Err(Refused::TooBusy)));
        for number in 0..FOR_GRANTED {
            taken.push(take(&places, &number.to_string(), OLD).await);
        }
        assert!(matches!(places.take("x", OLD).await, Err(Refused::TooBusy)));
        // It also takes what anybody may take.
        taken.remove(0);
        let _place = take(&places, "x", OLD).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_behind_too_many_is_sent_away_at_once() {
        let places = Places::new(2);
        let count = |name: &str, purpose| places.count((name.to_owned(), purpose));
        let one: Vec<_> = (0..10).filter_map(|_| count("one", NEW)).collect();
        assert_eq!(one.len(), MOST_OF_ONE);
        let refused = places.take("one", NEW).now_or_never();
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
        assert!(places.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn policies_that_are_written_take_nothing_from_approvals() {
        let places = Places::new(8);
        let count = |number: usize| places.count((number.to_string(), WRITTEN));
        let waiting: Vec<_> = (0..20).filter_map(count).collect();
        assert_eq!(waiting.len(), MOST_WRITTEN);
        let refused = places.take("x", WRITTEN).now_or_never();
        assert!(matches!(refused, Some(Err(Refused::TooBusy))));
        // All that can run at the same time still does.
        let mut taken = Vec::new();
        for number in 0..FOR_ALL {
            taken.push(take(&places, &number.to_string(), NEW).await);
        }
        drop(waiting);
        // And where all of that is taken, there is a turn for them.
        let _written = take(&places, "x", WRITTEN).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_writes_many_policies_leaves_a_turn_to_others() {
        let places = Places::new(8);
        let _running = take(&places, "greedy", WRITTEN).await;
        let _waiting = places.count(("greedy".to_owned(), WRITTEN)).unwrap();
        let refused = places.take("greedy", WRITTEN).now_or_never();
        assert!(matches!(refused, Some(Err(Refused::TooBusy))));
        let _other = take(&places, "other", WRITTEN).await;
    }

    #[tokio::test(start_paused = true)]
    async fn policies_that_are_written_never_keep_all_workers_busy() {
        for (workers, most) in [(1, 1), (2, 1), (3, 2), (8, FOR_WRITTEN)] {
            let places = Places::new(workers);
            let mut busy = Vec::new();
            for number in 0..most {
                busy.push(take(&places, &number.to_string(), WRITTEN).await);
            }
            let late = places.take("x", WRITTEN).await;
            assert!(matches!(late, Err(Refused::TooBusy)), "{workers}");
            for place in &busy {
                assert!(place.worker().now_or_never().is_some());
            }
            busy.pop();
            take(&places, "x", WRITTEN).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_never_keeps_all_workers_busy() {
        for (workers, most) in [(1, 1), (2, 1), (8, 7)] {
            let places = Places::new(workers);
            let first = take(&places, "greedy", NEW).await;
            let second = take(&places, "greedy", NEW).await;
            let mut busy = Vec::new();
            for _ in 0..most {
                busy.push(first.worker().await);
            }
            assert!(second.worker().now_or_never().is_none(), "{workers}");
            let other = take(&places, "other", NEW).await;
            assert!(other.worker().now_or_never().is_some());
        }
    }
}
