//! Why the process cannot start.

use evaluation_api::client::UrlError;
use service_kit::{
    admin::BindError, client::ConnectError, shutdown::SignalError, telemetry::TelemetryError,
    tls::TlsError,
};
use thiserror::Error;

/// Why the process cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot log.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// It cannot say how it is.
    #[error(transparent)]
    Admin(#[from] BindError),
    /// It cannot be asked to end.
    #[error(transparent)]
    Signals(#[from] SignalError),
    /// It has no client for the Kubernetes API.
    #[error(transparent)]
    Connect(#[from] ConnectError),
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
