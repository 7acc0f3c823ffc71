//! AccessPolicy: grants subjects the use of connectors, always or while checks hold.

mod check;
mod role_template;
mod status;
mod subject;
mod subject_form;

use kube::CustomResource;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use check::{
    Approvers, Check, CheckSelector, CheckState, Latch, Match, ObjectKind, Provenance,
};
pub use role_template::{RoleRule, RoleTemplate};
pub use status::{AccessPolicyStatus, MatchedConnector};
pub use subject::{SubjectKind, SubjectSpec};
pub use subject_form::{SubjectError, SubjectForm};

use crate::{LabelSelector, Permission, PositiveDuration, cel, optional, schema};

/// The subjects that may use connectors, always or while checks hold.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "connectors.alauda.io",
    version = "v1alpha1",
    kind = "AccessPolicy",
    plural = "accesspolicies",
    shortname = "apol",
    category = "connectors-approval",
    namespaced,
    status = "AccessPolicyStatus",
    derive = "PartialEq",
    doc = "An AccessPolicy says who may use the connectors of its namespace: always (defaultPermission), or for one pod at a time while approval checks hold (checkGrantedPermission).",
    printcolumn = r#"{"name": "Connectors", "type": "integer", "jsonPath": ".status.matchedConnectorCount", "description": "How many connectors the policy selects"}"#,
    printcolumn = r#"{"name": "Subjects", "type": "integer", "jsonPath": ".status.grantedSubjects", "description": "How many subjects hold the standing permission"}"#,
    printcolumn = r#"{"name": "Permission", "type": "string", "jsonPath": ".spec.permission", "description": "The capability that the policy hands out"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Checks", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ChecksValid')].reason", "priority": 1, "description": "Whether every check can be judged"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::required(
        "(has(self.defaultPermission) && \
          (has(self.defaultPermission.roleTemplate) || has(self.defaultPermission.bindingTemplate))) || \
         (has(self.checkGrantedPermission) && \
          (has(self.checkGrantedPermission.spec) || has(self.checkGrantedPermission.requesters)))",
        "spec: give defaultPermission, checkGrantedPermission or both; {} counts as absent",
    ),
    names_the_permission(
        &["defaultPermission", "roleTemplate"],
        "defaultPermission: resources must name the capability in spec.permission: connectors/<permission>",
    ),
    names_the_permission(
        &["checkGrantedPermission", "spec", "permissions", "roleTemplate"],
        "checkGrantedPermission: resources must name the capability in spec.permission: connectors/<permission>/…",
    ),
]))]
pub struct AccessPolicySpec {
    /// The connectors of this namespace that the policy is about. Absent or {}: all of them.
    #[serde(default, skip_serializing_if = "ConnectorSelector::is_everything")]
    pub connector: ConnectorSelector,
    /// The capability that is handed out: `apis` (the default: use of the tool's API, and mounting
    /// into a pod) or `proxy` (use through the connector's proxy). Every role rule of the policy must
    /// name `connectors/` followed by this word.
    #[serde(default)]
    pub permission: Permission,
    /// The permission that subjects have at any time, without a request. {} is the same as absent.
    #[serde(
        default,
        deserialize_with = "optional::non_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub default_permission: Option<DefaultPermission>,
    /// The permission that a pod gets once approval checks hold, and keeps only as long as they do. {} is the
    /// same as absent.
    #[serde(
        default,
        deserialize_with = "optional::non_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub check_granted_permission: Option<CheckGrantedPermission>,
}

/// The rules of the role template at `path` must name the capability of the policy and no other.
///
/// The rule uses `has` instead of optionals: behind `orValue` the API server's cost estimate no longer knows
/// how long the lists can be.
fn names_the_permission(path: &[&str], message: &str) -> Rule {
    let absent =
        (1..=path.len()).map(|depth| format!("!has(self.{}) || ", path[..depth].join(".")));
    let rules = format!("{}.rules", path.join("."));
    // The rule about the shape refuses a resource that is no subresource of connectors.
    let holds = "all(rule, rule.resources.all(resource, !resource.startsWith('connectors/') || \
                 resource == 'connectors/' + self.permission || \
                 resource.startsWith('connectors/' + self.permission + '/')))";
    cel::invalid(
        format!("{}self.{rules}.{holds}", absent.collect::<String>()),
        message,
    )
    .field_path(format!(".{rules}"))
}

