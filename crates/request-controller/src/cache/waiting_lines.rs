//! The lines in which requests wait for a place: one for each pair of a connector's namespace and a pod's namespace.
//!
//! Invariant: requests of one pair of namespaces take no place of another pair, and a line without requests is gone.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use connectors_api::access_request::Phase;
use jiff::Timestamp;

use super::{
    RequestHead,
    index::{Index, add, take},
};
use crate::api::Name;

/// The namespaces of a connector and of a pod.
pub(super) type NamespacePair = (String, String);

/// The oldest request comes first.
type RequestPlace = (Option<Timestamp>, Option<Arc<str>>, Name);

/// Requests by their line.
#[derive(Default)]
pub(super) struct WaitingLines {
    waiting: Index<NamespacePair, RequestPlace>,
    /// Waiting requests beyond the limit of their line, which no other event wakes.
    beyond: Index<NamespacePair, RequestPlace>,
    /// The number of readable requests without access. Decided ones stay for hours or days.
    ungranted: BTreeMap<NamespacePair, usize>,
}

impl WaitingLines {
    /// The number of lines in each map.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 3] {
        let Self {
            waiting,
            beyond,
            ungranted,
        } = self;
        [waiting.len(), beyond.len(), ungranted.len()]
    }

    pub(super) fn put(&mut self, name: &Name, head: &RequestHead) {
        let line = line_of(name, head);
        if head.is_waiting() {
            add(&mut self.waiting, line.clone(), place(name, head));
        }
        if head.phase != Some(Phase::Granted) {
            *self.ungranted.entry(line).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, name: &Name, head: &RequestHead) {
        let (line, own) = (line_of(name, head), place(name, head));
        take(&mut self.waiting, &line, &own);
        take(&mut self.beyond, &line, &own);
        if head.phase != Some(Phase::Granted)
            && let Entry::Occupied(mut count) = self.ungranted.entry(line)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// True when a line has at least `most` requests without access, decided ones included.
    pub(super) fn is_full(&self, line: &NamespacePair, most: usize) -> bool {
        self.ungranted.get(line).copied().unwrap_or_default() >= most
    }

    /// True when at least `most` requests of the same line have waited longer.
    pub(super) fn is_behind(&self, name: &Name, head: &RequestHead, most: usize) -> bool {
        let waiting = self.waiting.get(&line_of(name, head));
        let Some(waiting) = waiting.filter(|it| it.len() >= most) else {
            // Most lines are short, and are not counted.
            return most == 0;
        };
        let own = place(name, head);
        let before = waiting.iter().take_while(|it| **it < own);
        before.take(most).count() >= most
    }

    /// Records whether a waiting request is beyond the limit of its line.
    pub(super) fn set_beyond(&mut self, name: &Name, head: &RequestHead, is_beyond: bool) {
        let (line, place) = (line_of(name, head), place(name, head));
        if is_beyond {
            add(&mut self.beyond, line, place);
        } else {
            take(&mut self.beyond, &line, &place);
        }
    }

    /// The first request of a line that is beyond its limit.
    pub(super) fn next_beyond(&self, line: &NamespacePair) -> Option<&Name> {
        let (.., name) = self.beyond.get(line)?.first()?;
        Some(name)
    }

    /// The first `most` requests of each line.
    pub(super) fn first(&self, most: usize) -> impl Iterator<Item = &Name> {
        let lines = self.waiting.values();
        lines.flat_map(move |line| line.iter().take(most).map(|(.., name)| name))
    }

    /// The number of requests that wait for connectors of these namespaces.
    pub(super) fn count(&self, counts: impl Fn(&str) -> bool) -> usize {
        let lines = self.waiting.iter();
        let lines = lines.filter(|((namespace, _), _)| counts(namespace));
        lines.map(|(_, line)| line.len()).sum()
    }
}

/// The line of a request.
pub(super) fn line_of(name: &Name, head: &RequestHead) -> NamespacePair {
    (name.namespace.clone(), head.pod.namespace.clone())
}

fn place(name: &Name, head: &RequestHead) -> RequestPlace {
    (head.created, head.uid.clone(), name.clone())
}
