//! Volumes on a real node.
//!
//! Every folder on the way is opened without following links and without leaving the pods' folder. A mount uses the
//! descriptor that was checked.

mod sweep;

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FsWord, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes,
        StatxFlags, fstatfs, fstatvfs, mkdirat, openat2, statx, unlinkat,
    },
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount},
};
use tracing::warn;

use super::{MountError, Mounter, OnDisk, Passage, root_dir::RootDir, tmpfs::VolumeRoot};
use crate::{
    content::{Content, Record},
    error_file::ErrorFile,
    volume::VolumePath,
};

#[cfg(test)]
mod tests;

const TMPFS: &str = "tmpfs";
const TMPFS_MAGIC: FsWord = 0x0102_1994;
/// More than sixteen connectors need with any page size, and too little to harm a node.
const LIMITS: &CStr = c"size=16m,nr_inodes=1024,mode=0755";
/// The same, and the kernel writes no token to a swap device.
const LIMITS_WITHOUT_SWAP: &CStr = c"size=16m,nr_inodes=1024,mode=0755,noswap";
/// The limit of mounts on top of each other at one place, in case a process ever stacks them.
const STACKED: usize = 16;
/// The kubelet's own folders are for root only.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);

/// Mounts for real.
#[derive(Clone, Debug)]
pub(crate) struct Linux {
    /// The name of our mounts in the kernel's table: the driver's name.
    source: String,
}

/// The state of the target path.
enum TargetPath {
    Absent,
    /// A folder of the kubelet's file system.
    Bare(OwnedFd),
    /// The root of one of our file systems.
    Mounted(VolumeRoot),
}

const fn hardened() -> MountFlags {
    MountFlags::NOSUID
        .union(MountFlags::NODEV)
        .union(MountFlags::NOEXEC)
}

impl Linux {
    /// A mounter for the driver of this name.
    pub(crate) fn new(driver: &str) -> Self {
        Self {
            source: driver.to_owned(),
        }
    }

    /// Makes a file system of ours at an empty place.
    fn make(&self, place: &VolumePath) -> Result<VolumeRoot, MountError> {
        let parent = parent(place)?.ok_or_else(|| {
            step("open", &place.target())(io::Error::from(io::ErrorKind::NotFound))
        })?;
        match mkdirat(&parent, VolumePath::TARGET, TARGET_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(step("make", &place.target())(error.into())),
        }
        let TargetPath::Bare(bare) = target(place, &parent)? else {
            return Err(MountError::Foreign {
                path: place.target(),
            });
        };
        let target = by_descriptor(&bare);
        without_swap([LIMITS_WITHOUT_SWAP, LIMITS], |options| {
            mount(&self.source, &target, TMPFS, hardened(), options)
        })
        .map_err(|error| step("mount on", &place.target())(error.into()))?;
        mounted(place)
    }
}

