//! The spread of the shards of one controller over its processes.
//!
//! Each shard has a lease, so each process sees which process leads which shard. A process that leads at least two
//! shards fewer than another one holds a further lease, "next", as long as that is so. A process that leads the most
//! shards sees this, ends its work on one of them and gives its lease back. All others leave a free lease to the holder
//! of "next" for some time. If that holder dies meanwhile, its "next" ends with its time, and any process takes the
//! shard.
//!
//! What is seen here may be old. It decides only which process stands for a lease and when, never whether one leads.

use std::{
    cmp::Reverse,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;

use super::LeaseTerms;

/// A process gets a shard from one that leads so many more.
const APART: usize = 2;

/// The knowledge of a process about the leases of all shards. Shared by their elections.
#[derive(Debug)]
pub struct Spread {
    pub(super) me: String,
    /// How long a free lease is left to another process.
    patience: Duration,
    seen: Mutex<SeenHolders>,
}

/// The holders of the leases as last seen, living or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenHolders {
    /// By shard.
    pub(super) shards: Vec<Option<String>>,
    /// The living process, another than this one, that is to have a shard next.
    pub(super) next: Option<String>,
}

impl SeenHolders {
    fn led_by(&self, process: &str) -> usize {
        let holders = self.shards.iter().flatten();
        holders.filter(|it| *it == process).count()
    }

    /// Whether this process should get a shard.
    pub(super) fn wants(&self, me: &str) -> bool {
        let mine = self.led_by(me);
        let mut holders = self.shards.iter().flatten();
        holders.any(|it| self.led_by(it) >= mine + APART)
    }

    /// The shard that this process should hand over.
    pub(super) fn gives(&self, me: &str) -> Option<usize> {
        let next = self.next.as_deref()?;
        // One after the other: a shard that is free is on its way.
        if self.shards.iter().any(Option::is_none) {
            return None;
        }
        let rank = |it: &str| (self.led_by(it), Reverse(it.to_owned()));
        let mut holders = self.shards.iter().flatten();
        let is_first = holders.all(|it| rank(it) <= rank(me));
        let is_apart = self.led_by(me) >= self.led_by(next) + APART;
        let mine = |it: &Option<String>| it.as_deref() == Some(me);
        let last = self.shards.iter().rposition(mine);
        last.filter(|_| is_first && is_apart)
    }
}

impl Spread {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(identity: &str, shards: usize, terms: LeaseTerms) -> Arc<Self> {
        Arc::new(Self {
            me: identity.to_owned(),
            // The other one looks once in each period.
            patience: terms.period * 2,
            seen: Mutex::new(SeenHolders {
                shards: vec![None; shards],
                next: None,
            }),
        })
    }

    pub(super) fn wants(&self) -> bool {
        self.seen().wants(&self.me)
    }

    /// Notes the living process, another than this one, that is to have a shard next.
    pub(super) fn next_is(&self, process: Option<&str>) {
        self.seen().next = process.map(str::to_owned);
    }

    fn seen(&self) -> MutexGuard<'_, SeenHolders> {
        // Values are replaced whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until no work under a lease runs, and none can begin.
pub type WorkEnded = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The place of one shard's election among those of all shards.
#[derive(Clone)]
pub struct ShardPlace {
    /// The knowledge of all of them.
    pub spread: Arc<Spread>,
    /// The number of the shard.
    pub shard: usize,
    /// Waits for the end of its work. It begins nothing once its [`Leadership`](super::Leadership) says so.
    pub work: WorkEnded,
}

impl fmt::Debug for ShardPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ShardPlace");
        debug.field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl ShardPlace {
    /// How long a free lease is left to another process.
    pub(super) fn patience(&self) -> Duration {
        if self.spread.seen().next.is_some() {
            self.spread.patience
        } else {
            Duration::ZERO
        }
    }

    /// Notes the holder of the lease.
    pub(super) fn tell(&self, holder: Option<&str>) {
        if let Some(seen) = self.spread.seen().shards.get_mut(self.shard) {
            *seen = holder.map(str::to_owned);
        }
    }

    /// Whether another process should lead this shard.
    pub(super) fn is_wanted(&self) -> bool {
        let seen = self.spread.seen();
        seen.gives(&self.spread.me) == Some(self.shard)
    }

    pub(super) fn ended(&self) -> BoxFuture<'static, ()> {
        (self.work)()
    }
}

#[cfg(test)]
mod tests;
