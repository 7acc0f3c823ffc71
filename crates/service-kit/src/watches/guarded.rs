//! Objects of a watch, of which an unreadable one does not end the list: its metadata is read, and the problem told.

use std::{borrow::Cow, fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use thiserror::Error;

/// How the text of one object becomes a value. Kinds that are parsed more strictly than by plain
/// deserialization have a parser of their own, which their service names.
pub trait Parse<K> {
    /// Reads one object, or says why not. The words go to the log: they quote no values.
    fn parse(json: &str) -> Result<K, String>;
}

/// Plain deserialization; errors name the field.
#[derive(Clone, Copy, Debug)]
pub enum Plain {}

impl<K: DeserializeOwned> Parse<K> for Plain {
    fn parse(json: &str) -> Result<K, String> {
        // Tracking the path is slow, so it is done only in a second pass after a failure.
        if let Ok(object) = serde_json::from_str(json) {
            return Ok(object);
        }
        let mut text = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut text).map_err(|error| {
            let path = error.path().to_string();
            let problem = without_value(&error.into_inner().to_string());
            if path == "." {
                problem
            } else {
                format!("{path}: {problem}")
            }
        })
    }
}

/// Removes the value that some of serde's messages quote: it may be confidential.
fn without_value(message: &str) -> String {
    let quotes = ["invalid type: ", "invalid value: ", "unknown variant "]
        .iter()
        .find(|start| message.starts_with(**start));
    let (Some(start), Some(end)) = (quotes, message.rfind(", expected ")) else {
        return message.to_owned();
    };
    format!("{}{}", start.trim_end_matches([' ', ':']), &message[end..])
}

/// An object as it was read, or why it could not be.
pub struct Guarded<K, P = Plain> {
    /// The object, if it is one.
    pub object: Result<K, Unreadable>,
    parser: PhantomData<fn() -> P>,
}

/// An object that exists and cannot be read.
#[derive(Clone, Debug, Error)]
#[error("{problem}")]
pub struct Unreadable {
    /// Its name, namespace, UID and resource version, and since when it is being deleted; nothing else.
    pub metadata: ObjectMeta,
    /// The problem of the object.
    pub problem: String,
}

/// The part of an object that is read even if nothing else can be. Fields that it does not name are
/// skipped without recursion: `managedFields` repeat the shape of the object and may be as deep.
#[derive(Default, Deserialize)]
#[serde(default)]
struct GuardedObject {
    metadata: GuardedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GuardedMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
}

impl<K, P: Parse<K>> Guarded<K, P> {
    fn parse(json: &str) -> Self {
        let object = P::parse(json).map_err(|problem| Unreadable {
            metadata: name(json),
            problem,
        });
        Self {
            object,
            parser: PhantomData,
        }
    }
}

fn name(json: &str) -> ObjectMeta {
    let GuardedObject { metadata } = serde_json::from_str(json).unwrap_or_default();
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

impl<'de, K, P: Parse<K>> Deserialize<'de> for Guarded<K, P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::parse(text.get()))
    }
}

impl<K: Clone, P> Clone for Guarded<K, P> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            parser: PhantomData,
        }
    }
}

impl<K: fmt::Debug, P> fmt::Debug for Guarded<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarded").field(&self.object).finish()
    }
}

