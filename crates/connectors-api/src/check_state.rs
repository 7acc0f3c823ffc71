//! The state of an object according to the duck type: the word in `status.state`.
//!
//! Rego modules answer with the same words, so both are parsed here.

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::words::words;

/// The longest word that a status can show.
const LONGEST: usize = 63;

/// The state of an object, identified by its word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub enum ObjectState {
    /// An approver approved.
    Approved,
    /// A test passed.
    Passed,
    /// No decision yet. An object without a state is pending.
    Pending,
    /// An approver rejected.
    Rejected,
    /// Any other word, such as `expired` or a misspelling.
    Other(OtherWord),
}

/// A word other than the known ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OtherWord(String);

words! {
    /// The meaning of a state for the check.
    CheckOutcome {
        /// The object passes.
        Passed,
        /// The object does not pass yet.
        Pending,
        /// The object is rejected, finally.
        Rejected,
        /// The object does not pass: before a grant the check waits, after a grant this revokes.
        NotHolding,
    }
}

/// The reason why an object has no valid state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The status is not an object.
    #[error("status: must be an object, not {0}")]
    Status(&'static str),
    /// The state is not a string.
    #[error("status.state: must be a string, not {0}")]
    State(&'static str),
    /// The word is too long.
    #[error("status.state: longer than {LONGEST} bytes")]
    TooLong,
}

impl ObjectState {
    /// The state in `status.state` of an object. No status, no state, `null` and an empty word all mean
    /// pending.
    pub fn of(object: &Value) -> Result<Self, StateError> {
        match object.get("status") {
            None | Some(Value::Null) => Ok(Self::Pending),
            Some(Value::Object(status)) => match status.get("state") {
                None | Some(Value::Null) => Ok(Self::Pending),
                Some(Value::String(word)) => Self::from_word(word).ok_or(StateError::TooLong),
                Some(other) => Err(StateError::State(kind(other))),
            },
            Some(other) => Err(StateError::Status(kind(other))),
        }
    }

    /// Parses a word. None if it is too long. Case matters: `Approved` is not `approved`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "approved" => Some(Self::Approved),
            "passed" => Some(Self::Passed),
            "pending" | "" => Some(Self::Pending),
            "rejected" => Some(Self::Rejected),
            other => (other.len() <= LONGEST).then(|| Self::Other(OtherWord(other.to_owned()))),
        }
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Approved => "approved",
            Self::Passed => "passed",
            Self::Pending => "pending",
            Self::Rejected => "rejected",
            Self::Other(OtherWord(word)) => word,
        }
    }

    /// The meaning of the state for a check.
    #[must_use]
    pub const fn outcome(&self) -> CheckOutcome {
        match self {
            Self::Approved | Self::Passed => CheckOutcome::Passed,
            Self::Pending => CheckOutcome::Pending,
            Self::Rejected => CheckOutcome::Rejected,
            Self::Other(_) => CheckOutcome::NotHolding,
        }
    }
}

impl From<ObjectState> for String {
    fn from(state: ObjectState) -> Self {
        state.as_str().to_owned()
    }
}

/// The kind of a value, for messages that must not contain the value.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::CheckOutcome::{NotHolding, Passed, Pending, Rejected};
    use super::*;
    use crate::testing::json_values;

    #[test]
    fn every_word_has_one_meaning() {
        for (word, outcome) in [
            ("approved", Passed),
            ("passed", Passed),
            ("pending", Pending),
            ("", Pending),
            ("rejected", Rejected),
            ("expired", NotHolding),
            ("running", NotHolding),
            ("Approved", NotHolding),
            ("APPROVED", NotHolding),
            ("approved ", NotHolding),
            (" passed", NotHolding),
            ("approve", NotHolding),
            ("true", NotHolding),
            ("Rejected", NotHolding),
        ] {
            let state = ObjectState::of(&json!({"status": {"state": word}})).unwrap();
            assert_eq!(state.outcome(), outcome, "{word}");
            let shown = if word.is_empty() { "pending" } else { word };
            assert_eq!(state.as_str(), shown);
            assert_eq!(serde_json::to_value(state).unwrap(), shown);
        }
    }

    #[test]
    fn nothing_said_is_pending() {
        for silent in [
            json!({}),
            json!({"status": null}),
            json!({"status": {}}),
            json!({"status": {"state": null}}),
            json!({"status": {"State": "approved"}}),
            json!({"state": "approved"}),
            json!({"data": {"state": "approved"}}),
            // Without an object there is no state either.
            json!(null),
            json!("approved"),
            json!([{"status": {"state": "approved"}}]),
        ] {
            assert_eq!(
                ObjectState::of(&silent),
                Ok(ObjectState::Pending),
                "{silent}"
            );
        }
    }

    #[test]
    fn what_cannot_be_a_word_is_an_error() {
        use StateError::{State, Status, TooLong};
        for (status, error) in [
            (json!("approved"), Status("a string")),
            (json!(["approved"]), Status("a list")),
            (json!(true), Status("a boolean")),
            (json!({"state": true}), State("a boolean")),
            (json!({"state": 1}), State("a number")),
            (json!({"state": ["approved"]}), State("a list")),
            (json!({"state": {"approved": true}}), State("an object")),
            (json!({"state": "a".repeat(64)}), TooLong),
        ] {
            assert_eq!(
                ObjectState::of(&json!({"status": status})),
                Err(error),
                "{status}"
            );
        }
    }

    proptest! {
        /// Only the two words pass, and only in their place.
        #[test]
        fn nothing_else_passes(object in json_values(), word in "\\PC{0,12}") {
            for object in [object, json!({"status": {"state": word}})] {
                if ObjectState::of(&object).is_ok_and(|state| state.outcome() == Passed) {
                    let word = object["status"]["state"].as_str();
                    prop_assert!(matches!(word, Some("approved" | "passed")), "{object}");
                }
            }
        }
    }
}
