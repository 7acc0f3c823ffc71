//! The turns for listing the policies of one namespace, if it has many.

use std::sync::Arc;

use tokio::time::{Duration, timeout};

use super::{
    ObserveError,
    list_turns::{ListTurn, ListTurns, Pause},
};
use crate::{api::POLICY_PAGE, cache::World};

/// Up to one page of policies needs no turn: it is little text, however long each policy is.
const FEW: usize = POLICY_PAGE as usize;
/// A reconciliation that waits longer fails, and is repeated later.
const LIMIT: Duration = Duration::from_secs(8);

/// The turns of namespaces.
pub(super) struct PolicyLists {
    world: Arc<World>,
    turns: ListTurns,
}

impl PolicyLists {
    pub(super) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            turns: ListTurns::default(),
        }
    }

    /// Waits for the namespace's turn if it has many policies.
    pub(super) async fn turn(
        &self,
        namespace: &str,
        pause: Pause,
    ) -> Result<Option<ListTurn<'_>>, ObserveError> {
        let count = {
            let state = self.world.read();
            state.policies.count(namespace)
        };
        if count <= FEW {
            return Ok(None);
        }
        let turn = timeout(LIMIT, self.turns.take(namespace, pause)).await;
        turn.map(Some)
            .map_err(|_| ObserveError::CrowdedPolicies(namespace.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use connectors_api::AccessRequest;
    use futures::future::join_all;
    use http::{Request, Response};
    use kube::{Client, api::ObjectMeta, client::Body};
    use serde_json::json;
    use service_kit::{
        retry::{Backoff, RetryPolicy},
        watches::Unreadable,
    };
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{
        api::{Live, Name},
        cache::PolicyCached,
        observe::{Via, list_turns::AT_ONCE},
        testing::Cluster,
    };

    const ONCE: RetryPolicy = RetryPolicy {
        attempts: 1,
        attempt: Duration::from_secs(3),
        total: Duration::from_secs(3),
        pauses: Backoff::new(Duration::from_millis(1), Duration::from_millis(2)),
    };

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
        let first = lists.turn("loud", Pause::None).await.unwrap();
        let second = lists.turn("loud", Pause::None).await.unwrap();
        assert!(first.is_some() && second.is_some());
        let third = lists.turn("loud", Pause::None).await;
        assert!(matches!(third, Err(ObserveError::CrowdedPolicies(_))));
        for few in ["quiet", "nobody"] {
            assert!(lists.turn(few, Pause::None).await.unwrap().is_none());
        }
        drop(first);
        assert!(lists.turn("loud", Pause::None).await.unwrap().is_some());
        drop(second);
        assert_eq!(lists.turns.tenants(), 0);
    }

    /// The number of open lists, and their maximum.
    #[derive(Default)]
    struct Reading {
        now: AtomicUsize,
        most: AtomicUsize,
        ended: AtomicUsize,
    }

    /// A fake API server that answers lists of policies slowly.
    fn slow(reading: &Arc<Reading>) -> Client {
        let reading = Arc::clone(reading);
        let service = tower::service_fn(move |_: Request<Body>| {
            let reading = Arc::clone(&reading);
            async move {
                let now = reading.now.fetch_add(1, Ordering::SeqCst) + 1;
                reading.most.fetch_max(now, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                reading.now.fetch_sub(1, Ordering::SeqCst);
                reading.ended.fetch_add(1, Ordering::SeqCst);
                let page = json!({"metadata": {}, "items": []});
                let page = Body::from(page.to_string().into_bytes());
                Ok::<_, Infallible>(Response::new(page))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_may_have_to_be_revoked_waits_for_no_rest() {
        let cluster = Cluster::new();
        let mut controller = cluster.controller();
        cluster.crowd_policies(&controller);
        controller.observer.live = Live::new(slow(&Arc::default()), ONCE);
        let observer = &controller.observer;
        let seconds = async |status: serde_json::Value| {
            let mut request = cluster.server.named("accessrequests", "request").unwrap();
            request["status"] = status;
            let request: AccessRequest = serde_json::from_value(request).unwrap();
            let begun = Instant::now();
            let read = observer.policies(&request, Via::Caches, false).await;
            read.ok().map(|_| begun.elapsed().as_secs())
        };
        let waits = json!({"phase": "Pending"});
        let granted = json!({"phase": "Granted", "grantedAt": "2026-03-01T10:00:00Z"});
        assert_eq!(seconds(waits.clone()).await, Some(1), "the first list");
        assert_eq!(seconds(granted).await, Some(1));
        assert_ne!(seconds(waits).await, Some(1), "its namespace rests");
    }

    /// A turn lasts until the list is read, and ends when the reconciliation is cancelled meanwhile.
    #[tokio::test(start_paused = true)]
    async fn no_more_than_two_lists_of_many_policies_are_read_at_a_time_whoever_gives_up() {
        for (count, most) in [(FEW, 4), (FEW + 1, AT_ONCE)] {
            let cluster = Cluster::new();
            let mut controller = cluster.controller();
            for number in 0..count - 1 {
                let cached = PolicyCached {
                    uid: number.to_string(),
                    deleting: false,
                    policy: Err(Unreadable {
                        metadata: ObjectMeta::default(),
                        problem: String::new(),
                    }),
                };
                let name = Name::new("tools", &number.to_string());
                let _ = controller.world.write().policy(&name, Some(cached));
            }
            let reading = Arc::new(Reading::default());
            controller.observer.live = Live::new(slow(&reading), ONCE);
            let request = cluster.server.named("accessrequests", "request").unwrap();
            let request: AccessRequest = serde_json::from_value(request).unwrap();
            let observer = &controller.observer;
            let look = || observer.policies(&request, Via::Api, false);
            let all = join_all((0..4).map(|_| look())).await;
            assert!(all.iter().all(Result::is_ok));
            assert_eq!(
                reading.most.load(Ordering::SeqCst),
                most,
                "{count} policies"
            );
            // Cancelled while it waits for its turn, and while it reads.
            for given_up_after in [0, 500, 1500] {
                let limit = Duration::from_millis(given_up_after);
                let _ = timeout(limit, join_all((0..4).map(|_| look()))).await;
                assert_eq!(observer.policy_lists.turns.tenants(), 0);
            }
            let begun = Instant::now();
            look().await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), 1, "nobody has a turn any more");
        }
    }
}
