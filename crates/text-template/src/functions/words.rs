//! The words of a string: their cases, initials, and lines of them.

use super::{Call, Function, Result, Takes, function, wrap::wrapped};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    unicode::{
        is_letter, is_lower, is_number, is_punctuation, is_space, is_title, is_upper, to_lower,
        to_title, to_upper,
    },
};

const TEXT: &[Takes] = &[Takes::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    function("title", TEXT, title),
    function("untitle", TEXT, untitle),
    function("swapcase", TEXT, swap_case),
    function("initials", TEXT, initials),
    function("camelcase", TEXT, pascal_case),
    function("snakecase", TEXT, |call| lower_case(call, '_')),
    function("kebabcase", TEXT, |call| lower_case(call, '-')),
    function("wrap", &[Takes::Int, Takes::Text], |call| {
        wrapped(call, &call.text(1), call.int(0), "", false)
    }),
    function(
        "wrapWith",
        &[Takes::Int, Takes::Text, Takes::Text],
        |call| wrapped(call, &call.text(2), call.int(0), &call.text(1), true),
    ),
];

/// Makes a text of the argument's characters, one by one.
fn each(call: &Call<'_>, mut map: impl FnMut(char) -> Option<char>) -> Result {
    let text = call.text(0);
    call.work(text.len().saturating_mul(8))?;
    call.make(text.chars().filter_map(&mut map).collect::<String>())
}

fn title(call: &Call<'_>) -> Result {
    let mut before = ' ';
    each(call, |character| {
        let is_first = is_separator(before);
        before = character;
        Some(if is_first {
            to_title(character)
        } else {
            character
        })
    })
}

fn is_separator(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_alphanumeric() && character != '_';
    }
    is_space(character)
}

fn untitle(call: &Call<'_>) -> Result {
    let mut is_first = true;
    each(call, |character| {
        if is_space(character) {
            is_first = true;
            return Some(character);
        }
        let mapped = if is_first {
            to_lower(character)
        } else {
            character
        };
        is_first = false;
        Some(mapped)
    })
}

fn swap_case(call: &Call<'_>) -> Result {
    let mut after_space = true;
    each(call, |character| {
        let mapped = if is_upper(character) || is_title(character) {
            after_space = false;
            to_lower(character)
        } else if is_lower(character) {
            let mapped = if after_space {
                to_title(character)
            } else {
                to_upper(character)
            };
            after_space = false;
            mapped
        } else {
            after_space = is_space(character);
            character
        };
        Some(mapped)
    })
}

/// Byte for byte, as in the library.
fn initials(call: &Call<'_>) -> Result {
    let text = call.text(0);
    call.work(text.len())?;
    let mut after_space = true;
    let initials = text.bytes().map(char::from).filter(|it| {
        let is_first = after_space && !is_space(*it);
        after_space = is_space(*it);
        is_first
    });
    call.make(initials.collect::<String>())
}

fn is_connector(character: char) -> bool {
    matches!(character, '-' | '_') || is_space(character)
}

