//! The objects, their versions and their history.
//!
//! Every write goes through [`Store::put`] or [`Store::remove`]: one write makes one version, one entry of
//! the history and one entry of the log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    access::Rbac,
    clock::Clock,
    kind::{self, Kind},
    meta,
    owners::Owners,
    record::{ChangeKind, ChangeRecord, Entry, What},
};

/// The location of an object. Objects are sorted as the server lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(kind: &Kind, namespace: &str, name: &str) -> Self {
        Self {
            group: kind.group.clone(),
            plural: kind.plural.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// A change, and its time.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Duration,
    pub(crate) key: Key,
    pub(crate) record: ChangeRecord,
}

pub(crate) type Objects = BTreeMap<Key, Arc<Value>>;

/// The complete contents of the server.
pub(crate) struct Store {
    pub(crate) clock: Clock,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) objects: Objects,
    /// The managers of each object's fields.
    pub(crate) owners: BTreeMap<Key, Owners>,
    pub(crate) rbac: Rbac,
    pub(crate) log: Vec<Entry>,
    /// Versions count from 1 without gaps, so the change with version `v` is at `v - 1`.
    pub(crate) history: Vec<Change>,
    /// Versions up to this one can neither be watched from nor listed.
    pub(crate) compacted: u64,
    /// The limit of objects in a page of a list, regardless of the request.
    pub(crate) most_of_a_page: usize,
    /// A write since the last run of the garbage collector may have left garbage.
    pub(crate) unsettled: bool,
    serial: u64,
}

impl Store {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self {
            clock: Clock::new(start),
            kinds: kind::from_the_start(),
            objects: BTreeMap::new(),
            owners: BTreeMap::new(),
            rbac: Rbac::default(),
            log: Vec::new(),
            history: Vec::new(),
            compacted: 0,
            most_of_a_page: usize::MAX,
            unsettled: false,
            serial: 0,
        }
    }

    /// The newest version.
    pub(crate) fn version(&self) -> u64 {
        self.history.len() as u64
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a kind, in one namespace or, when that is empty, in all.
    pub(crate) fn of_kind<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.objects
            .range(Key::new(kind, namespace, "")..)
            .take_while(move |(key, _)| kind.is_plural(&key.group, &key.plural))
            .filter(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
    }

    /// The objects of a kind as they were at a version.
    pub(crate) fn at_version(&self, kind: &Kind, namespace: &str, version: u64) -> Objects {
        let mut objects: Objects = self
            .of_kind(kind, namespace)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for change in self.since(version).iter().rev() {
            let key = &change.key;
            let is_ours = kind.is_plural(&key.group, &key.plural)
                && (namespace.is_empty() || key.namespace == namespace);
            if !is_ours {
                continue;
            }
            match &change.record.before {
                Some(before) => objects.insert(key.clone(), before.clone()),
                None => objects.remove(key),
            };
        }
        objects
    }

    /// The changes after a version.
    pub(crate) fn since(&self, version: u64) -> &[Change] {
        let from = usize::try_from(version).unwrap_or(usize::MAX);
        self.history.get(from..).unwrap_or_default()
    }

    /// A kind by its path.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.kinds
            .iter()
            .find(|kind| kind.is_plural(group, plural) && kind.version == version)
    }

    /// A number that was not used before, for UIDs and generated names.
    pub(crate) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Writes an object under a new version.
    pub(crate) fn put(&mut self, key: &Key, mut object: Value, by: &str) -> Arc<Value> {
        let version = self.version() + 1;
        meta::set(&mut object, "resourceVersion", version.to_string().into());
        self.unsettled |= meta::is_being_deleted(&object) || !meta::owners(&object).is_empty();
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        self.rbac.put(key, &object);
        let kind = if before.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        self.record(kind, key, before, Some(object.clone()), by);
        object
    }

    /// Removes an object; the returned one has the version of its deletion.
    pub(crate) fn remove(&mut self, key: &Key, by: &str) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.owners.remove(key);
        self.unsettled = true;
        self.rbac.remove(key, &before);
        self.record(ChangeKind::Deleted, key, Some(before.clone()), None, by);
        Some(Arc::new(at(&before, self.version())))
    }

    fn record(
        &mut self,
        kind: ChangeKind,
        key: &Key,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
        by: &str,
    ) {
        let object = after.as_ref().or(before.as_ref());
        let record = ChangeRecord {
            kind,
            group: key.group.clone(),
            plural: key.plural.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: object.map_or("", |it| meta::uid(it)).to_owned(),
            version: self.version() + 1,
            by: by.to_owned(),
            before,
            after,
        };
        self.note(What::Change(record.clone()));
        let at = self.clock.elapsed();
        self.history.push(Change {
            at,
            key: key.clone(),
            record,
        });
    }

    /// Appends to the log.
    pub(crate) fn note(&mut self, what: What) {
        self.log.push(Entry {
            at: self.clock.elapsed(),
            wall: self.clock.wall(),
            what,
        });
    }
}

/// An object with another version.
pub(crate) fn at(object: &Value, version: u64) -> Value {
    let mut object = object.clone();
    meta::set(&mut object, "resourceVersion", version.to_string().into());
    object
}
