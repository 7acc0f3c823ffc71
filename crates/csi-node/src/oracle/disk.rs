//! The node's file system as a mounter sees it, in the steps of the real one. Any step may fail, and the process may
//! die after any.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::watch, time::Instant};

use crate::{
    content::{ConnectorFacts, Content, Record},
    error_file::ErrorFile,
    mounter::{MountError, Mounter, OnDisk, Passage},
    volume::VolumePath,
};

/// The files of a connector's folder.
pub(super) type Folder = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Marker {
    None,
    Complete(Record),
    Revoked(Record),
    Rejected(Record),
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    is_mounted: bool,
    marker: Marker,
    /// What the pod finds, by folder.
    pub(super) content: BTreeMap<String, Folder>,
    pub(super) while_off: bool,
    /// The error that it holds instead of content.
    error: Option<String>,
    is_sealed: bool,
}

/// What the pod of a volume sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Partial,
    Full {
        while_off: bool,
    },
    Empty,
    /// It holds an error, and nothing else.
    Rejected,
}

/// A change that a pod notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The content is there; with how the pod came to it.
    Delivered {
        first: bool,
        while_off: bool,
        content: BTreeMap<String, Folder>,
    },
    Emptied {
        while_off: bool,
    },
    /// An error is there, with this text.
    Rejected(String),
    Cleared,
}

/// When, where and by which process.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Instant,
    pub(super) place: VolumePath,
    pub(super) process: usize,
    pub(super) what: What,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    volumes: HashMap<VolumePath, Volume>,
    pub(super) changes: Vec<Change>,
    /// The process that lives. What another one does has no effect any more.
    pub(super) process: usize,
    /// So many steps from now one fails.
    pub(super) fails_in: Option<usize>,
    /// So many steps from now the process dies.
    pub(super) dies_in: Option<usize>,
    /// When steps failed.
    pub(super) failures: Vec<Instant>,
    /// Counts every step here and every call to a service: the points at which a call may be cut off.
    pub(super) points: watch::Sender<usize>,
    pub(super) died: usize,
    /// What no mounter may be told to do.
    pub(super) problems: Vec<String>,
}

impl Volume {
    /// The facts that differ from those of the pod.
    fn newer(&self, facts: &[ConnectorFacts]) -> Vec<(String, &'static str, String)> {
        let each = facts.iter().flat_map(|facts| {
            facts
                .lively()
                .map(|(name, fact)| (facts.folder(), name, fact))
        });
        let newer = each.filter(|(folder, name, fact)| {
            let there = self.content.get(folder).and_then(|it| it.get(*name));
            there.is_none_or(|there| there != fact)
        });
        newer
            .map(|(folder, name, fact)| (folder, name, fact.to_owned()))
            .collect()
    }
}

impl Disk {
    /// What is at a place.
    pub(super) fn state(&self, place: &VolumePath) -> State {
        let Some(volume) = self.volumes.get(place) else {
            return State::Absent;
        };
        match (&volume.marker, volume.is_mounted) {
            (Marker::Complete(_), true) => State::Full {
                while_off: volume.while_off,
            },
            (Marker::Revoked(_), true) => State::Empty,
            (Marker::Rejected(_), true) => State::Rejected,
            (Marker::Complete(_) | Marker::Revoked(_) | Marker::Rejected(_) | Marker::None, _) => {
                State::Partial
            }
        }
    }

    pub(super) fn volume(&self, place: &VolumePath) -> Option<&Volume> {
        self.volumes.get(place)
    }

    pub(super) fn is_sealed(&self, place: &VolumePath) -> bool {
        self.volumes.get(place).is_none_or(|it| it.is_sealed)
    }

    pub(super) fn is_bare(&self) -> bool {
        self.volumes.is_empty()
    }

    fn note(&mut self, place: &VolumePath, what: What) {
        self.changes.push(Change {
            at: Instant::now(),
            place: place.clone(),
            process: self.process,
            what,
        });
    }
}

/// The disk as one process reaches it.
#[derive(Clone, Debug)]
pub(super) struct OfProcess {
    disk: Arc<Mutex<Disk>>,
    process: usize,
}

fn broken(step: &'static str) -> MountError {
    MountError::Step {
        step,
        path: "/x".into(),
        source: std::io::Error::other("broken"),
    }
}

