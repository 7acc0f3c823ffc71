//! Indexes: sets of values by a key, without empty sets.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    iter, option,
    sync::Arc,
};

use connectors_api::template::RenderedLabels;

use crate::check_object::SharedLabel;

/// The values under one key. Most keys have one value. A tree for it would take room for eleven. The tree of several is boxed,
/// because an index has room for about twice as many keys as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "a tree takes three words where a reference takes one"
)]
pub(super) enum IndexValues<V> {
    One(V),
    Many(Box<BTreeSet<V>>),
}

/// Sets of values by a key.
pub(super) type Index<K, V> = BTreeMap<K, IndexValues<V>>;

type OneOrMany<'a, V> =
    iter::Chain<option::IntoIter<&'a V>, iter::Flatten<option::IntoIter<&'a BTreeSet<V>>>>;

impl<V: Ord> IndexValues<V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(values) => values.len(),
        }
    }

    /// The values in their order.
    pub(super) fn iter(&self) -> OneOrMany<'_, V> {
        let (one, many) = match self {
            Self::One(value) => (Some(value), None),
            Self::Many(values) => (None, Some(values.as_ref())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(super) fn contains<W: Ord + ?Sized>(&self, value: &W) -> bool
    where
        V: Borrow<W>,
    {
        match self {
            Self::One(known) => known.borrow() == value,
            Self::Many(values) => values.contains(value),
        }
    }

    pub(super) fn first(&self) -> Option<&V> {
        self.iter().next()
    }

    fn insert(&mut self, value: V) {
        match self {
            Self::One(known) if *known == value => {}
            Self::One(_) => {
                let known = std::mem::replace(self, Self::Many(Box::new(BTreeSet::from([value]))));
                if let (Self::One(known), Self::Many(values)) = (known, self) {
                    values.insert(known);
                }
            }
            Self::Many(values) => {
                values.insert(value);
            }
        }
    }

    /// Removes a value. True if none is left.
    fn remove<W: Ord + ?Sized>(&mut self, value: &W) -> bool
    where
        V: Borrow<W>,
    {
        match self {
            Self::One(known) => (*known).borrow() == value,
            Self::Many(values) => {
                values.remove(value);
                if values.len() == 1
                    && let Some(last) = values.pop_first()
                {
                    *self = Self::One(last);
                }
                false
            }
        }
    }
}

impl<'a, V: Ord> IntoIterator for &'a IndexValues<V> {
    type Item = &'a V;
    type IntoIter = OneOrMany<'a, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The copy of a key that a map has: equal keys in several maps take the memory of one.
pub(super) fn own_key<K, Q, V>(map: &BTreeMap<K, V>, key: &Q) -> Option<K>
where
    K: Ord + Clone + Borrow<Q>,
    Q: Ord + ?Sized,
{
    map.get_key_value(key).map(|(own, _)| own.clone())
}

/// The copy of a key that a map has, or this one.
pub(super) fn known_key<K: Ord + Clone, V>(map: &BTreeMap<K, V>, key: K) -> K {
    own_key(map, &key).unwrap_or(key)
}

/// Adds a value under a key.
pub(super) fn add<K: Ord, V: Ord>(index: &mut Index<K, V>, key: K, value: V) {
    match index.entry(key) {
        Entry::Vacant(place) => {
            place.insert(IndexValues::One(value));
        }
        Entry::Occupied(mut values) => values.get_mut().insert(value),
    }
}

/// Removes a value under a key, and the key with its last value.
pub(super) fn take<K, V, Q, W>(index: &mut Index<K, V>, key: &Q, value: &W)
where
    K: Ord + Borrow<Q>,
    V: Ord + Borrow<W>,
    Q: Ord + ?Sized,
    W: Ord + ?Sized,
{
    if let Some(values) = index.get_mut(key)
        && values.remove(value)
    {
        index.remove(key);
    }
}

/// A label and its value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// Items by the labels that they have, or that they select by.
#[derive(Clone, Debug)]
pub(super) struct LabelIndex<T>(BTreeMap<Arc<str>, Index<Arc<str>, T>>);

impl<T> Default for LabelIndex<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> LabelIndex<T> {
    /// Adds an item. Returns the label as the index keeps it.
    pub(super) fn add(&mut self, (key, value): Label<'_>, item: T) -> SharedLabel {
        let key = known(&self.0, key);
        let values = self.0.entry(Arc::clone(&key)).or_default();
        let value = known(values, value);
        add(values, Arc::clone(&value), item);
        (key, value)
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

    pub(super) fn get(&self, (key, value): Label<'_>) -> Option<&IndexValues<T>> {
        self.0.get(key)?.get(value)
    }

    /// The number of that label of a selection under which the fewest items are: one that all items have tells none from
    /// another. A selection has at least one label.
    pub(super) fn rarest(&self, labels: &RenderedLabels) -> usize {
        let labels = labels.iter().map(|(key, value)| (key, value.as_str()));
        let counts = labels.map(|label| self.get(label).map_or(0, IndexValues::len));
        let rarest = counts.enumerate().min_by_key(|(_, count)| *count);
        rarest.map_or(0, |(number, _)| number)
    }

    /// The items under the rarest label of a selection.
    pub(super) fn fewest(&self, labels: &RenderedLabels) -> impl Iterator<Item = &T> {
        let label = labels.iter().nth(self.rarest(labels));
        let values = label.and_then(|(key, value)| self.get((key, value.as_str())));
        values.into_iter().flatten()
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

/// The text as a map has it, or a new one.
fn known<V>(map: &BTreeMap<Arc<str>, V>, text: &str) -> Arc<str> {
    own_key(map, text).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_kept_once_however_many_have_it() {
        let mut index = LabelIndex::default();
        let label = ("app", "tool");
        let [(key, value), (same_key, same_value)] = [1, 2].map(|it| index.add(label, it));
        assert!(Arc::ptr_eq(&key, &same_key) && Arc::ptr_eq(&value, &same_value));
        let (_, other) = index.add(("app", "another"), 1);
        assert_eq!((index.keys(), other.as_ref()), (1, "another"));
        for (value, item) in [("tool", 1), ("tool", 2), ("another", 1)] {
            index.take(("app", value), &item);
        }
        assert!(index.is_empty());
    }

    fn told<'a>(index: &Index<&'a str, u8>) -> Vec<(&'a str, Vec<u8>)> {
        let told = |(key, values): (&&'a str, &IndexValues<u8>)| {
            assert_eq!(values.len(), values.iter().count());
            assert!(values.len() > 1 || matches!(values, IndexValues::One(_)));
            (*key, values.iter().copied().collect())
        };
        index.iter().map(told).collect()
    }

    #[test]
    fn a_key_has_its_values_in_order_and_goes_with_the_last_one() {
        let mut index = Index::default();
        for (key, value) in [("a", 2), ("b", 7), ("a", 2), ("a", 1), ("a", 3), ("a", 1)] {
            add(&mut index, key, value);
        }
        assert_eq!(told(&index), [("a", vec![1, 2, 3]), ("b", vec![7])]);
        assert_eq!(index["a"].first(), Some(&1));
        take(&mut index, "b", &6);
        take(&mut index, "c", &6);
        take(&mut index, "a", &6);
        take(&mut index, "a", &1);
        assert_eq!(told(&index), [("a", vec![2, 3]), ("b", vec![7])]);
        take(&mut index, "a", &3);
        take(&mut index, "b", &7);
        assert_eq!(told(&index), [("a", vec![2])]);
        take(&mut index, "a", &2);
        assert_eq!(told(&index), []);
    }
}
