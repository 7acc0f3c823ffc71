//! Announces changes to the streams that they may concern, so that all others sleep on.
//!
//! A stream marks the keys of its questions before it looks at the world for an answer. Many keys share a mark. So a
//! stream may hear of a change that does not concern it, and never misses one that does.
//!
//! Invariant: a change that the world shows only after a stream marked one of its keys is heard by that stream. The
//! lock of the world orders the two: the change is announced after the world has it.

use std::collections::HashMap;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evaluation_api::access::AccessQuestion;
use tokio::sync::Notify;

use super::{KeysOfQuestion, QuestionKeys, WorldChange};

/// Changes that a stream may be behind. A stream that is further behind checks everything.
const MOST_UNHEARD: usize = 1024;

/// Words of marks, 2 KiB for each stream. The questions of a node set a small part. Marks stay until the stream ends,
/// which it does after minutes.
const WORDS: usize = 256;

/// The streams, and the marks by which changes find them.
#[derive(Debug)]
pub(super) struct Announcements {
    keys: QuestionKeys,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: HashMap<u64, Arc<StreamInbox>>,
}

/// The changes that a stream has not yet heard.
#[derive(Debug)]
struct StreamInbox {
    marks: Arc<ChangeMarks>,
    unheard: Mutex<Vec<WorldChange>>,
    wake: Notify,
}

/// The keys of the questions that a stream ever had.
#[derive(Debug)]
pub struct ChangeMarks {
    keys: QuestionKeys,
    words: [AtomicU64; WORDS],
}

/// The side of a stream that hears changes, until this is dropped.
#[derive(Debug)]
pub struct ChangeReceiver {
    all: Arc<Announcements>,
    number: u64,
    inbox: Arc<StreamInbox>,
}

impl Announcements {
    pub(super) fn new(keys: QuestionKeys) -> Self {
        Self {
            keys,
            streams: Mutex::default(),
        }
    }

    /// Adds a stream. It hears only of what it marks.
    pub(super) fn listen(self: &Arc<Self>) -> ChangeReceiver {
        let inbox = Arc::new(StreamInbox {
            marks: Arc::new(ChangeMarks::new(self.keys.clone())),
            unheard: Mutex::default(),
            wake: Notify::new(),
        });
        let mut streams = lock(&self.streams);
        let number = streams.next;
        streams.next += 1;
        streams.open.insert(number, Arc::clone(&inbox));
        ChangeReceiver {
            all: Arc::clone(self),
            number,
            inbox,
        }
    }

    /// Tells each stream the change that may concern it.
    pub(super) fn announce(&self, change: &WorldChange) {
        let of_namespace;
        let keys = match change {
            WorldChange::Keys(keys) => Some(&**keys),
            WorldChange::Namespace(namespace) => {
                of_namespace = [self.keys.of_namespace(namespace)];
                Some(of_namespace.as_slice())
            }
            WorldChange::Everything => None,
        };
        for inbox in lock(&self.streams).open.values() {
            if keys.is_none_or(|keys| inbox.marks.has_any(keys)) {
                inbox.put(change.clone());
            }
        }
    }
}

impl StreamInbox {
    fn put(&self, change: WorldChange) {
        let mut unheard = lock(&self.unheard);
        if unheard.len() >= MOST_UNHEARD {
            *unheard = vec![WorldChange::Everything];
        } else {
            unheard.push(change);
        }
        drop(unheard);
        self.wake.notify_one();
    }
}

