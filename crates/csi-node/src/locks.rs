//! One call at a time for each volume.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::volume::VolumePath;

/// The volumes that are being worked on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks(Arc<Mutex<HashSet<VolumePath>>>);

/// A volume that is being worked on, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    locks: Locks,
    place: VolumePath,
}

impl Locks {
    /// Takes a volume, unless another call has it. No call waits behind one that may hold.
    pub(crate) fn take(&self, place: &VolumePath) -> Option<Lock> {
        self.places().insert(place.clone()).then(|| Lock {
            locks: self.clone(),
            place: place.clone(),
        })
    }

    /// How many volumes are being worked on.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.places().len()
    }

    fn places(&self) -> MutexGuard<'_, HashSet<VolumePath>> {
        // A panic elsewhere leaves the set whole, because only single calls change it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.locks.places().remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::place;

    #[test]
    fn a_volume_is_taken_once_and_free_again_afterwards() {
        let locks = Locks::default();
        let lock = locks.take(&place("tool")).unwrap();
        assert!(locks.take(&place("tool")).is_none());
        assert!(locks.take(&place("other")).is_some());
        drop(lock);
        assert!(locks.take(&place("tool")).is_some());
    }
}
