//! Files of objects, read from disk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::yaml::{self, YamlDocument};

/// A file and its documents.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFile {
    /// The path, as it was given or found.
    pub path: String,
    /// The documents; an error if it cannot be read or is no YAML.
    pub documents: Result<Vec<YamlDocument>, FileProblem>,
}

/// Why a file has no documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The line, if the file could be read.
    pub line: Option<usize>,
    /// Why.
    pub message: String,
}

impl ObjectFile {
    /// Reads a file.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let unread = |error: std::io::Error| FileProblem {
            line: None,
            message: error.to_string(),
        };
        let text = fs::read_to_string(path).map_err(unread);
        Self {
            path: path.display().to_string(),
            documents: text.and_then(|text| {
                yaml::documents(&text).map_err(|error| FileProblem {
                    line: Some(error.position.line),
                    message: error.message,
                })
            }),
        }
    }
}

/// The YAML files of a directory and those below it, each directory with its own, ordered by name.
pub fn of_directory(path: &Path) -> Result<Vec<Vec<ObjectFile>>, FileProblem> {
    let unread = |path: &Path, error: std::io::Error| FileProblem {
        line: None,
        message: format!("{}: {error}", path.display()),
    };
    let mut directories = vec![path.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| unread(&directory, error))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| unread(&directory, error))?.path());
        }
        paths.sort();
        let (below, files): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.into_iter().partition(|it| it.is_dir());
        directories.extend(below.into_iter().rev());
        let files: Vec<_> = files
            .iter()
            .filter(|it| is_yaml(it))
            .map(|it| ObjectFile::read(it))
            .collect();
        if !files.is_empty() {
            found.push(files);
        }
    }
    Ok(found)
}

fn is_yaml(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_with_those_below_it_in_the_order_of_names() {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("b.yaml", "x: 1"),
            ("a.yml", "x: ["),
            ("note.md", "no YAML"),
            ("sub/c.json", "{}"),
        ] {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = of_directory(place.path()).unwrap();
        let ends = |files: &Vec<ObjectFile>| {
            let names = files
                .iter()
                .map(|it| it.path.rsplit('/').next().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            found.iter().map(ends).collect::<Vec<_>>(),
            [vec!["a.yml", "b.yaml"], vec!["c.json"]]
        );
        assert!(found[0][0].documents.as_ref().unwrap_err().line.is_some());
        assert!(of_directory(Path::new("/no/such/directory")).is_err());
    }
}
