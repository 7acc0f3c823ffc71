//! How Go's package fmt writes one value of a simple type, with flags, width and precision.

#[cfg(test)]
mod tests;

use crate::{
    error::TemplateLimit,
    meter::MeteredOutput,
    number::format_float,
    quote::{can_be_raw, quoted, quoted_character},
    unicode::is_print,
};

/// The flags and numbers between `%` and the verb.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are Go's flags, each independent"
)]
pub(crate) struct Flags {
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) minus: bool,
    pub(crate) plus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%#v`
    pub(crate) sharp_v: bool,
}

impl Flags {
    /// Writes a text into the width.
    pub(crate) fn pad(
        &self,
        sink: &mut MeteredOutput<'_>,
        text: &str,
    ) -> Result<(), TemplateLimit> {
        let Some(width) = self.width else {
            return sink.push(text);
        };
        let missing = width.saturating_sub(text.chars().count());
        if self.minus {
            sink.push(text)?;
            return sink.pad(' ', missing);
        }
        sink.pad(if self.zero { '0' } else { ' ' }, missing)?;
        sink.push(text)
    }

    fn without_zero(self) -> Self {
        Self {
            zero: false,
            ..self
        }
    }

    fn padding(&self, sink: &mut MeteredOutput<'_>, width: usize) -> Result<(), TemplateLimit> {
        let zero = self.zero && !self.minus;
        sink.pad(if zero { '0' } else { ' ' }, width)
    }

