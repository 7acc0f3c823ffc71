//! The objects of one kind: all that checks may find by their labels, or those by name that requests depend on.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use connectors_api::{access_policy::ObjectKind, template::RenderedLabels};
use kube::core::ApiResource;
use service_kit::watches::Unreadable;

use super::{
    Job, Link, State, Wakes,
    kind_objects::{KindObject, KindObjects},
    sought::ObjectChange,
};
use crate::{api::Name, check_object::CheckObject};

/// The limit of bytes for all kinds in all namespaces.
const MOST_OF_ALL: usize = 128 * 1024 * 1024;
/// Which objects of a kind the cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeps {
    /// Those that a request depends on: of the runs of pipelines that no request asks about, only the watch keeps the names.
    Linked,
    /// All, because checks find them by their labels.
    All,
}

/// Whether objects of a kind can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// Not known yet.
    Starting,
    /// The objects are watched, and the first list is complete.
    Watching(ApiResource),
    /// The kind exists, and the first list is not complete.
    Listing(ApiResource),
    /// The kind does not exist.
    Missing,
    /// Reading the kind is forbidden.
    Forbidden {
        /// Its name in role rules.
        plural: String,
        /// Its group in role rules.
        group: String,
    },
    /// The kind is not namespaced.
    NotNamespaced,
    /// The controller reads the kind for its own work, so it is never read as a check.
    Refused,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct KindCache {
    /// Whether the objects can be read.
    pub state: KindState,
    keeps: Keeps,
    /// The objects by namespace.
    namespaces: BTreeMap<String, KindObjects>,
}

impl KindCache {
    /// A cache of a kind that is not known yet.
    #[must_use]
    pub const fn starting(keeps: Keeps) -> Self {
        Self {
            state: KindState::Starting,
            keeps,
            namespaces: BTreeMap::new(),
        }
    }

    /// The objects of a namespace with these labels. None if they are not cached.
    #[must_use]
    pub fn with_labels(
        &self,
        namespace: &str,
        labels: &RenderedLabels,
    ) -> Option<Vec<&Arc<CheckObject>>> {
        if !self.keeps(namespace) {
            return None;
        }
        let objects = self.namespaces.get(namespace);
        let found = objects.into_iter().flat_map(|it| it.with_one_of(labels));
        Some(
            found
                .filter(|it| labels.match_found(|key| it.label(key)))
                .collect(),
        )
    }

    /// True when all objects of a namespace are cached. Otherwise they are listed live.
    #[must_use]
    pub fn keeps(&self, namespace: &str) -> bool {
        let objects = self.namespaces.get(namespace);
        self.keeps == Keeps::All && objects.is_none_or(KindObjects::are_kept)
    }

    /// One object. None if the cache does not know.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&KindObject> {
        let objects = self.namespaces.get(&name.namespace);
        if objects.is_some_and(|it| !it.are_kept()) {
            return None;
        }
        let object = objects.and_then(|it| it.get(&name.name));
        object.or((self.keeps == Keeps::All).then_some(&KindObject::Gone))
    }

    /// The number of objects of a namespace. None if they are not cached.
    #[cfg(test)]
    pub(super) fn count(&self, namespace: &str) -> Option<usize> {
        let objects = self.namespaces.get(namespace);
        self.keeps(namespace)
            .then(|| objects.map_or(0, KindObjects::count))
    }

    /// The approximate size of all objects.
    pub(super) fn weight(&self) -> usize {
        self.namespaces.values().map(KindObjects::weight).sum()
    }

    /// The namespace with the largest objects, and their size.
    fn heaviest(&self) -> Option<(usize, &String)> {
        let weights = self.namespaces.iter().map(|(name, it)| (it.weight(), name));
        weights.max()
    }

    fn overflow(&mut self, namespace: &str) {
        if let Some(objects) = self.namespaces.get_mut(namespace) {
            objects.overflow();
        }
    }

    /// A list of all objects begins. Namespaces above the limit are cached again if their objects fit now.
    fn begin(&mut self) {
        self.namespaces.retain(|_, it| it.are_kept());
    }

    fn put(&mut self, name: &Name, object: KindObject) {
        let objects = self.namespaces.entry(name.namespace.clone()).or_default();
        objects.put(name, object, self.keeps);
    }

    /// Drops what is known of an object.
    fn forget(&mut self, name: &Name) {
        let Entry::Occupied(mut objects) = self.namespaces.entry(name.namespace.clone()) else {
            return;
        };
        objects.get_mut().take_out(&name.name);
        if objects.get().is_empty() && objects.get().are_kept() {
            objects.remove();
        }
    }
}

