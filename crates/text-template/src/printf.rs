//! Go's `Sprint`, `Sprintln` and `Sprintf`.

mod printer;

use crate::{
    error::TemplateRenderProblem,
    format::Flags,
    meter::{Meter, MeteredOutput},
    value::Value,
};
use printer::Printer;

type Written = Result<(), TemplateRenderProblem>;

/// `Sprint`: spaces stand between values of which neither is a text.
pub(crate) fn print(sink: &mut MeteredOutput<'_>, values: &[Value]) -> Written {
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, Value::Text(_));
        if !is_text && !after_text {
            sink.push(" ")?;
        }
        one(sink, value)?;
        after_text = is_text;
    }
    Ok(())
}

/// `Sprintln`
pub(crate) fn println(sink: &mut MeteredOutput<'_>, values: &[Value]) -> Written {
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            sink.push(" ")?;
        }
        one(sink, value)?;
    }
    Ok(sink.push("\n")?)
}

/// One value as `%v` prints it.
pub(crate) fn one(sink: &mut MeteredOutput<'_>, value: &Value) -> Written {
    Printer::new(sink).argument(value, 'v')
}

/// The text of one value as `%v` prints it.
pub(crate) fn text_of(meter: &Meter, value: &Value) -> Result<String, TemplateRenderProblem> {
    let mut sink = MeteredOutput::value(meter);
    one(&mut sink, value)?;
    Ok(sink.text)
}

/// `Sprintf`
pub(crate) fn printf(sink: &mut MeteredOutput<'_>, format: &str, values: &[Value]) -> Written {
    Formatter {
        printer: Printer::new(sink),
        values,
        next: 0,
        reordered: false,
        good: true,
    }
    .run(format)
}

/// Numbers beyond this are no width and no precision.
const TOO_LARGE: i64 = 1_000_000;

struct Formatter<'s, 'm, 'v> {
    printer: Printer<'s, 'm>,
    values: &'v [Value],
    next: usize,
    reordered: bool,
    /// Whether the index in brackets, if any, was right.
    good: bool,
}

