use futures::FutureExt as _;

use super::*;

mod hang_ups;

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

fn questions(turns: &QuestionTurns, namespace: &str, stage: EvaluationStage) -> Vec<QuestionTurn> {
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
