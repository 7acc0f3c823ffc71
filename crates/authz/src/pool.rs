//! Values that many objects have in common, each kept once.

use std::hash::Hash;
use std::sync::Arc;

use crate::hash::HashSet;

#[derive(Debug)]
pub(crate) struct Pool<T>(HashSet<Arc<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(HashSet::default())
    }
}

impl<T: Hash + Eq> Pool<T> {
    /// The one value that equals this one.
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        if let Some(shared) = self.0.get(&value) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(value);
        self.0.insert(Arc::clone(&shared));
        shared
    }

    /// Takes a value back; the last one to give it back takes it out of the pool.
    pub(crate) fn give_back(&mut self, shared: Arc<T>) {
        // One here, one in the pool.
        if Arc::strong_count(&shared) == 2 {
            self.0.remove(&shared);
        }
        drop(shared);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_the_last_is_given_back() {
        let mut pool = Pool::default();
        let (one, same) = (pool.share("a"), pool.share("a"));
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &pool.share("b")));
        pool.give_back(one);
        assert!(Arc::ptr_eq(&same, &pool.share("a")));
        pool.give_back(same);
        let b = pool.share("b");
        assert!(!pool.is_empty());
        pool.give_back(b);
        assert!(pool.is_empty());
    }
}
