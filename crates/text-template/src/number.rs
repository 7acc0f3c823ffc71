//! Numbers as Go's package strconv reads and writes them.

#[cfg(test)]
mod tests;

/// The nearest floating-point number.
#[expect(clippy::cast_precision_loss, reason = "as Go's conversion")]
pub(crate) fn float_of(number: i64) -> f64 {
    number as f64
}

/// As Go converts on amd64: towards zero, and the least number for values out of range.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
pub(crate) fn int_of(number: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if (-BEYOND..BEYOND).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// A count as Go's int.
pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Why a number cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Syntax,
    Range,
}

/// Go's `ParseUint` with 64 bits. Base 0 reads prefixes and underscores.
pub(crate) fn parse_unsigned(text: &str, base: u32) -> Result<u64, Wrong> {
    let (digits, radix) = if base == 0 {
        prefixed(text)
    } else {
        (text, base)
    };
    if digits.is_empty() {
        return Err(Wrong::Syntax);
    }
    let mut number: u64 = 0;
    let mut underscores = false;
    for byte in digits.bytes() {
        if byte == b'_' && base == 0 {
            underscores = true;
            continue;
        }
        let digit = char::from(byte).to_digit(radix).ok_or(Wrong::Syntax)?;
        let more = number.checked_mul(u64::from(radix));
        let more = more.and_then(|it| it.checked_add(u64::from(digit)));
        number = more.ok_or(Wrong::Range)?;
    }
    if underscores && !underscores_are_right(text) {
        return Err(Wrong::Syntax);
    }
    Ok(number)
}

fn prefixed(text: &str) -> (&str, u32) {
    let lower = text.as_bytes().get(1).map(u8::to_ascii_lowercase);
    if !text.starts_with('0') || text.len() < 2 {
        // A lone zero is octal, and the same.
        return (text, 10);
    }
    match lower {
        Some(b'b') => (text.get(2..).unwrap_or_default(), 2),
        Some(b'o') => (text.get(2..).unwrap_or_default(), 8),
        Some(b'x') => (text.get(2..).unwrap_or_default(), 16),
        _ => (text.get(1..).unwrap_or_default(), 8),
    }
}

/// Go's `ParseInt` with 64 bits.
pub(crate) fn parse_signed(text: &str, base: u32) -> Result<i64, Wrong> {
    let (negative, digits) = signed(text);
    let number = parse_unsigned(digits, base)?;
    if negative {
        return match i64::try_from(number) {
            Ok(number) => Ok(-number),
            Err(_) if number == 1 << 63 => Ok(i64::MIN),
            Err(_) => Err(Wrong::Range),
        };
    }
    i64::try_from(number).map_err(|_| Wrong::Range)
}

/// The same in base 10; beyond the range the nearest number, which Go gives beside its error.
pub(crate) fn nearest_signed(text: &str) -> i64 {
    match parse_signed(text, 10) {
        Ok(number) => number,
        Err(Wrong::Syntax) => 0,
        Err(Wrong::Range) if text.starts_with('-') => i64::MIN,
        Err(Wrong::Range) => i64::MAX,
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Underscores stand between digits, or between the prefix of a base and a digit.
fn underscores_are_right(text: &str) -> bool {
    let (_, text) = signed(text);
    let bytes = text.as_bytes();
    let prefix = (bytes.first(), bytes.get(1).map(u8::to_ascii_lowercase));
    let (hex, skip) = match prefix {
        (Some(b'0'), Some(b'x')) => (true, 2),
        (Some(b'0'), Some(b'b' | b'o')) => (false, 2),
        _ => (false, 0),
    };
    let mut after_digit = skip > 0;
    let mut after_underscore = false;
    for byte in bytes.iter().skip(skip) {
        let is_digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        if *byte == b'_' {
            if !after_digit {
                return false;
            }
            (after_digit, after_underscore) = (false, true);
        } else {
            if !is_digit && after_underscore {
                return false;
            }
            (after_digit, after_underscore) = (is_digit, false);
        }
    }
    !after_underscore
}

/// Go's `ParseFloat` with 64 bits.
pub(crate) fn parse_float(text: &str) -> Result<f64, Wrong> {
    let (negative, rest) = signed(text);
    let number = match rest.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" if rest.len() == text.len() => return Ok(f64::NAN),
        lower if lower.starts_with("0x") => hexadecimal(lower, text)?,
        lower => decimal(lower, text)?,
    };
    Ok(if negative { -number } else { number })
}

fn decimal(lower: &str, text: &str) -> Result<f64, Wrong> {
    let is_part = |it: u8| matches!(it, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-' | b'_');
    if !lower.bytes().all(is_part) || lower.starts_with(['+', '-']) {
        return Err(Wrong::Syntax);
    }
    if lower.contains('_') && !underscores_are_right(text) {
        return Err(Wrong::Syntax);
    }
    let digits = lower.replace('_', "");
    let number: f64 = digits.parse().map_err(|_| Wrong::Syntax)?;
    if number.is_infinite() {
        return Err(Wrong::Range);
    }
    Ok(number)
}

/// The nearest number, and of two the even one.
fn hexadecimal(lower: &str, text: &str) -> Result<f64, Wrong> {
    if lower.contains('_') && !underscores_are_right(text) {
        return Err(Wrong::Syntax);
    }
    let lower = lower.replace('_', "");
    let digits = lower.strip_prefix("0x").ok_or(Wrong::Syntax)?;
    let (mantissa, exponent) = digits.split_once('p').ok_or(Wrong::Syntax)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(Wrong::Syntax);
    }
    let (is_negative, power) = signed(exponent);
    if power.is_empty() || !power.bytes().all(|it| it.is_ascii_digit()) {
        return Err(Wrong::Syntax);
    }
    let beyond_all = if is_negative { i64::MIN } else { i64::MAX };
    let power: i64 = exponent.parse().unwrap_or(beyond_all);
    let all = all.trim_start_matches('0');
    // These are 60 bits. Of the others only matters whether there are any.
    let (kept, others) = all.split_at(all.len().min(15));
    let has_others = others.bytes().any(|it| it != b'0');
    let mut number = i64::from_str_radix(kept, 16).unwrap_or(0) | i64::from(has_others);
    let mut power = power.saturating_add(4 * (count(others.len()) - count(fraction.len())));
    // Two bits more than the smallest number has, so that it is rounded once.
    while number > 1 && power < -1076 {
        number = number >> 1 | number & 1;
        power += 1;
    }
    // In two steps, because a power alone may be no number.
    let power = i32::try_from(power.clamp(-2000, 2000)).unwrap_or(0);
    let number = float_of(number) * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2);
    if number.is_infinite() {
        return Err(Wrong::Range);
    }
    Ok(number)
}

