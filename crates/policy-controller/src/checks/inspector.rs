//! The times at which a policy's checks are inspected, and the use of the findings.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use connectors_api::{
    AccessPolicy,
    access_policy::{Check, Latch, ObjectKind},
    config::DefaultRequesters,
    judge::{ProofNeeded, proof_needed},
    lineage::Lineage,
    policy_reason::ChecksValid,
    validate::{self, Severity},
};
use futures::FutureExt;
use serde_json::Value;
use service_kit::{
    controller::Leads,
    controller::queue::{Queue, Urgency},
    shutdown::Stop,
};
use tokio::time::{Instant, sleep};
use tracing::error;

use super::{
    Inspections,
    facts::{AskedRights, CheckFacts},
    rights::RightsChanges,
    suspects::Suspects,
    verdict::{self, CheckFindings, ChecksVerdict, OpenBy},
};
use crate::cache::{Job, World};

/// The pause after a pass that left no policy over.
const PACE: Duration = Duration::from_secs(1);
/// The number of policies per batch. After it the due policies are computed again.
const MOST_AT_A_TIME: usize = 8;
/// The pause before a question without an answer is repeated.
const AFTER_SILENCE: Duration = Duration::from_secs(10);
/// The longest pause before a problem is checked again: no event tells of new kinds or rights.
const AFTER_WRONG: Duration = Duration::from_secs(30);
/// The shortest one. A policy is often created together with its kind and the right to read it, which take a moment.
const AFTER_NEWLY_WRONG: Duration = Duration::from_secs(2);
/// The pause after an inspection without a problem.
const AFTER_WELL: Duration = Duration::from_mins(10);
/// The shortest pause before a policy is inspected again because rights changed. In a busy cluster they
/// change all the time.
const AFTER_RIGHTS: Duration = Duration::from_mins(1);

/// The part of the checks in a policy.
const CHECKS: &str = "spec.checkGrantedPermission";

/// The findings about one version of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub(super) generation: Option<i64>,
    pub(super) defaults: DefaultRequesters,
    pub(super) at: Instant,
    /// The first inspection of this version.
    pub(super) since: Instant,
    /// The namespaces whose accounts were checked.
    pub(super) places: Vec<String>,
    pub(super) verdict: ChecksVerdict,
}

impl Inspection {
    /// Whether it is about this version of the policy, under this configuration.
    pub(super) fn is_of(&self, generation: Option<i64>, defaults: DefaultRequesters) -> bool {
        (self.generation, self.defaults) == (generation, defaults)
    }

