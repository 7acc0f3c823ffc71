//! What was read about one request, as plain values: the only input of decisions beside the time.

use std::{sync::Arc, time::Duration};

use connectors_api::{
    AccessRequest, Permission,
    access_policy::{Limits, Match},
    access_request::{GrantedRule, ObservedObject},
    check_selector::CompiledPolicy,
    config::Config,
    labels, names,
    reason::AccessCheckReady,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

/// How old the oldest live read behind a grant may be when the grant is written.
pub const OLDEST: Duration = Duration::from_secs(5);

/// Finalizers by which a deletion waits for the garbage collector. A deletion in the background drops them.
const WAITS_FOR_COLLECTION: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Where the values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// From watch caches, which may be behind.
    Cached,
    /// Read from the API server, the first of them not before this moment.
    Live(Instant),
}

impl Freshness {
    /// How much longer these values may be granted on; none if they may not.
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

/// Everything that one request is decided on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The request.
    pub request: AccessRequest,
    /// Where all of this comes from.
    pub freshness: Freshness,
    /// What the installation was told.
    pub config: Config,
    /// The pod that the request names.
    pub pod: PodSeen,
    /// The connector under the name that the request gives.
    pub connector: Option<ConnectorSeen>,
    /// The other requests of the same subject, connector, permission and pod.
    pub tuple: TupleSeen,
    /// Too many requests of the pod's namespace were waiting before this one.
    pub over_limit: bool,
    /// Whether the pod needs no request.
    pub standing: StandingSeen,
    /// The policies that apply now, with what their checks say.
    pub policies: Vec<PolicySeen>,
    /// Policies that nearly apply; of another namespace than the pod's none.
    pub near: Vec<NearMiss>,
    /// The policies that were granted on before.
    pub frozen: Vec<FrozenSeen>,
    /// The Roles and RoleBindings that carry this request's UID or a name made from it.
    pub grants: Vec<Managed>,
}

/// The pod that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSeen {
    /// It is there, under its UID.
    There(PodFacts),
    /// It is there, and what it says cannot be read.
    Unreadable,
    /// The API server said that there is none, or that another one has its name.
    Gone,
}

/// What matters about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// It ran to its end.
    pub finished: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// The service account that it runs as.
    pub account: String,
}

/// A connector that is there.
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
    /// Whether there is another one that is not itself invalid.
    pub has_others: bool,
}

/// Whether a permission that holds at any time covers what a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandingSeen {
    /// The question was not asked, or has no answer. It changes nothing.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// There is one.
    There,
}

/// A policy with checks that does not apply to the request, in the namespace of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// Its name.
    pub policy: String,
    /// Which of its conditions is not met.
    pub why: Miss,
}

/// The condition of a policy that a request does not meet. The later one is the nearer miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// It is about this permission.
    Permission(Permission),
    /// It selects other connectors.
    Connector,
    /// It accepts other accounts.
    Requesters,
    /// As many older ones select the connector as count for it.
    TooMany,
}

/// A policy that applies to the request.
#[derive(Clone, Debug)]
pub struct PolicySeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The policy itself. Looks share it with the cache: as many policies as count for a connector are a lot of text.
    pub policy: Arc<CompiledPolicy>,
    /// Its limits in time.
    pub limits: Limits,
    /// What its checks say.
    pub judged: Judged,
}

/// What the checks of a policy say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Nobody could be asked.
    Unanswered,
    /// This.
    Answered(Answer),
}

/// What the checks of a policy say, and what would be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What they say together.
    pub verdict: AccessCheckReady,
    /// Each of them.
    pub checks: Vec<CheckSeen>,
    /// The rules to grant; never empty when the verdict is that they passed.
    pub rules: Vec<GrantedRule>,
    /// Why nothing could be granted although the checks pass.
    pub refusal: Option<String>,
}

/// What one check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSeen {
    /// Its name.
    pub name: String,
    /// How its objects count.
    pub match_: Match,
    /// What it says.
    pub verdict: AccessCheckReady,
    /// Why, in one word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
    /// The objects that it looked at, as far as they are kept.
    pub objects: Vec<ObjectSeen>,
    /// Those that are not.
    pub left_out: LeftOut,
}

/// How many objects of a check are not kept: no status would list them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Of those that pass.
    pub passed: usize,
    /// Of the others.
    pub others: usize,
}

/// What one object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSeen {
    /// The object.
    pub object: ObservedObject,
    /// What it says.
    pub verdict: AccessCheckReady,
    /// The word that was read.
    pub state: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
    /// Who approved.
    pub approved_by: Vec<String>,
}

/// A policy that was granted on before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenSeen {
    /// Its UID.
    pub uid: String,
    /// Whether it still exists.
    pub exists: bool,
    /// What its checks say about the objects that were granted on.
    pub held: Held,
    /// Whether the policy is another one now than the one that the status shows.
    pub changed: bool,
    /// What its checks say when they are asked anew: only read when its permission has to be written again.
    pub again: Option<Judged>,
}

/// Whether what was granted on still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It does.
    Holds,
    /// It does not.
    Lapsed {
        /// What the check says now.
        verdict: AccessCheckReady,
        /// Which check says so, where one does.
        check: Option<String>,
        /// Why.
        message: String,
    },
    /// Nobody could be asked. What was granted stays until somebody can be.
    Unknown,
}

/// A Role or a RoleBinding that is or looks like ours.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The object.
    pub object: ManagedObject,
    /// Its metadata; all that is known of one that cannot be read.
    pub metadata: ObjectMeta,
}

/// The two kinds that a grant consists of.
#[derive(Clone, Debug)]
pub enum ManagedObject {
    /// A Role.
    Role(Result<Role, Unread>),
    /// A RoleBinding.
    RoleBinding(Result<RoleBinding, Unread>),
}

/// The object is there and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrantKind {
    /// Without it nobody has the Role: it is removed first.
    RoleBinding,
    /// The rules.
    Role,
}

impl GrantKind {
    /// Both, in the order of removal.
    pub const ALL: [Self; 2] = [Self::RoleBinding, Self::Role];

    /// The kind as Kubernetes writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoleBinding => "RoleBinding",
            Self::Role => "Role",
        }
    }
}

impl Managed {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> GrantKind {
        match self.object {
            ManagedObject::Role(_) => GrantKind::Role,
            ManagedObject::RoleBinding(_) => GrantKind::RoleBinding,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether this installation wrote it. What it did not write is never deleted.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.label(labels::MANAGED_BY) == Some(names::MANAGED_BY)
    }

    /// Whether it is deleted and only its end is awaited. A deletion that waits for the garbage collector
    /// is not that: it is told once more not to wait.
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
