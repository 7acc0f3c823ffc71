//! Real workers: what a module does to its own is nobody else's matter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use connectors_api::judge::{RegoAnswer, RegoFailure, RegoJob};
use evaluation_service::metrics::Metrics;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rego_workers::{ModuleLimits, NoReply, PoolError, WorkerPool};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

const STATE: &str =
    "package approval\noutput := {\"state\": input.state, \"message\": data.context.name}";

/// Longer than any worker lives that misbehaves, on a busy machine too.
const SOON: Duration = Duration::from_secs(20);

fn limits() -> ModuleLimits {
    ModuleLimits {
        workers: 2,
        time: Duration::from_secs(1),
        memory: 128 << 20,
        output: 16 << 10,
        module: 16 << 10,
    }
}

fn metrics() -> Metrics {
    Metrics::register(&prometheus::Registry::new()).unwrap()
}

async fn start(limits: ModuleLimits) -> Result<WorkerPool, PoolError> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_evaluation-service"));
    WorkerPool::start(program, limits, metrics()).await
}

async fn ask(pool: &WorkerPool, module: &str, input: &Value) -> Result<RegoAnswer, RegoFailure> {
    let context = json!({"name": "pod"});
    let job = RegoJob {
        module,
        input,
        context: &context,
    };
    pool.evaluate(job).await.unwrap()
}

/// A module that makes a text of ten bytes, doubled as often.
fn text(doubled: usize) -> String {
    let double = (0..doubled).map(|n| format!("s{} := concat(\"\", [s{n}, s{n}])\n", n + 1));
    let double: String = double.collect();
    format!(
        "package approval\ns0 := \"0123456789\"\n{double}output := {{\"state\": \"approved\", \"message\": s{doubled}}}"
    )
}

/// The next job works, with the module of before and with its own objects.
async fn works(pool: &WorkerPool) {
    for state in ["approved", "pending"] {
        let answer = ask(pool, STATE, &json!({"state": state})).await.unwrap();
        assert_eq!(answer.state.as_str(), state);
        assert_eq!(answer.message.as_deref(), Some("pod"));
    }
}

#[tokio::test]
async fn what_a_module_does_is_over_in_time_and_the_next_job_works() {
    let pool = start(limits()).await.unwrap();
    works(&pool).await;
    let brackets = format!(
        "package approval\noutput := {}1{}",
        "[".repeat(60),
        "]".repeat(60)
    );
    let deep = format!(
        "package approval\noutput := {}1{}",
        "(".repeat(7000),
        ")".repeat(7000)
    );
    let text = text(26);
    let modules = [
        ("loop", "package approval\nn := numbers.range(1, 3000)\noutput := {\"state\": \"approved\"} if count([1 | some a in n; some b in n; some c in n; a + b == c * 7777777]) == 0".to_owned()),
        ("builtin", "package approval\noutput := {\"state\": \"approved\"} if count(numbers.range(1, 1000000000)) > 0".to_owned()),
        ("text", text),
        ("brackets", brackets),
        ("parentheses", deep),
        ("regex", "package approval\noutput := {\"state\": \"approved\"} if not regex.match(\"(((a{0,100}){0,100}){0,100}){0,100}b\", \"a\")".to_owned()),
    ];
    for (name, module) in modules {
        let answer = timeout(SOON, ask(&pool, &module, &json!({}))).await;
        assert!(matches!(answer, Ok(Err(_))), "{name}: {answer:?}");
        works(&pool).await;
    }
}

#[tokio::test]
async fn memory_is_limited_however_much_time_there_is() {
    let time = Duration::from_secs(10);
    let pool = start(ModuleLimits { time, ..limits() }).await.unwrap();
    let little = ask(&pool, &text(10), &json!({})).await.unwrap();
    assert_eq!(little.state.as_str(), "approved");
    let answer = ask(&pool, &text(26), &json!({})).await;
    let expected = RegoFailure::Limit("used too much memory".to_owned());
    assert_eq!(answer, Err(expected));
    works(&pool).await;
}

#[tokio::test]
async fn half_of_the_usual_memory_is_enough_for_a_small_module() {
    let memory = limits().memory / 2;
    let pool = start(ModuleLimits { memory, ..limits() }).await.unwrap();
    works(&pool).await;
}

/// A module that is large when it is parsed.
fn large(number: usize) -> String {
    let rules = (0..900).map(|rule| format!("r{rule}:={number}\n"));
    let rules: String = rules.collect();
    format!("package approval\n{rules}output := {{\"state\": \"approved\"}}")
}

#[tokio::test]
async fn what_others_left_in_a_worker_decides_nothing() {
    let time = Duration::from_secs(10);
    let one = ModuleLimits {
        workers: 1,
        time,
        ..limits()
    };
    // So large that it fits only into a worker that keeps little else.
    let module = text(20);
    let first = ask(&start(one.clone()).await.unwrap(), &module, &json!({})).await;
    assert!(first.is_ok(), "{first:?}");
    let pool = start(one).await.unwrap();
    for number in 0..30 {
        ask(&pool, &large(number), &json!({})).await.unwrap();
    }
    assert_eq!(ask(&pool, &module, &json!({})).await, first);
}

