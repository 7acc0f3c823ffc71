//! A cache whose memory tenants share: each pays with its own entries, and all together stay within a total.
//!
//! Owns: the choice of the entries to keep, the order of eviction, and the count of bytes. Refuses to know:
//! the meaning and the weight of an entry. Invariant: neither a tenant's bytes nor all bytes are ever above
//! their bounds.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

use crate::spare_room::SpareRoom as _;

/// The bounds of a cache, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// Of one tenant.
    pub share: usize,
    /// Of all tenants.
    pub total: usize,
}

/// The cache.
#[derive(Debug)]
pub struct SharedCache<K, V> {
    bounds: CacheBounds,
    entries: HashMap<K, CacheEntry<V>>,
    tenants: HashMap<Arc<str>, Tenant<K>>,
    bytes: usize,
    /// Counts uses, so that a larger number is a later one.
    uses: u64,
}

#[derive(Debug)]
struct CacheEntry<V> {
    tenant: Arc<str>,
    bytes: usize,
    used: u64,
    value: V,
}

#[derive(Debug)]
struct Tenant<K> {
    bytes: usize,
    /// Its entries, the one that was used least lately first.
    order: BTreeMap<u64, K>,
}

impl<K: Clone + Eq + Hash, V> SharedCache<K, V> {
    /// An empty cache.
    #[must_use]
    pub fn new(bounds: CacheBounds) -> Self {
        Self {
            bounds,
            entries: HashMap::new(),
            tenants: HashMap::new(),
            bytes: 0,
            uses: 0,
        }
    }

