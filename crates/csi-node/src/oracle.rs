//! Random lives of volumes, judged from outside: what a kubelet does, what becomes of pods, permissions, requests and
//! the switch, what fails and who dies, in virtual time. The judge reads what happened and knows the design; it
//! shares no code with the driver.
//!
//! `ORACLE_SEEDS` says how many lives are tried, `ORACLE_SEED` names one.

mod bounds;
mod cluster;
mod disk;
mod emptied;
mod fate;
mod halves;
mod hangups;
mod happens;
mod judge;
mod kubelet;
mod node;
mod rejected;
mod server;
mod steady;
mod truth;

use std::{collections::BTreeMap, env};

/// Each name begins another one.
const CONNECTORS: [&str; 5] = [
    "tools/harbor",
    "tools/harbor-2",
    "tools-2/harbor",
    "shop/own",
    "shop-2/own",
];

/// What a pod may find at most in a sentence about a request, if it lives with the connector.
fn sentence(connector: &str) -> String {
    let (home, _) = connector.split_once('/').unwrap();
    format!("told in <{home}> alone")
}

/// How many lives a usual run tries.
const SEEDS: u64 = 300;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// One life from its seed, and what there was to judge.
fn lived(seed: u64) -> judge::Tally {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One after the other, so that a seed gives the same life again.
        .max_blocking_threads(1)
        .start_paused(true)
        .build()
        .unwrap();
    let (story, log) = runtime.block_on(async {
        let mut life = fate::Life::new(seed);
        life.live().await;
        (life.node.judged(), life.steps)
    });
    runtime.shutdown_background();
    assert!(
        story.problems.is_empty(),
        "{}\n\n{}\n\nagain with ORACLE_SEED={seed}",
        log.join("\n"),
        story.problems.join("\n"),
    );
    story.tally
}

#[test]
fn whatever_happens_a_volume_holds_what_its_pod_may_have_and_nothing_else() {
    if let Some(seed) = number("ORACLE_SEED") {
        println!("{:?}", lived(seed));
        return;
    }
    let seeds = number("ORACLE_SEEDS").unwrap_or(SEEDS);
    let mut met = BTreeMap::new();
    for seed in 0..seeds {
        for (what, count) in lived(seed) {
            *met.entry(what).or_insert(0) += count;
        }
    }
    println!("{met:?}");
    // Where nothing happens nothing is shown.
    for what in judge::MUST_BE_MET {
        assert!(seeds < SEEDS || met.contains_key(what), "never met: {what}");
    }
}
