//! Values that many entries of a cache have in common: each is kept once, and goes with its last entry.

use std::{borrow::Borrow, collections::BTreeSet, sync::Arc};

/// The values.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized>(BTreeSet<Arc<T>>);

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord + ?Sized> Interner<T> {
    /// The one copy of a value.
    pub(crate) fn share(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(known) = self.0.get(value.borrow()) {
            return Arc::clone(known);
        }
        let value = value.into();
        self.0.insert(Arc::clone(&value));
        value
    }

    /// An entry with this value is about to go.
    pub(crate) fn release(&mut self, value: &Arc<T>) {
        // The set, and the entry.
        if Arc::strong_count(value) <= 2 {
            self.0.remove(value.as_ref());
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
        drop(one);
        assert_eq!(shared.len(), 2, "an entry has it");
        shared.release(&same);
        shared.release(&other);
        assert_eq!(shared.len(), 0);
    }
}
