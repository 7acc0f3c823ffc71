//! Random worlds: the forecast of `policy simulate` and the answers of `policy test` beside what both controllers do.
//!
//! `WORLDS=500` plays more worlds, `WORLD_SEED=7` plays the one of a seed, and `WORLD=file.yaml` plays one that a failure
//! printed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod cluster;
mod compare;
mod dice;
mod files;
mod play;
mod policies;
mod tally;
mod world;
mod written;

use std::path::PathBuf;
use std::{env, fs};

use kubectl_connectors::modules::Modules;
use tally::Tally;
use world::World;

/// The number of worlds without `WORLDS`.
const WORLDS: usize = 60;
/// The number of failed worlds that are printed whole.
const SHOWN: usize = 3;

/// What 500 worlds have at least that many times. Fewer worlds have it in proportion.
const LEAST: &[(&str, usize)] = &[
    ("anew: Granted → Granted", 10),
    ("anew: Granted → NoPolicy", 3),
    ("anew: Granted → Standing", 2),
    ("anew: Granted → Waits", 5),
    ("anew: Waits → Waits", 3),
    ("granted request: as it was", 46),
    ("granted request: gets more", 14),
    ("nothing changes", 57),
    ("policy of a file: Changed", 250),
    ("policy of a file: New", 270),
    ("policy of a file: Same", 65),
    ("policy of a file: refused", 51),
    ("policy test: Granted", 59),
    ("policy test: NoPolicy", 170),
    ("policy test: Refused", 20),
    ("policy test: Standing", 76),
    ("policy test: Waits", 220),
    ("policy test: a policy that does not apply", 2050),
    ("policy test: not told by files", 86),
    ("policy test: reason Approved", 100),
    ("policy test: reason NoObjects", 32),
    ("policy test: reason NotHolding", 3),
    ("policy test: reason Pending", 12),
    ("policy test: reason Rejected", 7),
    ("policy test: reason SelectorInvalid", 7),
    ("policy test: rules", 110),
    ("policy test: verdict AccessCheckFailed", 27),
    ("policy test: verdict AccessCheckPassed", 110),
    ("policy test: verdict AccessCheckPending", 78),
    ("policy test: verdict AccessCheckRejected", 46),
    ("request: NoPolicy → Granted", 10),
    ("request: NoPolicy → NoPolicy", 150),
    ("request: NoPolicy → Refused", 15),
    ("request: NoPolicy → Standing", 24),
    ("request: NoPolicy → Waits", 67),
    ("request: Standing → Granted", 2),
    ("request: Standing → NoPolicy", 3),
    ("request: Standing → Standing", 43),
    ("request: Standing → Waits", 3),
    ("request: Waits → Granted", 10),
    ("request: Waits → NoPolicy", 6),
    ("request: Waits → Refused", 2),
    ("request: Waits → Standing", 21),
    ("request: Waits → Waits", 190),
    ("request: decided before", 100),
    ("request: other terms", 100),
    ("rules of a grant", 23),
    ("standing: Group gains", 210),
    ("standing: Group loses", 54),
    ("standing: ServiceAccount gains", 320),
    ("standing: ServiceAccount loses", 100),
    ("standing: User gains", 120),
    ("standing: User loses", 26),
    ("standing: gains", 120),
    ("standing: loses", 40),
    ("world: a connector is missing", 87),
    ("world: a pod ended", 35),
    ("world: a pod is being deleted", 31),
    ("world: a policy is unreadable", 45),
    ("world: a request is being deleted", 12),
    ("world: an approval changed", 130),
    ("world: approvals are off", 18),
    ("world: edit: a new policy", 290),
    ("world: edit: a policy is removed", 63),
    ("world: edit: an unreadable file", 14),
    ("world: edit: another check", 57),
    ("world: edit: another text", 62),
    ("world: edit: more subjects", 15),
    ("world: edit: no requesters any more", 25),
    ("world: edit: other connectors", 32),
    ("world: edit: other permissions or limits", 34),
    ("world: edit: other requesters", 44),
    ("world: edit: other subjects", 11),
    ("world: edit: repaired", 29),
    ("world: edit: the same", 25),
    ("world: every pod may ask by default", 31),
];

fn worlds() -> Vec<World> {
    if let Ok(path) = env::var("WORLD") {
        return vec![serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()];
    }
    if let Ok(seed) = env::var("WORLD_SEED") {
        return vec![World::of(seed.parse().unwrap())];
    }
    let number = env::var("WORLDS").map_or(WORLDS, |it| it.parse().unwrap());
    (0..).take(number).map(World::of).collect()
}

#[test]
fn simulate_and_policy_test_say_what_the_controllers_then_do() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let worlds = worlds();
    let mut tally = Tally::default();
    let mut failed = 0;
    runtime.block_on(async {
        let modules = Modules::of(PathBuf::from(env!("CARGO_BIN_EXE_kubectl-connectors")));
        for world in &worlds {
            service_kit::chance::fix(world.seed);
            let wrong = Box::pin(play::play(world, &modules, &mut tally)).await;
            if wrong.is_empty() {
                continue;
            }
            failed += 1;
            println!("WORLD_SEED={}\n{}", world.seed, wrong.join("\n"));
            if failed <= SHOWN {
                println!("{}", world.written());
            }
        }
    });
    println!("{} worlds\n{tally}", worlds.len());
    assert_eq!(failed, 0, "worlds of {}", worlds.len());
    for &(what, least) in LEAST {
        let least = least * worlds.len() / 500;
        let found = tally.of(what);
        assert!(
            found >= least,
            "{found} times {what}, and not {least} times"
        );
    }
}

#[test]
fn a_world_that_is_printed_is_the_same_when_it_is_read() {
    for world in (0..20).map(World::of) {
        let read: World = serde_yaml::from_str(&world.written()).unwrap();
        assert_eq!(read, world);
    }
}
