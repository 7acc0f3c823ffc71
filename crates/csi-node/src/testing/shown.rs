//! What a pod can read in its volume.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::content::Content;

/// The content of a volume as its pod sees it: facts by folder and name, and files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<String, String>,
}

impl Shown {
    /// This content as a pod is to see it.
    pub(crate) fn of(content: &Content) -> Self {
        let facts = content.facts.iter().flat_map(|facts| {
            let folder = facts.folder();
            let files = facts
                .files()
                .map(|(name, fact)| (format!("{folder}/{name}"), fact.to_owned()));
            files.into_iter()
        });
        let files = content
            .files
            .iter()
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self {
            facts: facts.collect(),
            files: files.collect(),
        }
    }

    /// A volume that holds an error alone.
    pub(crate) fn error(text: &str) -> Self {
        Self {
            files: BTreeMap::from([(".error.json".to_owned(), text.to_owned())]),
            ..Self::default()
        }
    }

    /// All that can be read below a target path.
    pub(crate) fn at(target: &Path) -> Self {
        let mut shown = Self::default();
        for (name, path) in entries(target) {
            if name == ".connector" {
                let folders = entries(&path)
                    .into_iter()
                    .filter(|(name, _)| !name.starts_with('.'));
                for (folder, path) in folders {
                    let facts = entries(&path).into_iter();
                    let facts = facts.filter_map(|(name, path)| {
                        Some((format!("{folder}/{name}"), read(&path)?))
                    });
                    shown.facts.extend(facts);
                }
            } else if let Some(text) = read(&path) {
                shown.files.insert(name, text);
            }
        }
        shown
    }

    /// A set that is being exchanged: each fact is of the one or the other, and the files are of one of them.
    pub(crate) fn is_between(&self, old: &Self, new: &Self) -> bool {
        let is_of = |set: &Self| {
            self.files
                .iter()
                .all(|file| set.files.get_key_value(file.0) == Some(file))
        };
        let is_known = |(name, fact): (&String, &String)| {
            [old, new]
                .iter()
                .any(|set| set.facts.get(name) == Some(fact))
        };
        // Only names that one of the sets has alone come and go.
        let mut common = old.files.keys().filter(|it| new.files.contains_key(*it));
        self.facts.len() == old.facts.len()
            && common.all(|it| self.files.contains_key(it))
            && self.facts.iter().all(is_known)
            && (is_of(old) || is_of(new))
    }
}

/// Names and paths; none where there is no folder.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(Result::unwrap);
    entries
        .map(|it| (it.file_name().into_string().unwrap(), it.path()))
        .collect()
}

/// A link may lead to a file that is not there.
fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}
