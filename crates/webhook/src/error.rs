//! Why the process cannot start.

use std::{io, net::SocketAddr};

use evaluation_api::client::UrlError;
use service_kit::{shell::ShellError, tls::TlsError};
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
    /// It could not be asked anything.
    #[error("cannot listen on {address} for the API server")]
    Listen {
        /// Where it should have listened.
        address: SocketAddr,
        /// Why it cannot.
        #[source]
        source: io::Error,
    },
}
