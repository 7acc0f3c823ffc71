//! The objects at any point in time, from the log.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use testkit::{ChangeKind, ChangeRecord};

/// Plural, namespace and name.
pub(super) type Key = (String, String, String);

/// All objects at one point in time.
#[derive(Default)]
pub(super) struct Snapshot {
    objects: BTreeMap<Key, Arc<Value>>,
}

impl Snapshot {
    pub(super) fn take(&mut self, change: &ChangeRecord) {
        let key = (
            change.plural.clone(),
            change.namespace.clone(),
            change.name.clone(),
        );
        match (&change.kind, &change.after) {
            (ChangeKind::Added | ChangeKind::Modified, Some(after)) => {
                self.objects.insert(key, Arc::clone(after));
            }
            (ChangeKind::Deleted, _) | (_, None) => {
                self.objects.remove(&key);
            }
        }
    }

    pub(super) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key).map(AsRef::as_ref)
    }

    pub(super) fn all<'a>(&'a self, plural: &'a str) -> impl Iterator<Item = &'a Value> {
        let all = self.objects.iter().filter(move |(key, _)| key.0 == plural);
        all.map(|(_, object)| object.as_ref())
    }

    pub(super) fn by_uid(&self, plural: &str, uid: &str) -> Option<&Value> {
        let mut all = self.objects.iter().filter(|(key, _)| key.0 == plural);
        let found = all.find(|(_, object)| text(object, "/metadata/uid") == uid);
        found.map(|(_, object)| object.as_ref())
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The namespace of an object.
pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// True when it was deleted, and something keeps it.
pub(super) fn is_going(object: &Value) -> bool {
    let going = object.pointer("/metadata/deletionTimestamp");
    going.is_some_and(|it| !it.is_null())
}

/// The label of a managed object; the keys contain a slash.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][format!("connectors.alauda.io/{key}")]
        .as_str()
        .unwrap_or_default()
}
