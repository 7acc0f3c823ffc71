//! Answers access questions from watch caches and evaluates approval checks; changes nothing.
//!
//! Owns: the gRPC API of the evaluation service, the caches behind it, the review of its callers, and
//! the worker processes that run Rego.
//!
//! Refuses to know: why a request is in the phase that it is in, who asks for what reason, and anything
//! that would have to be written to the cluster.
//!
//! Invariant: a yes rests on objects that were read whole. Before every cache had its first complete
//! list there is no answer at all; what cannot be read counts for nothing; what Rego does to its worker
//! is an answer for nobody else.

pub mod args;
pub mod auth;
pub mod check;
pub mod error;
pub mod evaluate;
pub mod live;
pub mod metrics;
pub mod places;
pub mod rego;
pub mod server;
pub mod service;
pub mod shares;
pub mod who_can;
pub mod world;

mod batch;
mod explain;
mod gate;
mod health;
mod questions;
mod stream;
mod validate;

#[cfg(test)]
mod fixtures;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use prometheus::Registry;
use service_kit::admin::{self, Admin};
use service_kit::args::CommonArgs;
use service_kit::client::{self, ConnectError};
use service_kit::readiness::Readiness;
use service_kit::shutdown::{Outcome, SignalError, Tasks, signals};
use service_kit::telemetry::{self, TelemetryError};
use service_kit::tls::{ServerTls, TlsError, TlsMetrics};
use service_kit::watches::WatchMetrics;
use thiserror::Error;

use args::Args;
use auth::Callers;
use live::Live;
use metrics::Metrics;
use places::Places;
use rego::Pool;
use server::{LocalServer, Server};
use service::Service;
use world::{Follow, Shared};

/// How long calls may take to end when the process does.
const DRAIN: Duration = Duration::from_secs(20);

/// Why the process cannot begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// Logs cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// A metric cannot be made.
    #[error("cannot make the metrics")]
    Metrics(#[from] prometheus::Error),
    /// The admin address is taken.
    #[error(transparent)]
    Admin(#[from] admin::BindError),
    /// The API address is taken.
    #[error(transparent)]
    Bind(#[from] server::BindError),
    /// The socket is taken.
    #[error(transparent)]
    Socket(#[from] server::SocketError),
    /// There is no way to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no certificate to serve with.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Rego cannot be run.
    #[error(transparent)]
    Rego(#[from] rego::StartError),
    /// The program cannot find itself.
    #[error("cannot find the program of this process")]
    Program(#[source] std::io::Error),
    /// Signals cannot be listened to.
    #[error(transparent)]
    Signals(#[from] SignalError),
    /// There is no runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// The whole process: the service, or one of its workers.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == rego::ARGUMENT
    {
        return rego::run_worker(rest);
    }
    match serve(Args::parse()) {
        Ok(outcome) => outcome.exit(),
        Err(error) => {
            eprintln!("evaluation-service: {}", service_kit::report(&error));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: Args) -> Result<Outcome, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(StartError::Runtime)?.block_on(run(args))
}

/// Runs the service until it is told to end.
pub async fn run(args: Args) -> Result<Outcome, StartError> {
    let limits = args.rego_limits();
    let caller_limits = args.caller_limits();
    let Args {
        common,
        listen_address,
        listen_socket,
        tls_certificate,
        tls_key,
        max_staleness,
        calls_per_caller: _,
        streams_per_caller: _,
        rego_workers: _,
        rego_timeout: _,
        rego_memory: _,
        rego_output_size: _,
        rego_module_size: _,
    } = args;
    let CommonArgs {
        log_filter,
        log_format,
        admin_address,
        kubeconfig,
    } = common;
    telemetry::init(&log_filter, log_format)?;
    let signals = signals()?;
    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    let watches = WatchMetrics::register(&registry)?;
    let tls_metrics = TlsMetrics::register(&registry)?;
    let (readiness, start) = Readiness::starting();
    let admin = Admin::bind(admin_address).await?;
    admin.start(readiness.clone(), registry);

    let tls = ServerTls::load(tls_certificate, tls_key, &["h2"], &tls_metrics)?;
    let server = Server::bind(listen_address).await?;
    let local = listen_socket.map(LocalServer::bind).transpose()?;
    let client = client::connect(kubeconfig.as_deref()).await?;
    let program = env::current_exe().map_err(StartError::Program)?;
    let rego = Pool::start(program, limits, metrics.clone()).await?;

    let mut tasks = Tasks::new();
    let shared = Arc::new(Shared::default());
    let follow = Follow {
        client: &client,
        shared: &shared,
        readiness: &readiness,
        watches: &watches,
        metrics: &metrics,
    };
    follow.start(&mut tasks);
    let service = Service {
        shared,
        live: Live::new(client.clone()),
        callers: Callers::new(client, metrics.clone(), caller_limits),
        places: Places::new(rego.workers()),
        rego,
        remembered: Arc::default(),
        readiness: readiness.clone(),
        metrics,
        max_staleness,
        stop: tasks.stop(),
    };
    if let Some(local) = local {
        let (service, stop) = (service.clone(), tasks.stop());
        tasks.spawn_infallible("socket", async move {
            local.run(service, stop).await;
        });
    }
    let (config, stop) = (tls.config(), tasks.stop());
    tasks.spawn_infallible("grpc", async move {
        server.run(service, config, stop).await;
    });
    tasks.spawn_infallible("tls", tls.follow(tasks.stop()));
    start.ready();
    Ok(tasks.run(signals, &readiness, DRAIN).await)
}
