//! Quotas: how much all tenants may hold at the same time, and the share of each of them.
//!
//! Owns: the counts, and the order of the calls that wait. Refuses to know: the counted things, and the
//! meaning of a tenant.
//!
//! Invariant: a call that waits for the share of its own tenant holds nothing of the total, so it keeps no
//! other tenant waiting. Tenants without calls are not remembered.

use std::{hash::Hash, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fair::{TenantTurn, TenantTurns};

/// A quota, in units of any kind. Clones count together.
#[derive(Clone, Debug)]
pub struct Quota<K> {
    total: usize,
    of_all: Arc<Semaphore>,
    of_each: TenantTurns<K>,
}

/// Units that a tenant holds until this is dropped.
#[derive(Debug)]
pub struct Permit<K: Clone + Eq + Hash> {
    _of_each: TenantTurn<K>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The share of the tenant.
    Share,
    /// The total.
    Total,
}

impl<K: Clone + Eq + Hash> Quota<K> {
    /// A total, and the share of each tenant.
    #[must_use]
    pub fn new(total: usize, share: usize) -> Self {
        Self {
            total,
            of_all: Arc::new(Semaphore::new(total)),
            of_each: TenantTurns::of(share),
        }
    }

    /// A share of each tenant, however many tenants there are.
    #[must_use]
    pub fn per_tenant(share: usize) -> Self {
        Self::new(Semaphore::MAX_PERMITS, share)
    }

    /// Takes units, or nothing.
    pub fn try_take(&self, tenant: K, units: u32) -> Result<Permit<K>, Exceeded> {
        let of_each = self.of_each.try_take(tenant, units);
        let of_each = of_each.ok_or(Exceeded::Share)?;
        let of_all = Arc::clone(&self.of_all).try_acquire_many_owned(units);
        of_all.map_err(|_| Exceeded::Total).map(|of_all| Permit {
            _of_each: of_each,
            _of_all: Some(of_all),
        })
    }

    /// Waits for units. More than the share of a tenant never come.
    pub async fn take(&self, tenant: K, units: u32) -> Permit<K> {
        self.take_or_tell(tenant, units, || {}).await
    }

    /// The same; calls `over_share` if the tenant has to wait for its own share.
    pub async fn take_or_tell(
        &self,
        tenant: K,
        units: u32,
        over_share: impl FnOnce(),
    ) -> Permit<K> {
        let of_each = if let Some(of_each) = self.of_each.try_take(tenant.clone(), units) {
            of_each
        } else {
            over_share();
            self.of_each.take_many(tenant, units).await
        };
        // The semaphore is never closed.
        let of_all = Arc::clone(&self.of_all).acquire_many_owned(units).await;
        Permit {
            _of_each: of_each,
            _of_all: of_all.ok(),
        }
    }

    /// How many units are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.total - self.of_all.available_permits()
    }

    /// How many tenants hold something or wait.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.of_each.tenants()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_his_own_share_takes_nothing_from_others() {
        let quota = Quota::new(9, 1);
        let first = quota.take("a", 1).await;
        let mut is_told = false;
        let mut second = Box::pin(quota.take_or_tell("a", 1, || is_told = true));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!((quota.held(), quota.tenants()), (1, 1));
        let other = quota.take("b", 1).now_or_never();
        assert!(other.is_some());
        drop(first);
        let second = second.await;
        assert!(is_told);
        drop((second, other));
        assert_eq!((quota.held(), quota.tenants()), (0, 0));
    }

    #[tokio::test]
    async fn a_refusal_names_its_limit_and_takes_nothing() {
        let quota = Quota::new(4, 3);
        let three = quota.try_take("a", 3).unwrap();
        assert_eq!(quota.try_take("a", 1).unwrap_err(), Exceeded::Share);
        assert_eq!(quota.try_take("b", 2).unwrap_err(), Exceeded::Total);
        assert_eq!((quota.held(), quota.tenants()), (3, 1));
        let mut waits = Box::pin(quota.take("b", 2));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(three);
        assert!(waits.now_or_never().is_some());
        assert_eq!((quota.held(), quota.tenants()), (0, 0));
        let many = Quota::per_tenant(2);
        assert!((0..100).all(|tenant| many.try_take(tenant, 2).is_ok()));
    }
}
