//! Dictionaries. They are shared: a change is visible through all references.

use std::{collections::BTreeSet, sync::Arc};

use super::{Call, Function, Result, Takes, function, variadic};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    value::{Dict, Elements, Entries, Value},
};

const DICT: &[Takes] = &[Takes::Dict];
const KEY: &[Takes] = &[Takes::Dict, Takes::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("dict", &[], Takes::Any, dict),
    function("get", KEY, |call| {
        let found = call.dict(0).and_then(|it| it.get(&call.text(1)));
        Ok(found.unwrap_or_else(|| Value::text("")))
    }),
    function("set", &[Takes::Dict, Takes::Text, Takes::Any], |call| {
        let Some(dict) = call.dict(0) else {
            return Err(call.failed("assignment to entry in nil map"));
        };
        call.meter.entry(&dict, &call.text(1))?;
        dict.entries
            .borrow_mut()
            .insert(call.text(1), call.value(2));
        Ok(Value::Dict(dict))
    }),
    function("unset", KEY, |call| {
        let dict = changed(call, 0)?;
        dict.entries.borrow_mut().remove(&call.text(1));
        Ok(Value::Dict(dict))
    }),
    function("hasKey", KEY, |call| {
        let found = call.dict(0).and_then(|it| it.get(&call.text(1)));
        Ok(Value::Bool(found.is_some()))
    }),
    variadic("pluck", &[Takes::Text], Takes::Dict, |call| {
        let key = call.text(0);
        let dicts = (1..call.values.len()).filter_map(|it| call.dict(it));
        let found = dicts.filter_map(|it| it.get(&key)).collect();
        Ok(call.meter.list(Elements::Any, found)?)
    }),
    variadic("keys", &[], Takes::Dict, |call| {
        let mut keys = Vec::new();
        for index in 0..call.values.len() {
            for (key, _) in entries(call, index)? {
                keys.push(Value::Text(key));
            }
        }
        Ok(call.meter.list(Elements::Texts, keys)?)
    }),
    function("values", DICT, |call| {
        let entries = entries(call, 0)?.into_iter();
        Ok(call
            .meter
            .list(Elements::Any, entries.map(|(_, value)| value).collect())?)
    }),
    variadic("pick", DICT, Takes::Text, |call| {
        let mut picked = Entries::new();
        if let Some(dict) = call.dict(0) {
            for index in 1..call.values.len() {
                let key = call.text(index);
                picked.extend(dict.get(&key).map(|value| (key, value)));
            }
        }
        Ok(call.meter.dict(false, picked)?)
    }),
    variadic("omit", DICT, Takes::Text, |call| {
        let omitted: BTreeSet<Arc<str>> = (1..call.values.len()).map(|it| call.text(it)).collect();
        let entries = entries(call, 0)?.into_iter();
        let left = entries.filter(|(key, _)| !omitted.contains(key)).collect();
        Ok(call.meter.dict(false, left)?)
    }),
    variadic("dig", &[], Takes::Any, dig),
    function("deepCopy", &[Takes::Any], deep_copy),
    function("mustDeepCopy", &[Takes::Any], deep_copy),
];

/// A dictionary that is about to change.
pub(super) fn changed(call: &Call<'_>, index: usize) -> Result<Dict> {
    let refusal = Refusal::Change("a change to a dictionary that is nil");
    call.dict(index)
        .ok_or(TemplateRenderProblem::Refused(refusal))
}

/// The entries of a dictionary, with their cost.
fn entries(call: &Call<'_>, index: usize) -> Result<Vec<(Arc<str>, Value)>> {
    let Some(dict) = call.dict(index) else {
        return Ok(Vec::new());
    };
    let count = dict.entries.borrow().len();
    call.meter.steps(u64::try_from(count).unwrap_or(u64::MAX))?;
    call.meter.room(count.saturating_mul(size_of::<Value>()))?;
    Ok(dict.to_vec())
}

fn dict(call: &Call<'_>) -> Result {
    let mut entries = Entries::new();
    for pair in call.values.chunks(2) {
        let mut pair = pair.iter();
        if let Some(key) = pair.next() {
            let key = call.string_of(key)?;
            let value = pair.next().cloned();
            entries.insert(key, value.unwrap_or_else(|| Value::text("")));
        }
    }
    Ok(call.meter.dict(false, entries)?)
}

/// Keys, the default for a missing key, and the dictionary.
fn dig(call: &Call<'_>) -> Result {
    let [keys @ .., usual, dict] = call.values.as_slice() else {
        return Err(call.failed("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(call.failed("dig needs at least three arguments"));
    }
    if keys.iter().any(|it| !matches!(it, Value::Text(_))) {
        return Err(call.failed("interface conversion: interface {} is not string"));
    }
    let mut found = dict.clone();
    for key in keys {
        let (Value::Dict(dict), Value::Text(key)) = (&found, key) else {
            return Err(not_a_dict(call, &found));
        };
        if dict.of_texts {
            return Err(not_a_dict(call, &found));
        }
        let Some(next) = dict.get(key) else {
            return Ok(usual.clone());
        };
        found = next;
    }
    Ok(found)
}

fn not_a_dict(call: &Call<'_>, value: &Value) -> TemplateRenderProblem {
    call.failed(format!(
        "interface conversion: interface {{}} is {}, not map[string]interface {{}}",
        value.type_name()
    ))
}

fn deep_copy(call: &Call<'_>) -> Result {
    let value = call.value(0);
    if value.is_nothing() {
        return Err(call.failed("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(call, &value, 0)
}

fn copy(call: &Call<'_>, value: &Value, depth: usize) -> Result {
    call.meter.depth(depth)?;
    call.meter.steps(1)?;
    match value {
        Value::List(list) if list.is_nil => Ok(value.clone()),
        Value::List(list) => {
            let values = list.elements();
            let values = values.iter().map(|it| copy(call, it, depth + 1));
            let values = values.collect::<Result<Vec<_>>>()?;
            Ok(call.meter.list(list.elements, values)?)
        }
        Value::Dict(dict) => {
            let entries = dict.entries.borrow();
            let entries = entries
                .iter()
                .map(|(key, value)| Ok((Arc::clone(key), copy(call, value, depth + 1)?)));
            let entries = entries.collect::<Result<Entries>>()?;
            Ok(call.meter.dict(dict.of_texts, entries)?)
        }
        Value::Nothing
        | Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Int64(_)
        | Value::Byte(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Time(_) => Ok(value.clone()),
    }
}
