//! The status of an `AccessPolicy`, written by the controllers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AccessPolicyCondition, Condition};

/// The findings of the controllers about a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "What the controllers found out about the policy. Nobody else writes it.")]
pub struct AccessPolicyStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many connectors the policy selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_connector_count: Option<i32>,
    /// The connectors that the policy selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub matched_connectors: Vec<MatchedConnector>,
    /// How many subjects hold the standing permission: 0 when the policy has none. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_subjects: Option<i32>,
    /// The findings: ConnectorsMatched (the policy selects a connector), PermissionSynced (the standing
    /// permission is in force), ChecksValid (every check can be judged) and Ready (all of it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition<AccessPolicyCondition>>,
}

/// A connector that a policy selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MatchedConnector {
    /// Name of the connector.
    #[schemars(length(max = 253))]
    pub name: String,
}
