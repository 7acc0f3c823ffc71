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
    ("anew: Granted → Granted", 9),
    ("anew: Granted → Waits", 12),
    ("anew: Standing → Waits", 4),
    ("anew: Waits → Waits", 7),
    ("granted request: as it was", 40),
    ("granted request: gets more", 5),
    ("granted request: loses a grant, and has another", 3),
    ("granted request: revoked", 8),
    ("nothing changes", 50),
    ("policy of a file: Changed", 260),
    ("policy of a file: New", 261),
    ("policy of a file: Same", 69),
    ("policy of a file: refused", 50),
    ("policy test: Granted", 49),
    ("policy test: NoPolicy", 195),
    ("policy test: Refused", 15),
    ("policy test: Standing", 70),
    ("policy test: Waits", 244),
    ("policy test: a policy that does not apply", 2026),
    ("policy test: not told by files", 83),
    ("policy test: reason Approved", 85),
    ("policy test: reason NoObjects", 41),
    ("policy test: reason NotHolding", 6),
    ("policy test: reason Pending", 9),
    ("policy test: reason Rejected", 7),
    ("policy test: reason SelectorInvalid", 4),
    ("policy test: rules", 92),
    ("policy test: verdict AccessCheckFailed", 32),
    ("policy test: verdict AccessCheckPassed", 92),
    ("policy test: verdict AccessCheckPending", 75),
    ("policy test: verdict AccessCheckRejected", 32),
    ("policy: Deleted", 110),
    ("request: NoPolicy → Granted", 6),
    ("request: NoPolicy → NoPolicy", 163),
    ("request: NoPolicy → Refused", 25),
    ("request: NoPolicy → Standing", 20),
    ("request: NoPolicy → Waits", 52),
    ("request: Standing → Granted", 6),
    ("request: Standing → NoPolicy", 3),
    ("request: Standing → Standing", 32),
    ("request: Standing → Waits", 8),
    ("request: Waits → Granted", 12),
    ("request: Waits → NoPolicy", 20),
    ("request: Waits → Refused", 4),
    ("request: Waits → Standing", 23),
    ("request: Waits → Waits", 198),
    ("request: decided before", 89),
    ("request: other terms", 119),
    ("rules of a grant", 25),
    ("standing: Group gains", 157),
    ("standing: Group loses", 113),
    ("standing: ServiceAccount gains", 315),
    ("standing: ServiceAccount loses", 156),
    ("standing: User gains", 113),
    ("standing: User loses", 49),
    ("standing: gains", 114),
    ("standing: loses", 65),
    ("world: a connector is missing", 90),
    ("world: a pod ended", 27),
    ("world: a pod is being deleted", 32),
    ("world: a policy is unreadable", 47),
    ("world: a request is being deleted", 11),
    ("world: an approval changed", 143),
    ("world: approvals are off", 12),
    ("world: edit: a new policy", 275),
    ("world: edit: a policy is removed", 110),
    ("world: edit: an unreadable file", 18),
    ("world: edit: another check", 62),
    ("world: edit: another text", 72),
    ("world: edit: more subjects", 17),
    ("world: edit: no requesters any more", 20),
    ("world: edit: other connectors", 31),
    ("world: edit: other permissions or limits", 34),
    ("world: edit: other requesters", 40),
    ("world: edit: other subjects", 10),
    ("world: edit: repaired", 27),
    ("world: edit: the same", 30),
    ("world: every pod may ask by default", 30),
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
