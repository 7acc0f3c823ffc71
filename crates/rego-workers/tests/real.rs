//! Real workers: this program itself, as a service is its own worker. So it cannot have the usual harness.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{Read as _, Write as _};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use connectors_api::judge::{RegoFailure, RegoJob};
use rego_workers::{ARGUMENT, ModuleLimits, PoolError, Sound, WorkerPool, run_worker};
use serde_json::{Value, json};

type Test = (&'static str, fn());

const TESTS: [Test; 7] = [
    (
        "a_worker_is_confined_before_its_first_job",
        a_worker_is_confined_before_its_first_job,
    ),
    (
        "a_lower_limit_of_processor_time_stays",
        a_lower_limit_of_processor_time_stays,
    ),
    ("a_worker_ends_with_its_input", a_worker_ends_with_its_input),
    (
        "a_worker_without_its_limits_does_no_work",
        a_worker_without_its_limits_does_no_work,
    ),
    (
        "a_module_is_answered_judged_and_limited",
        a_module_is_answered_judged_and_limited,
    ),
    (
        "a_program_comes_with_an_answer_of_any_length",
        a_program_comes_with_an_answer_of_any_length,
    ),
    (
        "a_module_has_no_more_memory_than_its_worker",
        a_module_has_no_more_memory_than_its_worker,
    ),
];

/// Understands as much of the arguments of a harness as ours are called with.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((ARGUMENT, rest)) = arguments.split_first().map(|(it, rest)| (&**it, rest)) {
        return run_worker(rest);
    }
    let is_given = |flag: &str| arguments.iter().any(|it| it == flag);
    let mut names = Vec::new();
    let mut given = arguments.iter();
    while let Some(it) = given.next() {
        match it.as_str() {
            "--test-threads" | "--format" | "--skip" => _ = given.next(),
            flag if flag.starts_with('-') => {}
            name => names.push(name),
        }
    }
    let is_chosen = |test: &str| {
        let fits = |name: &&str| test == *name || !is_given("--exact") && test.contains(*name);
        names.is_empty() || names.iter().any(fits)
    };
    let chosen = TESTS.iter().filter(|(name, _)| is_chosen(name));
    let mut failed = 0;
    let (mut passed, mut code) = (0, ExitCode::SUCCESS);
    for (name, test) in chosen {
        if is_given("--list") {
            println!("{name}: test");
        } else if catch_unwind(test).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
            code = ExitCode::FAILURE;
        }
    }
    if !is_given("--list") {
        let word = if failed == 0 { "ok" } else { "FAILED" };
        println!(
            "test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out",
            TESTS.len() - passed - failed
        );
    }
    code
}

fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

const STATE: &str =
    "package approval\noutput := {\"state\": input.state, \"message\": data.context.name}";

fn start(program: &mut Command) -> Child {
    program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn worker() -> Child {
    start(Command::new(program()).args([ARGUMENT, "1000", "134217728"]))
}

/// Gives a job to a worker, and returns its reply.
fn ask(worker: &mut Child, job: &str) -> Value {
    let length = u32::try_from(job.len()).unwrap().to_be_bytes();
    let frame = [&length[..], job.as_bytes()].concat();
    worker.stdin.as_mut().unwrap().write_all(&frame).unwrap();
    let output = worker.stdout.as_mut().unwrap();
    let mut head = [0; 4];
    output.read_exact(&mut head).unwrap();
    let mut reply = vec![0; usize::try_from(u32::from_be_bytes(head)).unwrap()];
    output.read_exact(&mut reply).unwrap();
    serde_json::from_slice(&reply).unwrap()
}

/// Soft and hard limit of a process.
fn limits_of(worker: &Child, what: &str) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", worker.id())).unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix(what));
    let mut numbers = limit.unwrap().split_whitespace().map(str::to_owned);
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

/// How little a process counts: 19 is the least.
fn niceness(process: &str) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(16).unwrap().parse().unwrap()
}

fn a_worker_is_confined_before_its_first_job() {
    let mut worker = worker();
    for _ in 0..3 {
        let reply = ask(&mut worker, &json!({"module": STATE}).to_string());
        assert_eq!(reply, json!({"sound": {"readsObject": true}}));
        for (what, expected) in [
            ("Max open files", ["0", "0"]),
            ("Max processes", ["0", "0"]),
            ("Max file size", ["0", "0"]),
            ("Max core file size", ["0", "0"]),
            ("Max address space", ["134217728", "134217728"]),
        ] {
            assert_eq!(limits_of(&worker, what), expected, "{what}");
        }
        // The job's second, two more until it ends without its service, and what it used, which is less than one.
        let [soft, hard] = limits_of(&worker, "Max cpu time");
        let most = limits_of(&start(Command::new("cat").arg("-")), "Max cpu time");
        assert!(["3", "4"].contains(&&*soft), "{soft}");
        assert_eq!(hard, most[1]);
    }
    let less = (niceness("self") + 10).min(19);
    assert_eq!(niceness(&worker.id().to_string()), less);
    drop(worker.stdin.take());
    assert!(worker.wait().unwrap().success());
}

fn a_lower_limit_of_processor_time_stays() {
    for (hard, soft) in [("100", "3"), ("2", "2")] {
        let script = format!("ulimit -t {hard}; exec \"$0\" {ARGUMENT} 1000 134217728");
        let mut worker = start(Command::new("sh").arg("-c").arg(script).arg(program()));
        for _ in 0..2 {
            let reply = ask(&mut worker, &json!({"module": STATE}).to_string());
            assert_eq!(reply, json!({"sound": {"readsObject": true}}));
            assert_eq!(limits_of(&worker, "Max cpu time"), [soft, hard]);
        }
    }
}

