//! Indexes: sets of values by a key, without empty sets.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// Adds a value under a key.
pub(super) fn add<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: K, value: V) {
    index.entry(key).or_default().insert(value);
}

/// Removes a value under a key, and the key with its last value.
pub(super) fn take<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: K, value: &V) {
    if let Entry::Occupied(mut entry) = index.entry(key) {
        entry.get_mut().remove(value);
        if entry.get().is_empty() {
            entry.remove();
        }
    }
}
