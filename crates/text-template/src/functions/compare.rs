//! `and`, `or`, `not`, `eq` and its kin, `index` and `len`: functions of Go's own package.

use super::{Call, Function, How, Result, Takes, function, variadic};
use crate::{
    number::count,
    value::{Basic, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    until("and", false),
    until("or", true),
    function("not", &[Takes::Raw], |call| {
        Ok(Value::Bool(!call.value(0).is_true()))
    }),
    variadic("eq", &[Takes::Raw], Takes::Raw, |call| {
        equal(call).map(Value::Bool)
    }),
    function("ne", &[Takes::Raw, Takes::Raw], |call| {
        Ok(Value::Bool(!equal(call)?))
    }),
    function("lt", &[Takes::Raw, Takes::Raw], |call| {
        less(call).map(Value::Bool)
    }),
    function("le", &[Takes::Raw, Takes::Raw], |call| {
        less_or_equal(call).map(Value::Bool)
    }),
    function("gt", &[Takes::Raw, Takes::Raw], |call| {
        Ok(Value::Bool(!less_or_equal(call)?))
    }),
    function("ge", &[Takes::Raw, Takes::Raw], |call| {
        Ok(Value::Bool(!less(call)?))
    }),
    variadic("index", &[Takes::Raw], Takes::Raw, index),
    function("len", &[Takes::Raw], length),
];

const fn until(name: &'static str, is: bool) -> Function {
    Function {
        name,
        takes: &[Takes::Raw],
        rest: Some(Takes::Raw),
        how: How::UntilOneIs(is),
    }
}

/// Whether the first is equal to one of the others.
fn equal(call: &Call<'_>) -> Result<bool> {
    let first = call.value(0).concrete();
    if call.values.len() < 2 {
        return Err(call.failed("missing argument for comparison"));
    }
    for other in call.rest(1) {
        if is_equal(call, &first, &other.clone().concrete())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal(call: &Call<'_>, one: &Value, other: &Value) -> Result<bool> {
    let (kind, other_kind) = (one.basic(), other.basic());
    if kind == other_kind || is_whole(kind) && is_whole(other_kind) {
        return match (one, other) {
            (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
            (Value::Text(one), Value::Text(other)) => {
                call.work(one.len().min(other.len()))?;
                Ok(one == other)
            }
            #[expect(clippy::float_cmp, reason = "as Go compares")]
            (Value::Float(one), Value::Float(other)) => Ok(one == other),
            _ if kind == Basic::None => without_kind(call, one, other),
            _ => Ok(one.whole() == other.whole()),
        };
    }
    if one.is_nothing() || other.is_nothing() {
        return Ok(false);
    }
    Err(call.failed(format!(
        "incompatible types for comparison: {} and {}",
        one.type_name(),
        other.type_name()
    )))
}

/// Lists, dictionaries, times and nil: only nil is equal to anything.
fn without_kind(call: &Call<'_>, one: &Value, other: &Value) -> Result<bool> {
    if one.is_nothing() && other.is_nothing() {
        return Ok(true);
    }
    if one.kind() != other.kind() && !one.is_nothing() && !other.is_nothing() {
        return Err(call.failed("non-comparable types"));
    }
    let is_nil = |value: &Value| match value {
        Value::List(list) => list.is_nil,
        other => other.is_nothing(),
    };
    if is_nil(one) || is_nil(other) {
        return Ok(is_nil(one) == is_nil(other));
    }
    match (one, other) {
        (Value::Time(one), Value::Time(other)) => Ok(one == other),
        _ => Err(call.failed(format!("non-comparable type {}", other.type_name()))),
    }
}

fn is_whole(kind: Basic) -> bool {
    matches!(kind, Basic::Int | Basic::Unsigned)
}

fn less(call: &Call<'_>) -> Result<bool> {
    let (one, other) = (call.value(0).concrete(), call.value(1).concrete());
    let (kind, other_kind) = (one.basic(), other.basic());
    if kind == Basic::None || other_kind == Basic::None {
        return Err(call.failed("invalid type for comparison"));
    }
    match (&one, &other) {
        (Value::Text(one), Value::Text(other)) => {
            call.work(one.len().min(other.len()))?;
            Ok(one < other)
        }
        (Value::Float(one), Value::Float(other)) => Ok(one < other),
        (Value::Bool(_), Value::Bool(_)) => Err(call.failed("invalid type for comparison")),
        _ if is_whole(kind) && is_whole(other_kind) => Ok(one.whole() < other.whole()),
        _ => Err(call.failed(format!(
            "incompatible types for comparison: {} and {}",
            one.type_name(),
            other.type_name()
        ))),
    }
}

fn less_or_equal(call: &Call<'_>) -> Result<bool> {
    Ok(less(call)? || equal(call)?)
}

fn index(call: &Call<'_>) -> Result {
    let mut item = call.value(0);
    if item.is_nothing() {
        return Err(call.failed("index of untyped nil"));
    }
    for at in call.rest(1) {
        item = match &item {
            Value::Text(text) => {
                let place = place(call, at)?;
                let byte = text.as_bytes().get(place).copied();
                byte.map(Value::Byte)
                    .ok_or_else(|| call.failed("string index out of range"))?
            }
            Value::List(list) => {
                let place = place(call, at)?;
                list.get(place)
                    .ok_or_else(|| call.failed("slice index out of range"))?
            }
            Value::Dict(dict) => {
                let Value::Text(key) = at else {
                    return Err(call.failed(format!(
                        "value has type {}; should be string",
                        at.type_name()
                    )));
                };
                let missing = if dict.of_texts {
                    Value::text("")
                } else {
                    Value::Nil
                };
                dict.get(key).unwrap_or(missing)
            }
            Value::Nothing | Value::Nil => return Err(call.failed("index of nil pointer")),
            other => {
                return Err(call.failed(format!("can't index item of type {}", other.type_name())));
            }
        };
    }
    Ok(item)
}

fn place(call: &Call<'_>, index: &Value) -> Result<usize> {
    let Some(number) = index.whole() else {
        return Err(call.failed(format!(
            "cannot index slice/array with type {}",
            index.type_name()
        )));
    };
    usize::try_from(number).map_err(|_| call.failed(format!("index out of range: {number}")))
}

fn length(call: &Call<'_>) -> Result {
    let length = match call.value(0) {
        Value::Text(text) => text.len(),
        Value::List(list) => list.length,
        Value::Dict(dict) => dict.entries.borrow().len(),
        other => return Err(call.failed(format!("len of type {}", other.type_name()))),
    };
    Ok(Value::Int(count(length)))
}
