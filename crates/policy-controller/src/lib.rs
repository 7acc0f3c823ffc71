//! Keeps the standing permissions of access policies in force.
//!
//! Owns: the Roles and RoleBindings that express a policy's `defaultPermission` for the existing connectors,
//! namespaces and service accounts, and the policy's status. The reads go into a pure function ([`plan`]),
//! and its writes are made in their order ([`apply`]).
//!
//! Refuses to know: approvals, requests and the switch. A standing permission is in force whether or not
//! approvals are enabled. Of a policy's checks it reports whether they can be judged ([`checks`]), and never
//! their result. About classes it tells their authors which templates cannot be parsed ([`classes`]).
//!
//! Invariant: a policy never gives a subject a permission that neither the old nor the new state of the
//! cluster gives. A permission is given only on live reads that are at most five seconds old, and every write
//! names the version that was read.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]

pub mod apply;
pub mod args;
pub mod cache;
pub mod checks;
#[cfg(test)]
mod churn;
pub mod classes;
pub mod controller;
pub mod events;
pub mod lead;
pub mod metrics;
pub mod observe;
pub mod parsers;
pub mod plan;
pub mod reconcile;
pub mod seen;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod watches;

use std::{sync::Arc, time::Duration};

use evaluation_api::client::Client as EvaluationClient;
use service_kit::{
    build_info::BuildInfo,
    clock,
    lease::LeaseTerms,
    shell::{Shell, StartError},
    shutdown::ProcessEnd,
    tls::{ClientTls, TlsMetrics},
};

use controller::Settings;
use seen::MostSelected;

pub use args::Args;

/// Shorter than the kubelet waits.
const DRAIN: Duration = Duration::from_secs(20);

/// Runs until the process is to end.
pub async fn run(args: Args) -> Result<ProcessEnd, StartError> {
    let sweep_every = args.sweep_every();
    let Args {
        common,
        identity,
        evaluation,
        evaluation_ca,
        max_selected_subjects,
        sweep_interval: _,
    } = args;
    let mut shell = Shell::begin(common).await?;
    BuildInfo::register(&shell.registry)?.is(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let tls_metrics = TlsMetrics::register(&shell.registry)?;
    let tls = ClientTls::load(evaluation_ca, &["h2"], &tls_metrics)?;
    let evaluator = EvaluationClient::new(evaluation.settings(tls.config())).map_err(
        StartError::because("cannot use the URL of the evaluation service"),
    )?;
    let stop = shell.tasks.stop();
    shell
        .tasks
        .spawn_infallible("evaluation-ca", tls.follow(stop));
    let settings = Settings {
        client: shell.client.clone(),
        validator: Arc::new(evaluator),
        clock: clock::system(),
        namespace: shell.namespace.clone(),
        identity,
        lease: LeaseTerms::default(),
        sweep_every,
        most_selected: MostSelected(max_selected_subjects),
    };
    controller::start(
        settings,
        &shell.registry,
        &mut shell.tasks,
        &shell.readiness,
    )?;
    Ok(shell.run(DRAIN).await)
}
