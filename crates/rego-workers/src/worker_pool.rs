//! The worker processes that run Rego. The pool limits their number, assigns the jobs, and kills and replaces a
//! worker that takes too long. The caller sets the number and the time.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connectors_api::judge::{RegoAnswer, RegoFailure, RegoJob};
use connectors_api::rego::NativeProgram;
use rustix::process::Signal;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use super::frame::{self, HEAD, JobOut, Reply, Sound};
use super::worker::ARGUMENT;

/// The settings of a worker's allocator, if that is jemalloc. A worker has one thread, and may start no further one. Its limit
/// counts address space, so the allocator gives back what it does not use. An idle worker does so with its next job.
pub const WORKER_ALLOCATOR: (&str, &str) = (
    "_RJEM_MALLOC_CONF",
    "background_thread:false,narenas:1,retain:false,dirty_decay_ms:1000,muzzy_decay_ms:0",
);
/// The number of jobs of a worker before it is replaced, so that nothing accumulates in it.
const JOBS_PER_WORKER: usize = 1000;
/// The number of jobs that may wait for a worker. More would not be answered in time anyway.
const MOST_WAITING: usize = 256;
/// The longest wait for a worker. Four whole jobs may precede a job, and the first of them may be tried twice.
const LONGEST_WAIT: Duration = Duration::from_secs(7);
/// A worker that watches its time itself need not be killed.
const GRACE: Duration = Duration::from_millis(200);
/// The time in which a worker that closed its pipes must end.
const DYING: Duration = Duration::from_secs(1);
/// The bytes of a reply around its program.
const AROUND_A_PROGRAM: usize = 64;
/// The time for the very first job. The program may have to be read from a disk.
const FIRST_JOB: Duration = Duration::from_secs(20);

/// A module's answer about an object, or why there is none.
pub type ModuleOutcome = Result<RegoAnswer, RegoFailure>;

/// Why there is no reply to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// No worker was free to look at it. This says nothing about the module.
    Busy(String),
    /// The module exceeded a limit.
    Limit(String),
}

impl From<NoReply> for RegoFailure {
    fn from(no_reply: NoReply) -> Self {
        match no_reply {
            NoReply::Busy(why) | NoReply::Limit(why) => Self::Limit(why),
        }
    }
}

/// The limits of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// The number of workers.
    pub workers: usize,
    /// Wall time for one job.
    pub time: Duration,
    /// Address space of a worker, in bytes.
    pub memory: u64,
    /// The longest reply, in bytes.
    pub output: usize,
    /// The longest module, in bytes.
    pub module: usize,
}

/// No worker can be started, or it does not work.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The program cannot be started.
    #[error("cannot start a worker for Rego")]
    Spawn(#[source] io::Error),
    /// The worker does not work as it should.
    #[error("a worker for Rego does not work under the given limits: {0:?}")]
    Broken(RegoFailure),
}

/// The observer of a pool's work.
pub trait PoolWatcher: fmt::Debug + Send + Sync {
    /// A worker process was started.
    fn started(&self);

    /// A module was evaluated. The time includes the wait for a worker.
    fn evaluated(&self, outcome: &ModuleOutcome, time: Duration);
}

/// The observer that ignores everything.
impl PoolWatcher for () {
    fn started(&self) {}

    fn evaluated(&self, _: &ModuleOutcome, _: Duration) {}
}

/// Workers, started as they are needed. Clones share them.
#[derive(Clone, Debug)]
pub struct WorkerPool(Arc<PoolState>);

#[derive(Debug)]
struct PoolState {
    program: PathBuf,
    limits: ModuleLimits,
    places: Semaphore,
    idle: Mutex<Vec<PoolWorker>>,
    waiting: AtomicUsize,
    watcher: Box<dyn PoolWatcher>,
}

/// A job for a worker.
struct FrameOfJob {
    bytes: Vec<u8>,
    /// The longest reply to it, without a program.
    output: usize,
    wants_program: bool,
}

impl FrameOfJob {
    /// The longest reply of any kind.
    fn most(&self) -> usize {
        let program = if self.wants_program {
            NativeProgram::LONGEST + AROUND_A_PROGRAM
        } else {
            0
        };
        self.output + program
    }

    /// Whether a reply of this length is one to the job.
    fn fits(&self, reply: &Reply, length: usize) -> bool {
        length <= self.output || (self.wants_program && matches!(reply, Reply::Compiled { .. }))
    }
}

#[derive(Debug)]
struct PoolWorker {
    /// It is killed when it is dropped, for any reason.
    process: Child,
    input: ChildStdin,
    /// One read gets the length and the content of a reply.
    output: BufReader<ChildStdout>,
    jobs: usize,
}