    /// Whether it is time to look again.
    fn is_due(&self, now: Instant, rights_changed: Instant) -> bool {
        let age = now.duration_since(self.at);
        let after = match self.verdict.reason {
            ChecksValid::ChecksNotJudged => AFTER_SILENCE,
            // Each pause is as long as all before it.
            ChecksValid::KindMissing
            | ChecksValid::KindNotNamespaced
            | ChecksValid::KindNotReadable
            | ChecksValid::CreatorsUnknown => {
                let wrong = self.at.duration_since(self.since);
                wrong.clamp(AFTER_NEWLY_WRONG, AFTER_WRONG)
            }
            ChecksValid::TooManyPolicies => AFTER_WRONG,
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
    /// The queue for a policy whose status has to report something new.
    pub queue: Arc<Queue<Job>>,
    /// The store of the findings.
    pub inspections: Arc<Inspections>,
    /// Asks the questions.
    pub facts: CheckFacts,
    /// Whether this process leads.
    pub leads: Leads,
    /// When rights changed last.
    pub rights: RightsChanges,
}

/// A policy with checks.
struct CheckedPolicy {
    job: Job,
    policy: Arc<AccessPolicy>,
}

/// The result of one inspection of a policy.
struct Inspected {
    places: Vec<String>,
    verdict: ChecksVerdict,
}

impl Inspected {
    /// No accounts had to be checked.
    const fn at_nobody(verdict: ChecksVerdict) -> Self {
        Self {
            places: Vec::new(),
            verdict,
        }
    }
}

impl Inspector {
    /// Looks whenever this process leads, until it is time to end.
    pub async fn run(self, stop: Stop) {
        let look = async {
            let mut last = String::new();
            loop {
                let defaults = self.world.read().default_requesters();
                let has_more = match defaults.filter(|_| (self.leads)()) {
                    Some(defaults) => self.pass(defaults, &mut last).await,
                    None => false,
                };
                // New policies do not wait for the pauses between batches. Each question is a call, and a policy that
                // was inspected has its own pause, so this is no busy loop.
                if !has_more {
                    sleep(PACE).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = look => {}
        }
    }

    /// Inspects some of the due policies, beginning behind the namespace that had the last turn. True if more may be
    /// due.
    async fn pass(&self, defaults: DefaultRequesters, last: &mut String) -> bool {
        let due = self.due(defaults, last);
        let is_full = due.len() == MOST_AT_A_TIME;
        for CheckedPolicy { job, policy } in due {
            if !(self.leads)() {
                return false;
            }
            let at = Instant::now();
            // A panic about one policy must not stop the inspection of all others.
            let inspected = AssertUnwindSafe(self.inspect(&job, &policy, defaults));
            let looked = inspected.catch_unwind().await.unwrap_or_else(|_| {
                error!(?job, "a look at checks panicked");
                Inspected::at_nobody(ChecksVerdict {
                    reason: ChecksValid::ChecksNotJudged,
                    message: "looking at the checks failed".to_owned(),
                })
            });
            last.clone_from(&job.namespace);
            let generation = policy.metadata.generation;
            let found = Inspection {
                generation,
                defaults,
                at,
                since: self.inspections.since(&job, generation, defaults, at),
                places: looked.places,
                verdict: looked.verdict,
            };
            if self.inspections.keep(&job, found) {
                self.queue.wake(job, Urgency::Normal);
            }
        }
        is_full
    }

    fn due(&self, defaults: DefaultRequesters, last: &str) -> Vec<CheckedPolicy> {
        let state = self.world.read();
        let subjects: Vec<CheckedPolicy> = state
            .readable()
            .filter(|(_, policy)| policy.spec.check_granted_permission.is_some())
            .map(|(job, policy)| CheckedPolicy {
                job,
                policy: Arc::clone(policy),
            })
            .collect();
        drop(state);
        let all: BTreeSet<&Job> = subjects.iter().map(|it| &it.job).collect();
        self.inspections.forget_all_but(&all);
        let now = Instant::now();
        let known = self.inspections.known();
        let changed = |places: &[String]| {
            let places = places.iter().map(|it| self.rights.last(Some(it)));
            places.fold(self.rights.last(None), Instant::max)
        };
        let is_due = |it: &CheckedPolicy| {
            known.get(&it.job).is_none_or(|found| {
                !found.is_of(it.policy.metadata.generation, defaults)
                    || found.is_due(now, changed(&found.places))
            })
        };
        // In each namespace a policy that was never looked at goes first.
        let (again, first): (Vec<_>, Vec<_>) = subjects
            .into_iter()
            .filter(is_due)
            .partition(|it| known.contains_key(&it.job));
        let due = first.into_iter().chain(again);
        in_turns(due.map(|it| (it.job.namespace.clone(), it)), last)
    }

    async fn inspect(
        &self,
        job: &Job,
        policy: &AccessPolicy,
        defaults: DefaultRequesters,
    ) -> Inspected {
        let Some(granted) = &policy.spec.check_granted_permission else {
            return Inspected::at_nobody(ChecksVerdict {
                reason: ChecksValid::NoChecks,
                message: String::new(),
            });
        };
        let object = serde_json::to_value(policy).unwrap_or(Value::Null);
        let validated = validate::policy(&object);
        let errors = validated.findings.into_iter();
        let errors =
            errors.filter(|it| it.severity == Severity::Error && it.path.starts_with(CHECKS));
        let mut found = CheckFindings {
            wrong: errors
                .map(|it| format!("{}: {}", it.path, it.message))
                .collect(),
            ..CheckFindings::default()
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
        if checks.iter().any(verdict::excludes_creators) {
            found.creators = self.facts.creators().await;
        }
        if checks.iter().any(|it| it.approvers.is_some()) {
            found.answers = self.facts.answers().await;
        }
        for (kind, asked) in kinds(checks) {
            let of_kind = self.facts.kind(&kind, &suspects, asked).await;
            found.kinds.insert(kind, of_kind);
        }
        // It is only a hint, so it is checked only where nothing else has to be reported.
        let needs_proof = checks.iter().any(|it| proof_needed(it).lineage().is_some());
        if needs_proof && verdict::verdict(checks, &found).reason == ChecksValid::ChecksValid {
            found.intruders = self.facts.intruders(&suspects).await;
        }
        Inspected {
            places: suspects.places.into_keys().collect(),
            verdict: verdict::verdict(checks, &found),
        }
    }
}

/// The kinds that checks read, and the rights on each that could forge an approval.
fn kinds(checks: &[Check]) -> BTreeMap<ObjectKind, AskedRights> {
    let mut kinds: BTreeMap<_, AskedRights> = BTreeMap::new();
    for check in checks {
        let proof = proof_needed(check);
        if proof == ProofNeeded::Unavailable {
            continue;
        }
        let lineage = proof.lineage();
        let kind = check.selector.object_ref.clone();
        let asked = kinds.entry(kind).or_default();
        // A proof counts only the approvers' own input, so only the status can be forged.
        asked.writers |= lineage.is_none();
        // Under the other latches, deletion revokes or a withdrawal would not be looked at either.
        asked.deleters |= check.latch == Latch::Auto;
        for kind in lineage.into_iter().flat_map(<dyn Lineage>::object_kinds) {
            kinds.entry(kind).or_default();
        }
    }
    kinds
}

/// The first few, one of each namespace after the other, beginning behind the last one.
fn in_turns<T>(due: impl Iterator<Item = (String, T)>, last: &str) -> Vec<T> {
    let mut namespaces: BTreeMap<String, VecDeque<T>> = BTreeMap::new();
    for (namespace, item) in due {
        namespaces.entry(namespace).or_default().push_back(item);
    }
    let before = namespaces.range(..=last.to_owned()).count();
    let mut turns: VecDeque<VecDeque<T>> = namespaces.into_values().collect();
    turns.rotate_left(before);
    let mut taken = Vec::new();
    while taken.len() < MOST_AT_A_TIME
        && let Some(mut namespace) = turns.pop_front()
    {
        taken.extend(namespace.pop_front());
        if !namespace.is_empty() {
            turns.push_back(namespace);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reconcile::Reconciler,
        testing::{OWN, api_server, facts, job, reconciler},
    };

    #[tokio::test]
    async fn an_error_in_the_text_of_checks_is_told_with_its_place() {
        let server = api_server();
        let Reconciler {
            world,
            queue,
            inspections,
            leads,
            ..
        } = reconciler(&server);
        let inspector = Inspector {
            world,
            queue,
            inspections,
            facts: facts(&server),
            leads,
            rights: RightsChanges::since(Instant::now()),
        };
        let check = serde_json::json!({
            "name": "c",
            "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
        });
        let policy = serde_json::json!({
            "metadata": {"name": "p", "namespace": OWN},
            "spec": {"connector": {}, "checkGrantedPermission": {"spec": {
                "checks": [check], "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        let policy: AccessPolicy = serde_json::from_value(policy).unwrap();
        let job = job();
        let found = inspector.inspect(&job, &policy, DefaultRequesters::Namespace);
        let ChecksVerdict { reason, message } = found.await.verdict;
        assert_eq!(reason, ChecksValid::ChecksInvalid, "{message}");
        let at = "spec.checkGrantedPermission.spec.permissions.roleTemplate.rules: has 0 entries";
        assert!(message.starts_with(at), "{message}");
    }

    /// A proof counts only the approvers' own input, so only rights on a status could forge it.
    #[test]
    fn a_proof_asks_about_each_kind_that_it_reads_and_for_writers_of_its_status() {
        let check = |provenance: &str, latch: &str| -> Check {
            let check = serde_json::json!({
                "name": "c", "provenance": provenance, "latch": latch,
                "selector": {
                    "labels": {"a": "b"},
                    "objectRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
                },
            });
            serde_json::from_value(check).unwrap()
        };
        let asked = |checks: &[Check]| -> Vec<(String, bool, bool)> {
            let kinds = kinds(checks).into_iter();
            kinds
                .map(|(kind, it)| (kind.kind, it.writers, it.deleters))
                .collect()
        };
        let named = |kind: &str, writers, deleters| (kind.to_owned(), writers, deleters);
        let proven = [
            named("ApprovalTask", false, true),
            named("PipelineRun", false, false),
            named("TaskRun", false, false),
            named("CustomRun", false, false),
        ];
        assert_eq!(asked(&[check("Auto", "Auto")]), proven);
        let believed = [named("ApprovalTask", true, false)];
        assert_eq!(asked(&[check("None", "Once")]), believed);
        let both = asked(&[check("None", "Once"), check("Auto", "Auto")]);
        assert_eq!(both[0], named("ApprovalTask", true, true));
        assert_eq!(both.len(), 4);
    }

    fn found(reason: ChecksValid, at: Instant) -> Inspection {
        Inspection {
            generation: Some(1),
            defaults: DefaultRequesters::Namespace,
            at,
            since: at,
            places: Vec::new(),
            verdict: ChecksVerdict {
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
            (ChecksValid::KindMissing, AFTER_NEWLY_WRONG),
            (ChecksValid::KindNotReadable, AFTER_NEWLY_WRONG),
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
    fn the_pauses_after_a_problem_grow_with_its_age_up_to_a_longest_one() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        for (age, pause) in [
            (0, AFTER_NEWLY_WRONG),
            (2, 2 * second),
            (4, 4 * second),
            (8, 8 * second),
            (16, 16 * second),
            (32, AFTER_WRONG),
            (3600, AFTER_WRONG),
        ] {
            let at = start + age * second;
            let found = Inspection {
                at,
                ..found(ChecksValid::KindNotReadable, start)
            };
            let just_before = at + pause - Duration::from_millis(1);
            assert!(!found.is_due(just_before, start), "{age} s");
            assert!(found.is_due(at + pause, start), "{age} s");
        }
    }

    #[test]
    fn one_check_of_several_is_enough_to_ask_who_may_delete_objects_of_its_kind() {
        let check = |latch: &str| -> Check {
            let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap"});
            let selector = serde_json::json!({"labels": {"a": "b"}, "objectRef": object});
            serde_json::from_value(
                serde_json::json!({"name": latch, "latch": latch, "selector": selector}),
            )
            .unwrap()
        };
        let asks = |latches: &[&str]| {
            let checks: Vec<_> = latches.iter().map(|it| check(it)).collect();
            let asked = kinds(&checks).into_values();
            asked.map(|it| it.deleters).collect::<Vec<_>>()
        };
        assert_eq!(asks(&[]), Vec::<bool>::new());
        assert_eq!(asks(&["WhileHolds"]), [false]);
        assert_eq!(asks(&["Auto"]), [true]);
        assert_eq!(asks(&["Auto", "WhileHolds"]), [true]);
        assert_eq!(asks(&["WhileHolds", "Auto"]), [true]);
    }

    #[test]
    fn namespaces_take_turns_at_having_their_checks_looked_at() {
        let due = |loud: usize| {
            let loud = (0..loud).map(|n| ("loud".to_owned(), format!("loud-{n}")));
            let others = ["calm", "quiet"].map(|it| (it.to_owned(), it.to_owned()));
            loud.chain(others)
        };
        let taken = in_turns(due(100), "");
        assert_eq!(taken.len(), MOST_AT_A_TIME);
        assert_eq!(taken[..4], ["calm", "loud-0", "quiet", "loud-1"]);
        assert_eq!(in_turns(due(100), "calm")[..3], ["loud-0", "quiet", "calm"]);
        assert_eq!(in_turns(due(100), "loud")[..2], ["quiet", "calm"]);
        assert_eq!(in_turns(due(0), "quiet"), ["calm", "quiet"]);
        assert_eq!(in_turns(due(0), "z"), ["calm", "quiet"]);
        assert!(in_turns(std::iter::empty::<(String, ())>(), "a").is_empty());
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
