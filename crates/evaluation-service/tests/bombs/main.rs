//! Each bomb ends at its limit, with its own reason, and the next job works.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod list;

use std::path::PathBuf;
use std::time::Duration;

use connectors_api::judge::{RegoAnswer, RegoFailure, RegoJob};
use evaluation_service::metrics::Metrics;
use rego_workers::{ModuleLimits, WorkerPool};
use serde_json::json;
use tokio::time::Instant;

/// What is left to a worker beyond its time: to be killed, and to be replaced.
const GRACE: Duration = Duration::from_secs(2);

/// As much time as there is by default.
const BRIEF: Duration = Duration::from_secs(1);
/// So much time that memory is what runs out, however slow the machine is.
const PATIENT: Duration = Duration::from_secs(10);

fn limits(time: Duration) -> ModuleLimits {
    ModuleLimits {
        workers: 1,
        time,
        memory: 128 << 20,
        output: 16 << 10,
        module: 16 << 10,
    }
}

async fn ask(pool: &WorkerPool, module: &str) -> Result<RegoAnswer, RegoFailure> {
    let (input, context) = (json!({"state": "approved"}), json!({"name": "pod"}));
    let job = RegoJob {
        module,
        input: &input,
        context: &context,
    };
    pool.evaluate(job).await.unwrap()
}

#[tokio::test]
async fn each_bomb_ends_at_its_limit_with_its_own_reason() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_evaluation-service"));
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let start = async |time| {
        let pool = WorkerPool::start(program.clone(), limits(time), metrics.clone());
        pool.await.unwrap()
    };
    let pools = [(BRIEF, start(BRIEF).await), (PATIENT, start(PATIENT).await)];
    let mut wrong = Vec::new();
    for bomb in list::all() {
        let (limit, pool) = &pools[usize::from(bomb.reason == [list::MEMORY])];
        let began = Instant::now();
        let why = match ask(pool, &bomb.module).await {
            Err(RegoFailure::Limit(why) | RegoFailure::Failed(why)) => why,
            Ok(answer) => format!("it is answered: {answer:?}"),
        };
        let took = began.elapsed();
        println!("{}: {took:.1?}: {why}", bomb.name);
        if !bomb.reason.iter().any(|reason| why.contains(reason)) {
            wrong.push(format!("{}: {why}", bomb.name));
        }
        assert!(took < *limit + GRACE, "{}: {took:?}", bomb.name);
        let next = "package approval\noutput := {\"state\": input.state}";
        assert!(ask(pool, next).await.is_ok(), "after {}", bomb.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
