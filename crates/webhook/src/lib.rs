//! Admission of what people write in our API group, and the certificates of the installation.
//!
//! Owns: what the API server asks before an `AccessRequest` is created, before an `AccessPolicy` is written, about the
//! class labels of a `Connector`, the creator of a `PipelineRun` and the scheduling gate of a `Pod`; and the one certificate
//! authority of the installation with the serving certificates of webhook and evaluation service.
//!
//! Refuses to know what policies come to, approvals and grants: an admitted object has been granted nothing, and the
//! controllers check again everything but its author.
//!
//! Invariant: an object that cannot be judged is refused. A policy gives no access to a connector that its author may
//! not change. A user who may not get a pod learns nothing about it. A certificate is used only after its authority was
//! published.

mod admission;
mod args;
mod certs;
mod clients;
mod evaluator;
mod finding;
mod metrics;
#[cfg(test)]
mod oracle;
mod page;
mod peer_quota;
mod review;
mod review_memory;
mod server;
#[cfg(test)]
mod testing;

use std::{sync::Arc, time::Duration};

use service_kit::{
    build_info::BuildInfo,
    clock,
    retry::RetryPolicy,
    serve,
    shell::{Shell, StartError},
    shutdown::ProcessEnd,
    tls::{CallerTls, Serving, TlsMetrics},
};
use tracing::info;

use admission::Admission;
use certs::{CertificateStore, Keeper};
use evaluator::Evaluator;
use metrics::Metrics;
use peer_quota::PeerLimits;
use server::Handler;

pub use args::Args;
/// Longer than lingering and the last answers take, shorter than the kubelet waits.
const DRAIN: Duration = Duration::from_secs(15);

/// Runs until the process is to end.
pub async fn run(args: Args) -> Result<ProcessEnd, StartError> {
    let Args {
        common,
        listen_address,
        client_ca_file,
        client_name,
        node_plugin_account,
        mutating_configuration,
        validating_configuration,
        evaluation,
    } = args;
    let mut shell = Shell::begin(common).await?;
    BuildInfo::register(&shell.registry)?.is(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let metrics = Metrics::register(&shell.registry)?;
    let (listener, _) = serve::bind(listen_address, "the API server").await?;

    let tls_metrics = TlsMetrics::register(&shell.registry)?;
    let callers =
        client_ca_file.map(|file| CallerTls::load(file, clients::named(client_name), &tls_metrics));
    let callers = callers.transpose().map_err(StartError::because(
        "cannot tell who may call: --client-ca-file names the authority of the API server's client certificate",
    ))?;
    let serving = Serving::default();
    let tls = server::config(&serving, callers.as_ref().map(CallerTls::verifier));
    let store = CertificateStore {
        client: shell.client.clone(),
        policy: RetryPolicy::default(),
        namespace: shell.namespace.clone(),
        mutating: mutating_configuration,
        validating: validating_configuration,
        creator: certs::creator(),
    };
    let ready = shell
        .readiness
        .part("a certificate that the API server was told to trust");
    let (roots, tls_roots) = evaluator::trust();
    let keeper = Keeper::new(
        store,
        Arc::new(clock::now),
        serving,
        roots,
        metrics.certificates,
        ready,
    );
    let evaluator = Evaluator::new(evaluation.settings(tls_roots)).map_err(StartError::because(
        "cannot use the URL of the evaluation service",
    ))?;
    let client = shell.client.clone();
    let limits = PeerLimits::new(metrics.peers);
    let namespace = &shell.namespace;
    let admission = Admission::new(client, namespace, node_plugin_account, evaluator, &limits);
    let handler = Handler::new(admission, metrics.reviews, limits);

    let tasks = &mut shell.tasks;
    let stop = tasks.stop();
    tasks.spawn_infallible("certificates", keeper.keep(stop.clone()));
    if let Some(callers) = callers {
        tasks.spawn_infallible("client authorities", callers.follow(stop.clone()));
    }
    tasks.spawn_infallible("admission", server::serve(listener, tls, handler, stop));
    info!(address = %listen_address, "admission starts");
    Ok(shell.run(DRAIN).await)
}
