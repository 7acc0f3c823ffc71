//! The times at which jobs of a queue come up.
//!
//! Invariant: a job has at most one timer of each urgency, and each timer is found by its time and by its job.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::Urgency;
use crate::spare_room::SpareRoom as _;

/// When a job is due, in nanoseconds of the queue's clock, and a number that makes each timer unique.
type Timer = (u64, u64);

/// The timers of all jobs.
pub(super) struct Timers<J> {
    by_time: BTreeMap<Timer, (J, Urgency)>,
    by_job: HashMap<J, JobTimers>,
    /// When the clock was zero.
    began: Instant,
    next: u64,
}

/// The timers of a job. An urgent job must not wait for a free worker of the other line, so that it may have one of each
/// urgency. Nearly always it has one, and there are as many as there are jobs that wait.
enum JobTimers {
    One(Urgency, Timer),
    /// By urgency.
    Both(Box<[Timer; 2]>),
}

impl JobTimers {
    fn get(&self, urgency: Urgency) -> Option<Timer> {
        match self {
            Self::One(of, timer) => (*of == urgency).then_some(*timer),
            Self::Both(timers) => Some(timers[urgency as usize]),
        }
    }

    /// The same with another timer of this urgency.
    fn with(self, urgency: Urgency, timer: Timer) -> Self {
        match self {
            Self::One(of, other) if of != urgency => {
                let mut both = [timer; 2];
                both[of as usize] = other;
                Self::Both(Box::new(both))
            }
            Self::One(..) => Self::One(urgency, timer),
            Self::Both(mut timers) => {
                timers[urgency as usize] = timer;
                Self::Both(timers)
            }
        }
    }

    /// The same without the timer of this urgency. None if no other is left.
    fn without(self, urgency: Urgency) -> Option<Self> {
        match self {
            Self::One(of, timer) => (of != urgency).then_some(Self::One(of, timer)),
            Self::Both(timers) => {
                let other = Urgency::ALL.into_iter().find(|it| *it != urgency)?;
                Some(Self::One(other, timers[other as usize]))
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Timer> {
        Urgency::ALL.into_iter().filter_map(|it| self.get(it))
    }
}

impl<J: Clone + Eq + Hash> Timers<J> {
    pub(super) fn new() -> Self {
        Self {
            by_time: BTreeMap::new(),
            by_job: HashMap::new(),
            began: Instant::now(),
            next: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_time.clear();
        self.by_job.clear();
    }

    /// How many timers there are, and how many jobs have some.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.by_time.len(), self.by_job.len()]
    }

    /// The jobs that have a timer.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &J> {
        self.by_job.keys()
    }

    /// When the next timer ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let (due, _) = self.by_time.keys().next()?;
        Some(self.began + Duration::from_nanos(*due))
    }

    /// Takes out the jobs whose time has come.
    pub(super) fn due(&mut self) -> Vec<(J, Urgency)> {
        let now = self.on_clock(Instant::now());
        let mut due = Vec::new();
        while let Some(entry) = self.by_time.first_entry()
            && entry.key().0 <= now
        {
            let (job, urgency) = entry.remove();
            let timers = self.by_job.remove(&job);
            if let Some(other) = timers.and_then(|it| it.without(urgency)) {
                self.by_job.insert(job.clone(), other);
            }
            due.push((job, urgency));
        }
        due
    }

    /// The soonest of several times counts, and a job that becomes urgent keeps its sooner time. A normal time replaces
    /// no urgent one: it may be sooner, and its line may be longer.
    pub(super) fn set(&mut self, job: J, urgency: Urgency, at: Instant) {
        let at = self.on_clock(at);
        let timers = self.by_job.get(&job);
        let timer = |urgency: Urgency| timers.and_then(|it| it.get(urgency));
        let sooner = |urgency: Urgency| timer(urgency).filter(|(sooner, _)| *sooner <= at);
        if sooner(Urgency::Urgent).or(sooner(urgency)).is_some() {
            return;
        }
        let at = sooner(Urgency::Normal).map_or(at, |(sooner, _)| sooner);
        let later = timer(urgency);
        match urgency {
            Urgency::Urgent => self.drop_of(&job),
            Urgency::Normal => {
                if let Some(later) = later {
                    self.by_time.remove(&later);
                }
            }
        }
        self.next += 1;
        let timer = (at, self.next);
        let timers = match self.by_job.remove(&job) {
            Some(timers) => timers.with(urgency, timer),
            None => JobTimers::One(urgency, timer),
        };
        self.by_job.insert(job.clone(), timers);
        self.by_time.insert(timer, (job, urgency));
    }

    /// Drops the timers of a job.
    pub(super) fn drop_of(&mut self, job: &J) {
        let timers = self.by_job.remove(job);
        for timer in timers.iter().flat_map(JobTimers::all) {
            self.by_time.remove(&timer);
        }
        self.by_job.give_back_room();
    }

    /// A time of the clock, which goes on for five hundred years.
    fn on_clock(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}
