//! Indexes: sets of values by a key, without empty sets.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use connectors_api::template::RenderedLabels;

/// Adds a value under a key.
pub(super) fn add<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: K, value: V) {
    index.entry(key).or_default().insert(value);
}

/// Removes a value under a key, and the key with its last value.
pub(super) fn take<K, V, Q, W>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &Q, value: &W)
where
    K: Ord + Borrow<Q>,
    V: Ord + Borrow<W>,
    Q: Ord + ?Sized,
    W: Ord + ?Sized,
{
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

/// A label and its value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// Items by the labels that they have, or that they select by.
#[derive(Clone, Debug)]
pub(super) struct LabelIndex<T>(BTreeMap<String, BTreeMap<String, BTreeSet<T>>>);

impl<T> Default for LabelIndex<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> LabelIndex<T> {
    pub(super) fn add(&mut self, (key, value): Label<'_>, item: T) {
        let values = self.0.entry(key.to_owned()).or_default();
        add(values, value.to_owned(), item);
    }

    pub(super) fn take<W>(&mut self, (key, value): Label<'_>, item: &W)
    where
        T: Borrow<W>,
        W: Ord + ?Sized,
    {
        if let Some(values) = self.0.get_mut(key) {
            take(values, value, item);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    pub(super) fn get(&self, (key, value): Label<'_>) -> Option<&BTreeSet<T>> {
        self.0.get(key)?.get(value)
    }

    /// The label of a selection under which the fewest items are: one that all items have tells none from another. A
    /// selection has at least one label.
    pub(super) fn rarest<'a>(&self, labels: &'a RenderedLabels) -> Option<Label<'a>> {
        let labels = labels.iter().map(|(key, value)| (key, value.as_str()));
        labels.min_by_key(|label| self.get(*label).map_or(0, BTreeSet::len))
    }

    /// The items of all labels.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values().flat_map(BTreeMap::values).flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of keys of labels.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.0.len()
    }
}