    fn cut<'a>(&self, text: &'a str) -> &'a str {
        let end = self.precision.and_then(|it| text.char_indices().nth(it));
        end.map_or(text, |(at, _)| text.get(..at).unwrap_or(text))
    }

    /// `%s`
    pub(crate) fn string(
        &self,
        sink: &mut MeteredOutput<'_>,
        text: &str,
    ) -> Result<(), TemplateLimit> {
        self.pad(sink, self.cut(text))
    }

    /// `%q`
    pub(crate) fn quoted(
        &self,
        sink: &mut MeteredOutput<'_>,
        text: &str,
    ) -> Result<(), TemplateLimit> {
        let text = self.cut(text);
        sink.meter().room(text.len())?;
        if self.sharp && can_be_raw(text) {
            return self.pad(sink, &format!("`{text}`"));
        }
        self.pad(sink, &quoted(text, self.plus))
    }

    /// `%x` and `%X` of the bytes of a text.
    pub(crate) fn hexadecimal(
        &self,
        sink: &mut MeteredOutput<'_>,
        text: &str,
        upper: bool,
    ) -> Result<(), TemplateLimit> {
        let length = self.precision.unwrap_or(usize::MAX).min(text.len());
        if length == 0 {
            return self.padding(sink, self.width.unwrap_or(0));
        }
        let mut size = 2 * length;
        if self.space {
            size = if self.sharp { 2 * size } else { size } + length - 1;
        } else if self.sharp {
            size += 2;
        }
        let missing = self.width.unwrap_or(0).saturating_sub(size);
        let prefix = if upper { "0X" } else { "0x" };
        if !self.minus {
            self.padding(sink, missing)?;
        }
        for (place, byte) in text.bytes().take(length).enumerate() {
            if self.space && place > 0 {
                sink.push(" ")?;
            }
            if self.sharp && (place == 0 || self.space) {
                sink.push(prefix)?;
            }
            let digits = if upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            };
            sink.push(&digits)?;
        }
        if self.minus {
            self.padding(sink, missing)?;
        }
        Ok(())
    }

    /// A whole number in a base.
    pub(crate) fn integer(
        &self,
        sink: &mut MeteredOutput<'_>,
        number: i128,
        verb: char,
    ) -> Result<(), TemplateLimit> {
        let size = number.unsigned_abs();
        let mut least = 0;
        if let Some(precision) = self.precision {
            if precision == 0 && size == 0 {
                return self.without_zero().padding(sink, self.width.unwrap_or(0));
            }
            least = precision;
        } else if self.zero && !self.minus && self.width.is_some() {
            let signed = number < 0 || self.plus || self.space;
            least = self.width.unwrap_or(0).saturating_sub(usize::from(signed));
        }
        sink.meter().room(least)?;
        let digits = match verb {
            'b' => format!("{size:b}"),
            'o' | 'O' => format!("{size:o}"),
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            _ => size.to_string(),
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let prefix = match verb {
            'b' if self.sharp => "0b",
            'o' if self.sharp && !zeros.starts_with('0') && !digits.starts_with('0') => "0",
            'O' if self.sharp && !zeros.starts_with('0') && !digits.starts_with('0') => "0o0",
            'O' => "0o",
            'x' if self.sharp => "0x",
            'X' if self.sharp => "0X",
            _ => "",
        };
        let sign = match number {
            ..0 => "-",
            _ if self.plus => "+",
            _ if self.space => " ",
            _ => "",
        };
        let text = format!("{sign}{prefix}{zeros}{digits}");
        self.without_zero().pad(sink, &text)
    }

    /// `%c`
    pub(crate) fn character(
        &self,
        sink: &mut MeteredOutput<'_>,
        number: i128,
    ) -> Result<(), TemplateLimit> {
        self.pad(sink, character_of(number).encode_utf8(&mut [0; 4]))
    }

    /// `%q` of a number.
    pub(crate) fn quoted_character(
        &self,
        sink: &mut MeteredOutput<'_>,
        number: i128,
    ) -> Result<(), TemplateLimit> {
        self.pad(sink, &quoted_character(character_of(number), self.plus))
    }

    /// `%U`
    pub(crate) fn unicode(
        &self,
        sink: &mut MeteredOutput<'_>,
        number: i128,
    ) -> Result<(), TemplateLimit> {
        // Go takes a negative number for an unsigned one.
        let number = number & i128::from(u64::MAX);
        let digits = format!("{number:X}");
        let least = self.precision.unwrap_or(4).max(4);
        sink.meter().room(least)?;
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let shown = u32::try_from(number).ok().and_then(char::from_u32);
        let shown = shown.filter(|it| self.sharp && is_print(*it));
        let shown = shown.map_or_else(String::new, |it| format!(" '{it}'"));
        let text = format!("U+{zeros}{digits}{shown}");
        self.without_zero().pad(sink, &text)
    }

    /// A floating-point number, for the letters e, E, f, g and G.
    pub(crate) fn float(
        &self,
        sink: &mut MeteredOutput<'_>,
        number: f64,
        letter: char,
        usual: Option<usize>,
    ) -> Result<(), TemplateLimit> {
        let precision = self.precision.or(usual);
        sink.meter().room(precision.unwrap_or(0))?;
        let written = format_float(number, letter, precision);
        let (sign, mut digits) = match written.strip_prefix(['-', '+']) {
            Some(rest) if written.starts_with('-') => ('-', rest.to_owned()),
            Some(rest) => ('+', rest.to_owned()),
            None => ('+', written),
        };
        let sign = if self.space && sign == '+' && !self.plus {
            ' '
        } else {
            sign
        };
        if !number.is_finite() {
            let signed = !number.is_nan() || self.space || self.plus;
            let text = if signed {
                format!("{sign}{digits}")
            } else {
                digits
            };
            return self.without_zero().pad(sink, &text);
        }
        if self.sharp {
            digits = with_point(&digits, letter, precision);
        }
        if self.plus || sign != '+' {
            let length = digits.len() + 1;
            let width = self.width.unwrap_or(0);
            if self.zero && !self.minus {
                sink.push(sign.encode_utf8(&mut [0; 4]))?;
                sink.pad('0', width.saturating_sub(length))?;
                return sink.push(&digits);
            }
            return self.pad(sink, &format!("{sign}{digits}"));
        }
        self.pad(sink, &digits)
    }
}

/// `%#g` keeps the zeros at the end, and the others the point.
fn with_point(written: &str, letter: char, precision: Option<usize>) -> String {
    let (mantissa, exponent) = match written.find(['e', 'E']) {
        Some(at) => written.split_at(at),
        None => (written, ""),
    };
    let mut text = mantissa.to_owned();
    let mut missing = 0;
    if matches!(letter, 'g' | 'G') {
        let significant = mantissa.chars().filter(char::is_ascii_digit);
        let shown = significant.skip_while(|it| *it == '0').count();
        let wanted = precision.unwrap_or(6);
        let lone_zero = usize::from(mantissa == "0");
        missing = wanted.saturating_sub(shown + lone_zero);
    }
    if !text.contains('.') {
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', missing));
    text.push_str(exponent);
    text
}

fn character_of(number: i128) -> char {
    let code = u32::try_from(number).ok();
    code.and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}
