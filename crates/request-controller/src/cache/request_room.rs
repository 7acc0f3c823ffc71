//! The limit of bytes of long requests in the cache.
//!
//! A status names objects and policies that tenants write, up to the 1.5 MB that the API server stores. A long
//! request that is final or exceeds its share is cached without them, and read live for each reconciliation.

use std::collections::{BTreeMap, HashMap};

use connectors_api::{AccessRequest, access_policy::ObjectKind, opaque::Opaque};

use super::Keeps;
use crate::snapshot;

/// A request up to this size is cached as it is: the number of objects of a namespace is limited, so short requests
/// take little memory.
const SHORT: usize = 8 * 1024;
/// The limit of longer requests for the pods of one namespace.
const SHARE: usize = 8 * 1024 * 1024;
/// The limit of all longer requests.
const TOTAL: usize = 64 * 1024 * 1024;

/// The cached bytes, by the namespace of the pods.
#[derive(Debug, Default)]
pub(super) struct RequestRoom {
    kept: HashMap<String, usize>,
    total: usize,
}

impl RequestRoom {
    /// Reserves room for a request of that many bytes. Returns whether there was room.
    pub(super) fn take(&mut self, namespace: &str, bytes: usize) -> bool {
        let kept = self.kept.get(namespace).copied().unwrap_or_default();
        if kept + bytes > SHARE || self.total + bytes > TOTAL {
            return false;
        }
        self.kept.insert(namespace.to_owned(), kept + bytes);
        self.total += bytes;
        true
    }

    /// Releases reserved room.
    pub(super) fn give_back(&mut self, namespace: &str, bytes: usize) {
        let Some(kept) = self.kept.get_mut(namespace) else {
            return;
        };
        *kept = kept.saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
        if *kept == 0 {
            self.kept.remove(namespace);
        }
    }

    /// True when no room is reserved.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.total == 0
    }
}

/// The room that a request with a text of so many bytes needs: 0 if it is short.
pub(super) const fn weight(bytes: usize) -> usize {
    if bytes > SHORT { bytes } else { 0 }
}

/// The request without its evidence: the check objects and the texts of the policies.
pub(super) fn without_evidence(mut request: AccessRequest) -> AccessRequest {
    let entries = request.status.iter_mut().flat_map(|it| &mut it.policies);
    for entry in entries {
        entry.policy = Opaque(snapshot::identity_of(&entry.policy.0));
        entry.check_refs = Vec::new();
        entry.check_refs_left_out = None;
    }
    request
}

/// The kinds of the objects in the evidence of a request. Those between pod and approval are found by name.
pub(super) fn kinds(request: &AccessRequest) -> BTreeMap<ObjectKind, Keeps> {
    let policies = request.status.iter().flat_map(|it| &it.policies);
    let mut kinds = BTreeMap::new();
    for check in policies.flat_map(|it| &it.check_refs) {
        let object = check.ref_.iter().map(|it| (it, Keeps::All));
        let links = check.lineage.iter().map(|it| (it, Keeps::Linked));
        for (object, keeps) in object.chain(links) {
            let kind = ObjectKind {
                api_version: object.api_version.clone(),
                kind: object.kind.clone(),
            };
            let known = kinds.entry(kind).or_insert(keeps);
            *known = keeps.max(*known);
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_needs_room_from_one_byte_above_a_short_one() {
        assert_eq!([SHORT, SHORT + 1].map(weight), [0, SHORT + 1]);
    }

    #[test]
    fn a_namespace_has_its_share_and_all_have_the_total() {
        let mut room = RequestRoom::default();
        assert!(room.take("a", SHARE), "the whole share");
        assert!(!room.take("a", 1));
        for number in 1..TOTAL / SHARE {
            assert!(room.take(&format!("b{number}"), SHARE), "{number}");
        }
        assert!(!room.take("c", 1), "the total is taken");
        room.give_back("a", SHARE);
        assert!(!room.take("c", SHARE + 1));
        assert!(room.take("c", 1) && room.take("c", SHARE - 1));
        for number in 1..TOTAL / SHARE {
            room.give_back(&format!("b{number}"), SHARE);
        }
        room.give_back("c", SHARE);
        assert!(room.is_empty());
    }
}