impl Formatter<'_, '_, '_> {
    fn run(mut self, format: &str) -> Written {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            let (before, after) = rest.split_at(at);
            self.printer.push(before)?;
            self.printer.sink.meter().steps(1)?;
            self.good = true;
            rest = self.directive(after.get(1..).unwrap_or_default())?;
        }
        self.printer.push(rest)?;
        self.extra()
    }

    /// Everything from the flags to the verb.
    fn directive<'f>(&mut self, format: &'f str) -> Result<&'f str, TemplateRenderProblem> {
        self.printer.flags = Flags::default();
        let flags = &mut self.printer.flags;
        let mut rest = format;
        loop {
            match rest.as_bytes().first() {
                Some(b'#') => flags.sharp = true,
                Some(b'0') => flags.zero = true,
                Some(b'+') => flags.plus = true,
                Some(b'-') => flags.minus = true,
                Some(b' ') => flags.space = true,
                _ => break,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let (rest, mut after_index) = self.index(rest);
        let rest = self.width(rest, &mut after_index)?;
        let mut rest = self.precision(rest, &mut after_index)?;
        if !after_index {
            (rest, _) = self.index(rest);
        }
        let Some(verb) = rest.chars().next() else {
            self.printer.push("%!(NOVERB)")?;
            return Ok("");
        };
        self.verb(verb)?;
        Ok(rest.get(verb.len_utf8()..).unwrap_or_default())
    }

    fn width<'f>(
        &mut self,
        rest: &'f str,
        after_index: &mut bool,
    ) -> Result<&'f str, TemplateRenderProblem> {
        if let Some(rest) = rest.strip_prefix('*') {
            let number = self.number();
            let Some(number) = number else {
                self.printer.push("%!(BADWIDTH)")?;
                *after_index = false;
                return Ok(rest);
            };
            let flags = &mut self.printer.flags;
            if number < 0 {
                flags.minus = true;
                flags.zero = false;
            }
            flags.width = usize::try_from(number.unsigned_abs()).ok();
            *after_index = false;
            return Ok(rest);
        }
        let (number, rest) = parsed(rest);
        self.printer.flags.width = number;
        if *after_index && number.is_some() {
            self.good = false;
        }
        Ok(rest)
    }

    fn precision<'f>(
        &mut self,
        format: &'f str,
        after_index: &mut bool,
    ) -> Result<&'f str, TemplateRenderProblem> {
        // A point at the very end is a verb.
        if !format.starts_with('.') || format.len() < 2 {
            return Ok(format);
        }
        if *after_index {
            self.good = false;
        }
        let rest;
        (rest, *after_index) = self.index(format.get(1..).unwrap_or_default());
        if let Some(rest) = rest.strip_prefix('*') {
            let number = self.number().and_then(|it| usize::try_from(it).ok());
            self.printer.flags.precision = number;
            if number.is_none() {
                self.printer.push("%!(BADPREC)")?;
            }
            *after_index = false;
            return Ok(rest);
        }
        let (number, rest) = parsed(rest);
        self.printer.flags.precision = Some(number.unwrap_or(0));
        Ok(rest)
    }

    fn verb(&mut self, verb: char) -> Written {
        if verb == '%' {
            return Ok(self.printer.push("%")?);
        }
        if !self.good || self.next >= self.values.len() {
            let problem = if self.good { "(MISSING)" } else { "(BADINDEX)" };
            self.printer.push("%!")?;
            self.printer.sink.push_char(verb)?;
            return Ok(self.printer.push(problem)?);
        }
        if matches!(verb, 'v' | 'w') {
            let flags = &mut self.printer.flags;
            (flags.sharp_v, flags.sharp) = (flags.sharp, false);
            // It is for structures, which no value is.
            flags.plus = false;
        }
        if let Some(value) = self.values.get(self.next) {
            self.printer.argument(value, verb)?;
        }
        self.next += 1;
        Ok(())
    }

    /// The next argument as a number, for `*`.
    fn number(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let fits = -TOO_LARGE..=TOO_LARGE;
        value.whole().filter(|it| fits.contains(it))
    }

    /// `[n]`: the argument that comes next.
    fn index<'f>(&mut self, format: &'f str) -> (&'f str, bool) {
        if !format.starts_with('[') {
            return (format, false);
        }
        self.reordered = true;
        let close = format.find(']').filter(|_| format.len() >= 3);
        let Some(close) = close else {
            self.good = false;
            return (format.get(1..).unwrap_or_default(), false);
        };
        let rest = format.get(close + 1..).unwrap_or_default();
        let (number, after) = parsed(format.get(1..close).unwrap_or_default());
        let Some(number) = number.filter(|_| after.is_empty()) else {
            self.good = false;
            return (rest, false);
        };
        if (1..=self.values.len()).contains(&number) {
            self.next = number - 1;
        } else {
            self.good = false;
        }
        (rest, true)
    }

    /// Arguments that no verb asked for.
    fn extra(&mut self) -> Written {
        if self.reordered || self.next >= self.values.len() {
            return Ok(());
        }
        self.printer.flags = Flags::default();
        self.printer.push("%!(EXTRA ")?;
        let values = self.values.get(self.next..).unwrap_or_default();
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                self.printer.push(", ")?;
            }
            if value.is_nothing() {
                self.printer.push("<nil>")?;
            } else {
                self.printer.push(value.type_name())?;
                self.printer.push("=")?;
                self.printer.argument(value, 'v')?;
            }
        }
        Ok(self.printer.push(")")?)
    }
}

/// A number at the beginning. One that is too large takes everything, as in Go.
fn parsed(text: &str) -> (Option<usize>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mut number: i64 = 0;
    for byte in text.bytes().take(digits) {
        if number > TOO_LARGE {
            return (None, "");
        }
        number = number * 10 + i64::from(byte - b'0');
    }
    let number = usize::try_from(number).ok().filter(|_| digits > 0);
    (number, text.get(digits..).unwrap_or_default())
}
