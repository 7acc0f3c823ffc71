//! Access requests by their tuple.
//!
//! A search allocates nothing. Tenants choose names and make many requests. So hashes have a random key, and the
//! requests of one tuple are in one place.

mod known;
mod tuple;

use std::hash::BuildHasher;
use std::iter::once;
use std::sync::Arc;

use connectors_api::{AccessRequest, Permission};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

pub use known::{KnownPolicy, KnownRequest};
pub use tuple::{Tuple, TupleRef};

/// The parts of all requests with a tuple that decisions need.
#[derive(Debug, Default)]
pub struct KnownRequests {
    hashing: RandomState,
    by_name: HashTable<Arc<KnownRequest>>,
    by_tuple: HashTable<Rivals>,
}

/// Requests of one tuple, nearly always one.
#[derive(Debug)]
struct Rivals {
    first: Arc<KnownRequest>,
    others: Vec<Arc<KnownRequest>>,
}

impl KnownRequests {
    /// Takes the present version of a request. Returns its old and new tuples.
    pub fn apply(&mut self, request: AccessRequest) -> Vec<Tuple> {
        let metadata = &request.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
            return Vec::new();
        };
        let old = self.delete(namespace, name);
        let new = KnownRequest::read(request).map(|request| {
            let tuple = request.tuple.clone();
            self.insert(request);
            tuple
        });
        let new = new.filter(|new| old.as_ref() != Some(new));
        old.into_iter().chain(new).collect()
    }

    /// Forgets a request. Returns its tuple.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Tuple> {
        let key = (namespace, name);
        let hash = self.hashing.hash_one(key);
        let found = self.by_name.find_entry(hash, |it| it.key() == key).ok()?;
        let (request, _) = found.remove();
        let about = request.tuple.about();
        let hash = self.hashing.hash_one(about);
        let found = self.by_tuple.find_entry(hash, |it| it.about() == about);
        if let Ok(mut found) = found
            && found.get_mut().is_empty_without(&request)
        {
            found.remove();
        }
        Some(Arc::unwrap_or_clone(request).tuple)
    }

    /// Takes all requests, as a new list shows them.
    pub fn reset(&mut self, requests: impl IntoIterator<Item = KnownRequest>) {
        *self = Self::default();
        for request in requests {
            self.delete(&request.tuple.namespace, &request.name);
            self.insert(request);
        }
    }

    /// Takes a request whose name is not used.
    fn insert(&mut self, request: KnownRequest) {
        let Self {
            hashing,
            by_name,
            by_tuple,
        } = self;
        let request = Arc::new(request);
        let about = request.tuple.about();
        let hash = hashing.hash_one(about);
        let is_same = |it: &Rivals| it.about() == about;
        match by_tuple.entry(hash, is_same, |it| hashing.hash_one(it.about())) {
            Entry::Occupied(mut found) => found.get_mut().others.push(Arc::clone(&request)),
            Entry::Vacant(free) => {
                free.insert(Rivals {
                    first: Arc::clone(&request),
                    others: Vec::new(),
                });
            }
        }
        let hash = hashing.hash_one(request.key());
        by_name.insert_unique(hash, request, |it| hashing.hash_one(it.key()));
    }

    /// The requests that decide for pods that want this of a connector.
    pub fn deciding_for<'a>(
        &'a self,
        namespace: &'a str,
        connector: &'a str,
        permission: Permission,
    ) -> impl Iterator<Item = &'a KnownRequest> {
        let is_for = move |rivals: &&Rivals| {
            let tuple = &rivals.first.tuple;
            tuple.permission == permission
                && *tuple.connector == *connector
                && *tuple.namespace == *namespace
        };
        let rivals = self.by_tuple.iter().filter(is_for);
        rivals.filter_map(Rivals::deciding)
    }

    /// How many entries each map has.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 2] {
        let Self {
            hashing: _,
            by_name,
            by_tuple,
        } = self;
        [by_name.len(), by_tuple.len()]
    }

    /// The request that decides about a tuple.
    #[must_use]
    pub fn deciding(&self, about: TupleRef<'_>) -> Option<&KnownRequest> {
        let hash = self.hashing.hash_one(about);
        let rivals = self.by_tuple.find(hash, |it| it.about() == about);
        rivals.and_then(Rivals::deciding)
    }
}

impl Rivals {
    fn about(&self) -> TupleRef<'_> {
        self.first.tuple.about()
    }

    /// A request that is being deleted counts as deleted, because its controller ignores it as well.
    fn deciding(&self) -> Option<&KnownRequest> {
        let all = once(&self.first).chain(&self.others).map(AsRef::as_ref);
        all.filter(|it| !it.is_deleting)
            .min_by_key(|it| (it.rank(), &it.name))
    }

    /// Removes a request. True when it is the last.
    fn is_empty_without(&mut self, request: &Arc<KnownRequest>) -> bool {
        if !Arc::ptr_eq(&self.first, request) {
            self.others.retain(|it| !Arc::ptr_eq(it, request));
            return false;
        }
        match self.others.pop() {
            Some(other) => {
                self.first = other;
                false
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests;
