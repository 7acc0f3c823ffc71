//! What has to be looked at, each thing once and by one worker at a time.
//!
//! What may have to be taken back goes first, and has workers that nothing else takes. Namespaces take turns, and none
//! holds more than its share of the workers. Something that comes up again while it is looked at is looked at once more
//! afterwards; something that failed, or was fought over, after a pause.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use service_kit::{
    fair::{FairLine, TenantShares},
    retry::Backoff,
};
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

/// As many entries cost nothing.
const FEW_ENTRIES: usize = 64;

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

/// How many workers may look at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At things of one namespace.
    pub namespace: usize,
    /// At things that are not urgent. The other workers are there for what may have to be taken back.
    pub normal: usize,
}

/// When something is due, and how many came before it.
type Timer = (Instant, u64);

/// Something that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    urgency: Urgency,
    /// When it came up.
    since: Instant,
    /// None when it is due, and stands in line.
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Entry {
    /// None when it does not wait.
    waiting: Option<Waiting>,
    running: Option<Urgency>,
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
    tenant_of: fn(&J) -> &str,
    /// What is due, by urgency.
    lines: [FairLine<String, J>; 2],
    /// What is not due yet.
    timers: BTreeMap<Timer, J>,
    entries: HashMap<J, Entry>,
    /// The workers that look at something of a namespace.
    shares: TenantShares<String>,
    /// How many workers look at something that is not urgent, and how many may.
    normal: usize,
    most_normal: usize,
    count: u64,
    /// With so many entries it is looked for those that only rest, and have rested.
    tidied_at: usize,
}

/// The queue. Shared by reference.
#[derive(Debug)]
pub struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Notify,
}

