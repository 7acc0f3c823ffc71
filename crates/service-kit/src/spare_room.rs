//! Maps that give room back: a hash map keeps the room of the most entries that it ever had.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

/// A map of less room is left alone: growing again costs more than it takes.
const SMALL: usize = 64;

/// A map whose room can be given back.
pub(crate) trait SpareRoom {
    /// Gives back the room of a map that is less than a quarter full. To be called after entries went. The next such call
    /// that does anything is many entries away, so that the costs of all of them are those of the entries.
    fn give_back_room(&mut self);
}

impl<K: Eq + Hash, V> SpareRoom for HashMap<K, V> {
    fn give_back_room(&mut self) {
        if self.capacity() > SMALL && self.len() < self.capacity() / 4 {
            self.shrink_to(self.len() * 2);
        }
    }
}

impl<K: Eq + Hash> SpareRoom for HashSet<K> {
    fn give_back_room(&mut self) {
        if self.capacity() > SMALL && self.len() < self.capacity() / 4 {
            self.shrink_to(self.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_takes_no_more_than_some_times_the_room_of_its_entries() {
        let mut map: HashMap<_, _> = (0..10_000).map(|it| (it, it)).collect();
        let mut set: HashSet<_> = (0..10_000).collect();
        let mut changes = 0;
        for number in 0..10_000 {
            map.remove(&number);
            set.remove(&number);
            // A removal alone may change the capacity by one.
            let before = map.capacity();
            map.give_back_room();
            changes += usize::from(map.capacity() != before);
            set.give_back_room();
            for capacity in [map.capacity(), set.capacity()] {
                assert!(capacity <= SMALL.max(map.len() * 4 + 4), "{number}");
            }
        }
        assert!(changes < 10, "{changes} times");
    }
}
