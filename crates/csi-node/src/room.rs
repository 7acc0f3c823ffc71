//! Room for calls that are held: on the node, for each namespace of pods, and for each pod.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectors_api::access_request::MOST_OF_A_POD as MOST_REQUESTS;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::volume::Pod;

/// As many volumes of one pod may be held: one that has more waits for its own.
const MOST_OF_A_POD: usize = 16;

/// How many calls may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// On this node.
    pub(crate) node: usize,
    /// For the pods of one namespace.
    pub(crate) namespace: usize,
}

/// The room of this node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    limits: Limits,
    places: Arc<Semaphore>,
    held: Arc<Mutex<Counts>>,
}

/// Calls that are held. What has none has no entry.
#[derive(Debug, Default)]
struct Counts {
    /// By the UID of the pod.
    pods: HashMap<String, usize>,
    /// By the namespace of the pod.
    namespaces: HashMap<String, usize>,
}

/// A call that is held, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    room: Room,
    pod: String,
    namespace: String,
    _place: OwnedSemaphorePermit,
}

/// Why there is no room. Each names its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Full {
    /// On the node.
    #[error(
        "too many mounts of this node wait for access (csiNode.maxHeld: {0}); this one is tried again later"
    )]
    Node(usize),
    /// For the namespace of the pod.
    #[error(
        "too many mounts of this namespace wait for access on this node (csiNode.maxHeldPerNamespace: {0}); this one is tried again later"
    )]
    Namespace(usize),
    /// For the pod.
    #[error(
        "too many volumes of this pod wait for access (at most {MOST_OF_A_POD}); this one is tried again later"
    )]
    Pod,
    /// The pod asked for as much as a pod may ask for.
    #[error(
        "this pod needs an AccessRequest for more than {MOST_REQUESTS} connectors, and a pod has at most {MOST_REQUESTS}; split the pod, or give it standing permissions"
    )]
    Requests,
}

impl Room {
    /// Room for so many calls.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: Arc::new(Semaphore::new(limits.node)),
            held: Arc::default(),
        }
    }

    /// Takes a place for a volume of a pod, if there is one.
    pub(crate) fn take(&self, pod: &Pod) -> Result<Held, Full> {
        let mut held = self.held();
        let Counts { pods, namespaces } = &mut *held;
        let count = |counts: &HashMap<String, usize>, key: &str| counts.get(key).copied();
        if count(pods, &pod.uid).unwrap_or_default() >= MOST_OF_A_POD {
            return Err(Full::Pod);
        }
        let Limits { node, namespace } = self.limits;
        if count(namespaces, &pod.namespace).unwrap_or_default() >= namespace {
            return Err(Full::Namespace(namespace));
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| Full::Node(node))?;
        *pods.entry(pod.uid.clone()).or_default() += 1;
        *namespaces.entry(pod.namespace.clone()).or_default() += 1;
        Ok(Held {
            room: self.clone(),
            pod: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            _place: place,
        })
    }

    /// How many pods and namespaces have held calls.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        let Counts { pods, namespaces } = &*self.held();
        pods.len() + namespaces.len()
    }

    /// How many places of the node are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.places.available_permits()
    }

    fn held(&self) -> MutexGuard<'_, Counts> {
        // Counts change by single steps.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.room.held();
        let Counts { pods, namespaces } = &mut *held;
        give_back(pods, &self.pod);
        give_back(namespaces, &self.namespace);
    }
}

fn give_back(counts: &mut HashMap<String, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(node: usize, namespace: usize) -> Room {
        Room::new(Limits { node, namespace })
    }

    fn pod(namespace: &str, uid: &str) -> Pod {
        Pod {
            namespace: namespace.to_owned(),
            name: "pod".to_owned(),
            uid: uid.to_owned(),
            service_account: "default".to_owned(),
        }
    }

    #[test]
    fn one_pod_takes_its_share_and_leaves_the_rest_to_others() {
        let room = room(MOST_OF_A_POD + 1, MOST_OF_A_POD + 1);
        let (greedy, other) = (pod("shop", "greedy"), pod("shop", "other"));
        let mut held: Vec<_> = (0..MOST_OF_A_POD)
            .map(|_| room.take(&greedy).unwrap())
            .collect();
        assert_eq!(room.take(&greedy).err(), Some(Full::Pod));
        let of_other = room.take(&other).unwrap();
        assert!(room.take(&other).is_err());
        held.pop();
        held.push(room.take(&greedy).unwrap());
        drop((held, of_other));
        assert!(room.held().pods.is_empty() && room.held().namespaces.is_empty());
        assert_eq!(room.places.available_permits(), MOST_OF_A_POD + 1);
    }

    #[test]
    fn pods_of_one_namespace_leave_room_to_other_namespaces() {
        let room = room(4, 2);
        let held = [1, 2].map(|uid| room.take(&pod("shop", &uid.to_string())).unwrap());
        let refused = room.take(&pod("shop", "3")).err();
        assert_eq!(refused, Some(Full::Namespace(2)));
        let others = [4, 5].map(|uid| room.take(&pod("bank", &uid.to_string())).unwrap());
        let refused = room.take(&pod("mill", "6")).err();
        assert_eq!(refused, Some(Full::Node(4)));
        drop(held);
        let again = room.take(&pod("shop", "3")).unwrap();
        drop((others, again));
        assert!(room.held().namespaces.is_empty());
    }

    #[test]
    fn a_refusal_takes_nothing_and_names_its_bound() {
        let room = room(1, 1);
        let held = room.take(&pod("shop", "a")).unwrap();
        for _ in 0..3 {
            assert_eq!(room.take(&pod("bank", "b")).err(), Some(Full::Node(1)));
            assert_eq!(room.take(&pod("shop", "b")).err(), Some(Full::Namespace(1)));
        }
        assert_eq!(room.held().pods.len(), 1);
        assert_eq!(room.held().namespaces.len(), 1);
        drop(held);
        room.take(&pod("bank", "b")).unwrap();
        assert!(Full::Node(1).to_string().contains("csiNode.maxHeld: 1"));
        let namespace = Full::Namespace(1).to_string();
        assert!(namespace.contains("csiNode.maxHeldPerNamespace: 1"));
    }
}
