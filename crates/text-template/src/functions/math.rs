//! Numbers: whole ones, and floating-point ones without sprig's decimal arithmetic.

use super::{
    Call, Function, Result, Takes, function,
    types::{to_float, to_int},
    variadic,
};
use crate::{
    number::float_of,
    value::{Elements, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    function("add1", &[Takes::Any], |call| {
        Ok(Value::Int64(to_int(&call.value(0)).wrapping_add(1)))
    }),
    variadic("add", &[], Takes::Any, |call| {
        let sum = call.values.iter().map(to_int).fold(0, i64::wrapping_add);
        Ok(Value::Int64(sum))
    }),
    function("sub", &[Takes::Any, Takes::Any], |call| {
        Ok(Value::Int64(
            to_int(&call.value(0)).wrapping_sub(to_int(&call.value(1))),
        ))
    }),
    variadic("mul", &[Takes::Any], Takes::Any, |call| {
        let product = call.values.iter().map(to_int).fold(1, i64::wrapping_mul);
        Ok(Value::Int64(product))
    }),
    function("div", &[Takes::Any, Takes::Any], |call| {
        divide(call, i64::wrapping_div)
    }),
    function("mod", &[Takes::Any, Takes::Any], |call| {
        divide(call, i64::wrapping_rem)
    }),
    variadic("max", &[Takes::Any], Takes::Any, |call| largest(call, true)),
    variadic("biggest", &[Takes::Any], Takes::Any, |call| {
        largest(call, true)
    }),
    variadic("min", &[Takes::Any], Takes::Any, |call| {
        largest(call, false)
    }),
    variadic("maxf", &[Takes::Any], Takes::Any, |call| {
        largest_float(call, true)
    }),
    variadic("minf", &[Takes::Any], Takes::Any, |call| {
        largest_float(call, false)
    }),
    function("floor", &[Takes::Any], |call| {
        Ok(Value::Float(to_float(&call.value(0)).floor()))
    }),
    function("ceil", &[Takes::Any], |call| {
        Ok(Value::Float(to_float(&call.value(0)).ceil()))
    }),
    variadic("round", &[Takes::Any, Takes::Int], Takes::Float, round),
    function("until", &[Takes::Int], |call| {
        let count = call.int(0);
        until(call, 0, count, if count < 0 { -1 } else { 1 })
    }),
    function("untilStep", &[Takes::Int, Takes::Int, Takes::Int], |call| {
        until(call, call.int(0), call.int(1), call.int(2))
    }),
    variadic("seq", &[], Takes::Int, sequence),
];

fn divide(call: &Call<'_>, operation: fn(i64, i64) -> i64) -> Result {
    let (number, by) = (to_int(&call.value(0)), to_int(&call.value(1)));
    if by == 0 {
        return Err(call.failed("runtime error: integer divide by zero"));
    }
    Ok(Value::Int64(operation(number, by)))
}

fn largest(call: &Call<'_>, is_largest: bool) -> Result {
    let numbers = call.values.iter().map(to_int);
    let found = if is_largest {
        numbers.max()
    } else {
        numbers.min()
    };
    Ok(Value::Int64(found.unwrap_or(0)))
}

fn largest_float(call: &Call<'_>, is_largest: bool) -> Result {
    let numbers = call.values.iter().map(to_float);
    let last = if is_largest {
        f64::INFINITY
    } else {
        f64::NEG_INFINITY
    };
    // Go's Max and Min: only the last number wins against NaN, and -0 is less than 0.
    let found = numbers.reduce(|one, other| {
        if [one, other].contains(&last) {
            last
        } else if one.is_nan() || other.is_nan() {
            f64::NAN
        } else if one.total_cmp(&other).is_ge() == is_largest {
            one
        } else {
            other
        }
    });
    Ok(Value::Float(found.unwrap_or(0.0)))
}

fn round(call: &Call<'_>) -> Result {
    let round_on = call.float(2).unwrap_or(0.5);
    let power = 10_f64.powf(float_of(call.int(1)));
    let digits = power * to_float(&call.value(0));
    let rounded = if digits.fract() >= round_on {
        digits.ceil()
    } else {
        digits.floor()
    };
    Ok(Value::Float(rounded / power))
}

fn numbers(call: &Call<'_>, start: i64, end: i64, step: i64) -> Result<Vec<i64>> {
    let is_down = end < start;
    if is_down && step >= 0 || !is_down && step <= 0 {
        return Ok(Vec::new());
    }
    let mut numbers = Vec::new();
    let mut next = Some(start);
    while let Some(number) = next.filter(|it| if is_down { *it > end } else { *it < end }) {
        call.meter.steps(1)?;
        numbers.push(number);
        next = number.checked_add(step);
    }
    Ok(numbers)
}

fn until(call: &Call<'_>, start: i64, end: i64, step: i64) -> Result {
    let numbers = numbers(call, start, end, step)?;
    let values = numbers.into_iter().map(Value::Int).collect();
    Ok(call.meter.list(Elements::Ints, values)?)
}

/// Numbers with spaces between them, the last one included.
fn sequence(call: &Call<'_>) -> Result {
    let (start, step, end) = match call.values.len() {
        1 => (1, if call.int(0) < 1 { -1 } else { 1 }, call.int(0)),
        2 => {
            let (start, end) = (call.int(0), call.int(1));
            (start, if end < start { -1 } else { 1 }, end)
        }
        3 => (call.int(0), call.int(1), call.int(2)),
        _ => return call.make(""),
    };
    let after = if end < start {
        end.saturating_sub(1)
    } else {
        end.saturating_add(1)
    };
    let numbers = numbers(call, start, after, step)?;
    call.meter.room(numbers.len().saturating_mul(20))?;
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    call.make(words.join(" "))
}
