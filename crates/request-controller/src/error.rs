//! Why the process cannot start.

use std::io;

use evaluation_api::client::UrlError;
use service_kit::{shell::ShellError, tls::TlsError};
use thiserror::Error;

/// Why the process cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// What every service needs is not there.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The threads for its looks cannot be started.
    #[error("cannot start threads")]
    Threads(#[from] io::Error),
    /// It cannot check who the evaluation service is.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The evaluation service has no usable URL.
    #[error(transparent)]
    Evaluation(#[from] UrlError),
    /// The metrics contradict each other.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
}
