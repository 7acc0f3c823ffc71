//! The observed values of one request: the only input of decisions besides the time.

mod gate;

use std::{sync::Arc, time::Duration};

use connectors_api::{
    AccessRequest, Permission,
    access_policy::{Limits, Match},
    access_request::{Approval, GrantedRule, ObservedObject},
    check_selector::CompiledPolicy,
    config::Config,
    labels, names,
    reason::AccessCheckReady,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use crate::grant_digest::GrantDigest;

pub use gate::{GateQuestions, GateSeen, GatedVolumes, MountAccess, RequestMade, WantSeen};

/// The maximum age of the oldest live read when a grant is written.
pub const OLDEST: Duration = Duration::from_secs(5);

/// Finalizers by which a deletion waits for the garbage collector. A background deletion removes them.
const WAITS_FOR_COLLECTION: [&str; 2] = ["foregroundDeletion", "orphan"];

/// The source of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// From watch caches, which may lag behind.
    Cached,
    /// Read from the API server, the first of them not before this moment.
    Live(Instant),
}

impl Freshness {
    /// The remaining time in which these values may be used for a grant; none if they may not.
    #[must_use]
    pub fn left(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Cached => None,
            Self::Live(since) => OLDEST
                .checked_sub(now.saturating_duration_since(since))
                .filter(|left| !left.is_zero()),
        }
    }
}

/// All values that one request is decided on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The request.
    pub request: AccessRequest,
    /// The source of all values.
    pub freshness: Freshness,
    /// The request may be an older one, and newer policies may be missing: enough for a grant, whose status is written
    /// first, and not for an end.
    pub only_for_grants: bool,
    /// It is known which policies apply. While labels cannot be read, nothing that rests on it is final.
    pub are_matched: bool,
    /// The configuration of the installation.
    pub config: Config,
    /// The pod that the request names.
    pub pod: PodSeen,
    /// The connector that the request names.
    pub connector: Option<ConnectorSeen>,
    /// The other requests of the same subject, connector, permission and pod.
    pub tuple: TupleSeen,
    /// Too many requests of the pod's namespace were waiting before this one.
    pub over_limit: bool,
    /// Whether the pod has a standing permission.
    pub standing: StandingSeen,
    /// The policies that apply now, with the results of their checks.
    pub policies: Vec<PolicySeen>,
    /// Whether the check objects were read in time.
    pub check_reads: CheckReads,
    /// Policies that nearly apply; empty for a pod of another namespace.
    pub near: Vec<NearMiss>,
    /// The policies that have granted before.
    pub frozen: Vec<FrozenSeen>,
    /// The Roles and RoleBindings with this request's UID, or with a name derived from it.
    pub grants: Vec<Managed>,
}

/// Whether the API server answered the reads of check objects in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckReads {
    /// None took too long.
    InTime,
    /// One had no answer in time. Its policy is not judged.
    Late,
}

/// The pod that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSeen {
    /// It exists, with its UID.
    There(PodFacts),
    /// It exists and is unreadable.
    Unreadable,
    /// The API server said that it does not exist, or that another pod has its name.
    Gone,
}

/// The fields of a pod that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// It has finished.
    pub finished: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// The service account that it runs as.
    pub account: String,
}

/// An existing connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorSeen {
    /// Its UID.
    pub uid: String,
}

/// The other requests of one tuple.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TupleSeen {
    /// The name of the request that decides, if it is another one.
    pub decided_by: Option<String>,
    /// Whether there is another one that is not invalid.
    pub has_others: bool,
}

/// Whether a standing permission covers a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandingSeen {
    /// The question was not asked, or has no answer, which changes nothing.
    #[default]
    Unknown,
    /// There is no standing permission.
    Absent,
    /// There is a standing permission.
    There,
}

/// A policy with checks that does not apply to the request, if policy and pod are in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// Its name.
    pub policy: String,
    /// The condition that is not met.
    pub why: Miss,
}

/// The condition of a policy that a request does not meet. A later variant is a nearer miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// It is for this permission.
    Permission(Permission),
    /// It selects other connectors.
    Connector,
    /// It accepts other accounts.
    Requesters,
    /// The limit of policies per connector is taken up by older ones.
    TooMany,
}

/// A policy that applies to the request.
#[derive(Clone, Debug)]
pub struct PolicySeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The policy itself, shared with the cache: the policies of one connector can be a lot of text.
    pub policy: Arc<CompiledPolicy>,
    /// Its time limits.
    pub limits: Limits,
    /// The result of its checks.
    pub judged: PolicyJudgement,
}

/// The result of a policy's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyJudgement {
    /// The evaluation service did not answer.
    Unanswered,
    /// The answer.
    Answered(PolicyAnswer),
}