/// Why a worker cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Broken {
    /// It had no memory or no stack left.
    #[error("used too much memory")]
    Memory,
    /// It did not end for the service, so the kernel ended it.
    #[error("used too much processor time")]
    ProcessorTime,
    /// Another process or the kernel killed it. The kernel does so when the container has no memory left.
    #[error("ended the process that evaluated it")]
    Killed,
    /// It was killed when its time was over.
    #[error("took longer than {0:?}")]
    Time(Duration),
    /// Its output is too long, or is no reply.
    #[error("the answer is too long, or none")]
    Answer,
}

impl From<Broken> for NoReply {
    fn from(broken: Broken) -> Self {
        match broken {
            // Another process may have caused it, also before the job.
            Broken::Killed => busy(broken.to_string()),
            Broken::Memory | Broken::ProcessorTime | Broken::Time(_) | Broken::Answer => {
                limit(broken.to_string())
            }
        }
    }
}

/// Counts a job while it waits.
struct WaitingJob<'a>(&'a AtomicUsize);

impl Drop for WaitingJob<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "testing"))]
impl WorkerPool {
    /// A pool in which no job ever gets a worker.
    #[must_use]
    pub fn without_workers() -> Self {
        Self(Arc::new(PoolState {
            program: PathBuf::new(),
            limits: ModuleLimits {
                workers: 1,
                time: Duration::ZERO,
                memory: 0,
                output: 0,
                module: 1024,
            },
            places: Semaphore::new(0),
            idle: Mutex::default(),
            waiting: AtomicUsize::new(0),
            watcher: Box::new(()),
        }))
    }

    /// The number of jobs that wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }
}

impl WorkerPool {
    /// Starts one worker and gives it a job. A process whose workers fail should not start.
    pub async fn start(
        program: PathBuf,
        limits: ModuleLimits,
        watcher: impl PoolWatcher + 'static,
    ) -> Result<Self, PoolError> {
        let inner = PoolState {
            places: Semaphore::new(limits.workers),
            idle: Mutex::new(Vec::new()),
            waiting: AtomicUsize::new(0),
            program,
            limits,
            watcher: Box::new(watcher),
        };
        let worker = inner.spawn().map_err(PoolError::Spawn)?;
        let job = RegoJob {
            module: "package approval\noutput := {\"state\": \"passed\"}",
            input: &Value::Null,
            context: &Value::Null,
        };
        let frame = frame::encode(&JobOut::from(job)).unwrap_or_default();
        let frame = FrameOfJob {
            bytes: frame,
            output: inner.limits.output,
            wants_program: false,
        };
        let reply = inner.work(worker, &frame, FIRST_JOB).await;
        let reply = reply.map_err(NoReply::from);
        let outcome = reply
            .map_err(RegoFailure::from)
            .and_then(ModuleOutcome::from);
        match outcome {
            Ok(_) => Ok(Self(Arc::new(inner))),
            Err(failure) => Err(PoolError::Broken(failure)),
        }
    }

    /// A module's answer, or why there is none. An error when no worker could look at it. When this future is
    /// dropped, the worker is killed.
    pub async fn evaluate(&self, job: RegoJob<'_>) -> Result<ModuleOutcome, NoReply> {
        Ok(self.ask(job.into()).await?.0)
    }

    /// The same, and the module's program if it has one. Only an answer comes with a program. The worker is a new one.
    pub async fn evaluate_and_compile(
        &self,
        job: RegoJob<'_>,
    ) -> Result<(ModuleOutcome, Option<NativeProgram>), NoReply> {
        self.ask(JobOut::from(job).with_program()).await
    }

    async fn ask(
        &self,
        job: JobOut<'_>,
    ) -> Result<(ModuleOutcome, Option<NativeProgram>), NoReply> {
        let started = Instant::now();
        let reply = self.0.reply(job).await;
        let busy = reply
            .as_ref()
            .err()
            .filter(|it| matches!(it, NoReply::Busy(_)));
        let busy = busy.cloned();
        let (outcome, program) = match reply.map(Reply::take_program) {
            Ok((reply, program)) => (reply.into(), program),
            Err(no_reply) => (Err(no_reply.into()), None),
        };
        self.0.watcher.evaluated(&outcome, started.elapsed());
        busy.map_or(Ok((outcome, program)), Err)
    }

