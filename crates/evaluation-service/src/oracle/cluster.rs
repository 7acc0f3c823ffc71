//! What happened to every object, and what of it was shown to the service.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::clock;

/// Resource versions begin here.
const FIRST: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    Request,
    Policy,
    Connector,
    Namespace,
    Config,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Role,
        Self::RoleBinding,
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Request,
        Self::Policy,
        Self::Connector,
        Self::Namespace,
        Self::Config,
    ];
    /// The kinds that a decision rests on.
    pub(super) const DECIDING: &'static [Self] = Self::ALL.split_at(5).0;
    /// The kinds that must be fresh for all that an answer says.
    pub(super) const SOURCES: &'static [Self] = Self::ALL.split_at(8).0;

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::Request => "accessrequests",
            Self::Policy => "accesspolicies",
            Self::Connector => "connectors",
            Self::Namespace => "namespaces",
            Self::Config => "configmaps",
        }
    }

    pub(super) fn of_plural(plural: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.plural() == plural)
            .unwrap_or_else(|| panic!("nobody serves {plural}"))
    }
}

/// Namespace and name; the namespace of what has none is empty.
pub(super) type Key = (String, String);

/// One version of one object.
pub(super) struct Change {
    kind: Kind,
    key: Key,
    /// None: it was deleted.
    object: Option<Value>,
    /// An object that no reader of its kind understands counts as none.
    is_readable: bool,
}

/// The service was shown all of a kind up to a version.
#[derive(Clone, Copy)]
struct Shown {
    heard: Timestamp,
    version: usize,
    /// The API server said so of this moment.
    as_of: Timestamp,
}

/// The number of changes before a moment is the version of everything then.
#[derive(Default)]
pub(super) struct Cluster {
    log: Vec<Change>,
    shown: BTreeMap<Kind, Vec<Shown>>,
}

/// What an object may have been, over a while; none is absence.
pub(super) type Versions<'a> = BTreeMap<&'a Key, Vec<Option<&'a Value>>>;

impl Cluster {
    pub(super) fn version(&self) -> usize {
        self.log.len()
    }

    pub(super) fn resource_version(version: usize) -> String {
        (FIRST + version).to_string()
    }

    pub(super) fn of_resource_version(text: &str) -> usize {
        text.parse::<usize>().unwrap() - FIRST
    }

    /// Writes an object, or deletes it. Tells the type of the event and the object in it, if anything happened.
    pub(super) fn write(
        &mut self,
        kind: Kind,
        key: Key,
        object: Option<Value>,
        is_readable: bool,
    ) -> Option<(&'static str, Value)> {
        let before = self.object(kind, &key);
        let event = match (&before, &object) {
            (None, None) => return None,
            (None, Some(_)) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
            (Some(_), None) => "DELETED",
        };
        let version = Self::resource_version(self.log.len() + 1);
        let stored = |mut object: Value| {
            object["metadata"]["resourceVersion"] = version.clone().into();
            object
        };
        let object = object.map(stored);
        let told = object.clone().or_else(|| before.map(stored));
        self.log.push(Change {
            kind,
            key,
            object,
            is_readable,
        });
        Some((event, told?))
    }

    pub(super) fn object(&self, kind: Kind, key: &Key) -> Option<Value> {
        let mut log = self.log.iter().rev();
        let last = log.find(|it| it.kind == kind && it.key == *key)?;
        last.object.clone()
    }

    /// All objects of a kind, as the API server stores them.
    pub(super) fn objects(&self, kind: Kind) -> Vec<Value> {
        let mut objects = BTreeMap::new();
        for change in self.log.iter().filter(|it| it.kind == kind) {
            objects.insert(&change.key, &change.object);
        }
        objects.into_values().flatten().cloned().collect()
    }

    /// The events of a kind after a version: their versions, types and objects.
    pub(super) fn events(&self, kind: Kind, after: usize) -> Vec<(usize, &'static str, Value)> {
        let mut events = Vec::new();
        for (place, change) in self.log.iter().enumerate().skip(after) {
            if change.kind != kind {
                continue;
            }
            let before = self.log.iter().take(place).rev();
            let mut before = before.filter(|it| it.kind == kind && it.key == change.key);
            let before = before.next().and_then(|it| it.object.clone());
            let version = Self::resource_version(place + 1);
            let (event, object) = match (before, change.object.clone()) {
                (None, Some(object)) => ("ADDED", object),
                (Some(_), Some(object)) => ("MODIFIED", object),
                (Some(mut object), None) => {
                    object["metadata"]["resourceVersion"] = version.into();
                    ("DELETED", object)
                }
                (None, None) => continue,
            };
            events.push((place + 1, event, object));
        }
        events
    }

    /// What each object of a kind was at one of these versions and between them.
    pub(super) fn versions(&self, kind: Kind, from: usize, to: usize) -> Versions<'_> {
        let mut all = Versions::new();
        for (place, change) in self.log.iter().enumerate().take(to) {
            if change.kind != kind {
                continue;
            }
            let object = change.object.as_ref().filter(|_| change.is_readable);
            if place < from {
                all.insert(&change.key, vec![object]);
            } else {
                let was = all.entry(&change.key).or_insert_with(|| vec![None]);
                was.push(object);
            }
        }
        all
    }

    /// The service was just shown everything of a kind up to this version, as of this moment.
    pub(super) fn show(&mut self, kind: Kind, version: usize, as_of: Timestamp) {
        let shown = self.shown.entry(kind).or_default();
        // A list that is newer than a watch goes on from where it is.
        let last = shown.last().map_or((0, as_of), |it| (it.version, it.as_of));
        shown.push(Shown {
            heard: clock::now(),
            version: version.max(last.0),
            as_of: as_of.max(last.1),
        });
    }

    fn shown(&self, kind: Kind, before: Timestamp) -> Option<Shown> {
        let shown = self.shown.get(&kind)?;
        shown.iter().rev().find(|it| it.heard < before).copied()
    }

    /// As much of a kind as the service had been shown before a moment.
    pub(super) fn known(&self, kind: Kind, before: Timestamp) -> usize {
        self.shown(kind, before).map_or(0, |it| it.version)
    }

    /// As of when the slowest of some kinds had been shown before a moment.
    pub(super) fn known_as_of(&self, kinds: &[Kind], before: Timestamp) -> Option<Timestamp> {
        let shown = kinds.iter().map(|kind| self.shown(*kind, before));
        let as_of: Option<Vec<_>> = shown.map(|it| it.map(|it| it.as_of)).collect();
        as_of?.into_iter().min()
    }

    /// An object as the service was shown it, each time with the moment.
    pub(super) fn seen<'a>(
        &'a self,
        kind: Kind,
        key: &'a Key,
    ) -> impl Iterator<Item = (Timestamp, Option<&'a Value>)> {
        let shown = self.shown.get(&kind).into_iter().flatten();
        shown.map(move |shown| {
            let mut log = self.log.iter().take(shown.version).rev();
            let last = log.find(|it| it.kind == kind && it.key == *key);
            (shown.heard, last.and_then(|it| it.object.as_ref()))
        })
    }
}
