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

/// The number of worlds of one runtime. Processes that were killed wait in it for answers, with their whole cluster.
const TOGETHER: usize = 20;

/// What 500 worlds have at least that many times. Fewer worlds have it in proportion.
const LEAST: &[(&str, usize)] = &[
    ("anew: Granted → Granted", 16),
    ("anew: Granted → Waits", 11),
    ("anew: Waits → Waits", 6),
    ("granted request: as it was", 46),
    ("granted request: gets more", 13),
    ("granted request: revoked", 6),
    ("nothing changes", 33),
    ("policy of a file: Changed", 216),
    ("policy of a file: New", 208),
    ("policy of a file: Same", 58),
    ("policy of a file: refused", 33),
    ("policy test: Granted", 50),
    ("policy test: NoPolicy", 150),
    ("policy test: Refused", 21),
    ("policy test: Standing", 71),
    ("policy test: Waits", 133),
    ("policy test: a policy that does not apply", 1688),
    ("policy test: not told by files", 90),
    ("policy test: reason Approved", 71),
    ("policy test: reason NoObjects", 23),
    ("policy test: reason NotHolding", 8),
    ("policy test: reason Pending", 6),
    ("policy test: reason Rejected", 13),
    ("policy test: rules", 85),
    ("policy test: verdict AccessCheckFailed", 6),
    ("policy test: verdict AccessCheckPassed", 85),
    ("policy test: verdict AccessCheckPending", 48),
    ("policy test: verdict AccessCheckRejected", 55),
    ("policy: Deleted", 88),
    ("request: NoPolicy → Granted", 5),
    ("request: NoPolicy → NoPolicy", 123),
    ("request: NoPolicy → Refused", 28),
    ("request: NoPolicy → Standing", 20),
    ("request: NoPolicy → Waits", 45),
    ("request: Standing → Standing", 26),
    ("request: Standing → Waits", 5),
    ("request: Waits → Granted", 11),
    ("request: Waits → NoPolicy", 11),
    ("request: Waits → Refused", 5),
    ("request: Waits → Standing", 23),
    ("request: Waits → Waits", 115),
    ("request: decided before", 86),
    ("request: other terms", 71),
    ("rules of a grant", 20),
    ("standing: Group gains", 151),
    ("standing: Group loses", 108),
    ("standing: ServiceAccount gains", 315),
    ("standing: ServiceAccount loses", 136),
    ("standing: User gains", 85),
    ("standing: User loses", 50),
    ("standing: gains", 96),
    ("standing: loses", 58),
    ("world: a connector is missing", 55),
    ("world: a pod ended", 21),
    ("world: a pod is being deleted", 30),
    ("world: a policy is unreadable", 35),
    ("world: a request is being deleted", 6),
    ("world: an approval changed", 118),
    ("world: approvals are off", 8),
    ("world: edit: a new policy", 213),
    ("world: edit: a policy is removed", 88),
    ("world: edit: an unreadable file", 16),
    ("world: edit: another check", 51),
    ("world: edit: another text", 53),
    ("world: edit: more subjects", 16),
    ("world: edit: no requesters any more", 15),
    ("world: edit: other connectors", 23),
    ("world: edit: other permissions or limits", 30),
    ("world: edit: other requesters", 38),
    ("world: edit: other subjects", 15),
    ("world: edit: repaired", 20),
    ("world: edit: the same", 23),
    ("world: every pod may ask by default", 23),
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
    let worlds = worlds();
    let mut tally = Tally::default();
    let mut failed = 0;
    for worlds in worlds.chunks(TOGETHER) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let modules = Modules::of(PathBuf::from(env!("CARGO_BIN_EXE_kubectl-connectors")));
        for world in worlds {
            service_kit::chance::fix(world.seed);
            let played = Box::pin(play::play(world, &modules, &mut tally));
            let wrong = runtime.block_on(played);
            if wrong.is_empty() {
                continue;
            }
            failed += 1;
            println!("WORLD_SEED={}\n{}", world.seed, wrong.join("\n"));
            if failed <= SHOWN {
                println!("{}", world.written());
            }
        }
    }
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
