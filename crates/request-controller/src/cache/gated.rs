//! The pods that wait with the scheduling gate: their names, UIDs and ages alone.
//!
//! Gated pods cost nothing on any node, so a namespace can have any number of them. The oldest ones, as many as a
//! namespace may have waiting requests, keep the gate. The others are scheduled as without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use service_kit::controller::queue::Urgency;
use tokio::time::Instant;

use super::{Job, Wakes};
use crate::api::Name;

/// The pause after the first refused removal of a gate. It doubles with each further one: any author of pods can write
/// the gate, and the API server may refuse its removal each time.
const FIRST_REST: Duration = Duration::from_mins(1);
const LONGEST_REST: Duration = Duration::from_hours(1);

/// The pods with the gate.
#[derive(Debug, Default)]
pub struct GatedPods {
    places: BTreeMap<Name, GatePlace>,
    /// By namespace, the oldest first.
    lines: BTreeMap<String, BTreeSet<(GatePlace, String)>>,
    /// The gates of these pods that the API server did not let go.
    kept: BTreeMap<Name, KeptGate>,
}

/// Refused removals of one gate.
#[derive(Clone, Copy, Debug, Default)]
struct KeptGate {
    /// The refusals since the configuration changed.
    times: u32,
    /// The time of the next attempt.
    until: Option<Instant>,
}

/// The answer to a refused removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateRest {
    /// The pause before the next attempt.
    pub pause: Duration,
    /// True for the first refusal of this pod.
    pub is_first: bool,
}

/// The place of a pod in the line of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatePlace {
    /// Since when the pod waits.
    pub since: Timestamp,
    /// Its UID.
    pub uid: Arc<str>,
}

impl GatedPods {
    /// The place of a pod, if it has the gate.
    #[must_use]
    pub fn place(&self, pod: &Name) -> Option<&GatePlace> {
        self.places.get(pod)
    }

    /// True when at least `most` pods of the same namespace have waited longer.
    #[must_use]
    pub fn is_behind(&self, pod: &Name, most: usize) -> bool {
        let Some(place) = self.places.get(pod) else {
            return false;
        };
        let own = (place.clone(), pod.name.clone());
        let line = self.lines.get(&pod.namespace);
        let before = line.into_iter().flatten().take_while(|it| **it < own);
        before.take(most).count() >= most
    }

    /// The number of pods with the gate in these namespaces.
    pub fn count(&self, counts: impl Fn(&str) -> bool) -> usize {
        let pods = self.places.keys();
        pods.filter(|it| counts(&it.namespace)).count()
    }

    /// The jobs of all of them.
    #[must_use]
    pub fn wakes(&self) -> Wakes {
        self.places.keys().map(wake).collect()
    }

    /// The job of a pod, if it has the gate and this UID.
    #[must_use]
    pub(super) fn wake_of(&self, pod: &Name, uid: Option<&str>) -> Option<(Job, Urgency)> {
        let place = self.places.get(pod);
        let is_it = place.is_some_and(|place| uid == Some(place.uid.as_ref()));
        is_it.then(|| wake(pod))
    }

