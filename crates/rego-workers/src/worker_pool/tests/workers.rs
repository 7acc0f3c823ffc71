//! How workers are started, when another one is tried, and that none outlives its job.

use serde_json::json;

use super::*;

/// What a pool told of its work.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    started: Arc<AtomicUsize>,
    evaluated: Arc<Mutex<Vec<(ModuleOutcome, Duration)>>>,
}

impl PoolWatcher for Told {
    fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    fn evaluated(&self, outcome: &ModuleOutcome, time: Duration) {
        let told = (outcome.clone(), time);
        self.evaluated.lock().unwrap().push(told);
    }
}

impl Told {
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    pub(super) fn evaluated(&self) -> Vec<(ModuleOutcome, Duration)> {
        self.evaluated.lock().unwrap().clone()
    }
}

const LONG: Duration = Duration::from_secs(10);

#[expect(clippy::unnecessary_wraps, reason = "it is compared with outcomes")]
fn says(word: &str) -> ModuleOutcome {
    Ok(RegoAnswer {
        state: ObjectState::from_word(word).unwrap(),
        message: None,
    })
}

fn exceeds(why: &str) -> ModuleOutcome {
    Err(RegoFailure::Limit(why.to_owned()))
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never is");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// True when a process ended, whether its parent has read its status or not.
fn is_gone(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
}

/// The processes that the script wrote down with `echo $$ >> "$here/processes"`.
fn processes(place: &Path) -> Vec<String> {
    let all = fs::read_to_string(place.join("processes")).unwrap();
    all.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_worker_is_told_its_limits_and_has_nothing_of_its_service() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("worker");
    let script = "printf '%s\\n' \"$@\" > \"$here/arguments\"; env > \"$here/environment\"\n\
        pwd > \"$here/directory\"; readlink /proc/$$/fd/2 > \"$here/errors\"; printf \"$yes\"; exec sleep 60";
    let limits = ModuleLimits {
        memory: (1 << 30) + 7,
        ..limits(Duration::from_millis(1_500))
    };
    let _pool = start(&place, limits, (), script).await.unwrap();
    let told = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(told("arguments"), "rego-worker\n1500\n1073741831\n");
    assert_eq!(told("directory"), "/\n");
    assert_eq!(told("errors"), "/dev/null\n");
    let environment = told("environment");
    let environment = environment
        .lines()
        .map(|it| it.split_once('=').unwrap())
        // The shell sets these by itself.
        .filter(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(environment.collect::<Vec<_>>(), [WORKER_ALLOCATOR]);
}

/// What others left in a worker may have ended it, so another one is asked, once. A worker that only this job can have
/// ended is the module's own fault.
#[tokio::test]
async fn a_job_that_its_worker_did_not_survive_is_tried_in_a_new_one() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let again = || says("rejected");
    let none = || exceeds("the answer is too long, or none");
    for (case, (end, expected, started)) in [
        ("kill -s ABRT $$", again(), 2),
        ("kill -s SEGV $$", again(), 2),
        ("kill -s BUS $$", again(), 2),
        ("kill -s KILL $$", again(), 2),
        ("kill -s TERM $$", again(), 2),
        ("exit 0", again(), 2),
        ("exit 1", again(), 2),
        // Half a reply, and then the end of the process.
        ("printf '\\000\\000\\001'", again(), 2),
        ("printf '\\000\\000\\000\\011half'", again(), 2),
        (
            "kill -s XCPU $$",
            exceeds("used too much processor time"),
            1,
        ),
        ("printf '\\000\\000\\000\\002no'; exec sleep 60", none(), 1),
        ("printf '\\000\\000\\000\\000'; exec sleep 60", none(), 1),
        ("printf '\\000\\000\\004\\001'; exec sleep 60", none(), 1),
        ("printf '\\377\\377\\377\\377'; exec sleep 60", none(), 1),
    ]
    .into_iter()
    .enumerate()
    {
        // The first worker replies to its first job. All later ones say no, as often as they are asked.
        let script = format!(
            "if [ -e \"$here/used\" ]; then printf \"$no$no$no\"; exec sleep 60; fi\n\
             : > \"$here/used\"; head -c 1 > /dev/null; printf \"$yes\"; {end}"
        );
        let place = place.path().join(case.to_string());
        let told = Told::default();
        let pool = start(&place, limits(LONG), told.clone(), &script).await;
        let pool = pool.unwrap();
        assert_eq!(told.started(), 1);
        assert_eq!(pool.evaluate(job()).await, Ok(expected.clone()), "{end}");
        assert_eq!(told.started(), started, "{end}");
        assert_eq!(pool.0.lock().len(), started - 1, "{end}");
        // Whatever happened: the next job gets its answer, in the same number of places.
        assert_eq!(pool.evaluate(job()).await, Ok(again()), "{end}");
        assert_eq!(told.started(), 2, "{end}");
        let places = pool.0.places.available_permits();
        assert_eq!((pool.0.lock().len(), places), (1, 2), "{end}");
        let outcomes: Vec<_> = told.evaluated().into_iter().map(|(it, _)| it).collect();
        assert_eq!(outcomes, [expected, again()], "{end}");
    }
}

#[tokio::test]
async fn a_job_that_ends_a_new_worker_is_not_tried_again() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    for (case, end) in ["ABRT", "KILL", "XCPU"].into_iter().enumerate() {
        let script = format!(
            "head -c 1 > /dev/null; if [ ! -e \"$here/used\" ]; then : > \"$here/used\"; printf \"$yes\"; fi; kill -s {end} $$"
        );
        let told = Told::default();
        let place = place.path().join(case.to_string());
        let pool = start(&place, limits(LONG), told.clone(), &script).await;
        let pool = pool.unwrap();
        // The used one of the start is tried before, and XCPU in it is final.
        let first = if end == "XCPU" { 1 } else { 2 };
        for started in [first, first + 1, first + 2] {
            let outcome = pool.evaluate(job()).await;
            assert_ne!(outcome, Ok(says("passed")), "{end}");
            assert_eq!(told.started(), started, "{end}");
            let places = pool.0.places.available_permits();
            assert_eq!((pool.0.lock().len(), places), (0, 2), "{end}");
        }
    }
}

