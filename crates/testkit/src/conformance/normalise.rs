//! Answers as lines that are equal for every server with the same behaviour.
//!
//! Values that differ from run to run are replaced: UIDs by `name#1`, `name#2` …, counted for each name of a
//! group; versions of an object by their rank among those seen of it; generated names by their prefix; times
//! by `set`. Left out are messages, managed fields where a step does not ask for them, objects that
//! controllers add to every namespace, and of pods, service accounts, namespaces and events all fields but
//! those that [`keep_chosen`] names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The values seen so far, which determine how later ones are shown.
#[derive(Debug, Default)]
pub(super) struct Seen {
    uids: Vec<(String, String)>,
    versions: BTreeMap<String, BTreeSet<u64>>,
    generated: Vec<(String, String)>,
}

/// A line of text with sorted keys, regardless of the order in the object.
pub(super) fn canonical(value: &Value) -> String {
    sorted(value, &|_| true).to_string()
}

/// The same without null fields, which mean the same as absent fields in an answer.
fn without_nulls(value: &Value) -> String {
    sorted(value, &|field| !field.is_null()).to_string()
}

fn sorted(value: &Value, keeps: &dyn Fn(&Value) -> bool) -> Value {
    match value {
        Value::Object(map) => {
            let entries: BTreeMap<_, _> = map.iter().filter(|(_, field)| keeps(field)).collect();
            let entries = entries.into_iter();
            Value::Object(
                entries
                    .map(|(key, field)| (key.clone(), sorted(field, keeps)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| sorted(item, keeps)).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// True for objects that the controllers of a full cluster create in every namespace.
fn is_standard(object: &Value) -> bool {
    matches!(
        object.pointer("/metadata/name").and_then(Value::as_str),
        Some("kube-root-ca.crt" | "default")
    )
}

/// True when an event of a watch is compared. Events of standard objects are not, nor are bookmarks, which
/// come at any time, except the one that ends an initial list.
pub(super) fn counts(event: &Value) -> bool {
    let annotations = &event["object"]["metadata"]["annotations"];
    if event["type"] == "BOOKMARK" && annotations["k8s.io/initial-events-end"].is_null() {
        return false;
    }
    !is_standard(&event["object"])
}

impl Seen {
    /// Replaces values that differ from run to run in a finished text.
    pub(super) fn hide(&self, text: &str, run: &str) -> String {
        let mut text = text.to_owned();
        // The last first, because a UID may be a prefix of a later one where they are numbered.
        for (uid, shown) in self.uids.iter().rev() {
            text = text.replace(uid, shown);
        }
        for (name, shown) in &self.generated {
            text = text.replace(name, shown);
        }
        text.replace(run, "$run")
    }

    /// The lines of a JSON answer.
    pub(super) fn answer(&mut self, code: u16, body: &Value, managers: bool) -> Vec<String> {
        let kind = body["kind"].as_str().unwrap_or_default();
        if kind == "Status" {
            return vec![format!("{code} {}", self.status(body))];
        }
        if let Some(items) = body["items"].as_array() {
            return self.list(code, body, items);
        }
        if kind.starts_with("API") {
            return vec![format!("{code} {}", discovery(body))];
        }
        if kind.ends_with("Review") {
            return vec![format!("{code} {}", review(body))];
        }
        if body.get("metadata").is_none() {
            let known: Vec<_> = body
                .as_object()
                .map(|map| map.keys().filter(|key| *key == "gitVersion").collect())
                .unwrap_or_default();
            return vec![format!("{code} {known:?}")];
        }
        vec![format!("{code} {}", self.object(body, kind, managers))]
    }

    fn list(&mut self, code: u16, body: &Value, items: &[Value]) -> Vec<String> {
        let kept = items.iter().filter(|item| !is_standard(item));
        let kind = body["kind"].as_str().unwrap_or_default();
        let kind = kind.trim_end_matches("List");
        let objects: Vec<_> = kept.map(|item| self.object(item, kind, false)).collect();
        let metadata = &body["metadata"];
        let newest = items.iter().map(|item| version(&item["metadata"])).max();
        let covers = version(metadata) >= newest.flatten();
        let mut head = json!({
            "apiVersion": body["apiVersion"], "kind": body["kind"], "coversItsItems": covers,
            "remainingItemCount": metadata["remainingItemCount"],
        });
        head["more"] = json!(
            metadata["continue"]
                .as_str()
                .is_some_and(|token| !token.is_empty())
        );
        let mut lines = vec![format!("{code} {}", without_nulls(&head))];
        lines.extend(objects.into_iter().map(|object| format!("- {object}")));
        lines
    }

    /// An event of a watch.
    pub(super) fn event(&mut self, event: &Value) -> String {
        let word = event["type"].as_str().unwrap_or("?");
        let object = &event["object"];
        match word {
            "ERROR" => format!("ERROR {} {}", object["code"], self.status(object)),
            "BOOKMARK" => {
                let annotations = &object["metadata"]["annotations"];
                let shown = json!({
                    "apiVersion": object["apiVersion"], "kind": object["kind"], "annotations": annotations,
                    "version": version(&object["metadata"]).is_some(),
                });
                format!("BOOKMARK {}", without_nulls(&shown))
            }
            _ => {
                let kind = object["kind"].as_str().unwrap_or_default();
                format!("{word} {}", self.object(object, kind, false))
            }
        }
    }

    /// A `Status`: the words for programs, and the invalid fields.
    fn status(&mut self, body: &Value) -> String {
        let details = &body["details"];
        if let Some(uid) = details["uid"].as_str() {
            self.meet(uid, details["name"].as_str().unwrap_or_default());
        }
        let causes = details["causes"].as_array().into_iter().flatten();
        let mut causes: Vec<_> = causes
            .map(|cause| json!({"reason": cause["reason"], "field": cause["field"]}))
            .map(|cause| without_nulls(&cause))
            .collect();
        causes.sort();
        let mut shown = json!({"status": body["status"], "reason": body["reason"]});
        if body["status"] == "Success" {
            shown["details"] = details.clone();
        }
        let causes = causes.join(" ");
        format!("Status {} {causes}", without_nulls(&shown))
            .trim_end()
            .to_owned()
    }

    /// Starts a new group: counting starts again, so that one difference does not change all later groups.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    fn meet(&mut self, uid: &str, name: &str) {
        if uid.is_empty() || self.uids.iter().any(|(known, _)| known == uid) {
            return;
        }
        let prefix = format!("{name}#");
        let count = self
            .uids
            .iter()
            .filter(|(_, shown)| shown.starts_with(&prefix))
            .count();
        self.uids
            .push((uid.to_owned(), format!("{prefix}{}", count + 1)));
    }

    /// The kind is passed in, because items of lists do not have it.
    fn object(&mut self, object: &Value, kind: &str, managers: bool) -> String {
        let mut object = object.clone();
        keep_chosen(kind, &mut object);
        let has_time = ["creationTimestamp", "deletionTimestamp"];
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            self.metadata(metadata);
            for time in has_time {
                if metadata.get(time).is_some_and(Value::is_string) {
                    metadata.insert(time.to_owned(), json!("set"));
                }
            }
            let entries = metadata.remove("managedFields");
            if managers {
                metadata.insert(
                    "managers".to_owned(),
                    json!(manager_words(entries.as_ref())),
                );
            }
        }
        without_nulls(&object)
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>) {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        let uid = text("uid").unwrap_or_default().to_owned();
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && name.starts_with(prefix)
            && name.len() > prefix.len()
        {
            let pair = (name.to_owned(), format!("{prefix}~"));
            if !self.generated.contains(&pair) {
                self.generated.push(pair);
            }
        }
        let name = text("name").unwrap_or_default().to_owned();
        self.meet(&uid, &name);
        let Some(number) = version(&Value::Object(metadata.clone())) else {
            return;
        };
        let seen = self.versions.entry(uid).or_default();
        seen.insert(number);
        let rank = seen.range(..=number).count();
        metadata.insert("resourceVersion".to_owned(), json!(format!("v{rank}")));
    }
}

/// The verdict of a review; its explanation is in messages, which differ.
fn review(body: &Value) -> String {
    let status = &body["status"];
    let extra = &status["user"]["extra"];
    let extra =
        ["pod-name", "pod-uid"].map(|key| &extra[format!("authentication.kubernetes.io/{key}")]);
    let mut shown = json!({"apiVersion": body["apiVersion"], "kind": body["kind"]});
    for key in ["allowed", "denied", "authenticated", "audiences"] {
        shown[key] = status[key].clone();
    }
    for key in ["username", "uid", "groups"] {
        shown[key] = status["user"][key].clone();
    }
    if extra.iter().any(|value| !value.is_null()) {
        shown["extra"] = json!(extra);
    }
    shown["error"] = json!(status["error"].is_string());
    without_nulls(&shown)
}

fn version(metadata: &Value) -> Option<u64> {
    metadata["resourceVersion"].as_str()?.parse().ok()
}

/// Managers with their operation and subresource, sorted; times and fields are left out.
fn manager_words(entries: Option<&Value>) -> Vec<String> {
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let mut words: Vec<_> = entries
        .map(|entry| {
            let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            [word("manager"), word("operation"), word("subresource")].join(" ")
        })
        .collect();
    words.sort();
    words
}

/// For kinds to which a full server adds defaults, keeps only the fields that the script is about.
fn keep_chosen(kind: &str, object: &mut Value) {
    if kind == "Lease" && object["spec"].as_object().is_some_and(Map::is_empty) {
        object["spec"] = Value::Null;
    }
    let chosen: &[&str] = match kind {
        "Pod" | "Namespace" => &["apiVersion", "kind", "metadata"],
        "ServiceAccount" => &[
            "apiVersion",
            "kind",
            "metadata",
            "automountServiceAccountToken",
        ],
        "Event" => &[
            "apiVersion",
            "kind",
            "metadata",
            "regarding",
            "reason",
            "type",
            "note",
            "series",
            "action",
        ],
        _ => return,
    };
    let phase = object.pointer("/status/phase").cloned();
    if let Some(map) = object.as_object_mut() {
        map.retain(|key, _| chosen.contains(&key.as_str()));
        if let Some(phase) = phase {
            map.insert("phase".to_owned(), phase);
        }
        if kind == "Namespace"
            && let Some(Value::Object(metadata)) = map.get_mut("metadata")
        {
            // Its controllers write to it at any time.
            metadata.remove("resourceVersion");
            if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
                labels.remove("kubernetes.io/metadata.name");
                if labels.is_empty() {
                    metadata.remove("labels");
                }
            }
        }
    }
}

/// Discovery: the fields that clients use, of the groups and resources of the script.
fn discovery(body: &Value) -> String {
    const GROUPS: [&str; 5] = [
        "rbac.authorization.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "connectors.alauda.io",
        super::kinds::TEST_GROUP,
    ];
    const RESOURCES: [&str; 14] = [
        "configmaps",
        "serviceaccounts",
        "pods",
        "namespaces",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
        "leases",
        "events",
        "accessrequests",
        "accessrequests/status",
        "widgets",
        "widgets/status",
    ];
    let mut shown = body.clone();
    if let Some(groups) = shown["groups"].as_array_mut() {
        groups.retain(|group| {
            group["name"]
                .as_str()
                .is_some_and(|name| GROUPS.contains(&name))
        });
        groups.sort_by_key(|group| group["name"].to_string());
    }
    if let Some(resources) = shown["resources"].as_array_mut() {
        resources.retain(|resource| {
            resource["name"]
                .as_str()
                .is_some_and(|name| RESOURCES.contains(&name))
        });
        resources.sort_by_key(|resource| resource["name"].to_string());
        for resource in resources {
            let kept =
                ["name", "kind", "namespaced"].map(|key| (key.to_owned(), resource[key].clone()));
            *resource = Value::Object(kept.into_iter().collect());
        }
    }
    if let Some(map) = shown.as_object_mut() {
        map.remove("serverAddressByClientCIDRs");
    }
    without_nulls(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: &str) -> Value {
        json!({
            "kind": "ConfigMap", "metadata": {"name": "a", "uid": uid, "resourceVersion": version},
        })
    }

    fn lines(answers: &[Value]) -> Vec<String> {
        let mut seen = Seen::default();
        let lines = answers
            .iter()
            .flat_map(|answer| seen.answer(200, answer, false));
        let lines: Vec<_> = lines.collect();
        lines.iter().map(|line| seen.hide(line, "run-1")).collect()
    }

    #[test]
    fn runs_with_other_uids_and_versions_look_the_same() {
        let first = lines(&[
            object("x-1", "10"),
            object("x-1", "12"),
            object("x-2", "13"),
        ]);
        let second = lines(&[object("y-7", "3"), object("y-7", "4"), object("y-8", "9")]);
        assert_eq!(first, second);
    }

    #[test]
    fn a_version_that_changed_without_need_is_seen() {
        let calm = lines(&[object("x", "10"), object("x", "10")]);
        let restless = lines(&[object("x", "10"), object("x", "11")]);
        assert_ne!(calm, restless);
    }

    #[test]
    fn another_object_under_the_same_name_is_seen() {
        let same = lines(&[object("x", "10"), object("x", "11")]);
        let replaced = lines(&[object("x", "10"), object("z", "11")]);
        assert_ne!(same, replaced);
    }
}
