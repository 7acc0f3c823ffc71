//! The memory that a JSON text takes when it is read: a few bytes of text can become an object of hundreds, so a
//! service weighs a text before it reads it.
//!
//! Invariant: no tree takes more bytes than its text weighs.

/// The overhead of the allocator for each block.
const BLOCK: usize = 24;
/// An object is a node with space for eleven fields.
const OBJECT: usize = 704;
/// A further field takes its part of another node, which may be less than half full.
const FIELD: usize = 160;
/// A growing list has space for four elements at first, and later for twice as many as it has. While it
/// grows, the previous list exists as well.
const LIST: usize = 160;
const ELEMENT: usize = 128;
/// A buffer with a few bytes in it.
const SMALLEST_BUFFER: usize = 16;

/// The most that the tree of a text takes, from the punctuation in it. Punctuation in strings does not count. A string
/// with escapes is put together beside the text, in a buffer that grows and is used again.
#[must_use]
pub fn weigh(text: &[u8]) -> usize {
    let (mut weight, mut is_string, mut is_escaped) = (text.len(), false, false);
    let (mut string, mut has_escapes, mut longest) = (0, false, 0);
    for byte in text {
        if is_string {
            string += 1;
            (is_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            has_escapes |= is_escaped;
            if !is_string && has_escapes {
                longest = longest.max(string);
            }
            continue;
        }
        weight += match byte {
            b'"' => {
                (is_string, string, has_escapes) = (true, 0, false);
                BLOCK
            }
            b'{' => OBJECT,
            b'[' => LIST,
            b':' => FIELD,
            b',' => ELEMENT,
            _ => 0,
        };
    }
    weight + SMALLEST_BUFFER + 2 * longest
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    /// The peak of the memory while a text is parsed.
    fn taken(text: &str) -> usize {
        let info = measure(|| {
            let read: Result<Value, _> = serde_json::from_str(text);
            std::hint::black_box(read).unwrap();
        });
        usize::try_from(info.bytes_max).unwrap()
    }

    fn repeated(piece: &str) -> String {
        format!("[{}]", vec![piece; 10_000].join(","))
    }

    #[test]
    fn nothing_takes_more_than_it_weighs() {
        let wide: Map<String, Value> = (0..10_000)
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
        texts.push(json!("\n".repeat(100_000)).to_string());
        for text in texts {
            let (taken, weight) = (taken(&text), weigh(text.as_bytes()));
            assert!(taken <= weight, "{taken} of {weight}: {text:.40}");
        }
    }

    #[test]
    fn what_becomes_large_in_memory_is_heavy() {
        let of = |text: &str| weigh(text.as_bytes());
        assert_eq!(of(""), SMALLEST_BUFFER);
        let list = |item: &str| format!("[{}]", vec![item; 1000].join(","));
        for (text, at_least) in [
            (list("1"), 1000 * 64),
            (list("[]"), 1000 * 64),
            (list("{}"), 1000 * 640),
            (list(r#"{"":0}"#), 1000 * 640),
            (list(&format!("{:?}", "x".repeat(1000))), 1_000_000),
        ] {
            assert!(of(&text) >= at_least, "{}: {}", &text[..20], of(&text));
        }
    }

    #[test]
    fn marks_in_strings_weigh_nothing() {
        let of = |text: &str| weigh(text.as_bytes());
        let plain = r#""{{{{[[,,:""#;
        assert_eq!(of(plain), plain.len() + BLOCK + SMALLEST_BUFFER);
        // Where there are escapes the string is put together in a buffer.
        for text in [r#""\"{{{{[[""#, r#""\\""#] {
            let buffer = SMALLEST_BUFFER + 2 * (text.len() - 1);
            assert_eq!(of(text), text.len() + BLOCK + buffer, "{text}");
        }
        let after = 7 + LIST + BLOCK + ELEMENT + OBJECT + SMALLEST_BUFFER + 2 * 3;
        assert_eq!(of(r#"["\\",{"#), after, "after a string");
    }

    /// Any JSON: nested, wide, full of small objects or of long texts.
    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            "[a-z]{200,400}".prop_map(Value::from),
            "([a-z]|\\n|\"){200,400}".prop_map(Value::from),
        ];
        leaf.prop_recursive(8, 400, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,12}", inner, 0..40)
                    .prop_map(|it| Value::from(Map::from_iter(it))),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_tree_takes_more_bytes_than_it_weighs(tree in trees()) {
            for text in [tree.to_string(), format!("{tree:#}")] {
                let (taken, weight) = (taken(&text), weigh(text.as_bytes()));
                prop_assert!(taken <= weight, "{taken} of {weight}: {text}");
            }
        }
    }
}
