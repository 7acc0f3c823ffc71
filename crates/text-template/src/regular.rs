//! Regular expressions in the part of Go's syntax that this crate's engine reads in the same way.
//!
//! An expression is parsed by Go's rules and written again for the engine. Syntax that the engine does not
//! know is refused. So are repetitions of expressions that match the empty text, on which the two sides need
//! not agree.

mod class;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

use crate::{
    error::{Refusal, TemplateLimit, TemplateRenderProblem},
    meter::Meter,
};

/// More copies of anything are an error in Go, so no caller may allow more elements.
const MOST: usize = 1_000;

/// The limit of a compiled expression.
const COMPILED: usize = 8 << 20;
const CACHE: usize = 1 << 20;

/// The limit of capturing groups. Go has no such bound.
const GROUPS: usize = 32;

/// About how many states of the engine an element is: a class of characters is a small machine of bytes.
const STATES: usize = 16;

/// Each state of a search keeps where each group begins and ends, before a character and after it.
const PLACES: usize = 2 * 16;

/// A compiled expression, and how many elements it has with its repetitions written out.
#[derive(Debug)]
pub(crate) struct RegexExpression {
    pub(crate) regex: Regex,
    elements: usize,
    /// The largest cost of a search, which the meter counts.
    pub(crate) bytes: usize,
}

impl RegexExpression {
    pub(crate) fn compile(meter: &Meter, pattern: &str) -> Result<Self, TemplateRenderProblem> {
        let most = meter.limits.regex.min(MOST);
        let mut reader = RegexReader {
            meter,
            rest: pattern,
            written: String::new(),
            most,
            groups: 0,
        };
        let refused = |why: String| {
            TemplateRenderProblem::Refused(Refusal::Regex {
                pattern: pattern.chars().take(100).collect(),
                why,
            })
        };
        let whole = match reader.alternation(0) {
            Ok(whole) => whole,
            Err(RegexStop::Limit(limit)) => return Err(limit.into()),
            Err(RegexStop::Refused(why)) => return Err(refused(why.to_owned())),
        };
        if !reader.rest.is_empty() {
            return Err(refused("a parenthesis is not opened".to_owned()));
        }
        // Compiling an element takes as long as a few hundred steps of a template.
        let elements = whole.elements.max(1);
        meter.steps(
            u64::try_from(elements)
                .unwrap_or(u64::MAX)
                .saturating_mul(20),
        )?;
        // The match as a whole is a group too.
        let bytes = elements * STATES * (reader.groups + 1) * PLACES;
        meter.hold(bytes)?;
        let mut builder = RegexBuilder::new(&reader.written);
        builder.size_limit(COMPILED).dfa_size_limit(CACHE);
        let regex = builder
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            regex,
            elements,
            bytes,
        })
    }

    /// Counts a search in the rest of a text: at worst each element looks at each character.
    pub(crate) fn search(&self, meter: &Meter, length: usize) -> Result<(), TemplateLimit> {
        let looks = length.saturating_mul(self.elements) / 512;
        meter.steps(u64::try_from(looks).unwrap_or(u64::MAX).saturating_add(1))
    }
}

enum RegexStop {
    Refused(&'static str),
    Limit(TemplateLimit),
}

impl From<TemplateLimit> for RegexStop {
    fn from(limit: TemplateLimit) -> Self {
        Self::Limit(limit)
    }
}

/// A parsed part.
#[derive(Debug, Clone, Copy)]
struct RegexPart {
    can_be_empty: bool,
    elements: usize,
}

impl RegexPart {
    const fn one() -> Self {
        Self {
            can_be_empty: false,
            elements: 1,
        }
    }

    const fn assertion() -> Self {
        Self {
            can_be_empty: true,
            elements: 1,
        }
    }
}

struct RegexReader<'m, 'p> {
    meter: &'m Meter,
    rest: &'p str,
    written: String,
    most: usize,
    /// Capturing groups that are closed.
    groups: usize,
}

impl RegexReader<'_, '_> {
    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = self.rest.get(next.len_utf8()..).unwrap_or_default();
        Some(next)
    }

