//! Volumes in a state that their pods were told about once, and their number. After a restart, the calls of the kubelet
//! fill a list again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prometheus::IntGauge;

use crate::volume::VolumePath;

/// Volumes, each with the word that its pod was told.
#[derive(Debug)]
pub(crate) struct NotedVolumes<W> {
    places: Mutex<HashMap<VolumePath, W>>,
    count: IntGauge,
}

impl<W: Copy + PartialEq> NotedVolumes<W> {
    /// An empty list, counted by this gauge.
    pub(crate) fn new(count: IntGauge) -> Self {
        Self {
            places: Mutex::default(),
            count,
        }
    }

    /// Records a volume. True when it was not in the list, or with another word.
    pub(crate) fn is_news(&self, place: &VolumePath, word: W) -> bool {
        let mut places = self.places();
        let before = places.insert(place.clone(), word);
        self.counted(&places);
        before != Some(word)
    }

    /// The volume is gone, or in another state.
    pub(crate) fn forget(&self, place: &VolumePath) {
        let mut places = self.places();
        places.remove(place);
        self.counted(&places);
    }

    /// How many volumes are in the list.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.places().len()
    }

    fn counted(&self, places: &HashMap<VolumePath, W>) {
        self.count
            .set(i64::try_from(places.len()).unwrap_or(i64::MAX));
    }

    fn places(&self) -> MutexGuard<'_, HashMap<VolumePath, W>> {
        // A panic elsewhere leaves the map whole, because only single calls change it.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::place;

    #[test]
    fn a_volume_is_news_once_for_a_word_and_counted_until_it_is_forgotten() {
        let count = IntGauge::new("noted", "noted").unwrap();
        let noted = NotedVolumes::new(count.clone());
        assert!(noted.is_news(&place("a"), "keep"));
        assert!(!noted.is_news(&place("a"), "keep"));
        assert!(noted.is_news(&place("b"), "keep"));
        assert!(noted.is_news(&place("a"), "request"));
        assert_eq!(count.get(), 2);
        for _ in 0..2 {
            noted.forget(&place("a"));
            assert_eq!(count.get(), 1);
        }
        assert!(noted.is_news(&place("a"), "request"));
    }
}