/// The result of a policy's checks, and the rules to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyAnswer {
    /// The common result.
    pub verdict: AccessCheckReady,
    /// The checks.
    pub checks: Vec<CheckSeen>,
    /// The rules to grant; never empty when the checks pass.
    pub rules: Vec<GrantedRule>,
    /// The reason why nothing can be granted although the checks pass.
    pub refusal: Option<String>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSeen {
    /// Its name.
    pub name: String,
    /// How its objects count.
    pub match_: Match,
    /// Its result.
    pub verdict: AccessCheckReady,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, as a sentence.
    pub message: String,
    /// Its objects, as far as they are kept.
    pub objects: Vec<ObjectSeen>,
    /// The numbers of its other objects.
    pub left_out: LeftOut,
}

/// The numbers of a check's objects that are not kept, because no status would list them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Objects that pass.
    pub passed: usize,
    /// Other objects.
    pub others: usize,
}

/// The state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSeen {
    /// The object.
    pub object: ObservedObject,
    /// Its result.
    pub verdict: AccessCheckReady,
    /// The word that was read from it.
    pub state: String,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, as a sentence.
    pub message: String,
    /// The approvers.
    pub approved_by: Vec<String>,
    /// The groups and messages of approvers with one.
    pub approvals: Vec<Approval>,
    /// The objects that prove that it belongs to the pod's run, as many as a status lists.
    pub lineage: Vec<ObservedObject>,
    /// The creator of the pod's run, if the check excludes that user from its approvers.
    pub run_creator: Option<String>,
}

/// A policy that has granted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenSeen {
    /// Its UID.
    pub uid: String,
    /// Whether it still exists.
    pub exists: bool,
    /// Whether its evidence is still valid.
    pub held: EvidenceState,
    /// Whether the policy differs now from the one in the status.
    pub changed: bool,
    /// The new result of its checks: only read when its grant must be rewritten.
    pub again: Option<PolicyJudgement>,
}

/// Whether the evidence of a grant is still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceState {
    /// It is valid.
    Holds,
    /// It is not valid any more.
    Lapsed {
        /// The new verdict of the check.
        verdict: AccessCheckReady,
        /// The check, if one is the reason.
        check: Option<String>,
        /// The reason.
        message: String,
    },
    /// The evaluation service did not answer. The grant stays until it does.
    Unknown,
}

/// A Role or a RoleBinding that is managed, or has a managed name.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The object.
    pub object: ManagedObject,
    /// Its metadata, which is all that is known of an unreadable one.
    pub metadata: ObjectMeta,
}

/// The two kinds of objects of a grant.
#[derive(Clone, Debug)]
pub enum ManagedObject {
    /// A Role.
    Role(Result<Role, Unread>),
    /// A RoleBinding.
    RoleBinding(Result<RoleBinding, Unread>),
    /// One of them, as the cache keeps it.
    Kept(GrantKind, Result<GrantDigest, Unread>),
}

/// The object exists and is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// The kind of a grant's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrantKind {
    /// Removed first, because without it no subject has the Role.
    RoleBinding,
    /// The rules.
    Role,
}

impl GrantKind {
    /// Both, in the order of removal.
    pub const ALL: [Self; 2] = [Self::RoleBinding, Self::Role];

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoleBinding => "RoleBinding",
            Self::Role => "Role",
        }
    }
}

impl Managed {
    /// The digest of its content.
    pub(crate) fn digest(&self) -> Result<GrantDigest, Unread> {
        match &self.object {
            ManagedObject::Role(Ok(role)) => Ok(GrantDigest::of_role(&self.metadata, role)),
            ManagedObject::RoleBinding(Ok(binding)) => {
                Ok(GrantDigest::of_binding(&self.metadata, binding))
            }
            ManagedObject::Role(Err(error)) | ManagedObject::RoleBinding(Err(error)) => Err(*error),
            ManagedObject::Kept(_, digest) => *digest,
        }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> GrantKind {
        match self.object {
            ManagedObject::Role(_) => GrantKind::Role,
            ManagedObject::RoleBinding(_) => GrantKind::RoleBinding,
            ManagedObject::Kept(kind, _) => kind,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// True when this installation wrote the object. Other objects are never deleted.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.label(labels::MANAGED_BY) == Some(names::MANAGED_BY)
    }

    /// True when the object is being deleted and needs no further call. A deletion that waits for the garbage
    /// collector does not count: it is repeated as a background deletion.
    #[must_use]
    pub fn is_going(&self) -> bool {
        let waits = self.metadata.finalizers.iter().flatten();
        let waits = waits.filter(|it| WAITS_FOR_COLLECTION.contains(&it.as_str()));
        self.metadata.deletion_timestamp.is_some() && waits.count() == 0
    }

    /// A label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = self.metadata.labels.as_ref()?;
        labels.get(key).map(String::as_str)
    }
}
