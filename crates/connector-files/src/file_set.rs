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
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_no_other_folder_and_to_nothing_of_ours() {
        for name in ["config.json", ".netrc", "a", "A-b_c.1", ".connectors"] {
            assert!(is_file_name(name), "{name}");
        }
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in [
            "",
            ".",
            "..",
            "..data",
            "a/b",
            "/a",
            "a\\b",
            "a b",
            "a\0",
            "ä",
            ".connector",
            ".error.json",
            &long,
        ] {
            assert!(!is_file_name(name), "{name}");
        }
    }

    #[test]
    fn a_set_has_a_bounded_number_of_files_and_bytes() {
        let mut set = FileSet::default();
        for number in 0..MOST_FILES {
            set.put(&format!("f{number}"), String::new()).unwrap();
        }
        set.put("f0", "x".repeat(MOST_BYTES)).unwrap();
        assert_eq!(set.put("f1", "x".to_owned()), Err(FilesError::TooMuch));
        let mut set = FileSet::default();
        for number in 0..MOST_FILES {
            set.put(&format!("f{number}"), String::new()).unwrap();
        }
        assert_eq!(set.put("more", String::new()), Err(FilesError::TooMuch));
    }
}
