//! The status of an `AccessRequest`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access_policy::CheckGrantedPermission;
use crate::opaque::Opaque;
use crate::reason::Ready;
use crate::words::words;
use crate::{AccessRequestCondition, Condition};

words! {
    /// Where a request stands, in one word for people. Programs read the conditions.
    Phase {
        /// Waiting for a policy, a connector or an approval.
        Pending,
        /// The pod may use the connector.
        Granted,
        /// A check said no, or the wait was too long. Final.
        Rejected,
        /// Access was taken back. Final.
        Revoked,
        /// The request cannot be decided: its subject is wrong, or the same request already exists. Final.
        Invalid,
        /// Nothing was granted, and nothing is awaited any more: the pod ended, or it needs no request. Final.
        Ended,
    }
}

/// The progress and the result of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "What became of the request. Nobody but its controller writes it.")]
pub struct AccessRequestStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the request stands, in one word: Pending, Granted, Rejected, Revoked, Invalid or Ended. The
    /// last four are final. Derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The policies that apply, as they were when last looked at; from the grant on, as they were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub policies: Vec<MatchedPolicy>,
    /// UID of the connector that was found first. Another UID under its name means that the connector
    /// is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub connector_uid: Option<String>,
    /// When access was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<Timestamp>,
    /// When access ends at the latest. Absent when nothing with a time limit is in force. The entry of a
    /// policy keeps the time of its grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When the last part of the grant was gone. The phase is Revoked before that: access ends first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// When the phase became final. A request that ended because a standing permission covers its pod is deleted
    /// one minute later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Digest of the inputs on which the grant was decided, for audits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub evidence: Option<String>,
    /// The findings: ContextObjectValid (the pod exists and runs), ConnectorResolved (the connector exists),
    /// AccessPolicyMatched (a policy applies), AccessCheckReady (its checks pass), AccessPermissionSync (the
    /// permission is in force) and Ready (all of it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition<AccessRequestCondition>>,
}

impl AccessRequestStatus {
    /// True when the entry records a grant that was once in force, in the form in which the request-controller writes
    /// it, with its evidence. Any other status was not written by the request-controller, and grants nothing.
    #[must_use]
    pub fn was_in_force(&self, entry: &MatchedPolicy) -> bool {
        let recorded = self.granted_at.is_some()
            && self.evidence.is_some()
            && self.connector_uid.is_some()
            && !entry.check_refs.is_empty();
        let grant = entry.grant.as_ref();
        recorded && grant.is_some_and(|it| it.granted_at.is_some())
    }

    /// True when the policy of the entry is not decided anew: its grant was once in force, or it ended. A grant that was
    /// decided and never in force is decided anew, if the policy still applies.
    #[must_use]
    pub fn is_settled(&self, entry: &MatchedPolicy) -> bool {
        let grant = entry.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Ended) || self.was_in_force(entry)
    }

    /// The entries whose grants were once in force, and have not ended.
    pub fn held(&self) -> impl Iterator<Item = &MatchedPolicy> {
        self.policies.iter().filter(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|it| it.state != GrantState::Ended) && self.was_in_force(entry)
        })
    }
}

/// A policy that applies to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchedPolicy {
    /// The policy as it was matched: its identity and generation. Once it granted or refused, also its
    /// permission and checkGrantedPermission as they were then.
    // Opaque on purpose: a later version of the policy's schema must not make old evidence invalid.
    pub policy: Opaque,
    /// The objects that decide the policy's checks. Where the pod is in another namespace, they are listed once they
    /// let through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub check_refs: Vec<CheckRef>,
    /// How many more objects there are than `checkRefs` lists. Of a grant these are objects of checks of
    /// which any one suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_refs_left_out: Option<i32>,
    /// The rules of a Role that is written while the checks are awaited, so that the grant is quicker. No RoleBinding
    /// refers to it, so it gives nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub prepared_rules: Vec<GrantedRule>,
    /// The result of the policy for this request. Absent while its checks are awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<PolicyGrant>,
}

impl MatchedPolicy {
    /// The name of the policy; empty if the entry does not say it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// The UID of the policy; empty if the entry does not say it.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata("uid")
    }

    fn metadata(&self, field: &str) -> &str {
        let metadata = self.policy.0.get("metadata");
        let text = metadata.and_then(|metadata| metadata.get(field)?.as_str());
        text.unwrap_or_default()
    }

    /// The checks and the permission that the entry keeps. None if it keeps only the policy's identity.
    #[must_use]
    pub fn frozen(&self) -> Option<CheckGrantedPermission> {
        frozen(&self.policy.0)
    }
}

