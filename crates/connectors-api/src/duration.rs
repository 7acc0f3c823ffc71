//! A duration in the usual notation: `4h`, `1h30m`, `90s`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::cel;

/// More than zero and at most a year: zero would switch a limit off or revoke at once, and a longer
/// one is a typo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct PositiveDuration(#[schemars(schema_with = "as_text")] SignedDuration);

const LONGEST: SignedDuration = SignedDuration::from_hours(8760);
const UNITS: [(char, i64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// The reason why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not hours, minutes and seconds in this order.
    #[error("must be hours, minutes and seconds in this order, such as 4h, 1h30m or 90s")]
    Syntax,
    /// Zero, or longer than a year.
    #[error("must be more than 0s and at most 8760h (a year)")]
    Range,
}

impl PositiveDuration {
    /// The duration for arithmetic with timestamps.
    #[must_use]
    pub const fn get(self) -> SignedDuration {
        self.0
    }
}

impl FromStr for PositiveDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let mut seconds: i64 = 0;
        let mut rest = text;
        for (unit, length) in UNITS {
            let Some((digits, behind)) = rest.split_once(unit) else {
                continue;
            };
            if digits.is_empty()
                || digits.len() > 8
                || !digits.bytes().all(|byte| byte.is_ascii_digit())
            {
                return Err(DurationError::Syntax);
            }
            // Eight digits of hours are far below the limit of the type.
            seconds += digits.parse::<i64>().map_err(|_| DurationError::Syntax)? * length;
            rest = behind;
        }
        if text.is_empty() || !rest.is_empty() {
            return Err(DurationError::Syntax);
        }
        let duration = SignedDuration::from_secs(seconds);
        if duration.is_positive() && duration <= LONGEST {
            Ok(Self(duration))
        } else {
            Err(DurationError::Range)
        }
    }
}

impl fmt::Display for PositiveDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_secs();
        for (unit, length) in UNITS {
            if rest >= length {
                write!(f, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

impl Serialize for PositiveDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PositiveDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn as_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 2,
        "maxLength": 27,
        "pattern": "^([0-9]{1,8}h)?([0-9]{1,8}m)?([0-9]{1,8}s)?$",
        "x-kubernetes-validations": [cel::invalid(
            "duration(self) > duration('0s') && duration(self) <= duration('8760h')",
            &DurationError::Range.to_string(),
        )],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_hours_minutes_and_seconds() {
        for (text, seconds) in [
            ("4h", 14_400),
            ("24h", 86_400),
            ("1h30m", 5_400),
            ("90s", 90),
            ("1h1s", 3_601),
            ("8760h", 31_536_000),
        ] {
            assert_eq!(
                text.parse::<PositiveDuration>().unwrap().get().as_secs(),
                seconds,
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_everything_else() {
        use DurationError::{Range, Syntax};
        for (text, error) in [
            ("", Syntax),
            ("4", Syntax),
            ("h", Syntax),
            ("-4h", Syntax),
            ("+4h", Syntax),
            ("4H", Syntax),
            ("1.5h", Syntax),
            ("4 h", Syntax),
            ("1d", Syntax),
            ("100ms", Syntax),
            ("1m1h", Syntax),
            ("1h1h", Syntax),
            ("999999999h", Syntax),
            ("0s", Range),
            ("0h0m0s", Range),
            ("8760h1s", Range),
            ("99999999h", Range),
        ] {
            assert_eq!(text.parse::<PositiveDuration>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds in 1..=31_536_000i64) {
            let duration = PositiveDuration(SignedDuration::from_secs(seconds));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
