//! Keeps the standing permissions of access policies in force.
//!
//! Owns: the Roles and RoleBindings that say what a policy's `defaultPermission` says of the connectors,
//! namespaces and service accounts that there are, and the policy's status. What was read goes into a pure
//! function ([`plan`]), and the writes that come out of it are made in their order ([`apply`]).
//!
//! Refuses to know: approvals, requests and the switch. A standing permission is held whether or not approvals are
//! enabled. Of a policy's checks it says whether they can be judged ([`checks`]), and never what they say.
//!
//! Invariant: at no time does anybody hold by a policy what neither the old nor the new state of the world
//! gives him. Nothing is given but on live reads that are at most five seconds old, and every write is about
//! the one version that was read.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]

pub mod apply;
pub mod args;
pub mod checks;
pub mod controller;
pub mod error;
pub mod events;
pub mod lead;
pub mod live;
pub mod metrics;
pub mod parsers;
pub mod plan;
pub mod queue;
pub mod reconcile;
pub mod seen;
#[cfg(test)]
mod testing;
pub mod watches;
pub mod world;

use std::{sync::Arc, time::Duration};

use evaluation_api::client::{Client as EvaluationClient, Settings as EvaluationSettings};
use jiff::{Timestamp, Unit};
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

use controller::Settings;

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
        validator: Arc::new(evaluator),
        clock: Arc::new(|| whole_seconds(clock::now())),
        namespace,
        identity,
        lease: LeaseTerms::default(),
        sweep_every,
    };
    controller::start(settings, &registry, &mut tasks, &readiness)?;
    start.ready();
    Ok(tasks.run(signals, &readiness, DRAIN).await)
}

/// As statuses have it; the API server keeps no more.
#[must_use]
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    time.round(Unit::Second).unwrap_or(time)
}
