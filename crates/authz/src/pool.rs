//! Interned values: many objects share each of them, and each is stored once.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::hash::Hashing;

#[derive(Debug)]
pub(crate) struct TextPool<T> {
    hashing: Hashing,
    values: HashTable<Arc<T>>,
}

impl<T> Default for TextPool<T> {
    fn default() -> Self {
        Self {
            hashing: Hashing::default(),
            values: HashTable::new(),
        }
    }
}

impl<T: Hash + Eq> TextPool<T> {
    /// The stored value that equals the draft; the draft must hash as the value does. If there is none, the
    /// value is made from the draft. A draft may borrow its content.
    pub(crate) fn share<D: Hash + PartialEq<T>>(
        &mut self,
        draft: D,
        make: impl FnOnce(D) -> T,
    ) -> Arc<T> {
        let Self { hashing, values } = self;
        let hash = hashing.hash_one(&draft);
        if let Some(shared) = values.find(hash, |it| draft == **it) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(make(draft));
        values.insert_unique(hash, Arc::clone(&shared), |it| hashing.hash_one(it));
        shared
    }

    /// Takes a value back; returning the last reference removes it from the pool.
    pub(crate) fn give_back(&mut self, shared: Arc<T>) {
        // One reference here, one in the pool.
        if Arc::strong_count(&shared) == 2 {
            let hash = self.hashing.hash_one(&shared);
            let found = self.values.find_entry(hash, |it| Arc::ptr_eq(it, &shared));
            if let Ok(found) = found {
                found.remove();
            }
        }
        drop(shared);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_the_last_is_given_back() {
        let mut pool = TextPool::<String>::default();
        let (one, same) = (
            pool.share("a", str::to_owned),
            pool.share("a", str::to_owned),
        );
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &pool.share("b", str::to_owned)));
        pool.give_back(one);
        assert!(Arc::ptr_eq(&same, &pool.share("a", str::to_owned)));
        pool.give_back(same);
        let b = pool.share("b", str::to_owned);
        assert!(!pool.is_empty());
        pool.give_back(b);
        assert!(pool.is_empty());
    }
}
