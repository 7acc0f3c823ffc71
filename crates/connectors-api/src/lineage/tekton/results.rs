//! Parameters, and the results of other tasks that they are made from.
//!
//! `status.pipelineSpec` has the run's parameters and context filled in, and keeps references to results. They are
//! resolved from the status of the children that produced them, which are proven like every other child. A reference
//! that cannot be resolved is refused, never kept as text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::object::{LinkObject, text};
use super::proof::{DEEPEST, Proof};
use super::references::{Piece, RETRIES, Reference, ResultPart, pieces};
use super::{LineageReason, LineageStep, RunKind, both, matrix, names, refused};

/// The bytes of a text that are copied in one step.
const COPIED: usize = 32;

/// The parameters of a list, by name.
pub(super) struct Values<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Values<'a> {
    /// None when an entry has no name or value, or when a name comes twice.
    pub(super) fn of_list(list: &'a [Value]) -> Option<Self> {
        let mut values = BTreeMap::new();
        for entry in list {
            let name = text(entry, "/name");
            let is_new = !name.is_empty() && values.insert(name, entry.get("value")?).is_none();
            if !is_new {
                return None;
            }
        }
        Some(Self(values))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn unresolved<T>(task: &Value) -> LineageStep<T> {
    let message = format!(
        "a value of pipeline task {} cannot be resolved: only results of other tasks can",
        text(task, "/name")
    );
    refused(LineageReason::ValueUnresolved, message)
}

impl<'a> Proof<'a> {
    /// The parameters of a list in its order, with results filled in.
    pub(super) fn resolved(
        &mut self,
        task: &Value,
        params: &[Value],
        depth: u32,
    ) -> LineageStep<Vec<(String, Value)>> {
        if Values::of_list(params).is_none() {
            return unresolved(task);
        }
        let mut resolved = Ok(Vec::new());
        for param in params {
            let value =
                self.resolved_value(task, param.get("value").unwrap_or(&Value::Null), depth);
            let name = text(param, "/name").to_owned();
            resolved = both(resolved, value).map(|(mut all, value)| {
                all.push((name, value));
                all
            });
        }
        resolved
    }

    /// A value of a parameter with results filled in.
    fn resolved_value(&mut self, task: &Value, value: &Value, depth: u32) -> LineageStep<Value> {
        match value {
            Value::String(text) => match pieces(text).as_slice() {
                [Piece::Reference(reference)] => self.referred(task, reference, depth),
                _ => Ok(Value::String(self.resolved_text(task, text, depth)?)),
            },
            Value::Array(values) => {
                let mut all = Vec::new();
                for value in values {
                    all.extend(self.resolved_item(task, value, depth)?);
                }
                Ok(Value::Array(all))
            }
            Value::Object(fields) => {
                let mut all = Map::new();
                for (name, value) in fields {
                    let Value::String(text) = value else {
                        return unresolved(task);
                    };
                    let text = self.resolved_text(task, text, depth)?;
                    all.insert(name.clone(), Value::String(text));
                }
                Ok(Value::Object(all))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => unresolved(task),
        }
    }

    /// The items that an item of a list stands for: those of a result that is a list, else one text.
    fn resolved_item(&mut self, task: &Value, item: &Value, depth: u32) -> LineageStep<Vec<Value>> {
        let Value::String(text) = item else {
            self.spend(copied(item))?;
            return Ok(vec![item.clone()]);
        };
        if let [Piece::Reference(reference)] = pieces(text).as_slice()
            && let Value::Array(items) = self.referred(task, reference, depth)?
        {
            return Ok(items);
        }
        Ok(vec![Value::String(self.resolved_text(task, text, depth)?)])
    }

    /// A text in which every reference is one text.
    pub(super) fn resolved_text(
        &mut self,
        task: &Value,
        text: &str,
        depth: u32,
    ) -> LineageStep<String> {
        self.spend(text.len() / 64 + 1)?;
        let mut all = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => all.push_str(text),
                Piece::Retries => all.push_str(&retries(task).to_string()),
                Piece::Unknown(_) => return unresolved(task),
                Piece::Reference(reference) => {
                    let Value::String(text) = self.referred(task, &reference, depth)? else {
                        return unresolved(task);
                    };
                    all.push_str(&text);
                }
            }
        }
        Ok(all)
    }

    /// A text of an embedded task, in which Tekton fills in less: an item of a list, a whole list within a text and
    /// other variables stay as they are written.
    pub(super) fn embedded_text(
        &mut self,
        task: &Value,
        text: &str,
        depth: u32,
    ) -> LineageStep<String> {
        self.spend(text.len() / 64 + 1)?;
        let mut all = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) | Piece::Unknown(text) => all.push_str(text),
                Piece::Retries => all.extend(["$(", RETRIES, ")"]),
                Piece::Reference(reference) => match reference.part {
                    ResultPart::Whole | ResultPart::Key(_) => {
                        let value = self.referred(task, &reference, depth)?;
                        all.push_str(value.as_str().unwrap_or(reference.written));
                    }
                    ResultPart::All | ResultPart::At(_) => all.push_str(reference.written),
                },
            }
        }
        Ok(all)
    }

    /// The items that an item of a list within an embedded task stands for.
    pub(super) fn embedded_item(
        &mut self,
        task: &Value,
        item: &Value,
        depth: u32,
    ) -> LineageStep<Vec<Value>> {
        let Value::String(text) = item else {
            self.spend(copied(item))?;
            return Ok(vec![item.clone()]);
        };
        if let [Piece::Reference(reference)] = pieces(text).as_slice()
            && matches!(reference.part, ResultPart::Whole | ResultPart::All)
            && let Value::Array(items) = self.referred(task, reference, depth)?
        {
            return Ok(items);
        }
        Ok(vec![Value::String(self.embedded_text(task, text, depth)?)])
    }

    /// The value of a reference.
    fn referred(
        &mut self,
        task: &Value,
        reference: &Reference<'_>,
        depth: u32,
    ) -> LineageStep<Value> {
        let Reference {
            task: of,
            result,
            part,
            written: _,
        } = reference;
        let value = self.result(task, of, result, depth + 1)?;
        let value = match (part, value) {
            (ResultPart::Whole, value)
            | (ResultPart::All, value @ (Value::Array(_) | Value::Object(_))) => Some(value),
            (ResultPart::At(index), Value::Array(mut items)) => {
                (*index < items.len()).then(|| items.swap_remove(*index))
            }
            (ResultPart::Key(key), Value::Object(mut fields)) => fields.remove(*key),
            _ => None,
        };
        match value {
            Some(value @ (Value::String(_) | Value::Array(_) | Value::Object(_))) => Ok(value),
            _ => unresolved(task),
        }
    }

    /// The result of another task, from its proven children.
    fn result(&mut self, task: &Value, of: &str, result: &str, depth: u32) -> LineageStep<Value> {
        if depth > DEEPEST {
            let message =
                format!("pipeline task {of} depends on results in too many steps, or on its own");
            return refused(LineageReason::TooLarge, message);
        }
        let Some(producer) = self.task(of) else {
            return unresolved(task);
        };
        let kind = super::content::kind_of(producer);
        let Some(kind @ (RunKind::TaskRun | RunKind::CustomRun)) = kind else {
            return unresolved(task);
        };
        let combinations = matrix::combinations(self, producer, depth)?;
        // Deriving a name costs a digest.
        self.spend(combinations.len().saturating_mul(8))?;
        let mut children = Ok(Vec::new());
        for name in names::of_children(self.run.name, of, combinations.len()) {
            let child = self.finished(kind, &name, depth);
            children = both(children, child).map(|(mut all, child)| {
                all.push(child);
                all
            });
        }
        let mut children = children?;
        let value = if super::content::is_matrix(producer) && kind == RunKind::TaskRun {
            children.sort_by_key(|child| child.name);
            let texts: Vec<_> = children
                .iter()
                .filter_map(|it| of_task_run(it, result))
                .collect();
            let is_text = texts.iter().all(Value::is_string);
            (!texts.is_empty() && is_text).then_some(Value::Array(texts))
        } else {
            let child = children.first();
            child.and_then(|child| match kind {
                RunKind::CustomRun => of_custom_run(child, result),
                RunKind::TaskRun | RunKind::PipelineRun => of_task_run(child, result),
            })
        };
        match value {
            Some(value) => {
                self.spend(copied(&value))?;
                Ok(value)
            }
            None => unresolved(task),
        }
    }

    /// A child that has ended, proven.
    fn finished(&mut self, kind: RunKind, name: &str, depth: u32) -> LineageStep<LinkObject<'a>> {
        let child = self.store.named(kind, name, None)?;
        self.child_at(kind, &child, depth)?;
        if child.succeeded().is_none() {
            return child.lacks(kind, "status.conditions");
        }
        Ok(child)
    }
}

