//! Reads that callers share: one read answers all callers that wait for it.
//!
//! Owns: which callers share a read, and when the next read begins. Refuses to know: the content of a read.
//!
//! Invariant: no caller gets a read that began before its moment. A read ends with its last caller, and nothing is kept
//! after it. The failure of a read, a panic included, fails only the callers that waited for it.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};
use tracing::error;

use crate::retry::CallError;

/// A read waits for the end of the read before it, so that more callers share it, but only until that one is as old as
/// this: the other reads of its callers grow old meanwhile.
const HEAD_START: Duration = Duration::from_millis(100);
/// The reads of one subject that are on their way at most. Each may hold a whole list.
const AT_ONCE: usize = 8;

/// A moment in the order of this process. No two moments are equal, unlike times of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadMoment(u64);

impl ReadMoment {
    /// The present moment.
    #[must_use]
    pub fn now() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::SeqCst))
    }
}

/// The result of a read, for each of its callers.
pub type SharedResult<V> = Result<Arc<V>, Arc<CallError>>;

type SharedRead<V> = Shared<BoxFuture<'static, SharedResult<V>>>;

/// Reads of subjects `K`. A read is about a part `M` of its subject for each of its callers; clones share their reads.
pub struct SharedReads<K, M, V> {
    lines: Lines<K, M, V>,
}

type Lines<K, M, V> = Arc<Mutex<HashMap<K, Line<M, V>>>>;

/// The reads of one subject.
struct Line<M, V> {
    /// The calls that wait.
    callers: usize,
    /// The read that has not begun.
    next: Option<NextRead<M, V>>,
    /// The read that began last.
    last: Option<BegunRead<M, V>>,
    /// The end of that read, for the next one.
    ahead: Option<ReadAhead>,
    /// For reads on their way.
    places: Arc<Semaphore>,
}

struct NextRead<M, V> {
    parts: BTreeSet<M>,
    read: SharedRead<V>,
}

struct BegunRead<M, V> {
    began: ReadMoment,
    parts: BTreeSet<M>,
    read: SharedRead<V>,
}

/// The read before another one.
struct ReadAhead {
    began: Instant,
    /// It is closed when the read ends, however it ends.
    end: oneshot::Receiver<()>,
}

impl<M, V> Default for Line<M, V> {
    fn default() -> Self {
        Self {
            callers: 0,
            next: None,
            last: None,
            ahead: None,
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl<K, M, V> Clone for SharedReads<K, M, V> {
    fn clone(&self) -> Self {
        Self {
            lines: Arc::clone(&self.lines),
        }
    }
}

impl<K, M, V> Default for SharedReads<K, M, V> {
    fn default() -> Self {
        Self {
            lines: Lines::default(),
        }
    }
}

impl<K, M, V> fmt::Debug for SharedReads<K, M, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReads").finish_non_exhaustive()
    }
}

impl<K, M, V> SharedReads<K, M, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    M: Clone + Ord + Send + 'static,
    V: Send + Sync + 'static,
{
    /// The result of a read that began after the moment and is about this part of the subject. The read is begun with the
    /// function of its first caller.
    pub async fn read<F>(
        &self,
        subject: K,
        part: M,
        after: ReadMoment,
        read: impl FnOnce(BTreeSet<M>) -> F + Send + 'static,
    ) -> SharedResult<V>
    where
        F: Future<Output = Result<V, CallError>> + Send + 'static,
    {
        let (shared, _caller) = self.join(subject, part, after, read);
        shared.await
    }

    fn join<F>(
        &self,
        subject: K,
        part: M,
        after: ReadMoment,
        read: impl FnOnce(BTreeSet<M>) -> F + Send + 'static,
    ) -> (SharedRead<V>, ReadCaller<K, M, V>)
    where
        F: Future<Output = Result<V, CallError>> + Send + 'static,
    {
        let caller = ReadCaller {
            lines: Arc::clone(&self.lines),
            subject: subject.clone(),
        };
        let mut lines = lock(&self.lines);
        let line = lines.entry(subject.clone()).or_default();
        line.callers += 1;
        let last = line.last.as_ref();
        let last = last.filter(|it| it.began > after && it.parts.contains(&part));
        if let Some(last) = last.filter(|it| !matches!(it.read.peek(), Some(Err(_)))) {
            return (last.read.clone(), caller);
        }
        if let Some(next) = &mut line.next {
            next.parts.insert(part);
            return (next.read.clone(), caller);
        }
        let (ahead, places) = (line.ahead.take(), Arc::clone(&line.places));
        let lines_of_read = Arc::clone(&self.lines);
        let read = async move {
            if let Some(ahead) = ahead {
                let _ = timeout_at(ahead.began + HEAD_START, ahead.end).await;
            }
            // The places are never closed.
            let _place = places.acquire_owned().await;
            let (_ended, end) = oneshot::channel();
            let parts = begin(&lines_of_read, &subject, end);
            read(parts).await
        };
        // A panic would end only the caller that polls the read, and wake no other one.
        let read = AssertUnwindSafe(read).catch_unwind().map(|result| {
            let result = result.unwrap_or_else(|_| {
                error!("a shared read panicked");
                Err(CallError::Panicked)
            });
            result.map(Arc::new).map_err(Arc::new)
        });
        let read = read.boxed().shared();
        line.next = Some(NextRead {
            parts: BTreeSet::from([part]),
            read: read.clone(),
        });
        (read, caller)
    }

    /// How many subjects callers wait for.
    #[must_use]
    pub fn subjects(&self) -> usize {
        lock(&self.lines).len()
    }
}

/// The next read of a subject begins: no later caller adds a part to it.
fn begin<K: Eq + Hash, M: Clone + Ord, V>(
    lines: &Lines<K, M, V>,
    subject: &K,
    end: oneshot::Receiver<()>,
) -> BTreeSet<M> {
    let mut lines = lock(lines);
    // A caller that waits for it keeps its line.
    let Some(line) = lines.get_mut(subject) else {
        return BTreeSet::new();
    };
    let Some(NextRead { parts, read }) = line.next.take() else {
        return BTreeSet::new();
    };
    line.ahead = Some(ReadAhead {
        began: Instant::now(),
        end,
    });
    let before = line.last.replace(BegunRead {
        began: ReadMoment::now(),
        parts: parts.clone(),
        read,
    });
    drop(lines);
    // Outside of the lock: it may be the last holder of what was read.
    drop(before);
    parts
}

fn lock<K, M, V>(lines: &Lines<K, M, V>) -> MutexGuard<'_, HashMap<K, Line<M, V>>> {
    // No code panics while it holds the lock.
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that waits.
struct ReadCaller<K: Eq + Hash, M, V> {
    lines: Lines<K, M, V>,
    subject: K,
}

impl<K: Eq + Hash, M, V> Drop for ReadCaller<K, M, V> {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        let Some(line) = lines.get_mut(&self.subject) else {
            return;
        };
        line.callers = line.callers.saturating_sub(1);
        let left = if line.callers == 0 {
            lines.remove(&self.subject)
        } else {
            None
        };
        drop(lines);
        // Outside of the lock: a read that is on its way ends here.
        drop(left);
    }
}

#[cfg(test)]
mod tests;
