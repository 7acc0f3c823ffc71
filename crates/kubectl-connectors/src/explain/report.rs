//! The explanation, as the schema has it.

use connectors_api::Permission;
use connectors_api::access_request::{GrantState, Phase};
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::{AccessCheckReady, Ready};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::terms::{NamespacedName, is_false};

/// Why a pod waits, or would wait, for its connectors.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The pod. Absent for a question about a connector and a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodShown>,
    /// The service account that asks.
    pub account: NamespacedName,
    /// Whether mounts wait for access in this installation.
    pub gating: GatingWord,
    /// The access to each connector.
    pub accesses: Vec<AccessShown>,
    /// The faults of the pod's volumes, each as a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodShown {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Where the pod stands.
    pub state: PodWord,
    /// Whether it waits with the scheduling gate of this product, so that no node is chosen for it.
    pub gated: bool,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PodWord {
    /// It has not started.
    Pending,
    /// It runs.
    Running,
    /// It ran to its end.
    Finished,
    /// It is being deleted.
    Terminating,
    /// It is gone, or another pod has its name.
    Gone,
    /// It could not be read.
    Unknown,
}

/// Whether mounts wait for access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum GatingWord {
    /// They do.
    On,
    /// Approvals are switched off: every mount succeeds, and nothing new is granted.
    Off,
    /// The setting could not be read.
    Unknown,
}

/// The access to one connector.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessShown {
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// Whether there is access.
    pub state: AccessWord,
    /// Why, as a sentence.
    pub because: String,
    /// Since when the request waits, or since when its state holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The seconds since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// The request that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestShown>,
    /// The policies of the connector's namespace, those that apply first.
    pub policies: Vec<PolicyShown>,
    /// The ends of the wait, or of the access.
    pub ends: Vec<EndShown>,
    /// The next commands, best first. Empty if nothing helps.
    pub next: Vec<NextShown>,
}

/// Whether there is access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum AccessWord {
    /// A standing permission.
    Standing,
    /// The pod was granted access, and the grant is in force.
    Granted,
    /// The request says that access was granted, and the grant is not in force: the services refuse the pod.
    NotInForce,
    /// Approvals are switched off, so the mount succeeds without access.
    NotGated,
    /// The pod runs with what it mounted before, and has no access now.
    Kept,
    /// The pod waits.
    Waits,
    /// No, for this pod for good.
    Refused,
    /// The request ended with its pod, or is not needed any more.
    Ended,
    /// There is no request; a pod of the account could make one, and would wait for its checks.
    CouldAsk,
    /// There is no request, and no policy would accept one.
    CannotAsk,
    /// It is not known, because something could not be read.
    Unknown,
}

/// An access request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestShown {
    /// The name, in the namespace of the connector.
    pub name: String,
    /// Its phase, as last written by the request-controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The reason of its condition Ready, if it is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Ready>,
    /// The message of its condition Ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
}

/// A policy, and what it says about the access.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyShown {
    /// The name.
    pub name: String,
    /// Whether its checks apply to the access.
    pub applies: PolicyWord,
    /// Why, as a sentence.
    pub because: String,
    /// Whether the account holds its standing permission.
    pub standing: PolicyWord,
    /// Why, as a sentence.
    pub standing_because: String,
    /// Why its checks cannot be judged, as the policy-controller says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its result for the request, once it granted or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantShown>,
    /// The combined result of its checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<AccessCheckReady>,
    /// Its `pendingTimeout` is over for the request, so that it refuses it, whatever its checks say.
    #[serde(skip_serializing_if = "is_false")]
    pub is_late: bool,
    /// Where the verdict and the checks come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<VerdictSource>,
    /// Its checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckShown>,
    /// The rules that the pod gets, once every check passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleShown>,
}

/// A rule of the Role that a pod gets. It is about the connector alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleShown {
    /// The resources that may be accessed.
    pub resources: Vec<String>,
    /// The verbs that are allowed.
    pub verbs: Vec<String>,
}

/// Where a verdict comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum VerdictSource {
    /// The check objects were read now, and judged by this program as the services judge them.
    Live,
    /// The status of the request, as the request-controller wrote it.
    Status,
}

