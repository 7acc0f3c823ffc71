//! Objects of which only the name, or little more, is read: the rest of every object of a cluster would not fit into
//! memory.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, de::DeserializeOwned};

use super::Parse;

/// Only what an object is called. Whatever else is in it is skipped unread.
#[derive(Clone, Copy, Debug)]
pub enum Named {}

impl<K: Resource + Default> Parse<K> for Named {
    fn parse(json: &str) -> Result<K, String> {
        let mut object = K::default();
        *object.meta_mut() = read::<Object>(json)?.metadata.into();
        Ok(object)
    }
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Identity,
}

/// The part of an object's metadata that says which object it is, whose it is, and whether it goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        let Identity {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            creation_timestamp,
            deletion_timestamp,
            owner_references,
        } = identity;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            creation_timestamp,
            deletion_timestamp,
            owner_references,
            ..Self::default()
        }
    }
}

/// Reads what a type has of an object, and says of an error where it is: its words may quote the text.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("cannot be read, at column {}", error.column()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceAccount;

    use super::*;

    #[test]
    fn of_other_objects_only_names_and_labels_are_kept() {
        let json = r#"{"metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"big": "text"}}, "secrets": 7}"#;
        let account: ServiceAccount = Named::parse(json).unwrap();
        assert_eq!(account.metadata.labels.unwrap()["x"], "y");
        assert_eq!(account.metadata.annotations, None);
    }

    #[test]
    fn an_object_without_metadata_has_no_name_and_what_is_no_object_is_none() {
        let account: ServiceAccount = Named::parse("{}").unwrap();
        assert_eq!(account.metadata, ObjectMeta::default());
        let problem = <Named as Parse<ServiceAccount>>::parse(r#"{"metadata": "secret"}"#);
        assert!(!problem.unwrap_err().contains("secret"));
    }
}