#[tokio::test]
async fn a_module_that_misbehaves_keeps_nobody_from_a_free_worker() {
    let pool = start(limits()).await.unwrap();
    let brackets = format!(
        "package approval\noutput := {}1{}",
        "[".repeat(60),
        "]".repeat(60)
    );
    let mut bad = pin!(ask(&pool, &brackets, &Value::Null));
    tokio::select! {
        biased;
        bad = &mut bad => panic!("it was waited for: {bad:?}"),
        () = works(&pool) => {}
    }
    let bad = bad.await;
    assert!(matches!(bad, Err(RegoFailure::Limit(_))), "{bad:?}");
}

#[tokio::test]
async fn who_waits_for_a_worker_gets_one_in_turn() {
    let pool = start(ModuleLimits {
        workers: 1,
        ..limits()
    })
    .await
    .unwrap();
    let input = json!({"state": "approved"});
    let all = (0..20).map(|_| ask(&pool, STATE, &input));
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.unwrap().state.as_str(), "approved");
    }
}

#[tokio::test]
async fn a_job_that_nobody_waits_for_any_more_harms_nobody() {
    let pool = start(ModuleLimits {
        workers: 1,
        ..limits()
    })
    .await
    .unwrap();
    let brackets = format!(
        "package approval\noutput := {}1{}",
        "[".repeat(60),
        "]".repeat(60)
    );
    let late = tokio::time::timeout(
        Duration::from_millis(50),
        ask(&pool, &brackets, &Value::Null),
    );
    assert!(late.await.is_err());
    works(&pool).await;
}

#[tokio::test]
async fn sizes_are_looked_at() {
    let pool = start(ModuleLimits {
        module: 100,
        output: 40,
        ..limits()
    })
    .await;
    assert!(matches!(pool, Err(PoolError::Broken(_))), "{pool:?}");

    let pool = start(ModuleLimits {
        module: 100,
        output: 64,
        ..limits()
    })
    .await
    .unwrap();
    let long = format!("{STATE}\n#{}", "x".repeat(100));
    let answer = ask(&pool, &long, &json!({"state": "approved"})).await;
    let expected = RegoFailure::Limit("the module is longer than 100 bytes".to_owned());
    assert_eq!(answer, Err(expected));

    let chatty = "package approval\noutput := {\"state\": \"approved\", \"message\": input}";
    let answer = ask(&pool, chatty, &json!("x".repeat(100))).await;
    let expected = RegoFailure::Limit("the answer is too long, or none".to_owned());
    assert_eq!(answer, Err(expected));
    let answer = ask(&pool, chatty, &json!("x")).await.unwrap();
    assert_eq!(answer.message.as_deref(), Some("x"));
}

