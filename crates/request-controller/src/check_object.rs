//! A check object, kept as text: its size in memory is then about its size on the wire, and less in a cache.
//!
//! A tree of values takes twenty times the memory of its text, so only one tree is in memory at a time. Of an object
//! that is too large to be a check, only the metadata is parsed.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use service_kit::{
    name::Name,
    watches::{Parse, Plain},
};

use crate::{interner::Interner, packed_text::PackedText};

/// The limit of a check object, without `managedFields`. No approval needs more text.
pub const LARGEST: usize = 256 * 1024;
/// Longer texts are not parsed at all. The factor is for `managedFields`, which repeat the fields.
const LONGEST: usize = 2 * LARGEST;
/// The limit of a text that a cache packs, under its lock.
const LONGEST_PACKED: usize = 8 * 1024;

/// The text of a check object. It is shared by everything that has the object.
#[derive(Clone, Debug)]
pub struct ObjectText(Arc<TextForm>);

#[derive(Debug)]
enum TextForm {
    Whole(Box<str>),
    Packed { text: PackedText, length: usize },
}

impl From<String> for ObjectText {
    fn from(text: String) -> Self {
        Self(Arc::new(TextForm::Whole(text.into())))
    }
}

impl ObjectText {
    /// The text.
    #[must_use]
    pub fn read(&self) -> Cow<'_, str> {
        match &*self.0 {
            TextForm::Whole(text) => Cow::Borrowed(text),
            TextForm::Packed { text, .. } => Cow::Owned(text.text()),
        }
    }

    /// The bytes of the text.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.read() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }

    /// The number of its bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        match &*self.0 {
            TextForm::Whole(text) => text.len(),
            TextForm::Packed { length, .. } => *length,
        }
    }

    /// The most memory that it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        match &*self.0 {
            TextForm::Whole(text) => text.len(),
            TextForm::Packed { text, .. } => text.bytes(),
        }
    }

    /// True for the text of the same read of an object.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn packed(&self, shapes: &mut Interner<str>) -> Self {
        match &*self.0 {
            TextForm::Whole(text) if text.len() <= LONGEST_PACKED => {
                Self(Arc::new(TextForm::Packed {
                    text: PackedText::of(text, shapes),
                    length: text.len(),
                }))
            }
            TextForm::Whole(_) | TextForm::Packed { .. } => self.clone(),
        }
    }

    fn release(&self, shapes: &mut Interner<str>) {
        if let TextForm::Packed { text, .. } = &*self.0 {
            text.release(shapes);
        }
    }
}

/// A label: key and value. All objects in an index share its copy of both.
pub(crate) type SharedLabel = (Arc<str>, Arc<str>);

/// An object of some kind.
#[derive(Clone, Debug)]
pub struct CheckObject {
    name: Name,
    uid: Option<Box<str>>,
    is_going: bool,
    /// In the order of their keys.
    labels: Box<[SharedLabel]>,
    /// The object as JSON without `managedFields`. None if it is too large to be a check.
    text: Option<ObjectText>,
}

/// An object with the metadata by which a watch or a list names it.
#[derive(Clone, Debug)]
pub struct NamedCheck {
    metadata: ObjectMeta,
    /// The object.
    pub object: CheckObject,
}

/// The approximate size of a label without its texts.
const LABEL: usize = 64;
/// The approximate size of an object without its texts.
const WITHOUT_TEXT: usize = 256;

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

impl CheckObject {
    /// The object as JSON, if it is small enough to be a check.
    #[must_use]
    pub const fn text(&self) -> Option<&ObjectText> {
        self.text.as_ref()
    }

    /// The same object as a cache keeps it: under the cache's copy of its name. Its text shares what it has in common with
    /// others, and its labels are those of the index, if it has any there. They are its own labels in their order.
    pub(crate) fn cached(
        &self,
        name: &Name,
        labels: Option<Vec<SharedLabel>>,
        shapes: &mut Interner<str>,
    ) -> Self {
        Self {
            name: name.clone(),
            uid: self.uid.clone(),
            is_going: self.is_going,
            labels: labels.map_or_else(|| self.labels.clone(), Vec::into_boxed_slice),
            text: self.text.as_ref().map(|it| it.packed(shapes)),
        }
    }

    /// The object leaves the cache that has packed it.
    pub(crate) fn release(&self, shapes: &mut Interner<str>) {
        if let Some(text) = &self.text {
            text.release(shapes);
        }
    }