/// It would go on for its processor time, with its memory, in a process that the pool does not count.
#[tokio::test]
async fn no_worker_outlives_a_job_that_it_did_not_end() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    for (case, behind) in [
        // Nothing at all, a reply that is too long, and one that is none.
        "",
        "printf '\\000\\000\\004\\001'",
        "printf '\\000\\000\\000\\002no'",
        "printf '\\000\\000\\000\\100half'",
    ]
    .into_iter()
    .enumerate()
    {
        let place = place.path().join(case.to_string());
        let script =
            format!("echo $$ >> \"$here/processes\"; printf \"$yes\"; {behind}; exec sleep 60")
                .replace("; ;", ";");
        let pool = pool(&place, Duration::from_millis(20), &script).await;
        let outcome = pool.evaluate(job()).await.unwrap();
        assert!(
            matches!(outcome, Err(RegoFailure::Limit(_))),
            "{behind}: {outcome:?}"
        );
        let first = processes(&place).remove(0);
        until(|| is_gone(&first)).await;
        assert_eq!(pool.0.places.available_permits(), 2);
    }
}

#[tokio::test]
async fn no_worker_outlives_its_caller_its_last_job_or_its_pool() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let script = "echo $$ >> \"$here/processes\"; printf \"$yes\"; exec sleep 60";
    // Its caller goes away.
    let at = place.path().join("caller");
    let told = Told::default();
    let asked = start(&at, limits(LONG), told.clone(), script).await;
    let asked = asked.unwrap();
    {
        let mut asks = pin!(asked.evaluate(job()));
        assert!(poll!(&mut asks).is_pending());
    }
    let first = processes(&at).remove(0);
    until(|| is_gone(&first)).await;
    assert_eq!(asked.0.places.available_permits(), 2);
    assert_eq!(told.evaluated(), []);
    // Another one is started for the next job, and ends with the pool.
    let other = asked.clone();
    assert_eq!(asked.evaluate(job()).await, Ok(says("passed")));
    assert_eq!(told.started(), 2);
    let second = processes(&at).remove(1);
    drop(asked);
    assert!(!is_gone(&second), "a clone still has it");
    drop(other);
    until(|| is_gone(&second)).await;
    // Its last job.
    let at = place.path().join("last");
    let twice = script.replace("$yes", "$yes$yes");
    let pool = pool(&at, LONG, &twice).await;
    let nearly_all = |it: &mut PoolWorker| it.jobs = JOBS_PER_WORKER - 1;
    pool.0.lock().iter_mut().for_each(nearly_all);
    assert_eq!(pool.evaluate(job()).await, Ok(says("passed")));
    let first = processes(&at).remove(0);
    until(|| is_gone(&first)).await;
}

