//! What was heard about standing permissions of pods that wait: a reason for a live look, and no more.

use std::collections::BTreeSet;

/// Requests, by UID, whose pods were said to hold a standing permission when all that wait were last asked about.
#[derive(Debug, Default)]
pub struct StandingHeard(BTreeSet<String>);

impl StandingHeard {
    /// Whether it was said of this request.
    #[must_use]
    pub fn has(&self, uid: &str) -> bool {
        self.0.contains(uid)
    }

    /// Drops what was heard of one request.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    pub(super) fn replace(&mut self, uids: BTreeSet<String>) {
        self.0 = uids;
    }

    /// Of how many requests it was said.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
