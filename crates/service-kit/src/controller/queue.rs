//! The queue of a controller: each job waits once, and one worker at a time looks at it.
//!
//! A job is urgent if its look may have to take something back. Each urgency has a line of its own, in which tenants
//! take turns, and no tenant holds more than its share of the workers. A job that failed, or that another process undoes
//! each time, waits for a pause.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    fair::{FairLine, TenantShares},
    retry::Backoff,
};

/// The pauses before a failed job is tried again.
const RETRIES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(2));
/// A look that took too long is repeated after this at the earliest, so that it has less than half of a worker.
const SHORTEST_REST: Duration = Duration::from_secs(6);
/// A job without changes for so long starts to count anew.
const CALM: Duration = Duration::from_mins(1);
/// With so many jobs that were changed lately, those that are calm again are forgotten.
const REMEMBERED: usize = 4096;

/// How urgent a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Its look may have to take something back.
    Urgent,
    /// Every other job.
    Normal,
}

impl Urgency {
    /// The more urgent one first.
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Normal];
}

/// The namespaces that cause a job. No more workers than their shares look at their jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenants {
    /// The namespace of the policies that are judged.
    pub owner: String,
    /// The namespace of the pod that asks.
    pub asker: String,
}

impl Tenants {
    /// A job that one namespace causes alone.
    #[must_use]
    pub fn one(namespace: &str) -> Self {
        Self {
            owner: namespace.to_owned(),
            asker: namespace.to_owned(),
        }
    }
}

/// How many workers may look at jobs of one namespace at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// By urgency: each has workers of its own.
    Each([usize; 2]),
    /// At jobs of any urgency.
    Together(usize),
}

/// How long jobs wait that failed, or that are undone each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// A job that comes up again waits no longer than this, by urgency.
    pub again: [Duration; 2],
    /// An urgent job that failed is tried again by itself within this time.
    pub urgent_retry: Duration,
    /// A failed job is tried again with this urgency; none: with that of its look.
    pub retry_as: Option<Urgency>,
    /// A job that was changed more often, without a calm minute in between, is undone by another process.
    pub changes: u32,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Nothing is left to do.
    Done,
    /// Something is left to do.
    Failed,
    /// Something is left to do, but nothing is in force that should not be.
    FailedSafely,
    /// The look took so long that repeating it soon would take all of a worker's time. Unless the job is urgent, it waits
    /// for the whole pause, however often it comes up.
    Late,
}

/// A job for one worker. The worker gives it back with [`Queue::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<J> {
    /// The job.
    pub job: J,
    /// When it came up.
    pub since: Instant,
}

/// When a job is due, and a number that makes each timer unique.
type Timer = (Instant, u64);
type TenantsOf<J> = Box<dyn Fn(&J) -> Tenants + Send + Sync>;

/// The queue. Shared by reference.
pub struct Queue<J> {
    pauses: Pauses,
    /// Called while nothing is locked here: it may look into caches.
    tenants_of: TenantsOf<J>,
    state: Mutex<State<J>>,
    changed: Notify,
}

struct State<J> {
    open: [bool; 2],
    /// By urgency. A job whose urgency changed stays in the other line as well, until its turn there.
    lines: [FairLine<Tenants, J>; 2],
    shares: Shares,
    /// The workers that look at jobs of a namespace, in either of its roles.
    owners: [TenantShares<String>; 2],
    askers: [TenantShares<String>; 2],
    /// What stands in line, and since when.
    waiting: HashMap<J, (Urgency, Instant)>,
    running: HashMap<J, Running>,
    timers: BTreeMap<Timer, (J, Urgency)>,
    /// By urgency: an urgent job must not wait for a free worker of the other line.
    timer_of: HashMap<J, [Option<Timer>; 2]>,
    failures: HashMap<J, Failure>,
    changes: HashMap<J, Changes>,
    next: u64,
}

/// A job that a worker looks at.
struct Running {
    urgency: Urgency,
    tenants: Tenants,
    /// How it goes in line again if it came up meanwhile.
    again: Option<(Urgency, Instant)>,
}

