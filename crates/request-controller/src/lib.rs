//! Follows access requests and their approvals, grants access to one pod and revokes it.
//!
//! Owns: the life of an `AccessRequest` from its creation to its deletion, and the Roles and RoleBindings
//! that are written for requests. What was read goes into a pure function ([`plan`]), and what comes out
//! of it is written ([`apply`]), in an order in which a crash leaves less access, never more.
//!
//! Refuses to know: what an approval looks like. It collects the objects that a policy selects and asks
//! the evaluation service what they say.
//!
//! Invariant: nothing is granted but on live reads that are at most five seconds old, for exactly that
//! subject, connector and pod; every managed object stays only while its request, read live, describes
//! it; what was ended never comes back.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]

pub mod api;
pub mod apply;
pub mod args;
pub mod caches;
pub mod check_kinds;
pub mod controller;
pub mod dynamic;
pub mod error;
pub mod evaluator;
pub mod events;
pub mod lead;
pub mod metrics;
pub mod observe;
pub mod plan;
pub mod queue;
pub mod reconcile;
pub mod seen;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod watches;

use std::{sync::Arc, time::Duration};

use evaluation_api::client::{Client as EvaluationClient, Settings as EvaluationSettings};
use prometheus::Registry;
use service_kit::{
    admin::Admin,
    args::CommonArgs,
    client, clock,
    lease::Terms as LeaseTerms,
    readiness::Readiness,
    shutdown::{Outcome, Tasks, signals},
    telemetry,
    tls::{ClientTls, TlsMetrics},
};
use tokio::time::Instant;

use controller::Settings;
use seen::Now;

pub use args::Args;
pub use error::StartError;

/// Shorter than the kubelet waits.
const DRAIN: Duration = Duration::from_secs(20);

/// Runs until the process is to end.
pub async fn run(args: Args) -> Result<Outcome, StartError> {
    let sweep_every = args.sweep_every();
    let Args {
        common:
            CommonArgs {
                log_filter,
                log_format,
                admin_address,
                kubeconfig,
            },
        namespace,
        identity,
        evaluation_url,
        evaluation_ca,
        evaluation_token,
        sweep_interval: _,
        retention,
        max_requests_per_namespace,
    } = args;
    telemetry::init(&log_filter, log_format)?;
    let registry = Registry::new();
    let tls = ClientTls::load(evaluation_ca, &["h2"], &TlsMetrics::register(&registry)?)?;
    let (readiness, start) = Readiness::starting();
    Admin::bind(admin_address)
        .await?
        .start(readiness.clone(), registry.clone());
    let signals = signals()?;
    let client = client::connect(kubeconfig.as_deref()).await?;
    let evaluator = EvaluationClient::new(EvaluationSettings {
        url: evaluation_url,
        tls: tls.config(),
        token_file: evaluation_token,
    })?;
    let mut tasks = Tasks::new();
    tasks.spawn_infallible("evaluation-ca", tls.follow(tasks.stop()));
    let settings = Settings {
        client,
        evaluator: Arc::new(evaluator),
        clock: Arc::new(now),
        namespace,
        identity,
        lease: LeaseTerms::default(),
        sweep_every,
        retention: retention.get(),
        most_waiting: usize::try_from(max_requests_per_namespace).unwrap_or(usize::MAX),
    };
    controller::start(settings, &registry, &mut tasks, &readiness)?;
    start.ready();
    Ok(tasks.run(signals, &readiness, DRAIN).await)
}

/// This moment; the wall clock in whole seconds, as statuses have it.
fn now() -> Now {
    Now {
        wall: plan::whole_seconds(clock::now()),
        mono: Instant::now(),
    }
}
