//! How many looks read the policies of one namespace at the same time.

use std::sync::Arc;

use service_kit::fair::{TenantTurn, TenantTurns};
use tokio::time::{Duration, timeout};

use super::ObserveError;
use crate::{api::POLICY_PAGE, caches::World};

/// No more policies than one page are little text, however long each is.
const FEW: usize = POLICY_PAGE as usize;
/// Lists of more policies of one namespace at the same time.
const AT_ONCE: usize = 2;
/// A look that waits longer is given up and begun again later.
const LIMIT: Duration = Duration::from_secs(8);

/// The turns of namespaces.
pub(super) struct PolicyLists {
    world: Arc<World>,
    turns: TenantTurns<String>,
}

impl PolicyLists {
    pub(super) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            turns: TenantTurns::of(AT_ONCE),
        }
    }

    /// Waits for the namespace's turn to be listed, if it has many policies.
    pub(super) async fn turn(
        &self,
        namespace: &str,
    ) -> Result<Option<TenantTurn<String>>, ObserveError> {
        let count = {
            let state = self.world.read();
            state.policies.count(namespace)
        };
        if count <= FEW {
            return Ok(None);
        }
        let turn = timeout(LIMIT, self.turns.take(namespace.to_owned())).await;
        turn.map(Some)
            .map_err(|_| ObserveError::CrowdedPolicies(namespace.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use service_kit::watches::Unreadable;

    use super::*;
    use crate::{api::Name, caches::PolicyCached, testing::Cluster};

    #[tokio::test(start_paused = true)]
    async fn two_looks_at_a_time_list_the_policies_of_a_namespace_that_has_many() {
        let controller = Cluster::new().controller();
        for (namespace, count) in [("loud", FEW + 1), ("quiet", FEW)] {
            for number in 0..count {
                let cached = PolicyCached {
                    uid: number.to_string(),
                    deleting: false,
                    policy: Err(Unreadable {
                        metadata: ObjectMeta::default(),
                        problem: String::new(),
                    }),
                };
                let name = Name::new(namespace, &number.to_string());
                let _ = controller.world.write().policy(&name, Some(cached));
            }
        }
        let lists = PolicyLists::new(Arc::clone(&controller.world));
        let first = lists.turn("loud").await.unwrap();
        let second = lists.turn("loud").await.unwrap();
        assert!(first.is_some() && second.is_some());
        let third = lists.turn("loud").await;
        assert!(matches!(third, Err(ObserveError::CrowdedPolicies(_))));
        for few in ["quiet", "nobody"] {
            assert!(lists.turn(few).await.unwrap().is_none());
        }
        drop(first);
        assert!(lists.turn("loud").await.unwrap().is_some());
        drop(second);
        assert_eq!(lists.turns.tenants(), 0);
    }
}