/// How often looks changed something.
struct Changes {
    count: u32,
    last: Instant,
}

/// A job that failed the last time. That it comes up again is no reason to hurry: two processes that undo each other's
/// work would do so without end.
struct Failure {
    retries: Backoff,
    last: Instant,
    /// When it is tried again by itself.
    retry: Instant,
    /// Whether it waits until then, unless it is urgent.
    is_late: bool,
    /// Since when it has come up again and waits.
    since: Option<Instant>,
}

impl Failure {
    fn soonest(&self, urgency: Urgency, pauses: &Pauses) -> Instant {
        if self.is_late && urgency == Urgency::Normal {
            return self.retry;
        }
        self.retry.min(self.last + pauses.again[urgency as usize])
    }
}

impl<J> fmt::Debug for Queue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<J: Clone + Eq + Hash> Queue<J> {
    /// A closed queue whose tenants share the workers.
    pub fn shared(
        shares: Shares,
        pauses: Pauses,
        tenants_of: impl Fn(&J) -> Tenants + Send + Sync + 'static,
    ) -> Self {
        let most = match shares {
            Shares::Each(most) => most,
            Shares::Together(most) => [most; 2],
        };
        Self {
            pauses,
            tenants_of: Box::new(tenants_of),
            state: Mutex::new(State {
                open: [false; 2],
                lines: [FairLine::default(), FairLine::default()],
                shares,
                owners: most.map(TenantShares::of),
                askers: most.map(TenantShares::of),
                waiting: HashMap::new(),
                running: HashMap::new(),
                timers: BTreeMap::new(),
                timer_of: HashMap::new(),
                failures: HashMap::new(),
                changes: HashMap::new(),
                next: 0,
            }),
            changed: Notify::new(),
        }
    }

    /// Has a job looked at. A job that waits already becomes more urgent at most.
    pub fn wake(&self, job: J, urgency: Urgency) {
        let tenants = (self.tenants_of)(&job);
        let now = Instant::now();
        self.state()
            .wake(job, tenants, (urgency, now), &self.pauses);
        self.changed.notify_waiters();
    }

    /// Has a job looked at after some time, unless it comes up sooner.
    pub fn wake_after(&self, job: J, urgency: Urgency, pause: Duration) {
        self.state().set_timer(job, urgency, Instant::now() + pause);
        self.changed.notify_waiters();
    }

    /// Lets workers take jobs of this urgency.
    pub fn open(&self, urgency: Urgency) {
        self.state().open[urgency as usize] = true;
        self.changed.notify_waiters();
    }

    /// Closes the queue and forgets what waits. Looks that run go on.
    pub fn close(&self) {
        let mut state = self.state();
        state.open = [false; 2];
        state.lines = [FairLine::default(), FairLine::default()];
        state.waiting.clear();
        state.timers.clear();
        state.timer_of.clear();
        state.failures.clear();
        state.changes.clear();
        for running in state.running.values_mut() {
            running.again = None;
        }
    }

    /// Whether no job of this urgency stands in line or is looked at.
    #[must_use]
    pub fn is_drained(&self, urgency: Urgency) -> bool {
        let state = self.state();
        let waits = state.waiting.values().any(|(it, _)| *it == urgency);
        let runs = state.running.values().any(|it| it.urgency == urgency);
        !waits && !runs
    }

    /// How many jobs wait, in line or for their time, or are looked at.
    #[must_use]
    pub fn depth(&self) -> usize {
        let state = self.state();
        let is_new =
            |job: &&J| !state.waiting.contains_key(*job) && !state.running.contains_key(*job);
        state.waiting.len() + state.running.len() + state.timer_of.keys().filter(is_new).count()
    }

