//! A request with what the cache derived from it: the objects that its grants rest on, and the room that it takes.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::{AccessRequest, access_policy::ObjectKind};
use service_kit::watches::Unreadable;

use super::{Keeps, KeptRequest, Link, RequestHead};
use crate::api::Name;

/// The kinds of the objects in the evidence of a request. Most requests have the same ones.
pub(super) type EvidenceKinds = BTreeMap<ObjectKind, Keeps>;

/// A request as the cache keeps it.
#[derive(Clone, Debug)]
pub struct RequestCached {
    /// Its UID.
    pub uid: Option<Arc<str>>,
    /// The request, or the reason why it is unreadable.
    pub request: Result<KeptRequest, Box<Unreadable>>,
    /// The request is too long to be cached with its evidence: reconciliations read it live.
    pub lacks_evidence: bool,
    /// The kinds of the objects in its evidence.
    pub kinds: Arc<EvidenceKinds>,
    /// The room for long requests that it takes.
    pub(super) room: usize,
    /// The objects that its grants rest on, as far as they are cached.
    pub(super) evidence: Box<[Arc<Link>]>,
}

impl RequestCached {
    /// The fields by which a readable request is found.
    #[must_use]
    pub fn head(&self) -> Option<&RequestHead> {
        self.request.as_ref().ok().map(|it| &it.head)
    }

    /// True when it is not final.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.head().is_none_or(RequestHead::is_open)
    }

    /// An unreadable request may have a grant.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        self.head().is_none_or(|it| it.holds)
    }

    /// The kinds and the namespace of the objects that its grants rest on, if no more is cached.
    pub(super) fn places_without_evidence(&self) -> impl Iterator<Item = (ObjectKind, String)> {
        let head = self.head();
        let head = head.filter(|it| it.is_resting() && self.lacks_evidence);
        head.into_iter().flat_map(|head| {
            let pods = &head.pod.namespace;
            self.kinds.keys().map(|kind| (kind.clone(), pods.clone()))
        })
    }
}

/// The objects that the grants of a request rest on.
pub(super) fn evidence(request: &AccessRequest) -> impl Iterator<Item = Link> {
    let pods = &request.spec.context.object_ref.namespace;
    let policies = request.status.iter().flat_map(|it| &it.policies);
    let refs = policies.flat_map(|it| &it.check_refs);
    let refs = refs.filter_map(|it| it.ref_.as_ref());
    refs.map(|it| Link {
        kind: ObjectKind {
            api_version: it.api_version.clone(),
            kind: it.kind.clone(),
        },
        name: Name::new(pods, &it.name),
    })
}
