//! The limits of memory for the volumes of this node: in total, and for the pods of one namespace.
//!
//! The kernel charges the files of a volume to this process. A volume is counted from before its first write until all
//! of it is gone. Volumes of an earlier process are counted at the start and stay, whatever the limits are now.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prometheus::IntGauge;
use service_kit::byte_budget::ByteBudget;
use thiserror::Error;

use crate::volume::VolumePath;

const MEBIBYTE: usize = 1 << 20;

/// The limits of memory for the volumes of this node, in mebibytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimits {
    /// All of them.
    pub(crate) node: usize,
    /// Those of the pods of one namespace.
    pub(crate) namespace: usize,
}

/// Why there is no memory for a volume. Each names its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum MemoryQuotaFull {
    /// On the node.
    #[error(
        "the volumes of this node take as much memory as they may (csiNode.maxVolumeMebibytes: {0}); this one is tried again later"
    )]
    Node(usize),
    /// For the namespace of the pod.
    #[error(
        "the volumes of this namespace take as much memory of this node as they may (csiNode.maxVolumeMebibytesPerNamespace: {0}); end pods or ask for fewer files; this one is tried again later"
    )]
    Namespace(usize),
}

/// The volumes of this node, and the memory that each may take.
#[derive(Debug)]
pub(crate) struct MemoryQuota {
    limits: MemoryLimits,
    counts: Mutex<MemoryCounts>,
    gauge: IntGauge,
}

#[derive(Debug)]
struct MemoryCounts {
    volumes: HashMap<VolumePath, VolumeMemory>,
    bytes: ByteBudget,
}

#[derive(Debug)]
struct VolumeMemory {
    namespace: String,
    bytes: usize,
    /// It was measured at the start. A volume that was not renewed yet takes less than it was admitted with.
    was_found: bool,
}

impl MemoryQuota {
    /// A quota with these limits, and a gauge for all bytes.
    pub(crate) fn new(limits: MemoryLimits, gauge: IntGauge) -> Self {
        let in_bytes = |mebibytes: usize| mebibytes.saturating_mul(MEBIBYTE);
        let bytes = ByteBudget::new(in_bytes(limits.namespace), in_bytes(limits.node));
        Self {
            limits,
            counts: Mutex::new(MemoryCounts {
                volumes: HashMap::new(),
                bytes,
            }),
            gauge,
        }
    }

    /// Counts a volume before each write. A volume that takes no more than before is always admitted. So is the first
    /// change of one that was found at the start.
    pub(crate) fn take(
        &self,
        place: &VolumePath,
        namespace: &str,
        bytes: usize,
    ) -> Result<(), MemoryQuotaFull> {
        let mut counts = self.counts();
        let MemoryCounts {
            volumes,
            bytes: all,
        } = &mut *counts;
        let before = volumes.get(place);
        let was_found = before.is_some_and(|it| it.was_found);
        let counted = before.map_or(0, |it| it.bytes);
        let bytes = bytes.max(counted);
        all.add(namespace, bytes - counted);
        if bytes > counted && !was_found && all.exceeded(namespace).is_some() {
            all.release(namespace, bytes - counted);
            return Err(self.full(all, namespace, bytes - counted));
        }
        let volume = VolumeMemory {
            namespace: namespace.to_owned(),
            bytes,
            was_found: false,
        };
        volumes.insert(place.clone(), volume);
        self.told(&counts);
        Ok(())
    }

    /// Counts a volume of an earlier process.
    pub(crate) fn found(&self, place: VolumePath, namespace: String, bytes: usize) {
        let mut counts = self.counts();
        counts.bytes.add(&namespace, bytes);
        let volume = VolumeMemory {
            namespace,
            bytes,
            was_found: true,
        };
        counts.volumes.insert(place, volume);
        self.told(&counts);
    }

    /// Nothing is left of a volume.
    pub(crate) fn forget(&self, place: &VolumePath) {
        let mut counts = self.counts();
        if let Some(VolumeMemory {
            namespace, bytes, ..
        }) = counts.volumes.remove(place)
        {
            counts.bytes.release(&namespace, bytes);
            self.told(&counts);
        }
    }

