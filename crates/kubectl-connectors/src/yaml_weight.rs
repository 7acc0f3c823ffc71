//! The memory that a YAML text takes with its aliases expanded.

use std::collections::HashMap;

use granit_parser::Event;

/// The limit of bytes that the values of one text may take.
const MOST: u64 = 64 * 1024 * 1024;
/// The bytes of a value beside its text.
const OF_A_VALUE: u64 = 32;

/// Counts while the text is parsed. An alias weighs as much as its anchor, so that a short text of aliases of aliases is
/// refused before it is expanded.
#[derive(Debug, Default)]
pub(crate) struct YamlWeight {
    total: u64,
    /// The weight of each anchor that is complete.
    anchors: HashMap<usize, u64>,
    /// The anchors of the open collections, and the total before each.
    open: Vec<(usize, u64)>,
}

impl YamlWeight {
    /// Counts an event. An error if the text is too heavy.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the parser may have further events, which are no nodes"
    )]
    pub(crate) fn add(&mut self, event: &Event<'_>) -> Result<(), String> {
        let before = self.total;
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
                self.grow(OF_A_VALUE.saturating_add(length));
                self.keep(*anchor, before);
            }
            // An alias inside its own anchor is refused by the parser of values.
            Event::Alias(anchor) => {
                let weight = self.anchors.get(anchor).copied();
                self.grow(weight.unwrap_or(OF_A_VALUE));
            }
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                self.open.push((*anchor, before));
                self.grow(OF_A_VALUE);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = self.open.pop() {
                    self.keep(anchor, before);
                }
            }
            _ => {}
        }
        if self.total > MOST {
            return Err(format!(
                "its values take more than {MOST} bytes with every alias expanded"
            ));
        }
        Ok(())
    }

    fn grow(&mut self, by: u64) {
        self.total = self.total.saturating_add(by);
    }

    fn keep(&mut self, anchor: usize, before: u64) {
        if anchor != 0 {
            self.anchors
                .insert(anchor, self.total.saturating_sub(before));
        }
    }
}
