//! The writes of this process that the watches have not shown yet.
//!
//! The look after a write would find the caches behind it, and read everything again. So a write counts as seen until its
//! event comes. It hides nothing: it counts only on the version that it changed, any other event of its object ends it, and
//! so does time.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use connectors_api::AccessPolicyStatus;
use tokio::time::Instant;

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

/// What an event says about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// It is the last version.
    Last,
    /// It is an earlier version of the same look.
    Earlier,
    /// It is another state of the object.
    Other,
}

/// What becomes of the write of an object at its event.
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
    /// An object was written. The cache has this version of it.
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
        if versions.is_ahead_of(cached) {
            let name = Name::new(&job.namespace, &key.1);
            self.job_of.insert((key.0, name), job.clone());
            let of_job = self.objects.entry(job.clone()).or_default();
            of_job.insert(key, Unseen { versions, said, at });
        }
    }

    /// The status of a policy was written.
    pub(super) fn put_status(
        &mut self,
        job: &Job,
        (versions, said): (OwnVersions, AccessPolicyStatus),
        cached: Option<&str>,
        at: Instant,
    ) {
        if versions.is_ahead_of(cached) {
            let unseen = Unseen { versions, said, at };
            self.statuses.insert(job.clone(), unseen);
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
            self.job_of.remove(&key);
            if let Some(of_job) = self.objects.get_mut(&job) {
                of_job.remove(&key_of_job);
                if of_job.is_empty() {
                    self.objects.remove(&job);
                }
            }
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

    /// Forgets the writes of which no event came in time, and returns their jobs.
    pub(super) fn forget_late(&mut self, now: Instant) -> Vec<Job> {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= UNSEEN;
        let mut late = Vec::new();
        let job_of = &mut self.job_of;
        self.objects.retain(|job, of_job| {
            let before = of_job.len();
            of_job.retain(|(kind, name), it| {
                let ends = is_late(it.at);
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
            let ends = is_late(it.at);
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
