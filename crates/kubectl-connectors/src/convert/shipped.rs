//! The kind AccessPolicy as the other product has it. An unknown field is an error: one that is dropped could be the one
//! that limits an access.

use std::collections::BTreeMap;

use connectors_api::access_policy::ObjectKind;
use connectors_api::selector::Requirement;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedSpec {
    pub(super) connector: Option<ShippedSelector>,
    pub(super) default_permission: Option<ShippedDefault>,
    pub(super) check_granted_permission: Option<ShippedGranted>,
}

/// Connectors or namespaces, by name or by label.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedSelector {
    pub(super) names: Option<Vec<String>>,
    pub(super) match_labels: Option<BTreeMap<String, String>>,
    pub(super) match_expressions: Option<Vec<Requirement>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedDefault {
    pub(super) role_template: ShippedRoleTemplate,
    pub(super) binding_template: ShippedBindingTemplate,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedRoleTemplate {
    #[serde(rename = "ref")]
    pub(super) reference: TemplateReference,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TemplateReference {
    pub(super) config_map: ConfigMapReference,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConfigMapReference {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedBindingTemplate {
    pub(super) service_accounts: Vec<ShippedAccounts>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedAccounts {
    pub(super) names: Option<Vec<String>>,
    pub(super) namespace_selector: Option<ShippedSelector>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedGranted {
    pub(super) spec: ShippedGrantedSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedGrantedSpec {
    pub(super) checks: Vec<ShippedCheck>,
    pub(super) role_template: ShippedRoleTemplate,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedCheck {
    pub(super) name: String,
    #[serde(rename = "ref")]
    pub(super) reference: Option<TemplateReference>,
    pub(super) spec: Option<ShippedCheckSpec>,
    pub(super) params: Option<Vec<ShippedParam>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedParam {
    pub(super) name: String,
    pub(super) value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedCheckSpec {
    pub(super) selector: ShippedCheckSelector,
    pub(super) state: Option<ShippedState>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedCheckSelector {
    /// A name or a namespace in it is refused, because the checks here have none.
    pub(super) object_ref: ObjectKind,
    pub(super) match_labels: Option<BTreeMap<String, String>>,
    pub(super) match_expressions: Option<Vec<Requirement>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShippedState {
    pub(super) rego: Option<String>,
}

impl ShippedSelector {
    /// True when nothing is written: `{}`.
    pub(super) const fn is_nothing(&self) -> bool {
        self.names.is_none() && self.match_labels.is_none() && self.match_expressions.is_none()
    }
}
