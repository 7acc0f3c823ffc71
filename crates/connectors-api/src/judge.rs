//! The evaluation of a policy's checks for one pod, from objects that the caller has read.
//!
//! It has two steps, because Rego may run only in processes that can be killed: [`prepare`] collects the
//! questions to Rego modules, and [`Prepared::finish`] takes the answers. All waiting happens in between.
//!
//! An error in the question as a whole is a [`JudgeError`]. An error in one check or one object is part of
//! the judgement and fails that check. No error ever grants access.

mod approvers;
mod candidate;
mod creator;
mod input;
mod link_sets;
mod message;
mod needed;
mod object;
mod policy;
mod reason;
pub(crate) mod rules;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub use approvers::{ApproverAnswer, ListedApprover, listed as listed_approvers};
pub use candidate::{ProofNeeded, not_shared, proof_needed, without_proof};
pub use input::JudgeError;
pub use needed::{NeededParts, needed_parts};
pub use policy::GatedPolicy;
pub use reason::{JudgeReason, ResultReason, RulesReason};
pub use rules::{NoRules, RenderedRule};

use crate::access_policy::Match;
use crate::access_request::Approval;
use crate::check_state::{CheckOutcome, ObjectState};
use crate::check_verdict::{of_checks, of_objects};
use crate::context_view;
use crate::lineage::MOST_STEPS_OF_ALL;
use crate::object_ref::ObjectRef;
use crate::reason::AccessCheckReady;
use crate::shared_fields::{FieldPath, seen_from_elsewhere};
use crate::template::{Budget, TemplateData};
use candidate::CheckSelection;
use link_sets::LinkSets;
use object::FoundForCheck;
use policy::PolicyCheck;

/// A policy, the asking pod, and the objects found for the policy's checks.
#[derive(Clone, Debug)]
pub struct PolicyQuestion<P = Value> {
    /// The `AccessPolicy`, the copy of it that was kept when access was granted, or its parsed form.
    pub policy: P,
    /// The complete pod. The parts that the policy must not see are removed here.
    pub context: Value,
    /// The requested connector, in the policy's namespace.
    pub connector: String,
    /// The objects found for each check, by the check's name. For a check that is missing here, none were
    /// found.
    pub candidates: BTreeMap<String, Vec<Value>>,
    /// The fields of each check's objects that the installation shares, by the check's name. They matter for
    /// a pod of another namespace than the policy's.
    pub shared: BTreeMap<String, Vec<FieldPath>>,
    /// The objects between the pod and the approvals, for checks that ask for a proof. After the grant: the pipeline
    /// run that the grant rests on.
    pub lineage: Vec<Value>,
    /// Since when the installation keeps the creators of pipeline runs true. None if it does not. After the grant it
    /// does not matter.
    pub creators_since: Option<Timestamp>,
    /// Before or after the grant.
    pub stage: Stage,
}

/// The time of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Candidates must match the check's selector; rules are rendered when all checks pass.
    BeforeGrant,
    /// Candidates are the objects that access was granted on, and only their states count. The caller handles
    /// deleted objects by the check's latch: without objects a check never passes here.
    AfterGrant,
}

/// The result of evaluating all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The combined verdict.
    pub verdict: AccessCheckReady,
    /// The result of each check, in the policy's order.
    pub checks: Vec<CheckJudgement>,
    /// The rules to grant: only before a grant, and only when all checks pass.
    pub rules: Option<Result<Vec<RenderedRule>, NoRules>>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckJudgement {
    /// The check's name.
    pub check: String,
    /// Its verdict.
    pub verdict: AccessCheckReady,
    /// The reason, as one word.
    pub reason: ResultReason,
    /// The reason, as a sentence with a remedy.
    pub message: String,
    /// The judged objects, ordered by name.
    pub objects: Vec<ObjectJudgement>,
}

/// The result of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectJudgement {
    /// The object; empty when its identity is incomplete.
    pub object: ObjectRef,
    /// The state; empty when it could not be read.
    pub state: String,
    /// The meaning of the state for the check.
    pub verdict: AccessCheckReady,
    /// The reason, as one word.
    pub reason: ResultReason,
    /// The reason, as a sentence.
    pub message: String,
    /// The approvers, if the object records them.
    pub approved_by: Vec<String>,
    /// The groups and messages of approvers with one.
    pub approvals: Vec<Approval>,
    /// The objects that prove that it belongs to the pod's run; empty without a proof.
    pub lineage: Vec<ObjectRef>,
    /// The creator of the pod's run, if the check excludes that user from its approvers.
    pub run_creator: Option<String>,
}

/// A question to a Rego module. The module has not been parsed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegoJob<'a> {
    /// The module.
    pub module: &'a str,
    /// The check object.
    pub input: &'a Value,
    /// The pod as the policy may see it.
    pub context: &'a Value,
}

