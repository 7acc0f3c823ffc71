//! The handle of a server for tests.

use std::{
    fmt,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::{Client, client::Body};
use serde_json::Value;

use crate::{
    caller::Caller,
    create,
    delete::{self, Options},
    event_view,
    faults::Faults,
    garbage,
    kind::Kind,
    record::Entry,
    reviews::{self, TokenFacts},
    serve,
    state::{Shared, State},
    store::Key,
    update,
};

/// An API server. Clones are handles of the same one.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// The limits of how far behind the API server of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// A change becomes visible when there are this many newer ones.
    pub versions: u64,
    /// It becomes visible after this time at the latest.
    pub at_most: Duration,
}

impl ApiServer {
    /// A server with only the standard namespaces, at this time of day.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let server = Self(Arc::new(Shared::new(start)));
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            server.create(serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            }));
        }
        server
    }

    /// A client for a process. Needs a tokio runtime.
    #[must_use]
    pub fn client(&self, caller: &Caller) -> Client {
        let (shared, caller) = (self.0.clone(), caller.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            serve::serve(shared.clone(), caller.clone(), request)
        });
        Client::new(service, "default")
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Arc<dyn Faults>) {
        self.lock().faults = faults;
    }

    /// From now on no call of that process is executed or answered: its calls hang, its watches are silent.
    /// It stays dead; its successor is a process with another name.
    pub fn kill(&self, process: &str) {
        self.0.kill(process);
    }

    /// Registers a kind. It replaces one of the same group, version and plural.
    pub fn register(&self, kind: Kind) {
        let mut state = self.lock();
        state
            .store
            .kinds
            .retain(|it| !(it.is_plural(&kind.group, &kind.plural) && it.version == kind.version));
        state.store.kinds.push(kind);
    }

    /// Removes a kind with its objects. Its watches end.
    pub fn unregister(&self, plural: &str, group: &str) {
        let mut state = self.lock();
        let is_it = |key: &&Key| key.group == group && key.plural == plural;
        let keys: Vec<_> = state.store.objects.keys().filter(is_it).cloned().collect();
        for key in &keys {
            state.store.remove(key, garbage::CLUSTER);
        }
        state.store.kinds.retain(|it| !it.is_plural(group, plural));
        let place = (group.to_owned(), plural.to_owned());
        *state.gone.entry(place).or_default() += 1;
        drop(state);
        self.changed();
    }

    /// Makes the backend of a kind unavailable: from now on each call about its objects is answered with 503,
    /// as for an aggregated API server that is down.
    pub fn take_away(&self, plural: &str, group: &str) {
        let place = (group.to_owned(), plural.to_owned());
        self.lock().away.insert(place);
    }

    /// Makes the backend available again.
    pub fn bring_back(&self, plural: &str, group: &str) {
        let place = (group.to_owned(), plural.to_owned());
        self.lock().away.remove(&place);
    }

    /// The server's wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().store.clock.wall()
    }

    /// Moves the wall clock; tokio's is not affected.
    pub fn jump(&self, by: SignedDuration) {
        self.lock().store.clock.jump(by);
    }

    /// All entries since the start, in order.
    #[must_use]
    pub fn log(&self) -> Vec<Entry> {
        self.log_since(0)
    }

    /// All entries but this many of the first.
    #[must_use]
    pub fn log_since(&self, entries: usize) -> Vec<Entry> {
        let state = self.lock();
        state.store.log.get(entries..).unwrap_or_default().to_vec()
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock().store.version()
    }

    /// Discards the history: nothing before the newest version can be listed, continued or watched from.
    pub fn compact(&self) {
        let mut state = self.lock();
        state.store.compacted = state.store.version();
    }

    /// Limits the objects in a page of a list, regardless of the requested limit, so that a list of few
    /// objects has several pages. A list without a limit is not affected.
    pub fn page_at_most(&self, objects: usize) {
        self.lock().store.most_of_a_page = objects;
    }

    /// Makes the server of a process lag behind. This affects its watches, and its reads that accept any
    /// version; all other reads are current.
    pub fn set_watch_lag(&self, process: &str, lag: Option<Lag>) {
        let mut state = self.lock();
        match lag {
            Some(lag) => state.lags.insert(process.to_owned(), lag),
            None => state.lags.remove(process),
        };
        drop(state);
        self.changed();
    }

    /// The delay of garbage collection: dependents are deleted this long after their owner, and a namespace
    /// is emptied this long after its deletion. None disables it. The default is one second.
    pub fn collect_garbage(&self, after: Option<Duration>) {
        self.lock().garbage_after = after;
        if after.is_some() {
            garbage::collect_soon(&self.0);
        }
    }

    /// Issues a token with these properties, which reviews accept. It has the form of one, and no valid signature.
    #[must_use]
    pub fn issue_token(&self, facts: TokenFacts) -> String {
        let mut state = self.lock();
        let token = reviews::text(&facts, state.store.serial());
        state.tokens.insert(token.clone(), facts);
        token
    }

    /// Creates an object as the cluster itself. Its status is kept, and its UID and creation time if it has any.
    ///
    /// # Panics
    /// When the server refuses.
    #[expect(
        clippy::must_use_candidate,
        reason = "most callers want only the effect"
    )]
    pub fn create(&self, object: Value) -> Value {
        let mut state = self.lock();
        let kind = kind_of(&state, &object);
        let namespace = crate::meta::text(&object, "namespace").to_owned();
        let created = create::create_as_cluster(&mut state.store, &kind, &namespace, object);
        drop(state);
        self.changed();
        created
            .unwrap_or_else(|refusal| panic!("not created: {}", refusal.status()))
            .as_ref()
            .clone()
    }

    /// An object. The plural may be followed by a dot and the group.
    #[must_use]
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.lock();
        let key = Key::new(&named(&state, plural), namespace, name);
        state.store.get(&key).map(|it| it.as_ref().clone())
    }

    /// All objects of a kind.
    #[must_use]
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let state = self.lock();
        let kind = named(&state, plural);
        let objects = state.store.of_kind(&kind, "");
        objects.map(|(_, it)| it.as_ref().clone()).collect()
    }

    /// Changes an object as the cluster itself, including its status.
    ///
    /// # Panics
    /// When there is no such object, or the server refuses.
    pub fn change(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut state = self.lock();
        let kind = named(&state, plural);
        let key = Key::new(&kind, namespace, name);
        let live = state.store.get(&key);
        let live = live.unwrap_or_else(|| panic!("no {plural} {namespace}/{name}"));
        let mut object = live.as_ref().clone();
        change(&mut object);
        let changed = update::change_as_cluster(&mut state.store, &kind, &key, object);
        drop(state);
        self.changed();
        if let Err(refusal) = changed {
            panic!("not changed: {}", refusal.status());
        }
    }

    /// Deletes an object as the cluster itself. With finalizers, it stays and is marked for deletion.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let mut state = self.lock();
        let kind = named(&state, plural);
        let key = Key::new(&kind, namespace, name);
        let now = Options::at_once();
        let deleted = delete::delete(&mut state.store, &kind, &key, &now, garbage::CLUSTER);
        drop(state);
        self.changed();
        if let Err(refusal) = deleted {
            panic!("not deleted: {}", refusal.status());
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.0.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn changed(&self) {
        self.0.changed.notify_waiters();
        garbage::collect_soon(&self.0);
    }
}

fn kind_of(state: &State, object: &Value) -> Kind {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = state.store.kinds.iter();
    let kind = kind
        .filter(|it| it.api_version() == api_version)
        .find(|it| object["kind"] == *it.kind && !event_view::is_view(it));
    kind.unwrap_or_else(|| panic!("no kind {} in {api_version}", object["kind"]))
        .clone()
}

fn named(state: &State, plural: &str) -> Kind {
    let mut kinds = state.store.kinds.iter();
    let kind = match plural.split_once('.') {
        Some((plural, group)) => kinds.find(|it| it.is_plural(group, plural)),
        None => kinds.find(|it| it.plural == plural && !event_view::is_view(it)),
    };
    kind.unwrap_or_else(|| panic!("no kind {plural}")).clone()
}