impl OfProcess {
    pub(super) const fn new(disk: Arc<Mutex<Disk>>, process: usize) -> Self {
        Self { disk, process }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of a change.
    fn step<T>(
        &self,
        step: &'static str,
        change: impl FnOnce(&mut Disk) -> T,
    ) -> Result<T, MountError> {
        let mut disk = self.disk();
        if disk.process != self.process {
            return Err(broken("live"));
        }
        disk.points.send_modify(|points| *points += 1);
        if let Some(left) = disk.fails_in.take() {
            if left == 0 {
                let now = Instant::now();
                disk.failures.push(now);
                return Err(broken(step));
            }
            disk.fails_in = Some(left - 1);
        }
        let changed = change(&mut disk);
        match disk.dies_in.take() {
            Some(0) => {
                disk.process += 1;
                disk.died += 1;
                disk.failures.push(Instant::now());
            }
            left => disk.dies_in = left.map(|left| left - 1),
        }
        Ok(changed)
    }

    fn change(
        &self,
        step: &'static str,
        place: &VolumePath,
        change: impl FnOnce(&mut Volume),
    ) -> Result<(), MountError> {
        self.step(step, |disk| {
            let Some(volume) = disk.volumes.get_mut(place) else {
                return;
            };
            change(volume);
            if volume.is_sealed {
                disk.problems.push(format!("{step} at a sealed volume"));
            }
        })
    }

    fn seal(&self, place: &VolumePath, sealed: bool) -> Result<(), MountError> {
        self.step("seal", |disk| {
            if let Some(volume) = disk.volumes.get_mut(place) {
                volume.is_sealed = sealed;
            }
        })
    }

    fn make(&self, place: &VolumePath) -> Result<(), MountError> {
        let bare = Volume {
            is_mounted: false,
            marker: Marker::None,
            content: BTreeMap::new(),
            while_off: false,
            error: None,
            is_sealed: false,
        };
        self.step("make", |disk| {
            let before = disk.volumes.insert(place.clone(), bare);
            if before.is_some() {
                disk.problems.push("mounted over something".to_owned());
            }
        })?;
        self.change("mount", place, |volume| volume.is_mounted = true)
    }

    fn write(&self, place: &VolumePath, content: &Content) -> Result<(), MountError> {
        self.change("set aside", place, |volume| volume.content.clear())?;
        for facts in &content.facts {
            self.change("write facts", place, |volume| {
                let file = |(name, content): (&str, &str)| (name.to_owned(), content.to_owned());
                let files = facts.files().map(file).into_iter().collect();
                volume.content.insert(facts.folder(), files);
            })?;
        }
        Ok(())
    }

    fn complete(&self, place: &VolumePath, record: &Record) -> Result<(), MountError> {
        self.step("complete", |disk| {
            let Some(volume) = disk.volumes.get_mut(place) else {
                return;
            };
            let first = volume.marker == Marker::None;
            volume.marker = Marker::Complete(record.clone());
            let what = What::Delivered {
                first,
                while_off: volume.while_off,
                content: volume.content.clone(),
            };
            disk.note(place, what);
        })
    }
}

impl Mounter for OfProcess {
    fn look(&self, place: &VolumePath) -> Result<OnDisk, MountError> {
        let found = self.step("look", |disk| match disk.volumes.get(place) {
            None => OnDisk::Nothing,
            Some(volume) => match &volume.marker {
                Marker::None => OnDisk::Partial,
                Marker::Complete(record) => OnDisk::Published(record.clone()),
                Marker::Revoked(record) => OnDisk::Emptied(record.clone()),
                Marker::Rejected(record) => OnDisk::Rejected(record.clone()),
            },
        })?;
        if !matches!(found, OnDisk::Nothing | OnDisk::Partial) && !self.disk().is_sealed(place) {
            self.seal(place, true)?;
        }
        Ok(found)
    }

    fn publish(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
        passage: Passage,
    ) -> Result<(), MountError> {
        self.make(place)?;
        self.write(place, content)?;
        let while_off = passage == Passage::WhileOff;
        self.change("mark", place, |volume| volume.while_off = while_off)?;
        self.complete(place, record)?;
        self.seal(place, true)
    }

    fn publish_error(
        &self,
        place: &VolumePath,
        record: &Record,
        error: &ErrorFile,
    ) -> Result<(), MountError> {
        self.make(place)?;
        let text = error.text().to_owned();
        self.change("write the error", place, |volume| volume.error = Some(text))?;
        self.step("reject", |disk| {
            let Some(volume) = disk.volumes.get_mut(place) else {
                return;
            };
            volume.marker = Marker::Rejected(record.clone());
            let text = volume.error.clone().unwrap_or_default();
            disk.note(place, What::Rejected(text));
        })?;
        self.seal(place, true)
    }

    fn passage(&self, place: &VolumePath) -> Result<Passage, MountError> {
        self.step("look at", |disk| match disk.volumes.get(place) {
            Some(volume) if volume.while_off => Passage::WhileOff,
            Some(_) | None => Passage::Gated,
        })
    }

    fn empty(&self, place: &VolumePath) -> Result<(), MountError> {
        self.seal(place, false)?;
        let emptied = (|| {
            let mut was_off = false;
            self.change("mark", place, |volume| {
                was_off = std::mem::take(&mut volume.while_off);
            })?;
            self.step("revoke", |disk| {
                let Some(volume) = disk.volumes.get_mut(place) else {
                    return;
                };
                if let Marker::Complete(record) = volume.marker.clone() {
                    volume.marker = Marker::Revoked(record);
                    disk.note(place, What::Emptied { while_off: was_off });
                }
            })?;
            self.change("set aside", place, |volume| volume.content.clear())
        })();
        self.seal(place, true).and(emptied)
    }

    fn refill(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
    ) -> Result<(), MountError> {
        self.seal(place, false)?;
        let filled = self
            .change("mark", place, |volume| volume.while_off = false)
            .and_then(|()| self.write(place, content))
            .and_then(|()| self.complete(place, record));
        self.seal(place, true).and(filled)
    }

    fn refresh(&self, place: &VolumePath, content: &Content) -> Result<bool, MountError> {
        let holds = self.step("look at", |disk| {
            let volume = disk.volumes.get(place);
            let there = volume.map(|it| it.newer(&content.facts));
            there.is_none_or(|newer| newer.is_empty())
        })?;
        if holds {
            return Ok(false);
        }
        self.seal(place, false)?;
        let renewed = self.change("renew", place, |volume| {
            for (folder, name, fact) in volume.newer(&content.facts) {
                let files = volume.content.entry(folder).or_default();
                files.insert(name.to_owned(), fact);
            }
        });
        self.seal(place, true).and(renewed).map(|()| true)
    }

    fn clear(&self, place: &VolumePath) -> Result<(), MountError> {
        self.step("clear", |disk| {
            if disk.volumes.remove(place).is_some() {
                disk.note(place, What::Cleared);
            }
        })
    }
}
