//! JSON as Go's package encoding/json writes and reads it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::{
    error::{Refusal, TemplateLimit, TemplateRenderProblem},
    meter::{Meter, MeteredOutput},
    number::format_float,
    time_text,
    value::{Elements, Entries, Value},
};

/// How a value is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Two spaces for each level.
    pub(crate) pretty: bool,
    /// `<`, `>` and `&` as `\u00XX`.
    pub(crate) html: bool,
}

/// Writes a value; nothing when Go's encoder has an error.
pub(crate) fn write(
    meter: &Meter,
    value: &Value,
    style: Style,
) -> Result<Option<String>, TemplateRenderProblem> {
    let mut sink = MeteredOutput::value(meter);
    let is_written = write_value(&mut sink, value, style, 0)?;
    Ok(is_written.then_some(sink.text))
}

fn write_value(
    sink: &mut MeteredOutput<'_>,
    value: &Value,
    style: Style,
    depth: usize,
) -> Result<bool, TemplateLimit> {
    sink.meter().depth(depth)?;
    sink.meter().steps(1)?;
    match value {
        Value::Nothing | Value::Nil => sink.push("null")?,
        Value::Bool(is) => sink.push(if *is { "true" } else { "false" })?,
        Value::Int(number) | Value::Int64(number) => sink.push(&number.to_string())?,
        Value::Byte(number) => sink.push(&number.to_string())?,
        Value::Float(number) => {
            if !number.is_finite() {
                return Ok(false);
            }
            sink.push(&float(*number))?;
        }
        Value::Text(text) => write_text(sink, text, style)?,
        Value::Time(time) => {
            let text = time_text::rfc3339(*time);
            write_text(sink, &text, style)?;
        }
        Value::List(list) if list.is_nil => sink.push("null")?,
        Value::List(list) => {
            sink.push("[")?;
            let values = list.elements();
            for (place, value) in values.iter().enumerate() {
                between(sink, style, place, depth + 1)?;
                if !write_value(sink, value, style, depth + 1)? {
                    return Ok(false);
                }
            }
            end(sink, style, values.is_empty(), depth)?;
            sink.push("]")?;
        }
        Value::Dict(dict) => {
            sink.push("{")?;
            let entries = dict.entries.borrow();
            for (place, (key, value)) in entries.iter().enumerate() {
                between(sink, style, place, depth + 1)?;
                write_text(sink, key, style)?;
                sink.push(if style.pretty { ": " } else { ":" })?;
                if !write_value(sink, value, style, depth + 1)? {
                    return Ok(false);
                }
            }
            end(sink, style, entries.is_empty(), depth)?;
            sink.push("}")?;
        }
    }
    Ok(true)
}

fn between(
    sink: &mut MeteredOutput<'_>,
    style: Style,
    place: usize,
    depth: usize,
) -> Result<(), TemplateLimit> {
    if place > 0 {
        sink.push(",")?;
    }
    line(sink, style, depth)
}

fn end(
    sink: &mut MeteredOutput<'_>,
    style: Style,
    is_empty: bool,
    depth: usize,
) -> Result<(), TemplateLimit> {
    if is_empty {
        Ok(())
    } else {
        line(sink, style, depth)
    }
}

fn line(sink: &mut MeteredOutput<'_>, style: Style, depth: usize) -> Result<(), TemplateLimit> {
    if !style.pretty {
        return Ok(());
    }
    sink.push("\n")?;
    sink.pad(' ', 2 * depth)
}

/// Exponents are written below 1e-6 and from 1e21 on.
fn float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format_float(number, 'f', None);
    }
    // e-09 as e-9
    format_float(number, 'e', None).replace("e-0", "e-")
}

fn write_text(sink: &mut MeteredOutput<'_>, text: &str, style: Style) -> Result<(), TemplateLimit> {
    sink.push("\"")?;
    sink.meter().work(text.len())?;
    for character in text.chars() {
        match character {
            '"' => sink.push("\\\"")?,
            '\\' => sink.push("\\\\")?,
            '\n' => sink.push("\\n")?,
            '\r' => sink.push("\\r")?,
            '\t' => sink.push("\\t")?,
            '\u{8}' => sink.push("\\b")?,
            '\u{c}' => sink.push("\\f")?,
            '<' | '>' | '&' if !style.html => sink.push_char(character)?,
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                sink.push(&format!("\\u{:04x}", u32::from(character)))?;
            }
            _ => sink.push_char(character)?,
        }
    }
    sink.push("\"")
}

/// Reads a text into a value whose numbers are all floating-point; none when it is no JSON.
pub(crate) fn read(meter: &Meter, text: &str) -> Result<Option<Value>, TemplateRenderProblem> {
    meter.work(text.len())?;
    let mut reader = JsonReader { meter, rest: text };
    match reader.document() {
        Ok(value) => Ok(Some(value)),
        Err(JsonStop::NoJson) => Ok(None),
        Err(JsonStop::Problem(problem)) => Err(problem),
    }
}