#[tokio::test]
async fn what_is_no_module_is_a_failure_with_its_reason() {
    let pool = start(limits()).await.unwrap();
    for (module, reason) in [
        ("", "rego: empty"),
        (
            "package other\noutput := 1",
            "rego: package must be `approval`",
        ),
        (
            "package approval\nx := 1",
            "rego: the rule `output` is missing",
        ),
        (
            "package approval\noutput := http.send({})",
            "rego: the function `http.send` is not available",
        ),
        (
            "package approval\noutput := opa.runtime()",
            "rego: the function `opa.runtime` is not available",
        ),
    ] {
        match ask(&pool, module, &json!({})).await {
            Err(RegoFailure::Failed(why)) => assert!(why.starts_with(reason), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_found_out_at_the_start() {
    for program in ["/no/such/program", "/bin/true"] {
        let pool = WorkerPool::start(program.into(), limits(), metrics()).await;
        assert!(pool.is_err(), "{program}");
    }
}

#[test]
fn a_worker_ends_with_its_input() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let mut worker = Command::new(env!("CARGO_BIN_EXE_evaluation-service"))
        .args(["rego-worker", "1000", "134217728"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(worker.stdin.take());
    let mut said = Vec::new();
    worker
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut said)
        .unwrap();
    assert_eq!((said, worker.wait().unwrap().success()), (vec![], true));
}

#[test]
fn a_worker_opens_no_file_and_starts_no_process() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut worker = Command::new(env!("CARGO_BIN_EXE_evaluation-service"))
        .args(["rego-worker", "1000", "134217728"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // An answer shows that it has begun to work.
    let job = json!({"module": STATE}).to_string();
    let length = u32::try_from(job.len()).unwrap().to_be_bytes();
    let mut input = worker.stdin.take().unwrap();
    input.write_all(&length).unwrap();
    input.write_all(job.as_bytes()).unwrap();
    let mut first = [0; 1];
    std::io::Read::read_exact(worker.stdout.as_mut().unwrap(), &mut first).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", worker.id())).unwrap();
    for (what, expected) in [
        ("Max open files", ["0", "0"]),
        ("Max processes", ["0", "0"]),
        ("Max file size", ["0", "0"]),
        ("Max core file size", ["0", "0"]),
        ("Max address space", ["134217728", "134217728"]),
        // The job's second, and two more until it ends without its service.
        ("Max cpu time", ["3", "unlimited"]),
    ] {
        let limit = limits.lines().find_map(|line| line.strip_prefix(what));
        let numbers: Vec<&str> = limit.unwrap().split_whitespace().take(2).collect();
        assert_eq!(numbers, expected, "{what}");
    }
    drop(input);
    assert!(worker.wait().unwrap().success());
}

/// How little a process counts: 19 is the least.
fn niceness(process: &str) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(16).unwrap().parse().unwrap()
}

/// A program that tells its process, and works or, where a file says so, is killed at once.
fn mortal(place: &Path) -> PathBuf {
    let (program, real) = (
        place.join("worker"),
        env!("CARGO_BIN_EXE_evaluation-service"),
    );
    let at = place.display();
    let script = format!(
        "#!/bin/sh\necho $$ > {at}/process\n[ -e {at}/mortal ] && kill -9 $$\nexec {real} \"$@\"\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

#[tokio::test]
async fn whoever_kills_a_worker_decides_nothing() {
    let place = tempfile::tempdir().unwrap();
    let one = ModuleLimits {
        workers: 1,
        ..limits()
    };
    let pool = WorkerPool::start(mortal(place.path()), one, metrics());
    let pool = pool.await.unwrap();
    let kill = || {
        let process = std::fs::read_to_string(place.path().join("process")).unwrap();
        let process = Pid::from_raw(process.trim().parse().unwrap()).unwrap();
        kill_process(process, Signal::KILL).unwrap();
    };
    // While it had nothing to do: another one is asked.
    kill();
    works(&pool).await;
    // And the other one, too: nobody knows what the module would have said.
    std::fs::write(place.path().join("mortal"), "").unwrap();
    kill();
    let nothing = json!({});
    let job = RegoJob {
        module: STATE,
        input: &nothing,
        context: &nothing,
    };
    let said = pool.evaluate(job).await;
    assert!(matches!(said, Err(NoReply::Busy(_))), "{said:?}");
    std::fs::remove_file(place.path().join("mortal")).unwrap();
    works(&pool).await;
}

#[tokio::test]
async fn a_worker_counts_less_than_the_service() {
    let worker = tokio::process::Command::new(env!("CARGO_BIN_EXE_evaluation-service"))
        .args(["rego-worker", "1000", "134217728"])
        .stdin(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let process = worker.id().unwrap().to_string();
    let less = (niceness("self") + 10).min(19);
    let deadline = Instant::now() + SOON;
    while niceness(&process) != less {
        assert!(Instant::now() < deadline, "{}", niceness(&process));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Pieces of modules that take long, much memory or a deep stack; no piece holds the word of a yes.
fn costly() -> impl Strategy<Value = String> {
    let wrapped = |open: &'static str, close: &'static str| {
        move |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    prop_oneof![
        (1..70_usize).prop_map(wrapped("[", "]")),
        (1..70_usize).prop_map(wrapped("{\"a\":", "}")),
        (1..2000_usize).prop_map(wrapped("(", ")")),
        (1..2000_usize).prop_map(wrapped("f(", ")")),
        (1..10_u32).prop_map(|digits| format!("numbers.range(1, {})", 10_u64.pow(digits))),
        (1..6_usize).prop_map(|loops| {
            let names = (0..loops).map(|n| format!("some x{n} in numbers.range(1, 100)"));
            format!("[1 | {}]", names.collect::<Vec<_>>().join("; "))
        }),
        (1..6_usize).prop_map(|deep| {
            let regex = format!("{}a{}b", "(".repeat(deep), "{0,100})".repeat(deep));
            format!("regex.match(\"{regex}\", \"{}\")", "a".repeat(64))
        }),
        (1..10_u32).prop_map(|digits| format!("sprintf(\"%0{}d\", [1])", 10_u64.pow(digits))),
        (1..10_u32).prop_map(|digits| format!("bits.lsh(1, {})", 10_u64.pow(digits))),
        "[a-z{}\\[\\]():=\". \n]{0,40}",
    ]
}

/// Whatever a module is made of: in time there is an answer or a reason, no reason is a yes, and the pool works
/// on.
#[test]
fn no_module_hangs_past_its_limit_or_makes_a_yes_of_an_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let time = Duration::from_millis(300);
    let pool = runtime
        .block_on(start(ModuleLimits { time, ..limits() }))
        .unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let module = (costly(), costly(), any::<bool>()).prop_map(|(first, second, negated)| {
        let not = if negated { "not " } else { "" };
        format!(
            "package approval\nf(x) := x\noutput := {{\"state\": \"pending\", \"message\": sprintf(\"%v\", [{first}])}} if {not}{second}"
        )
    });
    let outcome = runner.run(&module, |module| {
        // The pool kills a worker that is late.
        let answer =
            runtime.block_on(async { timeout(SOON, ask(&pool, &module, &json!({}))).await });
        prop_assert!(answer.is_ok(), "it came to no end");
        if let Ok(Ok(answer)) = answer {
            prop_assert_eq!(answer.state.as_str(), "pending");
        }
        Ok(())
    });
    outcome.unwrap();
    runtime.block_on(works(&pool));
}