    fn counted(&self, elements: usize) -> Result<usize, TemplateLimit> {
        if elements > self.most {
            return Err(TemplateLimit::Regex(self.most));
        }
        Ok(elements)
    }

    fn literal(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.written.push(character);
        } else {
            let _ = write!(self.written, "\\x{{{:X}}}", u32::from(character));
        }
    }

    /// Up to a closing parenthesis or the end.
    fn alternation(&mut self, depth: usize) -> Result<RegexPart, RegexStop> {
        self.meter.depth(depth)?;
        let mut whole = self.concatenation(depth)?;
        while self.take("|") {
            self.written.push('|');
            let other = self.concatenation(depth)?;
            whole.can_be_empty |= other.can_be_empty;
            whole.elements = self.counted(whole.elements + other.elements + 1)?;
        }
        Ok(whole)
    }

    fn concatenation(&mut self, depth: usize) -> Result<RegexPart, RegexStop> {
        let mut whole = RegexPart {
            can_be_empty: true,
            elements: 0,
        };
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            self.meter.steps(1)?;
            let Some(part) = self.atom(depth)? else {
                if self.repetition().is_some() {
                    return Err(RegexStop::Refused("nothing is repeated"));
                }
                continue;
            };
            let part = self.repeated(part)?;
            whole.can_be_empty &= part.can_be_empty;
            whole.elements = self.counted(whole.elements + part.elements)?;
        }
        Ok(whole)
    }

    /// One element; none for a change of flags.
    fn atom(&mut self, depth: usize) -> Result<Option<RegexPart>, RegexStop> {
        let before = self.rest;
        let Some(character) = self.next() else {
            return Err(RegexStop::Refused("it ends too early"));
        };
        match character {
            '(' => return self.group(depth),
            '[' => return self.class().map(Some),
            '\\' => return self.escape().map(Some),
            '.' => self.written.push('.'),
            '^' | '$' => {
                self.written.push(character);
                return Ok(Some(RegexPart::assertion()));
            }
            '*' | '+' | '?' => return Err(RegexStop::Refused("nothing is repeated")),
            '{' => {
                self.rest = before;
                if self.repetition().is_some() {
                    return Err(RegexStop::Refused("nothing is repeated"));
                }
                self.rest = before.get(1..).unwrap_or_default();
                self.literal('{');
            }
            _ => self.literal(character),
        }
        Ok(Some(RegexPart::one()))
    }

    fn group(&mut self, depth: usize) -> Result<Option<RegexPart>, RegexStop> {
        let mut keeps = true;
        if self.take("?P<") || self.take("?<") {
            let end = self.rest.find('>').unwrap_or(0);
            let name = self.rest.get(..end).unwrap_or_default();
            let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
                && name
                    .chars()
                    .all(|it| it.is_ascii_alphanumeric() || it == '_');
            if !is_name {
                return Err(RegexStop::Refused(
                    "a group has no name of letters, digits and _",
                ));
            }
            let _ = write!(self.written, "(?P<{name}>");
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
        } else if self.take("?") {
            let end = self.rest.find([':', ')']).unwrap_or(0);
            let flags = self.rest.get(..end).unwrap_or_default();
            let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
            if !format!("{on}{off}").chars().all(|it| "imsU".contains(it)) || off.is_empty() {
                return Err(RegexStop::Refused(
                    "a group begins in another way than ( (?: (?flags",
                ));
            }
            let _ = write!(self.written, "(?{flags}");
            self.rest = self.rest.get(end..).unwrap_or_default();
            if self.take(")") {
                if flags.is_empty() {
                    return Err(RegexStop::Refused("flags are missing"));
                }
                self.written.push(')');
                return Ok(None);
            }
            if !self.take(":") {
                return Err(RegexStop::Refused("a parenthesis is not closed"));
            }
            self.written.push(':');
            keeps = false;
        } else {
            self.written.push('(');
        }
        let inner = self.alternation(depth + 1)?;
        if !self.take(")") {
            return Err(RegexStop::Refused("a parenthesis is not closed"));
        }
        self.written.push(')');
        self.groups += usize::from(keeps);
        if self.groups > GROUPS {
            return Err(RegexStop::Limit(TemplateLimit::Groups(GROUPS)));
        }
        let elements = self.counted(inner.elements + 1)?;
        Ok(Some(RegexPart { elements, ..inner }))
    }

    /// A repetition: at least and at most how often.
    fn repetition(&mut self) -> Option<(usize, Option<usize>)> {
        let simple = [('*', 0, None), ('+', 1, None), ('?', 0, Some(1))];
        let first = self.rest.chars().next()?;
        if let Some((_, least, most)) = simple.iter().find(|(sign, ..)| *sign == first) {
            self.rest = self.rest.get(1..)?;
            return Some((*least, *most));
        }
        let (inside, after) = self.rest.strip_prefix('{')?.split_once('}')?;
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            let is_plain = digits == "0" || !digits.starts_with('0');
            // One that is too large is still a repetition.
            (is_number && is_plain).then(|| digits.parse().unwrap_or(usize::MAX))
        };
        let bounds = match inside.split_once(',') {
            None => (number(inside)?, Some(number(inside)?)),
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        self.rest = after;
        Some(bounds)
    }

    fn repeated(&mut self, part: RegexPart) -> Result<RegexPart, RegexStop> {
        let before = self.rest;
        let Some((least, most)) = self.repetition() else {
            return Ok(part);
        };
        let sign = before
            .get(..before.len() - self.rest.len())
            .unwrap_or_default();
        let largest = most.unwrap_or(least);
        if largest > MOST || largest < least {
            return Err(RegexStop::Refused("a number of repetitions is too large"));
        }
        if part.can_be_empty {
            return Err(RegexStop::Refused("what is repeated can be empty"));
        }
        self.written.push_str(sign);
        if self.take("?") {
            self.written.push('?');
        }
        if self.repetition().is_some() {
            return Err(RegexStop::Refused("a repetition is repeated"));
        }
        let copies = largest.max(least + usize::from(most.is_none())).max(1);
        Ok(RegexPart {
            can_be_empty: least == 0,
            elements: self.counted(part.elements.saturating_mul(copies))?,
        })
    }

    /// After a backslash, outside of a class.
    fn escape(&mut self) -> Result<RegexPart, RegexStop> {
        let assertion = match self.rest.chars().next() {
            Some('A') => "\\A",
            Some('z') => "\\z",
            Some('b') => "(?-u:\\b)",
            _ => "",
        };
        if !assertion.is_empty() {
            self.next();
            self.written.push_str(assertion);
            return Ok(RegexPart::assertion());
        }
        if let Some(class) = self.perl_class() {
            self.written.push_str(&class);
            return Ok(RegexPart::one());
        }
        let character = self.escaped()?;
        self.literal(character);
        Ok(RegexPart::one())
    }

    /// Digits, word characters and spaces are those of ASCII in Go.
    fn perl_class(&mut self) -> Option<String> {
        let letter = self.rest.chars().next()?;
        let inside = match letter.to_ascii_lowercase() {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => "\\t\\n\\x0C\\r\\x20",
            _ => return None,
        };
        self.next();
        let not = if letter.is_ascii_uppercase() { "^" } else { "" };
        Some(format!("[{not}{inside}]"))
    }

    /// A character after a backslash.
    fn escaped(&mut self) -> Result<char, RegexStop> {
        let refused = RegexStop::Refused("an escape is not available");
        Ok(match self.next() {
            Some('a') => '\u{7}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('x') => return self.hexadecimal(),
            Some(other) if other.is_ascii() && !other.is_ascii_alphanumeric() => other,
            _ => return Err(refused),
        })
    }

    fn hexadecimal(&mut self) -> Result<char, RegexStop> {
        let refused = || RegexStop::Refused("a hexadecimal number is no character");
        let digits = if self.take("{") {
            let end = self.rest.find('}').ok_or_else(refused)?;
            let digits = self.rest.get(..end).unwrap_or_default();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            digits
        } else {
            let digits = self.rest.get(..2).ok_or_else(refused)?;
            self.rest = self.rest.get(2..).unwrap_or_default();
            digits
        };
        let is_number = digits.bytes().all(|it| it.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_number);
        code.and_then(char::from_u32).ok_or_else(refused)
    }
}
