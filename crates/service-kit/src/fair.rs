//! Fair queues and limits: tenants take turns, and no tenant holds more than its share.
//!
//! Owns: the order of waiting items, and the count of running ones, for the queues of controllers and of
//! servers. Refuses to know: the meaning of a tenant and of an item.
//!
//! Invariant: the items of one tenant delay another by at most one turn of each tenant, however many they are.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

mod limiter;

pub use limiter::{FairLimiter, FairPermit};

/// A queue in which each tenant has a queue of its own, and the next item is that of the next tenant.
#[derive(Debug)]
pub struct FairLine<K, T> {
    /// Each tenant that has something in line, once.
    turns: VecDeque<K>,
    items: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for FairLine<K, T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            items: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, T> FairLine<K, T> {
    /// Puts an item at the end of its tenant's line.
    pub fn push(&mut self, tenant: K, item: T) {
        let line = self.items.entry(tenant.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(tenant);
        }
        line.push_back(item);
    }

    /// Takes the next item of the next tenant that may have a turn. A tenant that may not keeps its place.
    pub fn pop(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let at = self.turns.iter().position(may)?;
        let tenant = self.turns.remove(at)?;
        let line = self.items.get_mut(&tenant)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.items.remove(&tenant);
        } else {
            self.turns.push_back(tenant.clone());
        }
        Some((tenant, item))
    }

    /// Takes a tenant's items out of its line.
    pub fn remove<Q>(&mut self, tenant: &Q, is_meant: impl Fn(&T) -> bool)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(line) = self.items.get_mut(tenant) else {
            return;
        };
        line.retain(|item| !is_meant(item));
        if line.is_empty() {
            self.items.remove(tenant);
            self.turns.retain(|it| it.borrow() != tenant);
        }
    }

    /// Whether nothing is in line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

/// How many places each tenant holds.
#[derive(Debug)]
pub struct TenantShares<K> {
    most: usize,
    held: HashMap<K, usize>,
}

impl<K: Eq + Hash> TenantShares<K> {
    /// No tenant holds more than this; at least one.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Self {
            most: most.max(1),
            held: HashMap::new(),
        }
    }

    /// Whether a tenant may take one more place.
    #[must_use]
    pub fn has_room(&self, tenant: &K) -> bool {
        self.held.get(tenant).is_none_or(|held| *held < self.most)
    }

    /// A tenant takes a place.
    pub fn take(&mut self, tenant: K) {
        *self.held.entry(tenant).or_default() += 1;
    }

    /// A tenant gives a place back. One that holds nothing is forgotten.
    pub fn give_back<Q>(&mut self, tenant: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(held) = self.held.get_mut(tenant) else {
            return;
        };
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.held.remove(tenant);
        }
    }

    /// How many tenants hold something.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.held.len()
    }
}

/// Calls that each tenant may have open at the same time; further ones of the same tenant wait. Clones count together.
#[derive(Clone, Debug)]
pub struct TenantTurns<K> {
    most: usize,
    of: Semaphores<K>,
}

type Semaphores<K> = Arc<Mutex<HashMap<K, Weak<Semaphore>>>>;

/// One or several open calls of a tenant, until this is dropped.
#[derive(Debug)]
pub struct TenantTurn<K: Clone + Eq + Hash> {
    of: Semaphores<K>,
    tenant: K,
    // Dropped in this order: the permit is given back before the holders of the semaphore are counted.
    permit: Option<OwnedSemaphorePermit>,
    semaphore: Option<Arc<Semaphore>>,
}