/// The result of a policy for a request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantShown {
    /// Granting, Granted or Ended.
    pub state: GrantState,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Ready>,
    /// When access was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Timestamp>,
    /// When it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// A check of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckShown {
    /// The name.
    pub name: String,
    /// The kind of the objects that decide, as group/version and kind.
    pub of: String,
    /// By what the objects are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects: Option<String>,
    /// The result of the check. Absent if only the status of the request is known, which says it of objects alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<AccessCheckReady>,
    /// The reason, as one word.
    pub reason: String,
    /// The reason, as a sentence.
    pub message: String,
    /// The objects that were found.
    pub candidates: Vec<CandidateShown>,
}

/// An object that a check found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CandidateShown {
    /// The kind.
    pub kind: String,
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The word by which it decides; empty if it could not be read.
    pub state: String,
    /// The result of the object. Absent if only the status of the request is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<AccessCheckReady>,
    /// The reason, as one word.
    pub reason: String,
    /// The reason, as a sentence.
    pub message: String,
    /// The users whose approval counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// The approvers that it lists, with their answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<ApproverShown>,
    /// The accounts that may write its state, for kinds without approvers. Absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writers: Option<Vec<String>>,
    /// The objects between it and the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkShown>,
    /// The creator of the pod's run, whose approval the check does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_creator: Option<String>,
}

/// An approver that an object lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApproverShown {
    /// The name.
    pub name: String,
    /// Whether it is a group, whose members approve.
    pub group: bool,
    /// Its answer.
    pub answer: ApproverWord,
    /// Whether its approval counts for the check.
    pub counts: bool,
}

/// The answer of an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum ApproverWord {
    /// None yet.
    Awaited,
    /// A yes.
    Approved,
    /// A no.
    Rejected,
}

/// An object between a pod and its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkShown {
    /// The kind.
    pub kind: String,
    /// The name, in the pod's namespace.
    pub name: String,
    /// Whether it is there.
    pub state: LinkWord,
}

/// Whether an object of a proof is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum LinkWord {
    /// It is part of the proof.
    Proven,
    /// It is there, and the proof does not hold.
    There,
    /// It is not there.
    Missing,
    /// It could not be read.
    Unread,
}

/// Something that ends a wait or an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndShown {
    /// The cause.
    pub cause: EndCause,
    /// When, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The same as a sentence.
    pub message: String,
}

/// The cause of the end of a wait or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum EndCause {
    /// The checks of one policy pass.
    ChecksPass,
    /// A check object says no.
    Rejection,
    /// `pendingTimeout` of the policy.
    PendingTimeout,
    /// `maxDuration` of the policy.
    MaxDuration,
    /// The pod ends or is deleted.
    PodEnds,
    /// A check object leaves its passing state.
    ApprovalWithdrawn,
    /// A check object is deleted.
    ApprovalDeleted,
    /// The pipeline run is cancelled.
    RunCancelled,
    /// The policy, the connector or the request is deleted.
    Deleted,
}

/// A next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextShown {
    /// The command. Absent if no command helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The user who can type it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Its effect, or why no command helps.
    pub effect: String,
}

impl PolicyShown {
    /// True when its checks can still open the access.
    #[must_use]
    pub(super) fn is_awaited(&self) -> bool {
        self.applies == PolicyWord::Yes && self.grant.is_none() && !self.is_late
    }

    /// True when the policy has checks, and is nearly about the access.
    #[must_use]
    pub(super) const fn is_near(&self) -> bool {
        matches!(
            self.applies,
            PolicyWord::OtherSubject | PolicyWord::TooMany | PolicyWord::OtherPermission
        )
    }

    /// True when every check passes, and the policy's rules grant nothing.
    #[must_use]
    pub(super) fn grants_nothing(&self) -> bool {
        let mut checks = self.checks.iter();
        self.source == Some(VerdictSource::Live)
            && self.verdict == Some(AccessCheckReady::AccessCheckFailed)
            && !self.checks.is_empty()
            && checks.all(|it| it.verdict == Some(AccessCheckReady::AccessCheckPassed))
    }

    /// True when a grant is in force.
    #[must_use]
    pub(super) fn is_granted(&self) -> bool {
        let grant = self.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Granted)
    }
}
