//! Times. The only clock is the caller's `now`, the only time zone UTC.

use jiff::{SignedDuration, Timestamp};

use super::{Call, Function, Result, Takes, function};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    number::nearest_signed,
    time_text::{duration, formatted, parse_duration},
    value::Value,
};

const DAY: &str = "2006-01-02";
const MODIFY: &[Takes] = &[Takes::Text, Takes::Time];
const ZONED: &[Takes] = &[Takes::Text, Takes::Any, Takes::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    function("now", &[], |call| Ok(Value::Time(call.now))),
    function("date", &[Takes::Text, Takes::Any], |call| {
        dated(call, &call.text(0), &call.value(1), "UTC")
    }),
    function("dateInZone", ZONED, in_zone),
    function("date_in_zone", ZONED, in_zone),
    function("htmlDate", &[Takes::Any], |call| {
        dated(call, DAY, &call.value(0), "UTC")
    }),
    function("htmlDateInZone", &[Takes::Any, Takes::Text], |call| {
        dated(call, DAY, &call.value(0), &call.text(1))
    }),
    function("dateModify", MODIFY, |call| modified(call, false)),
    function("date_modify", MODIFY, |call| modified(call, false)),
    function("mustDateModify", MODIFY, |call| modified(call, true)),
    function("must_date_modify", MODIFY, |call| modified(call, true)),
    function("unixEpoch", &[Takes::Time], |call| {
        // Go rounds down.
        let nanoseconds = call.time(0).as_nanosecond();
        call.make(nanoseconds.div_euclid(1_000_000_000).to_string())
    }),
    function("duration", &[Takes::Any], |call| {
        let seconds = match call.value(0) {
            Value::Text(text) => nearest_signed(&text),
            Value::Int64(seconds) => seconds,
            _ => 0,
        };
        call.make(duration(seconds.wrapping_mul(1_000_000_000)))
    }),
    function("durationRound", &[Takes::Any], |call| {
        let nanoseconds = match call.value(0) {
            Value::Text(text) => parse_duration(&text).unwrap_or(0),
            Value::Int64(nanoseconds) => nanoseconds,
            Value::Time(_) => return Err(clock(call)),
            _ => 0,
        };
        call.make(rounded(nanoseconds.unsigned_abs()))
    }),
];

fn clock(call: &Call<'_>) -> TemplateRenderProblem {
    TemplateRenderProblem::Refused(Refusal::Clock(call.function))
}

fn in_zone(call: &Call<'_>) -> Result {
    dated(call, &call.text(0), &call.value(1), &call.text(2))
}

/// A time or seconds, in a layout of Go's.
fn dated(call: &Call<'_>, layout: &str, date: &Value, zone: &str) -> Result {
    if !matches!(zone, "" | "UTC" | "Local") {
        return Err(TemplateRenderProblem::Refused(Refusal::Zone(
            zone.to_owned(),
        )));
    }
    let time = match date {
        Value::Time(time) => *time,
        Value::Int(seconds) | Value::Int64(seconds) => {
            Timestamp::from_second(*seconds).map_err(|_| clock(call))?
        }
        _ => return Err(clock(call)),
    };
    call.meter.room(layout.len().saturating_mul(10))?;
    call.make(formatted(time, layout))
}

fn modified(call: &Call<'_>, must: bool) -> Result {
    let time = call.time(1);
    let Some(nanoseconds) = parse_duration(&call.text(0)) else {
        if must {
            return Err(call.failed("time: invalid duration"));
        }
        return Ok(Value::Time(time));
    };
    let modified = time.checked_add(SignedDuration::from_nanos(nanoseconds));
    modified.map(Value::Time).map_err(|_| clock(call))
}

fn rounded(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 24 * 3600 * SECOND;
    let units = [
        (365 * DAY, "y"),
        (30 * DAY, "mo"),
        (DAY, "d"),
        (3600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let unit = units.iter().find(|(size, _)| nanoseconds > *size);
    unit.map_or_else(
        || "0s".to_owned(),
        |(size, name)| format!("{}{name}", nanoseconds / size),
    )
}
