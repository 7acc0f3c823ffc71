//! The gRPC protocol of the evaluation service.
//!
//! Owns: the generated types ([`v1`]), the same as types that need no second look ([`access`]), and the
//! [`client`] with its TLS, token, deadlines and reconnects.
//!
//! Refuses to know: how an answer is found, and what anybody does with it.
//!
//! Invariant: what is not understood is never a yes. An unknown decision, phase or verdict converts to
//! an error, and every error is for its caller the same as no answer.

pub mod access;
#[cfg(feature = "args")]
pub mod args;
pub mod client;
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

/// What a token must be for, to be shown to the evaluation service.
pub const TOKEN_AUDIENCE: &str = "connectors-evaluation";

/// What a pod's token must be for, to be reviewed by `ReviewToken`.
pub const POD_TOKEN_AUDIENCE: &str = "connectors.alauda.io";

/// Questions that one `BatchCheckAccess` may ask.
pub const MOST_QUESTIONS: usize = 1024;

/// The longest message of either side. What is longer is refused, never cut.
pub const LONGEST_MESSAGE: usize = 8 * 1024 * 1024;
