//! A cache with bounds on its number of entries and of bytes, and perhaps on their age.
//!
//! Owns: the choice of the entries to keep, their age, and the order of eviction. Refuses to know: the
//! meaning of an entry.
//!
//! Invariant: an entry is found for exactly its key, and never at or above the maximum age, however often it
//! is used.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::time::Instant;

/// The bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of entries.
    pub entries: usize,
    /// The bytes of all entries.
    pub bytes: usize,
    /// The age of an entry since it was put in; none if entries do not end.
    pub age: Option<Duration>,
}

/// Entries under keys.
#[derive(Debug)]
pub struct Cache<K, V> {
    bounds: Bounds,
    generations: Mutex<Generations<K, V>>,
}

/// Two generations approximate LRU: when the young generation is full it replaces the old one, whose entries
/// are dropped. Finding an entry costs no more than its lookup.
#[derive(Debug)]
struct Generations<K, V> {
    young: Generation<K, V>,
    old: Generation<K, V>,
}

#[derive(Debug)]
struct Generation<K, V> {
    entries: HashMap<K, BoundedEntry<V>, RandomState>,
    bytes: usize,
}

#[derive(Debug)]
struct BoundedEntry<V> {
    value: V,
    bytes: usize,
    since: Instant,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            bytes: 0,
        }
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let (young, old) = Default::default();
        Self {
            bounds,
            generations: Mutex::new(Generations { young, old }),
        }
    }

    /// A cache of so many entries, each for a time.
    #[must_use]
    pub fn for_a_while(entries: usize, age: Duration) -> Self {
        Self::new(Bounds {
            entries,
            bytes: usize::MAX,
            age: Some(age),
        })
    }

    /// An entry.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut generations = self.lock();
        if let Some(entry) = generations.young.entries.get(key) {
            return self.is_valid(entry).then(|| entry.value.clone());
        }
        let (key, entry) = generations.old.take(key)?;
        if !self.is_valid(&entry) {
            return None;
        }
        let value = entry.value.clone();
        generations.put(self.bounds, key, entry);
        Some(value)
    }

    /// Whether there is an entry.
    pub fn has<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Keeps an entry of so many bytes, in the place of others when there are too many. Whether there was none under
    /// its key.
    pub fn put(&self, key: K, value: V, bytes: usize) -> bool {
        let entry = BoundedEntry {
            value,
            bytes,
            since: Instant::now(),
        };
        let replaced = self.lock().put(self.bounds, key, entry);
        replaced.is_none_or(|entry| !self.is_valid(&entry))
    }

    /// Takes an entry out.
    pub fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.lock().take(key);
    }

    /// How many entries and bytes there are.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let Generations { young, old } = &*self.lock();
        (
            young.entries.len() + old.entries.len(),
            young.bytes + old.bytes,
        )
    }

    fn is_valid(&self, entry: &BoundedEntry<V>) -> bool {
        self.bounds
            .age
            .is_none_or(|age| entry.since.elapsed() < age)
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        // Entries are put in and taken out whole.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn put(&mut self, bounds: Bounds, key: K, entry: BoundedEntry<V>) -> Option<BoundedEntry<V>> {
        let replaced = self.take(&key);
        let bytes = self.young.bytes + entry.bytes;
        if bytes > bounds.bytes / 2 || self.young.entries.len() >= bounds.entries / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.bytes += entry.bytes;
        self.young.entries.insert(key, entry);
        replaced
    }

    fn take<Q>(&mut self, key: &Q) -> Option<BoundedEntry<V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (young, old) = (self.young.take(key), self.old.take(key));
        young.or(old).map(|(_, entry)| entry)
    }
}

impl<K: Eq + Hash, V> Generation<K, V> {
    fn take<Q>(&mut self, key: &Q) -> Option<(K, BoundedEntry<V>)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.bytes -= entry.bytes;
        Some((key, entry))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const AGE: Duration = Duration::from_secs(10);
    const MOST: usize = 4096;
    const MOST_BYTES: usize = 1 << 20;

    fn sized() -> Cache<String, usize> {
        Cache::new(Bounds {
            entries: MOST,
            bytes: MOST_BYTES,
            age: None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_is_forgotten_in_time() {
        let cache = Cache::for_a_while(MOST, AGE);
        assert!(cache.put(1_usize, "zero", 0) && !cache.put(1, "one", 0));
        assert_eq!((cache.get(&1), cache.get(&2)), (Some("one"), None));
        advance(AGE).await;
        assert_eq!(cache.get(&1), None);
        assert!(cache.put(1, "one", 0));
        cache.forget(&1);
        assert_eq!(cache.get(&1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_without_a_pause_is_forgotten_in_time_as_well() {
        let cache = Cache::for_a_while(MOST, AGE);
        let (mut found, mut put) = (0, 0);
        // Ten lifetimes, in each of which it is looked at a hundred times, and others push it into the old generation.
        for round in 0..1000 {
            if cache.has(&usize::MAX) {
                found += 1;
            } else {
                cache.put(usize::MAX, (), 0);
                put += 1;
            }
            for other in 0..50 {
                cache.put(50 * round + other, (), 0);
            }
            advance(AGE / 100).await;
        }
        assert_eq!((put, found), (10, 990));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_pushes_out_what_is_not_used_and_stays_within_the_bounds() {
        let cache = sized();
        cache.put("never again".to_owned(), 0, 1);
        cache.put("again and again".to_owned(), 0, 1);
        for number in 0..2 * MOST {
            cache.put(number.to_string(), number, 1);
            assert!(cache.has("again and again"));
            assert!(cache.size().0 <= MOST);
        }
        assert!(!cache.has("never again"));
        assert_eq!(cache.get(&(2 * MOST - 1).to_string()), Some(2 * MOST - 1));
    }

    /// Half of each bound is for what is used: at most that many stay beside what was used before.
    #[test]
    fn a_cache_is_full_at_exactly_its_bounds() {
        let sizes = |entries, bytes, puts: &[usize]| -> Vec<_> {
            let age = None;
            let cache = Cache::new(Bounds {
                entries,
                bytes,
                age,
            });
            let sizes = puts.iter().enumerate().map(|(key, weight)| {
                cache.put(key, (), *weight);
                cache.size()
            });
            sizes.collect()
        };
        // The third and the fifth begin a new generation, and the fifth drops the first two.
        let by_bytes = sizes(100, 20, &[4, 6, 1, 9, 1]);
        assert_eq!(by_bytes, [(1, 4), (2, 10), (3, 11), (4, 20), (3, 11)]);
        let by_entries = sizes(4, 1000, &[4, 6, 1, 9, 1]);
        assert_eq!(by_entries, [(1, 4), (2, 10), (3, 11), (4, 20), (3, 11)]);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_counted_and_bounded_whatever_the_number() {
        let cache = sized();
        for number in 0..1000 {
            let key = (number % 60).to_string();
            cache.put(key.clone(), number, MOST_BYTES / 50 + number);
            assert_eq!(cache.get(&key), Some(number));
            if number % 7 == 0 {
                cache.forget(&key);
            }
            let Generations { young, old } = &*cache.lock();
            for Generation { entries, bytes } in [young, old] {
                assert_eq!(entries.values().map(|it| it.bytes).sum::<usize>(), *bytes);
            }
            assert!(young.bytes + old.bytes <= MOST_BYTES);
        }
    }
}
