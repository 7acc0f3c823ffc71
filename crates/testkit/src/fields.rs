//! Objects as sets of fields, for field ownership.
//!
//! A field is the path to a value other than a non-empty map; a list is one value. The two lists of the
//! metadata that are merged item by item, finalizers and owner references, are maps here.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Keys, from the outermost to the innermost. Those of items begin with `v:` and `k:`, as in the API.
pub(crate) type Path = Vec<String>;

pub(crate) type Fields = BTreeSet<Path>;

/// Metadata without an owner.
const UNOWNED: [&str; 11] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The part of an object that can be owned.
pub(crate) fn ownable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !UNOWNED.contains(&key.as_str()));
            unfold(metadata);
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    object
}

fn unfold(metadata: &mut Map<String, Value>) {
    let finalizers = metadata.get_mut("finalizers");
    if let Some(Value::Array(items)) = finalizers.as_deref() {
        let items = items.iter();
        let items: Map<_, _> = items.map(|it| (format!("v:{it}"), it.clone())).collect();
        metadata.insert("finalizers".to_owned(), items.into());
    }
    let owners = metadata.get_mut("ownerReferences");
    if let Some(Value::Array(items)) = owners.as_deref() {
        let items = items.iter();
        let items: Map<_, _> = items
            .map(|it| (format!("k:{}", json!({ "uid": it["uid"] })), it.clone()))
            .collect();
        metadata.insert("ownerReferences".to_owned(), items.into());
    }
}

/// Puts the ownable part back into an object. Items keep their earlier order.
pub(crate) fn restore(object: &mut Value, mut owned: Value, earlier: &[&Value]) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| UNOWNED.contains(&key.as_str()));
        let owned = owned.as_object_mut().and_then(|it| it.remove("metadata"));
        if let Some(Value::Object(mut owned)) = owned {
            for list in ["finalizers", "ownerReferences"] {
                if let Some(Value::Object(items)) = owned.remove(list) {
                    let items = in_order(items, list, earlier);
                    owned.insert(list.to_owned(), items.into());
                }
            }
            metadata.append(&mut owned);
        }
    }
    if let Value::Object(mut owned) = owned {
        fields.append(&mut owned);
    }
}

fn in_order(items: Map<String, Value>, list: &str, earlier: &[&Value]) -> Vec<Value> {
    let earlier: Vec<&Value> = earlier
        .iter()
        .filter_map(|it| it["metadata"][list].as_array())
        .flatten()
        .collect();
    let mut items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
    let is_same = |a: &Value, b: &Value| a == b || (!a["uid"].is_null() && a["uid"] == b["uid"]);
    items.sort_by_key(|item| earlier.iter().position(|it| is_same(it, item)));
    items
}

/// The fields of a tree.
pub(crate) fn of(tree: &Value) -> Fields {
    let mut fields = Fields::new();
    collect(tree, &mut Path::new(), &mut fields);
    // The root itself is not a field.
    fields.remove(&Path::new());
    fields
}

/// The fields of a tree, and the maps that contain them.
pub(crate) fn with_maps(tree: &Value) -> Fields {
    let mut fields = of(tree);
    let maps = fields
        .iter()
        .flat_map(|path| (1..path.len()).map(|length| path[..length].to_vec()));
    let maps: Vec<Path> = maps.filter(|it| *it != ["metadata"]).collect();
    fields.extend(maps);
    fields
}

fn collect(tree: &Value, path: &mut Path, fields: &mut Fields) {
    match tree {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(key.clone());
                collect(value, path, fields);
                path.pop();
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            fields.insert(path.clone());
        }
    }
}

pub(crate) fn get<'a>(tree: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(tree, |tree, key| tree.get(key))
}

pub(crate) fn set(tree: &mut Value, path: &Path, value: Value) {
    let Some((key, rest)) = path.split_first() else {
        *tree = value;
        return;
    };
    if !tree.is_object() {
        *tree = json!({});
    }
    if let Some(map) = tree.as_object_mut() {
        set(map.entry(key).or_insert(Value::Null), &rest.to_vec(), value);
    }
}

/// Removes a field, and the maps that become empty.
pub(crate) fn remove(tree: &mut Value, path: &[String]) {
    let (Some((key, rest)), Some(map)) = (path.split_first(), tree.as_object_mut()) else {
        return;
    };
    if let Some(inner) = map.get_mut(key) {
        remove(inner, rest);
        let is_empty = inner.as_object().is_some_and(Map::is_empty);
        if rest.is_empty() || is_empty {
            map.remove(key);
        }
    }
}

/// In the form of `managedFields`.
pub(crate) fn as_v1(fields: &Fields) -> Value {
    let mut tree = json!({});
    for path in fields {
        let mark = |key: &String| {
            if key.starts_with("v:") || key.starts_with("k:") {
                key.clone()
            } else {
                format!("f:{key}")
            }
        };
        let mut marked: Path = path.iter().map(mark).collect();
        let is_inner = |it: &Path| it.len() > path.len() && it.starts_with(path);
        if fields.iter().any(is_inner) {
            marked.push(".".to_owned());
        }
        set(&mut tree, &marked, json!({}));
    }
    tree
}

/// The path in the form used in messages.
pub(crate) fn text(path: &Path) -> String {
    format!(".{}", path.join("."))
}
