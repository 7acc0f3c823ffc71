//! The commands of a document, run in one shell as a person would type them.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Commands of a document, and the output below them there.
pub(crate) struct Block {
    pub(crate) commands: String,
    /// The language, and the text.
    pub(crate) expected: Option<(String, String)>,
}

/// The output of a session.
pub(crate) struct Said {
    /// Of each block.
    pub(crate) outputs: Vec<String>,
    /// Of all of them.
    pub(crate) errors: String,
}

/// The shell of a session.
pub(crate) struct Shell<'a> {
    /// The folder in which it begins.
    pub(crate) folder: &'a Path,
    pub(crate) environment: &'a [(&'a str, OsString)],
    /// The commands before the first block.
    pub(crate) first: &'a str,
    /// The time for all blocks.
    pub(crate) limit: Duration,
}

/// Printed before each block, so that one shell can do all of them: they build on each other.
const MARK: &str = "──block──";

/// The blocks of a text: `sh` to run, and the block directly under each.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for part in text.split("\n```").skip(1).step_by(2) {
        let (language, body) = part.split_once('\n').unwrap();
        if language == "sh" {
            found.push(Block {
                commands: body.to_owned(),
                expected: None,
            });
        } else {
            let block = found.last_mut().expect("commands above");
            block.expected = Some((language.to_owned(), body.to_owned()));
        }
    }
    found
}

/// The section of a page under a heading, up to the next one of the second level.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(heading);
    let rest = start.map_or_else(|| panic!("no section {heading}"), |start| &page[start..]);
    let end = rest.match_indices("\n## ").find(|(at, _)| *at > 0);
    &rest[..end.map_or(rest.len(), |(at, _)| at)]
}

impl Shell<'_> {
    /// Runs the blocks one after the other. A command that fails does not stop the next one.
    pub(crate) fn run(&self, blocks: &[Block]) -> Said {
        let mut script = format!("{}\n", self.first);
        for block in blocks {
            script.extend(["echo '", MARK, "'\n", &block.commands, "\n"]);
        }
        script.push_str("true\n");
        // It ends the whole group: the shell may wait for a command.
        let output = Command::new("timeout")
            .arg(self.limit.as_secs().to_string())
            .args(["bash", "-c", &script])
            .current_dir(self.folder)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let outputs: Vec<String> = text.split(MARK).skip(1).map(str::to_owned).collect();
        let ended = output.status.success() && outputs.len() == blocks.len();
        assert!(ended, "{}\n{text}{errors}", output.status);
        Said { outputs, errors }
    }
}