/// The answer of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegoAnswer {
    /// The state of the object according to the module.
    pub state: ObjectState,
    /// The module's explanation.
    pub message: Option<String>,
}

/// The reason why a module gives no answer. The texts may quote the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegoFailure {
    /// The module exceeded a limit, or no worker was left to run it.
    Limit(String),
    /// The module is invalid, or gives no answer for the object.
    Failed(String),
}

/// A parsed question that waits for the answers of its modules.
#[derive(Debug)]
pub struct Prepared {
    policy: Arc<GatedPolicy>,
    /// The pod as the policy may see it.
    data: TemplateData,
    /// The policy and the pod are in different namespaces.
    is_foreign: bool,
    /// Objects of a check have the same identity.
    has_twins: bool,
    /// One for each check of the policy.
    checks: Vec<PreparedCheck>,
    stage: Stage,
}

#[derive(Debug)]
struct PreparedCheck {
    /// The error if the check fails regardless of its objects.
    selection: Result<CheckSelection, (JudgeReason, String)>,
    objects: Vec<FoundForCheck>,
    /// Another approval of the pod's run, which the check has not found.
    awaited: Option<String>,
}

impl<P> PolicyQuestion<P> {
    /// The same question with a parsed policy.
    pub fn about(self, policy: Arc<GatedPolicy>) -> PolicyQuestion<Arc<GatedPolicy>> {
        let Self {
            policy: _,
            context,
            connector,
            candidates,
            shared,
            lineage,
            creators_since,
            stage,
        } = self;
        PolicyQuestion {
            policy,
            context,
            connector,
            candidates,
            shared,
            lineage,
            creators_since,
            stage,
        }
    }
}

impl PolicyQuestion {
    /// Parses the policy, for this question alone.
    pub fn read(self) -> Result<PolicyQuestion<Arc<GatedPolicy>>, JudgeError> {
        let policy = GatedPolicy::read(&self.policy)?;
        Ok(self.about(Arc::new(policy)))
    }
}

/// Prepares the questions to Rego modules.
pub fn prepare(question: PolicyQuestion<Arc<GatedPolicy>>) -> Result<Prepared, JudgeError> {
    let pod_namespace = input::check(&question)?;
    let PolicyQuestion {
        policy,
        context: pod,
        connector: _,
        mut candidates,
        shared,
        lineage,
        creators_since,
        stage,
    } = question;
    let is_foreign = pod_namespace != policy.namespace;
    let links = LinkSets::of(&policy.checks, lineage);
    // A proof takes the whole pod, of which the policy may see a part.
    let mut found: Vec<Vec<FoundForCheck>> = Vec::new();
    let mut has_twins = false;
    let mut steps = MOST_STEPS_OF_ALL;
    for of in &policy.checks {
        let objects = candidates.remove(&of.check.name).unwrap_or_default();
        let mut objects: Vec<FoundForCheck> =
            objects.into_iter().map(FoundForCheck::read).collect();
        has_twins |= object::sort(&mut objects);
        if let Some(lineage) = proof_needed(&of.check).lineage() {
            for object in &mut objects {
                object.prove(lineage, &pod, links.get(lineage), stage, &mut steps);
                object.find_creator(creators_since, stage);
            }
        }
        found.push(objects);
    }
    let data = TemplateData::of(context_view::into(pod, &policy.namespace));
    let mut budget = Budget::default();
    let prepare = |(of, mut objects): (&PolicyCheck, Vec<FoundForCheck>)| {
        let PolicyCheck { check, selector } = of;
        let shared = shared.get(&check.name).map_or(&[][..], Vec::as_slice);
        if is_foreign && of.module().is_some() {
            let labels = || check.selector.labels.keys().map(String::as_str);
            for object in &mut objects {
                object.seen = Some(seen_from_elsewhere(&object.value, labels(), shared));
            }
        }
        let selection = CheckSelection::of(selector, &pod_namespace, &data, &mut budget, stage);
        let selection = selection.and_then(|it| it.of_shared_fields(is_foreign, shared));
        let labels = selection
            .as_ref()
            .ok()
            .filter(|_| check.match_ == Match::All);
        let labels = labels.and_then(CheckSelection::only_labels);
        let by_labels = labels.zip(proof_needed(check).lineage());
        let awaited = by_labels.and_then(|(labels, lineage)| {
            let links = links.get(lineage);
            object::missing_beside(&mut objects, lineage, labels, links, &mut steps)
        });
        if let Ok(selection) = &selection {
            for object in &mut objects {
                object.problem = selection.problem_with(check, object);
            }
        }
        PreparedCheck {
            selection,
            objects,
            awaited,
        }
    };
    Ok(Prepared {
        checks: policy.checks.iter().zip(found).map(prepare).collect(),
        is_foreign,
        has_twins,
        policy,
        data,
        stage,
    })
}

