//! Quotas of which each client address has a share.
//!
//! Every client that reaches the port can call. An API server is one address, or several API servers are behind one. A
//! call above the share of its address waits for earlier calls of that address, and calls of other addresses do not
//! wait with it.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use service_kit::quota::{Permit, Quota};
use tokio::time::Instant;
use tracing::warn;

use crate::metrics::{Limit, PeerMetrics};

/// The log repeats itself after this. The metric counts.
const TOLD_AGAIN: Duration = Duration::from_mins(10);

/// Counts and logs each time that an address reaches its share. Clones log together.
#[derive(Clone, Debug)]
pub(crate) struct PeerLimits {
    metrics: PeerMetrics,
    told: Arc<Mutex<[Option<Instant>; Limit::ALL.len()]>>,
}

impl PeerLimits {
    pub(crate) fn new(metrics: PeerMetrics) -> Self {
        Self {
            metrics,
            told: Arc::default(),
        }
    }

    /// A quota of which each address has a share.
    pub(crate) fn quota(&self, limit: Limit, quota: Quota<IpAddr>) -> PeerQuota {
        PeerQuota {
            quota,
            limit,
            limits: self.clone(),
        }
    }

    /// An address has reached its share and asks for more.
    pub(crate) fn reached(&self, limit: Limit, peer: IpAddr) {
        self.metrics.reached(limit);
        if self.is_news(limit) {
            warn!(
                %peer,
                limit = limit.word(),
                "an address has its share of what all callers share; more from there waits or is sent away"
            );
        }
    }

    fn is_news(&self, limit: Limit) -> bool {
        // A moment is never half written.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = told.get_mut(limit as usize) else {
            return false;
        };
        let now = Instant::now();
        let is_news = last.is_none_or(|at| now.duration_since(at) >= TOLD_AGAIN);
        if is_news {
            *last = Some(now);
        }
        is_news
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let metrics = crate::metrics::Metrics::register(&prometheus::Registry::new());
        Self::new(metrics.unwrap().peers)
    }

    #[cfg(test)]
    pub(crate) fn all_counted(&self) -> u64 {
        Limit::ALL.into_iter().map(|it| self.counted(it)).sum()
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, limit: Limit) -> u64 {
        self.metrics.counted(limit)
    }
}

/// How much of one thing is held at a time, by all and by each address. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct PeerQuota {
    quota: Quota<IpAddr>,
    limit: Limit,
    limits: PeerLimits,
}

impl PeerQuota {
    /// Waits until there is enough left. The caller limits the time.
    pub(crate) async fn take(&self, peer: IpAddr, units: u32) -> Permit<IpAddr> {
        let over_share = || self.limits.reached(self.limit, peer);
        self.quota.take_or_tell(peer, units, over_share).await
    }

    /// How many units are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.quota.held()
    }

    /// How many addresses hold or wait for something.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> usize {
        self.quota.tenants()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;

    use super::*;

    const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test]
    async fn an_address_over_its_share_waits_and_is_counted() {
        let limits = PeerLimits::for_tests();
        let share = limits.quota(Limit::Rego, Quota::per_tenant(2));
        let both = share.take(GREEDY, 2).await;
        assert_eq!(limits.counted(Limit::Rego), 0);
        let mut more = Box::pin(share.take(GREEDY, 1));
        assert!(more.as_mut().now_or_never().is_none());
        assert_eq!(limits.counted(Limit::Rego), 1);
        let other = share.take(OTHER, 1).await;
        drop(both);
        let more = more.await;
        assert_eq!((limits.counted(Limit::Rego), share.peers()), (1, 2));
        drop((more, other));
        assert_eq!(share.peers(), 0, "nothing is kept of who holds nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_says_it_once_and_again_after_a_while() {
        let limits = PeerLimits::for_tests();
        for limit in Limit::ALL {
            assert!(limits.is_news(limit), "{limit:?}");
            assert!(!limits.is_news(limit) && !limits.clone().is_news(limit));
        }
        tokio::time::advance(TOLD_AGAIN).await;
        assert!(limits.is_news(Limit::Memory) && !limits.is_news(Limit::Memory));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_has_its_share_without_pause_is_told_of_in_each_period() {
        let limits = PeerLimits::for_tests();
        let mut told = 0;
        let step = TOLD_AGAIN / 100;
        for _ in 0..10 * 100 {
            told += u32::from(limits.is_news(Limit::Rego));
            tokio::time::advance(step).await;
        }
        assert_eq!(told, 10);
    }
}
