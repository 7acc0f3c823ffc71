//! The objects of one kind that a policy names.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::access_policy::ObjectKind;
use kube::core::ApiResource;
use serde_json::{Value, json};
use service_kit::watches::Unreadable;

use super::{State, Wakes};
use crate::{api::Name, check_kinds};

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
    /// Those that can, by namespace and name.
    objects: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
    /// Of those that are too large to be checks, or cannot be read, what selects them: they are there.
    useless: BTreeMap<Name, Arc<Value>>,
}

impl KindCache {
    /// Nothing is known yet.
    #[must_use]
    pub fn starting() -> Self {
        Self {
            state: KindState::Starting,
            objects: BTreeMap::new(),
            useless: BTreeMap::new(),
        }
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects
            .get(namespace)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// What is known of the objects of a namespace that say nothing.
    pub fn useless_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<Value>> {
        let all = self.useless.iter();
        all.filter(move |(name, _)| name.namespace == namespace)
            .map(|(_, it)| it)
    }

    /// Whether an object is there and says nothing.
    #[must_use]
    pub fn is_useless(&self, name: &Name) -> bool {
        self.useless.contains_key(name)
    }

    /// One object.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&Arc<Value>> {
        self.objects.get(&name.namespace)?.get(&name.name)
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
                cache.objects.clear();
                cache.useless.clear();
            }
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
        object: Option<Result<Value, Unreadable>>,
    ) -> Wakes {
        let Some(cache) = self.kinds.get_mut(kind) else {
            return Wakes::new();
        };
        cache.useless.remove(name);
        let object = match object {
            Some(Ok(object)) if !check_kinds::is_too_large(&object) => Some(object),
            Some(says_nothing) => {
                let object = says_nothing.unwrap_or_else(|it| json!({"metadata": it.metadata}));
                let labels = check_kinds::only_labels(&object).unwrap_or_default();
                cache.useless.insert(name.clone(), Arc::new(labels));
                None
            }
            None => None,
        };
        let objects = cache.objects.entry(name.namespace.clone()).or_default();
        match object {
            Some(object) => objects.insert(name.name.clone(), Arc::new(object)),
            None => objects.remove(&name.name),
        };
        if objects.is_empty() {
            cache.objects.remove(&name.namespace);
        }
        let concerned: Vec<_> = self
            .requests
            .of_pod_namespace(&name.namespace)
            .filter(|it| self.requests.is_open(it) && self.looks_at(it, kind, name))
            .cloned()
            .collect();
        self.requests.wakes(concerned)
    }

    /// Whether an object can matter to a request: as evidence, or by a policy that names its kind.
    fn looks_at(&self, request: &Name, kind: &ObjectKind, object: &Name) -> bool {
        let is_evidence = || {
            let request = self.requests.readable(request)?;
            let refs = request.status.iter().flat_map(|status| &status.policies);
            let mut refs = refs
                .flat_map(|entry| &entry.check_refs)
                .filter_map(|it| it.ref_.as_ref());
            Some(refs.any(|it| {
                it.kind == kind.kind && it.api_version == kind.api_version && it.name == object.name
            }))
        };
        let is_named = || {
            self.policies
                .get(&request.namespace)
                .into_iter()
                .flat_map(BTreeMap::values)
                .filter_map(|it| it.policy.as_ref().ok())
                .filter_map(|it| it.policy.spec.check_granted_permission.as_ref())
                .flat_map(|it| &it.spec.checks)
                .any(|check| check.selector.object_ref == *kind)
        };
        if self.requests.holds(request) {
            is_evidence().unwrap_or(true)
        } else {
            is_named()
        }
    }

    /// Every kind that a policy names, or that something granted was decided on.
    #[must_use]
    pub fn wanted_kinds(&self) -> std::collections::BTreeSet<ObjectKind> {
        let policies = self.policies.values().flat_map(BTreeMap::values);
        let named = policies
            .filter_map(|it| it.policy.as_ref().ok())
            .filter_map(|it| it.policy.spec.check_granted_permission.as_ref())
            .flat_map(|it| &it.spec.checks)
            .map(|check| check.selector.object_ref.clone());
        let requests = self.requests.all();
        let held = requests
            .iter()
            .filter(|it| self.requests.holds(it))
            .filter_map(|it| self.requests.readable(it))
            .filter_map(|it| it.status.as_ref())
            .flat_map(|it| &it.policies)
            .flat_map(|it| &it.check_refs)
            .filter_map(|it| it.ref_.as_ref())
            .map(|it| ObjectKind {
                api_version: it.api_version.clone(),
                kind: it.kind.clone(),
            });
        named.chain(held).collect()
    }
}