impl<K: Clone + Eq + Hash> TenantTurns<K> {
    /// No tenant has more than this; at least one.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Self {
            most: most.max(1),
            of: Semaphores::default(),
        }
    }

    /// Waits for the tenant's turn, behind none but its own calls.
    pub async fn take(&self, tenant: K) -> TenantTurn<K> {
        self.take_many(tenant, 1).await
    }

    /// The same for a number of turns at once. More than a tenant may have never come.
    pub async fn take_many(&self, tenant: K, turns: u32) -> TenantTurn<K> {
        let (mut turn, semaphore) = self.without_permit(tenant);
        // The semaphore is never closed.
        turn.permit = semaphore.acquire_many_owned(turns).await.ok();
        turn
    }

    /// A number of turns, unless the tenant has too few left or others of its calls wait.
    #[must_use]
    pub fn try_take(&self, tenant: K, turns: u32) -> Option<TenantTurn<K>> {
        let (mut turn, semaphore) = self.without_permit(tenant);
        turn.permit = Some(semaphore.try_acquire_many_owned(turns).ok()?);
        Some(turn)
    }

    /// A turn that holds the tenant's semaphore: a call that stops waiting leaves the tenant as tidy as one that ends.
    fn without_permit(&self, tenant: K) -> (TenantTurn<K>, Arc<Semaphore>) {
        let semaphore = {
            let mut of = lock(&self.of);
            let known = of.get(&tenant).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let new = Arc::new(Semaphore::new(self.most));
                of.insert(tenant.clone(), Arc::downgrade(&new));
                new
            })
        };
        let turn = TenantTurn {
            of: Arc::clone(&self.of),
            tenant,
            permit: None,
            semaphore: Some(Arc::clone(&semaphore)),
        };
        (turn, semaphore)
    }

    /// How many tenants have calls open or waiting.
    #[must_use]
    pub fn tenants(&self) -> usize {
        lock(&self.of).len()
    }
}

