//! Errors at the start of the process.

use std::io;

use evaluation_api::client::UrlError;
use service_kit::{shell::ShellError, tls::TlsError};
use thiserror::Error;

/// The reason why the process cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A requirement of every service is not met.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The threads of the workers cannot be started.
    #[error("cannot start threads")]
    Threads(#[from] io::Error),
    /// The TLS configuration for the evaluation service is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The URL of the evaluation service is invalid.
    #[error(transparent)]
    Evaluation(#[from] UrlError),
    /// The metrics contradict each other.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
}
