//! Strings: searched, cut, joined, quoted and moved.

use super::{Call, Function, Result, Takes, function, variadic};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    meter::MeteredOutput,
    printf,
    quote::quoted,
    unicode,
    value::{Entries, Value},
};

const TEXT: &[Takes] = &[Takes::Text];
const TEXTS: &[Takes] = &[Takes::Text, Takes::Text];
const INT_TEXT: &[Takes] = &[Takes::Int, Takes::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    function("hello", &[], |call| call.make("Hello!")),
    function("trim", TEXT, |call| call.make(call.text(0).trim())),
    function("trimAll", TEXTS, trim_all),
    function("trimall", TEXTS, trim_all),
    function("trimPrefix", TEXTS, |call| {
        let text = call.text(1);
        call.make(text.strip_prefix(&*call.text(0)).unwrap_or(&text))
    }),
    function("trimSuffix", TEXTS, |call| {
        let text = call.text(1);
        call.make(text.strip_suffix(&*call.text(0)).unwrap_or(&text))
    }),
    function("upper", TEXT, |call| mapped(call, unicode::to_upper)),
    function("lower", TEXT, |call| mapped(call, unicode::to_lower)),
    function("contains", TEXTS, |call| {
        call.work(call.text(1).len())?;
        Ok(Value::Bool(call.text(1).contains(&*call.text(0))))
    }),
    function("hasPrefix", TEXTS, |call| {
        Ok(Value::Bool(call.text(1).starts_with(&*call.text(0))))
    }),
    function("hasSuffix", TEXTS, |call| {
        Ok(Value::Bool(call.text(1).ends_with(&*call.text(0))))
    }),
    function("repeat", INT_TEXT, |call| {
        let Ok(count) = usize::try_from(call.int(0)) else {
            return Err(call.failed("strings: negative Repeat count"));
        };
        let text = call.text(1);
        call.meter.room(count.saturating_mul(text.len()))?;
        // Nothing, however often, is nothing.
        call.make(if text.is_empty() {
            String::new()
        } else {
            text.repeat(count)
        })
    }),
    function("replace", &[Takes::Text, Takes::Text, Takes::Text], replace),
    function("substr", &[Takes::Int, Takes::Int, Takes::Text], |call| {
        let (start, end, text) = (call.int(0), call.int(1), call.text(2));
        let length = crate::number::count(text.len());
        if start < 0 {
            return cut(call, &text, 0, end);
        }
        let end = if end < 0 || end > length { length } else { end };
        cut(call, &text, start, end)
    }),
    function("trunc", INT_TEXT, |call| {
        let (size, text) = (call.int(0), call.text(1));
        let length = crate::number::count(text.len());
        if size < 0 && length.saturating_add(size) > 0 {
            return cut(call, &text, length + size, length);
        }
        if size >= 0 && length > size {
            return cut(call, &text, 0, size);
        }
        Ok(Value::Text(text))
    }),
    function("abbrev", INT_TEXT, |call| {
        let width = call.int(0);
        if width < 4 {
            return Ok(call.value(1));
        }
        abbreviated(call, &call.text(1), 0, width)
    }),
    function(
        "abbrevboth",
        &[Takes::Int, Takes::Int, Takes::Text],
        |call| {
            let (left, right) = (call.int(0), call.int(1));
            if right < 4 || left > 0 && right < 7 {
                return Ok(call.value(2));
            }
            abbreviated(call, &call.text(2), left, right)
        },
    ),
    function("nospace", TEXT, |call| {
        let text = call.text(0);
        // Byte for byte, so that characters beyond ASCII are damaged, as in the library.
        if !text.bytes().any(|it| unicode::is_space(char::from(it))) {
            return Ok(Value::Text(text));
        }
        let left = text
            .bytes()
            .map(char::from)
            .filter(|it| !unicode::is_space(*it));
        call.make(left.collect::<String>())
    }),
    variadic("quote", &[], Takes::Any, |call| {
        joined(call, |sink, value| {
            let text = call.string_of(value)?;
            call.meter.room(text.len())?;
            Ok(sink.push(&quoted(&text, false))?)
        })
    }),
    variadic("squote", &[], Takes::Any, |call| {
        joined(call, |sink, value| {
            sink.push("'")?;
            printf::one(sink, value)?;
            Ok(sink.push("'")?)
        })
    }),
    variadic("cat", &[], Takes::Any, cat),
    function("indent", INT_TEXT, |call| indented(call, "")),
    function("nindent", INT_TEXT, |call| indented(call, "\n")),
    function("plural", &[Takes::Text, Takes::Text, Takes::Int], |call| {
        Ok(call.value(usize::from(call.int(2) != 1)))
    }),
    function("splitList", TEXTS, |call| {
        let (separator, text) = (call.text(0), call.text(1));
        Ok(call
            .meter
            .texts(pieces(call, &separator, &text, usize::MAX)?)?)
    }),
    function("split", TEXTS, |call| {
        let (separator, text) = (call.text(0), call.text(1));
        numbered(call, pieces(call, &separator, &text, usize::MAX)?)
    }),
    function("splitn", &[Takes::Text, Takes::Int, Takes::Text], |call| {
        let (separator, text) = (call.text(0), call.text(2));
        let most = usize::try_from(call.int(1)).unwrap_or(usize::MAX);
        if most == 0 {
            return numbered(call, Vec::new());
        }
        numbered(call, pieces(call, &separator, &text, most)?)
    }),
];