impl State {
    /// A watch of a kind begins.
    pub fn begin_kind(&mut self, kind: &ObjectKind, keeps: Keeps) {
        let cache = KindCache::starting(keeps);
        self.kinds.insert(kind.clone(), cache);
    }

    /// No check selects among all objects of a kind any more.
    pub fn narrow_kind(&mut self, kind: &ObjectKind) {
        let Some(cache) = self.kinds.get_mut(kind) else {
            return;
        };
        cache.keeps = Keeps::Linked;
        for objects in cache.namespaces.values_mut() {
            objects.narrow(|name| self.links.of_object(kind, name).next().is_some());
        }
        cache.namespaces.retain(|_, it| !it.is_empty());
    }

    /// Records the new state of a kind.
    pub fn kind(&mut self, kind: &ObjectKind, state: KindState) -> Wakes {
        let cache = self
            .kinds
            .entry(kind.clone())
            .or_insert_with(|| KindCache::starting(Keeps::All));
        if cache.state == state {
            return Wakes::new();
        }
        match &state {
            KindState::Watching(_) | KindState::Listing(_) => {}
            KindState::Starting
            | KindState::Missing
            | KindState::Forbidden { .. }
            | KindState::NotNamespaced
            | KindState::Refused => {
                cache.namespaces.clear();
            }
        }
        if matches!(&state, KindState::Listing(_)) {
            cache.begin();
        }
        cache.state = state;
        // Every author of policies can name new kinds, and must not cause a look at all requests. The kinds between pods
        // and approvals are the installation's.
        let is_of_all = self.policies.kinds_between().any(|it| it == *kind);
        let all = self.requests.all().into_iter();
        let open = all.filter(|it| self.requests.is_open(it));
        let open: Vec<_> = open.collect();
        let naming = self.namespaces_about(kind, &open);
        let concerned = open.iter().filter(|it| {
            is_of_all || naming.contains(it.namespace.as_str()) || self.may_rest_on(it, kind)
        });
        let concerned: Vec<_> = concerned.cloned().collect();
        self.requests.wakes(concerned)
    }

    /// Removes a kind that no policy names any more.
    pub fn forget_kind(&mut self, kind: &ObjectKind) {
        self.kinds.remove(kind);
    }

    /// An object of a kind was added, changed or deleted.
    pub fn object(
        &mut self,
        kind: &ObjectKind,
        name: &Name,
        object: Option<Result<CheckObject, Unreadable>>,
    ) -> Wakes {
        let Some(cache) = self.kinds.get_mut(kind) else {
            return Wakes::new();
        };
        if cache.keeps == Keeps::Linked {
            return self.linked_object(kind, name, object);
        }
        let object = KindObject::of(object);
        let before = cache.get(name).cloned();
        match &object {
            KindObject::Gone => cache.forget(name),
            KindObject::There(_) | KindObject::Unreadable => cache.put(name, object.clone()),
        }
        self.bound_objects();
        let change = match (&before, &object) {
            (None | Some(KindObject::Unreadable), _) | (_, KindObject::Unreadable) => {
                ObjectChange::Unknown
            }
            (Some(before), after) => {
                ObjectChange::Known([before, after].map(|it| it.there().map(Arc::as_ref)))
            }
        };
        let waiting = self.sought.candidates(kind, &name.namespace, &change);
        let naming = self.namespaces_about(kind, waiting.iter().copied());
        let waiting = waiting.into_iter().filter(|it| {
            naming.contains(it.namespace.as_str()) && self.sought.concerns(it, kind, &change)
        });
        let concerned = self.requests.resting_on(kind, name).chain(waiting);
        let mut concerned: Vec<_> = concerned.cloned().collect();
        concerned.extend(self.links.of_object(kind, name).cloned());
        self.requests.wakes(concerned)
    }

    /// The same of a kind whose objects no check finds by their labels.
    fn linked_object(
        &mut self,
        kind: &ObjectKind,
        name: &Name,
        object: Option<Result<CheckObject, Unreadable>>,
    ) -> Wakes {
        let concerned: Vec<_> = self.links.of_object(kind, name).cloned().collect();
        if let Some(cache) = self.kinds.get_mut(kind) {
            if concerned.is_empty() {
                cache.forget(name);
            } else {
                cache.put(name, KindObject::of(object));
                self.bound_objects();
            }
        }
        self.requests.wakes(concerned)
    }

