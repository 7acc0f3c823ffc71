//! The class of a connector as labels, by which policies select connectors: pure.

use std::fmt;

use connectors_api::{labels, names};
use json_patch::Patch;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};

use super::mutate::labels_of;

/// As much of a name is shown.
const LONGEST_SHOWN: usize = 80;

/// As much of a word is read, which is more than a name or the value of a label has.
const LONGEST_READ: usize = 320;

/// The most that all copies of a connector take: three words of it and of the one before, in a few copies.
pub(crate) const WEIGHT: usize = 16 * 1024;

/// The fields of a connector that are read, however large the rest is.
#[derive(Deserialize)]
struct ConnectorReview {
    #[serde(default)]
    metadata: Option<ConnectorMetadata>,
    spec: ConnectorSpecText,
}

#[derive(Deserialize)]
struct ConnectorMetadata {
    #[serde(default)]
    labels: Option<ClassLabels>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectorSpecText {
    connector_class_name: NameText,
}

/// The beginning of a text. A longer one is no name anyway.
struct NameText(String);

impl<'de> Deserialize<'de> for NameText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordReader)
    }
}

struct WordReader;

impl Visitor<'_> for WordReader {
    type Value = NameText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<NameText, E> {
        Ok(NameText(text.chars().take(LONGEST_READ).collect()))
    }
}

/// The labels that say the class. There may be any number of others.
struct ClassLabels(Map<String, Value>);

impl<'de> Deserialize<'de> for ClassLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LabelReader)
    }
}

struct LabelReader;

impl<'de> Visitor<'de> for LabelReader {
    type Value = ClassLabels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ClassLabels, A::Error> {
        let mut read = Map::new();
        while let Some(NameText(key)) = entries.next_key()? {
            if labels::CONNECTOR_CLASS.contains(&key.as_str()) {
                let NameText(value) = entries.next_value()?;
                read.insert(key, value.into());
            } else {
                let IgnoredAny = entries.next_value()?;
            }
        }
        Ok(ClassLabels(read))
    }
}

/// The class of a connector and the labels that say it. What is absent or null stays absent: to add it is to replace
/// it.
pub(crate) fn read(text: &str) -> Option<Value> {
    let ConnectorReview { metadata, spec } = serde_json::from_str(text).ok()?;
    let NameText(class) = spec.connector_class_name;
    let mut object = json!({"spec": {"connectorClassName": class}});
    if let Some(ConnectorMetadata { labels }) = metadata {
        object["metadata"] = labels.map_or(json!({}), |it| json!({"labels": it.0}));
    }
    Some(object)
}

/// The patch that makes both labels equal to the class of the spec; none if they are. A class whose name is no value
/// of a label gets none: half a name would select the connectors of another class.
pub(crate) fn labelled(object: &Value) -> Option<Patch> {
    let class = object.pointer("/spec/connectorClassName")?.as_str()?;
    let class = Some(class).filter(|it| !it.is_empty() && names::is_label_value(it));
    let mut labelled = object.clone();
    let known = labels_of(&mut labelled)?;
    for key in labels::CONNECTOR_CLASS {
        match class {
            Some(class) => {
                known.insert(key.to_owned(), class.into());
            }
            None => {
                known.remove(key);
            }
        }
    }
    let patch = json_patch::diff(object, &labelled);
    let is_empty_map = class.is_none()
        && object
            .pointer("/metadata/labels")
            .is_none_or(Value::is_null);
    (!patch.0.is_empty() && !is_empty_map).then_some(patch)
}

/// The class that a connector names now and did not name before.
pub(crate) fn new_class<'a>(object: &'a Value, before: Option<&Value>) -> Option<&'a str> {
    let class = |object: &'_ Value| {
        let class = object.pointer("/spec/connectorClassName")?;
        Some(class.as_str()?.to_owned())
    };
    let now = object.pointer("/spec/connectorClassName")?.as_str()?;
    (before.and_then(class).as_deref() != Some(now)).then_some(now)
}

