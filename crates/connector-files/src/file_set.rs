//! Files by name, as many and as large as a volume takes.

use std::{collections::BTreeMap, fmt};

use connectors_api::quoted;

use crate::{
    error::FilesError,
    limits::{MOST_BYTES, MOST_FILES},
};

/// The longest name of a file.
const LONGEST_NAME: usize = 253;

/// The file that says why there are no others. No class writes a file of this name.
pub const ERROR_FILE: &str = ".error.json";
/// The folder of facts, which is not made from templates.
const FACTS: &str = ".connector";

/// The files of a volume by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FileSet(BTreeMap<String, String>);

/// Without the contents: they hold the pod's token.
impl fmt::Debug for FileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FileSet {
    /// Each name with its content, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.0.iter();
        files.map(|(name, content)| (name.as_str(), content.as_str()))
    }

    /// The content of a file.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// True without any file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file, or replaces the one of its name.
    pub(crate) fn put(&mut self, name: &str, content: String) -> Result<(), FilesError> {
        if !is_file_name(name) {
            return Err(FilesError::FileName(quoted(name)));
        }
        self.0.insert(name.to_owned(), content);
        let bytes: usize = self.0.values().map(String::len).sum();
        if self.0.len() > MOST_FILES || bytes > MOST_BYTES {
            return Err(FilesError::TooMuch);
        }
        Ok(())
    }
}

/// True for a name that leads to no other folder, and to nothing that this product writes itself.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.chars().all(is_plain)
        && name != "."
        && !name.starts_with("..")
        && ![FACTS, ERROR_FILE].contains(&name)
}

#[cfg(test)]
mod tests;
