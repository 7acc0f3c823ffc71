//! The volume at its place: what is there, how it comes and how it goes.
//!
//! A volume is a small tmpfs at the target path, read only for everybody once it is complete. "It is
//! there" is never said by a mount point: a process that dies between mounting and writing leaves one.
//! It is said by a marker, written last, which names whose volume it is. A volume that says why its pod was refused has a
//! marker of its own, so that it is never taken for one with content.

mod file_sets;
mod linux;
mod root_dir;
mod table;
mod tmpfs;

use std::{io, path::PathBuf};

use thiserror::Error;

pub(crate) use linux::Linux;

use crate::{
    content::{Content, Record},
    error_file::ErrorFile,
    volume::VolumePath,
};

/// What is at the place of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnDisk {
    /// Nothing at all.
    Nothing,
    /// Something of ours that is not complete.
    Partial,
    /// A complete volume.
    Published(Record),
    /// A volume whose content was taken away.
    Emptied(Record),
    /// A volume that holds an error alone, and never had content.
    Rejected(Record),
}

/// A volume that an earlier process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundVolume {
    /// Where.
    pub(crate) place: VolumePath,
    /// Whose.
    pub(crate) record: Record,
    /// The memory that it takes, in bytes.
    pub(crate) memory: usize,
}

/// How a pod came to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It was allowed to have it. Also what holds where nothing else is known.
    Gated,
    /// The volume was mounted while nothing was gated.
    WhileOff,
}

/// Why a volume cannot be handled. Paths are those of the node: they go to the log only.
#[derive(Debug, Error)]
pub(crate) enum MountError {
    /// A step failed.
    #[error("cannot {step} {}", path.display())]
    Step {
        /// What was tried.
        step: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Something that we did not put there.
    #[error("{} is not ours", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
    },
}

/// Who mounts. Calls block; for one place they come one after the other.
pub(crate) trait Mounter: Send + Sync + 'static {
    /// What is there?
    fn look(&self, place: &VolumePath) -> Result<OnDisk, MountError>;

    /// Makes a volume where nothing is. On an error something may be left.
    fn publish(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
        passage: Passage,
    ) -> Result<(), MountError>;

    /// Makes a volume that holds an error alone where nothing is. On an error something may be left.
    fn publish_error(
        &self,
        place: &VolumePath,
        record: &Record,
        error: &ErrorFile,
    ) -> Result<(), MountError>;

    /// How the pod came to the content that is there. A volume that was emptied once is gated.
    fn passage(&self, place: &VolumePath) -> Result<Passage, MountError>;

    /// Takes the content away and leaves the mount: containers would not notice another one.
    fn empty(&self, place: &VolumePath) -> Result<(), MountError>;

    /// Gives an emptied volume its content again.
    fn refill(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
    ) -> Result<(), MountError>;

    /// Gives a complete volume newer content: all of it or none is seen. False if it has that content already.
    fn refresh(&self, place: &VolumePath, content: &Content) -> Result<bool, MountError>;

    /// Removes what is there. Afterwards nothing is, or this is an error.
    fn clear(&self, place: &VolumePath) -> Result<(), MountError>;
}
