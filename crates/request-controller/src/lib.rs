//! Follows access requests and their approvals, grants access to one pod and revokes it.
//!
//! Owns: the life of an `AccessRequest` from its creation to its deletion, and the Roles and RoleBindings of
//! requests. All values that were read go into a pure function ([`plan`]), and its result is written ([`apply`]), in
//! an order in which a crash leaves less access, never more.
//!
//! Knows nothing of the meaning of an approval: it collects the objects that a policy selects, and the evaluation
//! service judges them.
//!
//! Invariant: a grant is based only on live reads that are at most five seconds old, and is for exactly that subject,
//! connector and pod. Every managed object stays only while its request, read live, describes it. An ended grant
//! never comes back.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]

pub mod api;
pub mod apply;
pub mod args;
pub mod cache;
pub mod check_kinds;
pub mod check_object;
#[cfg(test)]
mod churn;
pub mod controller;
pub mod dynamic;
pub mod evaluator;
pub mod events;
pub mod evidence;
pub mod grant;
pub mod grant_digest;
mod interner;
pub mod lead;
#[cfg(test)]
mod memory;
pub mod metrics;
pub mod observe;
mod packed_text;
pub mod plan;
pub mod reconcile;
pub mod record;
pub mod seen;
pub mod selection;
pub mod shards;
pub mod snapshot;
pub mod standing;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod verdict;
pub mod watches;

use std::{sync::Arc, time::Duration};

use evaluation_api::client::Client as EvaluationClient;
use service_kit::{
    build_info::BuildInfo,
    client, clock,
    lease::LeaseTerms,
    process::SideRuntime,
    shell::{Shell, StartError},
    shutdown::ProcessEnd,
    tls::{ClientTls, TlsMetrics},
};
use tokio::runtime::Handle;

pub use args::Args;
use controller::Settings;
use evaluator::EvaluationService;

/// Shorter than the kubelet's grace period.
const DRAIN: Duration = Duration::from_secs(20);

/// The number of threads for each lane.
const LANE_THREADS: usize = 2;

/// Runs until the process has to stop.
pub async fn run(args: Args) -> Result<ProcessEnd, StartError> {
    let sweep_every = args.sweep_every();
    let Args {
        common,
        identity,
        evaluation,
        evaluation_ca,
        sweep_interval: _,
        retention,
        max_requests_per_namespace,
        shards,
    } = args;
    let mut shell = Shell::begin(common).await?;
    BuildInfo::register(&shell.registry)?.is(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let tls_metrics = TlsMetrics::register(&shell.registry)?;
    let tls = ClientTls::load(evaluation_ca, &["h2"], &tls_metrics)?;
    let evaluator = EvaluationClient::new(evaluation.settings(tls.config())).map_err(
        StartError::because("cannot use the URL of the evaluation service"),
    )?;
    // Possible revocations run on threads of their own, which no other work keeps busy.
    let threads = |name| {
        let runtime = SideRuntime::start(name, LANE_THREADS);
        runtime.map_err(StartError::because("cannot start threads"))
    };
    let (urgent, normal) = (threads("urgent")?, threads("normal")?);
    let stop = shell.tasks.stop();
    shell
        .tasks
        .spawn_infallible("evaluation-ca", tls.follow(stop));
    let settings = Settings {
        client: client::on_runtime(shell.client.clone(), Handle::current()),
        evaluator: Arc::new(EvaluationService {
            client: evaluator,
            runtime: Handle::current(),
        }),
        clock: clock::system(),
        namespace: shell.namespace.clone(),
        identity,
        lease: LeaseTerms::default(),
        sweep_every,
        retention: retention.get(),
        most_waiting: usize::try_from(max_requests_per_namespace).unwrap_or(usize::MAX),
        shards,
        lanes: [urgent.handle().clone(), normal.handle().clone()],
    };
    controller::start(
        settings,
        &shell.registry,
        &mut shell.tasks,
        &shell.readiness,
    )?;
    Ok(shell.run(DRAIN).await)
}
