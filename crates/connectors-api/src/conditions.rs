//! Conditions: the last findings of a controller about an object, in the shape that `kubectl wait
//! --for=condition=…` understands.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The types of findings about an `AccessPolicy`.
    AccessPolicyCondition {
        /// The policy selects at least one connector.
        ConnectorsMatched,
        /// The standing permission is in force as written.
        PermissionSynced,
        /// Every check can be judged: its kind exists and may be read.
        ChecksValid,
        /// All of the above.
        Ready,
    }
}

words! {
    /// The types of findings about an `AccessRequest`.
    AccessRequestCondition {
        /// The pod of the request exists and has not finished.
        ContextObjectValid,
        /// The connector exists.
        ConnectorResolved,
        /// A policy with checks selects the connector and accepts the asker.
        AccessPolicyMatched,
        /// Every check of a policy passes.
        AccessCheckReady,
        /// The permission is in force.
        AccessPermissionSync,
        /// All of the above: the pod may mount.
        Ready,
    }
}

words! {
    /// Whether a condition holds.
    ConditionStatus {
        /// The condition holds.
        True,
        /// The condition does not hold.
        False,
        /// The condition is not judged yet.
        Unknown,
    }
}

/// One finding about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition<T> {
    /// The type of the finding. An object has at most one condition of each type.
    #[serde(rename = "type")]
    pub type_: T,
    /// True when it holds, False when it does not, Unknown when it was not judged yet.
    pub status: ConditionStatus,
    /// Why, as one word for programs.
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// The reason as a sentence for people, with a remedy. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// The `metadata.generation` that was judged. Older than the object's: the finding is out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed its value.
    pub last_transition_time: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_shape_of_kubernetes() {
        let wire = serde_json::json!({
            "type": "ContextObjectValid",
            "status": "True",
            "reason": "UnCompleted",
            "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let condition: Condition<AccessRequestCondition> =
            serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(condition.type_, AccessRequestCondition::ContextObjectValid);
        assert_eq!(serde_json::to_value(condition).unwrap(), wire);
    }
}
