//! The recorder as a test has it: a thread of its own, and its records.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::{
    runtime::Builder,
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::interval,
};

use crate::{
    call::{Answer, Call, Finding, Method},
    proxy,
    socket::{Identity, Place},
    view::{Target, View},
};

/// How often is looked whether the driver has put a new socket in place.
const PAUSE: Duration = Duration::from_millis(5);

/// The test's question, asked when content is delivered: was access allowed? The error says why not.
pub type AskAccess = Arc<dyn Fn(&Call) -> Result<(), String> + Send + Sync>;

/// The inspections beside the calls.
#[derive(Clone, Default)]
pub struct Eyes {
    /// The node's mounts; without them calls are only written down.
    pub view: Option<View>,
    /// Whether access is allowed; without it that is not asked.
    pub access: Option<AskAccess>,
}

impl fmt::Debug for Eyes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = self.access.is_some();
        f.debug_struct("Eyes")
            .field("view", &self.view)
            .field("access", &access)
            .finish()
    }
}

/// Why nothing could be recorded.
#[derive(Debug, thiserror::Error)]
#[error("cannot stand in front of {socket}", socket = socket.display())]
pub struct RecorderError {
    socket: PathBuf,
    #[source]
    source: io::Error,
}

/// Stands in front of a driver's socket until it is dropped.
///
/// Calls that are under way then are cut off; the kubelet takes that for an answer that is not final.
#[derive(Debug)]
pub struct Recorder {
    log: Arc<Log>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Recorder {
    /// Takes the place of a driver's socket, now or as soon as there is one.
    pub fn interpose(socket: &Path, eyes: Eyes) -> Result<Self, RecorderError> {
        let failed = |source| RecorderError {
            socket: socket.to_path_buf(),
            source,
        };
        let place = Place::of(socket);
        place.repair().map_err(failed)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let log = Arc::new(Log {
            eyes,
            calls: Mutex::default(),
            taken: AtomicUsize::new(0),
            failures: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                runtime.block_on(stand(place, &log, stopped));
                // Questions of the test may still be under way.
                runtime.shutdown_background();
            }
        });
        Ok(Self {
            log,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The calls so far, in the order in which they began.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        locked(&self.log.calls).clone()
    }

    /// The calls that publish volumes of a pod.
    #[must_use]
    pub fn publishes_of(&self, namespace: &str, pod: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| {
            call.method == Method::Publish
                && call.pod_namespace == namespace
                && call.pod_name == pod
        });
        calls
    }

    /// How often the place was taken: once for each start of the driver.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.log.taken.load(Ordering::SeqCst)
    }

    /// The failures of taking the driver's place.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        locked(&self.log.failures).clone()
    }

    /// Fails when a call broke its promise, or when no call that ended was looked at.
    ///
    /// # Panics
    /// Then; the message tells every finding.
    #[allow(clippy::panic, reason = "the failure of the test that asks")]
    pub fn assert_kept(&self) {
        assert!(self.failures().is_empty(), "{:?}", self.failures());
        let calls = self.calls();
        let found: Vec<String> = calls.iter().flat_map(found).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        let judged = calls
            .iter()
            .filter(|call| call.answer.is_some() && call.after.is_some());
        assert!(judged.count() > 0, "there was no call to judge");
    }
}

fn found(call: &Call) -> Vec<String> {
    let about = format!(
        "{:?} of {} ({}/{})",
        call.method, call.volume_id, call.pod_namespace, call.pod_name
    );
    call.findings
        .iter()
        .map(|finding| format!("{about} at {}: {finding}", call.started))
        .collect()
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic was shown when it happened.
            let _ = thread.join();
        }
    }
}

/// Takes the place again and again until it is told to go.
async fn stand(place: Place, log: &Arc<Log>, mut stopped: oneshot::Receiver<()>) {
    let mut ours: Option<(Identity, JoinHandle<()>)> = None;
    let mut ticks = interval(PAUSE);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            _ = ticks.tick() => {}
        }
        match place.take(ours.as_ref().map(|(identity, _)| *identity)) {
            Ok(None) => {}
            Ok(Some((listener, identity))) => {
                let (driver, to) = (place.driver.clone(), Arc::clone(log));
                let task = tokio::spawn(async move {
                    let error = proxy::serve(listener, driver, Arc::clone(&to)).await;
                    to.failed(&error);
                });
                // The old socket has no path any more; its calls under way have tasks of their own.
                if let Some((_, old)) = ours.replace((identity, task)) {
                    old.abort();
                }
                log.taken.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => log.failed(&error),
        }
    }
    if let Some((identity, _)) = ours
        && let Err(error) = place.give_back(identity)
    {
        log.failed(&error);
    }
}

/// The records.
#[derive(Debug)]
pub(crate) struct Log {
    eyes: Eyes,
    calls: Mutex<Vec<Call>>,
    taken: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Log {
    fn failed(&self, error: &io::Error) {
        let mut failures = locked(&self.failures);
        let text = error.to_string();
        // A lasting one comes back every few milliseconds.
        if failures.last() != Some(&text) {
            failures.push(text);
        }
    }

    /// Writes down that a call begins.
    pub(crate) async fn begin(log: Arc<Self>, method: Method, body: Bytes) -> Underway {
        let mut call = Call::begin(method, &body, now());
        let looked = look(&log, &call).await;
        match looked {
            Ok(target) => call.before = target,
            Err(why) => call.findings.push(Finding::Unseen(why)),
        }
        let mut calls = locked(&log.calls);
        calls.push(call);
        let place = calls.len() - 1;
        drop(calls);
        Underway { log, place }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut Call)) {
        if let Some(call) = locked(&self.calls).get_mut(place) {
            change(call);
        }
    }

    fn copy(&self, place: usize) -> Option<Call> {
        locked(&self.calls).get(place).cloned()
    }
}

/// A call that has begun; one that is dropped before its end was given up by the kubelet.
pub(crate) struct Underway {
    log: Arc<Log>,
    place: usize,
}

impl Underway {
    /// Records how the call ended, and inspects the target path.
    pub(crate) async fn end(self, answer: Answer) {
        let Some(mut call) = self.log.copy(self.place) else {
            return;
        };
        call.answer = Some(answer);
        match look(&self.log, &call).await {
            Ok(target) => call.after = target,
            Err(why) => call.findings.push(Finding::Unseen(why)),
        }
        call.findings.extend(call.judge());
        if let Some(ask) = self.log.eyes.access.clone().filter(|_| call.delivers()) {
            let question = call.clone();
            // A panic in the test's question is no yes.
            let asked = spawn_blocking(move || ask(&question)).await;
            let answer = asked.unwrap_or_else(|error| Err(error.to_string()));
            call.findings.extend(answer.err().map(Finding::NotAllowed));
        }
        call.ended = Some(now());
        self.log.change(self.place, |written| *written = call);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.log.change(self.place, |call| {
            if call.ended.is_none() {
                call.ended = Some(now());
                call.answer = Some(Answer::Abandoned);
            }
        });
    }
}

/// Files of another process may take their time.
async fn look(log: &Arc<Log>, call: &Call) -> Result<Option<Target>, String> {
    let Some(view) = log.eyes.view.clone() else {
        return Ok(None);
    };
    let path = call.target_path.clone();
    let looked = spawn_blocking(move || view.target(&path)).await;
    let looked = looked.map_err(|error| error.to_string())?;
    looked.map(Some).map_err(|error| error.to_string())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[allow(
    clippy::disallowed_methods,
    reason = "calls are compared with the API server's log, which has the machine's time"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