impl ChangeMarks {
    pub(crate) fn new(keys: QuestionKeys) -> Self {
        Self {
            keys,
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// Marks a question for as long as the stream lives. Returns its keys.
    pub(crate) fn mark(&self, question: &AccessQuestion) -> KeysOfQuestion {
        let keys = self.keys_of(question);
        let namespace = self.keys.of_namespace(&question.connector.namespace);
        for key in keys.iter().chain([namespace]) {
            self.mark_key(key);
        }
        keys
    }

    /// The keys of a question.
    pub(crate) fn keys_of(&self, question: &AccessQuestion) -> KeysOfQuestion {
        self.keys.of_question(question)
    }

    fn mark_key(&self, key: u64) {
        let (word, bit) = self.place(key);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    fn has_any(&self, keys: &[u64]) -> bool {
        keys.iter().any(|key| {
            let (word, bit) = self.place(*key);
            word.load(Ordering::Relaxed) & bit != 0
        })
    }

    /// The word and the bit of a mark.
    fn place(&self, key: u64) -> (&AtomicU64, u64) {
        let [low, high, ..] = key.to_le_bytes();
        let [first, ..] = &self.words;
        let word = self.words.get(usize::from(low)).unwrap_or(first);
        (word, 1 << (high % 64))
    }
}

impl ChangeReceiver {
    /// Hears of every change.
    #[cfg(test)]
    pub(crate) fn of_everything(self) -> Self {
        for word in &self.inbox.marks.words {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        self
    }

    /// The marks of this stream.
    #[must_use]
    pub fn marks(&self) -> Arc<ChangeMarks> {
        Arc::clone(&self.inbox.marks)
    }

    /// The changes since the last time, as soon as there is one. No change is lost when the caller stops waiting.
    pub async fn recv(&self) -> Vec<WorldChange> {
        loop {
            let unheard = self.try_recv();
            if !unheard.is_empty() {
                return unheard;
            }
            self.inbox.wake.notified().await;
        }
    }

    /// The changes since the last time.
    #[must_use]
    pub fn try_recv(&self) -> Vec<WorldChange> {
        take(&mut *lock(&self.inbox.unheard))
    }
}

impl Drop for ChangeReceiver {
    fn drop(&mut self) {
        lock(&self.all.streams).open.remove(&self.number);
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    // Single steps change the contents.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::fixtures::question;

    fn announcements() -> Arc<Announcements> {
        Arc::new(Announcements::new(QuestionKeys::default()))
    }

    fn keys(keys: &[u64]) -> WorldChange {
        WorldChange::Keys(keys.into())
    }

    fn of_tools() -> WorldChange {
        WorldChange::Namespace("tools".to_owned())
    }

    #[test]
    fn a_stream_hears_the_changes_that_concern_its_questions() {
        let all = announcements();
        let stream = all.listen();
        let marked: Vec<u64> = stream.marks().mark(&question()).iter().collect();
        let mut told: Vec<_> = marked.iter().map(|key| keys(&[*key])).collect();
        told.extend([of_tools(), WorldChange::Everything]);
        for change in &told {
            all.announce(change);
        }
        assert_eq!(stream.try_recv(), told);
        assert_eq!(stream.try_recv(), []);
        let all_marks = 2_u64.pow(14);
        let others = (0..all_marks).filter(|key| !stream.marks().has_any(&[*key]));
        let mut count = 0;
        for key in others {
            all.announce(&keys(&[key]));
            count += 1;
        }
        // The three keys and the namespace, some of which may share a mark.
        assert!((all_marks - 4..all_marks).contains(&count), "{count}");
        assert_eq!(stream.try_recv(), []);
    }

    #[test]
    fn one_of_several_keys_is_enough() {
        let all = announcements();
        let stream = all.listen();
        stream.marks().mark_key(7);
        all.announce(&keys(&[5, 6]));
        assert_eq!(stream.try_recv(), []);
        all.announce(&keys(&[5, 6, 7]));
        assert_eq!(stream.try_recv(), [keys(&[5, 6, 7])]);
    }

    #[test]
    fn a_stream_without_questions_hears_of_nothing_but_everything() {
        let all = announcements();
        let stream = all.listen();
        all.announce(&of_tools());
        all.announce(&keys(&[0]));
        assert_eq!(stream.try_recv(), []);
        all.announce(&WorldChange::Everything);
        assert_eq!(stream.try_recv(), [WorldChange::Everything]);
    }

    #[test]
    fn a_stream_that_missed_changes_looks_at_everything() {
        let all = announcements();
        let stream = all.listen();
        stream.marks().mark_key(0);
        for _ in 0..MOST_UNHEARD {
            all.announce(&keys(&[0]));
        }
        assert_eq!(stream.try_recv().len(), MOST_UNHEARD);
        for _ in 0..=MOST_UNHEARD {
            all.announce(&keys(&[0]));
        }
        assert_eq!(stream.try_recv(), [WorldChange::Everything]);
        for _ in 0..MOST_UNHEARD + 2 {
            all.announce(&keys(&[0]));
        }
        assert_eq!(stream.try_recv(), [WorldChange::Everything, keys(&[0])]);
    }

    #[test]
    fn a_stream_that_is_over_leaves_nothing() {
        let all = announcements();
        let (one, two) = (all.listen(), all.listen());
        drop(one);
        all.announce(&WorldChange::Everything);
        assert_eq!(two.try_recv(), [WorldChange::Everything]);
        assert_eq!(lock(&all.streams).open.len(), 1);
        drop(two);
        assert!(lock(&all.streams).open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_wakes_its_stream_whether_it_waits_already_or_not() {
        const NEVER: Duration = Duration::from_mins(1);
        let all = announcements();
        let stream = all.listen().of_everything();
        for _ in 0..2 {
            all.announce(&of_tools());
            assert_eq!(stream.recv().await, [of_tools()]);
            // Another branch of the stream was ready first.
            assert!(timeout(NEVER, stream.recv()).await.is_err());
            let heard = tokio::join!(stream.recv(), async { all.announce(&of_tools()) });
            assert_eq!(heard.0, [of_tools()]);
        }
    }
}
