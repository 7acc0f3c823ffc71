//! An outside observer: it compares the API server's audit log with the promises of the product.
//!
//! Owns: reading the log while a scenario runs, and judging it when the scenario is over. Refuses to know:
//! how the services decide; it shares no code with them, only the words on the wire. Invariant: a part that
//! it could not judge is never silent; [`Report::seen`] counts the basis of the judgement, and an unreadable
//! line is a violation by itself.
//!
//! A *grant* is a Role or `RoleBinding` that a controller created, or that any user created with our labels.
//! Dry runs are no writes. An attempt that the API server answered with an error of its own (5xx) may have
//! been carried out, so its content is judged as if it had been. Nothing is judged before the end: the API
//! server logs a call after it has answered it, so a later call can stand earlier in the log.
//!
//! - **I1** ([`Rule::Fresh`]). A grant is written by a controller. Its last status write of the request before
//!   the grant holds a digest and the grant's policy with at least one check; every check's references lie in
//!   the pod's namespace and passed (`match: Any`: one passed). In the five seconds before the grant the same
//!   process read, live (no `resourceVersion`, no `continue`): the pod by name, found; the connector, by name
//!   and found, or by list; the policy, likewise; and the objects of each check's kind, by a list in the pod's
//!   namespace. When it read them, the request, its pod of that UID, the connector, the policy and the check
//!   objects that count were not known to be gone.
//! - **I2** ([`Rule::Revoked`]). From the first of these on, a grant is gone within five seconds that are not
//!   part of a declared outage: the request is deleted or final, its policy is deleted or recorded as ended,
//!   its pod is removed or replaced, or the test says that pod or approval ended. How long it took is reported.
//! - **I3** ([`Rule::Tenants`]). A grant lies in its request's namespace and binds the pod's service account.
//!   When the pod is of another namespace, a body of the grant's policy, in the connector's namespace and in
//!   the log, names requesters that can cover it (selectors are taken to cover), or the test declared that the
//!   installation accepts any.
//! - **I4** ([`Rule::Shape`]). A Role names our API group alone, exactly the requested connector, and for its
//!   permission only resources that end in the request's own pod; a `RoleBinding` binds one service account to
//!   the Role of its own name. Both carry our labels and the request as owner, and no write changes them.
//! - **I5** ([`Rule::Final`]). After a request was rejected or revoked nothing is granted for it, nor for
//!   another of its tuple while it exists; after Invalid, nothing for itself; after a policy was recorded as
//!   ended, nothing of that policy for that request; and no request leaves a final phase. A grant of another
//!   process that is gone within a second is a race that the design allows, and is counted.
//! - **I8** ([`Rule::Secret`]). No line looks as if it held a token.

pub mod canary;

mod event;
mod facts;
mod follow;
mod grant;
mod observer;
mod report;
mod rules;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeSet;

pub use event::AuditEvent;
pub use follow::{Checker, CheckerError};
pub use jiff::{SignedDuration, Timestamp};
pub use observer::Observer;
pub use report::{Report, Revocation, Rule, Seen, Violation};

/// The settings of the observer.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The users that may write grants.
    pub controllers: BTreeSet<String>,
    /// Judge only grants of these namespaces; everything when absent.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether the installation accepts requesters of any namespace where a policy names none.
    pub requesters_any: bool,
    /// How long a grant may outlive its reason while a controller can work.
    pub revoked_within: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controllers: [wire::REQUEST_CONTROLLER.to_owned()].into(),
            namespaces: None,
            requesters_any: false,
            revoked_within: SignedDuration::from_secs(5),
        }
    }
}

impl Settings {
    /// The default, for the grants of one namespace: a scenario beside others.
    #[must_use]
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            namespaces: Some([namespace.to_owned()].into()),
            ..Self::default()
        }
    }
}

/// The time, as the API server on this machine stamps its log.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "a test has no other clock to compare the log with"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
