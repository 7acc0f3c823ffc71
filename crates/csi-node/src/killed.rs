//! The driver as a process that is killed at random moments, and a kubelet that goes on with the next one.
//!
//! The process serves its real socket, with real mounts in a mount namespace of the test's own. The kubelet publishes, looks after
//! and unpublishes volumes of several pods, some at the same time, while their class changes. `SIGKILL` meets the process
//! before a random system call of its mounts, after a random time of a call, or while it starts. A new process starts on the same
//! folders, and the kubelet repeats the calls without an answer. All is judged after each kill, each start and each call.
//!
//! Each pod has a fate from the seed. It has access from the start or gets it later, it waits in vain, it is denied, or it is
//! rejected for good. Some pods want an error in place of their content. A pod without access never starts.
//!
//! A run of 60 kills is usual, `E2E_LONG=1` makes 1,000. `KILLS_SEED` repeats the life of one seed: the same calls and the same points. How
//! far a process came after a random time depends on the machine.

mod cluster;
mod fate;
mod judge;
mod kubelet;
mod life;
mod process;

use std::{collections::BTreeMap, env, panic, path::Path};

use crate::testing::namespace::inside;
use life::Life;

const TEST: &str = "killed::volumes_are_whole_or_gone_however_often_their_process_is_killed";
/// The kubelet's folder, for the process that is killed.
const KUBELET: &str = "CSI_NODE_TEST_KILLED_KUBELET";
const SEED: &str = "KILLS_SEED";
/// Kills in a life. Each life begins on an empty node.
const KILLS: usize = 20;
/// Lives in a usual run, and with `E2E_LONG` in the environment.
const LIVES: [u64; 2] = [3, 50];
/// Lives at most, until everything was met that must be.
const MOST_LIVES: u64 = 100;

/// Each must be met in a run, because a run that meets nothing shows nothing.
const MUST_BE_MET: [&str; 18] = [
    "killed before a system call",
    "killed after a time",
    "killed at its start",
    "killed in publish",
    "killed while a pod waits",
    "killed before a refusal",
    "killed before an error",
    "killed in republish",
    "killed in unpublish",
    "killed in several calls at once",
    "left a volume half made",
    "left a volume between two versions",
    "forgot a volume",
    "brought newer content",
    "started after a grant",
    "started with an error",
    "was denied",
    "was rejected",
];

/// The number of times that each thing happened.
type Tally = BTreeMap<&'static str, usize>;

#[test]
fn volumes_are_whole_or_gone_however_often_their_process_is_killed() {
    if !inside(TEST) {
        return;
    }
    if let Some(kubelet) = env::var_os(KUBELET) {
        process::serve(Path::new(&kubelet));
    }
    if let Ok(seed) = env::var(SEED) {
        println!("{:#?}", lived(seed.parse().unwrap()));
        return;
    }
    let lives = LIVES[usize::from(env::var_os("E2E_LONG").is_some())];
    let mut met = Tally::new();
    let mut seed = 0;
    // How far a process comes in a time is another thing in each run.
    while seed < lives || MUST_BE_MET.iter().any(|what| !met.contains_key(what)) {
        assert!(seed < MOST_LIVES, "{met:#?}");
        for (what, count) in lived(seed) {
            *met.entry(what).or_default() += count;
        }
        seed += 1;
    }
    println!("{seed} lives: {met:#?}");
}

/// The life of a seed, and what was met in it.
fn lived(seed: u64) -> Tally {
    let lived = panic::catch_unwind(|| Life::new(seed).live(KILLS));
    lived.unwrap_or_else(|_| panic!("again with {SEED}={seed}"))
}
