//! The commands of a document, run in one shell as a person would type them.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Commands of a document, and the output below them there.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) commands: String,
    /// The language, and the text.
    pub(crate) expected: Option<(String, String)>,
    /// Why no test runs them, in the words of the mark above them.
    pub(crate) left_out: Option<String>,
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

/// Begins the line above a block that no test runs. The reason follows.
const LEFT_OUT: &str = "<!-- not run: ";
/// The languages of outputs. Blocks in other languages show no output.
const OUTPUTS: [&str; 2] = ["json", "text"];

/// The blocks of a text: `sh` to run, and the output under each. In a list they are indented.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut above = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let fence = line.trim_start();
        let Some(language) = fence.strip_prefix("```") else {
            above = line.trim();
            continue;
        };
        let indent = line.len() - fence.len();
        let mut body = String::new();
        for line in lines.by_ref().take_while(|it| it.trim() != "```") {
            let blank = line.len() - line.trim_start().len();
            body.extend([&line[blank.min(indent)..], "\n"]);
        }
        let mark = above.strip_prefix(LEFT_OUT);
        if language == "sh" {
            found.push(Block {
                commands: body,
                expected: None,
                left_out: mark.map(|it| it.trim_end_matches("-->").trim().to_owned()),
            });
        } else if OUTPUTS.contains(&language) {
            let block = found.last_mut().expect("commands above");
            block.expected = Some((language.to_owned(), body));
        }
        above = "";
    }
    found
}

#[test]
fn blocks_are_found_in_lists_and_say_why_they_are_not_run() {
    let text = "# T\n```sh\na <<END\n  x\nEND\n```\n```text\nout\n```\n\n1. one\n\n   <!-- not run: no such thing -->\n   \
                ```sh\n   b\n\n     c\n   ```\n   ```yaml\n   x: 1\n   ```\n";
    let found = blocks(text);
    let [first, second] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(first.commands, "a <<END\n  x\nEND\n");
    let output = Some(("text".to_owned(), "out\n".to_owned()));
    assert_eq!((&first.expected, &first.left_out), (&output, &None));
    assert_eq!(second.commands, "b\n\n  c\n");
    assert_eq!(second.expected, None);
    assert_eq!(second.left_out.as_deref(), Some("no such thing"));
    assert!(blocks("no block").is_empty());
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
            assert_eq!(block.left_out, None, "{}", block.commands);
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
