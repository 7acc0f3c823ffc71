//! Whether a policy's checks can be judged, and whether a requester could write an approval itself.
//!
//! This runs slowly, apart from all code that grants. Its findings go to the policy's status and change no
//! permission. [`suspects`] finds the accounts that may request, [`verdict`] judges the findings, both pure.
//! [`facts`] asks, and the [`inspector`] decides when.

pub mod facts;
pub mod inspector;
pub mod rights;
pub mod suspects;
pub mod verdict;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use connectors_api::{AccessPolicySpec, config::DefaultRequesters};
use tokio::time::Instant;

use crate::cache::Job;
use inspector::Inspection;
use verdict::ChecksVerdict;

/// The state of a policy's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The policy has none.
    None,
    /// Not inspected since this process started. The last report about this version of the policy holds.
    AsTold,
    /// Inspected.
    Judged(ChecksVerdict),
}

/// The last findings, by policy.
#[derive(Debug, Default)]
pub struct Inspections(Mutex<HashMap<Job, Inspection>>);

impl Inspections {
    /// The state of the checks of this version of a policy.
    #[must_use]
    pub fn checks(&self, job: &Job, generation: Option<i64>, spec: &AccessPolicySpec) -> Checks {
        if spec.check_granted_permission.is_none() {
            return Checks::None;
        }
        let known = self.known();
        let found = known.get(job).filter(|it| it.generation == generation);
        found.map_or(Checks::AsTold, |it| Checks::Judged(it.verdict.clone()))
    }

    /// Stores the findings, and returns whether the status has to report them. The same verdict about a new
    /// version is reported too: until then the status of that version says that its checks were not judged.
    fn keep(&self, job: &Job, found: Inspection) -> bool {
        let (generation, verdict) = (found.generation, found.verdict.clone());
        let before = self.known().insert(job.clone(), found);
        before.is_none_or(|it| it.generation != generation || it.verdict != verdict)
    }

    /// When this version of a policy was inspected first; now, if it was not yet.
    fn since(
        &self,
        job: &Job,
        generation: Option<i64>,
        defaults: DefaultRequesters,
        now: Instant,
    ) -> Instant {
        let known = self.known();
        let of_it = known.get(job).filter(|it| it.is_of(generation, defaults));
        of_it.map_or(now, |it| it.since)
    }

    fn forget_all_but(&self, jobs: &BTreeSet<&Job>) {
        self.known().retain(|job, _| jobs.contains(job));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Job, Inspection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use connectors_api::policy_reason::ChecksValid;

    use super::*;

    fn found(generation: i64, reason: ChecksValid) -> Inspection {
        Inspection {
            generation: Some(generation),
            defaults: DefaultRequesters::Namespace,
            at: Instant::now(),
            since: Instant::now(),
            places: Vec::new(),
            verdict: ChecksVerdict {
                reason,
                message: String::new(),
            },
        }
    }

    fn job() -> Job {
        Job {
            namespace: "tools".to_owned(),
            uid: "p".to_owned(),
        }
    }

    #[test]
    fn the_first_inspection_is_that_of_the_same_version_under_the_same_configuration() {
        use DefaultRequesters::{Any, Namespace};
        let inspections = Inspections::default();
        let job = job();
        let first = found(1, ChecksValid::KindMissing);
        let (began, now) = (first.since, first.since + Duration::from_secs(9));
        assert_eq!(inspections.since(&job, Some(1), Namespace, now), now);
        inspections.keep(&job, first);
        assert_eq!(inspections.since(&job, Some(1), Namespace, now), began);
        assert_eq!(inspections.since(&job, Some(2), Namespace, now), now);
        assert_eq!(inspections.since(&job, Some(1), Any, now), now);
    }

    #[test]
    fn findings_about_policies_that_are_gone_are_forgotten() {
        let inspections = Inspections::default();
        let (job, mut gone) = (job(), job());
        gone.uid = "gone".to_owned();
        for it in [&job, &gone] {
            inspections.keep(it, found(1, ChecksValid::ChecksValid));
        }
        inspections.forget_all_but(&BTreeSet::from([&job]));
        assert!(inspections.known().keys().eq([&job]));
    }

    #[test]
    fn the_same_verdict_is_news_for_a_new_version_alone() {
        let inspections = Inspections::default();
        let job = job();
        assert!(inspections.keep(&job, found(1, ChecksValid::ChecksValid)));
        assert!(!inspections.keep(&job, found(1, ChecksValid::ChecksValid)));
        assert!(inspections.keep(&job, found(2, ChecksValid::ChecksValid)));
        assert!(inspections.keep(&job, found(2, ChecksValid::KindMissing)));
    }
}
