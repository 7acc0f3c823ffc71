//! The state of the jobs of a queue: in line, running, or waiting for their time. One lock protects all of
//! it, and no code here waits.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;

use super::{Looked, Pauses, Shares, Taken, Tenants, Urgency, timers::Timers};
use crate::{
    fair::{FairLine, TenantShares},
    retry::Backoff,
    spare_room::SpareRoom as _,
};

/// The pauses before a failed job is tried again.
const RETRIES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(2));
/// A look that took too long is repeated after this at the earliest, so that it has less than half of a worker.
pub(super) const SHORTEST_REST: Duration = Duration::from_secs(6);
/// A job without changes for this time starts to count from zero.
pub(super) const CALM: Duration = Duration::from_mins(1);
/// With so many jobs that were changed lately, those that are calm again are forgotten.
pub(super) const REMEMBERED: usize = 4096;

/// The data behind the lock of a queue.
pub(super) struct QueueState<J> {
    /// Whether jobs are taken at all.
    listens: bool,
    open: [bool; 2],
    /// By urgency. A job whose urgency changed stays in the other line as well, until its turn there.
    pub(super) lines: [FairLine<Tenants, J>; 2],
    shares: Shares,
    /// The workers that look at jobs of a namespace, in either of its roles.
    pub(super) owners: [TenantShares<String>; 2],
    pub(super) askers: [TenantShares<String>; 2],
    /// The jobs in line, and since when.
    waiting: HashMap<J, (Urgency, Instant)>,
    running: HashMap<J, RunningJob>,
    pub(super) timers: Timers<J>,
    failures: HashMap<J, FailedJob>,
    pub(super) changes: HashMap<J, ChangeCounts>,
}

/// A job that a worker looks at.
struct RunningJob {
    urgency: Urgency,
    tenants: Tenants,
    /// How it goes in line again if it came up meanwhile.
    again: Option<(Urgency, Instant)>,
}

/// How often looks changed something.
pub(super) struct ChangeCounts {
    count: u32,
    last: Instant,
}

/// A job that failed the last time. That it comes up again is no reason to hurry: two processes that undo each other's
/// work would do so without end.
struct FailedJob {
    retries: Backoff,
    last: Instant,
    /// When it is tried again by itself.
    retry: Instant,
    /// Whether it waits until then, unless it is urgent.
    is_late: bool,
    /// Since when it has come up again and waits.
    since: Option<Instant>,
}

impl FailedJob {
    fn soonest(&self, urgency: Urgency, pauses: &Pauses) -> Instant {
        if self.is_late && urgency == Urgency::Normal {
            return self.retry;
        }
        self.retry.min(self.last + pauses.again[urgency as usize])
    }
}

impl<J: Clone + Eq + Hash> QueueState<J> {
    /// A state in which no worker may take anything.
    pub(super) fn closed(shares: Shares) -> Self {
        let most = match shares {
            Shares::Each(most) => most,
            Shares::Together(most) => [most; 2],
        };
        Self {
            listens: true,
            open: [false; 2],
            lines: [FairLine::default(), FairLine::default()],
            shares,
            owners: most.map(TenantShares::of),
            askers: most.map(TenantShares::of),
            waiting: HashMap::new(),
            running: HashMap::new(),
            timers: Timers::new(),
            failures: HashMap::new(),
            changes: HashMap::new(),
        }
    }

    pub(super) const fn listen(&mut self) {
        self.listens = true;
    }

    pub(super) const fn open(&mut self, urgency: Urgency) {
        self.listens = true;
        self.open[urgency as usize] = true;
    }

    /// Forgets the waiting jobs, and takes no others.
    pub(super) fn close(&mut self) {
        self.listens = false;
        self.open = [false; 2];
        self.lines = [FairLine::default(), FairLine::default()];
        self.waiting.clear();
        self.timers.clear();
        self.failures.clear();
        self.changes.clear();
        for running in self.running.values_mut() {
            running.again = None;
        }
    }

    pub(super) fn is_drained(&self, urgency: Urgency) -> bool {
        let waits = self.waiting.values().any(|(it, _)| *it == urgency);
        let runs = self.running.values().any(|it| it.urgency == urgency);
        !waits && !runs
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.listens && self.running.is_empty()
    }

