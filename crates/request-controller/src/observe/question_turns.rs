//! The turns of namespaces for live observations, and for questions about their policies.
//!
//! The evaluation service reads a few questions of one caller at a time. Namespaces take turns at these places. Half of
//! the places are never used before a grant, so that questions about existing grants find one.
//!
//! Where answers come at once, a live observation takes a turn for each question alone, so that more observations read
//! side by side. Where they are slow, it takes one for all its questions before its first read: what it has read must not
//! grow old while others are answered.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use evaluation_api::{MOST_OBJECT_CALLS, v1::EvaluationStage};
use service_kit::fair::{FairLimiter, FairPermit, TenantTurn, TenantTurns};
use tokio::time::{Duration, Instant, timeout};

use super::ObserveError;

/// The limit of concurrent questions before a grant.
const ASKED_BEFORE_GRANT: usize = MOST_OBJECT_CALLS / 2;
/// The limit of concurrent questions about the policies of one namespace, before and after a grant each.
const ASKED_FOR_ONE: usize = 3;
/// The limit of concurrent live observations that may grant, where answers come at once. Each holds up to some megabytes
/// of objects.
const LIVE: usize = 32;
/// The same for one namespace.
const LIVE_FOR_ONE: usize = 16;
/// The same where answers are slow, of all namespaces. Such observations take no place from the others.
const LIVE_SLOW: usize = 12;
/// An observation that waits longer for its turn fails, and is repeated later: its worker has other jobs.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// An answer that takes longer is slow.
const SLOW: Duration = Duration::from_millis(250);
/// For how long a namespace counts as slow after such an answer. Another of its policies may be quick.
const REMEMBERED: Duration = Duration::from_mins(1);
/// How many namespaces are remembered as slow. With more of them, all count as slow.
const MOST_SLOW: usize = 1024;

/// The turns, and the slow namespaces.
pub(super) struct QuestionTurns {
    /// Live observations that may grant.
    live: FairLimiter<String>,
    live_slow: FairLimiter<String>,
    /// Questions that a namespace has open, and live observations where answers are slow. Those that may revoke have
    /// turns of their own.
    own: TenantTurns<(String, TurnUse)>,
    before_grant: FairLimiter<String>,
    all: FairLimiter<(String, EvaluationStage)>,
    /// When each of them does not count as slow any more.
    slow: Mutex<HashMap<String, Instant>>,
}

/// The use of a namespace's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TurnUse {
    Question(EvaluationStage),
    /// A live observation that may revoke.
    Revocation,
}

/// The purpose of a live observation.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveWish {
    /// The request may have a grant to revoke. It does not wait for those that may grant.
    pub(super) holds: bool,
    /// The reads of an earlier observation were too old: its questions waited in many lines.
    pub(super) is_repeated: bool,
}

/// The turn of a live observation, until it is dropped.
pub(super) struct LiveTurn {
    _live: Option<FairPermit<String>>,
    /// The turn for its questions before a grant.
    own: Option<TenantTurn<(String, TurnUse)>>,
}

/// The turn of one question, until it is dropped.
pub(super) struct QuestionTurn {
    _all: FairPermit<(String, EvaluationStage)>,
    _before_grant: Option<FairPermit<String>>,
    _own: Option<TenantTurn<(String, TurnUse)>>,
}

impl Default for QuestionTurns {
    fn default() -> Self {
        Self {
            live: FairLimiter::new(LIVE, LIVE_FOR_ONE),
            live_slow: FairLimiter::new(LIVE_SLOW, ASKED_FOR_ONE),
            own: TenantTurns::of(ASKED_FOR_ONE),
            before_grant: FairLimiter::new(ASKED_BEFORE_GRANT, ASKED_FOR_ONE),
            all: FairLimiter::new(MOST_OBJECT_CALLS, MOST_OBJECT_CALLS),
            slow: Mutex::default(),
        }
    }
}

impl LiveTurn {
    /// True if questions before a grant need no further turn of their namespace.
    pub(super) const fn is_for_questions(&self) -> bool {
        self.own.is_some()
    }
}

impl QuestionTurns {
    /// Waits for the turn of a live observation, but not for long.
    pub(super) async fn live(
        &self,
        namespace: &str,
        wish: LiveWish,
        now: impl Fn() -> Instant,
    ) -> Result<LiveTurn, ObserveError> {
        let turn = timeout(LONGEST_WAIT, self.live_turn(namespace, wish, now)).await;
        turn.map_err(|_| ObserveError::CrowdedLooks(namespace.to_owned()))
    }

    async fn live_turn(
        &self,
        namespace: &str,
        wish: LiveWish,
        now: impl Fn() -> Instant,
    ) -> LiveTurn {
        let is_careful = || wish.is_repeated || self.is_slow(namespace, now());
        if !is_careful() {
            let live = place_to_grant(&self.live, namespace, wish).await;
            // An answer may have been slow meanwhile.
            if wish.holds || !is_careful() {
                return LiveTurn {
                    _live: live,
                    own: None,
                };
            }
        }
        let own = self.own_of_look(namespace, wish).await;
        let live = place_to_grant(&self.live_slow, namespace, wish).await;
        LiveTurn {
            _live: live,
            own: Some(own),
        }
    }

    async fn own_of_look(&self, namespace: &str, wish: LiveWish) -> TenantTurn<(String, TurnUse)> {
        let purpose = if wish.holds {
            TurnUse::Revocation
        } else {
            TurnUse::Question(EvaluationStage::BeforeGrant)
        };
        self.own.take((namespace.to_owned(), purpose)).await
    }

    /// Waits for the turn of one question. Before a grant, its observation may have the namespace's turn already.
    pub(super) async fn question(
        &self,
        namespace: &str,
        stage: EvaluationStage,
        has_turn: bool,
    ) -> QuestionTurn {
        let is_new = stage == EvaluationStage::BeforeGrant;
        let namespace = namespace.to_owned();
        let own = if is_new && has_turn {
            None
        } else {
            let tenant = (namespace.clone(), TurnUse::Question(stage));
            Some(self.own.take(tenant).await)
        };
        let before_grant = if is_new {
            Some(self.before_grant.take(namespace.clone()).await)
        } else {
            None
        };
        QuestionTurn {
            _all: self.all.take((namespace, stage)).await,
            _before_grant: before_grant,
            _own: own,
        }
    }

    /// Remembers how long an answer before a grant took.
    pub(super) fn answered(&self, namespace: &str, took: Duration, now: Instant) {
        if took <= SLOW {
            return;
        }
        let mut slow = self.slow();
        slow.retain(|_, until| now < *until);
        if slow.len() < MOST_SLOW || slow.contains_key(namespace) {
            slow.insert(namespace.to_owned(), now + REMEMBERED);
        }
    }

    fn is_slow(&self, namespace: &str, now: Instant) -> bool {
        let mut slow = self.slow();
        if slow.len() >= MOST_SLOW {
            slow.retain(|_, until| now < *until);
        }
        let until = slow.get(namespace);
        slow.len() >= MOST_SLOW || until.is_some_and(|until| now < *until)
    }

    fn slow(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        // Entries are put in and taken out whole.
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the observations that may grant. One that may revoke needs none.
async fn place_to_grant(
    places: &FairLimiter<String>,
    namespace: &str,
    wish: LiveWish,
) -> Option<FairPermit<String>> {
    if wish.holds {
        return None;
    }
    Some(places.take(namespace.to_owned()).await)
}

#[cfg(test)]
mod tests;
