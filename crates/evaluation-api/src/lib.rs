//! The gRPC protocol of the evaluation service.
//!
//! Owns: the generated types ([`v1`]), equivalent types that need no further validation ([`access`]), and the
//! [`client`] with its TLS, token, deadlines and reconnects.
//!
//! Knows nothing of how an answer is found, and of its use by callers.
//!
//! Invariant: a value that is not understood is never a yes. An unknown decision, phase or verdict converts
//! to an error, and callers must treat every error like a missing answer.

pub mod access;
#[cfg(feature = "args")]
pub mod args;
pub mod client;
pub mod judgement;
pub mod refusal;
pub mod verdict;

/// The generated types of `connectors.evaluation.v1`.
#[allow(
    clippy::large_enum_variant,
    clippy::pedantic,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    unreachable_pub,
    reason = "generated code"
)]
pub mod v1 {
    include!("generated/connectors.evaluation.v1.rs");
}

/// The protocol as a `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!("generated/connectors.evaluation.v1.bin");

/// The audience of tokens for the evaluation service.
pub const TOKEN_AUDIENCE: &str = "connectors-evaluation";

/// The audience of pods' tokens that `ReviewToken` accepts.
pub const POD_TOKEN_AUDIENCE: &str = "connectors.alauda.io";

/// The limit of questions in one `BatchCheckAccess`.
pub const MOST_QUESTIONS: usize = 1024;

/// The limit of a message in either direction. A longer message is refused, never truncated.
pub const LONGEST_MESSAGE: usize = 8 * 1024 * 1024;

/// The number of concurrent calls with objects that the service reads of one caller. Further ones wait, unread. A caller
/// with many questions selects among them by itself.
pub const MOST_OBJECT_CALLS: usize = 8;
