//! Lists that are too long for one object, in parts.
//!
//! The parts are the leaves of a tree over the bits of a digest of each entry. A leaf that is too large
//! becomes two; which leaves there are follows from the entries alone. One entry more or less changes one
//! leaf, or makes two of one or one of two; all other leaves keep their names and their entries.

use sha2::{Digest, Sha256};

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListPart<T> {
    /// The bits that all entries of it begin with; empty when there is one leaf.
    pub(super) bits: String,
    /// In the order in which they came.
    pub(super) entries: Vec<T>,
}

struct Weighed<T> {
    entry: T,
    size: usize,
    digest: u64,
}

/// Parts of at most that size, or of one entry.
pub(super) fn split<T>(
    entries: impl IntoIterator<Item = T>,
    most: usize,
    text: impl Fn(&T) -> String,
    size: impl Fn(&T) -> usize,
) -> Vec<ListPart<T>> {
    let weigh = |entry: T| Weighed {
        size: size(&entry),
        digest: digest(&text(&entry)),
        entry,
    };
    let all = entries.into_iter().map(weigh).collect();
    let mut parts = Vec::new();
    grow(&mut parts, String::new(), all, most);
    parts
}

fn digest(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest
        .first_chunk()
        .map_or(0, |bits| u64::from_be_bytes(*bits))
}

fn grow<T>(parts: &mut Vec<ListPart<T>>, bits: String, entries: Vec<Weighed<T>>, most: usize) {
    let size: usize = entries.iter().map(|it| it.size).sum();
    let depth = bits.len();
    if size <= most || entries.len() <= 1 || depth == 64 {
        let entries: Vec<T> = entries.into_iter().map(|it| it.entry).collect();
        if !entries.is_empty() {
            parts.push(ListPart { bits, entries });
        }
        return;
    }
    let has_bit = |it: &Weighed<T>| it.digest >> (63 - depth) & 1 == 1;
    let (ones, zeros) = entries.into_iter().partition(has_bit);
    grow(parts, format!("{bits}0"), zeros, most);
    grow(parts, format!("{bits}1"), ones, most);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn parts(entries: &[String], most: usize) -> BTreeMap<String, Vec<String>> {
        let parts = split(entries.to_vec(), most, Clone::clone, String::len);
        parts.into_iter().map(|it| (it.bits, it.entries)).collect()
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|it| format!("name-{it:05}")).collect()
    }

    #[test]
    fn what_fits_is_one_part_without_bits() {
        assert_eq!(parts(&names(3), 30), [(String::new(), names(3))].into());
        assert_eq!(parts(&[], 30), BTreeMap::new());
    }

    #[test]
    fn one_entry_that_is_too_large_is_a_part_of_its_own() {
        let found = parts(&["large".to_owned(), "x".to_owned()], 2);
        assert_eq!(found.values().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    }

    /// Other bits would give other names to all objects of a policy that is too long for one.
    #[test]
    fn the_bits_of_an_entry_begin_its_digest() {
        assert_eq!(digest("a"), 0xca97_8112_ca1b_bdca);
        let found = parts(&["a".to_owned(), "b".to_owned()], 1);
        let part = |bits: &str, entry: &str| (bits.to_owned(), vec![entry.to_owned()]);
        // That of b begins with 3e.
        assert_eq!(found, [part("0", "b"), part("1", "a")].into());
    }

    proptest! {
        #[test]
        fn every_entry_is_in_exactly_one_part_that_fits(count in 0_usize..300, most in 10_usize..400) {
            let found = parts(&names(count), most);
            let mut all: Vec<_> = found.values().flatten().cloned().collect();
            all.sort();
            prop_assert_eq!(all, names(count));
            for entries in found.values() {
                let size: usize = entries.iter().map(String::len).sum();
                prop_assert!(size <= most || entries.len() == 1);
            }
        }

        #[test]
        fn one_entry_more_changes_three_parts_at_most(count in 1_usize..300, new in 0_usize..300) {
            let mut entries = names(count);
            let before = parts(&entries, 80);
            entries.push(format!("new-{new:06}"));
            let after = parts(&entries, 80);
            let same = after.iter().filter(|(bits, it)| before.get(*bits) == Some(it)).count();
            // A leaf that splits may have to do so more than once, and only its own entries move.
            let moved: usize = after
                .iter()
                .filter(|(bits, it)| before.get(*bits) != Some(it))
                .map(|(_, it)| it.len())
                .sum();
            prop_assert!(moved <= 9, "{moved} entries moved");
            prop_assert!(before.len() - same <= 1, "{} of {} leaves changed", before.len() - same, before.len());
        }
    }
}
