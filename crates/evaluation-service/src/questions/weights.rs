//! The memory of questions, computed before they are kept.

use std::mem::size_of;

use evaluation_api::access::AccessQuestion;

use super::{Namespace, OpenQuestion};
use crate::world::KeysOfQuestion;

/// The overhead of the allocator for a block.
pub(super) const BLOCK: usize = 24;
/// The first block of a set of ids has room for eleven. A full block splits into two half-full ones.
const IDS: usize = 11 * size_of::<u64>() + 16 + BLOCK;
/// The memory of a used id, while the table of ids grows.
pub(super) const ID: usize = growing(size_of::<u64>());
/// An entry in the index of keys. A block has room for eleven and is never less than half full. A sixth of a further
/// block is above it.
const KEY: usize = (11 * size_of::<(u64, u64)>() + 16 + BLOCK) / 5 * 7 / 6;
/// The memory of a question besides its text: itself, its keys, and its id among the questions to be checked.
const QUESTION: usize = size_of::<OpenQuestion>() + 8 * BLOCK + KeysOfQuestion::MOST * KEY + IDS;
/// Its places in tables, which never shrink.
pub(super) const QUESTION_PLACE: usize = growing(size_of::<(u64, Box<OpenQuestion>)>());
/// The memory of a namespace in the questions: its ids, and its name here and among the reviews.
pub(super) const NAMESPACE: usize = IDS + 2 * (LONGEST_LABEL + BLOCK);
const LONGEST_LABEL: usize = 63;
/// Its places in tables.
pub(super) const NAMESPACE_PLACE: usize = 2 * growing(size_of::<(String, Namespace)>());

/// The limit of any question, with all its additions and the longest names.
pub(super) const LARGEST: usize = 4096;

/// The memory of an entry in a growing table: more than half of the new table is empty, and the old one still exists.
const fn growing(entry: usize) -> usize {
    (entry + 1) * 24 / 7
}

/// The memory that a question returns at its end, except that of its namespace.
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
    use crate::fixtures;

    #[test]
    fn a_question_weighs_the_names_of_its_pod_as_well() {
        let mut asked = fixtures::question();
        let with_pod = question(&asked);
        let pod = asked.pod.take().unwrap();
        let names = pod.name.capacity() + pod.uid.capacity();
        assert_eq!(with_pod, question(&asked) + names);
    }

    #[test]
    fn an_entry_weighs_its_part_of_a_table_that_grows() {
        let entry = size_of::<(u64, u64)>();
        // With one entry too many, a table of twice the size exists beside the full one.
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
