//! When a policy's checks are looked at, and what is done with what was found.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use connectors_api::{
    AccessPolicy,
    access_policy::Latch,
    config::DefaultRequesters,
    judge::needs_proof,
    policy_reason::ChecksValid,
    validate::{self, Severity},
};
use futures::FutureExt;
use serde_json::Value;
use service_kit::shutdown::Stop;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::error;

use super::{
    Inspections,
    facts::Facts,
    suspects::Suspects,
    verdict::{self, Found, OpenBy, Verdict},
};
use crate::{
    apply::Leads,
    queue::{Queue, Urgency},
    world::{Job, World},
};

/// How soon a new policy is looked at.
const PACE: Duration = Duration::from_secs(1);
/// As many are looked at before it is asked who is due.
const MOST_AT_A_TIME: usize = 8;
/// When somebody who did not answer is asked again.
const AFTER_SILENCE: Duration = Duration::from_secs(10);
/// When it is asked whether what is wrong still is: kinds and rights come without a word.
const AFTER_WRONG: Duration = Duration::from_secs(30);
/// When all is well.
const AFTER_WELL: Duration = Duration::from_mins(10);
/// Rights change all the time in a busy cluster; a policy is looked at again for that no more often.
const AFTER_RIGHTS: Duration = Duration::from_mins(1);

/// The part of the checks in a policy.
const CHECKS: &str = "spec.checkGrantedPermission";

/// What was found about one version of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub(super) generation: Option<i64>,
    pub(super) defaults: DefaultRequesters,
    pub(super) at: Instant,
    pub(super) verdict: Verdict,
}

impl Inspection {
    /// Whether it is time to look again.
    fn is_due(&self, now: Instant, rights_changed: Instant) -> bool {
        let age = now.duration_since(self.at);
        let after = match self.verdict.reason {
            ChecksValid::ChecksNotJudged => AFTER_SILENCE,
            ChecksValid::KindMissing
            | ChecksValid::KindNotNamespaced
            | ChecksValid::KindNotReadable
            | ChecksValid::TooManyPolicies => AFTER_WRONG,
            ChecksValid::ChecksValid
            | ChecksValid::NoChecks
            | ChecksValid::ChecksForgeable
            | ChecksValid::ChecksDeletable
            | ChecksValid::RequestersOpen
            | ChecksValid::ChecksInvalid
            | ChecksValid::ProofUnavailable
            | ChecksValid::PolicyUnreadable => AFTER_WELL,
        };
        age >= after || (self.at < rights_changed && age >= AFTER_RIGHTS)
    }
}

/// Looks at policies' checks.
pub struct Inspector {
    /// The caches.
    pub world: Arc<World>,
    /// Where a policy goes whose status has to say something new.
    pub queue: Arc<Queue<Job>>,
    /// Where what was found is kept.
    pub inspections: Arc<Inspections>,
    /// Asks.
    pub facts: Facts,
    /// Whether this process leads.
    pub leads: Leads,
    /// When rights changed last.
    pub rights: watch::Receiver<Instant>,
}

/// A policy with checks.
struct Subject {
    job: Job,
    policy: Arc<AccessPolicy>,
}

