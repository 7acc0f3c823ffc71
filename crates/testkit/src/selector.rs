//! Label and field selectors.

use serde_json::Value;

use crate::{
    kind::Kind,
    refusal::Refusal,
    request::{Asked, Resource},
};

/// The requested objects of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    namespace: String,
    labels: Vec<Label>,
    fields: Vec<Field>,
}

/// The requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    pointer: String,
    value: String,
    is_equal: bool,
}

impl Selection {
    pub(crate) fn of(kind: &Kind, on: &Resource, asked: &Asked) -> Result<Self, Refusal> {
        let fields = clauses(asked.text("fieldSelector"));
        let fields = fields.into_iter().map(|it| Field::parse(kind, it));
        Ok(Self {
            namespace: on.namespace.clone(),
            labels: labels(asked.text("labelSelector"))?,
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    /// True when it selects by more than the namespace.
    pub(crate) fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(crate) fn has(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        (self.namespace.is_empty() || metadata["namespace"] == *self.namespace)
            && self.labels.iter().all(|it| it.holds(&metadata["labels"]))
            && self.fields.iter().all(|it| it.holds(object))
    }
}

/// The name that a field selector requires, if any. RBAC uses it.
pub(crate) fn selected_name(asked: &Asked) -> Option<String> {
    let clauses = clauses(asked.text("fieldSelector"));
    let names = clauses.iter().filter_map(|clause| {
        let (field, value) = clause.split_once('=')?;
        (field == "metadata.name").then(|| value.trim_start_matches('=').to_owned())
    });
    names.into_iter().next()
}

impl Label {
    fn holds(&self, labels: &Value) -> bool {
        let value = labels[&self.key].as_str();
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(wanted) => value.is_some_and(|it| wanted.iter().any(|one| one == it)),
            Test::Above(bound) => number(value).is_some_and(|it| it > *bound),
            Test::Below(bound) => number(value).is_some_and(|it| it < *bound),
            Test::NotIn(unwanted) => !value.is_some_and(|it| unwanted.iter().any(|one| one == it)),
        }
    }

    fn parse(clause: &str) -> Option<Self> {
        let (key, test) = if let Some(key) = clause.strip_prefix('!') {
            (key, Test::Absent)
        } else if let Some((key, value)) = clause.split_once("!=") {
            (key, Test::NotIn(vec![value.trim().to_owned()]))
        } else if let Some((key, value)) = clause.split_once('=') {
            let value = value.strip_prefix('=').unwrap_or(value).trim();
            (key, Test::In(vec![value.to_owned()]))
        } else if let Some((key, bound)) = clause.split_once('>') {
            (key, Test::Above(bound.trim().parse().ok()?))
        } else if let Some((key, bound)) = clause.split_once('<') {
            (key, Test::Below(bound.trim().parse().ok()?))
        } else if let Some((key, rest)) = clause.trim().split_once(char::is_whitespace) {
            let (word, set) = rest.trim().split_once('(')?;
            let set = set.strip_suffix(')')?.split(',');
            let set = set.map(|it| it.trim().to_owned()).collect();
            match word.trim() {
                "in" => (key, Test::In(set)),
                "notin" => (key, Test::NotIn(set)),
                _ => return None,
            }
        } else {
            (clause, Test::Exists)
        };
        let key = key.trim();
        let is_word = |it: char| it.is_ascii_alphanumeric() || "-_./".contains(it);
        let is_value = |it: &String| it.chars().all(is_word);
        let is_valid = match &test {
            Test::In(values) | Test::NotIn(values) => values.iter().all(is_value),
            Test::Exists | Test::Absent | Test::Above(_) | Test::Below(_) => true,
        };
        (is_valid && !key.is_empty() && key.chars().all(is_word)).then(|| Self {
            key: key.to_owned(),
            test,
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

fn labels(text: &str) -> Result<Vec<Label>, Refusal> {
    let refuse = || Refusal::bad_request(format!("unable to parse requirement: {text}"));
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let clauses = parts(text);
    clauses
        .into_iter()
        .map(|it| Label::parse(it).ok_or_else(refuse))
        .collect()
}

impl Field {
    fn parse(kind: &Kind, clause: &str) -> Result<Self, Refusal> {
        let (field, value, is_equal) = if let Some((field, value)) = clause.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = clause.split_once('=') {
            (field, value.strip_prefix('=').unwrap_or(value), true)
        } else {
            let message = format!("invalid selector: {clause:?}; can't understand it");
            return Err(Refusal::bad_request(message));
        };
        if !is_selectable(kind, field) {
            let message = format!("field label not supported: {field}");
            return Err(Refusal::bad_request(message));
        }
        Ok(Self {
            pointer: format!("/{}", field.replace('.', "/")),
            value: value.to_owned(),
            is_equal,
        })
    }

    fn holds(&self, object: &Value) -> bool {
        let value = object.pointer(&self.pointer).and_then(Value::as_str);
        (value.unwrap_or_default() == self.value) == self.is_equal
    }
}

fn is_selectable(kind: &Kind, field: &str) -> bool {
    let own = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => matches!(
            field,
            "spec.nodeName"
                | "spec.restartPolicy"
                | "spec.schedulerName"
                | "spec.serviceAccountName"
                | "status.phase"
                | "status.podIP"
        ),
        ("", "namespaces") => field == "status.phase",
        ("", "secrets") => field == "type",
        ("", "events") => {
            let of_object = field.strip_prefix("involvedObject.");
            let of_object = of_object.is_some_and(is_of_reference);
            of_object || matches!(field, "reason" | "type" | "reportingComponent")
        }
        ("events.k8s.io", "events") => {
            let of_object = field.strip_prefix("regarding.");
            let of_object = of_object.is_some_and(is_of_reference);
            of_object || matches!(field, "reason" | "type" | "reportingController")
        }
        _ => false,
    };
    own || field == "metadata.name" || (field == "metadata.namespace" && kind.namespaced)
}

fn is_of_reference(field: &str) -> bool {
    matches!(
        field,
        "kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion" | "fieldPath"
    )
}

/// The parts that are not empty.
fn clauses(text: &str) -> Vec<&str> {
    let mut parts = parts(text);
    parts.retain(|it| !it.is_empty());
    parts
}

/// The parts between commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = text.split(|it: char| {
        depth += match it {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        it == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(selector: &str, labels: &Value) -> bool {
        let parsed = super::labels(selector).unwrap();
        parsed.iter().all(|it| it.holds(labels))
    }

    #[test]
    fn every_form_of_a_label_selector_means_what_it_says() {
        let labels = json!({"app": "web", "tier": "front"});
        for selector in [
            "",
            "app",
            "!other",
            "app=web",
            "app==web",
            "app!=db",
            "other!=db",
            "app in (web, db)",
            "app notin (db)",
            "other notin (db)",
            "app=web,tier in (front,back),!x",
        ] {
            assert!(fits(selector, &labels), "{selector}");
        }
        for selector in [
            "other",
            "!app",
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web,db)",
            "app=web,tier=back",
            "other in (web)",
        ] {
            assert!(!fits(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for selector in [
            "a b", "a in", "a in (", "=x", "!", "a in b", ",", "a=b=c", "a>b",
        ] {
            assert!(labels(selector).is_err(), "{selector}");
        }
    }
}
