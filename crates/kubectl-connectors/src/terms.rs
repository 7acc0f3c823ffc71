//! The common parts of all reports: names, time spans, words of a command.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the schema.
pub const API_VERSION: &str = "cli.connectors.alauda.io/v1";

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl NamespacedName {
    /// Made from both.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl std::fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// True for a field that a report leaves out.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) const fn is_false(it: &bool) -> bool {
    !*it
}

/// The seconds from one time to another. Zero if the second time is earlier.
#[must_use]
pub fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

/// A time span for people, in its two largest units: `45s`, `12m`, `3h20m`, `2d4h`.
#[must_use]
pub fn span(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = seconds.max(0);
    let (large, unit, rest, small) = if seconds < MINUTE {
        return format!("{seconds}s");
    } else if seconds < HOUR {
        return format!("{}m", seconds / MINUTE);
    } else if seconds < DAY {
        (seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm')
    } else {
        (seconds / DAY, 'd', seconds % DAY / HOUR, 'h')
    };
    if rest == 0 {
        format!("{large}{unit}")
    } else {
        format!("{large}{unit}{rest}{small}")
    }
}

/// A word of a command, quoted for a shell where that is necessary.
#[must_use]
pub fn shell(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_./:=,@%+-".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_its_two_largest_units() {
        for (seconds, text) in [
            (-5, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3599, "59m"),
            (3600, "1h"),
            (3660, "1h1m"),
            (86_399, "23h59m"),
            (86_400, "1d"),
            (90_000, "1d1h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn a_word_of_a_command_means_nothing_else_to_a_shell() {
        for (word, quoted) in [
            ("run-1", "run-1"),
            ("a=b,c=d", "a=b,c=d"),
            ("", "''"),
            ("a b", "'a b'"),
            ("x;rm -rf", "'x;rm -rf'"),
            ("it's", r"'it'\''s'"),
            (r#"{"a":1}"#, r#"'{"a":1}'"#),
        ] {
            assert_eq!(shell(word), quoted);
        }
    }
}
