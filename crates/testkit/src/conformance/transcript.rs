//! The transcript of a run, as text that is kept in a file, and the differences between two of them.

use std::fmt;

use super::normalise::canonical;
use super::step::{Action, Ask, Expected, Step, Until, Who};

/// One step and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    request: Vec<String>,
    answer: Vec<String>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    blocks: Vec<Block>,
}

/// A step whose answers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    request: Vec<String>,
    expected: Vec<String>,
    found: Vec<String>,
}

impl Transcript {
    pub(super) fn push(&mut self, request: Vec<String>, answer: Vec<String>) {
        self.blocks.push(Block { request, answer });
    }

    /// The number of executed steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// True when no step was executed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Parses the output of [`Transcript::to_string`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut transcript = Self::default();
        for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
            let mut request = Vec::new();
            let mut answer = Vec::new();
            for line in part.lines() {
                match line.strip_prefix("  ") {
                    Some(line) => answer.push(line.to_owned()),
                    None => request.push(line.to_owned()),
                }
            }
            transcript.push(request, answer);
        }
        transcript
    }

    /// The differences of a run from this one, which is the expected one.
    ///
    /// A step that only one of them has is a difference. Steps are compared by position, because both come
    /// from the same script.
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        let nothing = Block {
            request: Vec::new(),
            answer: vec!["(no such step)".to_owned()],
        };
        let longest = self.blocks.len().max(found.blocks.len());
        (0..longest)
            .filter_map(|index| {
                let expected = self.blocks.get(index).unwrap_or(&nothing);
                let found = found.blocks.get(index).unwrap_or(&nothing);
                (expected != found).then(|| Difference {
                    request: found.request.clone(),
                    expected: with_request(expected, found),
                    found: found.answer.clone(),
                })
            })
            .collect()
    }
}

/// The expected answer; marked if it belongs to another request.
fn with_request(expected: &Block, found: &Block) -> Vec<String> {
    if expected.request == found.request {
        return expected.answer.clone();
    }
    let mut lines = vec!["(to another request, so the file is of another script)".to_owned()];
    lines.extend(expected.request.iter().cloned());
    lines.extend(expected.answer.iter().cloned());
    lines
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.blocks {
            for line in &block.request {
                writeln!(f, "{line}")?;
            }
            for line in &block.answer {
                writeln!(f, "  {line}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.request {
            writeln!(f, "{line}")?;
        }
        for line in self
            .expected
            .iter()
            .filter(|line| !self.found.contains(line))
        {
            writeln!(f, "  real - {line}")?;
        }
        for line in self
            .found
            .iter()
            .filter(|line| !self.expected.contains(line))
        {
            writeln!(f, "  here + {line}")?;
        }
        if self.expected.iter().all(|line| self.found.contains(line))
            && self.found.iter().all(|line| self.expected.contains(line))
        {
            writeln!(f, "  the same lines, in another order or number")?;
        }
        Ok(())
    }
}

/// The lines that identify a step: its index, group, user and request, with placeholders.
pub(super) fn describe(index: usize, step: &Step) -> Vec<String> {
    let who = match &step.who {
        Who::Admin => String::new(),
        Who::User { name, groups } if groups.is_empty() => format!(" as {name}"),
        Who::User { name, groups } => format!(" as {name} of {}", groups.join(", ")),
    };
    let (line, body) = match &step.action {
        Action::Ask(ask) => (ask.to_string(), ask.body.as_ref()),
        Action::AskUntil(ask, until) => (
            format!("until {}: {ask}", awaited(*until)),
            ask.body.as_ref(),
        ),
        Action::Open(stream, ask) => (format!("open {stream}: {ask}"), None),
        Action::Read(stream, Expected::Events(count)) => (format!("read {stream}: {count}"), None),
        Action::Read(stream, Expected::End) => (format!("read {stream}: to its end"), None),
        Action::Close(stream) => (format!("close {stream}"), None),
        Action::AwaitNamespace(name) => (format!("await namespace {name}"), None),
        Action::IssueToken(wish) => (
            format!("token of {} for {:?}", wish.account, wish.audiences),
            None,
        ),
        Action::RemoveKind(kind) => (format!("remove kind {}", kind.kind), None),
        Action::ForgetHistory => ("forget history".to_owned(), None),
    };
    let mut lines = vec![format!("{index:03} {}{who}: {line}", step.group)];
    lines.extend(body.map(canonical));
    lines
}

fn awaited(until: Until) -> String {
    match until {
        Until::Code(code) => code.to_string(),
        Until::No => "no".to_owned(),
        Until::Marked => "marked".to_owned(),
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            let sign = if index == 0 { '?' } else { '&' };
            write!(f, "{sign}{name}={value}")?;
        }
        match self.content_type {
            "application/json" => Ok(()),
            other => write!(f, " ({other})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(answers: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        for (index, answer) in answers.iter().enumerate() {
            transcript.push(
                vec![format!("{index} GET /a")],
                vec![(*answer).to_owned(), "- item".to_owned()],
            );
        }
        transcript
    }

    #[test]
    fn what_was_written_is_read_back() {
        let written = transcript(&["200 a", "404 b"]);
        assert_eq!(Transcript::parse(&written.to_string()), written);
    }

    #[test]
    fn another_answer_is_told_with_its_request() {
        let differences = transcript(&["200", "404"]).differences(&transcript(&["200", "409"]));
        assert_eq!(differences.len(), 1);
        assert_eq!(
            differences[0].to_string(),
            "1 GET /a\n  real - 404\n  here + 409\n"
        );
    }

    #[test]
    fn a_step_that_only_one_has_is_a_difference() {
        let (short, long) = (transcript(&["200"]), transcript(&["200", "404"]));
        assert_eq!(short.differences(&long).len(), 1);
        assert_eq!(long.differences(&short).len(), 1);
    }

    #[test]
    fn an_item_less_or_in_another_place_is_a_difference() {
        let mut changed = transcript(&["200"]);
        changed.blocks[0].answer.reverse();
        assert_eq!(transcript(&["200"]).differences(&changed).len(), 1);
        changed.blocks[0].answer.pop();
        assert_eq!(transcript(&["200"]).differences(&changed).len(), 1);
    }
}