fn trim_all(call: &Call<'_>) -> Result {
    let (set, text) = (call.text(0), call.text(1));
    call.work(set.len().saturating_mul(text.len()) / 16)?;
    call.make(text.trim_matches(|it| set.contains(it)))
}

fn mapped(call: &Call<'_>, map: fn(char) -> char) -> Result {
    call.write(|sink| {
        call.work(call.text(0).len().saturating_mul(8))?;
        Ok(call
            .text(0)
            .chars()
            .try_for_each(|it| sink.push_char(map(it)))?)
    })
}

fn replace(call: &Call<'_>) -> Result {
    let (old, new, text) = (call.text(0), call.text(1), call.text(2));
    call.work(text.len())?;
    // Counted before it is made: it can be much longer than its parts.
    let times = text.matches(&*old).count();
    let kept = text.len() - times * old.len();
    call.meter
        .room(times.saturating_mul(new.len()).saturating_add(kept))?;
    Ok(Value::text(&text.replace(&*old, &new)))
}

/// Go's `text[start:end]`, by bytes.
pub(super) fn cut(call: &Call<'_>, text: &str, start: i64, end: i64) -> Result {
    let bounds = (usize::try_from(start), usize::try_from(end));
    let (Ok(start), Ok(end)) = bounds else {
        return Err(call.failed("slice bounds out of range"));
    };
    if start > end || end > text.len() {
        return Err(call.failed("slice bounds out of range"));
    }
    let piece = text.get(start..end);
    let refusal = Refusal::NotUtf8(call.function);
    call.make(piece.ok_or(TemplateRenderProblem::Refused(refusal))?)
}

fn abbreviated(call: &Call<'_>, text: &str, offset: i64, width: i64) -> Result {
    let length = crate::number::count(text.len());
    if length <= width {
        return call.make(text);
    }
    let shown = width - 3;
    let offset = offset.min(length - shown);
    let piece = |start: i64, end: i64| cut(call, text, start, end);
    if offset <= 4 {
        return appended(call, "", &piece(0, shown)?, "...");
    }
    if width < 7 {
        return call.make("");
    }
    let rest = call.string_of(&piece(offset, length)?)?;
    appended(call, "...", &abbreviated(call, &rest, 0, shown)?, "")
}

fn appended(call: &Call<'_>, before: &str, text: &Value, after: &str) -> Result {
    let text = call.string_of(text)?;
    call.make(format!("{before}{text}{after}"))
}

/// Every argument that is not nil, with a space between them.
fn joined(call: &Call<'_>, write: impl Fn(&mut MeteredOutput<'_>, &Value) -> Result<()>) -> Result {
    call.write(|sink| {
        let values = call.values.iter().filter(|it| !it.is_nothing());
        for (place, value) in values.enumerate() {
            if place > 0 {
                sink.push(" ")?;
            }
            write(sink, value)?;
        }
        Ok(())
    })
}

/// Spaces at the ends are those of the format, which has none.
fn cat(call: &Call<'_>) -> Result {
    joined(call, printf::one)
}

fn indented(call: &Call<'_>, before: &str) -> Result {
    let Ok(spaces) = usize::try_from(call.int(0)) else {
        return Err(call.failed("strings: negative Repeat count"));
    };
    let text = call.text(1);
    call.write(|sink| {
        sink.push(before)?;
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                sink.push("\n")?;
            }
            sink.pad(' ', spaces)?;
            sink.push(line)?;
        }
        Ok(())
    })
}

/// Go's `SplitN`: an empty separator stands between any two characters.
fn pieces<'t>(
    call: &Call<'_>,
    separator: &str,
    text: &'t str,
    most: usize,
) -> Result<Vec<&'t str>> {
    call.work(text.len())?;
    if !separator.is_empty() {
        let pieces = text.splitn(most, separator);
        return pieces
            .map(|piece| call.meter.steps(1).map(|()| piece).map_err(Into::into))
            .collect();
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        call.meter.steps(1)?;
        let size = if pieces.len() + 1 == most {
            rest.len()
        } else {
            first.len_utf8()
        };
        let (piece, after) = rest.split_at(size);
        pieces.push(piece);
        rest = after;
    }
    Ok(pieces)
}

/// `_0`, `_1` and so on.
fn numbered(call: &Call<'_>, pieces: Vec<&str>) -> Result {
    let mut entries = Entries::new();
    for (place, piece) in pieces.into_iter().enumerate() {
        entries.insert(
            format!("_{place}").into(),
            call.meter.text(piece.to_owned())?,
        );
    }
    Ok(call.meter.dict(true, entries)?)
}
