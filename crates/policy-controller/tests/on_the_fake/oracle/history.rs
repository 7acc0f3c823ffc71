//! The objects as they were at any place of the log.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use testkit::ChangeRecord;

/// Namespace and name.
type Key = (String, String);

/// One state of an object, from a place of the log up to another.
struct Version {
    from: usize,
    to: usize,
    object: Arc<Value>,
}

#[derive(Default)]
pub(super) struct History {
    now: BTreeMap<String, BTreeMap<Key, (usize, Arc<Value>)>>,
    past: BTreeMap<String, Vec<Version>>,
}

impl History {
    pub(super) fn take(&mut self, place: usize, change: &ChangeRecord) {
        let key = (change.namespace.clone(), change.name.clone());
        let now = self.now.entry(change.plural.clone()).or_default();
        let before = match &change.after {
            Some(after) => now.insert(key, (place, Arc::clone(after))),
            None => now.remove(&key),
        };
        if let Some((from, object)) = before {
            let past = self.past.entry(change.plural.clone()).or_default();
            past.push(Version {
                from,
                to: place,
                object,
            });
        }
    }

    pub(super) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = (namespace.to_owned(), name.to_owned());
        let (_, object) = self.now.get(plural)?.get(&key)?;
        Some(object.as_ref())
    }

    pub(super) fn all(&self, plural: &str) -> impl Iterator<Item = &Value> {
        let all = self.now.get(plural).into_iter().flatten();
        all.map(|(_, (_, object))| object.as_ref())
    }

    /// Each state that an object of the kind was in, at that place or later, up to another place.
    pub(super) fn during(&self, plural: &str, from: usize, to: usize) -> Vec<&Value> {
        let now = self.now.get(plural).into_iter().flatten();
        let now = now.filter(|(_, (since, _))| *since <= to);
        let now = now.map(|(_, (_, object))| object.as_ref());
        let past = self.past.get(plural).into_iter().flatten();
        let past = past.filter(|it| it.from <= to && it.to > from);
        now.chain(past.map(|it| it.object.as_ref())).collect()
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Whether it was deleted, and something keeps it.
pub(super) fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A label of a managed object; the keys have a slash in them.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    let label = &object["metadata"]["labels"][format!("connectors.alauda.io/{key}")];
    label.as_str().unwrap_or_default()
}
