//! `up` ended in the middle, at each of its stages and at any time.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use e2e::{
    Deadline,
    harness::{PATIENCE, seed},
    poll,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    machine::{rest_of_the_machine, traces_of},
    running::{TestCluster, Up},
};

/// Kills at random times in addition to those at the stages.
const RANDOM_KILLS: usize = 3;

#[test]
fn up_killed_at_every_stage_and_at_random_times_leaves_nothing_after_down() {
    let before = rest_of_the_machine();
    let cluster = TestCluster::named("killed");
    let (stages, duration) = complete_run(&cluster);
    assert!(stages.len() >= 10, "{stages:?}");

    for stage in &stages {
        let mut up = cluster.start_up();
        while let Some(reached) = up.next_stage() {
            if reached == *stage {
                break;
            }
        }
        up.kill();
        assert_nothing_left(&cluster, &format!("killed at `{stage}`"));
    }

    let seed = seed();
    println!("random kills with E2E_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..RANDOM_KILLS {
        let after = duration.mul_f64(random.random_range(0.0..1.0));
        let up = cluster.start_up();
        thread::sleep(after); // the kill hits the step that runs at that time
        up.kill();
        assert_nothing_left(
            &cluster,
            &format!("killed after {after:?}, E2E_SEED={seed}"),
        );
    }

    // And after all of that, it simply works, also over the remains of one more kill without a `down`.
    let mut up = cluster.start_up();
    while up
        .next_stage()
        .is_some_and(|stage| stage != "load the images")
    {}
    up.kill();
    cluster.must(&["up"]);
    let nodes = cluster.must(&["kubectl", "--", "get", "nodes", "--no-headers"]);
    assert!(nodes.contains(" Ready "), "{nodes}");
    assert_nothing_left(&cluster, "at the end");
    assert_eq!(rest_of_the_machine(), before);
}

#[test]
fn up_killed_while_it_builds_leaves_no_build_behind() {
    let cluster = TestCluster::named("build");
    let cache = tempfile::tempdir().unwrap();
    let mut command = cluster.command(&["up"]);
    command.env("CONNECTORS_CACHE_DIR", cache.path());
    let mut up = Up::start(command);
    let build = |stage: &String| stage.starts_with("building the tools of e2e/tools/kubernetes");
    while up.next_stage().is_some_and(|stage| !build(&stage)) {}
    let ours = cache.path().display().to_string();
    let building = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.map(|entry| fs::read_to_string(entry.path().join("cmdline")));
        lines
            .flatten()
            .any(|line| line.contains("build") && line.contains(&ours))
    };
    let wait = |wanted: bool| {
        poll("the build", Deadline::after(PATIENCE), || {
            if building() == wanted {
                Ok(())
            } else {
                Err(format!("running: {}", !wanted))
            }
        })
    };
    wait(true).unwrap();
    up.kill();
    wait(false).unwrap();
    assert_nothing_left(&cluster, "killed while building");
}

/// The stages of an undisturbed `up` and how long it takes.
fn complete_run(cluster: &TestCluster) -> (Vec<String>, Duration) {
    let began = Instant::now();
    let mut up = cluster.start_up();
    let mut stages = Vec::new();
    while let Some(stage) = up.next_stage() {
        stages.push(stage);
    }
    assert!(up.child.wait().unwrap().success());
    let duration = began.elapsed();
    assert_nothing_left(cluster, "after a complete run");
    (stages, duration)
}

fn assert_nothing_left(cluster: &TestCluster, when: &str) {
    cluster.must(&["down"]);
    let traces = traces_of(&cluster.name);
    assert!(traces.is_empty(), "{when}: {traces:#?}");
}
