//! The queue of a controller: each job waits once, and one worker at a time looks at it.
//!
//! A job is urgent if its look may have to take something back. Each urgency has a line of its own, in which tenants
//! take turns, and no tenant holds more than its share of the workers (`fair` counts both). A job that failed, or that another process undoes
//! each time, waits for a pause.
//!
//! A job that comes up wakes one worker, however many wait. One of them waits for the next time that a job is due, and one
//! of those for urgent jobs alone, which may have threads of their own.

mod state;
#[cfg(test)]
pub(super) mod tests;
mod timers;

use std::{
    fmt,
    future::pending,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};

use state::QueueState;

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

    /// The word in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Normal => "normal",
        }
    }
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
    /// No work remains.
    Done,
    /// Work remains.
    Failed,
    /// Work remains, but no access is in force that should not be.
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

type TenantsOf<J> = Box<dyn Fn(&J) -> Tenants + Send + Sync>;

/// The queue. Shared by reference.
pub struct Queue<J> {
    pauses: Pauses,
    /// Called while nothing is locked here: it may look into caches.
    tenants_of: TenantsOf<J>,
    state: Mutex<QueueState<J>>,
    /// By urgency: there may be a job to take.
    in_line: [Notify; 2],
    /// The next time at which a job is due has changed.
    due: [Notify; 2],
    /// The places of the workers that wait for this time, by the least urgent jobs that they take.
    timekeepers: [Semaphore; 2],
    /// The last look of a closed queue may be over.
    ended: Notify,
}

impl<J> fmt::Debug for Queue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<J: Clone + Eq + Hash> Queue<J> {
    /// A queue that takes jobs, and whose tenants share the workers. No worker may take any yet.
    pub fn shared(
        shares: Shares,
        pauses: Pauses,
        tenants_of: impl Fn(&J) -> Tenants + Send + Sync + 'static,
    ) -> Self {
        Self {
            pauses,
            tenants_of: Box::new(tenants_of),
            state: Mutex::new(QueueState::closed(shares)),
            in_line: [Notify::new(), Notify::new()],
            due: [Notify::new(), Notify::new()],
            timekeepers: [Semaphore::new(1), Semaphore::new(1)],
            ended: Notify::new(),
        }
    }

    /// Has a job looked at. A job that waits already becomes more urgent at most.
    pub fn wake(&self, job: J, urgency: Urgency) {
        let tenants = (self.tenants_of)(&job);
        let now = Instant::now();
        let is_in_line =
            self.change(|state| state.wake(job, tenants, (urgency, now), &self.pauses));
        if is_in_line {
            self.in_line[urgency as usize].notify_one();
        }
    }

    /// Has a job looked at after some time, unless it comes up sooner.
    pub fn wake_after(&self, job: J, urgency: Urgency, pause: Duration) {
        let at = Instant::now() + pause;
        self.change(|state| state.set_timer(job, urgency, at));
    }

    /// Forgets a job whose object is gone, unless it is in line or looked at: when it is due, and that it failed.
    pub fn forget(&self, job: &J) {
        self.state().forget(job);
    }

    /// Lets workers take jobs of this urgency.
    pub fn open(&self, urgency: Urgency) {
        self.state().open(urgency);
        self.in_line[urgency as usize].notify_waiters();
    }

    /// Closes the queue and forgets the waiting jobs. Running looks continue. A closed queue takes no jobs, so that a
    /// process that never leads keeps none.
    pub fn close(&self) {
        self.state().close();
        self.ended.notify_waiters();
    }

    /// Waits until the queue takes no jobs, and no worker looks at one.
    pub async fn ended(&self) {
        loop {
            // Created before the look, so that no change in between is missed.
            let ended = self.ended.notified();
            if self.state().has_ended() {
                return;
            }
            ended.await;
        }
    }

    /// Takes jobs again, before workers may take them. It begins with the leadership: what came up before is found by the
    /// first sweep, or in the caches.
    pub fn listen(&self) {
        self.state().listen();
    }

