//! The managed Roles and RoleBindings, as digests: the request says what they should be, so only whether they are that
//! must be known.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::{labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::index::{Index, add, own_key, take};
use crate::{
    api::Name,
    grant_digest::GrantDigest,
    seen::{GrantKind, Managed, ManagedObject, Unread},
};

/// A managed object as the cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptGrant {
    uid: Option<Box<str>>,
    /// The UID of its request, from its label.
    request: Arc<str>,
    is_ours: bool,
    /// Since when it is being deleted, and its finalizers.
    going: Option<Box<(Time, Option<Vec<String>>)>>,
    /// The digest of its content; none if it is unreadable.
    content: Result<GrantDigest, Unread>,
}

impl KeptGrant {
    /// Keeps a managed object of the request with this UID.
    #[must_use]
    pub fn of(grant: &Managed, request: Arc<str>) -> Self {
        let ObjectMeta {
            uid,
            deletion_timestamp,
            finalizers,
            ..
        } = &grant.metadata;
        Self {
            uid: uid.as_deref().map(Box::from),
            request,
            is_ours: grant.is_ours(),
            going: deletion_timestamp
                .clone()
                .map(|since| Box::new((since, finalizers.clone()))),
            content: grant.digest(),
        }
    }

    /// The UID of its request; empty if its label has none.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The object of this kind and name, as far as it is kept.
    #[must_use]
    pub fn managed(&self, kind: GrantKind, name: &Name) -> Managed {
        let mut labels = BTreeMap::new();
        if self.is_ours {
            labels.insert(labels::MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned());
        }
        if !self.request.is_empty() {
            let uid = self.request.as_ref().to_owned();
            labels.insert(labels::ACCESS_REQUEST_UID.to_owned(), uid);
        }
        let (since, finalizers) = self.going.as_deref().cloned().unzip();
        Managed {
            object: ManagedObject::Kept(kind, self.content),
            metadata: ObjectMeta {
                name: Some(name.name.clone()),
                namespace: Some(name.namespace.clone()),
                uid: self.uid.as_deref().map(str::to_owned),
                labels: Some(labels),
                deletion_timestamp: since,
                finalizers: finalizers.flatten(),
                ..ObjectMeta::default()
            },
        }
    }
}

/// The managed objects of all requests.
#[derive(Debug, Default)]
pub struct GrantCache {
    /// By kind. Each object is boxed, because a node of the tree has room for eleven entries and is half full.
    all: BTreeMap<Name, [Option<Box<KeptGrant>>; 2]>,
    /// Their names by the UID of the request in their label.
    of_request: Index<Arc<str>, Name>,
}

impl GrantCache {
    /// The object of this kind and name.
    #[must_use]
    pub fn get(&self, kind: GrantKind, name: &Name) -> Option<Managed> {
        let kept = self.all.get(name)?[kind as usize].as_ref()?;
        Some(kept.managed(kind, name))
    }

    /// True when there is an object of this kind and name.
    #[must_use]
    pub fn has(&self, kind: GrantKind, name: &Name) -> bool {
        let both = self.all.get(name);
        both.is_some_and(|it| it[kind as usize].is_some())
    }

    /// The copy of the UID of a request that its objects have.
    pub(super) fn known_uid(&self, request: &str) -> Option<Arc<str>> {
        own_key(&self.of_request, request)
    }

    /// The objects of the request with this UID, RoleBindings first.
    #[must_use]
    pub fn of_request(&self, uid: &str) -> Vec<(GrantKind, Name)> {
        let names = || self.of_request.get(uid).into_iter().flatten();
        let of = |kind: GrantKind| {
            let has = move |name: &&Name| {
                let kept = self
                    .all
                    .get(*name)
                    .and_then(|it| it[kind as usize].as_ref());
                kept.is_some_and(|it| it.request.as_ref() == uid)
            };
            names().filter(has).map(move |it| (kind, it.clone()))
        };
        GrantKind::ALL.into_iter().flat_map(of).collect()
    }

    /// Every object.
    pub fn all(&self) -> impl Iterator<Item = Managed> {
        self.all.iter().flat_map(|(name, both)| {
            let kinds = GrantKind::ALL.into_iter();
            kinds.filter_map(move |kind| Some(both[kind as usize].as_ref()?.managed(kind, name)))
        })
    }

    /// The number of objects.
    #[must_use]
    pub fn count(&self) -> usize {
        let both = self.all.values().flat_map(|it| it.iter());
        both.flatten().count()
    }

    /// An object was added, changed or deleted. Returns the UID in the label that it had. `known` gives the copy of a UID that
    /// its request has.
    pub(super) fn set(
        &mut self,
        kind: GrantKind,
        name: &Name,
        grant: Option<&Managed>,
        known: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Arc<str>> {
        let (name, mut both) = self
            .all
            .remove_entry(name)
            .unwrap_or_else(|| (name.clone(), Default::default()));
        let before = both[kind as usize].take();
        if let Some(before) = &before {
            let other = both.iter().flatten();
            if other.filter(|it| it.request == before.request).count() == 0 {
                take(&mut self.of_request, &before.request, &name);
            }
        }
        if let Some(grant) = grant {
            let request = grant.label(labels::ACCESS_REQUEST_UID).unwrap_or_default();
            // The key of the index, both objects and the request share one copy.
            let own = self.known_uid(request).or_else(|| known(request));
            let request = own.unwrap_or_else(|| request.into());
            add(&mut self.of_request, Arc::clone(&request), name.clone());
            both[kind as usize] = Some(Box::new(KeptGrant::of(grant, request)));
        }
        if both.iter().any(Option::is_some) {
            self.all.insert(name, both);
        }
        before.map(|it| it.request)
    }

    /// The number of entries of each map.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 2] {
        let names = self.of_request.values().flatten();
        [self.count(), names.count()]
    }
}
