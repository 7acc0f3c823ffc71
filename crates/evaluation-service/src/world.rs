//! What is known of the cluster, and who is told when it changes.

mod catalog;
mod configuration;
mod follow;
mod freshness;
mod live_watch;
mod policies;
mod read;
mod requests;
mod sources;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use authz::Chain;
use connectors_api::NamespaceKeys;
use connectors_api::config::{Config, DefaultRequesters};
use evaluation_api::access::Gating;
use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::error::Refused;

use freshness::CacheTimes;

pub use catalog::Catalog;
pub(crate) use catalog::Labels;
pub use follow::Follow;
pub use freshness::fresh_for;
pub use policies::{ExplainedPolicy, PolicyText};
pub use read::Strict;
pub use requests::{KnownPolicy, KnownRequest, KnownRequests, Tuple, TupleRef};

/// Changes that a stream has not looked at yet; a stream that is further behind looks at everything.
const CHANGES: usize = 1024;

/// What decisions are made from, at one moment.
#[derive(Debug, Default)]
pub struct World {
    /// The authorizers in order; one of them is the index of roles and bindings.
    pub chain: Chain,
    /// Access requests.
    pub requests: KnownRequests,
    /// What decisions do without.
    pub catalog: Catalog,
    /// What the installation was last told, once that has been known. No decision depends on it.
    pub config: Option<Config>,
    /// By which labels of namespaces policies may select subjects.
    pub namespace_keys: Arc<NamespaceKeys>,
    /// As of when each of the caches shows the cluster.
    freshness: CacheTimes,
}

/// Roles, role bindings, cluster roles, cluster role bindings, access requests: what decides.
const DECIDING: usize = 5;
/// Those, then policies, connectors, namespaces.
const SOURCES: usize = 8;

/// What a change can make a difference to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldChange {
    /// Questions about one subject, connector, permission and pod.
    Tuple(Tuple),
    /// Questions about the connectors of one namespace.
    Namespace(String),
    /// All questions.
    Everything,
}

/// The world, shared. Decisions read it, the watches write it.
#[derive(Debug)]
pub struct Shared {
    world: RwLock<World>,
    changes: broadcast::Sender<WorldChange>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            world: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES),
        }
    }
}

impl World {
    /// Whether mounts are gated.
    #[must_use]
    pub fn gating(&self) -> Gating {
        match self.config.map(|config| config.enabled) {
            None => Gating::Unknown,
            Some(false) => Gating::Off,
            Some(true) => Gating::On,
        }
    }

    /// Who may ask where a policy does not say.
    #[must_use]
    pub fn default_requesters(&self) -> DefaultRequesters {
        self.config.unwrap_or(Config::CLOSED).default_requesters
    }

    /// The slowest of the caches that decide showed the cluster as of this moment, or later.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<Timestamp> {
        self.freshness.oldest(DECIDING)
    }

    /// The same of all caches.
    #[must_use]
    pub fn all_fresh_as_of(&self) -> Option<Timestamp> {
        self.freshness.oldest(SOURCES)
    }

    /// The caches that decide show the cluster as of this moment.
    #[cfg(test)]
    pub(crate) fn hear_what_decides(&self, moment: Timestamp) {
        for source in 0..DECIDING {
            self.freshness.note(source, moment);
        }
    }

    /// All caches show the cluster as of this moment.
    #[cfg(test)]
    pub(crate) fn hear_everything(&self, moment: Timestamp) {
        for source in 0..SOURCES {
            self.freshness.note(source, moment);
        }
    }

    /// For how long what the caches show may still be said; none when it is too old.
    pub fn fresh_for(&self, now: Timestamp, most: Duration) -> Result<Duration, Refused> {
        fresh_for(self.fresh_as_of(), now, most).ok_or(Refused::Stale)
    }

    /// The same of all caches.
    pub fn all_fresh_for(&self, now: Timestamp, most: Duration) -> Result<Duration, Refused> {
        fresh_for(self.all_fresh_as_of(), now, most).ok_or(Refused::Stale)
    }
}

impl Shared {
    /// The world as it is now. To be let go before anything is waited for.
    pub fn read(&self) -> RwLockReadGuard<'_, World> {
        // After a panic in the middle of a change nobody knows what holds: the task that panicked ends
        // the process, and what is answered until then is what the API server said last.
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every change from now on.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<WorldChange> {
        self.changes.subscribe()
    }

    /// Changes the world, then tells what it can make a difference to.
    pub fn change(&self, change: impl FnOnce(&mut World) -> Vec<WorldChange>) {
        let changes = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut world)
        };
        for change in changes {
            // An error says that nobody listens.
            let _ = self.changes.send(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_cache_says_how_fresh_an_answer_is() {
        let world = World::default();
        assert_eq!(world.fresh_as_of(), None);
        let at = |second| Timestamp::from_second(second).unwrap();
        for source in 0..SOURCES {
            assert_eq!(world.fresh_as_of().is_some(), source >= DECIDING);
            world
                .freshness
                .note(source, at(i64::try_from(source).unwrap() + 10));
        }
        assert_eq!(world.fresh_as_of(), Some(at(10)));
        let most = Duration::from_secs(90);
        assert!(world.fresh_for(at(99), most).is_ok());
        assert!(matches!(
            world.fresh_for(at(100), most),
            Err(Refused::Stale)
        ));
    }

    #[test]
    fn who_listens_hears_of_a_change_when_it_can_be_seen() {
        let shared = Shared::default();
        let mut changes = shared.changes();
        shared.change(|_| {
            vec![
                WorldChange::Namespace("a".to_owned()),
                WorldChange::Everything,
            ]
        });
        assert_eq!(
            changes.try_recv(),
            Ok(WorldChange::Namespace("a".to_owned()))
        );
        assert_eq!(changes.try_recv(), Ok(WorldChange::Everything));
        assert!(changes.try_recv().is_err());
    }
}
