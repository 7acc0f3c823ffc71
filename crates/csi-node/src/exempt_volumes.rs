//! Volumes that were mounted while mounts were not gated. They keep their content without a permission since mounts
//! are gated. After a restart, the calls of the kubelet fill the list again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use connectors_api::config::OnEnable;
use prometheus::IntGauge;

use crate::volume::VolumePath;

/// The events that their pods got, and the number of volumes.
#[derive(Debug)]
pub(crate) struct ExemptVolumes {
    places: Mutex<HashMap<VolumePath, OnEnable>>,
    count: IntGauge,
}

impl ExemptVolumes {
    /// An empty list, counted by this gauge.
    pub(crate) fn new(count: IntGauge) -> Self {
        Self {
            places: Mutex::default(),
            count,
        }
    }

    /// Records a volume. True when it was not kept before, or in another way.
    pub(crate) fn is_news(&self, place: &VolumePath, way: OnEnable) -> bool {
        let mut places = self.places();
        let before = places.insert(place.clone(), way);
        self.counted(&places);
        before != Some(way)
    }

    /// The volume is gone or empty, or its pod has access.
    pub(crate) fn forget(&self, place: &VolumePath) {
        let mut places = self.places();
        places.remove(place);
        self.counted(&places);
    }

    /// How many volumes are kept.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.places().len()
    }

    fn counted(&self, places: &HashMap<VolumePath, OnEnable>) {
        self.count
            .set(i64::try_from(places.len()).unwrap_or(i64::MAX));
    }

    fn places(&self) -> MutexGuard<'_, HashMap<VolumePath, OnEnable>> {
        // A panic elsewhere leaves the map whole, because only single calls change it.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::place;

    #[test]
    fn a_volume_is_news_once_and_counted_until_it_is_forgotten() {
        let count = IntGauge::new("kept", "kept").unwrap();
        let kept = ExemptVolumes::new(count.clone());
        assert!(kept.is_news(&place("a"), OnEnable::Keep));
        assert!(!kept.is_news(&place("a"), OnEnable::Keep));
        assert!(kept.is_news(&place("b"), OnEnable::Keep));
        assert!(kept.is_news(&place("a"), OnEnable::Request));
        assert_eq!(count.get(), 2);
        for _ in 0..2 {
            kept.forget(&place("a"));
            assert_eq!(count.get(), 1);
        }
        assert!(kept.is_news(&place("a"), OnEnable::Request));
    }
}