    /// The rest of the pause after a refused removal.
    #[must_use]
    pub fn rest(&self, pod: &Name, now: Instant) -> Option<Duration> {
        let until = self.kept.get(pod)?.until?;
        let rest = until.saturating_duration_since(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// Records that the gate of this pod could not be removed. None if the pod is not the one with the gate any more.
    pub fn refused(&mut self, pod: &Name, uid: &str, now: Instant) -> Option<GateRest> {
        self.places
            .get(pod)
            .filter(|place| place.uid.as_ref() == uid)?;
        let is_first = !self.kept.contains_key(pod);
        let kept = self.kept.entry(pod.clone()).or_default();
        let pause = LONGEST_REST.min(FIRST_REST * 2_u32.saturating_pow(kept.times.min(6)));
        kept.times = kept.times.saturating_add(1);
        kept.until = Some(now + pause);
        Some(GateRest { pause, is_first })
    }

    /// The next attempts need not wait: the right to remove gates may be there now.
    pub(super) fn end_rests(&mut self) {
        for kept in self.kept.values_mut() {
            *kept = KeptGate::default();
        }
    }

    /// Records the place of a pod, or that it has none. Returns whether that is new.
    pub(super) fn set(&mut self, pod: &Name, place: Option<GatePlace>) -> bool {
        let before = match &place {
            Some(place) => self.places.insert(pod.clone(), place.clone()),
            None => self.places.remove(pod),
        };
        if before == place {
            return false;
        }
        self.kept.remove(pod);
        if let Some(before) = before
            && let Some(line) = self.lines.get_mut(&pod.namespace)
        {
            line.remove(&(before, pod.name.clone()));
            if line.is_empty() {
                self.lines.remove(&pod.namespace);
            }
        }
        if let Some(place) = place {
            let line = self.lines.entry(pod.namespace.clone()).or_default();
            line.insert((place, pod.name.clone()));
        }
        true
    }

    /// The number of entries of each map.
    #[cfg(test)]
    pub(super) fn census(&self) -> Vec<usize> {
        let Self {
            places,
            lines,
            kept,
        } = self;
        vec![
            places.len(),
            kept.len(),
            lines.len(),
            lines.values().map(BTreeSet::len).sum(),
        ]
    }
}

/// No access depends on a gate, so nothing about it is urgent.
fn wake(pod: &Name) -> (Job, Urgency) {
    (Job::Gate(pod.clone()), Urgency::Normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(second: i64, uid: &str) -> GatePlace {
        GatePlace {
            since: Timestamp::from_second(second).unwrap(),
            uid: uid.into(),
        }
    }

    fn pod(name: &str) -> Name {
        Name::new("apps", name)
    }

    #[test]
    fn the_oldest_pods_of_a_namespace_are_in_line_and_others_do_not_count() {
        let mut gated = GatedPods::default();
        for (name, second) in [("c", 3), ("a", 1), ("b", 2)] {
            assert!(gated.set(&pod(name), Some(place(second, name))));
        }
        gated.set(&Name::new("shop", "old"), Some(place(0, "o")));
        let behind = |gated: &GatedPods, most| {
            let names = ["a", "b", "c"].into_iter();
            let behind = names.filter(|it| gated.is_behind(&pod(it), most));
            behind.collect::<Vec<_>>().join("")
        };
        assert_eq!(behind(&gated, 3), "");
        assert_eq!(behind(&gated, 2), "c");
        assert_eq!(behind(&gated, 1), "bc");
        assert_eq!(behind(&gated, 0), "abc");
        assert!(!gated.is_behind(&pod("unknown"), 0));
        // The line moves up when one leaves it.
        assert!(gated.set(&pod("a"), None));
        assert_eq!(behind(&gated, 2), "");
    }

    #[test]
    fn a_pod_of_the_same_age_waits_behind_the_smaller_uid() {
        let mut gated = GatedPods::default();
        gated.set(&pod("a"), Some(place(1, "u2")));
        gated.set(&pod("b"), Some(place(1, "u1")));
        assert!(gated.is_behind(&pod("a"), 1));
        assert!(!gated.is_behind(&pod("b"), 1));
    }

    #[test]
    fn a_pod_that_leaves_or_is_replaced_leaves_nothing() {
        let mut gated = GatedPods::default();
        assert!(gated.set(&pod("a"), Some(place(1, "u1"))));
        assert!(!gated.set(&pod("a"), Some(place(1, "u1"))));
        assert!(gated.set(&pod("a"), Some(place(2, "u2"))), "another pod");
        assert_eq!(gated.census(), [1, 0, 1, 1]);
        assert_eq!(gated.wake_of(&pod("a"), Some("u1")), None);
        assert_eq!(gated.wake_of(&pod("a"), None), None);
        let job = (Job::Gate(pod("a")), Urgency::Normal);
        assert_eq!(gated.wake_of(&pod("a"), Some("u2")), Some(job.clone()));
        assert_eq!(gated.wakes(), [job]);
        assert!(gated.set(&pod("a"), None));
        assert!(!gated.set(&pod("a"), None));
        assert_eq!(gated.census(), [0; 4]);
    }

    #[test]
    fn the_pause_after_a_refused_removal_doubles_up_to_an_hour_and_the_pod_is_told_once() {
        let mut gated = GatedPods::default();
        let mut now = Instant::now();
        assert_eq!(gated.refused(&pod("a"), "u1", now), None, "it has no gate");
        gated.set(&pod("a"), Some(place(1, "u1")));
        assert_eq!(gated.refused(&pod("a"), "u2", now), None, "another pod");
        assert_eq!(gated.rest(&pod("a"), now), None);
        for (at, minutes) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            let pause = Duration::from_mins(minutes);
            let is_first = at == 0;
            let rest = gated.refused(&pod("a"), "u1", now).unwrap();
            assert_eq!(rest, GateRest { pause, is_first });
            assert_eq!(gated.rest(&pod("a"), now), Some(pause));
            now += pause;
            assert_eq!(gated.rest(&pod("a"), now), None);
        }
        gated.refused(&pod("a"), "u1", now);
        gated.end_rests();
        assert_eq!(gated.rest(&pod("a"), now), None);
        let rest = gated.refused(&pod("a"), "u1", now).unwrap();
        assert_eq!((rest.pause, rest.is_first), (FIRST_REST, false));
        // Nothing is left of a pod that is replaced or goes.
        gated.set(&pod("a"), Some(place(2, "u2")));
        assert_eq!(gated.rest(&pod("a"), now), None);
        assert!(gated.refused(&pod("a"), "u2", now).unwrap().is_first);
        gated.set(&pod("a"), None);
        assert_eq!(gated.census(), [0; 4]);
    }
}