impl<K: Resource, P> Resource for Guarded<K, P> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.object {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.object {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod},
    };
    use kube::{Resource, ResourceExt, core::DeserializeGuard, core::ObjectList};

    use super::{Guarded, without_value};

    /// A config map with a field that is deeper than any parser of trees allows.
    fn deep(levels: usize) -> String {
        let (open, close) = ("{\"f\":".repeat(levels), "}".repeat(levels));
        let metadata = format!(
            r#"{{"managedFields":[{{"fieldsV1":{open}1{close}}}],"namespace":"a","name":"deep","resourceVersion":"7"}}"#
        );
        format!(r#"{{"metadata":{metadata},"data":{open}1{close}}}"#)
    }

    fn page(items: &[&str]) -> String {
        let items = items.join(",");
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#
        )
    }

    const GOOD: &str = r#"{"metadata":{"name":"good"},"data":{"a":"b"}}"#;

    #[test]
    fn the_guard_of_kube_loses_a_page_with_one_deep_object() {
        let page = page(&[GOOD, &deep(130)]);
        let error =
            serde_json::from_str::<ObjectList<DeserializeGuard<ConfigMap>>>(&page).unwrap_err();
        assert!(
            error.to_string().starts_with("recursion limit exceeded"),
            "{error}"
        );
    }

    #[test]
    fn a_deep_object_is_unreadable_alone_and_under_its_own_name() {
        let page = page(&[&deep(130), GOOD, &deep(1_000_000)]);
        let list: ObjectList<Guarded<ConfigMap>> = serde_json::from_str(&page).unwrap();
        let names: Vec<_> = list
            .iter()
            .map(|item| (item.name_any(), item.object.is_ok()))
            .collect();
        let deep = ("deep".to_owned(), false);
        assert_eq!(names, [deep.clone(), ("good".to_owned(), true), deep]);
        assert_eq!(list.items[0].namespace().as_deref(), Some("a"));
        assert_eq!(list.items[0].resource_version().as_deref(), Some("7"));
    }

    #[test]
    fn a_guarded_object_is_one_of_its_kind_whether_or_not_it_can_be_read() {
        type Kind = Guarded<Deployment>;
        let kind = [
            Kind::kind(&()),
            Kind::group(&()),
            Kind::version(&()),
            Kind::plural(&()),
        ];
        assert_eq!(kind, ["Deployment", "apps", "v1", "deployments"]);
        for spec in ["{}", "7"] {
            let json = format!(r#"{{"metadata":{{"name":"x"}},"spec":{spec}}}"#);
            let mut pod: Guarded<Pod> = serde_json::from_str(&json).unwrap();
            pod.meta_mut().namespace = Some("a".to_owned());
            let name = (pod.name_any(), pod.namespace());
            assert_eq!(name, ("x".to_owned(), Some("a".to_owned())), "{spec}");
        }
    }

    #[test]
    fn an_object_of_another_shape_says_where_and_not_what() {
        let json = r#"{"metadata":{"name":"x"},"spec":{"containers":"hunter2, expected"}}"#;
        let pod: Guarded<Pod> = serde_json::from_str(json).unwrap();
        let problem = pod.object.unwrap_err().problem;
        assert!(
            problem.starts_with("spec.containers: invalid type, expected "),
            "{problem}"
        );
        assert!(!problem.contains("hunter2"), "{problem}");
    }

    #[test]
    fn an_unreadable_object_says_whether_it_is_being_deleted() {
        for (metadata, is_deleted) in [
            (r#"{"name":"x"}"#, false),
            (r#"{"name":"x","deletionTimestamp":null}"#, false),
            (
                r#"{"name":"x","deletionTimestamp":"2026-03-01T10:00:05Z"}"#,
                true,
            ),
        ] {
            let json = format!(r#"{{"metadata":{metadata},"spec":"none"}}"#);
            let pod: Guarded<Pod> = serde_json::from_str(&json).unwrap();
            assert!(pod.object.is_err());
            assert_eq!(
                pod.meta().deletion_timestamp.is_some(),
                is_deleted,
                "{metadata}"
            );
        }
    }

    #[test]
    fn an_object_without_usable_metadata_is_unreadable_too() {
        for json in [
            r#"{"metadata":[]}"#,
            r#"{"metadata":{"name":1}}"#,
            "[]",
            "null",
        ] {
            let pod: Guarded<Pod> = serde_json::from_str(json).unwrap();
            assert!(pod.object.is_err(), "{json}");
            assert_eq!(pod.name_any(), "", "{json}");
        }
    }

    #[test]
    fn messages_lose_the_value_and_keep_the_rest() {
        let cases = [
            (
                "invalid value: string \"a, expected b\", expected c",
                "invalid value, expected c",
            ),
            (
                "unknown variant `secret`, expected `A` or `B`",
                "unknown variant, expected `A` or `B`",
            ),
            (
                "unknown field `nmae`, expected `name`",
                "unknown field `nmae`, expected `name`",
            ),
            ("missing field `name`", "missing field `name`"),
        ];
        for (message, expected) in cases {
            assert_eq!(without_value(message), expected);
        }
    }
}