    /// The next job, of the first of these urgencies that has one. It has to be given back with [`Queue::done`].
    pub async fn take(&self, urgencies: &[Urgency]) -> Taken<J> {
        loop {
            // Created before the look, so that no change in between is missed.
            let changed = self.changed.notified();
            for (job, urgency) in self.due() {
                self.wake(job, urgency);
            }
            let due = {
                let mut state = self.state();
                if let Some(taken) = urgencies.iter().find_map(|it| state.take(*it)) {
                    return taken;
                }
                state.timers.keys().next().map(|(due, _)| *due)
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

    /// A worker has looked at a job.
    pub fn done(&self, job: &J, looked: Looked) {
        // They may have changed since the job was taken.
        let tenants = (self.tenants_of)(job);
        self.state().done(job, tenants, looked, &self.pauses);
        self.changed.notify_waiters();
    }

    /// A look has changed something. If that does not end, later looks wait: another process undoes each change, for
    /// example one that believes to lead as well.
    pub fn changed(&self, job: &J) {
        let mut state = self.state();
        let now = Instant::now();
        let is_calm = |it: &Changes| now >= it.last + CALM;
        if state.changes.len() >= REMEMBERED {
            state.changes.retain(|_, it| !is_calm(it));
        }
        let changes = state.changes.entry(job.clone());
        let changes = changes.or_insert(Changes {
            count: 0,
            last: now,
        });
        if is_calm(changes) {
            changes.count = 0;
        }
        changes.count = changes.count.saturating_add(1);
        changes.last = now;
    }

    /// Takes out the jobs whose time has come.
    fn due(&self) -> Vec<(J, Urgency)> {
        let mut state = self.state();
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(entry) = state.timers.first_entry()
            && entry.key().0 <= now
        {
            let (job, urgency) = entry.remove();
            if let Some(timers) = state.timer_of.get_mut(&job) {
                timers[urgency as usize] = None;
                if timers.iter().all(Option::is_none) {
                    state.timer_of.remove(&job);
                }
            }
            due.push((job, urgency));
        }
        due
    }

    /// The entries of each map, for tests that they are bounded. A new field has to be counted, or named as none. The
    /// last one are jobs that were changed lately; they are forgotten when there are many.
    #[must_use]
    pub fn census(&self) -> Vec<usize> {
        let state = self.state();
        let State {
            open: _,
            lines,
            shares: _,
            owners,
            askers,
            waiting,
            running,
            timers,
            timer_of,
            failures,
            changes,
            next: _,
        } = &*state;
        let shares = owners.iter().chain(askers).map(TenantShares::tenants);
        vec![
            lines.iter().filter(|it| !it.is_empty()).count(),
            shares.sum(),
            waiting.len(),
            running.len(),
            timers.len(),
            timer_of.len(),
            failures.len(),
            changes.len(),
        ]
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        // No code panics while it holds the lock, so a poisoned state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Clone + Eq + Hash> State<J> {
    fn wake(&mut self, job: J, tenants: Tenants, up: (Urgency, Instant), pauses: &Pauses) {
        let (urgency, mut since) = up;
        if let Some(running) = self.running.get_mut(&job) {
            let again = running.again.map_or(up, |(other, earlier)| {
                (urgency.min(other), since.min(earlier))
            });
            running.again = Some(again);
            return;
        }
        let now = Instant::now();
        let failed = self.failures.get_mut(&job).map(|failure| {
            since = since.min(*failure.since.get_or_insert(since));
            failure.soonest(urgency, pauses)
        });
        let changes = self.changes.get(&job);
        let undone = changes
            .filter(|it| it.count > pauses.changes)
            .map(|it| it.last + pauses.again[urgency as usize]);
        let soonest = failed.max(undone).unwrap_or(now);
        if now < soonest && !self.waiting.contains_key(&job) {
            self.set_timer(job, urgency, soonest);
            return;
        }
        if let Some(failure) = self.failures.get_mut(&job) {
            failure.since = None;
        }
        match self.waiting.get_mut(&job) {
            Some((waits, _)) if *waits <= urgency => return,
            Some((waits, _)) => *waits = urgency,
            None => {
                self.waiting.insert(job.clone(), (urgency, since));
            }
        }
        self.lines[urgency as usize].push(tenants, job);
    }

    fn take(&mut self, urgency: Urgency) -> Option<Taken<J>> {
        if !self.open[urgency as usize] {
            return None;
        }
        let share = self.share_of(urgency);
        loop {
            let (owners, askers) = (&self.owners[share], &self.askers[share]);
            let may = |it: &Tenants| owners.has_room(&it.owner) && askers.has_room(&it.asker);
            let (tenants, job) = self.lines[urgency as usize].pop(may)?;
            let waits = self.waiting.get(&job).copied();
            // It may have become more urgent.
            let Some((_, since)) = waits.filter(|(it, _)| *it == urgency) else {
                continue;
            };
            self.waiting.remove(&job);
            self.drop_timers(&job);
            self.owners[share].take(tenants.owner.clone());
            self.askers[share].take(tenants.asker.clone());
            let running = Running {
                urgency,
                tenants,
                again: None,
            };
            self.running.insert(job.clone(), running);
            return Some(Taken { job, since });
        }
    }

    fn done(&mut self, job: &J, tenants: Tenants, looked: Looked, pauses: &Pauses) {
        let Some(running) = self.running.remove(job) else {
            return;
        };
        let urgency = running.urgency;
        let share = self.share_of(urgency);
        self.owners[share].give_back(&running.tenants.owner);
        self.askers[share].give_back(&running.tenants.asker);
        if looked == Looked::Done {
            self.failures.remove(job);
        } else if self.open[urgency as usize] {
            let retry = self.failed(job, looked, urgency, pauses);
            let retry_as = pauses.retry_as.unwrap_or(urgency);
            self.set_timer(job.clone(), retry_as, retry);
        }
        if let Some(again) = running.again {
            self.wake(job.clone(), tenants, again, pauses);
        }
    }

    /// When a failed job is tried again by itself.
    fn failed(&mut self, job: &J, looked: Looked, urgency: Urgency, pauses: &Pauses) -> Instant {
        let now = Instant::now();
        let failure = self.failures.entry(job.clone()).or_insert(Failure {
            retries: RETRIES,
            last: now,
            retry: now,
            is_late: false,
            since: None,
        });
        failure.is_late = looked == Looked::Late;
        let pause = failure.retries.pause();
        let pause = if failure.is_late {
            pause.max(SHORTEST_REST)
        } else {
            pause
        };
        failure.last = now;
        failure.retry = now + pause;
        match (urgency, looked) {
            (Urgency::Urgent, Looked::Failed) => now + pause.min(pauses.urgent_retry),
            _ => failure.retry,
        }
    }

    const fn share_of(&self, urgency: Urgency) -> usize {
        match self.shares {
            Shares::Each(_) => urgency as usize,
            Shares::Together(_) => 0,
        }
    }

    /// The soonest of several times counts, and a job that becomes urgent keeps its sooner time. A normal time replaces
    /// no urgent one: it may be sooner, and its line may be longer.
    fn set_timer(&mut self, job: J, urgency: Urgency, at: Instant) {
        let timers = self.timer_of.get(&job).copied().unwrap_or_default();
        let sooner =
            |urgency: Urgency| timers[urgency as usize].filter(|(sooner, _)| *sooner <= at);
        if sooner(Urgency::Urgent).or(sooner(urgency)).is_some() {
            return;
        }
        let at = sooner(Urgency::Normal).map_or(at, |(sooner, _)| sooner);
        match urgency {
            Urgency::Urgent => self.drop_timers(&job),
            Urgency::Normal => {
                if let Some(later) = timers[urgency as usize] {
                    self.timers.remove(&later);
                }
            }
        }
        self.next += 1;
        let timer = (at, self.next);
        self.timer_of.entry(job.clone()).or_default()[urgency as usize] = Some(timer);
        self.timers.insert(timer, (job, urgency));
    }

    fn drop_timers(&mut self, job: &J) {
        for timer in self.timer_of.remove(job).into_iter().flatten().flatten() {
            self.timers.remove(&timer);
        }
    }
}