impl Inspector {
    /// Looks whenever this process leads, until it is time to end.
    pub async fn run(self, stop: Stop) {
        let look = async {
            loop {
                let defaults = self.world.read().default_requesters();
                if let Some(defaults) = defaults.filter(|_| (self.leads)()) {
                    self.pass(defaults).await;
                }
                sleep(PACE).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = look => {}
        }
    }

    /// Looks at everything that is due.
    async fn pass(&self, defaults: DefaultRequesters) {
        for Subject { job, policy } in self.due(defaults) {
            if !(self.leads)() {
                return;
            }
            let at = Instant::now();
            // One policy must not stop the look at all others.
            let inspected = AssertUnwindSafe(self.inspect(&job, &policy, defaults));
            let verdict = inspected.catch_unwind().await.unwrap_or_else(|_| {
                error!(?job, "a look at checks panicked");
                Verdict {
                    reason: ChecksValid::ChecksNotJudged,
                    message: "looking at the checks failed".to_owned(),
                }
            });
            let found = Inspection {
                generation: policy.metadata.generation,
                defaults,
                at,
                verdict,
            };
            if self.inspections.keep(&job, found) {
                self.queue.wake(job, Urgency::Normal);
            }
        }
    }

    fn due(&self, defaults: DefaultRequesters) -> Vec<Subject> {
        let state = self.world.read();
        let subjects: Vec<Subject> = state
            .readable()
            .filter(|(_, policy)| policy.spec.check_granted_permission.is_some())
            .map(|(job, policy)| Subject {
                job,
                policy: Arc::clone(policy),
            })
            .collect();
        drop(state);
        let all: BTreeSet<&Job> = subjects.iter().map(|it| &it.job).collect();
        self.inspections.forget_all_but(&all);
        let (now, rights) = (Instant::now(), *self.rights.borrow());
        let known = self.inspections.known();
        let is_due = |it: &Subject| {
            known.get(&it.job).is_none_or(|found| {
                found.generation != it.policy.metadata.generation
                    || found.defaults != defaults
                    || found.is_due(now, rights)
            })
        };
        // Whoever nobody has looked at goes first; after some, it is asked anew who that is.
        let (again, first): (Vec<_>, Vec<_>) = subjects
            .into_iter()
            .filter(is_due)
            .partition(|it| known.contains_key(&it.job));
        first
            .into_iter()
            .chain(again)
            .take(MOST_AT_A_TIME)
            .collect()
    }

    async fn inspect(
        &self,
        job: &Job,
        policy: &AccessPolicy,
        defaults: DefaultRequesters,
    ) -> Verdict {
        let Some(granted) = &policy.spec.check_granted_permission else {
            return Verdict {
                reason: ChecksValid::NoChecks,
                message: String::new(),
            };
        };
        let object = serde_json::to_value(policy).unwrap_or(Value::Null);
        let validated = validate::policy(&object);
        let errors = validated.findings.into_iter();
        let errors =
            errors.filter(|it| it.severity == Severity::Error && it.path.starts_with(CHECKS));
        let mut found = Found {
            wrong: errors
                .map(|it| format!("{}: {}", it.path, it.message))
                .collect(),
            ..Found::default()
        };
        if !validated.modules.is_empty() && found.wrong.is_empty() {
            match self.facts.rego(&object).await {
                Ok(wrong) => found.wrong = wrong,
                Err(why) => found.unread = Some(why),
            }
        }
        let suspects = {
            let state = self.world.read();
            found.crowded = state.crowded(&job.namespace, policy);
            Suspects::of(
                granted,
                &job.namespace,
                defaults,
                state.around(&job.namespace),
            )
        };
        found.open = match (suspects.everywhere, &granted.requesters) {
            (false, _) => None,
            (true, None) => Some(OpenBy::Installation),
            (true, Some(_)) => Some(OpenBy::Policy),
        };
        found.extent = suspects.extent;
        let checks = &granted.spec.checks;
        // Under the other latches, deletion revokes or a withdrawal would not be looked at either.
        let mut kinds: BTreeMap<_, bool> = BTreeMap::new();
        for check in checks.iter().filter(|it| !needs_proof(it)) {
            *kinds.entry(&check.selector.object_ref).or_default() |= check.latch == Latch::Auto;
        }
        for (kind, asks_deleters) in kinds {
            let of_kind = self.facts.kind(kind, &suspects, asks_deleters).await;
            found.kinds.insert(kind.clone(), of_kind);
        }
        verdict::verdict(checks, &found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(reason: ChecksValid, at: Instant) -> Inspection {
        Inspection {
            generation: Some(1),
            defaults: DefaultRequesters::Namespace,
            at,
            verdict: Verdict {
                reason,
                message: String::new(),
            },
        }
    }

    #[test]
    fn what_is_not_well_is_looked_at_sooner() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        for (reason, after) in [
            (ChecksValid::ChecksNotJudged, AFTER_SILENCE),
            (ChecksValid::KindMissing, AFTER_WRONG),
            (ChecksValid::KindNotReadable, AFTER_WRONG),
            (ChecksValid::TooManyPolicies, AFTER_WRONG),
            (ChecksValid::ChecksValid, AFTER_WELL),
            (ChecksValid::ChecksInvalid, AFTER_WELL),
        ] {
            let found = found(reason, start);
            assert!(!found.is_due(start + after - second, start), "{reason}");
            assert!(found.is_due(start + after, start), "{reason}");
        }
    }

    #[test]
    fn changed_rights_are_a_reason_to_look_but_not_all_the_time() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let found = found(ChecksValid::ChecksValid, start);
        let changed = start + second;
        assert!(!found.is_due(start + 2 * second, changed));
        assert!(found.is_due(start + AFTER_RIGHTS, changed));
        assert!(
            !found.is_due(start + AFTER_RIGHTS, start),
            "nothing has changed since"
        );
    }
}
