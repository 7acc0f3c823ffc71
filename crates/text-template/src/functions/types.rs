//! Types, truth, defaults, and `fail`.

use super::{Call, Function, Result, Takes, function, variadic};
use crate::{
    error::TemplateRenderProblem,
    number::{float_of, int_of, nearest_signed, parse_float, parse_signed},
    printf,
    value::{List, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("default", &[Takes::Any], Takes::Any, |call| {
        let given = call.value(1);
        Ok(if given.is_true_for_sprig() {
            given
        } else {
            call.value(0)
        })
    }),
    function("empty", &[Takes::Any], |call| {
        Ok(Value::Bool(!call.value(0).is_true_for_sprig()))
    }),
    variadic("coalesce", &[], Takes::Any, |call| {
        let found = call.values.iter().find(|it| it.is_true_for_sprig());
        Ok(found.cloned().unwrap_or(Value::Nil))
    }),
    variadic("all", &[], Takes::Any, |call| {
        Ok(Value::Bool(
            call.values.iter().all(Value::is_true_for_sprig),
        ))
    }),
    variadic("any", &[], Takes::Any, |call| {
        Ok(Value::Bool(
            call.values.iter().any(Value::is_true_for_sprig),
        ))
    }),
    function("ternary", &[Takes::Any, Takes::Any, Takes::Bool], |call| {
        Ok(call.value(usize::from(!call.bool(2))))
    }),
    function("fail", &[Takes::Text], |call| {
        Err(call.failed(&*call.text(0)))
    }),
    function("typeOf", &[Takes::Any], |call| {
        call.make(call.value(0).type_name())
    }),
    function("typeIs", &[Takes::Text, Takes::Any], |call| {
        Ok(Value::Bool(&*call.text(0) == call.value(1).type_name()))
    }),
    function("typeIsLike", &[Takes::Text, Takes::Any], |call| {
        let (target, name) = (call.text(0), call.value(1).type_name());
        Ok(Value::Bool(
            &*target == name || format!("*{target}") == name,
        ))
    }),
    function("kindOf", &[Takes::Any], |call| {
        call.make(call.value(0).kind())
    }),
    function("kindIs", &[Takes::Text, Takes::Any], |call| {
        Ok(Value::Bool(&*call.text(0) == call.value(1).kind()))
    }),
    function("deepEqual", &[Takes::Any, Takes::Any], |call| {
        Ok(Value::Bool(is_deeply_equal(
            call,
            &call.value(0),
            &call.value(1),
            0,
        )?))
    }),
    function("atoi", &[Takes::Text], |call| {
        // Beyond the range, Go's Atoi gives the nearest number beside its error.
        Ok(Value::Int(nearest_signed(&call.text(0))))
    }),
    function("int", &[Takes::Any], |call| {
        Ok(Value::Int(to_int(&call.value(0))))
    }),
    function("int64", &[Takes::Any], |call| {
        Ok(Value::Int64(to_int(&call.value(0))))
    }),
    function("float64", &[Takes::Any], |call| {
        Ok(Value::Float(to_float(&call.value(0))))
    }),
    function("toDecimal", &[Takes::Any], |call| {
        let text = printf::text_of(call.meter, &call.value(0))?;
        Ok(Value::Int64(parse_signed(&text, 8).unwrap_or(0)))
    }),
    function("toString", &[Takes::Any], |call| {
        let text = call.string_of(&call.value(0))?;
        Ok(Value::Text(text))
    }),
    function("toStrings", &[Takes::Any], |call| {
        match call.value(0) {
            // Go gives a list of texts back as it is.
            Value::List(list) if list.elements == crate::value::Elements::Texts => {
                Ok(Value::List(list))
            }
            other => Ok(call.meter.texts(strings_of(call, &other)?)?),
        }
    }),
];

impl Value {
    /// Whether sprig takes it for set. It differs from `if` in nothing that exists here.
    fn is_true_for_sprig(&self) -> bool {
        self.is_true()
    }
}

/// As in the library cast: a value that is no number becomes 0.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number,
        Value::Byte(number) => i64::from(*number),
        Value::Float(number) => int_of(*number),
        Value::Text(text) => parse_signed(without_zeros(text), 0).unwrap_or(0),
        Value::Bool(is) => i64::from(*is),
        Value::Nothing | Value::Nil | Value::List(_) | Value::Dict(_) | Value::Time(_) => 0,
    }
}

pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(number) | Value::Int64(number) => float_of(*number),
        Value::Byte(number) => f64::from(*number),
        Value::Float(number) => *number,
        Value::Text(text) => parse_float(text).unwrap_or(0.0),
        Value::Bool(is) => f64::from(u8::from(*is)),
        Value::Nothing | Value::Nil | Value::List(_) | Value::Dict(_) | Value::Time(_) => 0.0,
    }
}

/// Without a point and the zeros after it.
fn without_zeros(text: &str) -> &str {
    let without = text.trim_end_matches('0');
    match without.strip_suffix('.') {
        Some(whole) if without.len() < text.len() => whole,
        _ => text,
    }
}

/// The texts of a list's elements, or of one value; nil is left out.
pub(super) fn strings_of(call: &Call<'_>, value: &Value) -> Result<Vec<String>> {
    let values = match value {
        Value::List(list) => {
            call.meter
                .steps(u64::try_from(list.length).unwrap_or(u64::MAX))?;
            list.to_vec()
        }
        other => vec![other.clone()],
    };
    let values = values.iter().filter(|it| !it.is_nothing());
    values
        .map(|it| {
            let text = call.string_of(it)?;
            call.meter.room(text.len())?;
            Ok(text.to_string())
        })
        .collect()
}

/// Go's `reflect.DeepEqual`: types count.
pub(super) fn is_deeply_equal(
    call: &Call<'_>,
    one: &Value,
    other: &Value,
    depth: usize,
) -> Result<bool> {
    call.meter.depth(depth)?;
    call.meter.steps(1)?;
    Ok(match (one, other) {
        (Value::Nothing | Value::Nil, Value::Nothing | Value::Nil) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(one), Value::Int(other)) | (Value::Int64(one), Value::Int64(other)) => {
            one == other
        }
        (Value::Byte(one), Value::Byte(other)) => one == other,
        #[expect(clippy::float_cmp, reason = "as Go compares")]
        (Value::Float(one), Value::Float(other)) => one == other,
        (Value::Text(one), Value::Text(other)) => {
            call.work(one.len().min(other.len()))?;
            one == other
        }
        (Value::Time(one), Value::Time(other)) => one == other,
        (Value::List(one), Value::List(other)) => are_lists_equal(call, one, other, depth)?,
        (Value::Dict(one), Value::Dict(other)) => {
            if one.of_texts != other.of_texts {
                return Ok(false);
            }
            if one.is_same(other) {
                return Ok(true);
            }
            // A copy would look at all entries, where the first ones may differ.
            let (one, other) = (one.entries.borrow(), other.entries.borrow());
            if one.len() != other.len() {
                return Ok(false);
            }
            for ((key, value), (other_key, other)) in one.iter().zip(&*other) {
                call.meter.looks(key.len().min(other_key.len()))?;
                if key != other_key || !is_deeply_equal(call, value, other, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => false,
    })
}

fn are_lists_equal(
    call: &Call<'_>,
    one: &List,
    other: &List,
    depth: usize,
) -> std::result::Result<bool, TemplateRenderProblem> {
    let is_same = std::rc::Rc::ptr_eq(&one.behind, &other.behind) && one.from == other.from;
    if one.elements != other.elements || one.is_nil != other.is_nil || one.length != other.length {
        return Ok(false);
    }
    if is_same {
        return Ok(true);
    }
    for (one, other) in one.elements().iter().zip(&*other.elements()) {
        if !is_deeply_equal(call, one, other, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}
