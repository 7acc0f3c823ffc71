//! The state that the handle, the calls and the watches share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::{
    caller::Caller,
    faults::{CallPoint, EventKind, EventPoint, Faults, NoFaults, Verb},
    record::What,
    reviews::TokenFacts,
    server::Lag,
    store::Store,
};

/// The shared parts of one server.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes all waiters, in the order in which they began to wait.
    pub(crate) changed: Notify,
}

impl Shared {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self {
            state: Mutex::new(State::new(start)),
            changed: Notify::new(),
        }
    }

    /// Never held across an await, nor while faults are asked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere is reported where it happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kill(&self, process: &str) {
        let mut state = self.lock();
        if state.killed.insert(process.to_owned()) {
            state.store.note(What::Killed(process.to_owned()));
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) faults: Arc<dyn Faults>,
    pub(crate) killed: BTreeSet<String>,
    pub(crate) lags: BTreeMap<String, Lag>,
    pub(crate) garbage_after: Option<Duration>,
    pub(crate) tokens: BTreeMap<String, TokenFacts>,
    /// The number of removals of each kind, by group and plural: a watch ends when it increases.
    pub(crate) gone: BTreeMap<(String, String), usize>,
    /// The kinds whose backend is unavailable, by group and plural.
    pub(crate) away: BTreeSet<(String, String)>,
    calls: BTreeMap<String, usize>,
    calls_alike: BTreeMap<CallKey, usize>,
    events_alike: BTreeMap<EventKey, usize>,
}

type CallKey = (String, Verb, String, Option<String>, String, String);
type EventKey = (String, String, EventKind, String, String);

impl State {
    fn new(start: Timestamp) -> Self {
        Self {
            store: Store::new(start),
            faults: Arc::new(NoFaults),
            killed: BTreeSet::new(),
            lags: BTreeMap::new(),
            garbage_after: Some(Duration::from_secs(1)),
            tokens: BTreeMap::new(),
            gone: BTreeMap::new(),
            away: BTreeSet::new(),
            calls: BTreeMap::new(),
            calls_alike: BTreeMap::new(),
            events_alike: BTreeMap::new(),
        }
    }

    /// The newest version visible to the watches of a process, and to its reads of "any" version.
    pub(crate) fn visible(&self, process: &str) -> u64 {
        let Some(lag) = self.lags.get(process) else {
            return self.store.version();
        };
        let now = self.store.clock.elapsed();
        let newest = self.store.version();
        let visible = self.store.history.partition_point(|change| {
            newest - change.record.version >= lag.versions || now >= change.at + lag.at_most
        });
        visible as u64
    }

    /// The time at which the change after that version becomes visible, if there is such a change.
    pub(crate) fn visible_at(&self, process: &str, version: u64) -> Option<Duration> {
        let lag = self.lags.get(process)?;
        let next = self.store.since(version).first()?;
        Some(next.at + lag.at_most)
    }

    /// Numbers a call.
    pub(crate) fn number_call(&mut self, mut point: CallPoint) -> CallPoint {
        let alike = (
            point.user.clone(),
            point.verb,
            point.resource.clone(),
            point.subresource.clone(),
            point.namespace.clone(),
            point.name.clone(),
        );
        point.nth = count(&mut self.calls_alike, alike);
        point.index = count(&mut self.calls, point.process.clone());
        point
    }

    /// The fault point of a line of a watch.
    pub(crate) fn event_point(
        &mut self,
        caller: &Caller,
        resource: &str,
        kind: EventKind,
        (namespace, name): (&str, &str),
    ) -> EventPoint {
        let alike = (
            caller.user.clone(),
            resource.to_owned(),
            kind,
            namespace.to_owned(),
            name.to_owned(),
        );
        EventPoint {
            process: caller.process.clone(),
            user: caller.user.clone(),
            resource: resource.to_owned(),
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            nth: count(&mut self.events_alike, alike),
        }
    }
}

/// The earlier count of the key.
fn count<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) -> usize {
    let count = counts.entry(key).or_default();
    *count += 1;
    *count - 1
}
