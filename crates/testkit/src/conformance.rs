//! One script of requests for both the fake and the real API server, and the comparison of their transcripts.
//!
//! Owns: the requests ([`script`]), their execution ([`run`]), and the parts of answers that are compared
//! ([`Transcript`]). Knows nothing of how a server is started; [`Server`] is the interface that it needs.
//! Invariant: the transcript of the real server is kept in a file, and any deviation of the fake or of a
//! newer real server is reported.
//!
//! Not covered, because none of our clients uses them: dry runs, strategic merge patches, tables, `exec` and
//! other connections, lists at a compacted version (the real server compacts minutes later).

mod groups;
mod kinds;
mod memory;
mod normalise;
mod run;
mod step;
mod transcript;

pub use groups::script;
pub use kinds::{Resource, TEST_GROUP, test_kinds};
pub use run::{Server, run};
pub use step::{Script, TokenWish, Who};
pub use transcript::{Difference, Transcript};

/// The answers of the real API server when the file was last written.
#[must_use]
pub fn real() -> Transcript {
    Transcript::parse(include_str!("conformance/real.transcript"))
}

/// The path of the file with the real server's answers, relative to the repository's root.
pub const REAL_FILE: &str = "crates/testkit/src/conformance/real.transcript";

/// The differences as one text; empty when there are none.
#[must_use]
pub fn report(differences: &[Difference]) -> String {
    let parts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    parts.join("\n")
}
