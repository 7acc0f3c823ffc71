//! Observations and questions that end at any moment: while they wait for any of their turns, or with them.

use std::pin::Pin;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::task::unconstrained;

use super::*;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An observation asks for its turn, and waits.
    Look(usize, LiveWish),
    /// A question asks for its turn, and waits.
    Ask(usize, EvaluationStage, bool),
    /// A waiting one is polled.
    Poll(usize),
    /// A waiting one is dropped, whether or not it could have its turn meanwhile.
    HangUp(usize),
    /// A turn ends.
    End(usize),
    /// An answer of a namespace was slow.
    Slow(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wish = (any::<bool>(), any::<bool>())
        .prop_map(|(holds, is_repeated)| LiveWish { holds, is_repeated });
    let step = prop_oneof![
        6 => (0..3_usize, wish).prop_map(|(it, wish)| Step::Look(it, wish)),
        6 => (0..3_usize, any::<bool>(), any::<bool>()).prop_map(|(it, is_new, has_turn)| {
            Step::Ask(it, if is_new { BEFORE } else { AFTER }, has_turn)
        }),
        6 => any::<usize>().prop_map(Step::Poll),
        3 => any::<usize>().prop_map(Step::HangUp),
        2 => any::<usize>().prop_map(Step::End),
        1 => (0..3_usize).prop_map(Step::Slow),
    ];
    vec(step, 0..120)
}

/// A turn of either kind, which ends when it is dropped.
enum AnyTurn {
    Live {
        _turn: Result<LiveTurn, ObserveError>,
    },
    Question {
        _turn: QuestionTurn,
    },
}

type Waits<'a> = Pin<Box<dyn Future<Output = AnyTurn> + 'a>>;

/// Which of so many the number means.
fn at(number: usize, of: usize) -> Option<usize> {
    number.checked_rem(of)
}

fn play(turns: &QuestionTurns, steps: Vec<Step>) {
    let (mut waiting, mut having): (Vec<Waits<'_>>, Vec<AnyTurn>) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Look(namespace, wish) => waiting.push(Box::pin(async move {
                let turn = turns.live(NAMESPACES[namespace], wish, Instant::now);
                AnyTurn::Live { _turn: turn.await }
            })),
            Step::Ask(namespace, stage, has_turn) => waiting.push(Box::pin(async move {
                let turn = turns.question(NAMESPACES[namespace], stage, has_turn);
                AnyTurn::Question { _turn: turn.await }
            })),
            Step::Poll(number) => {
                if let Some(it) = at(number, waiting.len())
                    && let Some(turn) = waiting[it].as_mut().now_or_never()
                {
                    drop(waiting.remove(it));
                    having.push(turn);
                }
            }
            Step::HangUp(number) => {
                at(number, waiting.len()).map(|it| waiting.swap_remove(it));
            }
            Step::End(number) => {
                at(number, having.len()).map(|it| having.swap_remove(it));
            }
            Step::Slow(namespace) => {
                turns.answered(NAMESPACES[namespace], SLOW * 2, Instant::now());
            }
        }
    }
}

/// All places are free, for namespaces that nothing is known of and for those that took part.
fn are_free(turns: &QuestionTurns) {
    for stage in [BEFORE, AFTER] {
        for namespace in NAMESPACES {
            assert_eq!(questions(turns, namespace, stage).len(), ASKED_FOR_ONE);
        }
    }
    let others = (0..LIVE).flat_map(|it| taken(turns, &format!("new-{it}"), NEW));
    assert_eq!(others.collect::<Vec<_>>().len(), LIVE);
    turns.slow().clear();
    for namespace in NAMESPACES {
        assert_eq!(taken(turns, namespace, NEW).len(), LIVE_FOR_ONE);
        turns.answered(namespace, SLOW * 2, Instant::now());
        for holds in [false, true] {
            let own = taken(turns, namespace, LiveWish { holds, ..NEW });
            assert_eq!(own.len(), ASKED_FOR_ONE);
        }
    }
}

proptest! {
    #[test]
    fn what_ends_at_any_moment_keeps_no_turn(steps in steps()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        // A turn that is free is taken with the first poll, however many were taken before.
        runtime.block_on(unconstrained(async {
            let turns = QuestionTurns::default();
            play(&turns, steps);
            are_free(&turns);
        }));
    }
}
