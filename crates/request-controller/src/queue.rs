//! What has to be looked at, each thing once and by one worker at a time.
//!
//! Two lanes with workers of their own: what may have to be taken back never waits behind what may be
//! granted. In each lane tenants take turns, and none holds more than its share of the workers. Something that comes
//! up again while it is looked at is looked at once more afterwards.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
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

/// The pauses before something that failed is tried again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(2));

/// What is urgent and comes up again after a failure waits no longer than this, however often it failed.
const SOON: Duration = Duration::from_millis(500);
/// The longest pause before it is tried again by itself.
const URGENTLY: Duration = Duration::from_secs(10);
/// Everything else that comes up again waits no longer than this.
const LATER: Duration = Duration::from_secs(5);
/// What was changed more often, never with a calm moment in between, is undone by somebody.
const OFTEN: u32 = 16;
/// How long a calm moment is.
const CALM: Duration = Duration::from_mins(1);
/// So many things may have been changed lately before those that are calm again are forgotten.
const REMEMBERED: usize = 4096;

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Something may have to be taken back.
    Urgent,
    /// Everything else.
    Normal,
}

/// The namespaces that cause a look: the one that asks, and the one whose policies are judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenants {
    /// The namespace of the connector and its policies.
    pub owner: String,
    /// The namespace of the pod.
    pub asker: String,
}

/// When, and a number that no two of them share.
type Timer = (Instant, u64);
type TenantsOf<J> = Box<dyn Fn(&J) -> Tenants + Send + Sync>;

/// The queue. Shared by reference.
pub struct Queue<J> {
    /// Called while nothing is locked here: it may look into caches.
    tenants_of: TenantsOf<J>,
    state: Mutex<State<J>>,
    /// Something can be taken out.
    ready: Notify,
    /// The next timer is another one.
    timer: Notify,
}

#[derive(Debug)]
struct State<J> {
    open: [bool; 2],
    lines: [FairLine<Tenants, J>; 2],
    /// The workers of each lane that look at something of a namespace, in either of its roles.
    owners: [TenantShares<String>; 2],
    askers: [TenantShares<String>; 2],
    /// Where each thing stands in line, and since when. A line may hold stale places.
    waiting: HashMap<J, (Lane, Instant)>,
    running: HashMap<J, Running>,
    timers: BTreeMap<Timer, (J, Lane)>,
    /// The times of each thing, by the lane's place: one that is urgent waits for no place in the other lane.
    timer_of: HashMap<J, [Option<Timer>; 2]>,
    failures: HashMap<J, Failed>,
    changes: HashMap<J, Changed>,
    next: u64,
}

/// What is being looked at.
#[derive(Debug)]
struct Running {
    lane: Lane,
    tenants: Tenants,
    /// Where it goes if it came up again meanwhile.
    again: Option<(Lane, Instant)>,
}

/// Something that a look changed.
#[derive(Debug)]
struct Changed {
    times: u32,
    last: Instant,
}

impl Changed {
    /// When it is looked at again at the soonest, if it is changed suspiciously often.
    fn soonest(&self, lane: Lane) -> Option<Instant> {
        (self.times > OFTEN).then(|| self.last + most(lane))
    }
}

/// How long something that came up waits at most for having come up before.
const fn most(lane: Lane) -> Duration {
    match lane {
        Lane::Urgent => SOON,
        Lane::Normal => LATER,
    }
}

/// Something that failed the last time. That it comes up again is no reason to hurry: two who undo each
/// other's work would do so without end.
#[derive(Debug)]
struct Failed {
    pauses: Backoff,
    last: Instant,
    /// When it is tried again by itself.
    again: Instant,
    /// Since when it has come up again and waits.
    since: Option<Instant>,
}

impl Failed {
    /// When it is tried at the soonest, though it came up again.
    fn soonest(&self, lane: Lane) -> Instant {
        self.again.min(self.last + most(lane))
    }
}

/// What became of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Everything that was to be done is done.
    Done,
    /// Not everything is.
    Failed,
    /// Not everything is, and nothing is in force that should not be.
    FailedSafely,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<J> {
    /// What.
    pub job: J,
    /// When it came up.
    pub since: Instant,
}

const fn index(lane: Lane) -> usize {
    match lane {
        Lane::Urgent => 0,
        Lane::Normal => 1,
    }
}

