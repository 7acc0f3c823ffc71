//! Lists. sprig has many functions twice: `must…` returns the error that the other one panics with.

use super::{
    Call, Function, Result, Takes, function,
    types::{is_deeply_equal, strings_of, to_int},
    variadic,
};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    meter::Meter,
    value::{Elements, List, Value},
};

const ONE: &[Takes] = &[Takes::Any];
const TWO: &[Takes] = &[Takes::Any, Takes::Any];
const CHUNK: &[Takes] = &[Takes::Int, Takes::Any];

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("list", &[], Takes::Any, |call| {
        any(call, call.values.clone())
    }),
    variadic("tuple", &[], Takes::Any, |call| {
        any(call, call.values.clone())
    }),
    function("append", TWO, append),
    function("mustAppend", TWO, append),
    function("push", TWO, append),
    function("mustPush", TWO, append),
    function("prepend", TWO, prepend),
    function("mustPrepend", TWO, prepend),
    function("first", ONE, first),
    function("mustFirst", ONE, first),
    function("last", ONE, last),
    function("mustLast", ONE, last),
    function("rest", ONE, rest),
    function("mustRest", ONE, rest),
    function("initial", ONE, initial),
    function("mustInitial", ONE, initial),
    function("reverse", ONE, reverse),
    function("mustReverse", ONE, reverse),
    function("compact", ONE, compact),
    function("mustCompact", ONE, compact),
    function("uniq", ONE, uniq),
    function("mustUniq", ONE, uniq),
    variadic("without", ONE, Takes::Any, without),
    variadic("mustWithout", ONE, Takes::Any, without),
    function("has", TWO, has),
    function("mustHas", TWO, has),
    variadic("slice", ONE, Takes::Any, slice),
    variadic("mustSlice", ONE, Takes::Any, slice),
    function("chunk", CHUNK, chunk),
    function("mustChunk", CHUNK, chunk),
    variadic("concat", &[], Takes::Any, concat),
    function("sortAlpha", ONE, sort),
    function("join", &[Takes::Text, Takes::Any], |call| {
        let strings = strings_of(call, &call.value(1))?;
        let between = call.text(0);
        let size: usize = strings
            .iter()
            .map(|it| it.len().saturating_add(between.len()))
            .sum();
        call.meter.room(size)?;
        call.make(strings.join(&between))
    }),
];

fn any(call: &Call<'_>, values: Vec<Value>) -> Result {
    Ok(call.meter.list(Elements::Any, values)?)
}

fn append(call: &Call<'_>) -> Result {
    let mut values = call.list(0)?.to_vec();
    values.push(call.value(1));
    any(call, values)
}

fn prepend(call: &Call<'_>) -> Result {
    let mut values = vec![call.value(1)];
    values.extend(call.list(0)?.to_vec());
    any(call, values)
}

fn first(call: &Call<'_>) -> Result {
    Ok(call.list(0)?.get(0).unwrap_or(Value::Nil))
}

fn last(call: &Call<'_>) -> Result {
    let list = call.list(0)?;
    let place = list.length.checked_sub(1);
    Ok(place.and_then(|it| list.get(it)).unwrap_or(Value::Nil))
}

fn rest(call: &Call<'_>) -> Result {
    let list = call.list(0)?;
    if list.length == 0 {
        return Ok(Meter::nil_list(Elements::Any));
    }
    any(call, list.to_vec().into_iter().skip(1).collect())
}

fn initial(call: &Call<'_>) -> Result {
    let list = call.list(0)?;
    if list.length == 0 {
        return Ok(Meter::nil_list(Elements::Any));
    }
    let mut values = list.to_vec();
    values.pop();
    any(call, values)
}

fn reverse(call: &Call<'_>) -> Result {
    let mut values = call.list(0)?.to_vec();
    values.reverse();
    any(call, values)
}

fn compact(call: &Call<'_>) -> Result {
    let mut values = call.list(0)?.to_vec();
    values.retain(Value::is_true);
    any(call, values)
}

fn is_in(call: &Call<'_>, values: &[Value], wanted: &Value) -> Result<bool> {
    for value in values {
        if is_deeply_equal(call, wanted, value, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(call: &Call<'_>) -> Result {
    let mut found: Vec<Value> = Vec::new();
    for value in call.list(0)?.to_vec() {
        if !is_in(call, &found, &value)? {
            found.push(value);
        }
    }
    any(call, found)
}

fn without(call: &Call<'_>) -> Result {
    let mut left = Vec::new();
    for value in call.list(0)?.to_vec() {
        if !is_in(call, call.rest(1), &value)? {
            left.push(value);
        }
    }
    any(call, left)
}

fn has(call: &Call<'_>) -> Result {
    if call.value(1).is_nothing() {
        return Ok(Value::Bool(false));
    }
    let values = call.list(1)?.to_vec();
    Ok(Value::Bool(is_in(call, &values, &call.value(0))?))
}

/// sprig's, which hides Go's own function of that name: of lists alone.
fn slice(call: &Call<'_>) -> Result {
    let list = call.list(0)?;
    if list.length == 0 {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, usual: usize| {
        let given = call.values.get(index).map(to_int);
        given.map_or(Ok(usual), usize::try_from)
    };
    let (Ok(start), Ok(end)) = (bound(1, 0), bound(2, list.length)) else {
        return Err(call.failed("slice bounds out of range"));
    };
    if end > list.length {
        return Err(TemplateRenderProblem::Refused(Refusal::Beyond));
    }
    if start > end {
        return Err(call.failed("slice bounds out of range"));
    }
    Ok(Value::List(List {
        from: list.from + start,
        length: end - start,
        ..list
    }))
}

fn chunk(call: &Call<'_>) -> Result {
    let (size, values) = (call.int(0), call.list(1)?.to_vec());
    let Some(size) = usize::try_from(size).ok().filter(|it| *it > 0) else {
        // As Go's arithmetic has it.
        let size = usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX);
        return match values.len() {
            1 if size > 1 => Ok(call.meter.list(Elements::Lists, vec![any(call, values)?])?),
            2.. if values.len() - 1 <= size => Ok(call.meter.list(Elements::Lists, Vec::new())?),
            _ => Err(call.failed("makeslice: len out of range")),
        };
    };
    let chunks = values.chunks(size).map(|chunk| any(call, chunk.to_vec()));
    let chunks = chunks.collect::<Result<Vec<_>>>()?;
    Ok(call.meter.list(Elements::Lists, chunks)?)
}

fn concat(call: &Call<'_>) -> Result {
    let mut values = Vec::new();
    for index in 0..call.values.len() {
        let list = call.list(index)?;
        call.meter
            .room(list.length.saturating_mul(size_of::<Value>()))?;
        values.extend(list.to_vec());
    }
    if values.is_empty() {
        return Ok(Meter::nil_list(Elements::Any));
    }
    any(call, values)
}

/// A list of texts is sorted in its place, as in Go.
fn sort(call: &Call<'_>) -> Result {
    let value = call.value(0);
    let Value::List(list) = &value else {
        let text = call.string_of(&value)?;
        return Ok(call.meter.list(Elements::Texts, vec![Value::Text(text)])?);
    };
    let mut strings = strings_of(call, &value)?;
    call.work(list.length.saturating_mul(64 * 8))?;
    strings.sort_unstable();
    if list.elements != Elements::Texts {
        return Ok(call.meter.texts(strings)?);
    }
    let mut behind = list.behind.borrow_mut();
    for (place, text) in behind.iter_mut().skip(list.from).zip(strings) {
        *place = Value::text(&text);
    }
    drop(behind);
    Ok(value)
}
