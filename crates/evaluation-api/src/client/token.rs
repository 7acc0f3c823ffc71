//! The token in a file that the kubelet keeps fresh.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};

/// Longer than any service account token; a longer file holds something else.
const LONGEST: usize = 16 * 1024;

/// Enough for the longest token with spaces around it.
const MOST_READ: u64 = 32 * 1024;

/// If a file was last written this long before it was read, a later write cannot have the same timestamp.
const SETTLED: Duration = Duration::from_secs(2);

/// The file of a token. Its metadata is checked each time; it is read only when they changed.
#[derive(Clone, Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    read: Arc<Mutex<Option<ReadToken>>>,
}

/// The token that was read, and the version of its file.
#[derive(Debug)]
struct ReadToken {
    version: FileVersion,
    /// Marked so that no debug output shows it.
    bearer: MetadataValue<Ascii>,
}

/// File metadata that change when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    number: u64,
    length: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for FileVersion {
    fn from(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            number: file.ino(),
            length: file.size(),
            written: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The proof of the caller's identity.
#[derive(Clone, Debug)]
pub(super) enum CallerProof {
    /// A token.
    Token(TokenFile),
    /// Being able to open the socket.
    Socket,
}

impl CallerProof {
    /// The value of `authorization`, if there is one.
    pub(super) fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, CallerTokenError> {
        match self {
            Self::Token(file) => file.bearer().map(Some),
            Self::Socket => Ok(None),
        }
    }
}

/// The reason why there is no token. No variant contains anything of the file's content.
#[derive(Debug, Error)]
pub enum CallerTokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a token.
    #[error("the token file {} holds no token", path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Arc::default(),
        }
    }

    /// The value of `authorization`, marked so that no debug output shows it.
    pub(super) fn bearer(&self) -> Result<MetadataValue<Ascii>, CallerTokenError> {
        // Read on this thread: the kubelet keeps tokens in memory, and waking another thread would take
        // longer than the whole call.
        let failed = |source| CallerTokenError::Read {
            path: self.path.clone(),
            source,
        };
        let version = FileVersion::from(&self.path.metadata().map_err(failed)?);
        // The value is replaced as a whole, so it is valid even in a poisoned lock.
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ReadToken { bearer, .. }) = known.as_ref().filter(|it| it.version == version) {
            return Ok(bearer.clone());
        }
        *known = None;
        let (text, file) = read(&self.path).map_err(failed)?;
        let bearer = bearer(&text).ok_or_else(|| CallerTokenError::NotAToken {
            path: self.path.clone(),
        })?;
        if is_settled(&file, now()) {
            *known = Some(ReadToken {
                version: FileVersion::from(&file),
                bearer: bearer.clone(),
            });
        }
        Ok(bearer)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever looks at files is where their clock is"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// The beginning of a file, and the metadata of exactly that file. A longer file holds something else than a token.
fn read(path: &Path) -> io::Result<(String, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut text = String::new();
    file.take(MOST_READ).read_to_string(&mut text)?;
    Ok((text, metadata))
}

/// Timestamps of file systems are coarse: two writes within one tick cannot be told apart.
fn is_settled(file: &Metadata, now: SystemTime) -> bool {
    let written = file.modified().ok();
    let ago = written.and_then(|written| now.duration_since(written).ok());
    ago.is_some_and(|ago| ago >= SETTLED)
}

fn bearer(text: &str) -> Option<MetadataValue<Ascii>> {
    let token = text.trim();
    let is_token = !token.is_empty()
        && token.len() <= LONGEST
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_token.then(|| format!("Bearer {token}").parse().ok());
    let mut value: MetadataValue<Ascii> = value.flatten()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    mod versions;

    fn file() -> (TempDir, TokenFile) {
        let directory = tempfile::tempdir().unwrap();
        let file = TokenFile::new(directory.path().join("token"));
        (directory, file)
    }

    fn shown(file: &TokenFile) -> String {
        let value = file.bearer().unwrap();
        assert!(value.is_sensitive());
        value.to_str().unwrap().to_owned()
    }

    /// Sets the time of the last write to an hour ago.
    fn age(file: &TokenFile) {
        let hour_ago = now() - Duration::from_hours(1);
        let opened = File::options().write(true).open(&file.path).unwrap();
        opened.set_modified(hour_ago).unwrap();
    }

    #[test]
    fn what_the_file_holds_now_is_shown_and_never_printed() {
        let (_directory, file) = file();
        assert!(matches!(file.bearer(), Err(CallerTokenError::Read { .. })));
        // Tokens of the same length, written without delay.
        for token in ["token.1", "token.2", "token.3"] {
            fs::write(&file.path, format!("{token}\n")).unwrap();
            assert_eq!(shown(&file), format!("Bearer {token}"));
            assert!(!format!("{file:?}").contains(token));
        }
        fs::remove_file(&file.path).unwrap();
        assert!(matches!(file.bearer(), Err(CallerTokenError::Read { .. })));
    }

    #[test]
    fn a_file_that_is_still_the_same_is_not_read_again() {
        let (directory, file) = file();
        fs::write(&file.path, "token.1").unwrap();
        assert_eq!(shown(&file), "Bearer token.1");
        assert!(
            file.read.lock().unwrap().is_none(),
            "it may be written again at once"
        );
        age(&file);
        assert_eq!(shown(&file), "Bearer token.1");
        let version = |file: &TokenFile| file.read.lock().unwrap().as_ref().map(|it| it.version);
        let known = version(&file);
        assert!(known.is_some());
        assert!(!format!("{file:?}").contains("token.1"));
        assert_eq!(shown(&file.clone()), "Bearer token.1");
        // Another file in its place, with the same age and length.
        let other = TokenFile::new(directory.path().join("other"));
        fs::write(&other.path, "token.2").unwrap();
        age(&other);
        fs::rename(&other.path, &file.path).unwrap();
        assert_eq!(shown(&file), "Bearer token.2");
        assert_ne!(version(&file), known);
        // The same file, rewritten with the same length and age.
        fs::write(&file.path, "token.3").unwrap();
        age(&file);
        assert_eq!(shown(&file), "Bearer token.3");
    }

    /// The kubelet writes each token into a new directory, and switches a link to it.
    #[test]
    fn the_token_behind_a_link_that_was_switched_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut first = None;
        std::os::unix::fs::symlink("..data/token", at("token")).unwrap();
        for version in ["1", "2", "3"] {
            let old = fs::read_link(at("..data"));
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("token"), format!("token.{version}")).unwrap();
            std::os::unix::fs::symlink(version, at("..data_tmp")).unwrap();
            fs::rename(at("..data_tmp"), at("..data")).unwrap();
            if let Ok(old) = old {
                fs::remove_dir_all(at(old.to_str().unwrap())).unwrap();
            }
            let file = first.get_or_insert_with(|| TokenFile::new(at("token")));
            assert_eq!(shown(file), format!("Bearer token.{version}"));
        }
    }

    #[test]
    fn what_is_no_token_is_not_sent() {
        let (_directory, file) = file();
        for content in [
            "",
            " \n",
            "two words",
            "line\nline",
            "ä",
            &"x".repeat(LONGEST + 1),
        ] {
            // A token that was read before, and is remembered, does not count for what follows it.
            fs::write(&file.path, "token.1").unwrap();
            age(&file);
            assert_eq!(shown(&file), "Bearer token.1");
            fs::write(&file.path, content).unwrap();
            for _ in 0..2 {
                let error = file.bearer().unwrap_err();
                assert!(
                    matches!(error, CallerTokenError::NotAToken { .. }),
                    "{error}"
                );
            }
        }
    }
}