    /// An entry, which counts as used by that.
    pub fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        let tenant = self.tenants.get_mut(&entry.tenant)?;
        if let Some(key) = tenant.order.remove(&entry.used) {
            entry.used = self.uses;
            tenant.order.insert(self.uses, key);
        }
        Some(&entry.value)
    }

    /// Keeps an entry that weighs so many bytes. Older ones of the tenant go first, then those of the tenant that has
    /// the most. One that is larger than a tenant's share is not kept.
    pub fn put(&mut self, tenant: &str, key: K, bytes: usize, value: V) {
        self.remove(&key);
        let CacheBounds { share, total } = self.bounds;
        if bytes > share.min(total) {
            return;
        }
        while self.bytes_of(tenant) + bytes > share && self.evict(tenant) {}
        while self.bytes + bytes > total {
            let largest = self.tenants.iter().max_by_key(|(_, it)| it.bytes);
            let Some(largest) = largest.map(|(name, _)| name.clone()) else {
                break;
            };
            if !self.evict(&largest) {
                break;
            }
        }
        self.uses += 1;
        let known = self.tenants.get_key_value(tenant);
        let tenant = known.map_or_else(|| tenant.into(), |(known, _)| Arc::clone(known));
        let owner = self.tenants.entry(Arc::clone(&tenant)).or_insert(Tenant {
            bytes: 0,
            order: BTreeMap::new(),
        });
        owner.bytes += bytes;
        owner.order.insert(self.uses, key.clone());
        self.bytes += bytes;
        let entry = CacheEntry {
            tenant,
            bytes,
            used: self.uses,
            value,
        };
        self.entries.insert(key, entry);
    }

    /// Takes an entry out.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entry = self.entries.remove(key)?;
        self.entries.give_back_room();
        self.bytes -= entry.bytes;
        if let Some(tenant) = self.tenants.get_mut(&entry.tenant) {
            tenant.bytes -= entry.bytes;
            tenant.order.remove(&entry.used);
            if tenant.order.is_empty() {
                self.tenants.remove(&entry.tenant);
            }
        }
        Some(entry.value)
    }

    /// The bytes of all entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn bytes_of(&self, tenant: &str) -> usize {
        self.tenants.get(tenant).map_or(0, |it| it.bytes)
    }

    /// Forgets the entry of a tenant that was used least lately. False if it has none.
    fn evict(&mut self, tenant: &str) -> bool {
        let oldest = self.tenants.get(tenant);
        let oldest = oldest.and_then(|it| it.order.values().next().cloned());
        let Some(oldest) = oldest else {
            return false;
        };
        self.remove(&oldest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: CacheBounds = CacheBounds {
        share: 100,
        total: 250,
    };

    fn cache() -> SharedCache<u32, &'static str> {
        SharedCache::new(BOUNDS)
    }

    fn is_empty(cache: &SharedCache<u32, &'static str>) -> bool {
        cache.entries.is_empty() && cache.tenants.is_empty()
    }

    #[test]
    fn nothing_goes_while_a_share_and_the_total_are_only_just_full() {
        let mut cache = cache();
        for (tenant, key, bytes) in [("a", 1, 60), ("a", 2, 40), ("b", 3, 90), ("c", 4, 60)] {
            cache.put(tenant, key, bytes, "v");
        }
        assert_eq!(cache.bytes(), BOUNDS.total);
        assert_eq!([1, 2, 3, 4].map(|it| cache.get(&it).is_some()), [true; 4]);
        cache.put("c", 5, 1, "v");
        assert_eq!(cache.get(&1), None);
    }

    #[test]
    fn a_tenant_pays_with_its_own_entries_the_least_used_first() {
        let mut cache = cache();
        cache.put("other", 9, 60, "o");
        cache.put("a", 1, 40, "x");
        cache.put("a", 2, 40, "y");
        assert_eq!(cache.get(&1), Some(&"x"));
        cache.put("a", 3, 40, "z");
        assert_eq!(cache.get(&2), None);
        assert_eq!([1, 3, 9].map(|it| cache.get(&it).is_some()), [true; 3]);
        assert_eq!(cache.bytes(), 140);
    }

    #[test]
    fn above_the_total_the_largest_tenant_pays() {
        let mut cache = cache();
        for (tenant, key) in [("large", 1), ("large", 2), ("middle", 3), ("middle", 4)] {
            cache.put(tenant, key, if tenant == "large" { 50 } else { 45 }, "v");
        }
        cache.put("small", 5, 30, "v");
        cache.put("new", 6, 60, "v");
        assert_eq!(cache.get(&1), None);
        assert_eq!(
            [2, 3, 4, 5, 6].map(|it| cache.get(&it).is_some()),
            [true; 5]
        );
        assert!(cache.bytes() <= BOUNDS.total);
    }

    #[test]
    fn what_is_larger_than_a_share_is_not_kept_and_replaces_what_was() {
        let mut cache = cache();
        cache.put("a", 1, 10, "small");
        cache.put("a", 1, 101, "large");
        assert_eq!(cache.get(&1), None);
        assert!(is_empty(&cache));
        cache.put("a", 1, 100, "just");
        assert_eq!(cache.get(&1), Some(&"just"));
    }

    #[test]
    fn an_entry_may_change_its_tenant() {
        let mut cache = cache();
        cache.put("a", 1, 10, "x");
        cache.put("b", 1, 20, "y");
        assert_eq!((cache.bytes_of("a"), cache.bytes_of("b")), (0, 20));
        cache.remove(&1);
        cache.remove(&1);
        assert!(is_empty(&cache));
    }

    proptest! {
        #[test]
        fn bytes_are_counted_and_bounded(steps in prop::collection::vec((0_u8..4, 0_u32..20, 0_usize..130), 0..200)) {
            let mut cache = SharedCache::new(BOUNDS);
            for (tenant, key, bytes) in steps {
                match bytes {
                    0..5 => {
                        cache.remove(&key);
                    }
                    _ => cache.put(&tenant.to_string(), key, bytes, ()),
                }
                let counted: usize = cache.entries.values().map(|it| it.bytes).sum();
                prop_assert_eq!(cache.bytes(), counted);
                prop_assert!(counted <= BOUNDS.total);
                for tenant in cache.tenants.keys() {
                    let own = cache.entries.values().filter(|it| it.tenant == *tenant);
                    prop_assert_eq!(own.map(|it| it.bytes).sum::<usize>(), cache.bytes_of(tenant));
                    prop_assert!(cache.bytes_of(tenant) <= BOUNDS.share);
                }
                let ordered: usize = cache.tenants.values().map(|it| it.order.len()).sum();
                prop_assert_eq!(ordered, cache.entries.len());
            }
        }
    }
}
