//! The processors of this thread, and of all processes that it starts meanwhile.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One of the processors, until this is dropped.
pub(crate) struct OneProcessor {
    before: CpuSet,
}

impl OneProcessor {
    pub(crate) fn only() -> Self {
        let before = sched_getaffinity(None).unwrap();
        let any = (0..CpuSet::MAX_CPU).rev().find(|at| before.is_set(*at));
        let mut one = CpuSet::new();
        one.set(any.unwrap());
        sched_setaffinity(None, &one).unwrap();
        Self { before }
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).unwrap();
    }
}
