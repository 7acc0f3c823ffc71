//! Files of objects, read from disk.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::yaml::{self, YamlDocument};

/// The limit of bytes of a file.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The limit of files and directories that are read.
const MOST_FILES: usize = 4096;

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
        let text = File::open(path).and_then(text_of);
        Self::of(path.display().to_string(), text)
    }

    /// Reads standard input.
    #[must_use]
    pub fn read_input() -> Self {
        Self::of("stdin".to_owned(), text_of(io::stdin().lock()))
    }

    fn of(path: String, text: io::Result<String>) -> Self {
        let text = text.map_err(|error| FileProblem {
            line: None,
            message: error.to_string(),
        });
        Self {
            path,
            documents: text.and_then(|text| {
                let documents = yaml::documents(&text).map_err(|error| FileProblem {
                    line: Some(error.position.line),
                    message: error.message,
                })?;
                let items = documents.into_iter().flat_map(YamlDocument::unfolded);
                Ok(items.collect())
            }),
        }
    }
}

/// The text of a file that is not too long.
fn text_of(file: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|it| it <= MOST_BYTES) {
        Ok(text)
    } else {
        Err(io::Error::other(format!(
            "it is longer than {MOST_BYTES} bytes: split it"
        )))
    }
}

/// The YAML files of a directory and those below it, each directory with its own, ordered by name. Symbolic links are
/// left out, because they could lead in a circle.
pub fn of_directory(path: &Path) -> Result<Vec<Vec<ObjectFile>>, FileProblem> {
    walk(path, |directory| fs::read_dir(directory))
}

/// The same with another way to list a directory. A directory that cannot be listed is an error: what is in it would be
/// passed over.
fn walk(
    path: &Path,
    list: impl Fn(&Path) -> io::Result<fs::ReadDir>,
) -> Result<Vec<Vec<ObjectFile>>, FileProblem> {
    let unread = |path: &Path, error: std::io::Error| FileProblem {
        line: None,
        message: format!("{}: {error}", path.display()),
    };
    let mut directories = vec![path.to_owned()];
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        let entries = list(&directory).map_err(|error| unread(&directory, error))?;
        let (mut below, mut files) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(|error| unread(&directory, error))?;
            let kind = entry.file_type();
            let kind = kind.map_err(|error| unread(&entry.path(), error))?;
            if kind.is_dir() {
                below.push(entry.path());
            } else if kind.is_file() && is_yaml(&entry.path()) {
                files.push(entry.path());
            } else {
                continue;
            }
            seen += 1;
            if seen > MOST_FILES {
                let error = format!("there are more than {MOST_FILES} files and directories in it");
                return Err(unread(path, io::Error::other(error)));
            }
        }
        below.sort();
        files.sort();
        directories.extend(below.into_iter().rev());
        let files: Vec<_> = files.iter().map(|it| ObjectFile::read(it)).collect();
        if !files.is_empty() {
            found.push(files);
        }
    }
    Ok(found)
}

/// The YAML files that these paths name: files, and directories with those below them.
pub fn of_paths(paths: &[PathBuf]) -> Result<Vec<ObjectFile>, FileProblem> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(of_directory(path)?.into_iter().flatten());
        } else {
            files.push(ObjectFile::read(path));
        }
    }
    Ok(files)
}

/// The times and sizes of the YAML files of a directory and those below it. They differ after a change.
#[must_use]
pub fn stamps(path: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let mut directories = vec![path.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                directories.push(path);
            } else if metadata.is_file() && is_yaml(&path) {
                found.push((path, metadata.modified().ok(), metadata.len()));
            }
            if found.len() + directories.len() > MOST_FILES {
                return found;
            }
        }
    }
    found.sort();
    found
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

    #[test]
    fn a_directory_that_cannot_be_listed_is_an_error_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(place.path().join("c.yaml"), "x: 1").unwrap();
        for denied in [place.path(), &place.path().join("a"), &below] {
            let problem = walk(place.path(), |it| {
                if it == denied {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                fs::read_dir(it)
            });
            let message = problem.unwrap_err().message;
            assert!(
                message.starts_with(&denied.display().to_string()),
                "{message}"
            );
        }
    }

    #[test]
    fn links_are_left_out_and_long_files_are_not_read() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("a.yaml"), "x: 1").unwrap();
        let long = " ".repeat(usize::try_from(MOST_BYTES).unwrap() + 1);
        fs::write(path("b.yaml"), long).unwrap();
        std::os::unix::fs::symlink(place.path(), path("around")).unwrap();
        std::os::unix::fs::symlink(path("a.yaml"), path("c.yaml")).unwrap();
        let found = of_directory(place.path()).unwrap();
        let [files] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(files.len(), 2, "{files:?}");
        let problem = files[1].documents.as_ref().unwrap_err();
        assert!(problem.message.contains("longer than"), "{problem:?}");
    }

    #[test]
    fn more_files_than_are_read_are_an_error() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..=MOST_FILES {
            fs::write(place.path().join(format!("{number}.yaml")), "").unwrap();
        }
        let problem = of_directory(place.path()).unwrap_err();
        assert!(problem.message.contains("more than 4096"), "{problem:?}");
    }
}
