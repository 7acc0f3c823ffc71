//! Classes and cases of characters as Go's package unicode has them: Unicode 15, one character for one.
//!
//! The standard library knows later versions, in which characters are assigned, or have an upper case, that Go does not
//! know.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;

/// A class of characters.
struct Class(Option<Regex>);

impl Class {
    fn of(pattern: &str) -> Self {
        Self(Regex::new(&format!(r"\A[{pattern}&&\p{{age:15.0}}]")).ok())
    }

    fn has(&self, character: char) -> bool {
        let mut bytes = [0; 4];
        let Self(Some(class)) = self else {
            return false;
        };
        class.is_match(character.encode_utf8(&mut bytes))
    }
}

static LETTERS: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{L}"));
static DIGITS: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{Nd}"));
static NUMBERS: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{N}"));
static UPPER: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{Lu}"));
static LOWER: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{Ll}"));
static TITLE: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{Lt}"));
static PUNCTUATION: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{P}"));
static PRINTED: LazyLock<Class> = LazyLock::new(|| Class::of(r"\p{L}\p{M}\p{N}\p{P}\p{S}"));
static ASSIGNED: LazyLock<Class> = LazyLock::new(|| Class::of(r"\x{0}-\x{10FFFF}"));

pub(crate) fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || !character.is_ascii() && LETTERS.has(character)
}

pub(crate) fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || !character.is_ascii() && DIGITS.has(character)
}

pub(crate) fn is_number(character: char) -> bool {
    character.is_ascii_digit() || !character.is_ascii() && NUMBERS.has(character)
}

pub(crate) fn is_upper(character: char) -> bool {
    character.is_ascii_uppercase() || !character.is_ascii() && UPPER.has(character)
}

pub(crate) fn is_lower(character: char) -> bool {
    character.is_ascii_lowercase() || !character.is_ascii() && LOWER.has(character)
}

pub(crate) fn is_title(character: char) -> bool {
    !character.is_ascii() && TITLE.has(character)
}

pub(crate) fn is_punctuation(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation() && !"$+<=>^`|~".contains(character);
    }
    PUNCTUATION.has(character)
}

/// Spaces other than U+0020 are not printed.
pub(crate) fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    PRINTED.has(character)
}

pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace()
}

/// The single mapping of a character, where the old and the new one existed in Unicode 15.
fn mapped(character: char, to: char) -> char {
    if ASSIGNED.has(character) && ASSIGNED.has(to) {
        to
    } else {
        character
    }
}

pub(crate) fn to_upper(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_uppercase();
    }
    let mut all = character.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => mapped(character, one),
        _ => simple_upper(character),
    }
}

/// Where the full upper case is several characters, the single one is the character itself, but for Greek letters with
/// an iota below.
fn simple_upper(character: char) -> char {
    let code = u32::from(character);
    let upper = match code {
        0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7 => code + 8,
        0x1FB3 | 0x1FC3 | 0x1FF3 => code + 9,
        _ => code,
    };
    char::from_u32(upper).unwrap_or(character)
}

pub(crate) fn to_lower(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_lowercase();
    }
    if character == '\u{130}' {
        return 'i';
    }
    let mut all = character.to_lowercase();
    match (all.next(), all.next()) {
        (Some(one), None) => mapped(character, one),
        _ => character,
    }
}

/// As the upper case, but for digraphs, and for Georgian letters, which have no title case.
pub(crate) fn to_title(character: char) -> char {
    let code = u32::from(character);
    let title = match code {
        0x01C4..=0x01C6 => 0x01C5,
        0x01C7..=0x01C9 => 0x01C8,
        0x01CA..=0x01CC => 0x01CB,
        0x01F1..=0x01F3 => 0x01F2,
        0x10D0..=0x10FA | 0x10FD..=0x10FF => code,
        _ => return to_upper(character),
    };
    char::from_u32(title).unwrap_or(character)
}
