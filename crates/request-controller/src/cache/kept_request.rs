//! A request as the cache keeps it: its text, and the fields by which it is found and sorted.
//!
//! A request as a tree of values takes several times the memory of its text. A reconciliation needs the whole request
//! once, so it is read from the text then.

use std::sync::Arc;

use connectors_api::{
    AccessRequest, AccessRequestCondition, Permission,
    access_request::{GrantState, Phase},
    request_order::{Rank, RequestTuple},
};
use jiff::Timestamp;

use crate::{api::Name, grant::is_terminal, interner::Interner, packed_text::PackedText};

/// The fields of a request that are read without the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a request that do not depend on each other"
)]
pub struct RequestHead {
    /// Its UID.
    pub uid: Option<Arc<str>>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub is_going: bool,
    /// Where it stands.
    pub phase: Option<Phase>,
    /// The reason of the condition Ready.
    pub ready: Option<Box<str>>,
    /// The pod that it is for.
    pub pod: Name,
    /// The UID of that pod.
    pub pod_uid: Option<Arc<str>>,
    /// The namespace of the service account, if the request names another one than that of the pod.
    other_namespace: Option<Box<str>>,
    /// The service account that it is for.
    pub account: Box<str>,
    /// The connector that it is for.
    pub connector: Box<str>,
    /// The requested capability.
    pub permission: Permission,
    /// A grant may be in force.
    pub holds: bool,
    /// It was granted at some time.
    pub was_granted: bool,
    /// It has a policy without a result.
    pub has_open_policies: bool,
    /// When it was over, or else granted.
    pub over_since: Option<Timestamp>,
}

impl RequestHead {
    fn of(request: &AccessRequest) -> Self {
        let AccessRequest {
            metadata,
            spec,
            status,
        } = request;
        let pod = &spec.context.object_ref;
        let status = status.as_ref();
        let conditions = status.into_iter().flat_map(|it| &it.conditions);
        let mut ready = conditions.filter(|it| it.type_ == AccessRequestCondition::Ready);
        let subject = spec.subject_namespace();
        let mut policies = status.into_iter().flat_map(|it| &it.policies);
        let granted_at = status.and_then(|it| it.granted_at);
        Self {
            uid: metadata.uid.as_deref().map(Arc::from),
            created: metadata.creation_timestamp.as_ref().map(|it| it.0),
            is_going: metadata.deletion_timestamp.is_some(),
            phase: status.and_then(|it| it.phase),
            ready: ready.next().map(|it| it.reason.as_str().into()),
            pod: pod_of(request),
            pod_uid: pod.uid.as_deref().map(Arc::from),
            other_namespace: (subject != pod.namespace).then(|| subject.into()),
            account: spec.subject.name.as_str().into(),
            connector: spec.connector_ref.name.as_str().into(),
            permission: spec.permission,
            holds: holds(request),
            was_granted: granted_at.is_some(),
            has_open_policies: policies.any(|entry| entry.grant.is_none()),
            over_since: status.and_then(|it| it.ended_at).or(granted_at),
        }
    }

    /// The namespace of the service account.
    #[must_use]
    pub fn subject_namespace(&self) -> &str {
        let other = self.other_namespace.as_deref();
        other.unwrap_or(&self.pod.namespace)
    }

    /// True when the request is not final.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.phase.is_some_and(is_terminal)
    }

    /// True when the request waits for its first grant.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.is_open() && self.phase != Some(Phase::Granted)
    }

    /// True when the end of an object may end a grant of the request.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.is_open() && self.holds
    }

    /// True when the request has a grant, and another policy is undecided.
    #[must_use]
    pub fn awaits_more(&self) -> bool {
        self.is_resting() && self.has_open_policies
    }

    /// Its rank among the requests of its tuple.
    #[must_use]
    pub fn rank(&self) -> Rank<'_> {
        Rank::new(self.phase, self.created, self.uid.as_deref())
    }

    /// Its tuple.
    #[must_use]
    pub fn tuple(&self) -> Option<RequestTuple> {
        RequestTuple::new(
            self.pod_uid.as_deref()?,
            (self.subject_namespace(), &self.account),
            &self.connector,
            self.permission,
        )
    }
}

/// A readable request.
#[derive(Clone, Debug)]
pub struct KeptRequest {
    /// The fields that are read without the rest.
    pub head: RequestHead,
    /// The request as JSON, without `managedFields`.
    text: PackedText,
    /// The length of that.
    bytes: usize,
}

impl KeptRequest {
    /// Keeps the text of a request.
    pub(super) fn of(request: &AccessRequest, shapes: &mut Interner<str>) -> Self {
        let text = text(request);
        Self {
            head: RequestHead::of(request),
            text: PackedText::of(&text, shapes),
            bytes: text.len(),
        }
    }

    /// The same request with the text of a shorter version of it.
    pub(super) fn with_text_of(self, request: &AccessRequest, shapes: &mut Interner<str>) -> Self {
        self.release(shapes);
        let head = self.head;
        Self {
            head,
            ..Self::of(request, shapes)
        }
    }

    /// The number of bytes of the text.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The request is about to go.
    pub(super) fn release(&self, shapes: &mut Interner<str>) {
        self.text.release(shapes);
    }

    /// The request as JSON, without `managedFields`. Texts are shared by entries of the cache alone.
    pub(super) fn text(&self) -> String {
        self.text.text()
    }

    /// The whole request. It was written from one, so it is one.
    #[must_use]
    pub fn read(&self) -> Option<AccessRequest> {
        Self::parse(&self.text())
    }

    /// The request with this text.
    pub(super) fn parse(text: &str) -> Option<AccessRequest> {
        serde_json::from_str(text).ok()
    }
}

fn text(request: &AccessRequest) -> String {
    let mut request = request.clone();
    request.metadata.managed_fields = None;
    serde_json::to_string(&request).unwrap_or_default()
}

/// The pod of a request.
#[must_use]
pub fn pod_of(request: &AccessRequest) -> Name {
    let pod = &request.spec.context.object_ref;
    Name::new(&pod.namespace, &pod.name)
}

/// True when a grant may be in force for a request, which includes an unfinished revocation.
#[must_use]
pub fn holds(request: &AccessRequest) -> bool {
    let Some(status) = &request.status else {
        return false;
    };
    let active = status.policies.iter().any(|entry| {
        let grant = entry.grant.as_ref();
        grant.is_some_and(|grant| grant.state != GrantState::Ended)
    });
    active || status.phase == Some(Phase::Revoked) && status.revoked_at.is_none()
}
