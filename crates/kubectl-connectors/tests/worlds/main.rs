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

/// What 500 worlds have at least that many times. Fewer worlds have it in proportion, and once at least. One world that is
/// asked for by its seed or its file need not have it.
const LEAST: &[(&str, usize)] = &[
    ("anew: Granted → Granted", 7),
    ("anew: Granted → Waits", 10),
    ("anew: Waits → Waits", 7),
    ("anew: as it was", 2),
    ("exit: No", 243),
    ("exit: Yes", 57),
    ("granted request: as it was", 35),
    ("granted request: gets more", 4),
    ("granted request: revoked", 6),
    ("nothing changes", 57),
    ("policy of a file: Changed", 307),
    ("policy of a file: New", 334),
    ("policy of a file: Same", 73),
    ("policy of a file: refused", 66),
    ("policy test: Granted", 52),
    ("policy test: NoPolicy", 220),
    ("policy test: Refused", 16),
    ("policy test: Standing", 90),
    ("policy test: Waits", 302),
    ("policy test: a policy that does not apply", 2325),
    ("policy test: not told by files", 90),
    ("policy test: reason Approved", 97),
    ("policy test: reason NoObjects", 43),
    ("policy test: reason NotHolding", 6),
    ("policy test: reason Pending", 15),
    ("policy test: reason Rejected", 6),
    ("policy test: reason SelectorInvalid", 6),
    ("policy test: rules", 104),
    ("policy test: verdict AccessCheckFailed", 25),
    ("policy test: verdict AccessCheckPassed", 104),
    ("policy test: verdict AccessCheckPending", 73),
    ("policy test: verdict AccessCheckRejected", 42),
    ("policy: Deleted", 127),
    ("request: NoPolicy → Granted", 10),
    ("request: NoPolicy → NoPolicy", 171),
    ("request: NoPolicy → Refused", 18),
    ("request: NoPolicy → Standing", 16),
    ("request: NoPolicy → Waits", 74),
    ("request: Standing → Standing", 38),
    ("request: Standing → Waits", 8),
    ("request: Waits → Granted", 8),
    ("request: Waits → NoPolicy", 28),
    ("request: Waits → Refused", 5),
    ("request: Waits → Standing", 34),
    ("request: Waits → Waits", 263),
    ("request: decided before", 112),
    ("request: other terms", 157),
    ("rules of a grant", 27),
    ("standing: Group gains", 237),
    ("standing: Group loses", 120),
    ("standing: ServiceAccount gains", 355),
    ("standing: ServiceAccount loses", 195),
    ("standing: User gains", 144),
    ("standing: User loses", 55),
    ("standing: gains", 142),
    ("standing: loses", 72),
    ("world: a connector is another one", 41),
    ("world: a connector is being deleted", 30),
    ("world: a connector is missing", 105),
    ("world: a pod ended", 39),
    ("world: a pod is being deleted", 41),
    ("world: a policy is unreadable", 54),
    ("world: a request is being deleted", 8),
    ("world: an approval changed", 161),
    ("world: approvals are off", 16),
    ("world: edit: a new policy", 356),
    ("world: edit: a policy is removed", 127),
    ("world: edit: an unreadable file", 24),
    ("world: edit: another check", 69),
    ("world: edit: another text", 75),
    ("world: edit: more subjects", 18),
    ("world: edit: no requesters any more", 30),
    ("world: edit: other connectors", 38),
    ("world: edit: other permissions or limits", 40),
    ("world: edit: other requesters", 52),
    ("world: edit: other subjects", 13),
    ("world: edit: repaired", 35),
    ("world: edit: the same", 30),
    ("world: every pod may ask by default", 37),
];

/// The same of what fewer worlds may lack.
const RARE: &[(&str, usize)] = &[
    ("anew: Standing → Waits", 3),
    ("granted request: loses a grant, and has another", 3),
    ("request: Standing → Granted", 8),
    ("request: Standing → NoPolicy", 7),
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
            // Before it is played: a panic would leave it unnamed.
            println!("WORLD_SEED={}", world.seed);
            service_kit::chance::fix(world.seed);
            let played = Box::pin(play::play(world, &modules, &mut tally));
            let wrong = runtime.block_on(played);
            if wrong.is_empty() {
                continue;
            }
            failed += 1;
            println!("WORLD_SEED={} failed\n{}", world.seed, wrong.join("\n"));
            if failed <= SHOWN {
                println!("{}", world.written());
            }
        }
    }
    println!("{} worlds\n{tally}", worlds.len());
    assert_eq!(failed, 0, "worlds of {}", worlds.len());
    if env::var_os("WORLD").or(env::var_os("WORLD_SEED")).is_some() {
        return;
    }
    let rare = if worlds.len() < 500 { &[] } else { RARE };
    for &(what, least) in LEAST.iter().chain(rare) {
        let least = (least * worlds.len()).div_ceil(500);
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
