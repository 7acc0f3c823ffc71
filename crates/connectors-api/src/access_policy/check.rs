//! One approval check: the objects that decide, and how their state is read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, schema};

/// A check: which objects decide, and how they are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::forbidden(
        "!has(self.approvers) || (self.selector.objectRef.kind == 'ApprovalTask' && \
         self.selector.objectRef.apiVersion.startsWith('openshift-pipelines.org/'))",
        "approvers: only an ApprovalTask of openshift-pipelines.org records who approved; \
         leave them out for other kinds",
    ).field_path(".approvers"),
]))]
pub struct Check {
    /// Name of the check within the policy, as it appears in status and events.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
    /// The objects that decide. They are looked up in the namespace of the pod.
    pub selector: CheckSelector,
    /// `All` (the default): every object found must pass. `Any`: one is enough. If none is found, the
    /// check waits.
    #[serde(default, rename = "match")]
    pub match_: Match,
    /// Which changes after the grant count. `Auto` (the default): an object that leaves its passing state
    /// revokes, its deletion does not. `WhileHolds`: both revoke. `Once`: the object is never looked at
    /// again.
    #[serde(default)]
    pub latch: Latch,
    /// Whether pod and object must be proven to belong to one pipeline run, which labels cannot
    /// prove. `Auto` (the default): for ApprovalTasks and for kinds of `tekton.dev`. `Required`: always; a kind
    /// that no proof is known for is refused. `None`: never, labels are believed. For ApprovalTasks there is a proof; a
    /// check on a kind of `tekton.dev` that needs one never passes.
    #[serde(default)]
    pub provenance: Provenance,
    /// The users and groups whose approvals count. Absent: all approvers that the object itself accepts. The
    /// author of the pipeline chooses those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
    /// How the state of an object is read. Absent: from its `status.state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CheckState>,
}

impl Check {
    /// Whether a Rego module decides, in place of the object's state.
    #[must_use]
    pub fn has_module(&self) -> bool {
        self.state.as_ref().is_some_and(|it| !it.rego.is_empty())
    }
}

/// The objects that decide a check. All parts must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckSelector {
    /// Labels of the objects. Each value may be a template over the pod, such as
    /// `{.object.metadata.labels['tekton\.dev/pipelineRun']}`.
    #[schemars(schema_with = "schema::label_templates")]
    pub labels: BTreeMap<String, String>,
    /// Kind of the objects.
    pub object_ref: ObjectKind,
    /// Fields of the objects and the values they must have, such as `spec.type: TimeWindow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::field_values")]
    pub field_selector: Option<BTreeMap<String, String>>,
}

/// A kind of objects.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::forbidden(
        "!(self.apiVersion == 'v1' && self.kind == 'Secret')",
        "objectRef: a Secret is never read as a check; keep the state in another kind, such as a ConfigMap",
    ),
]))]
pub struct ObjectKind {
    /// Group and version, such as `openshift-pipelines.org/v1alpha1`.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*$")
    )]
    pub api_version: String,
    /// Kind, such as `ApprovalTask`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Z][A-Za-z0-9]*$"))]
    pub kind: String,
}

/// Which of the objects found must pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Match {
    /// Every one.
    #[default]
    All,
    /// At least one.
    Any,
}

/// Which changes after the grant count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Latch {
    /// Leaving the passing state revokes, deletion of the object does not.
    #[default]
    Auto,
    /// Leaving the passing state revokes, and so does deletion of the object.
    WhileHolds,
    /// Nothing: the object is never looked at again.
    Once,
}

/// Whether pod and object must be proven to belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Provenance {
    /// Where the lineage of the object's kind is known.
    #[default]
    Auto,
    /// Always; a kind of unknown lineage never passes.
    Required,
    /// Never: labels are believed.
    None,
}

/// The users and groups whose approvals count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::required(
        "has(self.users) || has(self.groups) || (has(self.notRequester) && self.notRequester)",
        "approvers: name users, groups or both, or set notRequester; leave approvers out to accept whoever the object accepts",
    ),
]))]
pub struct Approvers {
    /// Users whose own approval counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)))]
    pub users: Vec<String>,
    /// Groups whose approval counts, where the object lists the group itself as an approver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)))]
    pub groups: Vec<String>,
    /// How many of them must have approved. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub minimum: i32,
    /// The creator of the pod's pipeline run does not count. Without users and groups, all other users count.
    /// It needs the chart value `tekton.creators.enabled`, with which each run names its creator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_requester: bool,
}

const fn one() -> i32 {
    1
}

/// How the state of an object is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckState {
    /// A Rego module of `package approval` whose `output` is
    /// `{"state": "pending" | "approved" | "rejected" | "passed", "message": …}`. Its `input` is the
    /// object, `data.context` the pod. Empty or absent: the object's `status.state` is the state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub rego: String,
}
