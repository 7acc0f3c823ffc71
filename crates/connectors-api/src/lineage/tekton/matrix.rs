//! The combinations of a matrix, in the order in which Tekton numbers the children.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{list, text};
use super::proof::Proof;
use super::results::{Values, copied};
use super::{LineageReason, LineageStep, refused};

/// More combinations are not looked at. Tekton's own default is 256.
const MOST_COMBINATIONS: usize = 256;

/// The parameters that a matrix gives one child.
pub(super) type Combination = BTreeMap<String, Value>;

/// The steps that a copy of a combination costs, or a comparison with another one.
fn copied_by(combination: &Combination) -> usize {
    combination.values().map(copied).sum::<usize>() + 1
}

/// The combinations of a pipeline task; a single empty one without a matrix.
///
/// Each parameter multiplies: for each of its values, in order, each combination so far. A combination of `include`
/// replaces in those that it does not contradict, and is added when none has one of its values.
pub(super) fn combinations(
    proof: &mut Proof<'_>,
    task: &Value,
    depth: u32,
) -> LineageStep<Vec<Combination>> {
    let params = list(task, "/matrix/params");
    let include = list(task, "/matrix/include");
    if params.is_empty() && include.is_empty() {
        return Ok(vec![Combination::new()]);
    }
    let mut combinations: Vec<Combination> = Vec::new();
    for (name, value) in proof.resolved(task, params, depth)? {
        let Value::Array(values) = value else {
            return unreadable(task);
        };
        combinations = multiplied(proof, task, combinations, &name, &values)?;
    }
    let mut added = Vec::new();
    for entry in include {
        let entry: Combination = proof
            .resolved(task, list(entry, "/params"), depth)?
            .into_iter()
            .collect();
        if entry.values().any(|it| !it.is_string()) {
            return unreadable(task);
        }
        added.push(entry);
    }
    let of_added = added.iter().map(copied_by).sum::<usize>();
    proof.spend(of_added.saturating_mul(2 * combinations.len() + 1))?;
    let counted = counted(&combinations, params, include, &added);
    let combinations = included(proof, params.is_empty(), combinations, added)?;
    if combinations.is_empty() || combinations.len() != counted {
        return unreadable(task);
    }
    if combinations.len() > MOST_COMBINATIONS {
        let name = text(task, "/name");
        let message =
            format!("pipeline task {name} has more than {MOST_COMBINATIONS} combinations");
        return refused(LineageReason::TooLarge, message);
    }
    Ok(combinations)
}

fn unreadable<T>(task: &Value) -> LineageStep<T> {
    let message = format!(
        "the matrix of pipeline task {} cannot be read",
        text(task, "/name")
    );
    refused(LineageReason::MatrixUnreadable, message)
}

fn multiplied(
    proof: &mut Proof<'_>,
    task: &Value,
    before: Vec<Combination>,
    name: &str,
    values: &[Value],
) -> LineageStep<Vec<Combination>> {
    let before = if before.is_empty() {
        vec![Combination::new()]
    } else {
        before
    };
    if values.is_empty() || before.len().saturating_mul(values.len()) > MOST_COMBINATIONS {
        return unreadable(task);
    }
    let mut after = Vec::new();
    let copies = before.iter().map(copied_by).sum::<usize>();
    proof.spend(copies.saturating_mul(values.len()))?;
    let of_values = values.iter().map(copied).sum::<usize>();
    proof.spend(of_values.saturating_mul(before.len()))?;
    for value in values {
        for combination in &before {
            let mut combination = combination.clone();
            combination.insert(name.to_owned(), value.clone());
            after.push(combination);
        }
    }
    Ok(after)
}

fn included(
    proof: &mut Proof<'_>,
    alone: bool,
    mut combinations: Vec<Combination>,
    added: Vec<Combination>,
) -> LineageStep<Vec<Combination>> {
    if alone {
        return Ok(added);
    }
    let of_added = added.iter().map(copied_by).sum::<usize>();
    proof.spend(of_added.saturating_mul(combinations.len() + 1))?;
    for combination in &mut combinations {
        for entry in &added {
            let contradicts = |(name, value): (&String, &Value)| {
                combination.get(name).is_some_and(|it| it != value)
            };
            if !entry.iter().any(contradicts) {
                combination.extend(entry.clone());
            }
        }
    }
    for entry in added {
        proof.spend(copied_by(&entry).saturating_mul(combinations.len() + 1))?;
        let has_one = |it: &Combination| {
            entry
                .iter()
                .any(|(name, value)| it.get(name) == Some(value))
        };
        if !entry.is_empty() && !combinations.iter().any(has_one) {
            combinations.push(entry);
        }
    }
    Ok(combinations)
}

/// Tekton counts the children by another rule than the one that makes the combinations. Where both differ, the names
/// of children are not known.
fn counted(
    multiplied: &[Combination],
    params: &[Value],
    include: &[Value],
    added: &[Combination],
) -> usize {
    if params.is_empty() {
        return added.len();
    }
    let has = |name: &str, value: Option<&Value>| multiplied.iter().any(|it| it.get(name) == value);
    let is_param = |name: &&str| multiplied.iter().any(|it| it.contains_key(*name));
    let mut count = multiplied.len();
    for (listed, entry) in include.iter().zip(added) {
        // In the order of the list: the first known value ends the count.
        let names = list(listed, "/params").iter().map(|it| text(it, "/name"));
        let of_matrix = names.filter(is_param);
        count += of_matrix
            .take_while(|name| !has(name, entry.get(*name)))
            .count();
    }
    count
}

/// The parameters of one child: those of the matrix, then those of the task.
pub(super) fn parameters(combination: &Combination, params: Combination) -> Option<Combination> {
    let mut all = combination.clone();
    for (name, value) in params {
        if all.insert(name, value).is_some() {
            return None;
        }
    }
    Some(all)
}

/// True when the parameters of a child are these, in any order.
pub(super) fn are_same(all: &Combination, of_child: &[Value]) -> bool {
    let Some(of_child) = Values::of_list(of_child) else {
        return false;
    };
    all.len() == of_child.len()
        && all
            .iter()
            .all(|(name, value)| of_child.get(name) == Some(value))
}
