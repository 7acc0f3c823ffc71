//! Runs of pipelines by Tekton Pipelines and manual-approval-gate themselves, on a cluster that has both:
//! every honest one is granted after its approval, no forged one is.
//!
//! Only `cargo xtask test tekton --kubeconfig FILE` runs them: the tests in `lineage` play both controllers.
//! The objects of one such run are kept beside the judge, in `lineage/tests/live` of `connectors-api`.

mod answers;
mod asked;
mod authors;
mod creators;
mod forged;
mod forgeries;
mod live;
mod pipelines;
mod runs;
mod statuses;
