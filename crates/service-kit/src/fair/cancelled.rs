//! Turns whose takers are dropped, at any moment of their wait.

use std::{collections::BTreeMap, pin::Pin};

use futures::FutureExt;
use proptest::{collection::vec, prelude::*};

use super::*;

const MOST: u32 = 3;

/// An event in the test of the turns of two tenants.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new taker asks for so many turns, and waits.
    Ask(u8, u32),
    /// A waiting taker is polled.
    Look(usize),
    /// A taker is dropped, whether or not it has its turn meanwhile.
    HangUp(usize),
    /// A turn ends.
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2_u8, 1..=MOST).prop_map(|(tenant, turns)| Step::Ask(tenant, turns)),
        4 => any::<usize>().prop_map(Step::Look),
        2 => any::<usize>().prop_map(Step::HangUp),
        3 => any::<usize>().prop_map(Step::End),
    ];
    vec(step, 0..60)
}

type Waits = Pin<Box<dyn Future<Output = TenantTurn<u8>>>>;

#[derive(Default)]
struct Scene {
    /// Tenant, number of turns and the wait, in the order in which they asked.
    asking: Vec<(u8, u32, Waits)>,
    having: Vec<(u8, u32, TenantTurn<u8>)>,
}

impl Scene {
    fn held(&self) -> BTreeMap<u8, u32> {
        let mut held = BTreeMap::new();
        for (tenant, turns, _) in &self.having {
            *held.entry(*tenant).or_default() += turns;
        }
        held
    }

    fn look(&mut self, at: usize) {
        if let Some(turn) = self.asking[at].2.as_mut().now_or_never() {
            let (tenant, turns, _) = self.asking.remove(at);
            self.having.push((tenant, turns, turn));
        }
    }
}

fn place(number: usize, of: usize) -> Option<usize> {
    number.checked_rem(of)
}

proptest! {
    #[test]
    fn whoever_hangs_up_at_any_moment_takes_no_turn_along(steps in steps()) {
        let turns = TenantTurns::of(MOST as usize);
        let mut scene = Scene::default();
        for step in steps {
            match step {
                Step::Ask(tenant, number) => {
                    let asked = turns.clone();
                    let wait = async move { asked.take_many(tenant, number).await };
                    scene.asking.push((tenant, number, Box::pin(wait)));
                }
                Step::Look(number) => {
                    if let Some(at) = place(number, scene.asking.len()) {
                        scene.look(at);
                    }
                }
                Step::HangUp(number) => {
                    if let Some(at) = place(number, scene.asking.len()) {
                        drop(scene.asking.remove(at));
                    }
                }
                Step::End(number) => {
                    if let Some(at) = place(number, scene.having.len()) {
                        drop(scene.having.remove(at));
                    }
                }
            }
            prop_assert!(scene.held().values().all(|held| *held <= MOST));
        }
        // Every remaining taker gets its turn when the others end.
        while !scene.asking.is_empty() || !scene.having.is_empty() {
            scene.having.clear();
            let before = scene.asking.len();
            for at in (0..scene.asking.len()).rev() {
                scene.look(at);
            }
            for at in (0..scene.asking.len()).rev() {
                scene.look(at);
            }
            prop_assert!(before == 0 || scene.asking.len() < before, "nobody has a turn");
        }
        prop_assert_eq!(turns.tenants(), 0);
    }
}