    /// An object was read live, because nothing was known of it. What the watch has brought meanwhile is newer.
    pub fn read_object(&mut self, kind: &ObjectKind, name: &Name, object: KindObject) {
        let is_linked = self.links.of_object(kind, name).next().is_some();
        let cache = self.kinds.get_mut(kind);
        let Some(cache) = cache.filter(|it| is_linked && it.keeps == Keeps::Linked) else {
            return;
        };
        if cache.get(name).is_none() {
            cache.put(name, object);
            self.bound_objects();
        }
    }

    /// A request depends on no other objects than these any more. When no request depends on objects of a namespace, they
    /// fit again.
    pub fn depends_on(&mut self, request: &Name, is_needed: impl Fn(&Link) -> bool) {
        for Link { kind, name } in self.links.retain(request, is_needed) {
            let cache = self.kinds.get_mut(&kind);
            if let Some(cache) = cache.filter(|it| it.keeps == Keeps::Linked) {
                cache.forget(&name);
                if !self.links.are_in(&kind, &name.namespace) {
                    cache.namespaces.remove(&name.namespace);
                }
            }
        }
    }

    /// The granted requests for which another policy may grant as well now. Unlike a first grant this is not urgent,
    /// so they are reconciled some time after the change of the object, however many there are.
    #[must_use]
    pub fn may_get_more(&self, kind: &ObjectKind, name: &Name) -> Vec<Job> {
        let is_linked = |it: &KindCache| it.keeps == Keeps::Linked;
        if self.kinds.get(kind).is_some_and(is_linked) {
            return Vec::new();
        }
        let awaiting: Vec<_> = self.requests.awaiting_more(&name.namespace).collect();
        let naming = self.namespaces_about(kind, awaiting.iter().copied());
        let concerned = awaiting
            .into_iter()
            .filter(|it| naming.contains(it.namespace.as_str()));
        concerned.cloned().map(Job::Request).collect()
    }

    /// Above the total limit, the largest namespace is no longer cached.
    fn bound_objects(&mut self) {
        while self.kinds.values().map(KindCache::weight).sum::<usize>() > MOST_OF_ALL {
            let kinds = self.kinds.values_mut();
            let Some(kind) = kinds.max_by_key(|it| it.heaviest().map(|(weight, _)| weight)) else {
                return;
            };
            let Some((_, namespace)) = kind.heaviest() else {
                return;
            };
            let namespace = namespace.clone();
            kind.overflow(&namespace);
        }
    }

    /// True when objects of a kind may be evidence of the request's grant.
    fn may_rest_on(&self, request: &Name, kind: &ObjectKind) -> bool {
        let cached = self.requests.get(request);
        cached.is_none_or(|it| it.request.is_err() || it.kinds.contains_key(kind))
    }

    /// The namespaces of these requests in which a policy has a check about a kind. Computed once for each: a namespace
    /// may have many policies, and its pods many requests.
    fn namespaces_about<'a>(
        &self,
        kind: &ObjectKind,
        requests: impl IntoIterator<Item = &'a Name>,
    ) -> BTreeSet<&'a str> {
        let namespaces = requests.into_iter().map(|it| it.namespace.as_str());
        let namespaces: BTreeSet<_> = namespaces.collect();
        let named = |it: &&str| self.policies.kinds_in(it).any(|it| it == kind);
        namespaces.into_iter().filter(named).collect()
    }

    /// Every kind that a policy names, that a proof of its checks reads, or that is evidence of a request with a grant;
    /// and which of its objects are needed.
    #[must_use]
    pub fn wanted_kinds(&self) -> BTreeMap<ObjectKind, Keeps> {
        let named = self.policies.kinds().cloned();
        let named = named.map(|it| (it, Keeps::All));
        let between = self.policies.kinds_between();
        let between = between.map(|it| (it, Keeps::Linked));
        let held = self.requests.held_kinds();
        let held = held.map(|(kind, keeps)| (kind.clone(), keeps));
        let mut wanted = BTreeMap::new();
        for (kind, keeps) in named.chain(between).chain(held) {
            let known = wanted.entry(kind).or_insert(keeps);
            *known = keeps.max(*known);
        }
        wanted
    }
}

#[cfg(test)]
mod tests;
