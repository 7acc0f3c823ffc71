//! Why the process cannot start.

use std::{io, net::SocketAddr};

use evaluation_api::client::UrlError;
use service_kit::{
    admin::BindError, client::ConnectError, shutdown::SignalError, telemetry::TelemetryError,
};
use thiserror::Error;

/// Why the process cannot start.
#[derive(Debug, Error)]
pub enum RunError {
    /// It could not say what it does.
    #[error("cannot log")]
    Telemetry(#[from] TelemetryError),
    /// A metric was registered twice.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
    /// It could not say how it is.
    #[error("cannot serve health and metrics")]
    Admin(#[from] BindError),
    /// It could not be told to stop.
    #[error("cannot be told to stop")]
    Signals(#[from] SignalError),
    /// It could not ask the API server anything.
    #[error("cannot reach a cluster")]
    Connect(#[from] ConnectError),
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
