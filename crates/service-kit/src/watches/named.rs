//! Objects of which only the name, or little more, is read: the rest of every object of a cluster would not fit into
//! memory.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Parse, Plain};

/// The maximum bytes of an object's labels in the cache. An object with more counts as unreadable. The
/// creator of an object decides the number of its labels, and every object of the cluster is kept.
const MOST_LABEL_BYTES: usize = 8 * 1024;

/// Parses only the name of an object, and its labels. All other content is skipped unread.
#[derive(Clone, Copy, Debug)]
pub enum Named {}

impl<K: Resource + Default> Parse<K> for Named {
    fn parse(json: &str) -> Result<K, String> {
        let mut object = K::default();
        *object.meta_mut() = read::<ObjectIdentity>(json)?.metadata.into();
        bounded(object)
    }
}

/// Parses the fields of a type, with the labels.
#[derive(Clone, Copy, Debug)]
pub enum Labelled {}

impl<K: Resource + DeserializeOwned> Parse<K> for Labelled {
    fn parse(json: &str) -> Result<K, String> {
        bounded(Plain::parse(json)?)
    }
}

fn bounded<K: Resource>(object: K) -> Result<K, String> {
    let labels = object.meta().labels.iter().flatten();
    let bytes: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MOST_LABEL_BYTES {
        return Err(format!(
            "metadata.labels: {bytes} bytes, and at most {MOST_LABEL_BYTES} are read"
        ));
    }
    Ok(object)
}

#[derive(Deserialize)]
struct ObjectIdentity {
    #[serde(default)]
    metadata: Identity,
}

/// The part of an object's metadata with its identity, its owners, and its deletion.
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

/// Parses the fields of a type. Of an error it reports only the place, because serde's message may quote the
/// text.
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
    fn an_object_with_too_many_bytes_of_labels_is_unreadable() {
        let labelled = |bytes: usize| {
            let value = "x".repeat(bytes - 1);
            format!(r#"{{"metadata": {{"name": "a", "labels": {{"k": "{value}"}}}}}}"#)
        };
        let named = <Named as Parse<ServiceAccount>>::parse;
        let plain = <Labelled as Parse<ServiceAccount>>::parse;
        for parse in [named, plain] {
            let most = parse(&labelled(MOST_LABEL_BYTES)).unwrap();
            assert_eq!(most.metadata.labels.unwrap().len(), 1);
            let problem = parse(&labelled(MOST_LABEL_BYTES + 1)).unwrap_err();
            assert_eq!(
                problem,
                "metadata.labels: 8193 bytes, and at most 8192 are read"
            );
            assert!(parse(r#"{"metadata": {"labels": null}}"#).is_ok());
        }
    }

    #[test]
    fn an_object_without_metadata_has_no_name_and_what_is_no_object_is_none() {
        let account: ServiceAccount = Named::parse("{}").unwrap();
        assert_eq!(account.metadata, ObjectMeta::default());
        let problem = <Named as Parse<ServiceAccount>>::parse(r#"{"metadata": "secret"}"#);
        assert!(!problem.unwrap_err().contains("secret"));
    }

    /// Every parser keeps whether the object is being deleted, since when it exists, and its owners.
    #[test]
    fn what_is_being_deleted_says_so_however_little_of_it_is_read() {
        type Read = fn(&str) -> Result<ServiceAccount, String>;
        let json = |rest: &str| {
            format!(
                r#"{{"metadata": {{"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                    "labels": {{"k": "v"}}, "finalizers": ["example.com/keep"],
                    "creationTimestamp": "2025-01-01T00:00:00Z",
                    "ownerReferences": [{{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o"}}]{rest}}}}}"#
            )
        };
        let going = json(r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#);
        let null = json(r#", "deletionTimestamp": null"#);
        for (parser, parse) in [
            ("Named", <Named as Parse<ServiceAccount>>::parse as Read),
            ("Labelled", <Labelled as Parse<ServiceAccount>>::parse),
            ("Plain", <Plain as Parse<ServiceAccount>>::parse),
        ] {
            let metadata = |text: &str| parse(text).unwrap().metadata;
            assert!(metadata(&going).deletion_timestamp.is_some(), "{parser}");
            assert!(metadata(&null).deletion_timestamp.is_none(), "{parser}");
            assert!(metadata(&json("")).deletion_timestamp.is_none(), "{parser}");
            let ObjectMeta {
                name,
                namespace,
                uid,
                resource_version,
                creation_timestamp,
                owner_references,
                ..
            } = metadata(&going);
            let identity = [name, namespace, uid, resource_version].map(Option::unwrap);
            assert_eq!(identity, ["a", "n", "u", "7"], "{parser}");
            let created = creation_timestamp.unwrap().0.to_string();
            assert_eq!(created, "2025-01-01T00:00:00Z", "{parser}");
            assert_eq!(owner_references.unwrap()[0].uid, "o", "{parser}");
        }
    }
}
