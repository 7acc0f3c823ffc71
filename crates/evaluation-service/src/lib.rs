//! Answers access questions from watch caches and evaluates approval checks; changes nothing.
//!
//! Owns: the gRPC API of the evaluation service, the caches behind it, and the review of its callers. Rego runs in worker
//! processes (`rego-workers`).
//!
//! Refuses to know: why a request is in its phase, the callers' reasons, and anything that would have to be written
//! to the cluster.
//!
//! Invariant: a yes relies on objects that were read whole. There is no answer at all before every cache had its
//! first complete list. Unreadable objects count for nothing. The effect of Rego on its worker is never another
//! caller's answer.

pub mod access_decision;
pub mod args;
pub mod auth;
mod caller_identity;
pub mod caller_quotas;
pub mod error;
pub mod evaluate;
pub mod json_memory;
pub mod live;
pub mod metrics;
pub mod server;
pub mod service;
pub mod slots;
pub mod who_can;
pub mod world;

mod batch;
mod call_names;
mod clock;
mod explain;
mod gate;
mod health;
mod questions;
mod requestable;
mod stream;
mod stream_memory;
mod validate;
mod waiting;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod oracle;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use service_kit::build_info::BuildInfo;
use service_kit::process::{self, Threads};
use service_kit::serve::{self, InUse, UnixSocket};
use service_kit::shell::{Shell, StartError};
use service_kit::shutdown::ProcessEnd;
use service_kit::tls::{ServerTls, TlsMetrics};
use service_kit::watches::WatchMetrics;

use args::Args;
use auth::{CallerReviews, IndexedRights};
use live::Live;
use metrics::Metrics;
use rego_workers::WorkerPool;
use service::Service;
use slots::Slots;
use world::{Follow, Shared};

/// It answers on every processor. File access and the reading of very large objects block.
const THREADS: Threads = Threads {
    working: usize::MAX,
    blocking: 16,
};
/// The time that calls have to end when the process ends.
const DRAIN: Duration = Duration::from_secs(20);

/// The whole process: the service, or one of its workers.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == rego_workers::ARGUMENT
    {
        return rego_workers::run_worker(rest);
    }
    process::main("evaluation-service", THREADS, run(Args::parse()))
}

/// Runs the service until it must end.
pub async fn run(args: Args) -> Result<ProcessEnd, StartError> {
    let limits = args.rego_limits();
    let caller_limits = args.caller_limits();
    let Args {
        common,
        proxy_audience,
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
    let mut shell = Shell::begin(common).await?;
    BuildInfo::register(&shell.registry)?.is(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let metrics = Metrics::register(&shell.registry)?;
    let watches = WatchMetrics::register(&shell.registry)?;
    let tls_metrics = TlsMetrics::register(&shell.registry)?;

    let tls = ServerTls::load(tls_certificate, tls_key, &["h2"], &tls_metrics)?;
    let (listener, _) = serve::bind(listen_address, "gRPC").await?;
    let socket = listen_socket.map(|path| UnixSocket::bind(path, InUse::Refuse));
    let socket = socket.transpose()?;
    let program = env::current_exe().map_err(StartError::because(
        "cannot find the program of this process",
    ))?;
    let rego = WorkerPool::start(program, limits, metrics.clone())
        .await
        .map_err(StartError::because("cannot run Rego"))?;

    let Shell {
        client,
        readiness,
        namespace,
        tasks,
        ..
    } = &mut shell;
    let shared = Arc::new(Shared::default());
    let follow = Follow {
        client,
        namespace,
        shared: &shared,
        readiness,
        watches: &watches,
        metrics: &metrics,
    };
    follow.start(tasks);
    let indexed = IndexedRights::new(Arc::clone(&shared), max_staleness);
    let service = Service {
        shared,
        live: Live::new(client.clone()),
        callers: CallerReviews::new(
            client.clone(),
            metrics.clone(),
            caller_limits,
            indexed,
            Some(proxy_audience),
        ),
        slots: Slots::new(rego.workers()),
        rego,
        answers: Arc::default(),
        policies: Arc::default(),
        programs: Arc::default(),
        memory: Arc::default(),
        readiness: readiness.clone(),
        metrics,
        max_staleness,
        stop: tasks.stop(),
    };
    if let Some(socket) = socket {
        let serving = server::serve_socket(socket, service.clone(), tasks.stop());
        tasks.spawn_infallible("socket", serving);
    }
    let serving = server::serve_tls(listener, service, tls.config(), tasks.stop());
    tasks.spawn_infallible("grpc", serving);
    tasks.spawn_infallible("tls", tls.follow(tasks.stop()));
    Ok(shell.run(DRAIN).await)
}
