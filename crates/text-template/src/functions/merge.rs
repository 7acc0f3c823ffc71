//! Merging dictionaries, as the library mergo does it for sprig.

use super::{Call, Function, Result, Takes, dicts::changed, variadic};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    value::{Dict, Value},
};

const DICT: &[Takes] = &[Takes::Dict];

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("merge", DICT, Takes::Dict, |call| merge_all(call, false)),
    variadic("mustMerge", DICT, Takes::Dict, |call| {
        merge_all(call, false)
    }),
    variadic("mergeOverwrite", DICT, Takes::Dict, |call| {
        merge_all(call, true)
    }),
    variadic("mustMergeOverwrite", DICT, Takes::Dict, |call| {
        merge_all(call, true)
    }),
];

fn merge_all(call: &Call<'_>, overwrite: bool) -> Result {
    let into = changed(call, 0)?;
    for index in 1..call.values.len() {
        if let Some(from) = call.dict(index) {
            merge(call, &into, &from, overwrite, 0)?;
        }
    }
    Ok(Value::Dict(into))
}

fn merge(
    call: &Call<'_>,
    into: &Dict,
    from: &Dict,
    overwrite: bool,
    depth: usize,
) -> std::result::Result<(), TemplateRenderProblem> {
    call.meter.depth(depth)?;
    if into.of_texts || from.of_texts {
        let refusal = Refusal::Change("a merge with what split makes");
        return Err(TemplateRenderProblem::Refused(refusal));
    }
    if into.is_same(from) {
        return Ok(());
    }
    let entries = from.entries.borrow().len();
    call.meter
        .steps(u64::try_from(entries).unwrap_or(u64::MAX))?;
    // A copy, since what is merged into may be a part of it.
    for (key, value) in from.to_vec() {
        let old = into.get(&key);
        let is_kept = match (&old, &value) {
            (_, Value::Nothing | Value::Nil) => !overwrite,
            (Some(Value::Dict(old)), Value::Dict(value)) => {
                merge(call, old, value, overwrite, depth + 1)?;
                !old.entries.borrow().is_empty()
            }
            (old, _) => !overwrite && old.as_ref().is_some_and(is_set),
        };
        if !is_kept {
            call.meter.entry(into, &key)?;
            into.entries.borrow_mut().insert(key, value);
        }
    }
    Ok(())
}

/// The library takes the zero of a type for empty. A time is never empty.
fn is_set(value: &Value) -> bool {
    value.is_true()
}
