//! What questions take of memory, before they are kept.

use std::collections::BTreeSet;
use std::mem::size_of;

use evaluation_api::access::AccessQuestion;

use super::{Namespace, OpenQuestion};

/// What the allocator adds to a block.
const BLOCK: usize = 24;
/// A set of ids has its first block with room for eleven; a full one falls into two that are half full.
const IDS: usize = 11 * size_of::<u64>() + 16 + BLOCK;
/// What an id that was seen takes, while the table of ids grows.
pub(super) const ID: usize = growing(size_of::<u64>());
/// What a question takes besides its text: itself, and the ids that are kept for what it is about and among those
/// that are to be looked at.
const QUESTION: usize = size_of::<OpenQuestion>() + 8 * BLOCK + 2 * IDS;
/// Its places in tables, which stay as large as they ever were.
pub(super) const QUESTION_PLACE: usize =
    growing(size_of::<(u64, Box<OpenQuestion>)>()) + growing(size_of::<(u64, BTreeSet<u64>)>());
/// What a namespace takes that is asked about: its ids, and its name here and where it is known whether it may be.
pub(super) const NAMESPACE: usize = IDS + 2 * (LONGEST_LABEL + BLOCK);
const LONGEST_LABEL: usize = 63;
/// Its places in tables.
pub(super) const NAMESPACE_PLACE: usize = 2 * growing(size_of::<(String, Namespace)>());

/// No question takes more, with all that it brings and names as long as they may be.
pub(super) const LARGEST: usize = 4096;

/// What an entry takes of a table that grows: more than half of the new one is empty, and the old one is there still.
const fn growing(entry: usize) -> usize {
    (entry + 1) * 24 / 7
}

/// What goes with a question when it ends, but for its namespace.
pub(super) fn question(question: &AccessQuestion) -> usize {
    let AccessQuestion {
        subject,
        connector,
        permission: _,
        verb,
        pod,
    } = question;
    let pod = pod
        .iter()
        .map(|pod| pod.name.capacity() + pod.uid.capacity());
    let names = [
        &subject.namespace,
        &subject.name,
        &connector.namespace,
        &connector.name,
        verb,
    ];
    let names: usize = names.into_iter().map(String::capacity).sum();
    QUESTION + names + pod.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use allocation_counter::measure;

    use super::*;

    #[test]
    fn an_entry_weighs_its_part_of_a_table_that_grows() {
        let entry = size_of::<(u64, u64)>();
        // With one more than fits, a table of twice the size stands beside the full one.
        for entries in [29, 113, 897, 7169] {
            let info = measure(|| {
                let table: HashMap<u64, u64> = HashMap::new();
                let table = (0..entries).fold(table, |mut table, id| {
                    table.insert(id, id);
                    table
                });
                assert_eq!(table.len() as u64, entries);
            });
            // Rounded down, and without the few bytes at the end of a table.
            let weight = entries * (growing(entry) as u64 + 1);
            assert!(info.bytes_max <= weight, "{} of {weight}", info.bytes_max);
            assert!(info.bytes_max > weight * 9 / 10, "{}", info.bytes_max);
        }
    }
}