/// The warning to the writer of a connector without an existing class. The name may have any length.
pub(crate) fn no_class(class: &str) -> String {
    let shown: String = class.chars().take(LONGEST_SHOWN).collect();
    format!(
        "spec.connectorClassName: there is no ConnectorClass {shown:?}; correct the name, or create the class \
         (kubectl get connectorclasses)"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn after(object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(patch) = labelled(&object) {
            json_patch::patch(&mut object, &patch).unwrap();
        }
        object
    }

    fn connector(class: &str, labels: &Value) -> Value {
        json!({"metadata": {"name": "c", "labels": labels}, "spec": {"connectorClassName": class}})
    }

    #[test]
    fn both_labels_say_the_class_whatever_they_said_before() {
        let both = json!({"connectors.cpaas.io/connectorclass": "oci", "connectors.alauda.io/connectorclass": "oci"});
        for before in [
            json!(null),
            json!({}),
            json!({"connectors.cpaas.io/connectorclass": "git"}),
            both.clone(),
        ] {
            let connector = after(&connector("oci", &before));
            assert_eq!(connector["metadata"]["labels"], both);
        }
        let bare = json!({"spec": {"connectorClassName": "oci"}});
        assert_eq!(after(&bare)["metadata"]["labels"], both);
        assert_eq!(labelled(&connector("oci", &both)), None, "nothing to do");
    }

    #[test]
    fn what_is_read_of_a_connector_makes_the_same_of_it() {
        for metadata in [
            json!({}),
            json!({"labels": null}),
            json!({"labels": {}}),
            json!({"name": "c", "labels": {"a": "b", "connectors.cpaas.io/connectorclass": "git"}}),
        ] {
            let mut whole =
                json!({"metadata": metadata, "spec": {"connectorClassName": "oci", "x": [{}]}});
            let patch = labelled(&read(&whole.to_string()).unwrap()).unwrap();
            let expected = after(&whole);
            json_patch::patch(&mut whole, &patch).unwrap();
            assert_eq!(whole, expected);
        }
        for odd in [
            "",
            "[1]",
            "{}",
            r#"{"spec":{}}"#,
            r#"{"spec":{"connectorClassName":7}}"#,
            r#"{"spec":{"connectorClassName":"oci"},"metadata":{"labels":7}}"#,
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn of_a_connector_of_any_size_a_few_words_are_read() {
        let many: Map<_, _> = (0..10_000)
            .map(|it| (format!("k{it}"), json!("x")))
            .collect();
        let mut whole = connector(&"c".repeat(100_000), &Value::Object(many));
        let ours = &mut whole["metadata"]["labels"];
        for key in labels::CONNECTOR_CLASS {
            ours[key] = json!("y".repeat(100_000));
        }
        let read = read(&whole.to_string()).unwrap();
        // The connector, the one before, the labelled copy, and a patch that names the old and the new.
        assert!(8 * read.to_string().len() < WEIGHT);
        assert_eq!(read["metadata"]["labels"].as_object().unwrap().len(), 2);
        let patch = labelled(&read).unwrap();
        json_patch::patch(&mut whole, &patch).unwrap();
        assert_eq!(
            whole["metadata"]["labels"].as_object().unwrap().len(),
            10_000
        );
    }

    #[test]
    fn only_a_class_that_was_not_named_before_is_looked_at() {
        let of = |class: &str| connector(class, &json!(null));
        let oci = of("oci");
        assert_eq!(new_class(&oci, None), Some("oci"));
        assert_eq!(new_class(&oci, Some(&of("git"))), Some("oci"));
        assert_eq!(new_class(&oci, Some(&json!({}))), Some("oci"));
        assert_eq!(new_class(&oci, Some(&oci)), None);
        assert_eq!(new_class(&json!({}), None), None);
    }

    #[test]
    fn other_labels_stay() {
        let connector = after(&connector("oci", &json!({"stage": "prod"})));
        assert_eq!(connector["metadata"]["labels"]["stage"], "prod");
    }

    #[test]
    fn a_class_that_is_no_value_of_a_label_has_no_label() {
        for class in ["x".repeat(64).as_str(), "not a value", ""] {
            let lying = json!({"connectors.cpaas.io/connectorclass": "oci", "stage": "prod"});
            assert_eq!(
                after(&connector(class, &lying))["metadata"]["labels"],
                json!({"stage": "prod"})
            );
            assert_eq!(labelled(&connector(class, &json!(null))), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_it_is_left_alone_or_labelled(spec in "\\PC{0,20}", labels in "\\PC{0,8}") {
            for object in [json!({"spec": spec}), json!({"spec": {"connectorClassName": spec}, "metadata": labels}), json!(spec)] {
                let once = after(&object);
                prop_assert_eq!(after(&once), once);
            }
        }
    }
}
