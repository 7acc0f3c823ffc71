//! The objects of one kind that a policy names as checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::access_policy::ObjectKind;
use kube::core::ApiResource;
use service_kit::watches::Unreadable;

use super::{Job, State, Wakes};
use crate::{api::Name, check_object::CheckObject};

/// The limit of bytes for the objects of one kind in one namespace: enough for some thousand approvals. Above it the
/// cache keeps none of them, and each reconciliation for a pod of the namespace reads them live.
pub(crate) const MOST_OF_NAMESPACE: usize = 8 * 1024 * 1024;
/// The limit of bytes for all kinds in all namespaces.
const MOST_OF_ALL: usize = 128 * 1024 * 1024;
/// The approximate size of an entry for an unreadable object.
const UNREADABLE: usize = 64;

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
#[derive(Clone, Debug)]
pub struct KindCache {
    /// Whether the objects can be read.
    pub state: KindState,
    /// The objects by namespace.
    namespaces: BTreeMap<String, Objects>,
}

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, Default)]
struct Objects {
    all: BTreeMap<String, Arc<CheckObject>>,
    /// Unreadable objects: nothing is known of them, not even their labels.
    unreadable: BTreeSet<String>,
    weight: usize,
    /// The objects exceed the limit, so the cache keeps none, and they must be read live.
    overflowed: bool,
}

/// The state of an object of the evidence in the cache.
#[derive(Debug)]
pub enum Kept<'a> {
    /// The object exists.
    There(&'a Arc<CheckObject>),
    /// The object exists and is unreadable.
    Unreadable,
    /// The object does not exist.
    Gone,
    /// The objects of the namespace are not cached.
    NotKept,
}

impl KindCache {
    /// A cache of a kind that is not known yet.
    #[must_use]
    pub fn starting() -> Self {
        Self {
            state: KindState::Starting,
            namespaces: BTreeMap::new(),
        }
    }

    /// The objects of a namespace. None if they are not cached.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Option<Vec<&Arc<CheckObject>>> {
        match self.namespaces.get(namespace) {
            Some(objects) if objects.overflowed => None,
            Some(objects) => Some(objects.all.values().collect()),
            None => Some(Vec::new()),
        }
    }

    /// True when the objects of a namespace are cached. Otherwise they exceed the limit, and are read live.
    #[must_use]
    pub fn keeps(&self, namespace: &str) -> bool {
        self.namespaces
            .get(namespace)
            .is_none_or(|it| !it.overflowed)
    }

    /// One object.
    #[must_use]
    pub fn get(&self, name: &Name) -> Kept<'_> {
        let Some(objects) = self.namespaces.get(&name.namespace) else {
            return Kept::Gone;
        };
        match objects.all.get(&name.name) {
            _ if objects.overflowed => Kept::NotKept,
            Some(object) => Kept::There(object),
            None if objects.unreadable.contains(&name.name) => Kept::Unreadable,
            None => Kept::Gone,
        }
    }

    /// The approximate size of all objects.
    pub(super) fn weight(&self) -> usize {
        self.namespaces.values().map(|it| it.weight).sum()
    }

    /// The namespace with the largest objects, and their size.
    fn heaviest(&self) -> Option<(usize, &String)> {
        let weights = self.namespaces.iter().map(|(name, it)| (it.weight, name));
        weights.max()
    }

    fn overflow(&mut self, namespace: &str) {
        if let Some(objects) = self.namespaces.get_mut(namespace) {
            *objects = Objects {
                overflowed: true,
                ..Objects::default()
            };
        }
    }

    /// A list of all objects begins. Namespaces above the limit are cached again if their objects fit now.
    fn begin(&mut self) {
        self.namespaces.retain(|_, it| !it.overflowed);
    }

    fn put(&mut self, name: &Name, object: Option<Result<CheckObject, Unreadable>>) {
        let objects = self.namespaces.entry(name.namespace.clone()).or_default();
        if objects.overflowed {
            return;
        }
        let before = objects.all.remove(&name.name);
        objects.weight -= before.map_or(0, |it| it.weight());
        if objects.unreadable.remove(&name.name) {
            objects.weight -= name.name.len() + UNREADABLE;
        }
        match object {
            Some(Ok(object)) => {
                objects.weight += object.weight();
                objects.all.insert(name.name.clone(), Arc::new(object));
            }
            Some(Err(_)) => {
                objects.weight += name.name.len() + UNREADABLE;
                objects.unreadable.insert(name.name.clone());
            }
            None => {}
        }
        if objects.weight > MOST_OF_NAMESPACE {
            self.overflow(&name.namespace);
        } else if objects.all.is_empty() && objects.unreadable.is_empty() {
            self.namespaces.remove(&name.namespace);
        }
    }
}

