//! One script of requests for the fake and the real API server, and the transcripts to compare.
//!
//! Owns: the requests ([`script`]), how they are made ([`run`]), and what of the answers is compared
//! ([`Transcript`]). Refuses to know: how a server is made; [`Server`] is what it needs of one. Invariant: the
//! transcript of the real server is kept in a file, and neither the fake nor a newer real server differs from
//! it unseen.
//!
//! Not part of it, as no client of ours uses them: dry runs, strategic merge patches, tables, `exec` and other
//! connections, lists at a version that was compacted away (the real server forgets it minutes later).

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

/// What the real API server answered when the file was last written.
#[must_use]
pub fn real() -> Transcript {
    Transcript::parse(include_str!("conformance/real.transcript"))
}

/// Where the file of the real server's answers is, below the repository's root.
pub const REAL_FILE: &str = "crates/testkit/src/conformance/real.transcript";

/// Both transcripts' differences as one text; empty when there is none.
#[must_use]
pub fn report(differences: &[Difference]) -> String {
    let parts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    parts.join("\n")
}
