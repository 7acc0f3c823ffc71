//! Times and durations as Go's package time writes and reads them. Only UTC is known.

#[cfg(test)]
mod tests;

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::number::{float_of, int_of};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// As `%v` prints it.
pub(crate) fn default_form(time: Timestamp) -> String {
    formatted(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// As JSON has it.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    formatted(time, "2006-01-02T15:04:05.999999999Z07:00")
}

/// Go's `Format`.
pub(crate) fn formatted(time: Timestamp, layout: &str) -> String {
    let time = Offset::UTC.to_datetime(time);
    let mut text = String::new();
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        let matched = PIECES.iter().find(|(piece, _)| is_at(rest, piece));
        if let Some((piece, write)) = matched {
            text.push_str(&write(&time));
            rest = rest.get(piece.len()..).unwrap_or_default();
        } else if let Some((written, length)) = fraction(&time, rest) {
            text.push_str(&written);
            rest = rest.get(length..).unwrap_or_default();
        } else {
            text.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// Whether a layout begins with a piece; `Jan` and `Mon` do not count within words of small letters.
fn is_at(layout: &str, piece: &str) -> bool {
    let Some(after) = layout.strip_prefix(piece) else {
        return false;
    };
    match piece {
        "Jan" | "Mon" => !after.starts_with(|it: char| it.is_ascii_lowercase()),
        _ => true,
    }
}

type Writer = fn(&DateTime) -> String;

/// In the order in which Go tries them.
const PIECES: [(&str, Writer); 34] = [
    ("January", |time| month(time).to_owned()),
    ("Jan", |time| month(time).chars().take(3).collect()),
    ("Monday", |time| day(time).to_owned()),
    ("Mon", |time| day(time).chars().take(3).collect()),
    ("MST", |_| "UTC".to_owned()),
    ("002", |time| format!("{:03}", time.day_of_year())),
    ("01", |time| format!("{:02}", time.month())),
    ("02", |time| format!("{:02}", time.day())),
    ("03", |time| format!("{:02}", twelve(time))),
    ("04", |time| format!("{:02}", time.minute())),
    ("05", |time| format!("{:02}", time.second())),
    ("06", |time| format!("{:02}", time.year().rem_euclid(100))),
    ("15", |time| format!("{:02}", time.hour())),
    ("1", |time| time.month().to_string()),
    ("2006", year),
    ("_2006", |time| format!("_{}", year(time))),
    ("__2", |time| format!("{:3}", time.day_of_year())),
    ("_2", |time| format!("{:2}", time.day())),
    ("2", |time| time.day().to_string()),
    ("3", |time| twelve(time).to_string()),
    ("4", |time| time.minute().to_string()),
    ("5", |time| time.second().to_string()),
    ("PM", |time| {
        if time.hour() >= 12 { "PM" } else { "AM" }.to_owned()
    }),
    ("pm", |time| {
        if time.hour() >= 12 { "pm" } else { "am" }.to_owned()
    }),
    ("-070000", |_| "+000000".to_owned()),
    ("-07:00:00", |_| "+00:00:00".to_owned()),
    ("-0700", |_| "+0000".to_owned()),
    ("-07:00", |_| "+00:00".to_owned()),
    ("-07", |_| "+00".to_owned()),
    ("Z070000", zulu),
    ("Z07:00:00", zulu),
    ("Z0700", zulu),
    ("Z07:00", zulu),
    ("Z07", zulu),
];

fn zulu(_: &DateTime) -> String {
    "Z".to_owned()
}

fn year(time: &DateTime) -> String {
    format!("{:04}", time.year())
}

fn month(time: &DateTime) -> &'static str {
    let index = usize::try_from(time.month()).unwrap_or(1).saturating_sub(1);
    MONTHS.get(index).copied().unwrap_or_default()
}

fn day(time: &DateTime) -> &'static str {
    let index = usize::try_from(time.weekday().to_sunday_zero_offset()).unwrap_or(0);
    DAYS.get(index).copied().unwrap_or_default()
}

fn twelve(time: &DateTime) -> i8 {
    match time.hour() % 12 {
        0 => 12,
        hour => hour,
    }
}

/// `.000` or `,000` writes so many digits of the second, `.999` without zeros at the end.
fn fraction(time: &DateTime, layout: &str) -> Option<(String, usize)> {
    let point = layout.chars().next().filter(|it| matches!(it, '.' | ','))?;
    let rest = layout.get(1..)?;
    let digit = rest.chars().next().filter(|it| matches!(it, '0' | '9'))?;
    let length = rest.chars().take_while(|it| *it == digit).count();
    let after = rest.get(length..).unwrap_or_default();
    if after.starts_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    let all = format!("{:09}", time.subsec_nanosecond());
    let mut digits = all.get(..length.min(9)).unwrap_or(&all);
    if digit == '9' {
        digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return Some((String::new(), length + 1));
        }
    }
    Some((format!("{point}{digits}"), length + 1))
}

/// Go's `Duration.String`.
pub(crate) fn duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    let unit = |digits: usize, name: &str| {
        let one = 10_u64.pow(u32::try_from(digits).unwrap_or(0));
        format!(
            "{sign}{}{}{name}",
            size / one,
            after_point(size % one, digits)
        )
    };
    match size {
        1..1_000 => unit(0, "ns"),
        1_000..1_000_000 => unit(3, "µs"),
        1_000_000..1_000_000_000 => unit(6, "ms"),
        _ => {
            let seconds = size / 1_000_000_000;
            let fraction = after_point(size % 1_000_000_000, 9);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let seconds = seconds % 60;
            match (hours, minutes) {
                (0, 0) => format!("{sign}{seconds}{fraction}s"),
                (0, _) => format!("{sign}{minutes}m{seconds}{fraction}s"),
                _ => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
            }
        }
    }
}

fn after_point(part: u64, digits: usize) -> String {
    if part == 0 {
        return String::new();
    }
    let written = format!("{part:0digits$}");
    format!(".{}", written.trim_end_matches('0'))
}

/// Go's `ParseDuration`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    const MOST: u64 = 1 << 63;
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let is_number = |it: char| it.is_ascii_digit() || it == '.';
        let length = rest.find(|it| !is_number(it))?;
        let (number, after) = rest.split_at(length);
        let length = after.find(is_number).unwrap_or(after.len());
        let (name, after) = after.split_at(length);
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let value = whole.checked_mul(*unit).filter(|it| *it <= MOST)?;
        let value = value
            .checked_add(part_of(*unit, fraction))
            .filter(|it| *it <= MOST)?;
        total = total.checked_add(value).filter(|it| *it <= MOST)?;
        rest = after;
    }
    if negative {
        return Some(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).ok()
}

/// The fraction of a unit, with Go's rounding: it computes with floating-point numbers.
fn part_of(unit: u64, fraction: &str) -> u64 {
    let (mut digits, mut scale) = (0_i64, 1.0);
    for digit in fraction.bytes() {
        let more = digits
            .checked_mul(10)
            .and_then(|it| it.checked_add(i64::from(digit - b'0')));
        let Some(more) = more else {
            break;
        };
        (digits, scale) = (more, scale * 10.0);
    }
    let unit = float_of(i64::try_from(unit).unwrap_or(0));
    u64::try_from(int_of(float_of(digits) * (unit / scale))).unwrap_or(0)
}
