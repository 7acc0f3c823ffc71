//! The rights of callers that the own index shows. A yes of RBAC needs no review, and ends with its binding.

use std::sync::Arc;
use std::time::Duration;

use authz::{Attributes, Authenticated, Chain, ChainAnswer, ResourceRequest, Target, User};
use connectors_api::names::GROUP;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;

use super::KnownUser;
use super::right::{EVALUATIONS, Right, VERB};
use crate::world::Shared;

/// Reads rights from the index.
pub struct IndexedRights {
    shared: Arc<Shared>,
    max_staleness: Duration,
}

impl IndexedRights {
    /// Of this world, while it is no older.
    #[must_use]
    pub const fn new(shared: Arc<Shared>, max_staleness: Duration) -> Self {
        Self {
            shared,
            max_staleness,
        }
    }

    /// Of a world of which nothing is known.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::new(Arc::default(), Duration::ZERO)
    }

    /// Whether a user is known to have a right, or one that includes it. A no says nothing: the API server may have other
    /// authorizers.
    pub(super) fn has(
        &self,
        user: &KnownUser,
        right: Right,
        namespace: &str,
        now: Timestamp,
    ) -> bool {
        let world = self.shared.read();
        if world.fresh_for(now, self.max_staleness).is_err() {
            return false;
        }
        let mut enough = right.enough().iter();
        enough.any(|right| may(&world.chain, user, *right, namespace))
    }
}

fn may(chain: &Chain, user: &KnownUser, right: Right, namespace: &str) -> bool {
    let attributes = Attributes {
        user,
        verb: VERB,
        target: Target::Resource(ResourceRequest {
            group: GROUP,
            resource: EVALUATIONS,
            subresource: right.subresource().unwrap_or_default(),
            namespace,
            ..ResourceRequest::default()
        }),
    };
    // An authorizer that has to ask elsewhere may refuse then.
    if !chain.learn(&attributes).is_empty() {
        return false;
    }
    let answer = chain.answer(&attributes, |rbac| {
        let mut allowing = rbac.allowing(&attributes);
        allowing.next().is_some().then_some(())
    });
    matches!(
        answer,
        ChainAnswer::AllowedByRbac(()) | ChainAnswer::Allowed(_)
    )
}

/// A caller as authorizers see it.
impl Authenticated for KnownUser {
    fn as_user(&self) -> &User {
        &self.user
    }

    fn info(&self) -> UserInfo {
        self.info.clone()
    }
}

#[cfg(test)]
mod tests;
