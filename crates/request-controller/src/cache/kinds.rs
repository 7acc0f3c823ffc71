//! The objects of one kind that a policy names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::access_policy::ObjectKind;
use kube::core::ApiResource;
use service_kit::watches::Unreadable;

use super::{Job, State, Wakes};
use crate::{api::Name, check_object::CheckObject};

/// What is kept of the objects of one kind in one namespace, in bytes: some thousand approvals. Above it nothing is
/// kept of them, and each look at that namespace's pods reads what it needs from the API server.
pub(crate) const MOST_OF_NAMESPACE: usize = 8 * 1024 * 1024;
/// What is kept of all kinds in all namespaces.
const MOST_OF_ALL: usize = 128 * 1024 * 1024;
/// What the name of an object takes that cannot be read, about.
const UNREADABLE: usize = 64;

/// Whether objects of a kind can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// It is being found out.
    Starting,
    /// They are watched, and the first list is complete.
    Watching(ApiResource),
    /// The kind exists, the first list is not complete.
    Listing(ApiResource),
    /// There is no such kind.
    Missing,
    /// It may not be read.
    Forbidden {
        /// Its name in role rules.
        plural: String,
        /// Its group in role rules.
        group: String,
    },
    /// Its objects are in no namespace.
    NotNamespaced,
    /// It is read for other things, and never as a check.
    Refused,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct KindCache {
    /// Whether they can be read.
    pub state: KindState,
    /// By namespace.
    namespaces: BTreeMap<String, Objects>,
}

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, Default)]
struct Objects {
    all: BTreeMap<String, Arc<CheckObject>>,
    /// Objects that are there and cannot be read: nothing is known of them, not even their labels.
    unreadable: BTreeSet<String>,
    weight: usize,
    /// There were more than are kept, and none is: they have to be read from the API server.
    overflowed: bool,
}

/// Whether an object of the evidence is there.
#[derive(Debug)]
pub enum Kept<'a> {
    /// As it is.
    There(&'a CheckObject),
    /// It is there and cannot be read.
    Unreadable,
    /// It is not there.
    Gone,
    /// The namespace has more objects than are kept.
    NotKept,
}

impl KindCache {
    /// Nothing is known yet.
    #[must_use]
    pub fn starting() -> Self {
        Self {
            state: KindState::Starting,
            namespaces: BTreeMap::new(),
        }
    }

    /// The objects of a namespace. None if there are more than are kept.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Option<Vec<&Arc<CheckObject>>> {
        match self.namespaces.get(namespace) {
            Some(objects) if objects.overflowed => None,
            Some(objects) => Some(objects.all.values().collect()),
            None => Some(Vec::new()),
        }
    }

    /// Whether the objects of a namespace are kept. Those of one that has too many are read when they are needed.
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

    /// What all objects take, about.
    pub(super) fn weight(&self) -> usize {
        self.namespaces.values().map(|it| it.weight).sum()
    }

    /// The namespace whose objects take most, and how much.
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

    /// A list of all objects begins: what was left out may be there again.
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
    /// Whether objects of a kind can be read has changed.
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

    /// No policy names a kind any more.
    pub fn forget_kind(&mut self, kind: &ObjectKind) {
        self.kinds.remove(kind);
    }

    /// An object of a kind is there, has changed, or is gone.
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
        // Once for each namespace: one may have as many policies as it may, and the pods here as many requests.
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
        let concerned: Vec<_> = concerned.cloned().collect();
        self.requests.wakes(concerned)
    }

    /// The requests beside whose grant another policy may grant now. Nobody waits for that as for the first one: they are
    /// looked at some time after such an object, however many there are.
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

    /// Above the total, the namespace that has most is read live.
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

    /// Whether an object may be evidence of what a request was granted.
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

    /// Every kind that a policy names, or that something granted was decided on.
    #[must_use]
    pub fn wanted_kinds(&self) -> std::collections::BTreeSet<ObjectKind> {
        let named = self.policies.kinds().cloned();
        let requests = self.requests.all();
        let held = requests
            .iter()
            .filter(|it| self.requests.holds(it))
            .filter_map(|it| self.requests.get(it))
            .flat_map(|it| it.kinds.iter().cloned());
        named.chain(held).collect()
    }
}
