//! Rests after expensive work of one tenant, in proportion to the time that the work took.
//!
//! Owns: the end of each tenant's rest. Refuses to know: the kind of work, and how much of it runs at the
//! same time.
//!
//! Invariant: of all time, one place of a tenant works at most one part in `times + 1`, as long as no work
//! takes longer than the longest rest pays for. A tenant that has rested is forgotten.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The rests of tenants.
#[derive(Debug)]
pub struct TenantRests<K> {
    times: u32,
    longest: Duration,
    until: Mutex<HashMap<K, Instant>>,
}

/// Work of one tenant, until this is dropped.
#[derive(Debug)]
pub struct DearWork<'a, K: Clone + Eq + Hash> {
    rests: &'a TenantRests<K>,
    tenant: K,
    begun: Instant,
}

impl<K: Clone + Eq + Hash> TenantRests<K> {
    /// A tenant rests so many times as long as its work took, and never longer than the limit.
    #[must_use]
    pub fn of(times: u32, longest: Duration) -> Self {
        Self {
            times,
            longest,
            until: Mutex::default(),
        }
    }

    /// Waits until the tenant has rested.
    pub async fn rested(&self, tenant: &K) {
        loop {
            let until = self.lock().get(tenant).copied();
            match until {
                // Other work of the tenant may end during the wait.
                Some(until) if until > Instant::now() => sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    /// Begins work of a tenant.
    pub fn work(&self, tenant: K) -> DearWork<'_, K> {
        DearWork {
            rests: self,
            tenant,
            begun: Instant::now(),
        }
    }

    /// How many tenants are remembered.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        // Entries are put in and taken out whole.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Drop for DearWork<'_, K> {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun);
        let rest = took.saturating_mul(self.rests.times);
        let until = now + rest.min(self.rests.longest);
        let mut all = self.rests.lock();
        all.retain(|_, until| *until > now);
        if until > now {
            let known = all.entry(self.tenant.clone()).or_insert(until);
            *known = until.max(*known);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::{advance, sleep};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    async fn waited(rests: &TenantRests<&'static str>, tenant: &'static str) -> Duration {
        let began = Instant::now();
        rests.rested(&tenant).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_rests_in_proportion_to_its_work_and_others_do_not() {
        let rests = TenantRests::of(8, MINUTE);
        let work = rests.work("loud");
        sleep(seconds(2)).await;
        assert_eq!(
            waited(&rests, "loud").await,
            Duration::ZERO,
            "not before the end"
        );
        drop(work);
        assert_eq!(waited(&rests, "quiet").await, Duration::ZERO);
        assert_eq!(waited(&rests, "loud").await, seconds(16));
        assert_eq!(waited(&rests, "loud").await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_rest_is_longer_than_the_limit() {
        let rests = TenantRests::of(8, seconds(4));
        let work = rests.work("loud");
        sleep(MINUTE).await;
        drop(work);
        assert_eq!(waited(&rests, "loud").await, seconds(4));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_during_a_wait_prolongs_it_and_shorter_work_does_not_end_it() {
        let rests = TenantRests::of(2, MINUTE);
        let [first, second] = [rests.work("loud"), rests.work("loud")];
        sleep(seconds(5)).await;
        drop(first);
        let short = rests.work("loud");
        let wait = async {
            let waited = waited(&rests, "loud").await;
            assert_eq!(waited, seconds(4 + 18));
        };
        let end = async {
            sleep(seconds(4)).await;
            drop(second);
            drop(short);
        };
        tokio::join!(wait, end);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_that_has_rested_is_forgotten_at_the_next_end() {
        let rests = TenantRests::of(8, MINUTE);
        for tenant in ["a", "b", "c"] {
            let work = rests.work(tenant);
            advance(seconds(1)).await;
            drop(work);
        }
        assert_eq!(rests.tenants(), 3);
        // The rest of the last one ends at this moment.
        advance(seconds(8)).await;
        drop(rests.work("d"));
        assert_eq!(rests.tenants(), 0, "work that took no time needs no rest");
    }

    proptest! {
        #[test]
        fn one_place_works_at_most_its_part_of_all_time(works in prop::collection::vec(1_u64..500, 1..40)) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let rests = TenantRests::of(4, MINUTE);
                let began = Instant::now();
                for work in &works {
                    rests.rested(&"loud").await;
                    let _work = rests.work("loud");
                    sleep(Duration::from_millis(*work)).await;
                }
                rests.rested(&"loud").await;
                let worked = Duration::from_millis(works.iter().sum());
                prop_assert!(worked * 5 <= began.elapsed());
                Ok(())
            })?;
        }
    }
}
