//! A value as a program sees it.

use serde_json::Value;

use super::Uncertain;

/// A value of an object, or a constant of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SeenValue<'a> {
    Null,
    Truth(bool),
    Whole(i128),
    /// A number with a fraction or an exponent, or beyond 64 bits. The engine alone compares it.
    OtherNumber,
    Text(&'a str),
    /// An array or an object. The engine alone compares it with another one.
    Nested,
}

impl<'a> From<&'a Value> for SeenValue<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Truth(*truth),
            Value::Number(number) => number.as_i128().map_or(Self::OtherNumber, Self::Whole),
            Value::String(text) => Self::Text(text),
            Value::Array(_) | Value::Object(_) => Self::Nested,
        }
    }
}

impl SeenValue<'_> {
    /// Whether two values are the same. Values of different types never are.
    pub(super) fn same(self, other: Self) -> Result<bool, Uncertain> {
        match (self, other) {
            (Self::Null, Self::Null) => Ok(true),
            (Self::Truth(one), Self::Truth(other)) => Ok(one == other),
            (Self::Whole(one), Self::Whole(other)) => Ok(one == other),
            (Self::Text(one), Self::Text(other)) => Ok(one == other),
            (Self::OtherNumber, Self::Whole(_) | Self::OtherNumber)
            | (Self::Whole(_), Self::OtherNumber)
            | (Self::Nested, Self::Nested) => Err(Uncertain),
            (
                Self::Null
                | Self::Truth(_)
                | Self::Whole(_)
                | Self::OtherNumber
                | Self::Text(_)
                | Self::Nested,
                _,
            ) => Ok(false),
        }
    }
}
