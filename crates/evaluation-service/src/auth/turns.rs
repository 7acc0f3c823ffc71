//! One review at a time of each: who comes meanwhile takes what that one found.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

/// Keys that are remembered although nobody waits for them any more.
const FORGOTTEN: usize = 64;

pub(super) struct Turns<K>(Mutex<HashMap<K, Weak<Turn<()>>>>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// Waits for the turn of a key, but not for long: what keeps the one before from ending may end for
    /// who tries it himself.
    pub(super) async fn take(&self, key: &K, longest: Duration) -> Option<OwnedMutexGuard<()>> {
        let turn = self.turn(key);
        timeout(longest, turn.lock_owned()).await.ok()
    }

    fn turn(&self, key: &K) -> Arc<Turn<()>> {
        // Entries are put in and taken out whole.
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= FORGOTTEN {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::new(Turn::default());
        turns.insert(key.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_key_has_one_turn_at_a_time_and_waits_for_no_other_key() {
        let turns = Turns::default();
        let first = turns.take(&1, LONGEST).await;
        assert!(first.is_some() && turns.take(&2, LONGEST).await.is_some());
        let before = Instant::now();
        assert!(turns.take(&1, LONGEST).await.is_none());
        assert_eq!(before.elapsed(), LONGEST);
        drop(first);
        assert!(turns.take(&1, LONGEST).await.is_some());
    }

    #[tokio::test]
    async fn keys_that_nobody_waits_for_are_forgotten() {
        let turns = Turns::default();
        let kept = turns.take(&0, LONGEST).await;
        for key in 1..1000 {
            turns.take(&key, LONGEST).await;
        }
        assert!(turns.0.lock().unwrap().len() <= FORGOTTEN);
        assert!(turns.0.lock().unwrap().contains_key(&0));
        drop(kept);
    }
}
