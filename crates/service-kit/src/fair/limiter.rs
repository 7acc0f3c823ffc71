//! A limit of concurrent calls in which waiting tenants take turns.

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::{FairLine, TenantShares};

/// Calls that all tenants together, and each of them, may have open at the same time. A call that becomes possible is
/// that of the next tenant. Clones count together.
#[derive(Debug)]
pub struct FairLimiter<K>(Arc<Mutex<LimiterState<K>>>);

#[derive(Debug)]
struct LimiterState<K> {
    free: usize,
    open: TenantShares<K>,
    waiting: FairLine<K, WaitingCall>,
    next_number: u64,
}

#[derive(Debug)]
struct WaitingCall {
    number: u64,
    begin: oneshot::Sender<()>,
}

/// One open or waiting call, until this is dropped.
#[derive(Debug)]
pub struct FairPermit<K: Clone + Eq + Hash> {
    limiter: FairLimiter<K>,
    tenant: K,
    number: u64,
    begin: oneshot::Receiver<()>,
    is_open: bool,
}

impl<K> Clone for FairLimiter<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> FairLimiter<K> {
    /// The limit of all calls, and of each tenant's calls; at least one.
    #[must_use]
    pub fn new(most: usize, share: usize) -> Self {
        Self(Arc::new(Mutex::new(LimiterState {
            free: most.max(1),
            open: TenantShares::of(share),
            waiting: FairLine::default(),
            next_number: 0,
        })))
    }

    /// Waits for the tenant's turn.
    pub async fn take(&self, tenant: K) -> FairPermit<K> {
        let mut permit = self.wait(tenant);
        // The sender stays in line until it is used.
        permit.is_open = (&mut permit.begin).await.is_ok();
        permit
    }

    fn wait(&self, tenant: K) -> FairPermit<K> {
        let (begin, begins) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        let call = WaitingCall { number, begin };
        state.waiting.push(tenant.clone(), call);
        state.begin_next();
        FairPermit {
            limiter: self.clone(),
            tenant,
            number,
            begin: begins,
            is_open: false,
        }
    }

