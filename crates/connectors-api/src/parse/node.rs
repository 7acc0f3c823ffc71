//! A JSON value as a deserializer that keeps errors as data.
//!
//! The deserializer of `serde_json` turns an unknown field into a finished sentence. The hint needs the name
//! and its alternatives.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::MOST_SPEC_BYTES;

/// A value under `spec`.
#[derive(Clone, Copy)]
pub(super) struct Node<'de>(pub(super) &'de Value);

/// The problem with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueProblem {
    UnknownField {
        field: String,
        known: &'static [&'static str],
    },
    MissingField(&'static str),
    Null,
    TooLong(usize),
    Invalid(String),
}

/// Below this similarity a suggestion would confuse more than it helps.
const SIMILAR: f64 = 0.75;

impl ValueProblem {
    pub(super) fn unknown_field(&self) -> Option<&str> {
        match self {
            Self::UnknownField { field, .. } => Some(field),
            Self::MissingField(_) | Self::Null | Self::TooLong(_) | Self::Invalid(_) => None,
        }
    }

    pub(super) fn missing_field(&self) -> Option<&'static str> {
        match self {
            Self::MissingField(field) => Some(field),
            Self::UnknownField { .. } | Self::Null | Self::TooLong(_) | Self::Invalid(_) => None,
        }
    }

    pub(super) fn suggestion(&self) -> Option<&'static str> {
        let Self::UnknownField { field, known } = self else {
            return None;
        };
        let field = field.to_lowercase();
        let similarity =
            |word: &str| strsim::normalized_damerau_levenshtein(&field, &word.to_lowercase());
        let (likeness, word) = known
            .iter()
            .map(|word| (similarity(word), *word))
            .max_by(|(left, _), (right, _)| left.total_cmp(right))?;
        (likeness >= SIMILAR).then_some(word)
    }
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField { known, .. } => match self.suggestion() {
                Some(word) => write!(f, "unknown field; did you mean `{word}`?"),
                None => write!(f, "unknown field; known here: {}", known.join(", ")),
            },
            Self::MissingField(field) => write!(f, "field `{field}` is required"),
            Self::Null => f.write_str("null is not a value; give one or leave the field out"),
            Self::TooLong(bytes) => write!(
                f,
                "{bytes} bytes of JSON, and at most {MOST_SPEC_BYTES} may be; make several objects of it"
            ),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ValueProblem {}

impl de::Error for ValueProblem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Invalid(message.to_string())
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownField {
            field: field.to_owned(),
            known,
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::MissingField(field)
    }
}

impl<'de> IntoDeserializer<'de, ValueProblem> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = ValueProblem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        match self.0 {
            Value::Null => Err(ValueProblem::Null),
            Value::Bool(bool) => visitor.visit_bool(*bool),
            Value::Number(number) => number.deserialize_any(visitor).map_err(de::Error::custom),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                SeqDeserializer::new(items.iter().map(Node)).deserialize_any(visitor)
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (name.as_str(), Node(value)));
                MapDeserializer::new(fields).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        if self.0.is_null() {
            Err(ValueProblem::Null)
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        match self.0 {
            Value::Null => Err(ValueProblem::Null),
            Value::String(word) => word
                .as_str()
                .into_deserializer()
                .deserialize_enum(name, variants, visitor),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Err(
                ValueProblem::Invalid(format!("must be one of {}", variants.join(", "))),
            ),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
