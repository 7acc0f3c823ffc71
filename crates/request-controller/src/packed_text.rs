//! Texts that differ in a few words: what they have in common is kept once.
//!
//! Requests for one connector, and approvals of one pipeline, have the same fields and the same sentences, and differ in
//! names, UIDs, versions and times.
//! Such words have a digit, nearly always. So a text is kept as its shape, which is the text without the words that have a
//! digit, and those words. Texts of one shape share it. Nothing depends on what a word is: a text that has nothing in
//! common with others takes the memory of its text, and one that would become longer is kept as it is.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use crate::interner::Interner;

/// A packed text may be longer than the text by one part in so many: the next text shares its shape.
const LONGER: usize = 4;

/// Encloses the number of a word in a shape, and separates words. JSON escapes it in texts.
const MARK: char = '\u{1}';

/// A text.
#[derive(Clone, Debug)]
pub(crate) struct PackedText {
    /// The text, with a number in the place of each word that has a digit.
    shape: Arc<str>,
    /// These words, each once.
    words: Box<str>,
}

impl PackedText {
    /// Packs a text that is JSON.
    pub(crate) fn of(text: &str, shapes: &mut Interner<str>) -> Self {
        let (mut shape, mut words) = (String::with_capacity(text.len()), String::new());
        let mut numbers = HashMap::new();
        for part in text.split_inclusive(|it: char| !is_of_word(it)) {
            let word = part.trim_end_matches(|it: char| !is_of_word(it));
            if word.bytes().any(|it| it.is_ascii_digit()) {
                let next = numbers.len();
                let number = *numbers.entry(word).or_insert_with(|| {
                    if next > 0 {
                        words.push(MARK);
                    }
                    words.push_str(word);
                    next
                });
                // Writing to a text cannot fail.
                let _ = write!(shape, "{MARK}{number}{MARK}");
            } else {
                shape.push_str(word);
            }
            shape.push_str(&part[word.len()..]);
        }
        // Short numbers take several times their memory.
        if shape.len() + words.len() > text.len() + text.len() / LONGER {
            (shape, words) = (text.to_owned(), String::new());
        }
        Self {
            shape: shapes.share(shape),
            words: words.into(),
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let words: Vec<_> = self.words.split(MARK).collect();
        let parts = self.shape.split(MARK).enumerate();
        // Each second part is the number of a word.
        let parts = parts.map(|(place, part)| {
            if place % 2 == 0 {
                return part;
            }
            let number = part.parse::<usize>();
            let word = number.ok().and_then(|it| words.get(it));
            word.copied().unwrap_or_default()
        });
        parts.collect()
    }

    /// The most memory that it takes, if no other text has its shape.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.len() + self.words.len()
    }

    /// The text is about to go.
    pub(crate) fn release(&self, shapes: &mut Interner<str>) {
        shapes.release(&self.shape);
    }
}

/// Slashes and spaces separate words, so that a name in a path or in a sentence is the same word as the name alone.
const fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | ':' | '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn request(number: usize) -> String {
        let pod = format!("run-{number}-pod");
        let note = format!("waits for the approval of apps/{pod}");
        json!({
            "metadata": {"name": format!("areq-{number}"), "resourceVersion": number.to_string()},
            "spec": {"pod": pod}, "status": {"notes": [note, note], "generation": 1},
        })
        .to_string()
    }

    #[test]
    fn texts_that_differ_in_names_and_numbers_share_the_rest() {
        let mut shapes = Interner::default();
        let texts: Vec<_> = (10..90).map(request).collect();
        let packed: Vec<_> = texts
            .iter()
            .map(|it| PackedText::of(it, &mut shapes))
            .collect();
        assert_eq!(shapes.len(), 1);
        for (text, packed) in texts.iter().zip(&packed) {
            assert_eq!(packed.text(), *text);
            // Each word once: the name, the version, the pod, and the generation.
            assert_eq!(packed.words.split(MARK).count(), 4);
        }
        for packed in packed {
            packed.release(&mut shapes);
        }
        assert_eq!(shapes.len(), 0);
    }

    #[test]
    fn texts_without_digits_or_without_anything_are_texts() {
        let mut shapes = Interner::default();
        for text in ["", "{}", "7", "{\"a\":\"b\"}", "0 0 00 a0 0a"] {
            assert_eq!(PackedText::of(text, &mut shapes).text(), text);
        }
    }

    #[test]
    fn a_text_of_short_numbers_takes_little_more_than_its_own_memory() {
        let numbers: Vec<_> = (0..2_000).collect();
        for text in [json!(numbers), json!(vec![1; 2_000])] {
            let text = text.to_string();
            let mut shapes = Interner::default();
            let packed = PackedText::of(&text, &mut shapes);
            let taken = packed.bytes();
            assert!(taken <= text.len() + text.len() / LONGER, "{taken}");
            assert_eq!(packed.text(), text);
            packed.release(&mut shapes);
            assert_eq!(shapes.len(), 0);
        }
    }

    proptest! {
        #[test]
        fn a_text_is_what_it_was(texts in proptest::collection::vec(".*", 0..8), number in any::<i64>()) {
            let text = json!({"texts": texts, "number": number}).to_string();
            let packed = PackedText::of(&text, &mut Interner::default());
            prop_assert_eq!(packed.text(), text);
        }
    }
}
