//! The volumes that earlier processes left on the node: half-made ones, ones that the kubelet has forgotten, and others.

use std::{collections::BTreeSet, fs};

use rustix::{
    fs::{AtFlags, StatxFlags, statx},
    io::Errno,
};
use service_kit::report;
use tracing::{info, warn};

use super::{
    super::{FoundVolume, MountError, Mounter, OnDisk, table::mount_points},
    Linux, TMPFS, mounted, parent, step,
};
use crate::volume::{PodsDir, VolumePath};

/// The kubelet's own record of a volume. It writes the file before its first call and removes it after the last one.
/// Without the file it never calls for the removal.
const KNOWN_VOLUME: &str = "vol_data.json";

impl Linux {
    /// Removes half-made volumes, which the kubelet does not know of, and volumes that it does not know any more.
    /// Returns the others.
    pub(crate) fn sweep(&self, pods: &PodsDir) -> Vec<FoundVolume> {
        let table = match fs::read_to_string("/proc/self/mountinfo") {
            Ok(table) => table,
            Err(error) => {
                warn!(error = report(&error), "cannot read the table of mounts");
                return Vec::new();
            }
        };
        let points: BTreeSet<_> = mount_points(&table, TMPFS, &self.source)
            .into_iter()
            .collect();
        let places = points.iter().filter_map(|point| pods.at(point));
        let swept = places.filter_map(|place| {
            let volume = place.volume_id();
            self.swept(place).unwrap_or_else(|error| {
                warn!(volume, error = report(&error), "cannot sweep a volume");
                None
            })
        });
        swept.collect()
    }

    /// The volume at a place, if it stays.
    fn swept(&self, place: VolumePath) -> Result<Option<FoundVolume>, MountError> {
        let volume = place.volume_id();
        let record = match self.look(&place)? {
            OnDisk::Nothing => return Ok(None),
            OnDisk::Partial => {
                self.clear(&place)?;
                info!(volume, "removed a volume that was never completed");
                return Ok(None);
            }
            OnDisk::Published(record) | OnDisk::Emptied(record) if !is_known(&place)? => {
                // A container that still has it has its own mount of it.
                self.empty(&place)?;
                self.clear(&place)?;
                info!(
                    volume,
                    namespace = record.namespace(),
                    "removed a volume that the kubelet does not know"
                );
                return Ok(None);
            }
            OnDisk::Rejected(_) if !is_known(&place)? => {
                self.clear(&place)?;
                info!(volume, "removed an error that the kubelet does not know");
                return Ok(None);
            }
            OnDisk::Published(record) | OnDisk::Emptied(record) | OnDisk::Rejected(record) => {
                record
            }
        };
        let memory = mounted(&place)?.memory()?;
        Ok(Some(FoundVolume {
            place,
            record,
            memory,
        }))
    }
}

/// True if the kubelet remembers the volume, so that it will call for its removal.
fn is_known(place: &VolumePath) -> Result<bool, MountError> {
    let Some(parent) = parent(place)? else {
        return Ok(false);
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match statx(&parent, KNOWN_VOLUME, flags, StatxFlags::TYPE) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(step("look at", &place.target())(error.into())),
    }
}
