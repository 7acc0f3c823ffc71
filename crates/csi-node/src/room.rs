//! Room for calls that are held, on the whole node and for each pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many volumes of one pod may be held: one that has more waits for its own.
const MOST_OF_A_POD: usize = 16;

/// The room of this node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    places: Arc<Semaphore>,
    /// By the UID of the pod.
    pods: Arc<Mutex<HashMap<String, usize>>>,
}

/// A call that is held, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    room: Room,
    pod: String,
    _place: OwnedSemaphorePermit,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Full {
    /// On the node.
    #[error("too many pods of this node wait for access: this one is looked at again later")]
    Node,
    /// For the pod.
    #[error("too many volumes of this pod wait for access: this one is looked at again later")]
    Pod,
}

impl Room {
    /// Room for so many calls.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most)),
            pods: Arc::default(),
        }
    }

    /// Takes a place for a volume of a pod, if there is one.
    pub(crate) fn take(&self, pod: &str) -> Result<Held, Full> {
        let mut pods = self.pods();
        if pods.get(pod).is_some_and(|held| *held >= MOST_OF_A_POD) {
            return Err(Full::Pod);
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| Full::Node)?;
        *pods.entry(pod.to_owned()).or_default() += 1;
        Ok(Held {
            room: self.clone(),
            pod: pod.to_owned(),
            _place: place,
        })
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Counts change by single steps.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut pods = self.room.pods();
        if let Some(held) = pods.get_mut(&self.pod) {
            *held -= 1;
            if *held == 0 {
                pods.remove(&self.pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pod_takes_its_share_and_leaves_the_rest_to_others() {
        let room = Room::new(MOST_OF_A_POD + 1);
        let mut held: Vec<_> = (0..MOST_OF_A_POD)
            .map(|_| room.take("greedy").unwrap())
            .collect();
        assert_eq!(room.take("greedy").err(), Some(Full::Pod));
        let other = room.take("other").unwrap();
        assert_eq!(room.take("other").err(), Some(Full::Node));
        held.pop();
        held.push(room.take("greedy").unwrap());
        drop((held, other));
        assert!(room.pods().is_empty());
        assert_eq!(room.places.available_permits(), MOST_OF_A_POD + 1);
    }

    #[test]
    fn a_refusal_takes_nothing() {
        let room = Room::new(1);
        let held = room.take("a").unwrap();
        for _ in 0..3 {
            assert_eq!(room.take("b").err(), Some(Full::Node));
        }
        assert_eq!(room.pods().len(), 1);
        drop(held);
        room.take("b").unwrap();
    }
}