fn of_task_run(child: &LinkObject<'_>, name: &str) -> Option<Value> {
    let mut results = child.list("/status/results").iter();
    results
        .find(|it| text(it, "/name") == name)?
        .get("value")
        .cloned()
}

/// The results of custom tasks are texts; one that is a JSON list of texts is a list.
fn of_custom_run(child: &LinkObject<'_>, name: &str) -> Option<Value> {
    let value = of_task_run(child, name)?;
    let items = value.as_str().map(serde_json::from_str::<Vec<String>>);
    match items {
        Some(Ok(items)) if !items.is_empty() => Some(Value::from(items)),
        _ => Some(value),
    }
}

fn retries(task: &Value) -> u64 {
    task.get("retries").and_then(Value::as_u64).unwrap_or(0)
}

/// The steps that a copy of a value costs. They bound the memory that a tenant could let grow.
pub(super) fn copied(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(copied).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| name.len() / COPIED + copied(value));
            1 + fields.sum::<usize>()
        }
        Value::String(text) => 1 + text.len() / COPIED,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_copy_costs_a_step_for_each_value_and_for_each_part_of_a_text() {
        let text = |parts: usize| "x".repeat(parts * COPIED);
        for (value, steps) in [
            (json!(null), 1),
            (json!(true), 1),
            (json!(7), 1),
            (json!(""), 1),
            (json!("x".repeat(COPIED - 1)), 1),
            (json!(text(1)), 2),
            (json!(text(3)), 4),
            (json!([]), 1),
            (json!(["a", 1]), 3),
            (json!([["a"], text(2)]), 6),
            (json!({}), 1),
            (json!({"key": 1}), 2),
            (json!({"a": "b", "c": []}), 3),
            (json!({text(3): text(1)}), 6),
        ] {
            assert_eq!(copied(&value), steps, "{value}");
        }
    }
}
