//! The writes of this process that the watches have not shown yet.
//!
//! The look after a write would find the caches behind it, and read everything again. So a write counts as seen until its
//! event comes. It hides nothing: it counts only on the version that it changed, any other event of its object ends it, and
//! so does time.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use connectors_api::AccessPolicyStatus;
use tokio::{sync::Notify, time::Instant};

use super::{Job, ManagedByName};
use crate::seen::{Fingerprint, ManagedCached, ManagedKind, Name};

/// How long a write counts without its event. Watches take milliseconds, and some seconds under load.
pub const UNSEEN: Duration = Duration::from_secs(10);

/// The versions that one look made of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnVersions {
    /// The version that was changed; none of a new object.
    pub before: Option<String>,
    /// In their order.
    pub made: Vec<String>,
}

/// A Role or RoleBinding that was written as it was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnObject {
    /// Its kind and name.
    pub key: (ManagedKind, String),
    /// Its versions.
    pub versions: OwnVersions,
    /// The content of the last one.
    pub said: Fingerprint,
}

/// The state of an object in an event, compared with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// It is the last version.
    Last,
    /// It is an earlier version of the same look.
    Earlier,
    /// It is another state of the object.
    Other,
}

/// The effect of an event on the write of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnEvent {
    /// There is none.
    None,
    /// The event shows it, so it changes nothing for its job.
    Shows(Job),
    /// The event shows something else, so that it does not count any more.
    Ends(Job),
}

#[derive(Debug)]
struct Unseen<T> {
    versions: OwnVersions,
    said: T,
    at: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    objects: BTreeMap<Job, BTreeMap<(ManagedKind, String), Unseen<Fingerprint>>>,
    /// The job of each of these objects, whatever its labels say later.
    job_of: HashMap<(ManagedKind, Name), Job>,
    statuses: HashMap<Job, Unseen<AccessPolicyStatus>>,
    /// Notified of each write.
    put: Arc<Notify>,
}

impl<T> Unseen<T> {
    fn late(&self) -> Instant {
        self.at + UNSEEN
    }
}

impl OwnVersions {
    fn shown_by(&self, version: Option<&str>) -> Shown {
        let made = self.made.split_last();
        match (made, version) {
            (Some((last, _)), Some(version)) if last == version => Shown::Last,
            (Some((_, earlier)), Some(version)) if earlier.iter().any(|it| it == version) => {
                Shown::Earlier
            }
            _ => Shown::Other,
        }
    }

    /// Whether the cache has the object as it was before the last write. Otherwise it knows the write, or knows more.
    fn is_ahead_of(&self, cached: Option<&str>) -> bool {
        cached == self.before.as_deref() || self.shown_by(cached) == Shown::Earlier
    }
}

impl OwnWrites {
    /// An object was written. The cache has this version of it. An earlier write of it counts no more: another one changed
    /// what it made.
    pub(super) fn put_object(
        &mut self,
        job: &Job,
        object: OwnObject,
        cached: Option<&str>,
        at: Instant,
    ) {
        let OwnObject {
            key,
            versions,
            said,
        } = object;
        let named = (key.0, Name::new(&job.namespace, &key.1));
        self.end_object(job, &key, &named);
        if versions.is_ahead_of(cached) {
            self.job_of.insert(named, job.clone());
            let of_job = self.objects.entry(job.clone()).or_default();
            of_job.insert(key, Unseen { versions, said, at });
            self.put.notify_one();
        }
    }

    fn end_object(&mut self, job: &Job, key: &(ManagedKind, String), named: &(ManagedKind, Name)) {
        self.job_of.remove(named);
        if let Some(of_job) = self.objects.get_mut(job) {
            of_job.remove(key);
            if of_job.is_empty() {
                self.objects.remove(job);
            }
        }
    }

