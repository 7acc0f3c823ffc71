//! A Kubernetes API server in memory, for tests: under a real `kube::Client`, on tokio's clock, with a fault
//! point at every call and every watch event.
//!
//! Owns: the guarantees that the API server gives to a controller (versions, conflicts, watches, garbage
//! collection, RBAC, reviews), and the means to break it. Knows nothing of the code under test. Invariant: it
//! answers as the real server does; [`conformance`] runs one script on both and compares.
//!
//! Not included: schemas of custom kinds (nothing is pruned, defaulted or checked by CEL), admission by
//! policies and webhooks, dry runs (refused), tables and metadata-only answers (objects are always whole),
//! and most validation of the server's own kinds; that of RBAC is complete.
//!
//! ```no_run
//! # async fn example() -> Result<(), kube::Error> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::ListParams};
//! use testkit::{ApiServer, Caller};
//!
//! let server = ApiServer::new(jiff::Timestamp::UNIX_EPOCH);
//! let maps: Api<ConfigMap> = Api::namespaced(server.client(&Caller::admin()), "default");
//! assert!(maps.list(&ListParams::default()).await?.items.is_empty());
//! # Ok(())
//! # }
//! ```
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use this crate, and a test that misuses it should stop where it does"
)]

pub mod conformance;

mod access;
mod apply;
mod caller;
mod clock;
mod create;
mod delete;
mod discovery;
mod dispatch;
mod escalation;
mod event_view;
mod events;
mod faults;
mod fields;
mod garbage;
mod kind;
mod list;
mod listen;
mod meta;
mod owners;
mod patch;
mod record;
mod refusal;
mod request;
mod reviews;
mod rules;
mod selector;
mod serve;
mod server;
mod state;
mod store;
mod update;
mod validity;
mod watch;
mod write;

pub use caller::Caller;
pub use faults::{CallFault, CallPoint, EventFault, EventKind, EventPoint, Faults, NoFaults, Verb};
pub use kind::Kind;
pub use listen::ServedPort;
pub use record::{CallRecord, ChangeKind, ChangeRecord, Entry, SentRecord, What};
pub use reviews::TokenFacts;
pub use server::{ApiServer, Lag};
