//! What has to be looked at, each thing once and by one worker at a time.
//!
//! What may have to be taken back goes first. Something that comes up again while it is looked at is
//! looked at once more afterwards; something that failed, or was fought over, after a pause.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use service_kit::retry::Backoff;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The pauses before something that failed is tried again by itself.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(2));
/// What failed or was fought over, and comes up again, waits no longer than this.
const SOON: Duration = Duration::from_millis(500);

/// What took too long rests for longer than it took, so that it has less than half of a worker.
const SHORTEST_SLEEP: Duration = Duration::from_secs(6);

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Something may have to be taken back.
    Urgent,
    /// Everything else.
    Normal,
}

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// All is as it should be.
    Well,
    /// What somebody else had done was undone. Two who undo each other's work would do so without end.
    Restored,
    /// It is tried again.
    Failed,
    /// It is tried again, and took so long that it would soon take all of a worker's time. Unless something may have to
    /// be taken back, it rests for the whole pause, however often it comes up.
    Late,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<J> {
    /// What.
    pub job: J,
    /// When it came up.
    pub since: Instant,
}

/// When something is due, and how many came before it.
type Place = (Instant, u64);

#[derive(Debug)]
struct Entry {
    /// Where it stands in line; none when it does not.
    place: Option<(Urgency, Place, Instant)>,
    is_running: bool,
    /// How it goes in line when it was looked at.
    again: Option<(Urgency, Instant)>,
    pauses: Backoff,
    /// Not before this, however often it comes up.
    rests_until: Option<Instant>,
    /// Nor before this, unless it is urgent.
    sleeps_until: Option<Instant>,
}

#[derive(Debug)]
struct State<J> {
    is_open: bool,
    lines: [BTreeMap<Place, J>; 2],
    entries: HashMap<J, Entry>,
    count: u64,
}

/// The queue. Shared by reference.
#[derive(Debug)]
pub struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Notify,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                is_open: false,
                lines: [BTreeMap::new(), BTreeMap::new()],
                entries: HashMap::new(),
                count: 0,
            }),
            changed: Notify::new(),
        }
    }
}

impl<J: Clone + Eq + Hash> Queue<J> {
    /// Has something looked at.
    pub fn wake(&self, job: J, urgency: Urgency) {
        let now = Instant::now();
        self.state().wake(job, urgency, now, now);
        self.changed.notify_waiters();
    }

    /// Lets workers take things out.
    pub fn open(&self) {
        self.state().is_open = true;
        self.changed.notify_waiters();
    }

    /// Lets nobody take anything and forgets what waits. What is being looked at goes on.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_open = false;
        state.lines = [BTreeMap::new(), BTreeMap::new()];
        state.entries.retain(|_, entry| entry.is_running);
        for entry in state.entries.values_mut() {
            entry.again = None;
        }
    }

    /// How many things wait or are looked at.
    #[must_use]
    pub fn depth(&self) -> usize {
        let state = self.state();
        let busy = |it: &&Entry| it.is_running || it.place.is_some();
        state.entries.values().filter(busy).count()
    }

    /// The next thing that is due. It has to be given back with [`Queue::done`].
    pub async fn take(&self) -> Taken<J> {
        loop {
            // Armed before the look, so that nothing that comes up in between is missed.
            let changed = self.changed.notified();
            let due = match self.state().take(Instant::now()) {
                Ok(taken) => return taken,
                Err(due) => due,
            };
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// Something was looked at.
    pub fn done(&self, job: &J, done: Done) {
        self.state().done(job, done, Instant::now());
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        // Nothing in here panics while it is held; a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Clone + Eq + Hash> State<J> {
    fn wake(&mut self, job: J, urgency: Urgency, since: Instant, now: Instant) {
        let entry = self.entries.entry(job.clone()).or_insert(Entry {
            place: None,
            is_running: false,
            again: None,
            pauses: PAUSES,
            rests_until: None,
            sleeps_until: None,
        });
        if entry.is_running {
            let (urgency, since) = match entry.again {
                Some((other, earlier)) => (urgency.min(other), since.min(earlier)),
                None => (urgency, since),
            };
            entry.again = Some((urgency, since));
            return;
        }
        let sleeps = entry.sleeps_until.filter(|_| urgency == Urgency::Normal);
        let due = now.max(entry.rests_until.max(sleeps).unwrap_or(now));
        self.place(job, urgency, due, since);
    }

    /// Puts it in line, or further to the front of it.
    fn place(&mut self, job: J, urgency: Urgency, due: Instant, since: Instant) {
        self.count += 1;
        let mut place = (urgency, (due, self.count), since);
        let Some(entry) = self.entries.get_mut(&job) else {
            return;
        };
        if let Some(before) = entry.place {
            let (due, since) = (before.1.min(place.1), before.2.min(since));
            place = (urgency.min(before.0), due, since);
            self.lines[before.0 as usize].remove(&before.1);
        }
        entry.place = Some(place);
        self.lines[place.0 as usize].insert(place.1, job);
    }

    /// What is due, or when something will be.
    fn take(&mut self, now: Instant) -> Result<Taken<J>, Option<Instant>> {
        if !self.is_open {
            return Err(None);
        }
        let mut next: Option<Instant> = None;
        for line in &mut self.lines {
            let Some(first) = line.first_entry() else {
                continue;
            };
            let due = first.key().0;
            if due > now {
                next = Some(next.map_or(due, |it| it.min(due)));
                continue;
            }
            let job = first.remove();
            let mut since = now;
            if let Some(entry) = self.entries.get_mut(&job) {
                if let Some((_, _, came)) = entry.place.take() {
                    since = came;
                }
                entry.is_running = true;
            }
            return Ok(Taken { job, since });
        }
        Err(next)
    }

    fn done(&mut self, job: &J, done: Done, now: Instant) {
        let is_open = self.is_open;
        let Some(entry) = self.entries.get_mut(job) else {
            return;
        };
        entry.is_running = false;
        let again = entry.again.take();
        let mut by_itself = None;
        entry.sleeps_until = None;
        match done {
            Done::Well => {
                entry.pauses = PAUSES;
                entry.rests_until = None;
            }
            Done::Restored => {
                entry.pauses = PAUSES;
                entry.rests_until = Some(now + SOON);
            }
            Done::Failed => {
                let pause = entry.pauses.pause();
                entry.rests_until = Some(now + pause.min(SOON));
                by_itself = Some(now + pause);
            }
            Done::Late => {
                let pause = entry.pauses.pause().max(SHORTEST_SLEEP);
                entry.rests_until = Some(now + SOON);
                entry.sleeps_until = Some(now + pause);
                by_itself = Some(now + pause);
            }
        }
        if !is_open {
            self.entries.remove(job);
            return;
        }
        if let Some(due) = by_itself {
            self.place(job.clone(), Urgency::Urgent, due, now);
        }
        if let Some((urgency, since)) = again {
            self.wake(job.clone(), urgency, since, now);
        }
        let is_idle = |it: &Entry| it.place.is_none() && it.rests_until.is_none();
        if self.entries.get(job).is_some_and(is_idle) {
            self.entries.remove(job);
        }
    }
}

#[cfg(test)]
mod tests;