    pub(super) fn depth(&self) -> usize {
        let is_new =
            |job: &&J| !self.waiting.contains_key(*job) && !self.running.contains_key(*job);
        self.waiting.len() + self.running.len() + self.timers.jobs().filter(is_new).count()
    }

    /// Since when the job is in line that has been there for longest.
    pub(super) fn oldest(&self, urgency: Urgency) -> Option<Instant> {
        let waiting = self.waiting.values();
        let since = waiting.filter_map(|(it, since)| (*it == urgency).then_some(*since));
        since.min()
    }

    /// Whether jobs that workers may take are in line, by urgency. Shares may keep them there.
    pub(super) fn waits(&self) -> [bool; 2] {
        Urgency::ALL.map(|it| self.open[it as usize] && !self.lines[it as usize].is_empty())
    }

    pub(super) fn changed(&mut self, job: &J) {
        let now = Instant::now();
        if !self.listens {
            return;
        }
        let is_calm = |it: &ChangeCounts| now >= it.last + CALM;
        if self.changes.len() >= REMEMBERED {
            self.changes.retain(|_, it| !is_calm(it));
        }
        let changes = self.changes.entry(job.clone());
        let changes = changes.or_insert(ChangeCounts {
            count: 0,
            last: now,
        });
        if is_calm(changes) {
            changes.count = 0;
        }
        changes.count = changes.count.saturating_add(1);
        changes.last = now;
    }

    pub(super) fn census(&self) -> Vec<usize> {
        let QueueState {
            listens: _,
            open: _,
            lines,
            shares: _,
            owners,
            askers,
            waiting,
            running,
            timers,
            failures,
            changes,
        } = self;
        let shares = owners.iter().chain(askers).map(TenantShares::tenants);
        let [timers, jobs_with_timers] = timers.sizes();
        vec![
            lines.iter().filter(|it| !it.is_empty()).count(),
            shares.sum(),
            waiting.len(),
            running.len(),
            timers,
            jobs_with_timers,
            failures.len(),
            changes.len(),
        ]
    }

    /// Whether the job stands in line anew.
    pub(super) fn wake(
        &mut self,
        job: J,
        tenants: Tenants,
        up: (Urgency, Instant),
        pauses: &Pauses,
    ) -> bool {
        if !self.listens {
            return false;
        }
        let (urgency, mut since) = up;
        if let Some(running) = self.running.get_mut(&job) {
            let again = running.again.map_or(up, |(other, earlier)| {
                (urgency.min(other), since.min(earlier))
            });
            running.again = Some(again);
            return false;
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
            return false;
        }
        if let Some(failure) = self.failures.get_mut(&job) {
            failure.since = None;
        }
        match self.waiting.get_mut(&job) {
            Some((waits, _)) if *waits <= urgency => return false,
            Some((waits, _)) => *waits = urgency,
            None => {
                self.waiting.insert(job.clone(), (urgency, since));
            }
        }
        self.lines[urgency as usize].push(tenants, job);
        true
    }

    pub(super) fn take(&mut self, urgency: Urgency) -> Option<Taken<J>> {
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
            self.waiting.give_back_room();
            self.timers.drop_of(&job);
            self.owners[share].take(tenants.owner.clone());
            self.askers[share].take(tenants.asker.clone());
            let running = RunningJob {
                urgency,
                tenants,
                again: None,
            };
            self.running.insert(job.clone(), running);
            return Some(Taken { job, since });
        }
    }

    pub(super) fn done(&mut self, job: &J, tenants: Tenants, looked: Looked, pauses: &Pauses) {
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
        let failure = self.failures.entry(job.clone()).or_insert(FailedJob {
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

    pub(super) fn set_timer(&mut self, job: J, urgency: Urgency, at: Instant) {
        if self.listens {
            self.timers.set(job, urgency, at);
        }
    }

    pub(super) fn forget(&mut self, job: &J) {
        if !self.running.contains_key(job) && !self.waiting.contains_key(job) {
            self.timers.drop_of(job);
            self.failures.remove(job);
            self.changes.remove(job);
            self.failures.give_back_room();
        }
    }
}