impl<J> fmt::Debug for Queue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<J: Clone + Eq + Hash> Queue<J> {
    /// A queue in which the tenants of a job share the workers of its lane: at most so many for one namespace, by the
    /// lane's place.
    pub fn shared(
        most: [usize; 2],
        tenants_of: impl Fn(&J) -> Tenants + Send + Sync + 'static,
    ) -> Self {
        Self {
            tenants_of: Box::new(tenants_of),
            state: Mutex::new(State {
                open: [false; 2],
                lines: [FairLine::default(), FairLine::default()],
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
            ready: Notify::new(),
            timer: Notify::new(),
        }
    }

    /// Has something looked at. What waits already is moved to the more urgent lane at most.
    pub fn wake(&self, job: J, lane: Lane) {
        let tenants = (self.tenants_of)(&job);
        self.state().wake(job, tenants, lane, Instant::now());
        self.ready.notify_waiters();
        // What failed a moment ago got a timer instead of a place.
        self.timer.notify_one();
    }

    /// Has something looked at after some time, unless it comes up sooner. One time per thing and lane.
    pub fn wake_after(&self, job: J, lane: Lane, pause: Duration) {
        self.state().set_timer(job, lane, Instant::now() + pause);
        self.timer.notify_one();
    }

    /// Lets workers of a lane take things out.
    pub fn open(&self, lane: Lane) {
        self.state().open[index(lane)] = true;
        self.ready.notify_waiters();
    }

    /// Closes both lanes and forgets everything that waits. What is being looked at goes on.
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

    /// Whether nothing waits or is looked at in a lane.
    #[must_use]
    pub fn is_drained(&self, lane: Lane) -> bool {
        let state = self.state();
        let waits = state.waiting.values().any(|(it, _)| *it == lane);
        let runs = state.running.values().any(|it| it.lane == lane);
        !waits && !runs
    }

    /// How many things wait in a lane.
    #[must_use]
    pub fn depth(&self, lane: Lane) -> usize {
        let state = self.state();
        state.waiting.values().filter(|(it, _)| *it == lane).count()
    }

    /// The next thing of a lane. It has to be given back with [`Queue::done`].
    pub async fn take(&self, lane: Lane) -> Taken<J> {
        loop {
            // Armed before the look, so that nothing that comes up in between is missed.
            let ready = self.ready.notified();
            if let Some(taken) = self.state().take(lane) {
                return taken;
            }
            ready.await;
        }
    }

    /// Something was looked at. A failure is tried again after a pause that grows.
    pub fn done(&self, job: &J, looked: Looked) {
        // It may be another pod's by now.
        let now_of = (self.tenants_of)(job);
        let mut state = self.state();
        let Some(running) = state.running.remove(job) else {
            return;
        };
        let Running {
            lane,
            tenants,
            again,
        } = running;
        state.owners[index(lane)].give_back(&tenants.owner);
        state.askers[index(lane)].give_back(&tenants.asker);
        if looked == Looked::Done {
            state.failures.remove(job);
        } else if state.open[index(lane)] {
            let now = Instant::now();
            let failed = state.failures.entry(job.clone()).or_insert(Failed {
                pauses: PAUSES,
                last: now,
                again: now,
                since: None,
            });
            failed.last = now;
            failed.again = now + failed.pauses.pause();
            let again = match (lane, looked) {
                (Lane::Urgent, Looked::Failed) => failed.again.min(now + URGENTLY),
                _ => failed.again,
            };
            state.set_timer(job.clone(), lane, again);
        }
        if let Some((lane, since)) = again {
            state.wake(job.clone(), now_of, lane, since);
        }
        drop(state);
        self.ready.notify_waiters();
        self.timer.notify_one();
    }

    /// A look changed something. Where that does not end, later looks wait: whoever undoes each change, be it
    /// another process that takes itself for the leader, is not answered without a pause.
    pub fn changed(&self, job: &J) {
        let mut state = self.state();
        let now = Instant::now();
        let is_calm = |it: &Changed| now >= it.last + CALM;
        if state.changes.len() >= REMEMBERED {
            state.changes.retain(|_, it| !is_calm(it));
        }
        let changed = state.changes.entry(job.clone());
        let changed = changed.or_insert(Changed {
            times: 0,
            last: now,
        });
        if is_calm(changed) {
            changed.times = 0;
        }
        changed.times = changed.times.saturating_add(1);
        changed.last = now;
    }

    /// Moves what is due into its line, for ever.
    pub async fn run_timers(&self) {
        loop {
            for (job, lane) in self.due() {
                self.wake(job, lane);
            }
            let next = self.state().timers.keys().next().map(|(at, _)| *at);
            match next {
                Some(at) => tokio::select! {
                    biased;
                    () = sleep_until(at) => {}
                    () = self.timer.notified() => {}
                },
                None => self.timer.notified().await,
            }
        }
    }

    fn due(&self) -> Vec<(J, Lane)> {
        let mut state = self.state();
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(entry) = state.timers.first_entry()
            && entry.key().0 <= now
        {
            let (job, lane) = entry.remove();
            if let Some(times) = state.timer_of.get_mut(&job) {
                times[index(lane)] = None;
                if times.iter().all(Option::is_none) {
                    state.timer_of.remove(&job);
                }
            }
            due.push((job, lane));
        }
        due
    }

    /// The entries of each map. A new field has to be counted, or to be named as none.
    #[cfg(test)]
    pub(crate) fn census(&self) -> Vec<usize> {
        let state = self.state();
        let State {
            open: _,
            lines,
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
        // Nothing in here panics while it is held; a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Clone + Eq + Hash> State<J> {
    fn wake(&mut self, job: J, tenants: Tenants, lane: Lane, since: Instant) {
        if let Some(running) = self.running.get_mut(&job) {
            let (lane, since) = match running.again {
                Some((other, earlier)) => (lane.min(other), earlier.min(since)),
                None => (lane, since),
            };
            running.again = Some((lane, since));
            return;
        }
        let now = Instant::now();
        let mut since = since;
        let failed = self.failures.get_mut(&job).map(|failed| {
            let first = failed.since.get_or_insert(since);
            since = since.min(*first);
            failed.soonest(lane)
        });
        let undone = self.changes.get(&job).and_then(|it| it.soonest(lane));
        let soonest = failed.max(undone).unwrap_or(now);
        if now < soonest && !self.waiting.contains_key(&job) {
            self.set_timer(job, lane, soonest);
            return;
        }
        if let Some(failed) = self.failures.get_mut(&job) {
            failed.since = None;
        }
        match self.waiting.get_mut(&job) {
            Some((waits, _)) if *waits <= lane => {}
            Some((waits, _)) => {
                *waits = lane;
                self.lines[index(lane)].push(tenants, job);
            }
            None => {
                self.waiting.insert(job.clone(), (lane, since));
                self.lines[index(lane)].push(tenants, job);
            }
        }
    }

    fn take(&mut self, lane: Lane) -> Option<Taken<J>> {
        if !self.open[index(lane)] {
            return None;
        }
        loop {
            let (owners, askers) = (&self.owners[index(lane)], &self.askers[index(lane)]);
            let may = |it: &Tenants| owners.has_room(&it.owner) && askers.has_room(&it.asker);
            let (tenants, job) = self.lines[index(lane)].pop(may)?;
            // It may have moved to the other lane.
            let Some((_, since)) = self
                .waiting
                .get(&job)
                .filter(|(it, _)| *it == lane)
                .copied()
            else {
                continue;
            };
            self.waiting.remove(&job);
            self.drop_timers(&job);
            self.owners[index(lane)].take(tenants.owner.clone());
            self.askers[index(lane)].take(tenants.asker.clone());
            let running = Running {
                lane,
                tenants,
                again: None,
            };
            self.running.insert(job.clone(), running);
            return Some(Taken { job, since });
        }
    }

    /// Of several times the soonest counts, and what becomes urgent keeps the time that it has. A time that is not urgent
    /// takes none away that is: it may come sooner, and the place that it leads to may come later.
    fn set_timer(&mut self, job: J, lane: Lane, at: Instant) {
        let times = self.timer_of.get(&job).copied().unwrap_or_default();
        let sooner = |lane: Lane| times[index(lane)].filter(|(sooner, _)| *sooner <= at);
        if sooner(Lane::Urgent).or(sooner(lane)).is_some() {
            return;
        }
        let at = sooner(Lane::Normal).map_or(at, |(sooner, _)| sooner);
        match lane {
            Lane::Urgent => self.drop_timers(&job),
            Lane::Normal => {
                if let Some(later) = times[index(lane)] {
                    self.timers.remove(&later);
                }
            }
        }
        self.next += 1;
        let key = (at, self.next);
        self.timer_of.entry(job.clone()).or_default()[index(lane)] = Some(key);
        self.timers.insert(key, (job, lane));
    }

    fn drop_timers(&mut self, job: &J) {
        for key in self.timer_of.remove(job).into_iter().flatten().flatten() {
            self.timers.remove(&key);
        }
    }
}
