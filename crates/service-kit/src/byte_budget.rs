//! The bytes that a cache keeps for tenants: a share for each namespace, and a total.
//!
//! Owns: the counts, and the choice of the namespace to evict. Refuses to know: the values in the cache.
//!
//! Invariant: once no limit is exceeded, each namespace is within its share and all are within the total. Above the
//! total, the namespace with the most bytes is evicted.

use std::{borrow::Borrow, collections::BTreeMap};

/// The bytes of a cache by namespace, or by another key that identifies tenants.
#[derive(Debug)]
pub struct ByteBudget<K = String> {
    of_namespace: usize,
    of_all: usize,
    kept: BTreeMap<K, usize>,
    total: usize,
}

impl<K: Clone + Ord> ByteBudget<K> {
    /// Empty, with the share of one namespace and the total.
    #[must_use]
    pub const fn new(of_namespace: usize, of_all: usize) -> Self {
        Self {
            of_namespace,
            of_all,
            kept: BTreeMap::new(),
            total: 0,
        }
    }

    /// Adds bytes of a namespace.
    pub fn add<Q>(&mut self, namespace: &Q, bytes: usize)
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if bytes > 0 {
            *self.kept.entry(namespace.to_owned()).or_default() += bytes;
            self.total += bytes;
        }
    }

    /// Removes bytes of a namespace.
    pub fn release<Q>(&mut self, namespace: &Q, bytes: usize)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let Some(kept) = self.kept.get_mut(namespace) else {
            return;
        };
        let bytes = bytes.min(*kept);
        *kept -= bytes;
        self.total -= bytes;
        if *kept == 0 {
            self.kept.remove(namespace);
        }
    }

    /// After bytes of one namespace were added, the namespace to evict, if there is one. The caller asks until there is
    /// none.
    #[must_use]
    pub fn exceeded<Q>(&self, changed: &Q) -> Option<K>
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if self.of(changed) > self.of_namespace {
            return Some(changed.to_owned());
        }
        if self.total <= self.of_all {
            return None;
        }
        let heaviest = self.kept.iter().max_by_key(|(_, bytes)| **bytes);
        heaviest.map(|(namespace, _)| namespace.clone())
    }

    /// The bytes of a namespace.
    #[must_use]
    pub fn of<Q>(&self, namespace: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.kept.get(namespace).copied().unwrap_or_default()
    }

    /// The bytes of all namespaces.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_namespace_over_its_share_pays_itself() {
        let mut budget = ByteBudget::new(10, 100);
        budget.add("quiet", 10);
        assert_eq!(budget.exceeded("quiet"), None);
        budget.add("loud", 11);
        assert_eq!(budget.exceeded("loud").as_deref(), Some("loud"));
    }

    #[test]
    fn over_the_total_the_namespace_that_has_most_pays_whoever_changed() {
        let mut budget = ByteBudget::new(10, 20);
        for (namespace, bytes) in [("a", 8), ("b", 9), ("c", 4)] {
            budget.add(namespace, bytes);
        }
        assert_eq!(budget.exceeded("c").as_deref(), Some("b"));
        budget.release("b", budget.of("b"));
        assert_eq!((budget.exceeded("c"), budget.total()), (None, 12));
    }

    proptest! {
        #[test]
        fn no_order_of_changes_keeps_more_than_the_shares_or_counts_wrong(
            changes in prop::collection::vec((0..4_usize, 0..12_usize, any::<bool>()), 0..40),
        ) {
            let mut budget = ByteBudget::new(20, 40);
            let mut model = [0_usize; 4];
            for (place, bytes, is_more) in changes {
                let namespace = place.to_string();
                if is_more {
                    budget.add(&namespace, bytes);
                    model[place] += bytes;
                } else {
                    budget.release(&namespace, bytes);
                    model[place] = model[place].saturating_sub(bytes);
                }
                while let Some(gone) = budget.exceeded(&namespace) {
                    let place: usize = gone.parse().unwrap();
                    prop_assert!(model[place] > 0, "nothing is kept of it");
                    budget.release(&gone, model[place]);
                    model[place] = 0;
                }
                prop_assert!(model.iter().all(|it| *it <= 20));
                prop_assert!(model.iter().sum::<usize>() <= 40);
                prop_assert_eq!(budget.total(), model.iter().sum::<usize>());
                prop_assert_eq!(budget.kept.len(), model.iter().filter(|it| **it > 0).count());
            }
        }
    }
}
