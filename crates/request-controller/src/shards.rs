//! The shards of the controller: which namespace belongs to which, and the queue of each.
//!
//! A shard is a set of namespaces. Its leader works on the requests and managed objects of these namespaces, and on the
//! gates of the pods in them. All processes watch everything.
//!
//! The number of shards is a power of two, and the lease of a shard has its number in the name. So a namespace has a
//! leader also while processes with different numbers run: the namespaces of shard 2 of 4 are in shard 0 of 2. It may have
//! two then, which is harmless. It has none while its shard moves from one process to another, for seconds.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use service_kit::controller::queue::{Queue, Urgency};
use thiserror::Error;

use crate::cache::Job;

/// The name of the first shard's lease, and of this controller in metrics.
pub const LEASE: &str = "request-controller";

/// Whether this process leads the shard of a namespace. The answer can change at any time, so every write asks again.
pub type LeadsNamespace = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The number of shards. All replicas should have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCount(usize);

/// Not a number of shards.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the number of shards is 1, 2, 4, 8 or 16")]
pub struct NoShardCount;

impl FromStr for ShardCount {
    type Err = NoShardCount;

    fn from_str(text: &str) -> Result<Self, NoShardCount> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.to_string() == text).ok_or(NoShardCount)
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ShardCount {
    /// One leader for all namespaces.
    pub const ONE: Self = Self(1);
    /// Two leaders.
    pub const TWO: Self = Self(2);
    const ALL: [Self; 5] = [Self::ONE, Self::TWO, Self(4), Self(8), Self(16)];

    /// The numbers of the shards.
    pub fn all(self) -> impl Iterator<Item = usize> {
        0..self.0
    }

    /// How many there are.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }

    /// The shard of a namespace: its hash FNV-1a with 64 bits, both halves combined, modulo the number of shards. All
    /// processes of all versions must agree on it.
    #[must_use]
    pub fn of(self, namespace: &str) -> usize {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let hash = namespace.bytes().fold(OFFSET, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
        let folded = (hash ^ (hash >> 32)) & 0xffff_ffff;
        usize::try_from(folded).unwrap_or_default() % self.0
    }
}

/// The lease of a shard. The first one has the name of the lease of a controller without shards.
#[must_use]
pub fn lease(shard: usize) -> String {
    match shard {
        0 => LEASE.to_owned(),
        shard => format!("{LEASE}-{shard}"),
    }
}

/// The lease of the process that is to have a shard next.
#[must_use]
pub fn next_lease() -> String {
    format!("{LEASE}-next")
}

/// The jobs of all shards, each in the queue of its shard.
#[derive(Debug)]
pub struct JobQueues {
    shards: ShardCount,
    queues: Vec<Queue<Job>>,
}

impl JobQueues {
    /// One queue for each shard.
    pub fn new(shards: ShardCount, queue: impl Fn() -> Queue<Job>) -> Self {
        let queues = shards.all().map(|_| queue()).collect();
        Self { shards, queues }
    }

    /// The number of shards.
    #[must_use]
    pub const fn shards(&self) -> ShardCount {
        self.shards
    }

    /// The queue of a shard.
    #[must_use]
    pub fn of(&self, shard: usize) -> &Queue<Job> {
        &self.queues[shard]
    }

    fn of_job(&self, job: &Job) -> &Queue<Job> {
        self.of(self.shards.of(job.namespace()))
    }

    /// Has a job looked at, if this process leads its shard.
    pub fn wake(&self, job: Job, urgency: Urgency) {
        self.of_job(&job).wake(job, urgency);
    }

    /// The same after some time, unless it comes up sooner.
    pub fn wake_after(&self, job: Job, urgency: Urgency, pause: Duration) {
        self.of_job(&job).wake_after(job, urgency, pause);
    }

    /// Forgets a job whose object is gone.
    pub fn forget(&self, job: &Job) {
        self.of_job(job).forget(job);
    }

    /// A look has changed something.
    pub fn changed(&self, job: &Job) {
        self.of_job(job).changed(job);
    }
}

#[cfg(test)]
mod tests;