/// The digits of a number and where its decimal point is: `0.d1d2d3… × 10^point`.
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    pub(crate) digits: String,
    pub(crate) point: i32,
}

/// More digits than any number has.
const MOST_DIGITS: usize = 1100;

impl Decimal {
    /// The fewest digits that give the number again, or the given number of significant ones.
    pub(crate) fn of(number: f64, significant: Option<usize>) -> Self {
        let written = match significant {
            None => format!("{number:e}"),
            Some(digits) => format!("{number:.*e}", digits.clamp(1, MOST_DIGITS) - 1),
        };
        let (negative, written) = match written.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, written.as_str()),
        };
        let (mantissa, exponent) = written.split_once('e').unwrap_or((written, "0"));
        let digits = mantissa.replace('.', "");
        let point = exponent.parse().unwrap_or(0) + 1;
        Self {
            negative,
            digits,
            point: if number == 0.0 { 1 } else { point },
        }
    }

    /// `d.ddde±dd` with that many digits after the point.
    fn exponential(&self, precision: usize, letter: char) -> String {
        let first = self.digits.get(..1).unwrap_or("0");
        let rest = self.digits.get(1..).unwrap_or_default();
        let mut text = first.to_owned();
        if precision > 0 {
            text.push('.');
            text.push_str(rest.get(..precision.min(rest.len())).unwrap_or(rest));
            text.extend(std::iter::repeat_n(
                '0',
                precision.saturating_sub(rest.len()),
            ));
        }
        let exponent = self.point - 1;
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{text}{letter}{sign}{:02}", exponent.unsigned_abs())
    }

    /// All digits, with zeros up to the point.
    fn plain(&self) -> String {
        let length = i32::try_from(self.digits.len()).unwrap_or(i32::MAX);
        if self.point <= 0 {
            let zeros = usize::try_from(-self.point).unwrap_or(0);
            return format!("0.{}{}", "0".repeat(zeros), self.digits);
        }
        let point = usize::try_from(self.point).unwrap_or(0);
        if self.point >= length {
            return format!("{}{}", self.digits, "0".repeat(point - self.digits.len()));
        }
        let (whole, fraction) = self.digits.split_at(point);
        format!("{whole}.{fraction}")
    }
}

fn trimmed(mut decimal: Decimal) -> Decimal {
    let digits = decimal.digits.trim_end_matches('0');
    decimal.digits = if digits.is_empty() { "0" } else { digits }.to_owned();
    decimal
}

fn special(number: f64) -> Option<&'static str> {
    match number {
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => number.is_nan().then_some("NaN"),
    }
}

/// Go's `FormatFloat` for the letters e, E, f, g and G; without a precision, the fewest digits that give it again.
pub(crate) fn format_float(number: f64, letter: char, precision: Option<usize>) -> String {
    if let Some(text) = special(number) {
        return text.to_owned();
    }
    let text = match (letter, precision) {
        ('f', None) => return format!("{number}"),
        ('f', Some(precision)) => {
            let digits = precision.min(MOST_DIGITS);
            let zeros = "0".repeat(precision - digits);
            return format!("{number:.digits$}{zeros}");
        }
        ('e' | 'E', None) => {
            let decimal = trimmed(Decimal::of(number, None));
            (
                decimal.negative,
                decimal.exponential(decimal.digits.len() - 1, letter),
            )
        }
        ('e' | 'E', Some(precision)) => {
            let decimal = Decimal::of(number, Some(precision.saturating_add(1)));
            (decimal.negative, decimal.exponential(precision, letter))
        }
        (_, precision) => general(number, letter, precision),
    };
    let (negative, text) = text;
    if negative { format!("-{text}") } else { text }
}

/// The shorter of both forms: exponents below -4 and from the precision on are written.
fn general(number: f64, letter: char, precision: Option<usize>) -> (bool, String) {
    let precision = precision.map(|it| it.max(1));
    let decimal = trimmed(Decimal::of(number, precision));
    let digits = decimal.digits.len();
    let threshold = precision.unwrap_or(6);
    let exponent = decimal.point - 1;
    let is_large = usize::try_from(exponent).is_ok_and(|it| it >= threshold);
    let text = if exponent < -4 || is_large {
        let letter = if letter == 'G' { 'E' } else { 'e' };
        decimal.exponential(digits - 1, letter)
    } else {
        decimal.plain()
    };
    (decimal.negative, text)
}
