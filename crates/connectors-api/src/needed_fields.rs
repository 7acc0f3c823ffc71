//! Objects in part: only the fields of a JSON text that a question needs take memory.
//!
//! Owns: which fields are read. Refuses to know: their meaning.
//!
//! Invariant: a text is read in part only if it can be read as a whole, and each needed path leads to the same value in
//! both. A text that some reader may understand in its own way is not read in part: a deep one, and one with a name that
//! serde gives a meaning.

use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The most levels of a text that is read in part.
const MOST_LEVELS: usize = 64;
/// Names that begin so turn an object into another value, for some readers.
const PRIVATE: &str = "$serde_json::private::";

/// The needed fields of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededFields<'a>(Needed<'a>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Needed<'a> {
    All,
    /// Of an object, these fields. Any other value is needed as a whole.
    Fields {
        fields: Vec<(&'a str, NeededFields<'a>)>,
        /// The names of all other fields, too.
        names: bool,
    },
}

impl<'a> NeededFields<'a> {
    /// All of the value.
    pub const ALL: Self = Self(Needed::All);

    /// No field, until some are added.
    pub const NONE: Self = Self(Needed::Fields {
        fields: Vec::new(),
        names: false,
    });

    /// Whether no field is left out.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        matches!(self.0, Needed::All)
    }

    /// Adds the value at a path, with all below it.
    pub fn add(&mut self, path: impl IntoIterator<Item = &'a str>) {
        let mut at = self;
        for name in path {
            let Some(next) = at.field(name) else { return };
            at = next;
        }
        *at = Self::ALL;
    }

    /// Adds the names of all fields of the object at a path. A field of which only the name is needed is read as null.
    pub fn add_names(&mut self, path: impl IntoIterator<Item = &'a str>) {
        let mut at = self;
        for name in path {
            let Some(next) = at.field(name) else { return };
            at = next;
        }
        if let Needed::Fields { names, .. } = &mut at.0 {
            *names = true;
        }
    }

    /// The field of this name. None if all fields are needed anyway.
    fn field(&mut self, name: &'a str) -> Option<&mut Self> {
        let Needed::Fields { fields, .. } = &mut self.0 else {
            return None;
        };
        let known = fields.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            fields.push((name, Self::NONE));
            fields.len() - 1
        });
        fields.get_mut(at).map(|(_, field)| field)
    }

    /// Reads the needed fields. None if the text can only be read as a whole, or not at all.
    #[must_use]
    pub fn read(&self, text: &[u8]) -> Option<Value> {
        let text = str::from_utf8(text).ok()?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let part = NeededPart {
            needed: self,
            levels: MOST_LEVELS,
        };
        let value = part.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some(value)
    }
}

/// Reads the needed part of a value.
#[derive(Clone, Copy)]
struct NeededPart<'a> {
    needed: &'a NeededFields<'a>,
    levels: usize,
}

/// Reads a value that is not needed, to find out whether it can be read.
#[derive(Clone, Copy)]
struct SkippedPart {
    levels: usize,
}

/// Reads the name of a field.
struct FieldName<'a> {
    fields: &'a [(&'a str, NeededFields<'a>)],
    names: bool,
}

enum FoundName<'a> {
    Needed(&'a str, &'a NeededFields<'a>),
    Named(String),
    Skipped,
}

impl<'de> DeserializeSeed<'de> for NeededPart<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match &self.needed.0 {
            Needed::All => Value::deserialize(deserializer),
            Needed::Fields { .. } => deserializer.deserialize_any(self),
        }
    }
}

/// As `Value` reads itself, but for the fields of objects.
impl<'de> Visitor<'de> for NeededPart<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (fields, names) = match &self.needed.0 {
            Needed::All => (&[][..], true),
            Needed::Fields { fields, names } => (fields.as_slice(), *names),
        };
        let levels = next_level(self.levels)?;
        let mut read = Map::new();
        while let Some(found) = map.next_key_seed(FieldName { fields, names })? {
            // Of two fields with the same name the last one counts, as usual in JSON.
            let (name, value) = match found {
                FoundName::Needed(name, needed) => {
                    let value = map.next_value_seed(NeededPart { needed, levels })?;
                    (name.to_owned(), value)
                }
                FoundName::Named(name) => {
                    map.next_value_seed(SkippedPart { levels })?;
                    (name, Value::Null)
                }
                FoundName::Skipped => {
                    map.next_value_seed(SkippedPart { levels })?;
                    continue;
                }
            };
            read.insert(name, value);
        }
        Ok(read.into())
    }
}

impl<'de> DeserializeSeed<'de> for SkippedPart {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SkippedPart {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let levels = next_level(self.levels)?;
        while seq.next_element_seed(Self { levels })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let levels = next_level(self.levels)?;
        let nothing = || FieldName {
            fields: &[],
            names: false,
        };
        while map.next_key_seed(nothing())?.is_some() {
            map.next_value_seed(Self { levels })?;
        }
        Ok(())
    }
}

fn next_level<E: Error>(levels: usize) -> Result<usize, E> {
    let next = levels.checked_sub(1);
    next.ok_or_else(|| E::custom("more levels than are read in part"))
}

impl<'de, 'a> DeserializeSeed<'de> for FieldName<'a> {
    type Value = FoundName<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for FieldName<'a> {
    type Value = FoundName<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if name.starts_with(PRIVATE) {
            return Err(E::custom("a name with a meaning of its own"));
        }
        let needed = self.fields.iter().find(|(needed, _)| *needed == name);
        Ok(match needed {
            Some((name, needed)) => FoundName::Needed(name, needed),
            None if self.names => FoundName::Named(name.to_owned()),
            None => FoundName::Skipped,
        })
    }
}

#[cfg(test)]
mod tests;