/// The library's `ToPascalCase`.
fn pascal_case(call: &Call<'_>) -> Result {
    let text = call.text(0);
    call.work(text.len().saturating_mul(8))?;
    let mut written = String::new();
    let mut characters = text.chars();
    let mut now = '\0';
    let mut began_upper = false;
    for character in characters.by_ref() {
        now = character;
        if !is_connector(character) {
            began_upper = is_upper(character);
            now = to_upper(character);
            break;
        }
        written.push(character);
    }
    if characters.as_str().is_empty() {
        // The library writes a last connector twice.
        if !text.is_empty() {
            written.push(now);
        }
        return call.make(written);
    }
    for character in characters {
        let before = std::mem::replace(&mut now, character);
        if is_connector(now) && is_connector(before) {
            written.push(before);
        } else if is_connector(before) {
            began_upper = is_upper(now);
            now = to_upper(now);
        } else {
            if began_upper {
                if is_upper(now) {
                    now = to_lower(now);
                } else {
                    began_upper = false;
                }
            }
            written.push(before);
        }
    }
    written.push(now);
    call.make(written)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseKind {
    End,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// The library's letters: not those of Chinese, Japanese and Korean.
fn is_alphabet(character: char) -> bool {
    let is_apart = matches!(character,
        '\u{3400}'..='\u{4D85}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..='\u{2B81D}');
    is_letter(character) && !is_apart
}

fn kind_of(character: char) -> CaseKind {
    if is_connector(character) {
        CaseKind::Connector
    } else if is_punctuation(character) {
        CaseKind::Punctuation
    } else if is_upper(character) {
        CaseKind::Upper
    } else if is_alphabet(character) {
        CaseKind::Letters
    } else if is_number(character) {
        CaseKind::Number
    } else {
        CaseKind::Other
    }
}

/// The library's `nextWord`.
fn next_word<'t>(rest: &mut &'t str) -> (CaseKind, &'t str) {
    let text = *rest;
    let Some(first) = text.chars().next() else {
        return (CaseKind::End, "");
    };
    let kind = kind_of(first);
    let is_small = |it: char| is_alphabet(it) && !is_upper(it);
    let while_so = |from: usize, is: &dyn Fn(char) -> bool| {
        let tail = text.get(from..).unwrap_or_default();
        tail.find(|it| !is(it)).map_or(text.len(), |at| from + at)
    };
    let after = first.len_utf8();
    let end = match kind {
        CaseKind::End => 0,
        CaseKind::Connector => while_so(after, &is_connector),
        CaseKind::Punctuation => while_so(after, &is_punctuation),
        CaseKind::Number => while_so(after, &is_number),
        CaseKind::Letters => while_so(after, &is_small),
        CaseKind::Other => while_so(after, &|it| {
            !is_connector(it) && !is_alphabet(it) && !is_number(it) && !is_punctuation(it)
        }),
        CaseKind::Upper => {
            let end = while_so(after, &is_upper);
            if end == after {
                while_so(after, &is_small)
            } else {
                // In HTTPStatus the last capital begins the next word.
                let next = text.get(end..).and_then(|it| it.chars().next());
                let last = text.get(..end).and_then(|it| it.chars().next_back());
                match (next, last) {
                    (Some(next), Some(last)) if is_alphabet(next) => end - last.len_utf8(),
                    _ => end,
                }
            }
        }
    };
    let (word, after) = text.split_at(end);
    *rest = after;
    (kind, word)
}

fn write_lower(into: &mut String, kind: CaseKind, word: &str, connector: char) {
    if !matches!(kind, CaseKind::Upper | CaseKind::Connector) {
        into.push_str(word);
        return;
    }
    into.extend(word.chars().map(|it| {
        if is_connector(it) {
            connector
        } else if is_upper(it) {
            to_lower(it)
        } else {
            it
        }
    }));
}

/// The library's `ToSnakeCase` and `ToKebabCase`.
fn lower_case(call: &Call<'_>, connector: char) -> Result {
    use CaseKind::{Connector, End, Letters, Number, Punctuation};
    let text = call.text(0);
    if text.contains(char::REPLACEMENT_CHARACTER) {
        // The library takes it for a broken character.
        return Err(TemplateRenderProblem::Refused(Refusal::NotUtf8(
            call.function,
        )));
    }
    call.work(text.len().saturating_mul(16))?;
    call.meter.room(text.len().saturating_mul(2))?;
    let mut rest = &*text;
    let mut written = String::new();
    let (mut kind, mut word) = next_word(&mut rest);
    while !rest.is_empty() {
        if kind != Connector {
            write_lower(&mut written, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word) = next_word(&mut rest);
        match before {
            Number => {
                while matches!(kind, Letters | Number) {
                    write_lower(&mut written, kind, word, connector);
                    (kind, word) = next_word(&mut rest);
                }
                if !matches!(kind, End | Punctuation | Connector) {
                    written.push(connector);
                }
            }
            Connector => write_lower(&mut written, before, last, connector),
            Punctuation => {}
            CaseKind::End | CaseKind::Upper | CaseKind::Letters | CaseKind::Other
                if kind != Number =>
            {
                if !matches!(kind, Connector | Punctuation) {
                    written.push(connector);
                }
            }
            CaseKind::End | CaseKind::Upper | CaseKind::Letters | CaseKind::Other => {
                if rest.is_empty() {
                    continue;
                }
                let number = word;
                (kind, word) = next_word(&mut rest);
                // A number is a part of the word before it, unless small letters follow.
                if kind != Letters {
                    write_lower(&mut written, Number, number, connector);
                    if !matches!(kind, Connector | Punctuation) {
                        written.push(connector);
                    }
                    continue;
                }
                written.push(connector);
                write_lower(&mut written, Number, number, connector);
                while matches!(kind, Letters | Number) {
                    write_lower(&mut written, kind, word, connector);
                    (kind, word) = next_word(&mut rest);
                }
                if !matches!(kind, End | Connector | Punctuation) {
                    written.push(connector);
                }
            }
        }
    }
    write_lower(&mut written, kind, word, connector);
    call.make(written)
}
