//! The rules of the Roles that a policy grants.

use kube::core::Rule;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cel;

/// Rules from which a Role is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoleTemplate {
    /// The rules. `resourceNames` is not among their fields: it is always filled with the names of
    /// the matched connectors.
    #[schemars(length(min = 1, max = 16))]
    pub rules: Vec<RoleRule>,
}

/// One rule of a Role, limited to the access of connectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    transform = declare_what_is_forbidden,
    extend("x-kubernetes-validations" = [
        cel::forbidden(
            "self.apiGroups == ['connectors.alauda.io']",
            "apiGroups: must be exactly [connectors.alauda.io]; a policy hands out access to connectors only",
        ).field_path(".apiGroups"),
        cel::invalid(
            format!("self.resources.all(resource, resource.matches(r'{}'))", shape()),
            "resources: must be connectors/<permission> or \
             connectors/<permission>/<apiVersion>/<kind>/<namespace>/<name>, in lower case and without *",
        ).field_path(".resources"),
        cel::forbidden(
            "!has(self.resourceNames)",
            "resourceNames: always filled with the matched connectors; select them in spec.connector",
        ).field_path(".resourceNames"),
        cel::forbidden(
            "!has(self.nonResourceURLs)",
            "nonResourceURLs: not allowed; a policy hands out access to connectors only",
        ).field_path(".nonResourceURLs"),
    ])
)]
pub struct RoleRule {
    /// Exactly `[connectors.alauda.io]`.
    #[schemars(length(max = 8), inner(length(max = 253)))]
    pub api_groups: Vec<String>,
    /// The resources: `connectors/<permission>`, or that followed by
    /// `/<apiVersion>/<kind>/<namespace>/<name>` to limit the access to one object. A mount asks for
    /// `connectors/<permission>` and for `connectors/<permission>/v1/pod/<namespace>/<name>`. To see whether
    /// it is held: `kubectl auth can-i '*' connectors/NAME --subresource=apis --as
    /// system:serviceaccount:NAMESPACE:ACCOUNT`, for a pod `--subresource=apis/v1/pod/NAMESPACE/POD`.
    #[schemars(length(min = 1, max = 16), inner(length(max = 512)))]
    pub resources: Vec<String>,
    /// The allowed verbs. A mount asks for `*`, which only `*` itself covers.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63)))]
    pub verbs: Vec<String>,
}

/// `connectors/<permission>`, alone or with the object that may use it. The namespace and the name may each
/// be one template. Which templates are allowed, if any, depends on where the rule is used.
fn shape() -> String {
    let group_version = r"([a-z0-9][-.a-z0-9]*/)?v[0-9][a-z0-9]*";
    let kind = "[a-z][-a-z0-9]*";
    let name = r"([a-z0-9][-.a-z0-9]*|\{[^/{}*]+\})";
    format!("^connectors/[a-z]+(/{group_version}/{kind}/{name}/{name})?$")
}

/// A standing permission outlives any pod, so it must not depend on one.
pub(super) fn no_templates() -> Rule {
    cel::invalid(
        "self.rules.all(rule, rule.resources.all(resource, !resource.contains('{')))",
        "defaultPermission: no templates in resources; there is no pod yet that could fill them",
    )
    .field_path(".rules")
}

/// `connectors/<permission>` alone would be held by the subject, not by its pod.
pub(super) fn not_bare() -> Rule {
    cel::forbidden(
        "self.rules.all(rule, rule.resources.all(resource, resource.split('/').size() != 2))",
        "resources: one approval would open every pod of the ServiceAccount; end them in \
         /v1/pod/{.object.metadata.namespace}/{.object.metadata.name}",
    )
    .field_path(".rules")
}

/// Templates may use the namespace of the context object where a namespace belongs, and its name where a name
/// belongs. The last three spellings come from the source document.
pub(super) fn ends_in_context() -> Rule {
    let namespace =
        r"\{\.(object\.metadata|object\.pod\.metadata|pod\.metadata|object\.pod)\.namespace\}";
    let name = r"\{\.(object\.metadata|object\.pod\.metadata|pod\.metadata|object\.pod)\.name\}";
    cel::invalid(
        format!(
            "self.rules.all(rule, rule.resources.all(resource, !resource.contains('{{') || \
             resource.matches(r'/([^/{{]+|{namespace})/([^/{{]+|{name})$')))"
        ),
        "resources: only the namespace and the name of the pod may be templates, written \
         {.object.metadata.namespace} and {.object.metadata.name}, each in its place",
    )
    .field_path(".rules")
}

/// Users copy rules from Roles. Declaring the two fields that are forbidden here gives them a description in
/// `kubectl explain` and a specific error message.
fn declare_what_is_forbidden(schema: &mut Schema) {
    let refused = |why: &str| json!({"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 253}, "description": why});
    let Some(properties) = schema
        .get_mut("properties")
        .and_then(|properties| properties.as_object_mut())
    else {
        return;
    };
    properties.insert(
        "resourceNames".to_owned(),
        refused("Not allowed: it is always filled with the names of the matched connectors, which spec.connector selects."),
    );
    properties.insert(
        "nonResourceURLs".to_owned(),
        refused("Not allowed: a policy hands out access to connectors only."),
    );
}