    /// The status of a policy was written. An earlier write of it counts no more.
    pub(super) fn put_status(
        &mut self,
        job: &Job,
        (versions, said): (OwnVersions, AccessPolicyStatus),
        cached: Option<&str>,
        at: Instant,
    ) {
        self.statuses.remove(job);
        if versions.is_ahead_of(cached) {
            let unseen = Unseen { versions, said, at };
            self.statuses.insert(job.clone(), unseen);
            self.put.notify_one();
        }
    }

    /// An event shows this version of an object under the job of its label, or that it is gone.
    pub(super) fn object_shown(
        &mut self,
        kind: ManagedKind,
        name: &Name,
        object: Option<(&Job, &str)>,
    ) -> OwnEvent {
        let key = (kind, name.clone());
        let Some(job) = self.job_of.get(&key).cloned() else {
            return OwnEvent::None;
        };
        let version = object.filter(|(it, _)| **it == job).map(|(_, it)| it);
        let key_of_job = (kind, name.name.clone());
        let of_job = self.objects.get(&job);
        let own = of_job.and_then(|it| it.get(&key_of_job));
        let shown = own.map_or(Shown::Other, |it| it.versions.shown_by(version));
        if shown != Shown::Earlier {
            self.end_object(&job, &key_of_job, &key);
        }
        match shown {
            Shown::Last | Shown::Earlier => OwnEvent::Shows(job),
            Shown::Other => OwnEvent::Ends(job),
        }
    }

    /// An event shows this version of a job's policy, or that it is gone. True if that is a write that counted as seen.
    pub(super) fn status_shown(&mut self, job: &Job, version: Option<&str>) -> bool {
        let shown = self.statuses.get(job);
        let shown = shown.map(|it| it.versions.shown_by(version));
        if matches!(shown, Some(Shown::Last | Shown::Other)) {
            self.statuses.remove(job);
        }
        matches!(shown, Some(Shown::Last | Shown::Earlier))
    }

    /// Whether objects of the job were written.
    pub(super) fn has_objects(&self, job: &Job) -> bool {
        self.objects.contains_key(job)
    }

    /// The objects of a job, with what was written.
    pub(super) fn over<'a>(&self, job: &Job, cached: &'a ManagedByName) -> Cow<'a, ManagedByName> {
        let Some(written) = self.objects.get(job) else {
            return Cow::Borrowed(cached);
        };
        let mut objects = cached.clone();
        for (key, own) in written {
            let object = ManagedCached {
                version: own.versions.made.last().cloned().unwrap_or_default(),
                said: Some(own.said),
                terminating: false,
            };
            objects.insert(key.clone(), object);
        }
        Cow::Owned(objects)
    }

    /// The written status of a job's policy.
    pub(super) fn status(&self, job: &Job) -> Option<&AccessPolicyStatus> {
        self.statuses.get(job).map(|it| &it.said)
    }

    /// Notified of each write.
    pub(super) fn put(&self) -> Arc<Notify> {
        self.put.clone()
    }

    /// When the first write is late; none without any.
    pub(super) fn first_late(&self) -> Option<Instant> {
        let objects = self.objects.values().flat_map(BTreeMap::values);
        let objects = objects.map(Unseen::late);
        objects
            .chain(self.statuses.values().map(Unseen::late))
            .min()
    }

    /// Forgets the writes of which no event came in time, and returns their jobs.
    pub(super) fn forget_late(&mut self, now: Instant) -> Vec<Job> {
        let mut late = Vec::new();
        let job_of = &mut self.job_of;
        self.objects.retain(|job, of_job| {
            let before = of_job.len();
            of_job.retain(|(kind, name), it| {
                let ends = it.late() <= now;
                if ends {
                    job_of.remove(&(*kind, Name::new(&job.namespace, name)));
                }
                !ends
            });
            if of_job.len() < before {
                late.push(job.clone());
            }
            !of_job.is_empty()
        });
        self.statuses.retain(|job, it| {
            let ends = it.late() <= now;
            if ends {
                late.push(job.clone());
            }
            !ends
        });
        late
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(super) fn census(&self) -> usize {
        self.objects.len() + self.job_of.len() + self.statuses.len()
    }
}

#[cfg(test)]
mod tests;
