//! The volume at its place: its state, its creation and its removal.
//!
//! A volume is a small tmpfs at the target path, read only for all users once it is complete. A mount point never
//! proves a volume, because a process that dies between mounting and writing leaves one. The proof is a marker that
//! names the owner and is written last. A volume with an error for a refused pod has a marker of its own, so that it
//! is never taken for one with content.

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

/// The state of a volume's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnDisk {
    /// Nothing at all.
    Nothing,
    /// An incomplete volume of ours.
    Partial,
    /// A complete volume.
    Published(Record),
    /// A volume whose content was removed.
    Emptied(Record),
    /// A volume that contains only an error, and never had content.
    Rejected(Record),
}

/// A volume that an earlier process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundVolume {
    /// The place.
    pub(crate) place: VolumePath,
    /// The owner.
    pub(crate) record: Record,
    /// The memory that it takes, in bytes.
    pub(crate) memory: usize,
}

/// How a pod came to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The pod was admitted. This is also the default.
    Gated,
    /// The volume was mounted while nothing was gated.
    WhileOff,
}

/// Why a volume cannot be handled. Paths are those of the node, so they go only to the log.
#[derive(Debug, Error)]
pub(crate) enum MountError {
    /// A step failed.
    #[error("cannot {step} {}", path.display())]
    Step {
        /// The failed step.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A process of the pod keeps the driver from writing a file.
    #[error(
        "a process of the pod holds a lease on {}; the kernel breaks it (fs.lease-break-time), and the next call of the \
         kubelet tries again",
        path.display()
    )]
    Leased {
        /// The file.
        path: PathBuf,
    },
    /// An object that the driver did not create.
    #[error("{} is not ours", path.display())]
    Foreign {
        /// The place.
        path: PathBuf,
    },
}

/// Mounts volumes. Calls block. For one place they come one after the other.
pub(crate) trait Mounter: Send + Sync + 'static {
    /// Reads the state of a place.
    fn look(&self, place: &VolumePath) -> Result<OnDisk, MountError>;

    /// Makes a volume at an empty place. After an error something may be left.
    fn publish(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
        passage: Passage,
    ) -> Result<(), MountError>;

    /// Makes a volume that contains only an error, at an empty place. After an error something may be left.
    fn publish_error(
        &self,
        place: &VolumePath,
        record: &Record,
        error: &ErrorFile,
    ) -> Result<(), MountError>;

    /// How the pod came to the present content. A volume that was emptied once is gated.
    fn passage(&self, place: &VolumePath) -> Result<Passage, MountError>;

    /// Removes the content and leaves the mount, because containers would not notice another one.
    fn empty(&self, place: &VolumePath) -> Result<(), MountError>;

    /// Restores the content of an emptied volume.
    fn refill(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
    ) -> Result<(), MountError>;

    /// Gives a complete volume newer content. Readers see all of it or none. False if it has that content already.
    fn refresh(&self, place: &VolumePath, content: &Content) -> Result<bool, MountError>;

    /// Removes the volume. Without an error nothing is left.
    fn clear(&self, place: &VolumePath) -> Result<(), MountError>;
}