    /// Whether a module could decide at all. It is parsed, and evaluated once on empty objects.
    pub async fn validate(&self, module: &str) -> Result<Result<Sound, RegoFailure>, NoReply> {
        match self.0.reply(JobOut::of_module(module)).await {
            Ok(reply) => Ok(reply.into()),
            Err(NoReply::Limit(why)) => Ok(Err(RegoFailure::Limit(why))),
            Err(busy @ NoReply::Busy(_)) => Err(busy),
        }
    }

    /// The number of jobs that run at the same time.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.0.limits.workers
    }
}

fn limit(why: impl Into<String>) -> NoReply {
    NoReply::Limit(why.into())
}

fn busy(why: impl Into<String>) -> NoReply {
    NoReply::Busy(why.into())
}

impl PoolState {
    async fn reply(&self, job: JobOut<'_>) -> Result<Reply, NoReply> {
        let most = self.limits.module;
        if job.module.len() > most {
            return Err(limit(format!("the module is longer than {most} bytes")));
        }
        let _place = {
            let before = self.waiting.fetch_add(1, Ordering::Relaxed);
            let _waiting = WaitingJob(&self.waiting);
            if before >= MOST_WAITING {
                return Err(busy("too many evaluations are waiting"));
            }
            let deadline = Instant::now() + LONGEST_WAIT;
            let place = timeout_at(deadline, self.places.acquire()).await;
            let taken = || busy(format!("no worker was free within {LONGEST_WAIT:?}"));
            // The semaphore is never closed.
            place.map_err(|_| taken())?.map_err(|_| taken())?
        };
        // Encoded only once it has its place, because objects are large.
        let frame = frame::encode(&job).ok_or_else(|| limit("the objects are too large"))?;
        let frame = FrameOfJob {
            bytes: frame,
            output: self.limits.output,
            wants_program: job.wants_program,
        };
        let idle = self.lock().pop();
        let time = self.limits.time + GRACE;
        // A program outlives its job. So the module of another tenant must not have been in its worker: it may have
        // taken the worker over. The idle one ends, because there are no more workers than places.
        let used = idle.filter(|_| !frame.wants_program);
        if let Some(used) = used {
            // The remains of other jobs in a worker decide nothing.
            match self.work(used, &frame, time).await {
                Err(Broken::Memory | Broken::Killed) => {}
                done => return Ok(done?),
            }
        }
        let new = self.spawn().map_err(|error| {
            warn!(%error, "cannot start a worker for Rego");
            busy("no worker could be started")
        })?;
        Ok(self.work(new, &frame, time).await?)
    }

    /// Runs one job. A worker that failed at it is not used again.
    async fn work(
        &self,
        mut worker: PoolWorker,
        frame: &FrameOfJob,
        time: Duration,
    ) -> Result<Reply, Broken> {
        let reply = timeout(time, worker.ask(frame)).await;
        let reply = match reply.map_err(|_| Broken::Time(self.limits.time))? {
            Ok(reply) => reply,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(Broken::Answer),
            Err(_) => return Err(worker.end().await),
        };
        worker.jobs += 1;
        if worker.jobs < JOBS_PER_WORKER {
            self.lock().push(worker);
        }
        Ok(reply)
    }