    /// How many volumes are counted.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.counts().volumes.len()
    }

    /// The bytes of all volumes.
    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.counts().bytes.total()
    }

    fn full(&self, all: &ByteBudget, namespace: &str, more: usize) -> MemoryQuotaFull {
        let MemoryLimits {
            node,
            namespace: share,
        } = self.limits;
        if all.of(namespace).saturating_add(more) > share.saturating_mul(MEBIBYTE) {
            MemoryQuotaFull::Namespace(share)
        } else {
            MemoryQuotaFull::Node(node)
        }
    }

    fn told(&self, counts: &MemoryCounts) {
        let total = i64::try_from(counts.bytes.total());
        self.gauge.set(total.unwrap_or(i64::MAX));
    }

    fn counts(&self) -> MutexGuard<'_, MemoryCounts> {
        // No code here panics between two changes that belong together.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::place;

    fn quota(node: usize, namespace: usize) -> MemoryQuota {
        let gauge = IntGauge::new("bytes", "bytes").unwrap();
        MemoryQuota::new(MemoryLimits { node, namespace }, gauge)
    }

    #[test]
    fn volumes_of_one_namespace_leave_memory_to_those_of_others() {
        let quota = quota(3, 2);
        quota.take(&place("a"), "shop", MEBIBYTE).unwrap();
        quota.take(&place("b"), "shop", MEBIBYTE).unwrap();
        let full = quota.take(&place("c"), "shop", 1);
        assert_eq!(full, Err(MemoryQuotaFull::Namespace(2)));
        quota.take(&place("d"), "bank", MEBIBYTE).unwrap();
        let full = quota.take(&place("e"), "mill", 1);
        assert_eq!(full, Err(MemoryQuotaFull::Node(3)));
        // A refused volume is not counted. A removed one makes room.
        assert_eq!((quota.census(), quota.total()), (3, 3 * MEBIBYTE));
        assert_eq!(quota.gauge.get(), 3 << 20);
        quota.forget(&place("a"));
        quota.take(&place("c"), "shop", MEBIBYTE).unwrap();
        for volume in ["b", "c", "d", "unknown"] {
            quota.forget(&place(volume));
        }
        assert_eq!(
            (quota.census(), quota.total(), quota.gauge.get()),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_volume_that_takes_no_more_than_before_is_written_anew_whatever_others_take() {
        let quota = quota(1, 1);
        quota.take(&place("a"), "shop", MEBIBYTE - 10).unwrap();
        quota.take(&place("b"), "bank", 10).unwrap();
        for bytes in [MEBIBYTE - 10, 5, MEBIBYTE - 10] {
            quota.take(&place("a"), "shop", bytes).unwrap();
        }
        // Not even up to the whole share of its own namespace.
        for more in [MEBIBYTE - 9, MEBIBYTE] {
            let full = quota.take(&place("a"), "shop", more);
            assert_eq!(full, Err(MemoryQuotaFull::Node(1)), "{more}");
        }
        assert_eq!(quota.total(), MEBIBYTE);
    }

    #[test]
    fn volumes_of_an_earlier_process_count_and_stay() {
        let quota = quota(1, 1);
        quota.found(place("a"), "shop".to_owned(), MEBIBYTE);
        quota.found(place("b"), "shop".to_owned(), MEBIBYTE);
        let full = quota.take(&place("c"), "shop", 1);
        assert_eq!(full, Err(MemoryQuotaFull::Namespace(1)));
        // Their first look restores their admitted size, and no more than once.
        for _ in 0..2 {
            quota.take(&place("a"), "shop", MEBIBYTE + 10).unwrap();
        }
        let full = quota.take(&place("a"), "shop", MEBIBYTE + 11);
        assert_eq!(full, Err(MemoryQuotaFull::Namespace(1)));
        assert_eq!(quota.total(), 2 * MEBIBYTE + 10);
        quota.forget(&place("a"));
        quota.forget(&place("b"));
        quota.take(&place("c"), "shop", 1).unwrap();
    }

    #[test]
    fn a_message_names_the_bound_that_is_reached() {
        let namespace = MemoryQuotaFull::Namespace(64).to_string();
        assert!(namespace.contains("csiNode.maxVolumeMebibytesPerNamespace: 64"));
        let node = MemoryQuotaFull::Node(128).to_string();
        assert!(node.contains("csiNode.maxVolumeMebibytes: 128"));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        Forget,
    }

    proptest! {
        #[test]
        fn no_order_of_volumes_takes_more_than_the_limits_or_is_counted_wrong(
            steps in prop::collection::vec(
                (0..4_usize, prop_oneof![(0..3_usize).prop_map(Step::Take), Just(Step::Forget)]), 0..40,
            ),
        ) {
            let quota = quota(3, 2);
            let mut model: HashMap<usize, usize> = HashMap::new();
            for (volume, step) in steps {
                let (at, namespace) = (place(&format!("v{volume}")), format!("n{}", volume % 2));
                match step {
                    Step::Take(mebibytes) => {
                        if quota.take(&at, &namespace, mebibytes * MEBIBYTE).is_ok() {
                            let counted = model.entry(volume).or_default();
                            *counted = mebibytes.max(*counted);
                        }
                    }
                    Step::Forget => {
                        quota.forget(&at);
                        model.remove(&volume);
                    }
                }
                let of = |namespace: usize| -> usize {
                    let own = model.iter().filter(|(volume, _)| *volume % 2 == namespace);
                    own.map(|(_, mebibytes)| mebibytes).sum()
                };
                prop_assert!(of(0) <= 2 && of(1) <= 2 && of(0) + of(1) <= 3);
                prop_assert_eq!(quota.total(), (of(0) + of(1)) * MEBIBYTE);
                prop_assert_eq!(quota.census(), model.len());
            }
        }
    }
}
