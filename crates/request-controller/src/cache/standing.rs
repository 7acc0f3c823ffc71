//! The last answers about standing permissions of waiting pods: only a reason for a live read.

use std::collections::BTreeSet;

/// The UIDs of the requests whose pods had a standing permission when the evaluation service was last asked about all
/// waiting requests.
#[derive(Debug, Default)]
pub struct StandingHeard(BTreeSet<String>);

impl StandingHeard {
    /// True when the last answer for this request was positive.
    #[must_use]
    pub fn has(&self, uid: &str) -> bool {
        self.0.contains(uid)
    }

    /// Drops the answer for one request.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    pub(super) fn replace(&mut self, uids: BTreeSet<String>) {
        self.0 = uids;
    }

    /// The number of positive answers.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