    /// Whether no job of this urgency stands in line or is looked at.
    #[must_use]
    pub fn is_drained(&self, urgency: Urgency) -> bool {
        self.state().is_drained(urgency)
    }

    /// How many jobs wait, in line or for their time, or are looked at.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.state().depth()
    }

    /// How long the job of this urgency that is in line for longest has been there; nothing if the line is empty.
    #[must_use]
    pub fn age(&self, urgency: Urgency) -> Duration {
        let oldest = self.state().oldest(urgency);
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The next job, of the first of these urgencies that has one. It has to be given back with [`Queue::done`].
    pub async fn take(&self, urgencies: &[Urgency]) -> Taken<J> {
        loop {
            // Created before the look, so that no change in between is missed.
            let [urgent, normal] = self.in_line.each_ref().map(Notify::notified);
            self.wake_due();
            if let Some(taken) = self.take_now(urgencies) {
                return taken;
            }
            tokio::select! {
                biased;
                () = urgent, if urgencies.contains(&Urgency::Urgent) => {}
                () = normal, if urgencies.contains(&Urgency::Normal) => {}
                () = self.keep_time(urgencies) => {}
            }
        }
    }

    fn take_now(&self, urgencies: &[Urgency]) -> Option<Taken<J>> {
        let (taken, waits) = {
            let mut state = self.state();
            let taken = urgencies.iter().find_map(|it| state.take(*it))?;
            (taken, state.waits())
        };
        // It may have been woken for another job, or for several that came up at a time.
        self.tell(waits);
        Some(taken)
    }

    /// Puts the jobs whose time has come in line.
    fn wake_due(&self) {
        let due = self.state().timers.due();
        for (job, urgency) in due {
            self.wake(job, urgency);
        }
    }

    /// Puts jobs in line when their time comes, as long as it is polled. One worker of each kind does so for all: the threads
    /// of one kind may be busy.
    async fn keep_time(&self, urgencies: &[Urgency]) {
        let kind = urgencies.iter().max().map_or(0, |it| *it as usize);
        // It is never closed.
        let _place = self.timekeepers[kind].acquire().await;
        loop {
            let due = self.state().timers.next_due();
            let over = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.due[kind].notified() => {}
                () = over => self.wake_due(),
            }
        }
    }

    /// Changes the state, and tells the workers that keep the time.
    fn change<A>(&self, act: impl FnOnce(&mut QueueState<J>) -> A) -> A {
        let (done, is_due_anew) = {
            let mut state = self.state();
            let due = state.timers.next_due();
            let done = act(&mut state);
            (done, state.timers.next_due() != due)
        };
        if is_due_anew {
            self.due.iter().for_each(Notify::notify_one);
        }
        done
    }

    /// Wakes one worker for each of these lines.
    fn tell(&self, lines: [bool; 2]) {
        for (in_line, is_told) in self.in_line.iter().zip(lines) {
            if is_told {
                in_line.notify_one();
            }
        }
    }

    /// A worker has looked at a job.
    pub fn done(&self, job: &J, looked: Looked) {
        // They may have changed since the job was taken.
        let tenants = (self.tenants_of)(job);
        let waits = self.change(|state| {
            state.done(job, tenants, looked, &self.pauses);
            state.waits()
        });
        // Its tenants have room for one more.
        self.tell(waits);
        self.ended.notify_waiters();
    }

    /// A look has changed something. If that does not end, later looks wait: another process undoes each change, for
    /// example one that believes to lead as well.
    pub fn changed(&self, job: &J) {
        self.state().changed(job);
    }

    /// The entries of each map, for tests that they are bounded. A new field has to be counted, or named as none. The
    /// last one are jobs that were changed lately; they are forgotten when there are many.
    #[must_use]
    pub fn census(&self) -> Vec<usize> {
        self.state().census()
    }

    fn state(&self) -> MutexGuard<'_, QueueState<J>> {
        // No code panics while it holds the lock, so a poisoned state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
