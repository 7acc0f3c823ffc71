//! How much JSON may be in memory, read, at the same time. A few bytes of text can be an object of hundreds,
//! so that what a message takes is known before it is read, and waits for room.
//!
//! Owns: what a text may come to, and how much of that there is. Refuses to know: what it says. Invariant: a
//! text never takes more than it was weighed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::Refused;
use crate::places::Purpose;

const MIB: usize = 1024 * 1024;
/// The most that one question may take. Objects as clusters have them take some fifteen times their text.
pub(crate) const MOST: usize = 40 * MIB;
/// All questions that would give something new, and policies as they are written.
const NEW: usize = 120 * MIB;
/// All questions about what was granted: they wait for nobody else.
const GRANTED: usize = 80 * MIB;
/// Room is counted in these: a semaphore has no place for so many bytes.
const UNIT: usize = 1024;
/// How long a call waits for room. The caller comes again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What the allocator adds to a block.
const BLOCK: usize = 24;
/// A text is copied into a buffer that grows first, when something in it is escaped.
const TEXT: usize = 4;
const READER: usize = 64;
/// The first field of an object takes a node with room for eleven, and each further one its part of another
/// that may be less than half full.
const OBJECT: usize = 664 + BLOCK;
const FIELD: usize = 160;
/// A list that grows has room for twice as much as is in it, and for four at first; for a moment there is the
/// one before, too.
const LIST: usize = 4 * 32 + BLOCK;
const ELEMENT: usize = 4 * 32;

/// Room for questions.
#[derive(Debug)]
pub struct Room {
    new: Arc<Semaphore>,
    granted: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            new: Arc::new(Semaphore::new(NEW / UNIT)),
            granted: Arc::new(Semaphore::new(GRANTED / UNIT)),
        }
    }
}

impl Room {
    /// Waits for so much room, but not for long. It goes where the objects go: whoever reads them does so to the
    /// end, also when nobody waits for that any more.
    pub(crate) async fn take(
        &self,
        weight: usize,
        purpose: Purpose,
    ) -> Result<OwnedSemaphorePermit, Refused> {
        if weight > MOST {
            return Err(Refused::TooMuchMemory);
        }
        let room = match purpose {
            Purpose::Granted => &self.granted,
            Purpose::New | Purpose::Written => &self.new,
        };
        let units = u32::try_from(weight.div_ceil(UNIT)).map_err(|_| Refused::TooMuchMemory)?;
        let permit = Arc::clone(room).acquire_many_owned(units);
        let permit = timeout(LONGEST_WAIT, permit).await;
        permit
            .map_err(|_| Refused::TooBusy)?
            .map_err(|_| Refused::Internal)
    }
}

#[cfg(test)]
impl Room {
    /// Whether nothing is taken of it.
    pub(crate) fn is_free(&self) -> bool {
        let Self { new, granted } = self;
        new.available_permits() == NEW / UNIT && granted.available_permits() == GRANTED / UNIT
    }
}

/// The most that a text takes when it is read, if it is JSON.
pub(crate) fn weigh(text: &[u8]) -> usize {
    let mut weight = READER + TEXT * text.len();
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in text {
        if is_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_text = false,
                _ => {}
            }
            continue;
        }
        weight += match byte {
            b'"' => {
                is_text = true;
                BLOCK
            }
            b'{' => OBJECT,
            b':' => FIELD,
            b'[' => LIST,
            b',' => ELEMENT,
            _ => 0,
        };
    }
    weight
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;

    /// What is in memory at most while a text is read.
    fn taken(text: &str) -> usize {
        let info = measure(|| {
            let read: Result<Value, _> = serde_json::from_str(text);
            std::hint::black_box(read).unwrap();
        });
        usize::try_from(info.bytes_max).unwrap()
    }

    fn repeated(piece: &str) -> String {
        let all = vec![piece; 10_000];
        format!("[{}]", all.join(","))
    }

    #[test]
    fn nothing_takes_more_than_it_weighs() {
        let wide: serde_json::Map<String, Value> = (0..10_000)
            .map(|number| (number.to_string(), json!(0)))
            .collect();
        let mut texts: Vec<String> = [
            "{}",
            "{\"\":0}",
            "[]",
            "[0]",
            "0",
            "\"\"",
            "\"\\\"\"",
            "{\"a\":{\"a\":[[]]}}",
            "[0,0,0,0,0]",
            "null",
            "1e300",
            "{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0}",
        ]
        .map(repeated)
        .into();
        texts.push(Value::from(wide).to_string());
        texts.push(json!("x".repeat(100_000)).to_string());
        for text in texts {
            let (taken, weight) = (taken(&text), weigh(text.as_bytes()));
            assert!(taken <= weight, "{taken} of {weight}: {text:.40}");
        }
    }

    #[test]
    fn a_text_is_no_structure_and_an_escaped_quote_ends_none() {
        let plain = weigh(br#""xxxxxxxxxx""#);
        assert_eq!(weigh(br#""{[:,{[:,{[""#), plain);
        assert_eq!(weigh(br#""{[\",\\\"{""#), plain);
        assert_eq!(weigh(b""), READER);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 12, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from);
            let object = prop::collection::vec((".{0,4}", inner), 0..20);
            prop_oneof![list, object.prop_map(Value::from_iter)]
        })
    }

    proptest! {
        #[test]
        fn no_value_takes_more_than_it_weighs(value in values()) {
            let text = value.to_string();
            prop_assert!(taken(&text) <= weigh(text.as_bytes()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_comes_again_and_what_was_granted_has_its_own() {
        let room = Room::default();
        let too_much = room.take(MOST + 1, Purpose::New).await;
        assert!(matches!(too_much, Err(Refused::TooMuchMemory)));
        let mut taken = Vec::new();
        for _ in 0..NEW / MOST {
            taken.push(room.take(MOST, Purpose::New).await.unwrap());
        }
        let before = Instant::now();
        let late = room.take(UNIT, Purpose::Written).await;
        assert!(matches!(late, Err(Refused::TooBusy)));
        assert_eq!(before.elapsed(), LONGEST_WAIT);
        assert!(room.take(MOST, Purpose::Granted).await.is_ok());
        taken.pop();
        assert!(room.take(MOST, Purpose::Written).await.is_ok());
    }
}