/// In time that the runtime only pretends to pass.
#[tokio::test]
async fn a_silent_worker_costs_its_time_and_a_little_grace() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let time = Duration::from_millis(1_400);
    let script =
        "if [ ! -e \"$here/used\" ]; then : > \"$here/used\"; printf \"$yes\"; fi; exec sleep 60";
    let pool = pool(&place.path().join("worker"), time, script).await;
    tokio::time::pause();
    // The worker of the start, and then a new one.
    for _ in 0..2 {
        let began = Instant::now();
        let outcome = pool.evaluate(job()).await;
        assert_eq!(outcome, Ok(exceeds("took longer than 1.4s")));
        let took = began.elapsed();
        let due = time + GRACE;
        assert!(
            took >= due && took <= due + Duration::from_millis(5),
            "{took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_job_of_all_has_longer_and_not_for_ever() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let time = limits(Duration::from_secs(1));
    let silent = start(&place.path().join("worker"), time, (), "exec sleep 60").await;
    assert!(
        matches!(silent, Err(PoolError::Broken(RegoFailure::Limit(_)))),
        "{silent:?}"
    );
    let took = began.elapsed();
    assert!(
        took >= FIRST_JOB && took <= FIRST_JOB + Duration::from_millis(5),
        "{took:?}"
    );
}

/// It is given a moment to end, because its end says why, and is killed then.
#[tokio::test]
async fn a_worker_that_closed_its_pipes_and_lives_is_not_waited_for() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let place = place.path().join("worker");
    let script = "echo $$ >> \"$here/processes\"; head -c 1 > /dev/null; printf \"$yes\"; exec <&- >&-\n\
        : > \"$here/closed\"; exec sleep 60";
    let time = Duration::from_secs(2);
    let pool = pool(&place, time, script).await;
    until(|| place.join("closed").exists()).await;
    let first = processes(&place).remove(0);
    tokio::time::pause();
    let began = Instant::now();
    // What follows is another worker, for which no real time passes.
    let outcome = pool.evaluate(job()).await;
    let took = began.elapsed();
    assert!(
        took >= DYING && took <= DYING + time + GRACE + DYING,
        "{took:?} {outcome:?}"
    );
    tokio::time::resume();
    until(|| is_gone(&first)).await;
}

#[tokio::test]
async fn a_reply_has_as_many_bytes_as_the_limit_and_no_more() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let frame = |message: String| {
        frame::encode(&Reply::Answer {
            state: "passed".to_owned(),
            message: Some(message),
        })
        .unwrap()
    };
    let empty = frame(String::new()).len() - HEAD;
    let most = limits(LONG).output;
    for (case, (message, fits)) in [
        ("x".repeat(most - empty), true),
        ("x".repeat(most - empty + 1), false),
        // Fewer letters than the limit, and more bytes.
        ("ä".repeat((most - empty) / 2 + 1), false),
        ("ä".repeat((most - empty) / 2), true),
    ]
    .into_iter()
    .enumerate()
    {
        let place = place.path().join(case.to_string());
        let script = "printf \"$yes\"; while [ ! -e \"$here/go\" ]; do sleep 0.01; done\n\
            cat \"$here/reply\"; exec sleep 60";
        let pool = pool(&place, LONG, script).await;
        fs::write(place.join("reply"), frame(message.clone())).unwrap();
        fs::write(place.join("go"), "").unwrap();
        let outcome = pool.evaluate(job()).await.unwrap();
        if fits {
            assert_eq!(outcome.unwrap().message, Some(message));
        } else {
            assert_eq!(outcome, exceeds("the answer is too long, or none"));
        }
    }
}

#[tokio::test]
async fn a_pool_does_not_start_with_a_worker_that_gives_no_answer() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let sound = Reply::Sound(Sound { reads_object: true });
    for (case, reply) in [
        sound,
        Reply::Limit("l".to_owned()),
        Reply::Failed("f".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let frame = frame::encode(&reply).unwrap();
        let octal: Vec<_> = frame.iter().map(|it| format!("\\{it:03o}")).collect();
        let script = format!("printf '{}'; exec sleep 60", octal.concat());
        let place = place.path().join(case.to_string());
        let pool = start(&place, limits(LONG), (), &script).await;
        assert!(matches!(pool, Err(PoolError::Broken(_))), "{reply:?}");
    }
    for end in ["exit 0", "kill -s KILL $$", "exec cat"] {
        let place = place.path().join(end.replace(' ', "-"));
        let pool = start(&place, limits(LONG), (), end).await;
        assert!(matches!(pool, Err(PoolError::Broken(_))), "{end}");
    }
    let nothing = WorkerPool::start("/no/such/program".into(), limits(LONG), ()).await;
    assert!(matches!(nothing, Err(PoolError::Spawn(_))), "{nothing:?}");
}

