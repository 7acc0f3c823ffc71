//! Classes of characters in brackets.

use std::fmt::Write as _;

use super::{RegexPart, RegexReader, RegexStop};

impl RegexReader<'_, '_> {
    /// After an opening bracket.
    pub(super) fn class(&mut self) -> Result<RegexPart, RegexStop> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        self.written.push('[');
        if self.take("^") {
            self.written.push('^');
        }
        let mut elements = 1;
        let mut is_first = true;
        while is_first || !self.take("]") {
            is_first = false;
            self.meter.steps(1)?;
            elements = self.counted(elements + 1)?;
            let named = self
                .rest
                .strip_prefix("[:")
                .and_then(|it| it.split_once(":]"));
            if let Some((name, after)) = named {
                if !NAMES.contains(&name.trim_start_matches('^')) || name.starts_with("^^") {
                    return Err(RegexStop::Refused("a class has another name"));
                }
                let _ = write!(self.written, "[:{name}:]");
                self.rest = after;
                continue;
            }
            if let Some(after) = self.rest.strip_prefix('\\') {
                let before = self.rest;
                self.rest = after;
                if let Some(class) = self.perl_class() {
                    self.written.push_str(&class);
                    continue;
                }
                self.rest = before;
            }
            let low = self.class_character()?;
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let high = if is_range {
                self.next();
                self.class_character()?
            } else {
                low
            };
            if high < low {
                return Err(RegexStop::Refused("a range is the wrong way round"));
            }
            let (low, high) = (u32::from(low), u32::from(high));
            let _ = write!(self.written, "\\x{{{low:X}}}-\\x{{{high:X}}}");
        }
        self.written.push(']');
        Ok(RegexPart {
            can_be_empty: false,
            elements,
        })
    }

    fn class_character(&mut self) -> Result<char, RegexStop> {
        match self.next() {
            None => Err(RegexStop::Refused("a bracket is not closed")),
            Some('\\') => self.escaped(),
            Some(character) => Ok(character),
        }
    }
}
