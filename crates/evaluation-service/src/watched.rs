//! How much memory the questions of open streams take.
//!
//! Owns: what a question is weighed, and how much of that there is. Refuses to know: what is asked. Invariants:
//! nothing takes more than it was weighed; and a caller's part never grows beyond an eighth of what it leaves
//! free, so that a newcomer finds room beside many who take all they get.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MIB: usize = 1024 * 1024;
/// The questions of all streams.
const ALL: usize = 128 * MIB;
/// So many times its part is free after a caller's part has grown. The first one may have 14 MiB; ten thousand
/// questions as nodes have them take ten.
const FREE: usize = 8;

/// What a stream may take before it is known that its caller may ask anything: it is beside all of that, because
/// whoever has a token of the cluster may have as many as he likes.
pub(crate) const UNPROVEN: usize = 64 * 1024;

/// What all streams take.
#[derive(Debug, Default)]
pub(crate) struct All(Mutex<usize>);

/// What the streams of one caller take. Written only while that of all is held.
#[derive(Debug, Default)]
pub(crate) struct Part(AtomicUsize);

/// What one stream takes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    all: Arc<All>,
    part: Arc<Part>,
    weight: usize,
    is_proven: bool,
}

impl All {
    fn lock(&self) -> MutexGuard<'_, usize> {
        // A number is never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    pub(crate) const fn new(all: Arc<All>, part: Arc<Part>) -> Self {
        Self {
            all,
            part,
            weight: 0,
            is_proven: false,
        }
    }

    /// Takes so much more, or nothing.
    pub(crate) fn grow(&mut self, weight: usize) -> bool {
        if !self.is_proven {
            let is_room = self.weight + weight <= UNPROVEN;
            self.weight += if is_room { weight } else { 0 };
            return is_room;
        }
        let mut all = self.all.lock();
        let part = self.part.0.load(Ordering::Relaxed) + weight;
        let free = ALL.saturating_sub(*all + weight);
        let is_room = part <= free / FREE;
        if is_room {
            *all += weight;
            self.part.0.store(part, Ordering::Relaxed);
            self.weight += weight;
        }
        is_room
    }

    /// The caller may ask. From here on it is among those who share; what it has is too little to be refused.
    pub(crate) fn prove(&mut self) {
        if !self.is_proven {
            self.is_proven = true;
            let mut all = self.all.lock();
            *all += self.weight;
            self.part.0.fetch_add(self.weight, Ordering::Relaxed);
        }
    }

    pub(crate) const fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Gives so much back, and never more than was taken.
    pub(crate) fn shrink(&mut self, weight: usize) {
        let weight = weight.min(self.weight);
        self.weight -= weight;
        if self.is_proven {
            let mut all = self.all.lock();
            *all -= weight;
            self.part.0.fetch_sub(weight, Ordering::Relaxed);
        }
    }

    pub(crate) const fn weight(&self) -> usize {
        self.weight
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shrink(self.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proven(all: Arc<All>, part: Arc<Part>) -> Watched {
        let mut watched = Watched::new(all, part);
        watched.prove();
        watched
    }

    /// How much of a unit a new stream gets until it gets no more.
    fn fill(watched: &mut Watched, unit: usize) -> usize {
        std::iter::repeat_with(|| watched.grow(unit))
            .take_while(|grown| *grown)
            .count()
            * unit
    }

    #[test]
    fn one_caller_has_its_part_on_all_its_streams_together() {
        let (all, part) = (Arc::default(), Arc::default());
        let mut one = proven(Arc::clone(&all), Arc::clone(&part));
        let mut two = proven(Arc::clone(&all), part);
        let most = fill(&mut one, MIB);
        assert_eq!(most, 14 * MIB);
        assert!(!two.grow(MIB));
        one.shrink(MIB);
        assert!(two.grow(MIB) && !two.grow(MIB));
        drop(one);
        assert_eq!(fill(&mut two, MIB), most - MIB);
        drop(two);
        assert_eq!(*all.lock(), 0);
    }

    #[test]
    fn a_newcomer_finds_room_beside_thirty_who_take_all_they_get() {
        let all: Arc<All> = Arc::default();
        let mut greedy = Vec::new();
        for _ in 0..30 {
            let mut one = proven(Arc::clone(&all), Arc::default());
            fill(&mut one, 1024);
            greedy.push(one);
        }
        let mut modest = proven(Arc::clone(&all), Arc::default());
        let found = fill(&mut modest, 1024);
        // Some three hundred questions: no node has as many pods.
        assert!(found >= MIB / 4, "{found}");
        assert!(*all.lock() <= ALL);
    }

    #[test]
    fn who_is_not_known_to_be_allowed_anything_takes_nothing_from_others() {
        let all: Arc<All> = Arc::default();
        let mut unproven: Vec<_> = (0..1000)
            .map(|_| Watched::new(Arc::clone(&all), Arc::default()))
            .collect();
        for one in &mut unproven {
            assert_eq!(fill(one, 1024), UNPROVEN);
        }
        assert_eq!(*all.lock(), 0);
        // Known, it has its part like everybody.
        let known = &mut unproven[0];
        known.prove();
        known.prove();
        assert_eq!(*all.lock(), UNPROVEN);
        assert!(fill(known, MIB) > MIB);
        drop(unproven);
        assert_eq!(*all.lock(), 0);
    }

    #[test]
    fn nobody_gives_back_what_others_have() {
        let all: Arc<All> = Arc::default();
        let mut one = proven(Arc::clone(&all), Arc::default());
        let mut two = proven(Arc::clone(&all), Arc::default());
        assert!(one.grow(10) && two.grow(5));
        two.shrink(7);
        assert_eq!((*all.lock(), two.weight()), (10, 0));
        assert!(!one.grow(usize::MAX / 2));
    }
}
