//! Evaluation of a path: each step by the RFC 9535 engine, after the checks that kubectl makes.

use jsonpath_rust::query::{QueryRef, js_path_process};
use serde_json::Value;

use super::RenderProblem;
use super::path::{FilterCondition, Literal, Path, PathSelector, PathStep};
use crate::check_state::kind;

/// The limit of values to visit for all templates of one policy. Steps multiply: `..a..a..a` on a deep
/// object, or `['a','a']['a','a']` on any, would otherwise take unbounded time. So would many templates that
/// each stay within a limit of their own.
#[derive(Debug)]
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(100_000)
    }
}

impl Budget {
    fn spend(&mut self, values: usize) -> Result<(), RenderProblem> {
        self.0 = self.0.checked_sub(values).ok_or(RenderProblem::TooMuch)?;
        Ok(())
    }

    /// Spends for this value and every value below it.
    fn spend_on_tree(&mut self, value: &Value) -> Result<(), RenderProblem> {
        self.spend(1)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.spend_on_tree(item)),
            Value::Object(fields) => fields
                .values()
                .try_for_each(|field| self.spend_on_tree(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }
}

impl Path {
    /// The values at this path.
    pub(super) fn select<'a>(
        &self,
        root: &'a Value,
        budget: &mut Budget,
    ) -> Result<Vec<&'a Value>, RenderProblem> {
        let mut values = vec![root];
        for (step, query) in &self.steps {
            let mut found = Vec::new();
            for value in values {
                step.demand(value, budget)?;
                let refs = js_path_process(query, value)
                    .map_err(|error| RenderProblem::Engine(error.to_string()))?;
                found.extend(refs.into_iter().map(QueryRef::val));
            }
            values = found;
        }
        Ok(values)
    }
}

impl PathStep {
    /// Checks the value as kubectl does before it takes this step. Spends for the values to be visited.
    fn demand(&self, value: &Value, budget: &mut Budget) -> Result<(), RenderProblem> {
        match self {
            Self::Field(_) => budget.spend(1),
            Self::Wildcard => {
                let fields = value.as_object().map_or(0, serde_json::Map::len);
                budget.spend(1 + fields + value.as_array().map_or(0, Vec::len))
            }
            Self::Descendants(_) => budget.spend_on_tree(value),
            Self::Brackets(selectors) => selectors
                .iter()
                .try_for_each(|selector| selector.demand(value, budget)),
            Self::Filter(condition) => {
                let items = list(value)?;
                items
                    .iter()
                    .try_for_each(|item| condition.demand(item, budget))
            }
        }
    }
}

impl PathSelector {
    fn demand(&self, value: &Value, budget: &mut Budget) -> Result<(), RenderProblem> {
        if matches!(self, Self::Field(_)) || value.is_null() {
            return budget.spend(1);
        }
        let length = list(value)?.len();
        budget.spend(1 + length)?;
        let from_end = |position: i64| {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            usize::try_from(if position < 0 {
                length + position
            } else {
                position
            })
            .ok()
        };
        let (start, end) = match *self {
            Self::Index(index) => (from_end(index), from_end(index).map(|index| index + 1)),
            Self::Slice {
                start,
                end,
                step: _,
            } => (
                start.map_or(Some(0), from_end),
                end.map_or(Some(length), from_end),
            ),
            Self::Field(_) | Self::All => (Some(0), Some(length)),
        };
        match (start, end) {
            (Some(start), Some(end)) if start < end && end <= length => Ok(()),
            _ => Err(RenderProblem::Bounds(length)),
        }
    }
}

impl FilterCondition {
    /// Both sides of a comparison must have the same type, if the item has the left one at all.
    fn demand(&self, item: &Value, budget: &mut Budget) -> Result<(), RenderProblem> {
        let mut value = Some(item);
        for step in &self.path {
            let Some(found) = value else { break };
            step.demand(found, budget)?;
            value = match step {
                PathStep::Field(name) => found.get(name),
                PathStep::Brackets(selectors) => match (&selectors[..], found.as_array()) {
                    ([PathSelector::Index(index)], Some(items)) => nth(items, *index),
                    _ => None,
                },
                PathStep::Wildcard | PathStep::Descendants(_) | PathStep::Filter(_) => None,
            };
        }
        budget.spend(1)?;
        match (value, &self.comparison) {
            (None, _) | (_, None) => Ok(()),
            (Some(value), Some((_, literal))) => {
                let comparable = match literal {
                    Literal::Text(_) => value.is_string(),
                    Literal::Number(_) => value.is_i64(),
                    Literal::Bool(_) => value.is_boolean(),
                };
                comparable
                    .then_some(())
                    .ok_or(RenderProblem::Comparison(kind(value)))
            }
        }
    }
}

fn nth(items: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 {
        items.get(items.len().checked_sub(distance)?)
    } else {
        items.get(distance)
    }
}

fn list(value: &Value) -> Result<&Vec<Value>, RenderProblem> {
    value.as_array().ok_or(RenderProblem::NotList(kind(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_spends_for_its_value_and_for_each_item_of_the_list() {
        let field = PathSelector::Field("a".to_owned());
        for (selector, value, spent) in [
            (PathSelector::Index(0), json!([1, 2, 3]), 4),
            (PathSelector::All, json!([1]), 2),
            (PathSelector::All, json!(null), 1),
            (field, json!({"a": 1, "b": 2}), 1),
        ] {
            let mut budget = Budget(10);
            selector.demand(&value, &mut budget).unwrap();
            assert_eq!(10 - budget.0, spent, "{value}");
        }
    }

    #[test]
    fn a_wildcard_spends_for_its_value_and_for_each_value_that_it_reaches() {
        for (value, spent) in [
            (json!("text"), 1),
            (json!([]), 1),
            (json!({"a": {"b": 1}, "c": 2}), 3),
            (json!([[1, 2, 3], 4]), 3),
        ] {
            let mut budget = Budget(10);
            PathStep::Wildcard.demand(&value, &mut budget).unwrap();
            assert_eq!(10 - budget.0, spent, "{value}");
        }
    }
}
