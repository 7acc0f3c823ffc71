//! Go's literals: strings and characters, read and written.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::unicode::is_print;

/// A literal that cannot be parsed, or whose content is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadQuote {
    Syntax,
    NotUtf8,
}

/// Writes a text as Go's `%q` does; only ASCII, if asked for (`%+q`).
pub(crate) fn quoted(text: &str, ascii: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        escape(&mut quoted, character, '"', ascii);
    }
    quoted.push('"');
    quoted
}

/// Writes a character as Go's `%q` does.
pub(crate) fn quoted_character(character: char, ascii: bool) -> String {
    let mut quoted = String::from('\'');
    escape(&mut quoted, character, '\'', ascii);
    quoted.push('\'');
    quoted
}

fn escape(into: &mut String, character: char, quote: char, ascii: bool) {
    let code = u32::from(character);
    if character == quote || character == '\\' {
        into.push('\\');
        into.push(character);
    } else if is_print(character) && (character.is_ascii() || !ascii) {
        into.push(character);
    } else {
        match character {
            '\u{7}' => into.push_str("\\a"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{b}' => into.push_str("\\v"),
            _ if character.is_ascii() => {
                let _ = write!(into, "\\x{code:02x}");
            }
            _ if code < 0x10000 => {
                let _ = write!(into, "\\u{code:04x}");
            }
            _ => {
                let _ = write!(into, "\\U{code:08x}");
            }
        }
    }
}

/// Whether a text can stand between backquotes on one line (`%#q`).
pub(crate) fn can_be_raw(text: &str) -> bool {
    let is_bad = |it: char| it.is_ascii_control() && it != '\t' || it == '`' || it == '\u{feff}';
    !text.contains(is_bad)
}

/// Reads a string literal with its quotes.
pub(crate) fn unquote(literal: &str) -> Result<String, UnreadQuote> {
    let inner = |quote: char| literal.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(raw) = inner('`') {
        // As in Go's own sources.
        return Ok(raw.replace('\r', ""));
    }
    let mut rest = inner('"').ok_or(UnreadQuote::Syntax)?;
    let mut bytes = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (piece, after) = unquote_one(rest, '"')?;
        match piece {
            QuotePiece::Byte(byte) => bytes.push(byte),
            QuotePiece::Character(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| UnreadQuote::NotUtf8)
}

/// Reads a character literal with its quotes.
pub(crate) fn unquote_character(literal: &str) -> Result<u32, UnreadQuote> {
    let inner = literal.strip_prefix('\'').ok_or(UnreadQuote::Syntax)?;
    let (piece, rest) = unquote_one(inner, '\'')?;
    if rest != "'" {
        return Err(UnreadQuote::Syntax);
    }
    Ok(match piece {
        QuotePiece::Byte(byte) => u32::from(byte),
        QuotePiece::Character(character) => u32::from(character),
    })
}

enum QuotePiece {
    Byte(u8),
    Character(char),
}

/// Go's `UnquoteChar`.
fn unquote_one(text: &str, quote: char) -> Result<(QuotePiece, &str), UnreadQuote> {
    let mut characters = text.chars();
    let first = characters.next().ok_or(UnreadQuote::Syntax)?;
    if first == quote || first == '\n' {
        return Err(UnreadQuote::Syntax);
    }
    if first != '\\' {
        return Ok((QuotePiece::Character(first), characters.as_str()));
    }
    let letter = characters.next().ok_or(UnreadQuote::Syntax)?;
    let rest = characters.as_str();
    let simple = |character| Ok((QuotePiece::Character(character), rest));
    match letter {
        'a' => simple('\u{7}'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\u{b}'),
        '\\' => simple('\\'),
        '\'' | '"' if letter == quote => simple(letter),
        'x' => {
            let (code, rest) = number(rest, 2, 16)?;
            let byte = u8::try_from(code).map_err(|_| UnreadQuote::Syntax)?;
            Ok((QuotePiece::Byte(byte), rest))
        }
        '0'..='7' => {
            let octal = text.get(1..).unwrap_or_default();
            let (code, rest) = number(octal, 3, 8)?;
            let byte = u8::try_from(code).map_err(|_| UnreadQuote::Syntax)?;
            Ok((QuotePiece::Byte(byte), rest))
        }
        'u' | 'U' => {
            let (code, rest) = number(rest, if letter == 'u' { 4 } else { 8 }, 16)?;
            let character = char::from_u32(code).ok_or(UnreadQuote::Syntax)?;
            Ok((QuotePiece::Character(character), rest))
        }
        _ => Err(UnreadQuote::Syntax),
    }
}

fn number(text: &str, digits: usize, base: u32) -> Result<(u32, &str), UnreadQuote> {
    let written = text.get(..digits).ok_or(UnreadQuote::Syntax)?;
    if !written.chars().all(|it| it.is_digit(base)) {
        return Err(UnreadQuote::Syntax);
    }
    let code = u32::from_str_radix(written, base).map_err(|_| UnreadQuote::Syntax)?;
    Ok((code, text.get(digits..).unwrap_or_default()))
}
