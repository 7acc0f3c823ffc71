//! Parsers of watched objects that skip the fields which this service does not use, such as `managedFields`.
//!
//! More than half of a stored object records the writers of its fields. Reading that as well would be the larger part
//! of the work and the memory of a start.

use std::collections::BTreeMap;
use std::fmt;

use connectors_api::parse;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::object::HasSpec;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use service_kit::watches::{Parse, Plain};

/// Reads the parts of roles and bindings that decisions need.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rbac {}

/// Reads our own kinds as strictly as all other services do: an object that a service does not fully understand gives
/// no access.
#[derive(Clone, Copy, Debug)]
pub enum Strict {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TreeMetadata {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<Time>,
}

impl From<TreeMetadata> for ObjectMeta {
    fn from(metadata: TreeMetadata) -> Self {
        let TreeMetadata {
            namespace,
            name,
            uid,
            resource_version,
            labels,
            deletion_timestamp,
        } = metadata;
        Self {
            namespace,
            name,
            uid,
            resource_version,
            labels,
            deletion_timestamp,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct ReadRole {
    metadata: TreeMetadata,
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadBinding {
    metadata: TreeMetadata,
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

impl Parse<Role> for Rbac {
    fn parse(json: &str) -> Result<Role, String> {
        let ReadRole { metadata, rules } = Plain::parse(json)?;
        let metadata = metadata.into();
        Ok(Role { metadata, rules })
    }
}

impl Parse<ClusterRole> for Rbac {
    fn parse(json: &str) -> Result<ClusterRole, String> {
        let ReadRole { metadata, rules } = Plain::parse(json)?;
        Ok(ClusterRole {
            metadata: metadata.into(),
            rules,
            // The controller of Kubernetes writes all aggregated rules into `rules`.
            aggregation_rule: None,
        })
    }
}

macro_rules! bindings {
    ($($kind:ident)+) => {$(
        impl Parse<$kind> for Rbac {
            fn parse(json: &str) -> Result<$kind, String> {
                let ReadBinding { metadata, role_ref, subjects } = Plain::parse(json)?;
                let metadata = metadata.into();
                Ok($kind { metadata, role_ref, subjects })
            }
        }
    )+};
}

bindings! { RoleBinding ClusterRoleBinding }

impl<K> Parse<K> for Strict
where
    K: HasSpec + DeserializeOwned,
    K::Spec: DeserializeOwned,
{
    fn parse(json: &str) -> Result<K, String> {
        let ObjectTree(object) = serde_json::from_str(json).map_err(|error| error.to_string())?;
        parse::object(&object).map_err(|error| error.to_string())
    }
}

/// An object as a tree, without the history of its fields.
struct ObjectTree(Value);

impl<'de> Deserialize<'de> for ObjectTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = deserializer.deserialize_map(Level::Object)?;
        Ok(Self(Value::Object(object)))
    }
}

/// The place of a map in an object.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self).map(Value::Object)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Metadata => "its metadata",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut map = Map::new();
        while let Some(field) = fields.next_key::<String>()? {
            let value = match (self, field.as_str()) {
                (Self::Metadata, "managedFields") => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Self::Object, "metadata") => fields.next_value_seed(Self::Metadata)?,
                (Self::Object | Self::Metadata, _) => fields.next_value()?,
            };
            map.insert(field, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::AccessRequest;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{POD_FORM, request, role, role_binding};

    /// The text of an object as the API server has it, with a history.
    fn stored(object: impl serde::Serialize) -> String {
        let mut object = serde_json::to_value(object).unwrap();
        object["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:metadata": {}}}]);
        object["metadata"]["annotations"] = json!({"a": "b"});
        object.to_string()
    }

    #[test]
    fn nothing_is_missing_that_decides() {
        for going in [None, Some(Time(jiff::Timestamp::UNIX_EPOCH))] {
            let mut written = role("a", POD_FORM);
            written.metadata.deletion_timestamp = going.clone();
            let read: Role = Rbac::parse(&stored(&written)).unwrap();
            assert_eq!(read, written);
            let mut written = role_binding("a");
            written.metadata.deletion_timestamp = going;
            let read: RoleBinding = Rbac::parse(&stored(&written)).unwrap();
            assert_eq!(read, written);
        }
        let asked = request("a", "Granted");
        let read: AccessRequest = Strict::parse(&stored(&asked)).unwrap();
        assert_eq!(read.metadata.managed_fields, None);
        assert_eq!((read.spec, read.status), (asked.spec, asked.status));
        assert_eq!(read.metadata.name, asked.metadata.name);
    }

    #[test]
    fn what_is_odd_is_told_with_its_place_and_without_its_value() {
        let mut odd = serde_json::to_value(role_binding("a")).unwrap();
        odd["subjects"] = json!("hunter2");
        let problem = <Rbac as Parse<RoleBinding>>::parse(&odd.to_string()).unwrap_err();
        assert!(problem.starts_with("subjects: "), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
        for (text, expected) in [
            ("[]", "expected an object"),
            ("{", "EOF"),
            (r#"{"metadata":[]}"#, "expected its metadata"),
        ] {
            let problem = <Strict as Parse<AccessRequest>>::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
            assert!(<Rbac as Parse<Role>>::parse(text).is_err());
        }
    }
}
