//! The limit of access requests that the pods of this node may cause: at most `MOST_OF_A_POD` for a pod, over all its
//! volumes and calls.
//!
//! A wait without a request counts too. The count is lost at a restart; the webhook has its own.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::{ConnectorKey, Permission, access_request::MOST_OF_A_POD};
use tokio::time::Instant;

use crate::hold_quota::HoldQuotaFull;

/// The limit of remembered pods. The kubelet runs some hundreds.
const MOST_PODS: usize = 4096;
/// While a pod waits, the kubelet calls again after two minutes at the latest.
const IDLE: Duration = Duration::from_mins(30);

/// The requests of pods that wait, or waited lately.
#[derive(Debug, Default)]
pub(crate) struct RequestQuota(Mutex<HashMap<String, OfPod>>);

#[derive(Debug)]
struct OfPod {
    requests: HashSet<(ConnectorKey, Permission)>,
    last: Instant,
}

impl RequestQuota {
    /// Counts a request of a pod before it is made, or would be made. A counted request may be made again.
    pub(crate) fn count(
        &self,
        pod_uid: &str,
        connector: &ConnectorKey,
        permission: Permission,
    ) -> Result<(), HoldQuotaFull> {
        let now = Instant::now();
        let mut pods = self.pods();
        if !pods.contains_key(pod_uid) {
            make_room(&mut pods, now);
        }
        let pod = pods.entry(pod_uid.to_owned()).or_insert_with(|| OfPod {
            requests: HashSet::new(),
            last: now,
        });
        pod.last = now;
        let request = (connector.clone(), permission);
        if !pod.requests.contains(&request) && pod.requests.len() >= MOST_OF_A_POD {
            return Err(HoldQuotaFull::Requests);
        }
        pod.requests.insert(request);
        Ok(())
    }

    /// A volume of the pod is removed: the pod ends, and asks for nothing more.
    pub(crate) fn forget(&self, pod_uid: &str) {
        self.pods().remove(pod_uid);
    }

    /// How many pods are remembered.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.pods().len()
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, OfPod>> {
        // A panic elsewhere leaves the map whole, because only single calls change it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets pods that have not asked for a long time. If that is not enough, forgets the one that asked longest ago.
fn make_room(pods: &mut HashMap<String, OfPod>, now: Instant) {
    pods.retain(|_, pod| now.duration_since(pod.last) < IDLE);
    if pods.len() >= MOST_PODS {
        let oldest = pods.iter().min_by_key(|(_, pod)| pod.last);
        if let Some(uid) = oldest.map(|(uid, _)| uid.clone()) {
            pods.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::testing::key;

    fn connector(number: usize) -> ConnectorKey {
        key(&format!("tools/c{number}"))
    }

    fn full(asked: &RequestQuota, pod: &str) -> usize {
        (0..100)
            .take_while(|number| {
                let connector = connector(*number);
                asked.count(pod, &connector, Permission::Apis).is_ok()
            })
            .count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_asks_for_its_share_and_for_that_as_often_as_it_likes() {
        let asked = RequestQuota::default();
        assert_eq!(full(&asked, "greedy"), MOST_OF_A_POD);
        let again = asked.count("greedy", &connector(0), Permission::Apis);
        assert_eq!(again, Ok(()));
        let other_permission = asked.count("greedy", &connector(0), Permission::Proxy);
        assert_eq!(other_permission, Err(HoldQuotaFull::Requests));
        assert_eq!(full(&asked, "other"), MOST_OF_A_POD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_forgotten_when_its_volumes_go_or_when_it_is_idle_for_long() {
        let asked = RequestQuota::default();
        full(&asked, "unpublished");
        full(&asked, "idle");
        full(&asked, "waiting");
        asked.forget("unpublished");
        asked.forget("unknown");
        advance(IDLE.saturating_sub(Duration::from_secs(1))).await;
        assert!(
            asked
                .count("waiting", &connector(99), Permission::Apis)
                .is_err()
        );
        advance(Duration::from_secs(1)).await;
        asked.count("new", &connector(0), Permission::Apis).unwrap();
        let mut known: Vec<_> = asked.pods().keys().cloned().collect();
        known.sort();
        assert_eq!(known, ["new", "waiting"]);
    }

    /// The kubelet's longest pause, for ten lifetimes of what is remembered, while other pods come and go.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_asks_without_pause_has_its_share_once_however_long_that_is() {
        let asked = RequestQuota::default();
        assert_eq!(full(&asked, "greedy"), MOST_OF_A_POD);
        for round in 0..150 {
            advance(Duration::from_mins(2)).await;
            let other = format!("pod-{round}");
            asked
                .count(&other, &connector(0), Permission::Apis)
                .unwrap();
            let again = asked.count(
                "greedy",
                &connector(round % MOST_OF_A_POD),
                Permission::Apis,
            );
            assert_eq!(again, Ok(()), "{round}");
            let more = asked.count("greedy", &connector(99), Permission::Apis);
            assert_eq!(more, Err(HoldQuotaFull::Requests), "{round}");
        }
        // The pods that asked once are gone.
        assert!(asked.census() <= 17, "{}", asked.census());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_only_alike_is_counted_apart() {
        let asked = RequestQuota::default();
        for pod in ["uid-1", "uid-10", "UID-1"] {
            assert_eq!(full(&asked, pod), MOST_OF_A_POD, "{pod}");
        }
        asked.forget("uid-1");
        for pod in ["uid-10", "UID-1"] {
            let more = asked.count(pod, &connector(99), Permission::Apis);
            assert_eq!(more, Err(HoldQuotaFull::Requests), "{pod}");
        }
        // The same name in another namespace is another connector.
        for namespace in ["tools", "tools-2"] {
            let key = key(&format!("{namespace}/harbor"));
            asked.count("uid-1", &key, Permission::Apis).unwrap();
        }
        assert_eq!(asked.pods()["uid-1"].requests.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_has_an_end() {
        let asked = RequestQuota::default();
        for pod in 0..MOST_PODS {
            let pod = pod.to_string();
            asked.count(&pod, &connector(0), Permission::Apis).unwrap();
            advance(Duration::from_millis(1)).await;
        }
        asked.count("0", &connector(1), Permission::Apis).unwrap();
        asked
            .count("one more", &connector(0), Permission::Apis)
            .unwrap();
        let pods = asked.pods();
        assert_eq!(pods.len(), MOST_PODS);
        assert!(pods.contains_key("0") && !pods.contains_key("1"));
    }
}
