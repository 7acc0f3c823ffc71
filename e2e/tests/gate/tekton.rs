//! Runs of pipelines by Tekton Pipelines and manual-approval-gate themselves, on a cluster that has both: every honest
//! one is granted after its approval, no forged one is.
//!
//! `cargo xtask test tekton --kubeconfig FILE` runs them, and nothing else does: the tests in `lineage` play both
//! controllers. What they wrote in one such run is kept beside the judge, in `lineage/tests/live` of `connectors-api`.

mod answers;
mod authors;
mod creators;
mod forged;
mod forgeries;
mod live;
mod pipelines;
mod runs;
mod statuses;
