//! Looks for secrets where none may be: given ones, and anything that has the form of a signed token.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The numbers of searched files and lines, and the places of secrets. Never contains the secrets themselves.
#[derive(Debug, Default)]
pub struct Search {
    /// How many files were read.
    pub files: usize,
    /// How many lines were read.
    pub lines: usize,
    /// Where secrets are.
    pub leaks: Vec<Leak>,
}

/// A secret in a place where none may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The file, empty for a text.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of the finding.
    pub what: Found,
}

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Three parts of any signed token.
    Token,
    /// One of the given secrets, by its place among them.
    Given(usize),
}

/// The shortest part of a token that is taken for one: words with dots are everywhere.
const SHORTEST_PART: usize = 10;
/// How the base64 of a JSON object begins.
const BEGINNING: &str = "eyJ";

/// Whether a text holds something in the form of a signed token.
#[must_use]
pub fn holds_token(text: &str) -> bool {
    text.match_indices(BEGINNING).any(|(at, _)| {
        let mut rest = text.get(at..).unwrap_or_default();
        for part in 0..3 {
            let length = rest
                .bytes()
                .take_while(|byte| is_part_of_token(*byte))
                .count();
            if length < SHORTEST_PART {
                return false;
            }
            rest = rest.get(length..).unwrap_or_default();
            if part < 2 {
                let Some(next) = rest.strip_prefix('.') else {
                    return false;
                };
                rest = next;
            }
        }
        true
    })
}

fn is_part_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Looks through a text for given secrets, and for any token.
#[must_use]
pub fn in_text(text: &str, secrets: &[&str]) -> Search {
    let mut search = Search::default();
    search.text(Path::new(""), text, secrets);
    search
}

/// Looks through files and everything below directories. Links are not followed.
pub fn in_files(roots: &[PathBuf], secrets: &[&str]) -> io::Result<Search> {
    let mut search = Search::default();
    let mut open = roots.to_vec();
    while let Some(path) = open.pop() {
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else if kind.is_file() {
            let content = fs::read(&path)?;
            search.files += 1;
            search.text(&path, &String::from_utf8_lossy(&content), secrets);
        }
    }
    Ok(search)
}

impl Search {
    fn text(&mut self, file: &Path, text: &str, secrets: &[&str]) {
        for (number, line) in text.lines().enumerate() {
            self.lines += 1;
            let given = secrets.iter().enumerate();
            // Nothing is found everywhere, which would hide that a test has lost its secret.
            let given = given.filter(|(_, secret)| secret.is_empty() || line.contains(**secret));
            let token = holds_token(line).then_some(Found::Token);
            let found = given.map(|(at, _)| Found::Given(at)).chain(token);
            self.leaks.extend(found.map(|what| Leak {
                file: file.to_path_buf(),
                line: number + 1,
                what,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ.c2lnbmF0dXJlLWJ5dGVz";

    #[test]
    fn a_token_is_found_wherever_it_stands() {
        for text in [
            TOKEN.to_owned(),
            format!("\"token\":\"{TOKEN}\","),
            format!("eyJ {TOKEN}="),
        ] {
            assert!(holds_token(&text), "{text}");
        }
    }

    #[test]
    fn what_only_looks_a_little_like_a_token_is_none() {
        for text in [
            "",
            "eyJ",
            "eyJhbGciOiJSUzI1NiJ9",
            "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ",
            "eyJhbGciOiJSUzI1NiJ9..c2lnbmF0dXJl",
            "eyJ.a.b",
            "connectors.alauda.io/accessRequest",
            "eyJäääääääää.aaaaaaaaaa.aaaaaaaaaa",
        ] {
            assert!(!holds_token(text), "{text}");
        }
    }

    #[test]
    fn secrets_are_found_by_line_and_not_shown() {
        let search = in_text(
            &format!("fine\nwith s3cret\n{TOKEN}\n"),
            &["other", "s3cret"],
        );
        let found: Vec<_> = search
            .leaks
            .iter()
            .map(|leak| (leak.line, leak.what))
            .collect();
        assert_eq!(found, [(2, Found::Given(1)), (3, Found::Token)]);
        assert_eq!(search.lines, 3);
        assert!(!format!("{search:?}").contains("s3cret"));
    }

    #[test]
    fn an_empty_secret_is_found_in_every_line() {
        assert_eq!(in_text("a\nb", &[""]).leaks.len(), 2);
    }

    #[test]
    fn files_are_looked_through_to_the_bottom() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("log"), format!("x\n{TOKEN}")).unwrap();
        fs::write(dir.path().join("bytes"), [0xff, b'\n', b'a']).unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join("link")).unwrap();
        let search = in_files(&[dir.path().to_path_buf()], &[]).unwrap();
        assert_eq!((search.files, search.lines, search.leaks.len()), (2, 4, 1));
        assert_eq!(search.leaks[0].file, deep.join("log"));
        assert!(in_files(&[dir.path().join("absent")], &[]).is_err());
        assert_eq!(in_files(&[], &[]).unwrap().files, 0);
    }
}