/// What a worker said to an input, and whether it ended well.
fn end_of(arguments: &[&str], input: &[u8]) -> (Vec<u8>, bool) {
    let mut worker = start(Command::new(program()).args(arguments));
    // One that does not listen ends before it is spoken to.
    let _ = worker.stdin.take().unwrap().write_all(input);
    let mut said = Vec::new();
    worker
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut said)
        .unwrap();
    (said, worker.wait().unwrap().success())
}

fn a_worker_ends_with_its_input() {
    let arguments = [ARGUMENT, "1000", "134217728"];
    assert_eq!(end_of(&arguments, b""), (Vec::new(), true));
    assert_eq!(end_of(&arguments, b"\0\0"), (Vec::new(), true));
    // Half a job is nothing to reply to.
    assert_eq!(end_of(&arguments, b"\0\0\0\x05{}"), (Vec::new(), false));
}

fn a_worker_without_its_limits_does_no_work() {
    let job = json!({"module": STATE}).to_string();
    let length = u32::try_from(job.len()).unwrap().to_be_bytes();
    let frame = [&length[..], job.as_bytes()].concat();
    for arguments in [
        &[ARGUMENT][..],
        &[ARGUMENT, "1000"],
        &[ARGUMENT, "1000", ""],
        &[ARGUMENT, "", "134217728"],
        &[ARGUMENT, "1000", "134217728", "1"],
        &[ARGUMENT, "1s", "134217728"],
        &[ARGUMENT, "1000", "-1"],
    ] {
        assert_eq!(
            end_of(arguments, &frame),
            (Vec::new(), false),
            "{arguments:?}"
        );
    }
}

fn limits() -> ModuleLimits {
    ModuleLimits {
        workers: 2,
        time: Duration::from_secs(10),
        memory: 128 << 20,
        output: 16 << 10,
        module: 16 << 10,
    }
}

fn block_on<T>(it: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(it)
}

async fn evaluate(pool: &WorkerPool, module: &str, input: &Value) -> Result<String, RegoFailure> {
    let context = json!({"name": "pod"});
    let job = RegoJob {
        module,
        input,
        context: &context,
    };
    let answer = pool.evaluate(job).await.unwrap()?;
    let message = answer.message.unwrap_or_default();
    Ok(format!("{}/{message}", answer.state.as_str()))
}

fn a_module_is_answered_judged_and_limited() {
    block_on(async {
        let pool = WorkerPool::start(program(), limits(), ()).await.unwrap();
        for state in ["approved", "Approved", "rejected", "passed"] {
            let said = evaluate(&pool, STATE, &json!({"state": state})).await;
            assert_eq!(said, Ok(format!("{state}/pod")));
        }
        let constant = "package approval\noutput := {\"state\": \"passed\"}";
        for (module, reads_object) in [(STATE, true), (constant, false)] {
            let sound = pool.validate(module).await.unwrap();
            assert_eq!(sound, Ok(Sound { reads_object }));
        }
        let odd = pool.validate("package other").await.unwrap();
        assert!(matches!(odd, Err(RegoFailure::Failed(_))), "{odd:?}");
        let said = evaluate(&pool, constant, &Value::Null).await;
        assert_eq!(said, Ok("passed/".to_owned()));
    });
    let program = PathBuf::from("/bin/true");
    let none = block_on(WorkerPool::start(program, limits(), ()));
    assert!(matches!(none, Err(PoolError::Broken(_))), "{none:?}");
}

/// The longest answer that a status shows, and nearly the longest program.
fn a_program_comes_with_an_answer_of_any_length() {
    block_on(async {
        let output = 7 * 1024;
        let pool = WorkerPool::start(program(), ModuleLimits { output, ..limits() }, ());
        let pool = pool.await.unwrap();
        let line = format!("{}\n", "\u{1}".repeat(63));
        let module = format!(
            "package approval\noutput := {{\"state\": \"passed\", \"message\": input.text}}\n\
             default output := {{\"message\": `{}`}}",
            line.repeat(17)
        );
        let input = json!({"text": "\u{1}".repeat(1024)});
        let job = RegoJob {
            module: &module,
            input: &input,
            context: &Value::Null,
        };
        let (outcome, program) = pool.evaluate_and_compile(job).await.unwrap();
        let answer = outcome.unwrap();
        assert_eq!(answer.message.as_deref(), input["text"].as_str());
        let said = program.unwrap().run(&input).unwrap().unwrap();
        assert_eq!((said.state, said.message), (answer.state, answer.message));
        let (outcome, program) = {
            let module = STATE;
            let job = RegoJob { module, ..job };
            pool.evaluate_and_compile(job).await.unwrap()
        };
        // It reads the context.
        assert!(outcome.is_err() && program.is_none(), "{outcome:?}");
    });
}

/// A module that makes a text of ten bytes, doubled as often.
fn text(doubled: usize) -> String {
    let double = (0..doubled).map(|n| format!("s{} := concat(\"\", [s{n}, s{n}])\n", n + 1));
    let double: String = double.collect();
    format!(
        "package approval\ns0 := \"0123456789\"\n{double}output := {{\"state\": \"approved\", \"message\": s{doubled}}}"
    )
}

fn a_module_has_no_more_memory_than_its_worker() {
    block_on(async {
        let pool = WorkerPool::start(program(), limits(), ()).await.unwrap();
        assert!(evaluate(&pool, &text(10), &json!({})).await.is_ok());
        let said = evaluate(&pool, &text(26), &json!({})).await;
        let expected = RegoFailure::Limit("used too much memory".to_owned());
        assert_eq!(said, Err(expected));
        let said = evaluate(&pool, STATE, &json!({"state": "pending"})).await;
        assert_eq!(said, Ok("pending/pod".to_owned()));
    });
}