    /// Whether it is being deleted, which counts as deleted.
    #[must_use]
    pub const fn is_going(&self) -> bool {
        self.is_going
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(it, _)| it.as_ref().cmp(key));
        Some(&self.labels[found.ok()?].1)
    }

    /// The labels and their values.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.labels.iter();
        labels.map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// The same labels and their values, to be kept by another object as well.
    pub(crate) fn shared_labels(&self) -> &[SharedLabel] {
        &self.labels
    }

    /// The same object with the kind of the list that contained it.
    #[must_use]
    pub fn of_kind(mut self, kind: &ApiResource) -> Self {
        self.text = self.text.map(|text| {
            let text = text.read();
            let rest = text.strip_prefix('{').unwrap_or_default();
            let comma = if rest == "}" { "" } else { "," };
            let (version, kind) = (json!(kind.api_version), json!(kind.kind));
            format!("{{\"apiVersion\":{version},\"kind\":{kind}{comma}{rest}").into()
        });
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// The UID, which distinguishes the object from another one of the same name.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// The text parsed into a tree, which should be dropped soon.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(&self.text.as_ref()?.read()).ok()
    }

    /// The approximate size in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let labels = self.labels();
        let labels: usize = labels
            .map(|(key, value)| key.len() + value.len() + LABEL)
            .sum();
        let uid = self.uid.as_ref().map_or(0, |it| it.len());
        let text = self.text.as_ref().map_or(0, ObjectText::weight);
        labels + self.name().len() + uid + text + WITHOUT_TEXT
    }

    /// The same object without its text: it exists, but must be read live to be checked.
    #[must_use]
    pub fn without_text(mut self) -> Self {
        self.text = None;
        self
    }
}

/// Parses an object into its metadata and its text, without its kind, which lists omit.
#[derive(Clone, Copy, Debug)]
pub enum AsText {}

impl Parse<NamedCheck> for AsText {
    fn parse(json: &str) -> Result<NamedCheck, String> {
        let MetadataOnly { metadata } = Plain::parse(json)?;
        let text = if json.len() > LONGEST {
            None
        } else {
            let mut object: Map<String, Value> = Plain::parse(json)?;
            object.remove("apiVersion");
            object.remove("kind");
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            let text = Value::Object(object).to_string();
            (text.len() <= LARGEST).then(|| text.into())
        };
        let ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            deletion_timestamp,
            ..
        } = metadata;
        let labels = labels.into_iter().flatten();
        let object = CheckObject {
            name: Name::new(
                namespace.as_deref().unwrap_or_default(),
                name.as_deref().unwrap_or_default(),
            ),
            uid: uid.as_deref().map(Box::from),
            is_going: deletion_timestamp.is_some(),
            labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            text,
        };
        let metadata = ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            deletion_timestamp,
            ..ObjectMeta::default()
        };
        Ok(NamedCheck { metadata, object })
    }
}

impl Resource for NamedCheck {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
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
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn parsed(object: &Value) -> CheckObject {
        AsText::parse(&object.to_string()).unwrap().object
    }