/// What is only looked at is no evaluation, and neither is a job whose caller has gone.
#[tokio::test]
async fn every_evaluation_is_told_with_its_outcome() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let script = "printf \"$yes$yes$no$yes\"; exec sleep 60";
    let told = Told::default();
    let at = place.path().join("worker");
    let pool = start(&at, limits(LONG), told.clone(), script).await;
    let pool = pool.unwrap();
    assert_eq!((told.started(), told.evaluated()), (1, Vec::new()));
    let long = "x".repeat(1025);
    let too_long = RegoJob {
        module: &long,
        ..job()
    };
    assert_eq!(pool.evaluate(job()).await, Ok(says("passed")));
    assert_eq!(pool.clone().evaluate(job()).await, Ok(says("rejected")));
    let refused = exceeds("the module is longer than 1024 bytes");
    assert_eq!(pool.evaluate(too_long).await, Ok(refused.clone()));
    // A state in place of what was asked for.
    let odd = pool.validate("package approval").await;
    assert!(matches!(odd, Ok(Err(RegoFailure::Failed(_)))), "{odd:?}");
    let outcomes: Vec<_> = told.evaluated().into_iter().map(|(it, _)| it).collect();
    assert_eq!(outcomes, [says("passed"), says("rejected"), refused]);
    assert_eq!(told.started(), 1);
    assert_eq!(
        pool.0.lock().iter().map(|it| it.jobs).collect::<Vec<_>>(),
        [4]
    );
}

/// The module of an earlier job may have taken a used worker over.
#[tokio::test]
async fn a_program_comes_from_a_worker_that_did_nothing_before() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let at = place.path().join("worker");
    let script = "echo $$ >> \"$here/processes\"; printf \"$yes$yes$yes\"; exec sleep 60";
    let told = Told::default();
    let pool = start(&at, limits(LONG), told.clone(), script).await;
    let pool = pool.unwrap();
    for (wants_program, started, jobs) in [
        (false, 1, 2),
        (true, 2, 1),
        (false, 2, 2),
        (true, 3, 1),
        (true, 4, 1),
    ] {
        let said = if wants_program {
            pool.evaluate_and_compile(job()).await.map(|it| it.0)
        } else {
            pool.evaluate(job()).await
        };
        assert_eq!(said, Ok(says("passed")));
        assert_eq!(told.started(), started);
        let idle: Vec<_> = pool.0.lock().iter().map(|it| it.jobs).collect();
        assert_eq!(idle, [jobs]);
    }
    // The new ones are in place of the others.
    for ended in processes(&at).iter().take(3) {
        until(|| is_gone(ended)).await;
    }
}

#[tokio::test]
async fn only_a_reply_with_a_program_is_longer_than_answers_are() {
    let _alone = SCRIPTS.lock().await;
    let place = tempfile::tempdir().unwrap();
    let output = json!({"state": {"text": "passed"}, "message": null});
    let program = json!({"rules": [], "default": output});
    let program: NativeProgram = serde_json::from_value(program).unwrap();
    let state = || "passed".to_owned();
    let message = |length: usize| Some("x".repeat(length));
    let answer = |length| Reply::Answer {
        state: state(),
        message: message(length),
    };
    let compiled = |length| Reply::Compiled {
        state: state(),
        message: message(length),
        program: program.clone(),
    };
    // The limit is 1024.
    for (case, (reply, wants_program, fits)) in [
        (answer(900), true, true),
        (answer(1024), true, false),
        (answer(1024), false, false),
        (compiled(1024), true, true),
        (compiled(1024), false, false),
        (Reply::Failed("x".repeat(1024)), true, false),
    ]
    .into_iter()
    .enumerate()
    {
        let frame = frame::encode(&reply).unwrap();
        let octal: Vec<_> = frame.iter().map(|it| format!("\\{it:03o}")).collect();
        // The worker of the start replies to its first job, and any to one more.
        let script = format!(
            "if [ ! -e \"$here/used\" ]; then : > \"$here/used\"; printf \"$yes\"; fi; printf '{}'; exec sleep 60",
            octal.concat()
        );
        let place = place.path().join(case.to_string());
        let pool = pool(&place, LONG, &script).await;
        let (said, program) = if wants_program {
            pool.evaluate_and_compile(job()).await.unwrap()
        } else {
            (pool.evaluate(job()).await.unwrap(), None)
        };
        let is_compiled = matches!(reply, Reply::Compiled { .. });
        assert_eq!(program.is_some(), fits && is_compiled, "{case}");
        if fits {
            assert!(said.is_ok(), "{case}: {said:?}");
        } else {
            assert_eq!(said, exceeds("the answer is too long, or none"), "{case}");
        }
    }
}
