//! The permissions that a connector has: `apis` and `proxy`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capability of a connector, which is also the first segment of the RBAC subresource it is
/// guarded by: `connectors/<permission>`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Use of the tool's API, and the mounting of a connector into a pod.
    #[default]
    Apis,
    /// Use of the tool through the connector's proxy.
    Proxy,
}

impl Permission {
    /// Every permission.
    pub const ALL: &[Self] = &[Self::Apis, Self::Proxy];

    /// The permission as spelled in resource strings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apis => "apis",
            Self::Proxy => "proxy",
        }
    }

    /// Parses the segment of a resource string.
    #[must_use]
    pub fn from_segment(segment: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|permission| permission.as_str() == segment)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_and_the_resource_string_use_one_word() {
        for permission in Permission::ALL {
            assert_eq!(
                serde_json::to_value(permission).unwrap(),
                permission.as_str()
            );
            assert_eq!(
                Permission::from_segment(permission.as_str()),
                Some(*permission)
            );
        }
        assert_eq!(Permission::from_segment("Apis"), None);
    }
}
