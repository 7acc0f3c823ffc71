//! The whole system on the real node: a pod waits at its mount, an approval lets it in, its end takes
//! the access back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod approvals;
mod certificates;
mod checks;
mod clients;
mod creators;
mod endings;
mod files;
mod hostile;
mod howtos;
mod kills;
mod latency;
mod limits;
mod lineage;
mod matching;
mod monitoring;
mod namespaces;
mod outages;
mod plugin;
mod policies;
mod requests;
mod restarts;
mod reviews;
mod roles;
mod scheduling;
mod slow_etcd;
mod standing;
mod support;
mod switch;
mod tekton;
mod tokens;
mod volumes;
mod workloads;
