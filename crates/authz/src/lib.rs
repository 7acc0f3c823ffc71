//! The access decision model, and an RBAC authorizer that answers from an index.
//!
//! Owns the question ([`Attributes`]), the answer ([`Verdict`]), the authorizer traits ([`Authorizer`],
//! [`RuleResolver`]), the ordered [`Union`], and [`RbacIndex`]: Kubernetes' RBAC, kept up to date object by
//! object. A service holds a [`Chain`]: the index and all other authorizers, in order, with the evidence of each answer.
//!
//! Knows nothing of clusters, connectors, clocks and sockets: callers bring the objects and share the index
//! between threads as they see fit.
//!
//! Invariant: [`RbacIndex`] gives the same answers as the RBAC authorizer of a Kubernetes API server with the
//! same objects, in whatever order the objects arrived. An object that cannot be indexed grants nothing.

pub mod attributes;
pub mod authorizer;
pub mod chain;
pub mod masters;
pub mod rbac;
pub mod rules;

mod hash;
mod pieces;
mod pool;
mod slab;

pub use attributes::{Attributes, Authenticated, ResourceRequest, Target, User};
pub use authorizer::{Authorizer, AuthorizerDecision, Learning, Union, Verdict};
pub use chain::{Chain, ChainAnswer, ChainLink, Opinion};
pub use masters::SystemMasters;
pub use rbac::{
    AllowedBy, AllowedSubjects, Binding, BoundRole, IndexError, Listing, RbacIndex, RbacObject,
    Subject,
};
pub use rules::{NonResourceRule, ResolveError, ResourceRule, RuleResolver, UserRules};
