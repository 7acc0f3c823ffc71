//! The CSI node plugin: holds a pod at its volume mount until access is there.
//!
//! Owns: the driver's two sockets (the kubelet's calls, and its registration), the proof of the calling pod, the wait
//! for access, the mounted volume and its change when access ends.
//!
//! Refuses to know: how access is decided. It asks the evaluation service and confirms with the API server. It reads
//! no pods, no secrets and no policies.
//!
//! Invariant: a volume that was reported as published is complete, and access to all its connectors existed during
//! that very call. A final error means that nothing is left at the target path.

mod access;
mod args;
mod caller;
mod content;
mod content_digests;
mod driver;
mod error;
mod error_file;
mod evaluator;
mod event_cache;
mod hold_quota;
#[cfg(test)]
mod killed;
mod kubernetes;
mod locks;
mod memory_quota;
mod metrics;
mod mounter;
mod noted_volumes;
#[cfg(test)]
mod oracle;
mod refusal;
mod refused_reviews;
mod request_quota;
mod server;
mod service;
mod switch;
#[cfg(test)]
mod testing;
mod tool_cache;
mod volume;

pub use args::Args;
pub use kubernetes::EventWord;
pub use service::run;

/// The generated types of the protocols that the kubelet speaks.
#[allow(
    clippy::pedantic,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    unreachable_pub,
    reason = "generated code"
)]
pub mod proto {
    /// `csi.v1`.
    pub mod csi {
        include!("generated/csi.v1.rs");
    }
    /// `pluginregistration`.
    pub mod registration {
        include!("generated/pluginregistration.rs");
    }
}
