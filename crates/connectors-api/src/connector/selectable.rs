//! A connector as selectors see it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::Connector;
use crate::labels;

/// A [`Connector`] reduced to its metadata, with the labels that selectors compare.
///
/// Selectors of connectors are never compared with the stored class labels. These may be missing, because the
/// connector is older than the webhook or the webhook was unavailable, or may name another class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selectable {
    /// Name, owner, age, and labels including those of the class.
    pub metadata: ObjectMeta,
}

/// The fields of a connector that are deserialized, however large the rest is.
#[derive(Deserialize)]
struct ConnectorFields {
    #[serde(default)]
    metadata: SelectableMetadata,
    #[serde(default)]
    spec: SelectableSpec,
}

/// `service-kit` reads the same fields of other kinds. It must not depend on the kinds of this crate, and
/// this crate must not depend on libraries of processes, so neither can reuse the other's type.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectableMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectableSpec {
    connector_class_name: Option<String>,
}

impl From<ConnectorFields> for Selectable {
    fn from(ConnectorFields { metadata, spec }: ConnectorFields) -> Self {
        let SelectableMetadata {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            creation_timestamp,
            deletion_timestamp,
            owner_references,
        } = metadata;
        let class = spec.connector_class_name.unwrap_or_default();
        Self {
            metadata: ObjectMeta {
                name,
                namespace,
                uid,
                resource_version,
                labels: Some(labels::of_connector(labels.unwrap_or_default(), &class)),
                creation_timestamp,
                deletion_timestamp,
                owner_references,
                ..ObjectMeta::default()
            },
        }
    }
}

impl<'de> Deserialize<'de> for Selectable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ConnectorFields::deserialize(deserializer).map(Self::from)
    }
}

impl Resource for Selectable {
    type DynamicType = <Connector as Resource>::DynamicType;
    type Scope = <Connector as Resource>::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        Connector::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        Connector::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        Connector::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        Connector::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::LabelSelector;

    const CLASS: &str = "connectors.cpaas.io/connectorclass";

    fn labels(connector: &Value) -> BTreeMap<String, String> {
        let read: Selectable = serde_json::from_str(&connector.to_string()).unwrap();
        read.metadata.labels.unwrap()
    }

    #[test]
    fn both_labels_have_the_class_whatever_was_written() {
        let both: Value = labels::CONNECTOR_CLASS
            .iter()
            .map(|key| ((*key).to_owned(), json!("oci")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        for written in [
            json!({}),
            json!({"labels": null}),
            json!({"labels": {}}),
            json!({"labels": {CLASS: "git"}}),
            json!({"labels": {CLASS: ""}}),
            json!({"labels": both}),
        ] {
            let connector = json!({"metadata": written, "spec": {"connectorClassName": "oci", "auth": {"name": "x"}}});
            assert_eq!(json!(labels(&connector)), both, "{written}");
        }
    }

    #[test]
    fn a_class_that_is_absent_or_empty_is_no_label_and_other_labels_stay() {
        let written = json!({CLASS: "git", "stage": "prod"});
        for spec in [
            json!({}),
            json!({"connectorClassName": null}),
            json!({"connectorClassName": ""}),
        ] {
            let connector = json!({"metadata": {"labels": written}, "spec": spec});
            assert_eq!(
                json!(labels(&connector)),
                json!({"stage": "prod"}),
                "{spec}"
            );
        }
        assert_eq!(labels(&json!({})), BTreeMap::new());
    }

    #[test]
    fn selectors_see_the_class_and_not_the_written_label() {
        let one = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": CLASS, "operator": operator, "values": values}]});
        let lying =
            json!({"metadata": {"labels": {CLASS: "git"}}, "spec": {"connectorClassName": "oci"}});
        let bare = json!({"metadata": {}, "spec": {"connectorClassName": "oci"}});
        let classless = json!({"metadata": {"labels": {CLASS: "git"}}, "spec": {}});
        for (selector, of_oci, of_none) in [
            (json!({"matchLabels": {CLASS: "oci"}}), true, false),
            (
                json!({"matchLabels": {"connectors.alauda.io/connectorclass": "oci"}}),
                true,
                false,
            ),
            (json!({"matchLabels": {CLASS: "git"}}), false, false),
            (json!({"matchLabels": {CLASS: ""}}), false, false),
            (one("In", &["oci", "git"]), true, false),
            (one("In", &["git"]), false, false),
            (one("NotIn", &["git"]), true, true),
            (one("NotIn", &["oci"]), false, true),
            (one("Exists", &[]), true, false),
            (one("DoesNotExist", &[]), false, true),
            (json!({}), false, false),
        ] {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            for connector in [&lying, &bare] {
                assert_eq!(
                    selector.matches(&labels(connector)),
                    of_oci,
                    "{selector:?} {connector}"
                );
            }
            assert_eq!(
                selector.matches(&labels(&classless)),
                of_none,
                "{selector:?}"
            );
        }
    }

    #[test]
    fn it_is_read_where_connectors_are() {
        let connectors = "/apis/connectors.alauda.io/v1alpha1/namespaces/tools/connectors";
        assert_eq!(Selectable::url_path(&(), Some("tools")), connectors);
        assert_eq!(Selectable::kind(&()), "Connector");
    }

    #[test]
    fn version_age_and_owner_are_kept_and_can_be_rewritten() {
        let metadata = json!({
            "name": "c", "namespace": "tools", "uid": "u", "resourceVersion": "7", "labels": {"stage": "prod"},
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "x"}],
        });
        let read = serde_json::from_value(json!({"metadata": metadata}));
        let mut read: Selectable = read.unwrap();
        assert_eq!(json!(read.meta()), metadata);
        read.meta_mut().name = Some("other".to_owned());
        assert_eq!(read.metadata.name.as_deref(), Some("other"));
    }

    #[test]
    fn of_the_rest_nothing_is_kept_and_it_may_be_as_deep_as_it_likes() {
        let deep = format!("{}1{}", "{\"f\":".repeat(500), "}".repeat(500));
        let json = format!(
            r#"{{"metadata": {{"name": "c", "annotations": {{"big": "text"}}, "managedFields": [{deep}]}}, "spec": {{"connectorClassName": "oci", "x": {deep}}}}}"#
        );
        let read: Selectable = serde_json::from_str(&json).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("c"));
        assert_eq!(read.metadata.annotations, None);
    }
}
