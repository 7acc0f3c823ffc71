//! Changes of a volume that break off, and the call after that.

use std::time::Duration;

use connectors_api::config::OnEnable;
use tokio::time::sleep;

use super::{
    disk::State,
    hangups::{Cut, Scene, TWO},
};

/// What breaks off a change of a volume.
#[derive(Clone, Copy, Debug)]
enum Breaks {
    Fails,
    Dies,
}

/// A change breaks off at a step; the next call hears something, or nothing. True when the step was reached.
async fn half_done(refills: bool, breaks: Breaks, step: usize, next_hears: Cut) -> bool {
    let context = format!("refills {refills}, {breaks:?} at {step}, {next_hears:?}");
    let mut scene = Scene::new(TWO);
    scene.turn("true", OnEnable::Keep);
    scene.rights(true);
    scene.published().await;
    scene.rights(false);
    if refills {
        scene.published().await;
        scene.rights(true);
    }
    {
        let mut disk = scene.node.disk();
        match breaks {
            Breaks::Fails => disk.fails_in = Some(step),
            Breaks::Dies => disk.dies_in = Some(step),
        }
    }
    scene.publish();
    sleep(Duration::from_secs(10)).await;
    let reached = {
        let mut disk = scene.node.disk();
        let left = (disk.fails_in.take(), disk.dies_in.take());
        left == (None, None)
    };
    if matches!(breaks, Breaks::Dies) {
        scene.node.restart();
        scene.turn("true", OnEnable::Keep);
    }
    scene.cut(0, next_hears);
    scene.published().await;
    let files = |scene: &Scene| {
        let calls = scene.node.calls();
        let end = calls.last().unwrap().end.as_ref().unwrap();
        assert!(end.is_sealed, "{context}");
        (end.state, end.files)
    };
    let (state, count) = files(&scene);
    let expected = if matches!(state, State::Full { .. }) {
        2
    } else {
        0
    };
    assert_eq!(count, expected, "{context}: {state:?}");
    assert_ne!(state, State::Partial, "{context}");
    // All ways lead out.
    scene
        .node
        .shared
        .change(|truth| truth.evaluator_answers = true);
    scene.turn("true", OnEnable::Keep);
    scene.rights(true);
    scene.published().await;
    assert_eq!(
        files(&scene),
        (State::Full { while_off: false }, 2),
        "{context}"
    );
    let verdict = scene.node.judged();
    assert!(
        verdict.problems.is_empty(),
        "{context}: {:#?}",
        verdict.problems
    );
    reached
}

#[test]
fn an_emptied_volume_holds_nothing_wherever_a_change_of_it_broke_off() {
    let mut met = 0;
    for refills in [false, true] {
        for breaks in [Breaks::Fails, Breaks::Dies] {
            for next_hears in [Cut::NobodyAnswers, Cut::RightsGo, Cut::StreamsBreak] {
                for step in 0.. {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .max_blocking_threads(1)
                        .start_paused(true)
                        .build()
                        .unwrap();
                    let reached = runtime.block_on(half_done(refills, breaks, step, next_hears));
                    runtime.shutdown_background();
                    met += 1;
                    if !reached {
                        break;
                    }
                }
            }
        }
    }
    assert!(met > 60, "{met}");
}