enum JsonStop {
    NoJson,
    Problem(TemplateRenderProblem),
}

impl From<TemplateLimit> for JsonStop {
    fn from(limit: TemplateLimit) -> Self {
        Self::Problem(limit.into())
    }
}

struct JsonReader<'m, 't> {
    meter: &'m Meter,
    rest: &'t str,
}

impl JsonReader<'_, '_> {
    fn document(&mut self) -> Result<Value, JsonStop> {
        let value = self.value(0)?;
        self.space();
        if self.rest.is_empty() {
            Ok(value)
        } else {
            Err(JsonStop::NoJson)
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, word: &str) -> Result<(), JsonStop> {
        self.space();
        if self.take(word) {
            Ok(())
        } else {
            Err(JsonStop::NoJson)
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonStop> {
        self.meter.depth(depth)?;
        self.meter.steps(1)?;
        self.space();
        match self.rest.as_bytes().first() {
            Some(b'n') if self.take("null") => Ok(Value::Nil),
            Some(b't') if self.take("true") => Ok(Value::Bool(true)),
            Some(b'f') if self.take("false") => Ok(Value::Bool(false)),
            Some(b'"') => {
                let text = self.text()?;
                Ok(self.meter.text(text)?)
            }
            Some(b'[') => self.list(depth),
            Some(b'{') => self.dict(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(JsonStop::NoJson),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, JsonStop> {
        self.expect("[")?;
        let mut values = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(self.meter.list(Elements::Any, values)?);
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(self.meter.list(Elements::Any, values)?);
            }
            self.expect(",")?;
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Value, JsonStop> {
        self.expect("{")?;
        let mut entries = Entries::new();
        self.space();
        if self.take("}") {
            return Ok(self.meter.dict(false, entries)?);
        }
        loop {
            self.space();
            let key = self.text()?;
            self.expect(":")?;
            entries.insert(Arc::from(key), self.value(depth + 1)?);
            self.space();
            if self.take("}") {
                return Ok(self.meter.dict(false, entries)?);
            }
            self.expect(",")?;
        }
    }

    fn number(&mut self) -> Result<Value, JsonStop> {
        let text = self.rest;
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            return Err(JsonStop::NoJson);
        }
        if self.take(".") && self.digits() == 0 {
            return Err(JsonStop::NoJson);
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            if self.digits() == 0 {
                return Err(JsonStop::NoJson);
            }
        }
        let written = text.get(..text.len() - self.rest.len());
        let number = written.and_then(|it| it.parse().ok());
        // Go refuses numbers that are too large.
        let number = number.filter(|it: &f64| it.is_finite());
        number.map(Value::Float).ok_or(JsonStop::NoJson)
    }

    fn digits(&mut self) -> usize {
        let length = self.rest.len();
        self.rest = self.rest.trim_start_matches(|it: char| it.is_ascii_digit());
        length - self.rest.len()
    }

    fn text(&mut self) -> Result<String, JsonStop> {
        if !self.take("\"") {
            return Err(JsonStop::NoJson);
        }
        let mut text = String::new();
        loop {
            let is_special = |it: char| it == '"' || it == '\\' || it < ' ';
            let at = self.rest.find(is_special).ok_or(JsonStop::NoJson)?;
            let (plain, rest) = self.rest.split_at(at);
            text.push_str(plain);
            self.rest = rest;
            if self.take("\"") {
                return Ok(text);
            }
            if !self.take("\\") {
                return Err(JsonStop::NoJson);
            }
            let letter = self.rest.chars().next().ok_or(JsonStop::NoJson)?;
            self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
            text.push(match letter {
                '"' | '\\' | '/' => letter,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => self.unicode()?,
                _ => return Err(JsonStop::NoJson),
            });
        }
    }

    fn unicode(&mut self) -> Result<char, JsonStop> {
        let first = self.code()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        // Go writes U+FFFD for half a pair.
        let half = JsonStop::Problem(TemplateRenderProblem::Refused(Refusal::Json(
            "half a surrogate pair",
        )));
        if !(0xD800..0xDC00).contains(&first) || !self.take("\\u") {
            return Err(half);
        }
        let second = self.code()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(half);
        }
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        char::from_u32(code).ok_or(half)
    }

    fn code(&mut self) -> Result<u32, JsonStop> {
        let digits = self.rest.get(..4).ok_or(JsonStop::NoJson)?;
        if !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(JsonStop::NoJson);
        }
        self.rest = self.rest.get(4..).unwrap_or_default();
        u32::from_str_radix(digits, 16).map_err(|_| JsonStop::NoJson)
    }
}
