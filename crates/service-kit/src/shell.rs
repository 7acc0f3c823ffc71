//! The start and the end of every service.

use std::{error::Error, time::Duration};

use futures::stream::BoxStream;
use kube::Client;
use prometheus::Registry;
use thiserror::Error;

use crate::{
    admin::Admin,
    args::CommonArgs,
    client::{self, ConnectError},
    readiness::{Readiness, ReadinessPart},
    serve::{BindError, SocketError},
    shutdown::{ProcessEnd, Signal, SignalError, Tasks, signals},
    telemetry::{self, TelemetryError},
    tls::TlsError,
};

/// Why a process cannot begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot log.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// It cannot be told to end.
    #[error(transparent)]
    Signals(#[from] SignalError),
    /// It cannot listen on an address, such as that of its admin server.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// It cannot listen on a socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It has no certificate, or nothing to trust others by.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It has no client for the Kubernetes API.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The metrics contradict each other.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
    /// Another requirement of this service is not met.
    #[error("{0}")]
    Other(&'static str, #[source] Box<dyn Error + Send + Sync>),
}

impl StartError {
    /// Makes of an error why something that only this service needs is not there.
    pub fn because<E>(problem: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Error + Send + Sync + 'static,
    {
        move |source| Self::Other(problem, Box::new(source))
    }
}

/// A process that logs, says how it is, can be told to end, and has a client for the Kubernetes API.
pub struct Shell {
    /// For the Kubernetes API.
    pub client: Client,
    /// Of the metrics that the admin server shows.
    pub registry: Registry,
    /// Whether everything has caught up. Not before [`run`](Self::run).
    pub readiness: Readiness,
    /// The namespace of the installation.
    pub namespace: String,
    /// The tasks that run until the end of the process.
    pub tasks: Tasks,
    signals: BoxStream<'static, Signal>,
    start: ReadinessPart,
}

impl Shell {
    /// The first thing that a process does with its arguments.
    pub async fn begin(args: CommonArgs) -> Result<Self, StartError> {
        let CommonArgs {
            log_filter,
            log_format,
            admin_address,
            kubeconfig,
            namespace,
        } = args;
        telemetry::init(&log_filter, log_format)?;
        let signals = signals()?;
        let registry = Registry::new();
        let (readiness, start) = Readiness::starting();
        let admin = Admin::bind(admin_address).await?;
        admin.start(readiness.clone(), registry.clone());
        Ok(Self {
            client: client::connect(kubeconfig.as_deref()).await?,
            registry,
            readiness,
            namespace,
            tasks: Tasks::new(),
            signals,
            start,
        })
    }

    /// Everything has been started: waits until the process is to end, and then so long for its tasks.
    pub async fn run(self, drain: Duration) -> ProcessEnd {
        let Self {
            readiness,
            tasks,
            signals,
            start,
            ..
        } = self;
        start.ready();
        tasks.run(signals, &readiness, drain).await
    }
}
