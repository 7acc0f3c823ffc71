//! The fields of earlier answers, and references to them in later requests.

use std::collections::BTreeMap;

use serde_json::Value;

use super::step::{Ask, Step, TokenWish, Who};

/// Fields of earlier answers by `key.field`.
#[derive(Debug, Default)]
pub(super) struct Memory {
    fields: BTreeMap<String, String>,
}

impl Memory {
    /// The text with every placeholder replaced. An unknown placeholder stays, so that the answer shows it.
    pub(super) fn fill(&self, text: &str, run: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let (before, after) = rest.split_at(start);
            filled.push_str(before);
            let placeholder = after
                .find('>')
                .and_then(|end| Some((self.fields.get(after.get(1..end)?)?, end)));
            if let Some((value, end)) = placeholder {
                filled.push_str(value);
                rest = after.get(end + 1..).unwrap_or_default();
            } else {
                filled.push('<');
                rest = after.get(1..).unwrap_or_default();
            }
        }
        filled.push_str(rest);
        filled.replace("$run", run)
    }

    pub(super) fn fill_who(&self, who: &Who, run: &str) -> Who {
        match who {
            Who::Admin => Who::Admin,
            Who::User { name, groups } => Who::User {
                name: self.fill(name, run),
                groups: groups.iter().map(|group| self.fill(group, run)).collect(),
            },
        }
    }

    pub(super) fn fill_wish(&self, wish: &TokenWish, run: &str) -> TokenWish {
        let fill = |text: &str| self.fill(text, run);
        TokenWish {
            namespace: fill(&wish.namespace),
            account: fill(&wish.account),
            account_uid: fill(&wish.account_uid),
            pod: fill(&wish.pod),
            pod_uid: fill(&wish.pod_uid),
            audiences: wish.audiences.clone(),
        }
    }

    pub(super) fn keep_token(&mut self, step: &Step, token: String) {
        if let Some(key) = &step.keep_as {
            self.fields.insert(format!("{key}.token"), token);
        }
    }

    /// Stores the fields of an answer under `plural/name`, and under the key that the step names.
    pub(super) fn keep(&mut self, step: &Step, ask: &Ask, body: &Value) {
        let metadata = &body["metadata"];
        let field = |name: &str| metadata[name].as_str().filter(|text| !text.is_empty());
        if body["kind"] == "Status" {
            return;
        }
        let known = [
            ("uid", field("uid")),
            ("version", field("resourceVersion")),
            ("name", field("name")),
            ("continue", field("continue")),
        ];
        let own = field("name").and_then(|name| Some(format!("{}/{name}", plural(&ask.path)?)));
        for key in own.iter().chain(&step.keep_as) {
            for (name, value) in &known {
                let Some(value) = value else { continue };
                let old = self
                    .fields
                    .insert(format!("{key}.{name}"), (*value).to_owned());
                // The version before the last change, for requests that must be stale.
                if let Some(old) = old.filter(|old| *name == "version" && old != value) {
                    self.fields.insert(format!("{key}.before"), old);
                }
            }
        }
    }
}

/// The kind's name in a path of one object, of its status, or of a collection in a namespace.
fn plural(path: &str) -> Option<&str> {
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let skipped = if parts.first() == Some(&"api") { 2 } else { 3 };
    match parts.get(skipped..)? {
        ["namespaces", _, plural, ..] | [plural, ..] => Some(plural),
        [] => None,
    }
}
