//! Whether a policy's checks can be judged, and whether somebody who asks could write his own approval.
//!
//! It is looked at beside everything that grants, slowly: what is found is told in the policy's status and changes
//! nothing. [`suspects`] says who may ask, [`verdict`] what was found means, both pure; [`facts`] asks, and the
//! [`inspector`] decides when.

pub mod facts;
pub mod inspector;
pub mod rights;
pub mod suspects;
pub mod verdict;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use connectors_api::AccessPolicySpec;

use crate::world::Job;
use inspector::Inspection;
use verdict::Verdict;

/// What is known of a policy's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The policy has none.
    None,
    /// Nobody has looked since this process started; what was told of this version of the policy holds.
    AsTold,
    /// Somebody has looked.
    Judged(Verdict),
}

/// What was found last, by policy.
#[derive(Debug, Default)]
pub struct Inspections(Mutex<HashMap<Job, Inspection>>);

impl Inspections {
    /// What is known of the checks of this version of a policy.
    #[must_use]
    pub fn checks(&self, job: &Job, generation: Option<i64>, spec: &AccessPolicySpec) -> Checks {
        if spec.check_granted_permission.is_none() {
            return Checks::None;
        }
        let known = self.known();
        let found = known.get(job).filter(|it| it.generation == generation);
        found.map_or(Checks::AsTold, |it| Checks::Judged(it.verdict.clone()))
    }

    /// Keeps what was found, and says whether it is something new.
    fn keep(&self, job: &Job, found: Inspection) -> bool {
        let verdict = found.verdict.clone();
        let before = self.known().insert(job.clone(), found);
        before.is_none_or(|it| it.verdict != verdict)
    }

    fn forget_all_but(&self, jobs: &BTreeSet<&Job>) {
        self.known().retain(|job, _| jobs.contains(job));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Job, Inspection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
