//! The turns of namespaces for live observations, and for questions about their policies.
//!
//! Where answers come at once, a live observation takes a turn for each question alone, so that more observations read
//! side by side. Where they are slow, it takes one for all its questions before its first read: what it has read must not
//! grow old while others are answered.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use evaluation_api::v1::EvaluationStage;
use service_kit::fair::{TenantTurn, TenantTurns};
use tokio::time::{Duration, Instant};

/// The limit of concurrent questions about the policies of one namespace, before and after a grant each. It is lower
/// than the limit of the evaluation service for one caller, so that slow modules of one namespace leave room for the
/// others.
const ASKED_FOR_ONE: usize = 3;
/// The limit of concurrent live observations of one namespace whose answers come at once.
const LIVE_FOR_ONE: usize = 8;
/// An answer that takes longer is slow.
const SLOW: Duration = Duration::from_millis(250);
/// For how long a namespace counts as slow after such an answer. Another of its policies may be quick.
const REMEMBERED: Duration = Duration::from_mins(1);
/// How many namespaces are remembered as slow. With more of them, all count as slow.
const MOST_SLOW: usize = 1024;

/// The turns, and the slow namespaces.
pub(super) struct QuestionTurns {
    questions: TenantTurns<(String, i32)>,
    looks: TenantTurns<String>,
    /// When each of them does not count as slow any more.
    slow: Mutex<HashMap<String, Instant>>,
}

impl Default for QuestionTurns {
    fn default() -> Self {
        Self {
            questions: TenantTurns::of(ASKED_FOR_ONE),
            looks: TenantTurns::of(LIVE_FOR_ONE),
            slow: Mutex::default(),
        }
    }
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
pub(super) enum LiveTurn {
    /// It waits for none.
    Free,
    /// Each question takes a turn of its own.
    Look { _turn: TenantTurn<String> },
    /// The questions before a grant have their turn.
    Questions { _turn: TenantTurn<(String, i32)> },
}

impl LiveTurn {
    /// True if questions before a grant need no further turn.
    pub(super) const fn is_for_questions(&self) -> bool {
        matches!(self, Self::Questions { .. })
    }
}

impl QuestionTurns {
    /// Waits for the turn of a live observation.
    pub(super) async fn live(
        &self,
        namespace: &str,
        wish: LiveWish,
        now: impl Fn() -> Instant,
    ) -> LiveTurn {
        if !wish.is_repeated && !self.is_slow(namespace, now()) {
            if wish.holds {
                return LiveTurn::Free;
            }
            let turn = self.looks.take(namespace.to_owned()).await;
            // An answer may have been slow meanwhile.
            if !self.is_slow(namespace, now()) {
                return LiveTurn::Look { _turn: turn };
            }
        }
        let turn = self.question(namespace, EvaluationStage::BeforeGrant);
        LiveTurn::Questions { _turn: turn.await }
    }

    /// Waits for the turn of one question.
    pub(super) async fn question(
        &self,
        namespace: &str,
        stage: EvaluationStage,
    ) -> TenantTurn<(String, i32)> {
        let tenant = (namespace.to_owned(), stage.into());
        self.questions.take(tenant).await
    }

    /// Remembers how long an answer took.
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

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const NEW: LiveWish = LiveWish {
        holds: false,
        is_repeated: false,
    };

    /// All turns that can be had at once.
    fn taken(turns: &QuestionTurns, namespace: &str, wish: LiveWish) -> Vec<LiveTurn> {
        let next = || turns.live(namespace, wish, Instant::now).now_or_never();
        std::iter::from_fn(next).take(2 * LIVE_FOR_ONE).collect()
    }

    fn questions(turns: &QuestionTurns, namespace: &str) -> usize {
        let next = || {
            turns
                .question(namespace, EvaluationStage::BeforeGrant)
                .now_or_never()
        };
        let taken: Vec<_> = std::iter::from_fn(next).collect();
        taken.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_observes_more_at_a_time_while_its_answers_come_at_once() {
        let turns = QuestionTurns::default();
        turns.answered("slow", SLOW + Duration::from_millis(1), Instant::now());
        turns.answered("quick", SLOW, Instant::now());
        for (namespace, count, is_for_questions) in [
            ("slow", ASKED_FOR_ONE, true),
            ("quick", LIVE_FOR_ONE, false),
            ("new", LIVE_FOR_ONE, false),
        ] {
            let taken = taken(&turns, namespace, NEW);
            assert_eq!(taken.len(), count, "{namespace}");
            let all = taken
                .iter()
                .all(|it| it.is_for_questions() == is_for_questions);
            assert!(all, "{namespace}");
            let left = if is_for_questions { 0 } else { ASKED_FOR_ONE };
            assert_eq!(questions(&turns, namespace), left, "{namespace}");
        }
        let granted = turns.question("slow", EvaluationStage::AfterGrant);
        assert!(granted.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_that_may_revoke_waits_for_none_that_may_grant() {
        let turns = QuestionTurns::default();
        let _new = taken(&turns, "a", NEW);
        let wish = LiveWish { holds: true, ..NEW };
        let free = taken(&turns, "a", wish);
        assert_eq!(free.len(), 2 * LIVE_FOR_ONE);
        assert!(free.iter().all(|it| !it.is_for_questions()));
        // Where answers are slow its questions need their turn, too, so that what it has read does not grow old.
        turns.answered("slow", SLOW * 2, Instant::now());
        assert!(
            taken(&turns, "slow", wish)
                .iter()
                .all(LiveTurn::is_for_questions)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_observation_has_its_turn_for_questions_before_it_reads() {
        let turns = QuestionTurns::default();
        let repeated = LiveWish {
            is_repeated: true,
            ..NEW
        };
        let taken = taken(&turns, "quick", repeated);
        assert_eq!(taken.len(), ASKED_FOR_ONE);
        assert!(taken.iter().all(LiveTurn::is_for_questions));
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_that_waited_while_an_answer_was_slow_takes_the_turn_for_questions() {
        let turns = QuestionTurns::default();
        let first = taken(&turns, "a", NEW);
        let mut waiting = Box::pin(turns.live("a", NEW, Instant::now));
        assert!(waiting.as_mut().now_or_never().is_none());
        turns.answered("a", SLOW * 2, Instant::now());
        drop(first);
        assert!(waiting.await.is_for_questions());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_slow_for_a_minute_after_its_last_slow_answer() {
        let turns = QuestionTurns::default();
        let (slow, began) = (SLOW * 2, Instant::now());
        turns.answered("a", slow, began);
        turns.answered("a", slow, began + REMEMBERED / 2);
        // Another policy of the namespace is quick.
        turns.answered("a", Duration::ZERO, began + REMEMBERED / 2);
        let until = began + REMEMBERED / 2 + REMEMBERED;
        let before = until.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(turns.is_slow("a", before) && !turns.is_slow("a", until));
        assert!(!turns.is_slow("b", before));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_slow_namespaces_are_remembered_and_beyond_them_all_count_as_slow() {
        let turns = QuestionTurns::default();
        let began = Instant::now();
        for number in 0..2 * MOST_SLOW {
            turns.answered(&number.to_string(), SLOW * 2, began);
        }
        assert_eq!(turns.slow().len(), MOST_SLOW);
        assert!(turns.is_slow("another", began));
        assert!(!turns.is_slow("another", began + REMEMBERED));
        assert_eq!(turns.slow().len(), 0);
    }
}
