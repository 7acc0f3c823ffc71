//! Why the process cannot start.

use evaluation_api::client::UrlError;
use service_kit::{serve::BindError, shell::ShellError, tls::TlsError};
use thiserror::Error;

/// Why the process cannot start.
#[derive(Debug, Error)]
pub enum RunError {
    /// What every service needs is not there.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// A metric was registered twice.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
    /// No caller could be let in.
    #[error(
        "cannot tell who may call: --client-ca-file names the authority of the API server's client certificate"
    )]
    Callers(#[from] TlsError),
    /// Where the evaluation service should be is no place.
    #[error("cannot ask the evaluation service")]
    Evaluation(#[from] UrlError),
    /// The address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
}
