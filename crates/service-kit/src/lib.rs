//! The process shell that every service shares: the start of a process, the report of its state, and its end.
//!
//! Owns: arguments and logs, the admin server with health, readiness and metrics, servers, shutdown, the client
//! for the Kubernetes API with its retries, guarded watches and events, the leader lease, TLS files, the validity of
//! certificates, the clock, the deadlines of callers.
//!
//! Refuses to know: the purpose of a service. No type, label or word of the product appears here.
//!
//! Invariant: a step that has not happened yet counts as not done. A process is unready until every part has
//! reported that it caught up, a task that dies ends the process, a lease that was not renewed in time is not
//! held, and an unreadable object is never mistaken for its last readable version.

pub mod admin;
pub mod admission;
pub mod args;
pub mod build_info;
pub mod byte_budget;
pub mod cache;
pub mod certificate;
pub mod chance;
pub mod client;
pub mod clock;
pub mod config_map;
pub mod controller;
pub mod deadline;
pub mod events;
pub mod fair;
pub mod gets;
pub mod json_weight;
pub mod kinds;
pub mod lease;
pub mod lists;
pub mod metrics;
pub mod name;
pub mod process;
pub mod quota;
pub mod readiness;
pub mod retry;
pub mod reviews;
pub mod serve;
pub mod shared_cache;
pub mod shared_reads;
pub mod shell;
pub mod shutdown;
mod spare_room;
pub mod telemetry;
pub mod tenant_rests;
pub mod tls;
mod transport;
pub mod watches;

#[cfg(test)]
mod fake_api;

/// An error with everything that led to it, on one line as logs want it.
#[must_use]
pub fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let line = cause.to_string();
        // Several libraries put the text of the source into their own.
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::report;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the door")]
    struct Door(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot leave: {0}")]
    struct Leave(#[source] Door);

    #[test]
    fn a_report_names_every_cause_once() {
        let error = Leave(Door(io::Error::other("no key")));
        assert_eq!(report(&error), "cannot leave: cannot open the door: no key");
    }
}
