//! What may be seen of a volume, and which mounts there may be.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::PathBuf};

use super::{
    cluster::content,
    kubelet::{Call, PodVolume, Stage},
    process::DRIVER,
};
use crate::{
    mounter::{Linux, Mounter, OnDisk},
    testing::shown::Shown,
};

/// The driver's mounts, and how many are at each path.
pub(super) fn mounts() -> BTreeMap<PathBuf, usize> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = format!(" - tmpfs {DRIVER} ");
    let mut mounts = BTreeMap::new();
    for line in table.lines().filter(|line| line.contains(&ours)) {
        let path = line.split(' ').nth(4).unwrap();
        *mounts.entry(PathBuf::from(path)).or_default() += 1;
    }
    mounts
}

impl PodVolume {
    fn shown(&self) -> Shown {
        Shown::at(&self.place.target())
    }

    /// The versions that it may have.
    fn contents(&self) -> impl Iterator<Item = (u64, Shown)> {
        let (oldest, newest) = self.versions;
        (oldest..=newest).map(|version| (version, content(&self.pod, version)))
    }

    /// The version of which it has all, if there is one.
    pub(super) fn version(&self) -> Option<u64> {
        let shown = self.shown();
        let found = self.contents().find(|(_, content)| *content == shown);
        found.map(|(version, _)| version)
    }

    /// It has all the content of one version, which is returned, at one mount that no process can write.
    pub(super) fn is_whole(&self, context: &str) -> u64 {
        let version = self.version();
        let version =
            version.unwrap_or_else(|| panic!("{context}: {self:?} shows {:?}", self.shown()));
        assert_eq!(mounts().get(&self.place.target()), Some(&1), "{context}");
        let error = fs::write(self.place.target().join("x"), "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{context}");
        version
    }

    /// A process died while it renewed the content: the files are of one version, and each fact is of one.
    fn is_between(&self, context: &str) {
        let shown = self.shown();
        let all: Vec<Shown> = self.contents().map(|(_, content)| content).collect();
        let is_known = all.iter().any(|old| {
            let mut pairs = all.iter().map(|new| shown.is_between(old, new));
            pairs.any(|is_between| is_between)
        });
        assert!(is_known, "{context}: {self:?} shows {shown:?}");
    }

    /// All that can be read is the beginning of a text that the pod may read.
    fn is_harmless(&self, context: &str) {
        let shown = self.shown();
        let all: Vec<Shown> = self.contents().map(|(_, content)| content).collect();
        let texts = |shown: &Shown| {
            let (facts, files) = (shown.facts.clone(), shown.files.clone());
            facts.into_iter().chain(files)
        };
        for (name, text) in texts(&shown) {
            let mut known = all.iter().flat_map(texts);
            assert!(
                known.any(|(other, whole)| other == name && whole.starts_with(&text)),
                "{context}: {self:?} shows {name}: {text}"
            );
        }
    }

    /// Nothing of it is left.
    pub(super) fn is_gone(&self, context: &str) {
        let target = self.place.target();
        assert_eq!(mounts().get(&target), None, "{context}: {target:?}");
        assert!(!target.exists(), "{context}: {target:?}");
    }

    /// Judges it after its process died, with this call of it in flight.
    pub(super) fn after_a_kill(&self, call: Option<Call>, context: &str) {
        match (self.stage, call) {
            (Stage::Published, None) if !self.is_torn => {
                assert_eq!(self.is_whole(context), self.versions.0, "{context}");
            }
            (Stage::Published, _) => self.is_between(context),
            (Stage::Wanted | Stage::Leaving, _) => self.is_harmless(context),
        }
    }

    /// Judges it after the start of a process: whole or absent, and never half.
    pub(super) fn after_a_start(&self, context: &str) {
        match Linux::new(DRIVER).look(&self.place).unwrap() {
            OnDisk::Published(_) => self.is_between(context),
            OnDisk::Nothing => {
                assert_ne!(self.stage, Stage::Published, "{context}: {self:?}");
                self.is_gone(context);
            }
            // A folder without a mount. The kubelet's next call takes it.
            OnDisk::Partial => {
                assert_ne!(self.stage, Stage::Published, "{context}: {self:?}");
                assert_eq!(mounts().get(&self.place.target()), None, "{context}");
                assert_eq!(self.shown(), Shown::default(), "{context}");
            }
            found @ (OnDisk::Emptied(_) | OnDisk::Rejected(_)) => panic!("{context}: {found:?}"),
        }
    }
}
