//! The CSI driver as the program that ships, called over its socket as the kubelet calls it: by csi-sanity, and a
//! thousand times at once.
//!
//! Owns: the program and the evaluation service as processes, and an API server in memory that both read. Refuses to
//! know: how the driver decides, which its own tests are about. Invariant: nothing of a test is left on the machine,
//! because mounts are made in a mount namespace of the test's own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod held;
mod sanity;
mod support;
