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
const LIVE: usize = 24;
/// The same for one namespace.
const LIVE_FOR_ONE: usize = 8;
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
#[derive(Clone, Copy)]
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
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const BEFORE: EvaluationStage = EvaluationStage::BeforeGrant;
    const AFTER: EvaluationStage = EvaluationStage::AfterGrant;
    const NEW: LiveWish = LiveWish {
        holds: false,
        is_repeated: false,
    };

    /// All turns that can be had at once.
    fn taken(turns: &QuestionTurns, namespace: &str, wish: LiveWish) -> Vec<LiveTurn> {
        let next = || turns.live(namespace, wish, Instant::now).now_or_never();
        let all = std::iter::from_fn(next).take(2 * LIVE_FOR_ONE);
        all.map(Result::unwrap).collect()
    }

    fn questions(
        turns: &QuestionTurns,
        namespace: &str,
        stage: EvaluationStage,
    ) -> Vec<QuestionTurn> {
        let next = || turns.question(namespace, stage, false).now_or_never();
        std::iter::from_fn(next).collect()
    }

    fn are_for_questions(turns: &[LiveTurn]) -> bool {
        !turns.is_empty() && turns.iter().all(LiveTurn::is_for_questions)
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_observes_more_at_a_time_while_its_answers_come_at_once() {
        for (took, count, is_for_questions) in [
            (Duration::ZERO, LIVE_FOR_ONE, false),
            (SLOW, LIVE_FOR_ONE, false),
            (SLOW + Duration::from_millis(1), ASKED_FOR_ONE, true),
        ] {
            let turns = QuestionTurns::default();
            turns.answered("a", took, Instant::now());
            let taken = taken(&turns, "a", NEW);
            assert_eq!(taken.len(), count, "{took:?}");
            assert_eq!(are_for_questions(&taken), is_for_questions, "{took:?}");
            let left = if is_for_questions { 0 } else { ASKED_FOR_ONE };
            assert_eq!(questions(&turns, "a", BEFORE).len(), left, "{took:?}");
            assert_eq!(questions(&turns, "a", AFTER).len(), ASKED_FOR_ONE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_that_may_revoke_waits_for_none_that_may_grant() {
        let turns = QuestionTurns::default();
        let _new: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .flat_map(|it| taken(&turns, it, NEW))
            .collect();
        let wish = LiveWish { holds: true, ..NEW };
        let free = taken(&turns, "a", wish);
        assert_eq!(free.len(), 2 * LIVE_FOR_ONE);
        assert!(!are_for_questions(&free));
        // Where answers are slow it takes a turn for all its questions, so that what it has read does not grow old.
        turns.answered("slow", SLOW * 2, Instant::now());
        let new = taken(&turns, "slow", NEW);
        assert_eq!(new.len(), ASKED_FOR_ONE);
        let own = taken(&turns, "slow", wish);
        assert_eq!(own.len(), ASKED_FOR_ONE);
        assert!(are_for_questions(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_observations_that_may_grant_read_at_a_time_and_namespaces_take_turns() {
        let turns = QuestionTurns::default();
        let all = (0..LIVE).flat_map(|it| taken(&turns, &it.to_string(), NEW));
        let mut open: Vec<_> = all.collect();
        assert_eq!(open.len(), LIVE);
        let waits = || Box::pin(turns.live("loud", NEW, Instant::now));
        let (mut first, mut second) = (waits(), waits());
        let mut quiet = Box::pin(turns.live("quiet", NEW, Instant::now));
        for waiting in [&mut first, &mut second, &mut quiet] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        open.pop();
        let _first = first.await.unwrap();
        open.pop();
        let _quiet = quiet.await.unwrap();
        assert!(second.as_mut().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn observations_of_slow_namespaces_take_no_places_of_the_others() {
        let turns = QuestionTurns::default();
        let slow: Vec<_> = (0..LIVE).map(|it| format!("slow-{it}")).collect();
        for namespace in &slow {
            turns.answered(namespace, SLOW * 2, Instant::now());
        }
        let all = slow.iter().flat_map(|it| taken(&turns, it, NEW));
        let open: Vec<_> = all.collect();
        assert_eq!(open.len(), LIVE_SLOW);
        assert_eq!(taken(&turns, "quick", NEW).len(), LIVE_FOR_ONE);
    }

    /// Its questions wait for turns that the observations of a slow namespace have. These wait for none that it has.
    #[tokio::test(start_paused = true)]
    async fn an_observation_that_began_before_an_answer_was_slow_goes_on() {
        let turns = QuestionTurns::default();
        let quick = taken(&turns, "a", NEW);
        turns.answered("a", SLOW * 2, Instant::now());
        let slow = taken(&turns, "a", NEW);
        assert_eq!((quick.len(), slow.len()), (LIVE_FOR_ONE, ASKED_FOR_ONE));
        let mut asks = Box::pin(turns.question("a", BEFORE, false));
        assert!(asks.as_mut().now_or_never().is_none());
        drop(slow);
        assert!(asks.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_waits_so_long_for_its_turn_and_then_names_its_namespace() {
        let turns = QuestionTurns::default();
        let _open = taken(&turns, "loud", NEW);
        let began = Instant::now();
        let late = turns.live("loud", NEW, Instant::now).await;
        assert!(matches!(late, Err(ObserveError::CrowdedLooks(it)) if it == "loud"));
        assert_eq!(began.elapsed(), LONGEST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_about_grants_wait_for_none_about_new_grants() {
        let turns = QuestionTurns::default();
        let namespaces: Vec<_> = (0..MOST_OBJECT_CALLS).map(|it| it.to_string()).collect();
        let all = |stage| -> Vec<_> {
            let asked = namespaces.iter().map(|it| questions(&turns, it, stage));
            asked.flatten().collect()
        };
        let new = all(BEFORE);
        assert_eq!(new.len(), ASKED_BEFORE_GRANT);
        assert_eq!(all(AFTER).len(), MOST_OBJECT_CALLS - ASKED_BEFORE_GRANT);
        drop(new);
        // They may use all places.
        assert_eq!(all(AFTER).len(), MOST_OBJECT_CALLS);
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_leaves_places_to_others() {
        for stage in [BEFORE, AFTER] {
            let turns = QuestionTurns::default();
            let loud = questions(&turns, "loud", stage);
            assert_eq!(loud.len(), ASKED_FOR_ONE);
            assert!(!questions(&turns, "quiet", stage).is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_of_an_observation_with_a_turn_takes_no_second_one() {
        let turns = QuestionTurns::default();
        turns.answered("a", SLOW * 2, Instant::now());
        let _live = taken(&turns, "a", NEW);
        assert!(turns.question("a", BEFORE, true).now_or_never().is_some());
        assert!(turns.question("a", BEFORE, false).now_or_never().is_none());
        // The turn is for questions before a grant.
        let ask = || turns.question("a", AFTER, true).now_or_never();
        let after: Vec<_> = std::iter::from_fn(ask).collect();
        assert_eq!(after.len(), ASKED_FOR_ONE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_observation_has_its_turn_for_questions_before_it_reads() {
        for holds in [false, true] {
            let turns = QuestionTurns::default();
            let repeated = LiveWish {
                is_repeated: true,
                holds,
            };
            let taken = taken(&turns, "quick", repeated);
            assert_eq!(taken.len(), ASKED_FOR_ONE);
            assert!(are_for_questions(&taken));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_that_waited_while_an_answer_was_slow_takes_the_turn_for_questions() {
        let turns = QuestionTurns::default();
        let first = taken(&turns, "a", NEW);
        let mut waiting = Box::pin(turns.live("a", NEW, Instant::now));
        assert!(waiting.as_mut().now_or_never().is_none());
        turns.answered("a", SLOW * 2, Instant::now());
        drop(first);
        assert!(waiting.await.unwrap().is_for_questions());
    }

    #[test]
    fn a_namespace_is_slow_for_a_minute_after_its_last_slow_answer() {
        let (turns, slow, began) = (QuestionTurns::default(), SLOW * 2, Instant::now());
        turns.answered("a", slow, began);
        turns.answered("a", slow, began + REMEMBERED / 2);
        // Another policy of the namespace is quick.
        turns.answered("a", Duration::ZERO, began + REMEMBERED / 2);
        let until = began + REMEMBERED / 2 + REMEMBERED;
        let before = until.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(turns.is_slow("a", before) && !turns.is_slow("a", until));
        assert!(!turns.is_slow("b", before));
    }

    #[test]
    fn so_many_slow_namespaces_are_remembered_and_beyond_them_all_count_as_slow() {
        let (turns, began) = (QuestionTurns::default(), Instant::now());
        for number in 0..2 * MOST_SLOW {
            turns.answered(&number.to_string(), SLOW * 2, began);
        }
        assert_eq!(turns.slow().len(), MOST_SLOW);
        assert!(turns.is_slow("another", began));
        assert!(!turns.is_slow("another", began + REMEMBERED));
        assert_eq!(turns.slow().len(), 0);
        // A new one takes the place of those whose time is up.
        turns.answered("a", SLOW * 2, began);
        turns.answered("b", SLOW * 2, began + REMEMBERED);
        assert_eq!(turns.slow().len(), 1);
    }
}
