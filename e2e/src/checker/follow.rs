//! Follows the log file of a running API server.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{Report, Settings, now, observer::Observer};

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_millis(20);
/// How long an answered call may take to appear in the log. An API server is never silent for as long: its own
/// components ask it something all the time.
const LAG: Duration = Duration::from_secs(3);

/// Why the log could not be followed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the audit log {file}", file = file.display())]
pub struct CheckerError {
    file: PathBuf,
    #[source]
    source: io::Error,
}

/// An observer that follows a log file from the moment it is started.
#[derive(Debug)]
pub struct Checker {
    observer: Arc<Mutex<Observer>>,
    stop: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<Result<Timestamp, CheckerError>>>,
}

impl Checker {
    /// Begins to follow: the existing content of the file is ignored.
    pub fn follow(log: &Path, settings: Settings) -> Result<Self, CheckerError> {
        let tail = Tail::at_end(log).map_err(error(log))?;
        let observer = Arc::new(Mutex::new(Observer::new(settings)));
        let stop = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let (observer, stop) = (Arc::clone(&observer), Arc::clone(&stop));
            move || run(tail, &observer, &stop)
        });
        Ok(Self {
            observer,
            stop,
            reader: Some(reader),
        })
    }

    /// Judges a whole file as it is.
    pub fn read(log: &Path, settings: Settings) -> Result<Report, CheckerError> {
        let mut observer = Observer::new(settings);
        let mut tail = Tail::at_start(log).map_err(error(log))?;
        let mut last = Timestamp::MIN;
        for line in tail.more().map_err(error(log))? {
            last = observer.line(&line).map_or(last, |done| last.max(done));
        }
        Ok(observer.finish(last))
    }

    /// Declares that a pod ended: the log does not show its phase. An empty UID means any pod of that name.
    pub fn pod_ended(&self, namespace: &str, pod: &str, uid: &str, at: Timestamp) {
        locked(&self.observer).pod_ended(namespace, pod, uid, at);
    }

    /// Declares that the approvals behind a policy's grant to a pod do not hold any more.
    pub fn approval_ended(&self, namespace: &str, pod: &str, policy: &str, at: Timestamp) {
        locked(&self.observer).approval_ended(namespace, pod, policy, at);
    }

    /// Declares a time in which no controller could work.
    pub fn outage(&self, from: Timestamp, to: Timestamp) {
        locked(&self.observer).outage(from, to);
    }

    /// Reads all answered calls until now, and judges everything.
    pub fn finish(mut self) -> Result<Report, CheckerError> {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.reader.take().map(thread::JoinHandle::join);
        let mut observer = std::mem::take(&mut *locked(&self.observer));
        let end = if let Some(Ok(end)) = ended {
            end?
        } else {
            observer.lost("was not read to its end");
            now()
        };
        Ok(observer.finish(end))
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Reads until it is told to stop and everything from before that is there; gives the time of that.
fn run(
    mut tail: Tail,
    observer: &Mutex<Observer>,
    stop: &AtomicBool,
) -> Result<Timestamp, CheckerError> {
    let mut stopping: Option<(Timestamp, Instant)> = None;
    let mut last = None;
    loop {
        if stop.load(Ordering::SeqCst) && stopping.is_none() {
            stopping = Some((now(), Instant::now()));
        }
        let lines = tail.more().map_err(error(&tail.path))?;
        let mut observer = locked(observer);
        for line in &lines {
            last = last.max(observer.line(line));
        }
        if let Some((end, since)) = stopping {
            // A later call shows that all earlier ones have been written.
            if last.is_some_and(|last| last > end) {
                return Ok(end);
            }
            if since.elapsed() > LAG {
                observer.lost("does not reach the end of the observation");
                return Ok(end);
            }
        }
        drop(observer);
        thread::sleep(PAUSE);
    }
}

fn locked(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(file: &Path) -> impl FnOnce(io::Error) -> CheckerError {
    let file = file.to_path_buf();
    move |source| CheckerError { file, source }
}

/// A growing file, by its whole lines. A file that took its place is read after it.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    file: File,
    unfinished: Vec<u8>,
    /// The line that was being written when we came.
    skip: bool,
}

impl Tail {
    fn at_start(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            file: File::open(path)?,
            unfinished: Vec::new(),
            skip: false,
        })
    }

    fn at_end(path: &Path) -> io::Result<Self> {
        let mut tail = Self::at_start(path)?;
        if tail.file.seek(SeekFrom::End(0))? > 0 {
            tail.file.seek(SeekFrom::Current(-1))?;
            let mut last = [0];
            tail.file.read_exact(&mut last)?;
            tail.skip = last != *b"\n";
        }
        Ok(tail)
    }

    /// The lines that were finished since.
    fn more(&mut self) -> io::Result<Vec<String>> {
        let mut lines = self.rest()?;
        let successor = match std::fs::metadata(&self.path) {
            Ok(found) if found.ino() != self.file.metadata()?.ino() => {
                Some(File::open(&self.path)?)
            }
            Ok(_) => None,
            // Between the old file's move and the new one's creation.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(file) = successor {
            lines.extend(self.rest()?);
            self.file = file;
            lines.extend(self.rest()?);
        }
        Ok(lines)
    }

    fn rest(&mut self) -> io::Result<Vec<String>> {
        self.file.read_to_end(&mut self.unfinished)?;
        let Some(end) = self.unfinished.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let after = self.unfinished.split_off(end + 1);
        let whole = std::mem::replace(&mut self.unfinished, after);
        let text = String::from_utf8_lossy(&whole);
        let begun_before = usize::from(std::mem::take(&mut self.skip));
        Ok(text.lines().skip(begun_before).map(str::to_owned).collect())
    }
}