/// Selects connectors of the policy's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::invalid(
        format!("!has(self.selector) || {}", cel::selects("selector")),
        "selector: has no requirement; leave it out to select every connector of the namespace",
    ).field_path(".selector"),
]))]
pub struct ConnectorSelector {
    /// Names of connectors. If `selector` is given too, a connector must satisfy both. An empty list
    /// is refused: leave the field out to select by `selector` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        inner(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Option<Vec<String>>,
    /// Labels of connectors, such as `connectors.cpaas.io/connectorclass` for all of one class. If
    /// `names` is given too, a connector must satisfy both. A selector without a requirement is
    /// refused: leave the field out to select by `names` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl ConnectorSelector {
    /// True when there is no requirement, so that every connector of the namespace is selected.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.names.is_none() && self.selector.is_none()
    }
}

/// A permission that is held at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    transform = schema::make_all_optional,
    extend("x-kubernetes-validations" = [
        cel::required(
            "has(self.roleTemplate) == has(self.bindingTemplate)",
            "defaultPermission: needs roleTemplate and bindingTemplate; leave out both for no standing permission",
        ),
    ])
)]
pub struct DefaultPermission {
    /// The permission of the subjects.
    #[schemars(extend("x-kubernetes-validations" = [role_template::no_templates()]))]
    pub role_template: RoleTemplate,
    /// The subjects that get the permission.
    pub binding_template: BindingTemplate,
}

/// The subjects of a standing permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::invalid(
        format!(
            "self.subjects.filter(it, !has(it.name) || \
             (it.kind == 'Group' && it.name == 'system:serviceaccounts' && has(it.namespaceSelector))).size() <= {MOST_SELECTORS}"
        ),
        "subjects: at most 16 may have selectors; name the others, or split the policy",
    ).field_path(".subjects"),
]))]
pub struct BindingTemplate {
    /// The subjects that hold the permission.
    #[schemars(length(min = 1, max = 1000))]
    pub subjects: Vec<SubjectSpec>,
}

/// The limit of subjects with selectors in one standing permission. Each selector is compared with every
/// namespace and service account that changes.
pub const MOST_SELECTORS: usize = 16;

impl BindingTemplate {
    /// The number of subjects with selectors.
    #[must_use]
    pub fn selectors(&self) -> usize {
        let forms = self.subjects.iter().flat_map(SubjectForm::try_from);
        forms.filter(SubjectForm::is_selector).count()
    }
}

/// A permission that one pod holds while checks hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    transform = schema::make_all_optional,
    extend("x-kubernetes-validations" = [
        cel::required(
            "has(self.spec) || !has(self.requesters)",
            "checkGrantedPermission: requesters need a spec that says what is checked and granted",
        ).field_path(".spec"),
    ])
)]
pub struct CheckGrantedPermission {
    /// The subjects that may request access. Absent: the ServiceAccounts of this namespace. Name the others
    /// when pods of other namespaces use the connector: checks are looked up in the pod's namespace, so
    /// without this field the users of any namespace could approve their own access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000))]
    pub requesters: Option<Vec<SubjectSpec>>,
    /// The checks, the permission that they open, and its time limits.
    pub spec: CheckGrantedSpec,
}

/// The checks, the permission that they open, and its time limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckGrantedSpec {
    /// The checks. All of them must pass.
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub checks: Vec<Check>,
    /// The permission that the pod gets once the checks pass.
    pub permissions: GrantedPermissions,
    /// For how long. Absent: until the pod ends or a check stops holding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// The permission that a pod gets once the checks pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantedPermissions {
    /// The rules of the Role that is written for the pod. Every resource must end in the pod's own
    /// namespace and name:
    /// `connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}`.
    #[schemars(extend("x-kubernetes-validations" = [
        role_template::not_bare(),
        role_template::ends_in_context(),
    ]))]
    pub role_template: RoleTemplate,
}

/// Limits in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// How long a grant lasts at most, such as `4h`. Absent: until the pod ends or a check stops
    /// holding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<PositiveDuration>,
    /// How long a request waits for its checks at most, such as `24h`; then it is rejected. Absent:
    /// as long as the pod exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_timeout: Option<PositiveDuration>,
}