impl PreparedCheck {
    /// The module that evaluates the objects of the check, unless the check fails anyway.
    fn module<'a>(&self, of: &'a PolicyCheck) -> Option<&'a str> {
        of.module().filter(|_| self.selection.is_ok())
    }

    fn jobs<'a>(
        &'a self,
        of: &'a PolicyCheck,
        context: &'a Value,
    ) -> impl Iterator<Item = RegoJob<'a>> {
        let asked = self.module(of).into_iter();
        asked.flat_map(move |module| {
            let counts =
                |object: &&FoundForCheck| object.problem.is_none() && object.unproven().is_none();
            let job = move |object: &'a FoundForCheck| RegoJob {
                module,
                input: object.seen.as_ref().unwrap_or(&object.value),
                context,
            };
            self.objects.iter().filter(counts).map(job)
        })
    }
}

impl Prepared {
    /// The questions to Rego modules, always in the same order.
    pub fn rego_jobs(&self) -> impl Iterator<Item = RegoJob<'_>> {
        let context = self.data.object();
        let checks = self.checks.iter().zip(&self.policy.checks);
        checks.flat_map(|(check, of)| check.jobs(of, context))
    }

    /// Whether two objects of a check have the same identity. Then all that they say decides their order.
    #[must_use]
    pub const fn has_twins(&self) -> bool {
        self.has_twins
    }

    /// The judgement, given the answers in the order of the questions. A missing answer is a failure.
    #[must_use]
    pub fn finish(
        self,
        answers: impl IntoIterator<Item = Result<RegoAnswer, RegoFailure>>,
    ) -> Judgement {
        let mut answers = answers.into_iter();
        let Self {
            policy,
            data,
            is_foreign,
            has_twins: _,
            checks,
            stage,
        } = self;
        let checks = checks.into_iter().zip(&policy.checks);
        let judge = |(check, of)| judge(check, of, is_foreign, &mut answers);
        let checks: Vec<_> = checks.map(judge).collect();
        let verdict = of_checks(checks.iter().map(|check| check.verdict));
        let grants = stage == Stage::BeforeGrant && verdict == AccessCheckReady::AccessCheckPassed;
        Judgement {
            verdict,
            checks,
            rules: grants.then(|| policy.rules.render(policy.permission, &data)),
        }
    }
}

fn judge(
    prepared: PreparedCheck,
    of: &PolicyCheck,
    is_foreign: bool,
    answers: &mut impl Iterator<Item = Result<RegoAnswer, RegoFailure>>,
) -> CheckJudgement {
    let is_rego = prepared.module(of).is_some();
    let PreparedCheck {
        selection,
        objects,
        awaited,
    } = prepared;
    let check = &of.check;
    let judged: Vec<object::JudgedObject> = match &selection {
        Err((reason, message)) => {
            let failed = |object| {
                object::JudgedObject::failed(object, ResultReason::Judge(*reason), message.clone())
            };
            objects.iter().map(failed).collect()
        }
        Ok(selection) => {
            let judge = |object: &FoundForCheck| {
                if let Some((reason, message)) = &object.problem {
                    let reason = ResultReason::Judge(*reason);
                    return object::JudgedObject::failed(object, reason, message.clone());
                }
                if let Some(unproven) = object.unproven() {
                    return object.without_proof(check, selection, unproven);
                }
                let said = is_rego.then(|| {
                    let missing = || Err(RegoFailure::Limit("was not asked".to_owned()));
                    answers.next().unwrap_or_else(missing)
                });
                let judged = object.judge(check, selection, said, is_foreign);
                match &awaited {
                    Some(other) => judged.beside_missing(other),
                    None => judged,
                }
            };
            objects.iter().map(judge).collect()
        }
    };
    let outcomes = judged.iter().map(object::JudgedObject::outcome);
    let was_misled = judged.iter().any(object::JudgedObject::is_not_selected);
    let verdict = match selection {
        Ok(_) if !was_misled => of_objects(check.match_, outcomes),
        Ok(_) | Err(_) => AccessCheckReady::AccessCheckFailed,
    };
    let objects: Vec<_> = judged.into_iter().map(object::JudgedObject::told).collect();
    let (reason, message) = match selection {
        Err((reason, message)) => (reason.into(), message),
        Ok(_) => message::of_check(check, verdict, &objects),
    };
    CheckJudgement {
        check: check.name.clone(),
        verdict,
        reason,
        message,
        objects,
    }
}

/// The verdict of one object, before and after the grant.
const fn verdict(outcome: Option<CheckOutcome>) -> AccessCheckReady {
    match outcome {
        Some(CheckOutcome::Passed) => AccessCheckReady::AccessCheckPassed,
        Some(CheckOutcome::Pending | CheckOutcome::NotHolding) => {
            AccessCheckReady::AccessCheckPending
        }
        Some(CheckOutcome::Rejected) => AccessCheckReady::AccessCheckRejected,
        None => AccessCheckReady::AccessCheckFailed,
    }
}