    #[test]
    fn an_object_keeps_its_text_under_the_kind_of_its_list() {
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"run": "r"}, "annotations": {"x": "y"},
                "managedFields": [{"manager": "m"}]},
            "data": {"verdict": "approved"},
        });
        let read = parsed(&object).of_kind(&ApiResource::erase::<ConfigMap>(&()));
        assert_eq!(
            read.value().unwrap(),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "uid": "u", "labels": {"run": "r"}, "annotations": {"x": "y"}},
                "data": {"verdict": "approved"},
            })
        );
        assert_eq!((read.label("run"), read.label("other")), (Some("r"), None));
        assert_eq!((read.uid(), read.is_going()), (Some("u"), false));
        // The API server never returns an object of another kind than its list. If it did, the object would be
        // treated as one of the list's kind.
        let other = json!({"apiVersion": "v2", "kind": "Other", "metadata": {}});
        let read = parsed(&other).of_kind(&ApiResource::erase::<ConfigMap>(&()));
        assert_eq!(read.value().unwrap()["kind"], "ConfigMap");
    }

    #[test]
    fn an_object_is_too_large_from_one_byte_above_the_limit_and_keeps_its_labels() {
        let of = |length: usize| {
            let empty = json!({"data": "", "metadata": {"labels": {"run": "r"}}}).to_string();
            let text = "x".repeat(length - empty.len());
            parsed(&json!({"data": text, "metadata": {"labels": {"run": "r"}}}))
        };
        assert!(of(LARGEST).text().is_some());
        for length in [LARGEST + 1, LONGEST + 1] {
            let large = of(length);
            assert!(large.text().is_none() && large.value().is_none());
            assert_eq!(large.label("run"), Some("r"));
            assert!(large.weight() < 1024);
        }
    }

    #[test]
    fn a_text_is_not_parsed_from_one_byte_above_its_own_limit() {
        let notes = |bytes: usize| {
            let notes = json!([{"manager": "m".repeat(bytes)}]);
            json!({"metadata": {"managedFields": notes}}).to_string()
        };
        for (length, is_parsed) in [(LONGEST, true), (LONGEST + 1, false)] {
            let json = notes(length - notes(0).len());
            assert_eq!(json.len(), length);
            let read: CheckObject = AsText::parse(&json).unwrap().object;
            assert_eq!(read.text().is_some(), is_parsed, "{length}");
        }
    }

    /// The version is that at which the watch of the object goes on.
    #[test]
    fn an_object_keeps_the_metadata_that_select_and_identify_it_and_no_other() {
        let mut metadata = json!({
            "name": "a", "namespace": "apps", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-03-01T10:00:00Z",
        });
        let kept: ObjectMeta = serde_json::from_value(metadata.clone()).unwrap();
        metadata["annotations"] = json!({"x": "y"});
        metadata["finalizers"] = json!(["f"]);
        metadata["labels"] = json!({"run": "r", "app": "a", "z": "z"});
        let object = json!({"metadata": metadata}).to_string();
        let mut read: NamedCheck = AsText::parse(&object).unwrap();
        assert_eq!(*read.meta(), kept);
        read.meta_mut().uid = Some("v".to_owned());
        assert_eq!(read.meta().uid.as_deref(), Some("v"));
        let object = read.object;
        assert_eq!((object.name(), object.uid()), ("a", Some("u")));
        assert!(object.is_going());
        let labels: Vec<_> = object.labels().collect();
        assert_eq!(labels, [("app", "a"), ("run", "r"), ("z", "z")]);
        let found = ["app", "run", "z", "s"].map(|key| object.label(key));
        assert_eq!(found, [Some("a"), Some("r"), Some("z"), None]);
    }

    #[test]
    fn an_object_is_of_the_resource_as_which_it_is_read() {
        let of = ApiResource::erase::<ConfigMap>(&());
        let words = [
            NamedCheck::kind(&of),
            NamedCheck::group(&of),
            NamedCheck::version(&of),
            NamedCheck::plural(&of),
        ];
        assert_eq!(words, ["ConfigMap", "", "v1", "configmaps"]);
    }

    #[test]
    fn the_weight_of_an_object_is_that_of_its_labels_names_and_text() {
        let read = parsed(&json!({"metadata": {
            "name": "a", "uid": "ccc", "labels": {"run": "r1", "team": "x"},
        }}));
        let labels = "run".len() + "r1".len() + LABEL + "team".len() + "x".len() + LABEL;
        let names = ["a", "ccc"].concat().len();
        let text = read.text().unwrap().length();
        assert_eq!(read.weight(), labels + names + text + WITHOUT_TEXT);
        assert_eq!(read.without_text().weight(), labels + names + WITHOUT_TEXT);
    }

    #[test]
    fn what_is_no_object_says_so() {
        for text in [
            "[]",
            "null",
            "{}",
            r#"{"metadata": 1}"#,
            r#"{"metadata": {"labels": []}}"#,
        ] {
            assert!(AsText::parse(text).is_err(), "{text}");
        }
        let deep = format!(
            "{{\"metadata\":{{}},\"data\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        assert!(AsText::parse(&deep).is_err());
    }

    /// `managedFields` are as long as the fields themselves.
    #[test]
    fn managed_fields_do_not_make_an_object_too_large() {
        let notes = json!([{"fieldsV1": {"f:data": "x".repeat(LARGEST)}}]);
        let read =
            parsed(&json!({"metadata": {"managedFields": notes}, "data": "y".repeat(LARGEST / 2)}));
        assert!(read.text().is_some());
    }
}