/// The part of a kept policy that is evaluated. None if it is unreadable.
#[must_use]
pub fn frozen(policy: &Map<String, Value>) -> Option<CheckGrantedPermission> {
    let granted = policy.get("spec")?.get("checkGrantedPermission")?;
    serde_json::from_value(granted.clone()).ok()
}

words! {
    /// The state of a policy's result for one request.
    GrantState {
        /// The checks passed, which is recorded here before the permission is written.
        Granting,
        /// The permission is in force.
        Granted,
        /// The policy gives this request nothing any more. Final.
        Ended,
    }
}

/// The result of a policy for one request. A Role and a RoleBinding may exist only as they are described
/// here, and only while this is not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyGrant {
    /// Granting, Granted or Ended.
    pub state: GrantState,
    /// Why it ended, as one word: the reason that the condition Ready gets when this policy was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Ready>,
    /// The rules of the Role. They are about the requested connector alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub rules: Vec<GrantedRule>,
    /// When the permission came into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<Timestamp>,
    /// When the permission ends at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// One rule of the Role that was written for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantedRule {
    /// The resources of the rule. Each ends in the pod's namespace and name.
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub resources: Vec<String>,
    /// The verbs of the rule.
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub verbs: Vec<String>,
}

/// An object that decides a check, and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckRef {
    /// Name of the check in the policy.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The object. Absent while none is found.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ObservedObject>,
    /// The state of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CheckRefStatus>,
    /// The objects that prove that it belongs to the pod's pipeline run: the PipelineRun, the pod's TaskRun,
    /// the approval's CustomRun, and then the TaskRuns whose results they use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub lineage: Vec<ObservedObject>,
}

/// An object at the moment it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedObject {
    /// Group and version of the object.
    #[schemars(length(max = 317))]
    pub api_version: String,
    /// Kind of the object.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the object; empty: the pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the object.
    #[schemars(length(max = 253))]
    pub name: String,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub uid: Option<String>,
    /// The version of the object that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub resource_version: Option<String>,
}

/// The state of an object for a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckRefStatus {
    /// The state that was read: approved or passed let through, rejected ends the policy for this
    /// request, anything else waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub state: Option<String>,
    /// Why the check stands where it stands, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,
    /// The reason for the state, as a sentence with a remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The users that approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(max = 512)))]
    pub approved_by: Vec<String>,
    /// The groups and messages of approvals that have one: the first of them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub approvals: Vec<Approval>,
    /// The user that created the pod's pipeline run, if the check does not count that user's approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub run_creator: Option<String>,
}

/// An approval by one user.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The user.
    #[schemars(length(max = 512))]
    pub user: String,
    /// The group through which the user approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub group: Option<String>,
    /// The user's message, or its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_says_which_policy_it_is_about_and_what_it_keeps_of_it() {
        let entry = |policy: Value| -> MatchedPolicy {
            serde_json::from_value(json!({"policy": policy})).unwrap()
        };
        let granted =
            json!({"spec": {"checks": [], "permissions": {"roleTemplate": {"rules": []}}}});
        let whole = entry(json!({
            "metadata": {"name": "p", "uid": "u"}, "spec": {"checkGrantedPermission": granted},
        }));
        assert_eq!((whole.name(), whole.uid()), ("p", "u"));
        assert!(whole.frozen().is_some());
        let identity = entry(json!({"metadata": {"name": "p", "uid": 7}}));
        assert_eq!((identity.name(), identity.uid()), ("p", ""));
        assert_eq!(identity.frozen(), None);
        assert_eq!(entry(json!({})).name(), "");
    }

    #[test]
    fn a_grant_that_was_in_force_is_held_until_it_ends_and_settled_for_good() {
        let since = json!("2026-01-01T00:00:00Z");
        let of = |grant: &Value| -> AccessRequestStatus {
            let entry = json!({"policy": {}, "checkRefs": [{"name": "c"}], "grant": grant});
            serde_json::from_value(json!({
                "connectorUid": "u", "grantedAt": since, "evidence": "e", "policies": [entry],
            }))
            .unwrap()
        };
        let grant = |state: &str| json!({"state": state});
        let in_force = |state: &str| json!({"state": state, "grantedAt": since});
        for (grant, is_held, is_settled) in [
            (json!(null), false, false),
            (grant("Granting"), false, false),
            (in_force("Granting"), true, true),
            (in_force("Granted"), true, true),
            (in_force("Ended"), false, true),
            (grant("Ended"), false, true),
        ] {
            let status = of(&grant);
            assert_eq!(status.held().count() == 1, is_held, "{grant}");
            let entry = &status.policies[0];
            assert_eq!(status.is_settled(entry), is_settled, "{grant}");
        }
    }
}
