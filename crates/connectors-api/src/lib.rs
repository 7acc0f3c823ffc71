//! The API of Connectors Approval: the group `connectors.alauda.io` in version `v1alpha1`.
//!
//! Owns the four kinds and every rule that can be checked on one object alone: as types, as schema with CEL
//! (`crd`), and as parsed forms that need no further validation (`SubjectForm`, `AccessResource`,
//! `PositiveDuration`). Owns the words that more than one process uses: reasons, condition types, labels,
//! names. Owns the evaluation of a policy on objects that the caller has read: templates, states, Rego
//! (behind the feature `rego`), and the combined verdict.
//!
//! Knows nothing of clusters, clocks, sockets and other objects: nothing here reads or writes.
//!
//! Invariant: the types parse what the schema accepts, except undeclared fields and `null`s. The schema keeps
//! those under `spec` and the types refuse them ([`parse`]), because a silently dropped field would widen
//! access.

#![allow(
    clippy::doc_markdown,
    reason = "doc comments become field descriptions, in which the kinds of Kubernetes are plain words"
)]

pub mod access_policy;
pub mod access_request;
pub mod access_resource;
pub mod approval_kind;
pub mod approver_record;
pub mod check_selector;
pub mod check_state;
pub mod check_verdict;
pub mod class_reason;
pub mod conditions;
pub mod config;
pub mod connector;
pub mod connector_class;
pub mod context_view;
pub mod crd;
pub mod duration;
pub mod field_selector;
pub mod foreign;
pub mod hex;
pub mod judge;
pub mod labels;
pub mod lineage;
pub mod names;
pub mod namespace_keys;
pub mod needed_fields;
pub mod object_ref;
pub mod opaque;
pub mod parse;
pub mod permission;
pub mod pod_grant;
pub mod pod_wish;
pub mod policy_match;
pub mod policy_order;
pub mod policy_reason;
pub mod policy_words;
pub mod quoted;
pub mod reason;
#[cfg(feature = "rego")]
pub mod rego;
pub mod request_creation;
pub mod request_name;
pub mod request_order;
pub mod selector;
pub mod shared_fields;
pub mod standing;
pub mod template;
pub mod validate;
pub mod wanted_objects;

mod cel;
mod field;
mod optional;
mod schema;
#[cfg(test)]
mod testing;
mod words;

pub use access_policy::{AccessPolicy, AccessPolicySpec, AccessPolicyStatus};
pub use access_request::{AccessRequest, AccessRequestSpec, AccessRequestStatus};
pub use access_resource::AccessResource;
pub use conditions::{AccessPolicyCondition, AccessRequestCondition, Condition, ConditionStatus};
pub use connector::{Connector, ConnectorSpec};
pub use connector_class::{ConnectorClass, ConnectorClassSpec};
pub use duration::PositiveDuration;
pub use hex::hex;
pub use namespace_keys::NamespaceKeys;
pub use permission::Permission;
pub use pod_wish::{ConnectorKey, PodIdentity};
pub use quoted::{quoted, shortened};
pub use selector::LabelSelector;
