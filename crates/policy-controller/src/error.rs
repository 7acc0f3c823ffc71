//! Why the process cannot start.

use service_kit::{
    admin::BindError, client::ConnectError, shutdown::SignalError, telemetry::TelemetryError,
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
    /// The metrics contradict each other.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
}