    fn spawn(&self) -> io::Result<PoolWorker> {
        let limits = &self.limits;
        let mut process = Command::new(&self.program)
            .arg(ARGUMENT)
            .arg(limits.time.as_millis().to_string())
            .arg(limits.memory.to_string())
            .env_clear()
            .env(WORKER_ALLOCATOR.0, WORKER_ALLOCATOR.1)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        self.watcher.started();
        Ok(PoolWorker {
            process,
            input,
            output: BufReader::new(output),
            jobs: 0,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PoolWorker>> {
        // Each change puts in or takes out a whole worker.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolWorker {
    /// How a worker ended that closed its pipes. A process aborts when it has no memory left, or when its stack
    /// overflows.
    async fn end(mut self) -> Broken {
        let status = timeout(DYING, self.process.wait()).await;
        let status = status.ok().and_then(Result::ok);
        let signal = status.and_then(|status| status.signal());
        match signal.and_then(Signal::from_named_raw) {
            Some(Signal::ABORT | Signal::SEGV | Signal::BUS) => Broken::Memory,
            Some(Signal::XCPU) => Broken::ProcessorTime,
            _ => Broken::Killed,
        }
    }

    async fn ask(&mut self, frame: &FrameOfJob) -> io::Result<Reply> {
        self.input.write_all(&frame.bytes).await?;
        self.input.flush().await?;
        let mut head = [0; HEAD];
        self.output.read_exact(&mut head).await?;
        let length = frame::length(head).filter(|length| *length <= frame.most());
        let length = length.ok_or(io::ErrorKind::InvalidData)?;
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).await?;
        let reply = serde_json::from_slice(&content).ok();
        let reply = reply.filter(|reply| frame.fits(reply, length));
        reply.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::pin::pin;

    use connectors_api::check_state::ObjectState;
    use futures::poll;

    use super::*;

    mod waiting;
    mod workers;

    /// Held by a test with scripts: one that is still open in another thread's new process cannot be started.
    static SCRIPTS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    /// A pool of two workers. Each is a shell script, in which `$yes` and `$no` are replies.
    async fn pool(place: &Path, time: Duration, script: &str) -> WorkerPool {
        start(place, limits(time), (), script).await.unwrap()
    }

    fn limits(time: Duration) -> ModuleLimits {
        ModuleLimits {
            workers: 2,
            time,
            memory: 1 << 30,
            output: 1024,
            module: 1024,
        }
    }

    /// The same with other limits, and with a watcher.
    async fn start(
        place: &Path,
        limits: ModuleLimits,
        watcher: impl PoolWatcher + 'static,
        script: &str,
    ) -> Result<WorkerPool, PoolError> {
        fs::create_dir(place).unwrap();
        let program = place.join("worker");
        let reply = |state: &str| {
            let reply = Reply::Answer {
                state: state.to_owned(),
                message: None,
            };
            let frame = frame::encode(&reply).unwrap();
            let octal = frame.iter().map(|it| format!("\\{it:03o}"));
            octal.collect::<Vec<_>>().concat()
        };
        let text = format!(
            "#!/bin/sh\nulimit -c 0\nhere=${{0%/*}}\nyes='{}'\nno='{}'\n{script}\n",
            reply("passed"),
            reply("rejected")
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        WorkerPool::start(program, limits, watcher).await
    }

    #[tokio::test]
    async fn a_late_worker_is_replaced_and_its_successor_gets_no_more_time() {
        let _alone = SCRIPTS.lock().await;
        let place = tempfile::tempdir().unwrap();
        let time = Duration::from_millis(400);
        // The second reply comes when its job is over.
        let late = "printf \"$yes\"; sleep 2; printf \"$no\"; exec sleep 60";
        let late = pool(&place.path().join("late"), time, late).await;
        let outcome = late.evaluate(job()).await.unwrap();
        let told = outcome.unwrap_err();
        assert!(
            matches!(&told, RegoFailure::Limit(why) if why.contains("longer than")),
            "{told:?}"
        );
        let outcome = late.evaluate(job()).await.unwrap();
        assert_eq!(
            outcome.unwrap().state,
            ObjectState::from_word("passed").unwrap()
        );
        // The first worker ends after one job, and later ones never reply.
        let silent = "if [ -e \"$here/used\" ]; then exec sleep 60; fi; : > \"$here/used\"; printf \"$yes\"; exec sleep 0.1";
        let silent = pool(&place.path().join("silent"), time, silent).await;
        let began = Instant::now();
        let outcome = silent.evaluate(job()).await.unwrap();
        assert!(matches!(outcome, Err(RegoFailure::Limit(_))), "{outcome:?}");
        assert!(began.elapsed() < FIRST_JOB / 2);
    }

    #[tokio::test]
    async fn the_end_of_a_worker_says_whether_its_module_caused_it() {
        let _alone = SCRIPTS.lock().await;
        let place = tempfile::tempdir().unwrap();
        let caused = |why: &str| Ok(Err(RegoFailure::Limit(why.to_owned())));
        let memory = || caused("used too much memory");
        let killed = || Err(busy("ended the process that evaluated it"));
        let none = || caused("the answer is too long, or none");
        for (case, (end, expected)) in [
            ("kill -s ABRT $$", memory()),
            ("kill -s SEGV $$", memory()),
            ("kill -s BUS $$", memory()),
            ("kill -s XCPU $$", caused("used too much processor time")),
            ("kill -s KILL $$", killed()),
            ("exit 1", killed()),
            // No reply, and one of a byte more than the limit.
            ("printf '\\000\\000\\000\\002no'; exec sleep 60", none()),
            ("printf '\\000\\000\\004\\001'; exec sleep 60", none()),
        ]
        .into_iter()
        .enumerate()
        {
            // The first worker replies to its first job alone, and later ones never do. It reads a byte of the
            // job, which is written at once: otherwise it may end before that.
            let script = format!(
                "if [ ! -e \"$here/used\" ]; then : > \"$here/used\"; head -c 1 > /dev/null; printf \"$yes\"; fi; {end}"
            );
            let place = place.path().join(case.to_string());
            let pool = pool(&place, Duration::from_secs(10), &script).await;
            assert_eq!(pool.evaluate(job()).await, expected, "{end}");
        }
    }

    #[tokio::test]
    async fn a_worker_is_replaced_after_its_last_job() {
        let _alone = SCRIPTS.lock().await;
        let place = tempfile::tempdir().unwrap();
        let replies = "printf \"$yes$yes$yes\"; exec sleep 60";
        let place = place.path().join("worker");
        let pool = pool(&place, Duration::from_secs(10), replies).await;
        assert_eq!(pool.workers(), 2);
        let jobs = || pool.0.lock().iter().map(|it| it.jobs).collect::<Vec<_>>();
        assert_eq!(jobs(), [1]);
        let nearly_all = |it: &mut PoolWorker| it.jobs = JOBS_PER_WORKER - 2;
        pool.0.lock().iter_mut().for_each(nearly_all);
        for idle in [vec![JOBS_PER_WORKER - 1], vec![], vec![1]] {
            assert!(pool.evaluate(job()).await.unwrap().is_ok());
            assert_eq!(jobs(), idle);
        }
    }

    #[tokio::test]
    async fn a_worker_may_reply_a_little_after_the_time_of_its_job() {
        let _alone = SCRIPTS.lock().await;
        let place = tempfile::tempdir().unwrap();
        let replies = "printf \"$yes$yes\"; exec sleep 60";
        let pool = pool(&place.path().join("worker"), Duration::ZERO, replies).await;
        let outcome = pool.evaluate(job()).await.unwrap();
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    /// Until a job has its reply or its caller has gone: each further process would take the memory of one more.
    #[tokio::test]
    async fn no_more_jobs_run_at_a_time_than_there_are_workers() {
        let _alone = SCRIPTS.lock().await;
        let place = tempfile::tempdir().unwrap();
        let place = place.path().join("worker");
        // The first worker replies to its first job. All other replies come when the test says so.
        let waits = "if [ ! -e \"$here/used\" ]; then : > \"$here/used\"; printf \"$yes\"; fi\n\
            while [ ! -e \"$here/go\" ]; do sleep 0.01; done; printf \"$no$no$no$no\"; exec sleep 60";
        let pool = pool(&place, Duration::from_secs(10), waits).await;
        let mut jobs: Vec<_> = (0..6).map(|_| Box::pin(pool.evaluate(job()))).collect();
        for job in &mut jobs {
            assert!(poll!(job).is_pending());
        }
        assert_eq!(pool.waiting(), 4);
        assert_eq!(pool.0.lock().len(), 0);
        // The caller of a running job goes away, and its worker with it.
        drop(jobs.remove(0));
        assert_eq!(pool.0.lock().len(), 0);
        for job in &mut jobs {
            assert!(poll!(job).is_pending());
        }
        assert_eq!(pool.waiting(), 3);
        fs::write(place.join("go"), "").unwrap();
        for outcome in futures::future::join_all(jobs).await {
            let state = outcome.unwrap().unwrap().state;
            assert_eq!(state, ObjectState::from_word("rejected").unwrap());
        }
        assert_eq!((pool.waiting(), pool.0.lock().len()), (0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_module_of_more_bytes_than_the_limit_waits_for_no_worker() {
        let pool = WorkerPool::without_workers();
        let limit = RegoFailure::Limit("the module is longer than 1024 bytes".to_owned());
        for (length, fits) in [(1024, true), (1025, false), (4096, false)] {
            let module = "x".repeat(length);
            let said = pool.validate(&module).await;
            if fits {
                assert!(matches!(said, Err(NoReply::Busy(_))), "{said:?}");
            } else {
                assert_eq!(said, Ok(Err(limit.clone())), "{length}");
            }
        }
    }

    fn job() -> RegoJob<'static> {
        RegoJob {
            module: "package approval",
            input: &Value::Null,
            context: &Value::Null,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_waiting_for_a_worker_is_not_counted_any_more() {
        let pool = WorkerPool::without_workers();
        for _ in 0..2 * MOST_WAITING {
            let mut asks = pin!(pool.evaluate(job()));
            assert!(poll!(&mut asks).is_pending());
            assert_eq!(pool.waiting(), 1);
        }
        assert_eq!(pool.waiting(), 0);
        // Jobs that wait until it is too late are not counted either. No more jobs wait than may.
        let asks = futures::future::join_all((0..=MOST_WAITING).map(|_| pool.evaluate(job())));
        let answers = asks.await;
        assert!(answers.iter().all(|it| matches!(it, Err(NoReply::Busy(_)))));
        assert_eq!(pool.waiting(), 0);
    }
}
