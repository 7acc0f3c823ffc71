//! `print` and its kin, and the escapes of Go's own package.

use super::{Call, Function, Result, Takes, urls::query_escaped, variadic};
use crate::{error::TemplateLimit, meter::MeteredOutput, printf, unicode::is_print, value::Value};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("print", &[], Takes::Any, |call| {
        call.write(|sink| printf::print(sink, &call.values))
    }),
    variadic("println", &[], Takes::Any, |call| {
        call.write(|sink| printf::println(sink, &call.values))
    }),
    variadic("printf", &[Takes::Text], Takes::Any, |call| {
        call.write(|sink| printf::printf(sink, &call.text(0), call.rest(1)))
    }),
    variadic("html", &[], Takes::Any, |call| {
        let text = joined(call)?;
        call.write(|sink| Ok(text.chars().try_for_each(|it| html(sink, it))?))
    }),
    variadic("js", &[], Takes::Any, |call| {
        let text = joined(call)?;
        call.write(|sink| Ok(text.chars().try_for_each(|it| js(sink, it))?))
    }),
    variadic("urlquery", &[], Takes::Any, |call| {
        let text = joined(call)?;
        call.meter.room(text.len().saturating_mul(3))?;
        call.make(query_escaped(&text))
    }),
];

/// All arguments as `print` prints them, where nil is no value.
fn joined(call: &Call<'_>) -> Result<String> {
    let values: Vec<Value> = call
        .values
        .iter()
        .map(|value| {
            if value.is_nothing() {
                Value::text("<no value>")
            } else {
                value.clone()
            }
        })
        .collect();
    let mut sink = MeteredOutput::value(call.meter);
    printf::print(&mut sink, &values)?;
    call.work(sink.text.len())?;
    Ok(sink.text)
}

fn html(sink: &mut MeteredOutput<'_>, character: char) -> std::result::Result<(), TemplateLimit> {
    match character {
        '\0' => sink.push_char('\u{fffd}'),
        '"' => sink.push("&#34;"),
        '\'' => sink.push("&#39;"),
        '&' => sink.push("&amp;"),
        '<' => sink.push("&lt;"),
        '>' => sink.push("&gt;"),
        _ => sink.push_char(character),
    }
}

fn js(sink: &mut MeteredOutput<'_>, character: char) -> std::result::Result<(), TemplateLimit> {
    match character {
        '\\' => sink.push("\\\\"),
        '\'' => sink.push("\\'"),
        '"' => sink.push("\\\""),
        '<' | '>' | '&' | '=' | '\0'..='\u{1f}' => {
            sink.push(&format!("\\u{:04X}", u32::from(character)))
        }
        _ if character.is_ascii() || is_print(character) => sink.push_char(character),
        _ => sink.push(&format!("\\u{:04X}", u32::from(character))),
    }
}
