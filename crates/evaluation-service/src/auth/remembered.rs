//! What a review found, for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// As much as is remembered of each.
const REMEMBERED: usize = 4096;

pub(super) struct Remembered<K, V> {
    holds: Duration,
    known: Mutex<HashMap<K, (V, Instant)>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Remembered<K, V> {
    pub(super) fn new(holds: Duration) -> Self {
        Self {
            holds,
            known: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let known = self.lock();
        let (value, since) = known.get(key)?;
        (since.elapsed() < self.holds).then(|| value.clone())
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn put(&self, key: K, value: V) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED {
            known.retain(|_, (_, since)| since.elapsed() < self.holds);
        }
        // A flood pushes out what was not heard of for longest: that costs reviews, not correctness.
        if known.len() >= REMEMBERED && !known.contains_key(&key) {
            let oldest = known.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(key, (value, Instant::now()));
    }

    pub(super) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, (V, Instant)>> {
        // Entries are put in and taken out whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_found_is_forgotten_in_time() {
        let remembered = Remembered::new(Duration::from_secs(10));
        remembered.put(1_usize, "one");
        assert_eq!(remembered.get(&1), Some("one"));
        assert_eq!(remembered.get(&2), None);
        advance(Duration::from_secs(10)).await;
        assert_eq!(remembered.get(&1), None);
        remembered.put(1, "one");
        remembered.forget(&1);
        assert_eq!(remembered.get(&1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_without_a_pause_is_forgotten_in_time_as_well() {
        let holds = Duration::from_secs(10);
        let remembered = Remembered::new(holds);
        let (mut found, mut put) = (0, 0);
        // Ten lifetimes, in each of which it is looked at a hundred times.
        for _ in 0..1000 {
            if remembered.get(&1).is_none() {
                remembered.put(1, "one");
                put += 1;
            } else {
                found += 1;
            }
            advance(holds / 100).await;
        }
        assert_eq!((put, found), (10, 990));
    }

    #[tokio::test(start_paused = true)]
    async fn never_too_much_is_remembered_and_the_oldest_goes_first() {
        let remembered = Remembered::new(Duration::from_hours(1));
        for key in 0..REMEMBERED + 10 {
            advance(Duration::from_millis(1)).await;
            remembered.put(key, "x");
            // One that is heard of again and again stays.
            remembered.put(0, "x");
            assert!(remembered.lock().len() <= REMEMBERED);
        }
        assert!(remembered.has(&0));
        assert!(!remembered.has(&1));
        assert!(remembered.has(&(REMEMBERED + 9)));
    }
}