impl<J: Clone + Eq + Hash> Queue<J> {
    /// A closed queue, whose workers are shared among the namespaces that the function tells.
    pub fn shared(limits: Limits, tenant_of: fn(&J) -> &str) -> Self {
        Self {
            state: Mutex::new(State {
                is_open: false,
                tenant_of,
                lines: [FairLine::default(), FairLine::default()],
                timers: BTreeMap::new(),
                entries: HashMap::new(),
                shares: TenantShares::of(limits.namespace),
                normal: 0,
                most_normal: limits.normal.max(1),
                count: 0,
                tidied_at: FEW_ENTRIES,
            }),
            changed: Notify::new(),
        }
    }

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
        state.lines = [FairLine::default(), FairLine::default()];
        state.timers.clear();
        state.entries.retain(|_, entry| entry.running.is_some());
        for entry in state.entries.values_mut() {
            entry.again = None;
        }
    }

    /// How many things wait or are looked at.
    #[must_use]
    pub fn depth(&self) -> usize {
        let state = self.state();
        let busy = |it: &&Entry| it.running.is_some() || it.waiting.is_some();
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

    /// The entries of each map.
    #[cfg(test)]
    pub(crate) fn census(&self) -> Vec<usize> {
        self.state().census()
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        // Nothing in here panics while it is held; a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Clone + Eq + Hash> State<J> {
    fn wake(&mut self, job: J, urgency: Urgency, since: Instant, now: Instant) {
        let entry = self.entries.entry(job.clone()).or_insert(Entry {
            waiting: None,
            running: None,
            again: None,
            pauses: PAUSES,
            rests_until: None,
            sleeps_until: None,
        });
        if entry.running.is_some() {
            let (urgency, since) = match entry.again {
                Some((other, earlier)) => (urgency.min(other), since.min(earlier)),
                None => (urgency, since),
            };
            entry.again = Some((urgency, since));
            return;
        }
        let sleeps = entry.sleeps_until.filter(|_| urgency == Urgency::Normal);
        let due = entry.rests_until.max(sleeps).filter(|it| *it > now);
        self.place(job, urgency, due, since);
    }

    /// Puts it in line, or further to the front of it. Without a time it is due.
    fn place(&mut self, job: J, urgency: Urgency, due: Option<Instant>, since: Instant) {
        self.count += 1;
        let mut waiting = Waiting {
            urgency,
            since,
            timer: due.map(|due| (due, self.count)),
        };
        let Some(entry) = self.entries.get_mut(&job) else {
            return;
        };
        if let Some(before) = entry.waiting {
            waiting.urgency = urgency.min(before.urgency);
            waiting.since = since.min(before.since);
            // None, which is due, is the least.
            waiting.timer = waiting.timer.min(before.timer);
            if waiting.urgency == before.urgency && waiting.timer == before.timer {
                entry.waiting = Some(waiting);
                return;
            }
            let tenant = (self.tenant_of)(&job);
            match before.timer {
                Some(timer) => drop(self.timers.remove(&timer)),
                None => self.lines[before.urgency as usize].remove(tenant, |it| *it == job),
            }
        }
        entry.waiting = Some(waiting);
        match waiting.timer {
            Some(timer) => drop(self.timers.insert(timer, job)),
            None => self.enter(job, waiting.urgency),
        }
    }

    /// The entries of each map. A new field has to be counted, or to be named as none.
    #[cfg(test)]
    pub(crate) fn census(&self) -> Vec<usize> {
        let Self {
            is_open: _,
            tenant_of: _,
            lines,
            timers,
            entries,
            shares,
            normal,
            most_normal: _,
            count: _,
            tidied_at: _,
        } = self;
        let in_line = lines.iter().filter(|it| !it.is_empty()).count();
        let waiting = entries.values().filter(|it| it.waiting.is_some());
        vec![
            in_line,
            timers.len(),
            waiting.count(),
            entries.len(),
            shares.tenants(),
            *normal,
        ]
    }

    fn enter(&mut self, job: J, urgency: Urgency) {
        let tenant = (self.tenant_of)(&job).to_owned();
        self.lines[urgency as usize].push(tenant, job);
    }

    /// What is due, or when something will be.
    fn take(&mut self, now: Instant) -> Result<Taken<J>, Option<Instant>> {
        if !self.is_open {
            return Err(None);
        }
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            let job = first.remove();
            let entry = self.entries.get_mut(&job);
            if let Some(waiting) = entry.and_then(|it| it.waiting.as_mut()) {
                waiting.timer = None;
                let urgency = waiting.urgency;
                self.enter(job, urgency);
            }
        }
        for urgency in [Urgency::Urgent, Urgency::Normal] {
            if urgency == Urgency::Normal && self.normal >= self.most_normal {
                continue;
            }
            let may = |tenant: &String| self.shares.has_room(tenant);
            let Some((tenant, job)) = self.lines[urgency as usize].pop(may) else {
                continue;
            };
            self.shares.take(tenant);
            self.normal += usize::from(urgency == Urgency::Normal);
            let mut since = now;
            if let Some(entry) = self.entries.get_mut(&job) {
                since = entry.waiting.take().map_or(now, |it| it.since);
                entry.running = Some(urgency);
            }
            return Ok(Taken { job, since });
        }
        Err(self.timers.keys().next().map(|(due, _)| *due))
    }

    fn done(&mut self, job: &J, done: Done, now: Instant) {
        let is_open = self.is_open;
        let Some(entry) = self.entries.get_mut(job) else {
            return;
        };
        if let Some(urgency) = entry.running.take() {
            self.shares.give_back((self.tenant_of)(job));
            self.normal -= usize::from(urgency == Urgency::Normal);
        }
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
            self.place(job.clone(), Urgency::Urgent, Some(due), now);
        }
        if let Some((urgency, since)) = again {
            self.wake(job.clone(), urgency, since, now);
        }
        let is_idle = |it: &Entry| it.waiting.is_none() && it.rests_until.is_none();
        if self.entries.get(job).is_some_and(is_idle) {
            self.entries.remove(job);
        }
        if self.entries.len() > self.tidied_at {
            self.tidy(now);
        }
    }

    /// Forgets what has rested and never came up again: its policy may be gone.
    fn tidy(&mut self, now: Instant) {
        self.entries.retain(|_, entry| {
            let rests = entry.rests_until.is_some_and(|until| now < until);
            entry.waiting.is_some() || entry.running.is_some() || rests
        });
        self.tidied_at = FEW_ENTRIES.max(2 * self.entries.len());
    }
}

#[cfg(test)]
mod tests;
