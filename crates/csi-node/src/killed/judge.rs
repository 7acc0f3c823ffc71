//! What may be seen of a volume, and which mounts there may be. It reads files and the kernel's table, and asks no code of
//! the driver.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    cluster::error,
    fate::{Due, Fate, Pod},
    kubelet::{Call, PodVolume, Stage},
    process::DRIVER,
};
use crate::testing::shown::Shown;

/// The mark of a volume with all its content.
const COMPLETE: &str = ".connector/.complete";
/// All that a volume with an error alone may have, and the name that its mark has while it is written.
const OF_ERROR: [&str; 3] = [".connector", ".connector/.rejected", ".error.json"];
const NEW_MARK: &str = ".connector/.new-marker";

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

/// All that is below a folder, by its path there. Folders and links have no text.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inner)).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = match inner.as_str() {
                "" => name,
                inner => format!("{inner}/{name}"),
            };
            let kind = entry.file_type().unwrap();
            let text = if kind.is_file() {
                fs::read_to_string(entry.path()).unwrap()
            } else {
                String::new()
            };
            if kind.is_dir() {
                folders.push(path.clone());
            }
            tree.insert(path, text);
        }
    }
    tree
}

impl Pod {
    /// A request that was made for it asks for this pod, and for nothing else.
    pub(super) fn asked_for_itself(&self, request: Option<&Value>, context: &str) {
        let Some(request) = request else { return };
        assert_ne!(self.fate, Fate::Granted, "{context}: {request}");
        let name = &self.name;
        let expected = json!({
            "subject": {"kind": "ServiceAccount", "name": "builder", "namespace": "shop"},
            "connectorRef": {"name": name},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": name, "uid": name,
            }},
            "permission": "apis",
        });
        assert_eq!(request["spec"], expected, "{context}");
    }
}

impl PodVolume {
    fn shown(&self) -> Shown {
        Shown::at(&self.place.target())
    }

    /// All that it may show when it is whole, with the version of the class. An error has none.
    fn contents(&self) -> Vec<(u64, Shown)> {
        let pod = &self.pod.name;
        match self.pod.due() {
            Due::Nothing => Vec::new(),
            Due::Error => vec![(0, Shown::error(&error(pod)))],
            Due::Content => {
                let (oldest, newest) = self.versions;
                let cluster = self.cluster();
                let versions = oldest..=newest;
                let contents = versions.map(|version| (version, cluster.content(pod, version)));
                contents.collect()
            }
        }
    }

    /// The version of which it has all, if there is one.
    pub(super) fn version(&self) -> Option<u64> {
        let shown = self.shown();
        let mut contents = self.contents().into_iter();
        let found = contents.find(|(_, content)| *content == shown);
        found.map(|(version, _)| version)
    }

    /// It has all the content of one version, which is returned, or the error alone, at one mount that no process can write.
    pub(super) fn is_whole(&self, context: &str) -> u64 {
        let version = self.version();
        let version =
            version.unwrap_or_else(|| panic!("{context}: {self:?} shows {:?}", self.shown()));
        self.is_marked(context);
        assert_eq!(mounts().get(&self.place.target()), Some(&1), "{context}");
        let error = fs::write(self.place.target().join("x"), "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{context}");
        version
    }

    /// It has the mark of what its pod is due, and nothing of any other pod.
    fn is_marked(&self, context: &str) {
        let tree = tree(&self.place.target());
        match self.pod.due() {
            Due::Nothing => panic!("{context}: {self:?} has {tree:?}"),
            Due::Error => assert!(tree.keys().eq(OF_ERROR), "{context}: {tree:?}"),
            Due::Content => assert!(tree.contains_key(COMPLETE), "{context}: {tree:?}"),
        }
        self.is_of_its_pod(&tree, context);
    }

    /// No text names another pod, whatever file it is in.
    fn is_of_its_pod(&self, tree: &BTreeMap<String, String>, context: &str) {
        for (path, text) in tree {
            for after in text.split("uid-").skip(1) {
                let number = after.split(|it: char| !it.is_ascii_digit()).next().unwrap();
                // A text that broke off may end within the name.
                let is_own = match self.pod.name.strip_prefix("uid-").unwrap() {
                    own if number.len() == after.len() => own.starts_with(number),
                    own => own == number,
                };
                assert!(is_own, "{context}: {self:?} has {path}: {text}");
            }
        }
    }

    /// A process died while it renewed the content: the files are of one version, and each fact is of one.
    fn is_between(&self, context: &str) {
        let shown = self.shown();
        let all: Vec<Shown> = self.contents().into_iter().map(|(_, it)| it).collect();
        let is_known = all.iter().any(|old| {
            let mut pairs = all.iter().map(|new| shown.is_between(old, new));
            pairs.any(|is_between| is_between)
        });
        assert!(is_known, "{context}: {self:?} shows {shown:?}");
        self.is_marked(context);
    }

    /// All that can be read is the beginning of a text that the pod may read.
    fn is_harmless(&self, context: &str) {
        let shown = self.shown();
        let all: Vec<Shown> = self.contents().into_iter().map(|(_, it)| it).collect();
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
        let tree = tree(&self.place.target());
        if self.pod.due() == Due::Error {
            let mut paths = tree.keys().map(String::as_str);
            let is_known = paths.all(|path| path == NEW_MARK || OF_ERROR.contains(&path));
            assert!(is_known, "{context}: {self:?} has {tree:?}");
        }
        self.is_of_its_pod(&tree, context);
    }

    /// Nothing of it is left.
    pub(super) fn is_gone(&self, context: &str) {
        let target = self.place.target();
        assert_eq!(mounts().get(&target), None, "{context}: {self:?}");
        assert!(!target.exists(), "{context}: {self:?}");
    }

    /// Judges it after its process died, with this call of it in flight.
    pub(super) fn after_a_kill(&self, call: Option<Call>, context: &str) {
        // A pod without access has at no moment a place for content.
        if self.pod.due() == Due::Nothing {
            return self.is_gone(context);
        }
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
        let target = self.place.target();
        if mounts().contains_key(&target) {
            return self.is_between(context);
        }
        // A folder without a mount may be left. The kubelet's next call takes it.
        assert_ne!(self.stage, Stage::Published, "{context}: {self:?}");
        assert!(tree(&target).is_empty(), "{context}: {self:?}");
        if self.pod.due() == Due::Nothing {
            self.is_gone(context);
        }
    }
}