    /// How many tenants have open calls.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.lock().open.tenants()
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState<K>> {
        // Calls are put in and taken out whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> LimiterState<K> {
    /// Begins the calls that are possible now.
    fn begin_next(&mut self) {
        while self.free > 0 {
            let Some((tenant, call)) = self.waiting.pop(|it| self.open.has_room(it)) else {
                return;
            };
            self.free -= 1;
            self.open.take(tenant);
            // The receiver is there: its call leaves the line before it is dropped.
            let _begun = call.begin.send(());
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for FairPermit<K> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        // A call may begin at the moment at which it stops waiting.
        if self.is_open || self.begin.try_recv().is_ok() {
            state.free += 1;
            state.open.give_back(&self.tenant);
        } else {
            let number = self.number;
            state
                .waiting
                .remove(&self.tenant, |call| call.number == number);
        }
        state.begin_next();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::{FutureExt, future::BoxFuture};
    use proptest::prelude::*;

    use super::*;

    type Limiter = FairLimiter<&'static str>;
    type Waiting = Pin<Box<dyn Future<Output = FairPermit<&'static str>> + Send>>;

    /// A call that waits in line.
    fn waits(limiter: &Limiter, tenant: &'static str) -> Waiting {
        let limiter = limiter.clone();
        let mut call: BoxFuture<'static, _> = async move { limiter.take(tenant).await }.boxed();
        assert!(call.as_mut().now_or_never().is_none(), "{tenant} waits");
        call
    }

    fn begins(call: &mut Waiting) -> Option<FairPermit<&'static str>> {
        call.as_mut().now_or_never()
    }

    fn is_unused(limiter: &Limiter, most: usize) -> bool {
        let state = limiter.lock();
        state.free == most && state.open.tenants() == 0 && state.waiting.is_empty()
    }

    #[tokio::test]
    async fn a_tenant_with_few_calls_waits_for_one_turn_of_each_other() {
        let limiter = FairLimiter::new(1, 1);
        let open = limiter.take("loud").await;
        let mut loud: Vec<_> = (0..5).map(|_| waits(&limiter, "loud")).collect();
        let mut quiet = waits(&limiter, "quiet");
        drop(open);
        let first = begins(&mut loud[0]).unwrap();
        assert!(begins(&mut quiet).is_none());
        drop(first);
        let quiet = begins(&mut quiet).unwrap();
        assert!(loud[1..].iter_mut().all(|it| begins(it).is_none()));
        drop((quiet, loud));
        assert!(is_unused(&limiter, 1));
    }

    #[tokio::test]
    async fn no_tenant_takes_more_than_its_share() {
        let limiter = FairLimiter::new(3, 2);
        let open = [limiter.take("loud").await, limiter.take("loud").await];
        let mut third = waits(&limiter, "loud");
        let other = limiter.take("quiet").await;
        let mut another = waits(&limiter, "another");
        drop(other);
        assert!(begins(&mut third).is_none());
        let another = begins(&mut another).unwrap();
        drop(open);
        let third = begins(&mut third).unwrap();
        assert_eq!(limiter.tenants(), 2);
        drop((third, another));
        assert!(is_unused(&limiter, 3));
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_the_line() {
        let limiter = FairLimiter::new(1, 1);
        let open = limiter.take("a").await;
        let gone = waits(&limiter, "b");
        let mut next = waits(&limiter, "c");
        drop(gone);
        drop(open);
        drop(begins(&mut next).unwrap());
        assert!(is_unused(&limiter, 1));
    }

    #[tokio::test]
    async fn a_call_that_stops_at_its_beginning_gives_its_turn_back() {
        let limiter = FairLimiter::new(1, 1);
        let open = limiter.take("a").await;
        let begun = waits(&limiter, "b");
        let mut next = waits(&limiter, "c");
        drop(open);
        // It has its turn, and was not polled since.
        assert!(begins(&mut next).is_none());
        drop(begun);
        drop(begins(&mut next).unwrap());
        assert!(is_unused(&limiter, 1));
    }

    #[tokio::test]
    async fn a_limit_of_nothing_is_a_limit_of_one() {
        let limiter = FairLimiter::new(0, 0);
        drop(limiter.take("a").await);
        assert!(is_unused(&limiter, 1));
    }

    proptest! {
        /// Whatever begins, ends and stops waiting, no turn is lost and none is had twice.
        #[test]
        fn all_turns_are_free_in_the_end(steps in prop::collection::vec((0_usize..3, 0_usize..8), 1..80)) {
            const TENANTS: [&str; 3] = ["a", "b", "c"];
            let limiter = FairLimiter::new(3, 2);
            let mut waiting: Vec<Waiting> = Vec::new();
            let mut open = Vec::new();
            for (tenant, choice) in steps {
                match choice {
                    0..4 => {
                        let limiter = limiter.clone();
                        let mut call: Waiting = async move { limiter.take(TENANTS[tenant]).await }.boxed();
                        match begins(&mut call) {
                            Some(permit) => open.push(permit),
                            None => waiting.push(call),
                        }
                    }
                    4..6 => drop(open.drain(..open.len().min(1))),
                    // It may have its turn by now, and has not noticed.
                    6 => drop(waiting.drain(..waiting.len().min(1))),
                    _ => waiting.retain_mut(|call| begins(call).map(|it| open.push(it)).is_none()),
                }
                prop_assert!(open.len() <= 3);
                for tenant in TENANTS {
                    let of_tenant = open.iter().filter(|it| it.tenant == tenant).count();
                    prop_assert!(of_tenant <= 2);
                }
            }
            drop((waiting, open));
            prop_assert!(is_unused(&limiter, 3));
        }
    }
}