impl State {
    /// Records the new state of a kind.
    pub fn kind(&mut self, kind: &ObjectKind, state: KindState) -> Wakes {
        let cache = self
            .kinds
            .entry(kind.clone())
            .or_insert_with(KindCache::starting);
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
        let all = self.requests.all().into_iter();
        let open: Vec<_> = all.filter(|it| self.requests.is_open(it)).collect();
        self.requests.wakes(open)
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
        cache.put(name, object);
        self.bound_objects();
        let of_pods = self.requests.of_pod_namespace(&name.namespace);
        let open: Vec<_> = of_pods.filter(|it| self.requests.is_open(it)).collect();
        // Computed once per namespace: a namespace may have many policies, and its pods many requests.
        let owners: BTreeSet<_> = open.iter().map(|it| it.namespace.as_str()).collect();
        let naming: BTreeSet<_> = owners
            .into_iter()
            .filter(|it| self.has_policy_about(it, kind))
            .collect();
        let concerned = open.into_iter().filter(|it| {
            if self.requests.holds(it) {
                self.rests_on(it, kind, name)
            } else {
                naming.contains(it.namespace.as_str())
            }
        });
        let mut concerned: Vec<_> = concerned.cloned().collect();
        concerned.extend(self.links.of_object(kind, name).cloned());
        self.requests.wakes(concerned)
    }

    /// The granted requests for which another policy may grant as well now. Unlike a first grant this is not urgent,
    /// so they are reconciled some time after the change of the object, however many there are.
    #[must_use]
    pub fn may_get_more(&self, kind: &ObjectKind, name: &Name) -> Vec<Job> {
        let of_pods = self.requests.of_pod_namespace(&name.namespace);
        let awaiting: Vec<_> = of_pods.filter(|it| self.requests.awaits_more(it)).collect();
        let owners: BTreeSet<_> = awaiting.iter().map(|it| it.namespace.as_str()).collect();
        let naming: BTreeSet<_> = owners
            .into_iter()
            .filter(|it| self.has_policy_about(it, kind))
            .collect();
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

    /// True when an object may be evidence of the request's grant.
    fn rests_on(&self, request: &Name, kind: &ObjectKind, object: &Name) -> bool {
        let Some(cached) = self.requests.get(request) else {
            return true;
        };
        if cached.lacks_evidence {
            return cached.kinds.contains(kind);
        }
        let Ok(request) = &cached.request else {
            return true;
        };
        let refs = request.status.iter().flat_map(|status| &status.policies);
        let mut refs = refs
            .flat_map(|entry| &entry.check_refs)
            .filter_map(|it| it.ref_.as_ref());
        refs.any(|it| {
            it.kind == kind.kind && it.api_version == kind.api_version && it.name == object.name
        })
    }

    /// Whether a policy of a namespace has a check about this kind.
    fn has_policy_about(&self, namespace: &str, kind: &ObjectKind) -> bool {
        self.policies.kinds_in(namespace).any(|it| it == kind)
    }

    /// Every kind that a policy names, that a proof of its checks reads, or that is evidence of a request with a grant.
    #[must_use]
    pub fn wanted_kinds(&self) -> std::collections::BTreeSet<ObjectKind> {
        let named = self.policies.kinds().cloned();
        let between = self.policies.kinds_between();
        let requests = self.requests.all();
        let held = requests
            .iter()
            .filter(|it| self.requests.holds(it))
            .filter_map(|it| self.requests.get(it))
            .flat_map(|it| it.kinds.iter().cloned());
        named.chain(between).chain(held).collect()
    }
}