fn lock<K>(of: &Semaphores<K>) -> MutexGuard<'_, HashMap<K, Weak<Semaphore>>> {
    // Entries are put in and taken out whole.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Clone + Eq + Hash> Drop for TenantTurn<K> {
    fn drop(&mut self) {
        self.permit.take();
        // Under the lock, so that the later of two calls that end together sees no other holder.
        let mut of = lock(&self.of);
        self.semaphore.take();
        if of
            .get(&self.tenant)
            .is_some_and(|it| it.strong_count() == 0)
        {
            of.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod cancelled;

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn calls_of_one_tenant_wait_for_each_other_alone() {
        let turns = TenantTurns::of(2);
        let first = turns.take("a").await;
        let second = turns.take("a").await;
        let mut third = Box::pin(turns.take("a"));
        assert!(third.as_mut().now_or_never().is_none());
        let other = turns.take("b").await;
        drop(first);
        let third = third.await;
        assert_eq!(turns.tenants(), 2);
        drop((second, third, other));
        assert_eq!(turns.tenants(), 0);
    }

    #[tokio::test]
    async fn several_turns_at_once_wait_for_so_many() {
        let turns = TenantTurns::of(3);
        let two = turns.take_many("a", 2).await;
        let mut more = Box::pin(turns.take_many("a", 2));
        assert!(more.as_mut().now_or_never().is_none());
        let other = turns.clone().take_many("b", 3).await;
        drop(two);
        drop((more.await, other));
        assert_eq!(turns.tenants(), 0);
    }

    #[tokio::test]
    async fn turns_that_are_not_free_are_not_waited_for() {
        let turns = TenantTurns::of(3);
        let two = turns.try_take("a", 2).unwrap();
        assert!(turns.try_take("a", 2).is_none());
        let others = [turns.try_take("a", 1), turns.try_take("b", 3)];
        assert!(others.iter().all(Option::is_some));
        drop((two, others));
        assert_eq!(turns.tenants(), 0);
        assert!(turns.try_take("a", 4).is_none());
        assert_eq!(turns.tenants(), 0);
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_nothing() {
        let turns = TenantTurns::of(1);
        let first = turns.take("a").await;
        let mut second = Box::pin(turns.take("a"));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        drop(second);
        assert_eq!(turns.tenants(), 0);
    }

    fn all(line: &mut FairLine<&'static str, u32>) -> Vec<u32> {
        std::iter::from_fn(|| line.pop(|_| true))
            .map(|(_, item)| item)
            .collect()
    }

    #[test]
    fn tenants_take_turns_however_much_one_puts_in() {
        let mut line = FairLine::default();
        for item in 0..1000 {
            line.push("loud", item);
        }
        line.push("quiet", 5000);
        line.push("quiet", 5001);
        assert!(!line.is_empty());
        assert_eq!(all(&mut line)[..4], [0, 5000, 1, 5001]);
        assert!(line.is_empty() && line.items.is_empty());
    }

    #[test]
    fn a_removed_item_takes_no_turn() {
        let mut line = FairLine::default();
        for (tenant, item) in [("a", 1), ("a", 2), ("b", 3)] {
            line.push(tenant, item);
        }
        line.remove("nobody", |_| true);
        line.remove("a", |item| *item == 1);
        line.remove("b", |item| *item == 1);
        line.remove("b", |item| *item == 3);
        assert_eq!(all(&mut line), [2]);
        assert!(line.is_empty() && line.items.is_empty());
    }

    #[test]
    fn a_tenant_that_has_nothing_left_after_a_removal_has_no_turn() {
        let mut line = FairLine::default();
        line.push("a", 1);
        line.push("b", 2);
        line.remove("a", |_| true);
        assert_eq!(line.pop(|_| true), Some(("b", 2)));
        line.push("a", 3);
        line.push("b", 4);
        line.remove("a", |_| true);
        line.push("a", 5);
        // It begins again behind the others, and has one turn.
        assert_eq!(all(&mut line), [4, 5]);
    }

    #[test]
    fn an_empty_line_has_no_next_item() {
        let mut line = FairLine::<&str, u32>::default();
        assert!(line.is_empty());
        assert_eq!(line.pop(|_| true), None);
    }

    #[test]
    fn a_tenant_without_room_is_passed_over_and_keeps_its_place() {
        let mut line = FairLine::default();
        line.push("full", 1);
        line.push("free", 2);
        line.push("free", 3);
        assert_eq!(line.pop(|it| *it != "full"), Some(("free", 2)));
        assert_eq!(line.pop(|_| true), Some(("full", 1)));
        assert_eq!(line.pop(|_| false), None);
        assert_eq!(line.pop(|_| true), Some(("free", 3)));
    }

    #[test]
    fn a_tenant_holds_at_most_its_share_and_is_forgotten_without_places() {
        let mut shares = TenantShares::of(2);
        shares.take("a");
        assert!(shares.has_room(&"a"));
        shares.take("a");
        assert!(!shares.has_room(&"a") && shares.has_room(&"b"));
        shares.give_back("a");
        assert!(shares.has_room(&"a"));
        shares.give_back("a");
        shares.give_back("a");
        assert_eq!(shares.tenants(), 0);
        // A share of nothing would stop a tenant for good.
        assert!(TenantShares::of(0).has_room(&"a"));
    }

    proptest! {
        #[test]
        fn an_item_waits_for_at_most_one_turn_of_each_other_tenant(puts in prop::collection::vec(0_u8..5, 1..60)) {
            let mut line = FairLine::default();
            for (item, tenant) in puts.iter().enumerate() {
                line.push(*tenant, item);
            }
            let mut popped = Vec::new();
            while let Some((tenant, item)) = line.pop(|_| true) {
                popped.push((tenant, item));
            }
            prop_assert_eq!(popped.len(), puts.len());
            for tenant in 0..5 {
                let own: Vec<_> = popped.iter().enumerate().filter(|(_, it)| it.0 == tenant).collect();
                prop_assert!(own.windows(2).all(|pair| pair[0].1.1 < pair[1].1.1));
                // Behind its own earlier items, and at most one of each of the four others for each of them.
                prop_assert!(own.iter().enumerate().all(|(nth, (at, _))| *at < 5 * (nth + 1)));
            }
        }
    }
}
