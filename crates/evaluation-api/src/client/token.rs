//! The token that the kubelet keeps fresh in a file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};

/// Longer than any service account token; what is longer is another file.
const LONGEST: usize = 16 * 1024;

/// The file of a token. What it holds is never kept.
#[derive(Clone, Debug)]
pub(super) struct TokenFile(pub(super) PathBuf);

/// What proves who calls.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// A token.
    Token(TokenFile),
    /// That the socket could be opened.
    Socket,
}

impl Proof {
    /// The value of `authorization`, where there is one.
    pub(super) fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, TokenError> {
        match self {
            Self::Token(file) => file.bearer().map(Some),
            Self::Socket => Ok(None),
        }
    }
}

/// Why there is no token. No variant says anything about what the file holds.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What the file holds is no token.
    #[error("the token file {} holds no token", path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
}

impl TokenFile {
    /// The value of `authorization`, marked so that no debug output shows it.
    pub(super) fn bearer(&self) -> Result<MetadataValue<Ascii>, TokenError> {
        let path = || self.0.clone();
        // Read where we are: the kubelet keeps tokens in memory, and another thread would take longer to
        // wake up than the whole call takes.
        let text = std::fs::read_to_string(&self.0);
        let text = text.map_err(|source| TokenError::Read {
            path: path(),
            source,
        })?;
        let token = text.trim();
        let is_token = !token.is_empty()
            && token.len() <= LONGEST
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        let value = is_token.then(|| format!("Bearer {token}").parse().ok());
        let mut value: MetadataValue<Ascii> = value
            .flatten()
            .ok_or_else(|| TokenError::NotAToken { path: path() })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_file_is_read_each_time_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = TokenFile(directory.path().join("token"));
        assert!(matches!(file.bearer(), Err(TokenError::Read { .. })));
        for token in ["first.token", "second.token"] {
            fs::write(&file.0, format!("{token}\n")).unwrap();
            let value = file.bearer().unwrap();
            assert_eq!(value.to_str().unwrap(), format!("Bearer {token}"));
            assert!(!format!("{value:?}").contains(token));
        }
    }

    #[tokio::test]
    async fn what_is_no_token_is_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        let file = TokenFile(directory.path().join("token"));
        for content in [
            "",
            " \n",
            "two words",
            "line\nline",
            "ä",
            &"x".repeat(LONGEST + 1),
        ] {
            fs::write(&file.0, content).unwrap();
            let error = file.bearer().unwrap_err();
            assert!(matches!(error, TokenError::NotAToken { .. }), "{error}");
        }
    }
}
