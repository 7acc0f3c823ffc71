//! The known state of the cluster, and the notifications of its changes.

mod affected;
mod announcements;
mod catalog;
mod configuration;
mod follow;
mod freshness;
mod live_watch;
mod policies;
mod question_keys;
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

use crate::error::Refused;

use announcements::Announcements;
use freshness::CacheTimes;

pub use announcements::{ChangeMarks, ChangeReceiver};
pub use catalog::Catalog;
pub(crate) use catalog::Labels;
pub use follow::Follow;
pub use freshness::fresh_for;
pub use policies::{ExplainedPolicy, PolicyText};
pub use question_keys::{GivenTarget, KeysOfQuestion, QuestionKeys};
pub use read::Strict;
pub use requests::{KnownPolicy, KnownRequest, KnownRequests, Tuple, TupleRef};

/// The basis of decisions at one moment.
#[derive(Debug, Default)]
pub struct World {
    /// The authorizers in order; one of them is the index of roles and bindings.
    pub chain: Chain,
    /// Access requests.
    pub requests: KnownRequests,
    /// Objects that decisions do not need.
    pub catalog: Catalog,
    /// The last settings of the installation, once they were known. No decision depends on them.
    pub config: Option<Config>,
    /// The labels of namespaces by which policies may select subjects.
    pub namespace_keys: Arc<NamespaceKeys>,
    /// Makes the keys under which changes name questions.
    question_keys: QuestionKeys,
    /// The time as of which each cache shows the cluster.
    freshness: CacheTimes,
}

/// The deciding caches: roles, role bindings, cluster roles, cluster role bindings, access requests.
const DECIDING: usize = 5;
/// Those, then policies, connectors, namespaces.
const SOURCES: usize = 8;

/// The questions that a change may affect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldChange {
    /// Questions that have one of these keys.
    Keys(Arc<[u64]>),
    /// Questions about the connectors of one namespace.
    Namespace(String),
    /// All questions.
    Everything,
}

/// The world, shared. Decisions read it, and the watches write it.
#[derive(Debug)]
pub struct Shared {
    world: RwLock<World>,
    announcements: Arc<Announcements>,
}

impl Default for Shared {
    fn default() -> Self {
        let world = World::default();
        let keys = world.question_keys.clone();
        Self {
            world: RwLock::new(world),
            announcements: Arc::new(Announcements::new(keys)),
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

    /// The requesters for policies that name none.
    #[must_use]
    pub fn default_requesters(&self) -> DefaultRequesters {
        self.config.unwrap_or(Config::CLOSED).default_requesters
    }

    /// The slowest of the deciding caches showed the cluster as of this moment, or later.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<Timestamp> {
        self.freshness.oldest(DECIDING)
    }

    /// The same of all caches.
    #[must_use]
    pub fn all_fresh_as_of(&self) -> Option<Timestamp> {
        self.freshness.oldest(SOURCES)
    }

    /// The deciding caches show the cluster as of this moment.
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

    /// How long the caches may still be used for answers. An error when they are too old.
    pub fn fresh_for(&self, now: Timestamp, most: Duration) -> Result<Duration, Refused> {
        fresh_for(self.fresh_as_of(), now, most).ok_or(Refused::Stale)
    }

    /// The same of all caches.
    pub fn all_fresh_for(&self, now: Timestamp, most: Duration) -> Result<Duration, Refused> {
        fresh_for(self.all_fresh_as_of(), now, most).ok_or(Refused::Stale)
    }
}

impl Shared {
    /// The world as it is now. The guard must be dropped before any wait.
    pub fn read(&self) -> RwLockReadGuard<'_, World> {
        // After a panic in the middle of a change the state is uncertain. The panicking task ends the process.
        // Answers until then are what the API server said last.
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The receiver of the changes from now on that it marks.
    #[must_use]
    pub fn changes(&self) -> ChangeReceiver {
        self.announcements.listen()
    }

    /// Changes the world, then announces the affected questions.
    pub fn change(&self, change: impl FnOnce(&mut World) -> Vec<WorldChange>) {
        let changes = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut world)
        };
        for change in &changes {
            self.announcements.announce(change);
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
        let changes = shared.changes().of_everything();
        let told = [
            WorldChange::Namespace("a".to_owned()),
            WorldChange::Everything,
        ];
        shared.change(|_| told.to_vec());
        assert_eq!(changes.try_recv(), told);
        assert_eq!(changes.try_recv(), []);
    }
}