impl Mounter for Linux {
    fn look(&self, place: &VolumePath) -> Result<OnDisk, MountError> {
        let Some(parent) = parent(place)? else {
            return Ok(OnDisk::Nothing);
        };
        let root = match target(place, &parent)? {
            TargetPath::Absent => return Ok(OnDisk::Nothing),
            TargetPath::Bare(_) => return Ok(OnDisk::Partial),
            TargetPath::Mounted(root) => root,
        };
        let found = root.found()?;
        // A process that died before its last step left the volume writable.
        if !matches!(found, OnDisk::Partial) && !is_read_only(&root)? {
            seal(&root)?;
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
        let root = self.make(place)?;
        root.write_content(content)?;
        root.mark(passage)?;
        root.complete(record)?;
        seal(&root)
    }

    fn publish_error(
        &self,
        place: &VolumePath,
        record: &Record,
        error: &ErrorFile,
    ) -> Result<(), MountError> {
        let root = self.make(place)?;
        root.write_error(error)?;
        root.rejected(record)?;
        seal(&root)
    }

    fn passage(&self, place: &VolumePath) -> Result<Passage, MountError> {
        let Some(parent) = parent(place)? else {
            return Ok(Passage::Gated);
        };
        match target(place, &parent)? {
            TargetPath::Absent | TargetPath::Bare(_) => Ok(Passage::Gated),
            TargetPath::Mounted(root) => root.passage(),
        }
    }

    fn empty(&self, place: &VolumePath) -> Result<(), MountError> {
        change(place, VolumeRoot::empty)
    }

    fn refill(
        &self,
        place: &VolumePath,
        record: &Record,
        content: &Content,
    ) -> Result<(), MountError> {
        change(place, |root| {
            root.mark(Passage::Gated)?;
            root.write_content(content)?;
            root.complete(record)
        })
    }

    fn refresh(&self, place: &VolumePath, content: &Content) -> Result<bool, MountError> {
        if mounted(place)?.holds(content)? {
            return Ok(false);
        }
        change(place, |root| root.renew(content)).map(|()| true)
    }

    fn clear(&self, place: &VolumePath) -> Result<(), MountError> {
        let Some(parent) = parent(place)? else {
            return Ok(());
        };
        let path = place.target();
        for _ in 0..STACKED {
            match target(place, &parent)? {
                TargetPath::Absent => return Ok(()),
                TargetPath::Bare(_) => break,
                // A process with an open file keeps the file system, out of sight of all others.
                TargetPath::Mounted(_) => {
                    unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                        .map_err(|error| step("unmount", &path)(error.into()))?;
                }
            }
        }
        match unlinkat(&parent, VolumePath::TARGET, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(step("remove", &path)(error.into())),
        }
    }
}

/// The folder that the kubelet made for the volume. None when it is missing.
fn parent(place: &VolumePath) -> Result<Option<OwnedFd>, MountError> {
    let failed = step("open", &place.target());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = openat2(
        CWD,
        place.pods(),
        flags,
        Mode::empty(),
        ResolveFlags::empty(),
    )
    .and_then(|pods| openat2(&pods, place.parent(), flags, Mode::empty(), inside));
    match opened {
        Ok(parent) => Ok(Some(parent)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

fn target(place: &VolumePath, parent: &OwnedFd) -> Result<TargetPath, MountError> {
    let path = place.target();
    let failed = |error: Errno| step("open", &path)(error.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let fd = match openat2(parent, VolumePath::TARGET, flags, Mode::empty(), inside) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(TargetPath::Absent),
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(MountError::Foreign { path }),
        Err(error) => return Err(failed(error)),
    };
    let stat = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map_err(failed)?;
    if !stat
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT)
    {
        // The kernel cannot tell, and a wrong guess would unmount or fill another file system.
        return Err(failed(Errno::NOSYS));
    }
    if !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(TargetPath::Bare(fd));
    }
    if fstatfs(&fd).map_err(failed)?.f_type != TMPFS_MAGIC {
        return Err(MountError::Foreign { path });
    }
    Ok(TargetPath::Mounted(VolumeRoot(RootDir::new(fd, path))))
}

/// The file system of ours at a place.
fn mounted(place: &VolumePath) -> Result<VolumeRoot, MountError> {
    let foreign = || MountError::Foreign {
        path: place.target(),
    };
    let parent = parent(place)?.ok_or_else(foreign)?;
    match target(place, &parent)? {
        TargetPath::Mounted(root) => Ok(root),
        TargetPath::Absent | TargetPath::Bare(_) => Err(foreign()),
    }
}

/// Opens the file system for writing during the change.
fn change(
    place: &VolumePath,
    change: impl FnOnce(&VolumeRoot) -> Result<(), MountError>,
) -> Result<(), MountError> {
    let root = mounted(place)?;
    remount(&root, hardened())?;
    let changed = change(&root);
    // Sealed again even after a failed change.
    seal(&root).and(changed)
}

/// Makes the file system itself read only, so every copy of the mount is read only for all users. An open file
/// without a name prevents that. It must not keep a volume from being emptied, so the volume is used as it is, and a
/// later call seals it. Pods cannot write it: their mounts are read only.
fn seal(root: &VolumeRoot) -> Result<(), MountError> {
    let path = root.0.path();
    match remounted(root, hardened() | MountFlags::RDONLY) {
        Err(Errno::BUSY) => {
            warn!(volume = %path.display(), "an open file without a name keeps the volume from being sealed");
            Ok(())
        }
        sealed => sealed.map_err(|error| step("remount", path)(error.into())),
    }
}

fn remount(root: &VolumeRoot, flags: MountFlags) -> Result<(), MountError> {
    remounted(root, flags).map_err(|error| step("remount", root.0.path())(error.into()))
}

fn remounted(root: &VolumeRoot, flags: MountFlags) -> Result<(), Errno> {
    let path = by_descriptor(&root.0.fd());
    without_swap([c"noswap", c""], |options| {
        mount_remount(&path, flags, options)
    })
}

/// Calls the kernel with the option `noswap`, and without it if the kernel refuses it. Kernels before 6.4 do not know
/// it. A remount must repeat what the mount was made with, and an older version of this program made mounts without it.
fn without_swap(
    [with, without]: [&CStr; 2],
    call: impl Fn(&CStr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match call(with) {
        Err(Errno::INVAL) => call(without),
        done => done,
    }
}

fn is_read_only(root: &VolumeRoot) -> Result<bool, MountError> {
    let stat =
        fstatvfs(root.0.fd()).map_err(|error| step("look at", root.0.path())(error.into()))?;
    Ok(stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// A name of exactly this folder, whatever its path leads to now.
fn by_descriptor(fd: &impl AsFd) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_fd().as_raw_fd().to_string())
}

fn step(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError + use<> {
    let path = path.to_owned();
    move |source| MountError::Step { step, path, source }
}
