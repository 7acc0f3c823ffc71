//! Values that many entries of a cache have in common: each is kept once, and goes with its last entry.

use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

/// The values, and how many entries have each. References outside the cache do not count.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized>(BTreeMap<Arc<T>, usize>);

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + ?Sized> Interner<T> {
    /// The one copy of a value, for one more entry.
    pub(crate) fn share(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some((known, _)) = self.0.get_key_value(value.borrow()) {
            let known = Arc::clone(known);
            *self.0.entry(Arc::clone(&known)).or_default() += 1;
            return known;
        }
        let value = value.into();
        self.0.insert(Arc::clone(&value), 1);
        value
    }

    /// An entry with this value goes.
    pub(crate) fn release(&mut self, value: &T) {
        if let Some(entries) = self.0.get_mut(value) {
            *entries -= 1;
            if *entries == 0 {
                self.0.remove(value);
            }
        }
    }

    /// The number of values.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_goes_with_its_last_entry() {
        let mut shared = Interner::<str>::default();
        let [one, same, other] = ["a", "a", "b"].map(|it| shared.share(it.to_owned()));
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(shared.len(), 2);
        shared.release(&one);
        assert_eq!(shared.len(), 2, "an entry has it");
        shared.release(&same);
        shared.release(&other);
        assert_eq!(shared.len(), 0, "the references of this test do not count");
        shared.release("unknown");
    }
}
