//! The memory of the questions of open streams.
//!
//! Owns: the memory for questions, and the share of each caller. Refuses to know: their content.
//!
//! Invariants: no question takes more than its weight. A caller's share never grows beyond an eighth of the free
//! memory, so that a newcomer finds memory beside many callers that take all they get.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use service_kit::byte_budget::ByteBudget;

use crate::caller_identity::CallerIdentity;

const MIB: usize = 1024 * 1024;
/// The limit of the questions of all streams.
const ALL: usize = 128 * MIB;
/// After a caller's share has grown, so many times that share is still free. The first caller may have 14 MiB. Ten
/// thousand questions of a node take ten.
const FREE: usize = 8;

/// The limit of a stream before its caller is authorized. It does not count in the total, because every token of the
/// cluster can open streams.
pub(crate) const UNPROVEN: usize = 64 * 1024;

/// The memory of all streams, by caller.
#[derive(Debug)]
pub(crate) struct StreamBudget(ByteBudget<Arc<CallerIdentity>>);

impl Default for StreamBudget {
    fn default() -> Self {
        Self(ByteBudget::new(ALL / FREE, ALL))
    }
}

/// The memory of one stream, until this is dropped.
#[derive(Debug)]
pub(crate) struct StreamMemory {
    all: Arc<Mutex<StreamBudget>>,
    caller: Arc<CallerIdentity>,
    weight: usize,
    is_proven: bool,
}

impl StreamMemory {
    pub(crate) const fn new(all: Arc<Mutex<StreamBudget>>, caller: Arc<CallerIdentity>) -> Self {
        Self {
            all,
            caller,
            weight: 0,
            is_proven: false,
        }
    }

    /// Takes so much more memory, or nothing.
    pub(crate) fn grow(&mut self, weight: usize) -> bool {
        let is_room = if self.is_proven {
            let StreamBudget(all) = &mut *lock(&self.all);
            let free = ALL.saturating_sub(all.total() + weight);
            let is_room = all.of(&self.caller) + weight <= free / FREE;
            all.add(&self.caller, if is_room { weight } else { 0 });
            is_room
        } else {
            self.weight + weight <= UNPROVEN
        };
        self.weight += if is_room { weight } else { 0 };
        is_room
    }

    /// The caller may ask. Its questions now count in its share. Its present memory is too little to be refused.
    pub(crate) fn prove(&mut self) {
        if !self.is_proven {
            self.is_proven = true;
            lock(&self.all).0.add(&self.caller, self.weight);
        }
    }

    pub(crate) const fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Returns so much memory, and never more than was taken.
    pub(crate) fn shrink(&mut self, weight: usize) {
        let weight = weight.min(self.weight);
        self.weight -= weight;
        if self.is_proven {
            lock(&self.all).0.release(&self.caller, weight);
        }
    }

    pub(crate) const fn weight(&self) -> usize {
        self.weight
    }
}

impl Drop for StreamMemory {
    fn drop(&mut self) {
        self.shrink(self.weight);
    }
}

fn lock(all: &Mutex<StreamBudget>) -> MutexGuard<'_, StreamBudget> {
    // Single steps change the counts.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(all: &Arc<Mutex<StreamBudget>>, user: u32) -> StreamMemory {
        StreamMemory::new(Arc::clone(all), Arc::new(CallerIdentity::Local(user)))
    }

    fn taken(all: &Mutex<StreamBudget>) -> usize {
        lock(all).0.total()
    }

    fn proven(all: &Arc<Mutex<StreamBudget>>, user: u32) -> StreamMemory {
        let mut memory = stream(all, user);
        memory.prove();
        memory
    }

    /// The number of units that a new stream gets until it gets no more.
    fn fill(memory: &mut StreamMemory, unit: usize) -> usize {
        std::iter::repeat_with(|| memory.grow(unit))
            .take_while(|grown| *grown)
            .count()
            * unit
    }

    #[test]
    fn one_caller_has_its_part_on_all_its_streams_together() {
        let all = Arc::default();
        let (mut one, mut two) = (proven(&all, 1), proven(&all, 1));
        let most = fill(&mut one, MIB);
        assert_eq!(most, 14 * MIB);
        assert!(!two.grow(MIB));
        one.shrink(MIB);
        assert!(two.grow(MIB) && !two.grow(MIB));
        drop(one);
        assert_eq!(fill(&mut two, MIB), most - MIB);
        drop(two);
        assert_eq!(taken(&all), 0);
    }

    #[test]
    fn a_newcomer_finds_room_beside_thirty_who_take_all_they_get() {
        let all = Arc::default();
        let mut greedy = Vec::new();
        for user in 0..30 {
            let mut one = proven(&all, user);
            fill(&mut one, 1024);
            greedy.push(one);
        }
        let mut modest = proven(&all, 30);
        let found = fill(&mut modest, 1024);
        // Some three hundred questions: no node has as many pods.
        assert!(found >= MIB / 4, "{found}");
        assert!(taken(&all) <= ALL);
    }

    #[test]
    fn who_is_not_known_to_be_allowed_anything_takes_nothing_from_others() {
        let all = Arc::default();
        let mut unproven: Vec<_> = (0..1000).map(|user| stream(&all, user)).collect();
        for one in &mut unproven {
            assert_eq!(fill(one, 1024), UNPROVEN);
        }
        assert_eq!(taken(&all), 0);
        // A proven stream has its share like all others.
        let known = &mut unproven[0];
        known.prove();
        known.prove();
        assert_eq!(taken(&all), UNPROVEN);
        assert!(fill(known, MIB) > MIB);
        drop(unproven);
        assert_eq!(taken(&all), 0);
    }

    #[test]
    fn nobody_gives_back_what_others_have() {
        let all = Arc::default();
        let (mut one, mut two) = (proven(&all, 1), proven(&all, 2));
        assert!(one.grow(10) && two.grow(5));
        two.shrink(7);
        assert_eq!((taken(&all), two.weight()), (10, 0));
        assert!(!one.grow(usize::MAX / 2));
    }
}
