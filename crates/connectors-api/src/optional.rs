//! Deserializes `{}` as absent.
//!
//! The source document writes `defaultPermission: {}` for "none". Handling that during deserialization means
//! that `Some(_)` is always complete in the rest of the code.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};

/// For `#[serde(deserialize_with)]`: an object with no field is `None`, any other must be a `T`.
pub(crate) fn non_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_map(NonEmpty(PhantomData))
}

struct NonEmpty<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NonEmpty<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some(first) = map.next_key()? else {
            return Ok(None);
        };
        T::deserialize(MapAccessDeserializer::new(Peeked {
            first: Some(first),
            rest: map,
        }))
        .map(Some)
    }
}

/// A map of which the first key was already read.
struct Peeked<A> {
    first: Option<String>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Peeked<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(key) => seed.deserialize(StringDeserializer::new(key)).map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn an_object_without_fields_is_none_and_anything_but_an_object_is_refused() {
        let read = |value: Value| non_empty::<_, Map<String, Value>>(value);
        assert_eq!(read(json!({})).unwrap(), None);
        let fields = read(json!({"a": 1, "b": [2]})).unwrap();
        assert_eq!(fields.map(Value::from), Some(json!({"a": 1, "b": [2]})));
        assert_eq!(
            read(json!("text")).unwrap_err().to_string(),
            "invalid type: string \"text\", expected an object"
        );
    }
}
