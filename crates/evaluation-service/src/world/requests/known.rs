//! The kept parts of a request. The evidence is the largest part of most requests, and no answer shows it.

use connectors_api::access_request::{AccessRequestStatus, GrantState, MatchedPolicy, Phase};
use connectors_api::pod_grant::{GrantFacts, RequestFacts};
use connectors_api::reason::{AccessCheckReady, AccessPermissionSync, Ready};
use connectors_api::request_order::Rank;
use connectors_api::{AccessRequest, AccessRequestCondition, Condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::tuple::Tuple;

/// The parts of a request that answers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRequest {
    /// Its tuple.
    pub tuple: Tuple,
    /// Its name, in the namespace of the tuple.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Option<Box<str>>,
    /// The version that was seen.
    pub resource_version: Box<str>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The name of the pod.
    pub pod_name: Box<str>,
    /// Whether the subject is in the namespace of the pod.
    pub is_in_pods_namespace: bool,
    /// Its phase.
    pub phase: Option<Phase>,
    /// When all of it ends at the latest.
    pub expires_at: Option<Timestamp>,
    /// The policies of its grants. An entry without a policy counts for nothing.
    pub policies: Box<[KnownPolicy]>,
    /// The result of the checks.
    pub check_reason: Option<AccessCheckReady>,
    /// The state of the permission.
    pub permission_reason: Option<AccessPermissionSync>,
    /// The awaited event or the end.
    pub ready_reason: Option<Ready>,
    /// The same as a sentence.
    pub message: Box<str>,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPolicy {
    /// The policy. Never empty.
    pub uid: Box<str>,
    /// Where its grant stands; none while its checks are awaited.
    pub state: Option<GrantState>,
    /// When its grant ends at the latest.
    pub expires_at: Option<Timestamp>,
}

impl KnownRequest {
    /// Keeps the needed parts. None for a request that has no pod UID, or no name itself.
    #[must_use]
    pub fn read(request: AccessRequest) -> Option<Self> {
        let AccessRequest {
            metadata,
            spec,
            status,
        } = request;
        let ObjectMeta {
            namespace,
            name,
            uid,
            resource_version,
            creation_timestamp,
            deletion_timestamp,
            ..
        } = metadata;
        let status = status.unwrap_or_default();
        let ready = condition(&status, AccessRequestCondition::Ready);
        let subject_namespace = Box::from(spec.subject_namespace());
        let pod = spec.context.object_ref;
        Some(Self {
            is_in_pods_namespace: *subject_namespace == *pod.namespace,
            tuple: Tuple {
                namespace: namespace?.into(),
                connector: spec.connector_ref.name.into(),
                permission: spec.permission,
                subject_namespace,
                subject: spec.subject.name.into(),
                pod_uid: pod.uid.filter(|uid| !uid.is_empty())?.into(),
            },
            name: name?.into(),
            uid: uid.map(Into::into),
            resource_version: resource_version.unwrap_or_default().into(),
            created: creation_timestamp.map(|time| time.0),
            is_deleting: deletion_timestamp.is_some(),
            pod_name: pod.name.into(),
            phase: status.phase,
            expires_at: status.expires_at,
            policies: status.policies.iter().filter_map(policy).collect(),
            check_reason: reason(condition(&status, AccessRequestCondition::AccessCheckReady)),
            permission_reason: reason(condition(
                &status,
                AccessRequestCondition::AccessPermissionSync,
            )),
            ready_reason: reason(ready),
            message: ready.map_or_else(Box::default, |ready| ready.message.as_str().into()),
        })
    }

    /// Namespace and name: the API server has one object under them.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.tuple.namespace, &self.name)
    }

    pub(super) fn rank(&self) -> Rank<'_> {
        Rank::new(self.phase, self.created, self.uid.as_deref())
    }
}

impl RequestFacts for KnownRequest {
    fn namespace(&self) -> &str {
        &self.tuple.namespace
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    fn phase(&self) -> Option<Phase> {
        self.phase
    }

    fn pod_name(&self) -> &str {
        &self.pod_name
    }

    fn is_in_pods_namespace(&self) -> bool {
        self.is_in_pods_namespace
    }

    fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    fn grants(&self) -> impl Iterator<Item = GrantFacts<'_>> {
        self.policies.iter().map(|it| GrantFacts {
            policy_uid: &it.uid,
            state: it.state,
            expires_at: it.expires_at,
        })
    }
}

fn policy(matched: &MatchedPolicy) -> Option<KnownPolicy> {
    let uid = Some(matched.uid()).filter(|uid| !uid.is_empty());
    let grant = matched.grant.as_ref();
    Some(KnownPolicy {
        uid: uid?.into(),
        state: grant.map(|grant| grant.state),
        expires_at: grant.and_then(|grant| grant.expires_at),
    })
}

type FoundCondition<'a> = Option<&'a Condition<AccessRequestCondition>>;

fn condition(status: &AccessRequestStatus, of: AccessRequestCondition) -> FoundCondition<'_> {
    status.conditions.iter().find(|it| it.type_ == of)
}

/// A word of a set. None for a word of another version, which explains nothing here.
fn reason<W: DeserializeOwned>(condition: FoundCondition<'_>) -> Option<W> {
    serde_json::from_value(condition?.reason.as_str().into()).ok()
}
