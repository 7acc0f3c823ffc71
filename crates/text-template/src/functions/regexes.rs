//! Regular expressions. An expression that is not available is always an error, also where sprig has none.

use std::sync::Arc;

use regex::Captures;

use super::{Call, Function, Result, Takes, function};
use crate::{
    error::TemplateRenderProblem,
    meter::{Meter, MeteredOutput},
    regular::RegexExpression,
    unicode::{is_digit, is_letter},
    value::{Elements, Value},
};

const TEXTS: &[Takes] = &[Takes::Text, Takes::Text];
const COUNTED: &[Takes] = &[Takes::Text, Takes::Text, Takes::Int];
const REPLACE: &[Takes] = &[Takes::Text, Takes::Text, Takes::Text];

/// Expressions that one rendering keeps.
const KEPT: usize = 2;

pub(super) const FUNCTIONS: &[Function] = &[
    function("regexMatch", TEXTS, matches),
    function("mustRegexMatch", TEXTS, matches),
    function("regexFind", TEXTS, find),
    function("mustRegexFind", TEXTS, find),
    function("regexFindAll", COUNTED, find_all),
    function("mustRegexFindAll", COUNTED, find_all),
    function("regexSplit", COUNTED, split),
    function("mustRegexSplit", COUNTED, split),
    function("regexReplaceAll", REPLACE, |call| replace(call, true)),
    function("mustRegexReplaceAll", REPLACE, |call| replace(call, true)),
    function("regexReplaceAllLiteral", REPLACE, |call| {
        replace(call, false)
    }),
    function("mustRegexReplaceAllLiteral", REPLACE, |call| {
        replace(call, false)
    }),
    function("regexQuoteMeta", &[Takes::Text], |call| {
        call.write(|sink| {
            call.text(0).chars().try_for_each(|it| {
                if "\\.+*?()|[]{}^$".contains(it) {
                    sink.push_char('\\')?;
                }
                sink.push_char(it)
            })?;
            Ok(())
        })
    }),
];

fn expression(call: &Call<'_>) -> Result<Arc<RegexExpression>> {
    let pattern = call.text(0);
    if let Some(known) = call.expressions.borrow().get(&*pattern) {
        return Ok(Arc::clone(known));
    }
    let mut kept = call.expressions.borrow_mut();
    if kept.len() >= KEPT {
        let gone = kept.pop_first();
        call.meter
            .give_back(gone.map_or(0, |(_, expression)| expression.bytes));
    }
    let compiled = Arc::new(RegexExpression::compile(call.meter, &pattern)?);
    kept.insert(pattern.to_string(), Arc::clone(&compiled));
    Ok(compiled)
}

fn matches(call: &Call<'_>) -> Result {
    let (expression, text) = (expression(call)?, call.text(1));
    expression.search(call.meter, text.len())?;
    Ok(Value::Bool(expression.regex.is_match(&text)))
}

fn find(call: &Call<'_>) -> Result {
    let (expression, text) = (expression(call)?, call.text(1));
    expression.search(call.meter, text.len())?;
    let found = expression.regex.find(&text);
    call.make(found.map_or("", |it| it.as_str()))
}

/// Go's search for all matches: none is empty and right after another one.
fn all(
    call: &Call<'_>,
    expression: &RegexExpression,
    text: &str,
    most: i64,
) -> Result<Vec<(usize, usize)>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut found: Vec<(usize, usize)> = Vec::new();
    let (mut from, mut last_end) = (0, None);
    while found.len() < most && from <= text.len() {
        expression.search(call.meter, text.len() - from)?;
        let Some(it) = expression.regex.find_at(text, from) else {
            break;
        };
        let is_counted = it.end() != from || last_end != Some(it.start());
        from = if it.end() == from {
            after(text, from)
        } else {
            it.end()
        };
        last_end = Some(it.end());
        if is_counted {
            found.push((it.start(), it.end()));
        }
    }
    Ok(found)
}

/// The place after the character there.
fn after(text: &str, from: usize) -> usize {
    let next = text.get(from..).and_then(|it| it.chars().next());
    from + next.map_or(1, char::len_utf8)
}

fn find_all(call: &Call<'_>) -> Result {
    let (expression, text) = (expression(call)?, call.text(1));
    let found = all(call, &expression, &text, call.int(2))?;
    if found.is_empty() {
        return Ok(Meter::nil_list(Elements::Texts));
    }
    let pieces = found.iter().filter_map(|(from, to)| text.get(*from..*to));
    Ok(call.meter.texts(pieces)?)
}

fn split(call: &Call<'_>) -> Result {
    let (expression, text, most) = (expression(call)?, call.text(1), call.int(2));
    if most == 0 {
        return Ok(Meter::nil_list(Elements::Texts));
    }
    if !call.text(0).is_empty() && text.is_empty() {
        return Ok(call.meter.texts([""])?);
    }
    let mut pieces: Vec<&str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for (from, to) in all(call, &expression, &text, most)? {
        if usize::try_from(most).is_ok_and(|it| pieces.len() + 1 == it) {
            break;
        }
        end = from;
        if to != 0 {
            pieces.extend(text.get(begin..end));
        }
        begin = to;
    }
    if end != text.len() {
        pieces.extend(text.get(begin..));
    }
    Ok(call.meter.texts(pieces)?)
}

fn replace(call: &Call<'_>, is_template: bool) -> Result {
    let (expression, text, by) = (expression(call)?, call.text(1), call.text(2));
    call.write(|sink| {
        let (mut last_end, mut from) = (0, 0);
        while from <= text.len() {
            expression.search(call.meter, text.len() - from)?;
            let Some(groups) = expression.regex.captures_at(&text, from) else {
                break;
            };
            let (start, end) = groups.get(0).map_or((0, 0), |it| (it.start(), it.end()));
            sink.push(text.get(last_end..start).unwrap_or_default())?;
            if end > last_end || start == 0 {
                if is_template {
                    expand(sink, &by, &groups)?;
                } else {
                    sink.push(&by)?;
                }
            }
            last_end = end;
            from = end.max(after(&text, from));
        }
        Ok(sink.push(text.get(last_end..).unwrap_or_default())?)
    })
}

/// Go's `Expand`: `$1`, `${1}`, `$name`, `$$`.
fn expand(
    sink: &mut MeteredOutput<'_>,
    template: &str,
    groups: &Captures<'_>,
) -> std::result::Result<(), TemplateRenderProblem> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        sink.push(before)?;
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            sink.push("$")?;
            rest = after;
            continue;
        }
        let Some((name, after)) = group_name(rest) else {
            sink.push("$")?;
            continue;
        };
        rest = after;
        let is_number =
            name.bytes().all(|it| it.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        let found = if is_number {
            name.parse().ok().and_then(|it| groups.get(it))
        } else {
            groups.name(name)
        };
        sink.push(found.map_or("", |it| it.as_str()))?;
    }
    Ok(sink.push(rest)?)
}

fn group_name(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{');
    let names = inner.unwrap_or(text);
    let is_part = |it: char| it == '_' || is_letter(it) || is_digit(it);
    let end = names.find(|it| !is_part(it)).unwrap_or(names.len());
    let (name, after) = names.split_at(end);
    if name.is_empty() {
        return None;
    }
    match inner {
        Some(_) => Some((name, after.strip_prefix('}')?)),
        None => Some((name, after)),
    }
}
