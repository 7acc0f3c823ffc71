//! The evaluation of one object.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::approvers::{self, Approvals};
use super::candidate::{CheckSelection, SelectionProblem};
use super::creator::RunCreator;
use super::{JudgeReason, ObjectJudgement, RegoAnswer, RegoFailure, ResultReason, Stage, verdict};
use crate::access_policy::{Check, ObjectKind};
use crate::access_request::Approval;
use crate::approval_kind::records_approvers;
use crate::check_state::{CheckOutcome, ObjectState, StateError};
use crate::field::field;
use crate::lineage::{Lineage, LineageQuestion, LineageVerdict, Unproven};
use crate::object_ref::ObjectRef;
use crate::template::RenderedLabels;

/// Replaces a module's message that the pod's tenant may read and the policy's author may not.
const HIDDEN: &str = "the policy's Rego module decided; its words are not shown because the pod is \
                      in another namespace than the policy";

/// An object that was found for a check.
#[derive(Debug)]
pub(super) struct FoundForCheck {
    pub(super) value: Value,
    /// The part that a policy of another namespace sees; none if the policy is in the object's namespace.
    pub(super) seen: Option<Value>,
    /// None when the identity is incomplete.
    pub(super) identity: Option<ObjectRef>,
    /// The verdict of the lineage; none if the check asks for no proof.
    pub(super) proof: Option<LineageVerdict>,
    /// The reason why it does not belong to its check.
    pub(super) problem: Option<SelectionProblem>,
    /// The creator of the pipeline run.
    creator: RunCreator,
}

/// An object with its result.
pub(super) struct JudgedObject {
    identity: ObjectRef,
    state: String,
    /// None when the state cannot be determined.
    outcome: Option<CheckOutcome>,
    reason: ResultReason,
    message: String,
    approved_by: Vec<String>,
    approvals: Vec<Approval>,
    lineage: Vec<ObjectRef>,
    run_creator: Option<String>,
}

impl FoundForCheck {
    pub(super) fn read(value: Value) -> Self {
        let text = |path: &[&str]| {
            let text = field(&value, path).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let identity = || {
            Some(ObjectRef {
                namespace: text(&["metadata", "namespace"])?,
                name: text(&["metadata", "name"])?,
                uid: text(&["metadata", "uid"])?,
                api_version: text(&["apiVersion"])?,
                kind: text(&["kind"])?,
                resource_version: text(&["metadata", "resourceVersion"])?,
            })
        };
        Self {
            identity: identity(),
            value,
            seen: None,
            proof: None,
            problem: None,
            creator: RunCreator::Unknown("no proof of lineage leads to its pipeline run".into()),
        }
    }

    /// Judges the lineage from the pod to this approval, at the expense of the question.
    pub(super) fn prove(
        &mut self,
        lineage: &'static dyn Lineage,
        pod: &Value,
        objects: &[Value],
        stage: Stage,
        steps: &mut usize,
    ) {
        let approval = &self.value;
        self.proof = Some(match stage {
            Stage::BeforeGrant => {
                let question = LineageQuestion {
                    pod,
                    approval,
                    objects,
                };
                lineage.judge_within(&question, steps)
            }
            Stage::AfterGrant => lineage.still_holds(approval, objects),
        });
    }

    /// Finds the creator of the pipeline run of the proof.
    pub(super) fn find_creator(&mut self, rule_since: Option<Timestamp>, stage: Stage) {
        let evidence = self.proof.as_ref().and_then(|it| it.proof().ok());
        if let Some(evidence) = evidence {
            self.creator = RunCreator::of(evidence.origin.as_ref(), rule_since, stage);
        }
    }

    fn is_proven(&self) -> bool {
        self.proof.as_ref().is_some_and(|it| it.proof().is_ok())
    }

    /// The absence of a proof that the check asks for.
    pub(super) fn unproven(&self) -> Option<Unproven<'_>> {
        self.proof.as_ref()?.proof().err()
    }

    /// The pipeline run of the proof.
    fn run<'a>(&self, objects: &'a [Value]) -> Option<&'a Value> {
        let evidence = self.proof.as_ref()?.proof().ok()?;
        let run = evidence.objects.first()?;
        let is_it =
            |it: &&Value| it.pointer("/metadata/uid") == Some(&Value::String(run.uid.clone()));
        objects.iter().find(is_it)
    }

    /// A label. One whose value is no text matches nothing.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        field(&self.value, &["metadata", "labels", key])?.as_str()
    }

    fn is_being_deleted(&self) -> bool {
        let time = field(&self.value, &["metadata", "deletionTimestamp"]);
        time.is_some_and(|time| !time.is_null())
    }

    /// The result of an object that the check selects.
    pub(super) fn judge(
        &self,
        check: &Check,
        selection: &CheckSelection,
        rego: Option<Result<RegoAnswer, RegoFailure>>,
        is_foreign: bool,
    ) -> JudgedObject {
        let identity = self.identity.clone().unwrap_or_default();
        let kind = &check.selector.object_ref;
        let approvals = records_approvers(kind).then(|| self.approvals(check));
        let (state, words) = match rego {
            None => match ObjectState::of(&self.value) {
                Ok(state) => (state, None),
                Err(error) => return unreadable(self, error),
            },
            Some(Ok(RegoAnswer { state, message })) if is_foreign => {
                (hidden(state), message.map(|_| HIDDEN.to_owned()))
            }
            Some(Ok(RegoAnswer { state, message })) => (state, message),
            Some(Err(failure)) => return rego_failed(self, &failure, is_foreign),
        };
        let words = words.filter(|words| !words.is_empty());
        let (outcome, reason, message) = if self.is_being_deleted() && selection.is_by_policy() {
            being_deleted(&identity)
        } else {
            let approvals = approvals.as_ref();
            let (outcome, reason, message) = by_state(
                check,
                (&identity, self.awaiting(selection)),
                &state,
                words.as_deref(),
                approvals.map(|it| (it, &self.creator)),
            );
            (outcome, reason.into(), message)
        };
        let (approved_by, mut approvals) = approvals.map(Approvals::told).unwrap_or_default();
        if is_foreign {
            // Messages and groups are of the pod's namespace alone.
            approvals.clear();
        }
        JudgedObject {
            state: state.as_str().to_owned(),
            outcome,
            reason,
            message,
            approved_by,
            approvals,
            lineage: self.lineage(),
            run_creator: self.excluded(check).map(str::to_owned),
            identity,
        }
    }

    /// The result of an object whose lineage does not prove it. A rejection counts only with a proof, because
    /// any account of the namespace may be able to create an object that rejects.
    pub(super) fn without_proof(
        &self,
        check: &Check,
        selection: &CheckSelection,
        unproven: Unproven<'_>,
    ) -> JudgedObject {
        let identity = self.identity.clone().unwrap_or_default();
        let (outcome, reason, message) = match unproven {
            _ if self.is_being_deleted() && selection.is_by_policy() => being_deleted(&identity),
            Unproven::Rejected(refusal) => {
                let message = format!("{identity}: {}", refusal.message);
                let outcome = Some(CheckOutcome::Rejected);
                (outcome, ResultReason::Lineage(refusal.reason), message)
            }
            Unproven::Refused(refusal) => {
                let message = format!("{identity}: {}", refusal.message);
                (None, ResultReason::Lineage(refusal.reason), message)
            }
            Unproven::Undecided => {
                let message = pending(
                    &check.selector.object_ref,
                    &identity,
                    self.awaiting(selection),
                );
                let outcome = Some(CheckOutcome::Pending);
                (outcome, JudgeReason::Pending.into(), message)
            }
            Unproven::Incomplete(missing) => {
                let message = format!(
                    "{identity} is not proven yet to belong to the pod's run, which takes {missing}"
                );
                let outcome = Some(CheckOutcome::Pending);
                (outcome, JudgeReason::LineageIncomplete.into(), message)
            }
        };
        let state = ObjectState::of(&self.value);
        JudgedObject {
            state: state.map_or_else(|_| String::new(), |it| it.as_str().to_owned()),
            outcome,
            reason,
            message,
            approved_by: Vec::new(),
            approvals: Vec::new(),
            lineage: Vec::new(),
            run_creator: None,
            identity,
        }
    }

    /// The approvals that count for a check.
    fn approvals(&self, check: &Check) -> Approvals {
        let approvals = approvers::of(&self.value);
        let Some(wanted) = &check.approvers else {
            return approvals;
        };
        match &self.creator {
            _ if !wanted.not_requester => approvals.counted(wanted, None),
            RunCreator::Known(creator) => approvals.counted(wanted, Some(creator)),
            RunCreator::Unknown(_) => Approvals::default(),
        }
    }

    /// The object, if its approvers may be named. After a grant the message is shown in the policy's namespace too, which
    /// may be another one.
    fn awaiting(&self, selection: &CheckSelection) -> Option<&Value> {
        selection.is_by_policy().then_some(&self.value)
    }

    /// The creator of the run, if the check does not count that user's approval.
    fn excluded(&self, check: &Check) -> Option<&str> {
        let excludes = check.approvers.as_ref().is_some_and(|it| it.not_requester);
        match &self.creator {
            RunCreator::Known(creator) if excludes => Some(creator),
            RunCreator::Known(_) | RunCreator::Unknown(_) => None,
        }
    }

    /// The objects between pod and approval.
    fn lineage(&self) -> Vec<ObjectRef> {
        let proof = self.proof.as_ref().and_then(|it| it.proof().ok());
        proof.map_or_else(Vec::new, |it| it.objects.clone())
    }
}

/// Sorts by identity, so that the order in which the objects arrived does not matter. Those with the same identity are sorted
/// by all that they say. Returns whether there are such.
pub(super) fn sort(objects: &mut [FoundForCheck]) -> bool {
    objects.sort_by(|one, other| one.identity.cmp(&other.identity));
    let mut twins = false;
    let same = |one: &FoundForCheck, other: &FoundForCheck| one.identity == other.identity;
    for objects in objects.chunk_by_mut(same).filter(|it| it.len() > 1) {
        objects.sort_by_cached_key(|it| it.value.to_string());
        twins = true;
    }
    twins
}

/// The approval that the run of the proven objects asked for and that is not among them. Without steps to look for it,
/// they are refused.
pub(super) fn missing_beside(
    objects: &mut [FoundForCheck],
    lineage: &'static dyn Lineage,
    labels: &RenderedLabels,
    links: &[Value],
    steps: &mut usize,
) -> Option<String> {
    // All proven objects belong to the pod's own run.
    let run = objects.iter().find_map(|it| it.run(links))?;
    let names = objects.iter().filter_map(|it| it.identity.as_ref());
    let names: BTreeSet<_> = names.map(|it| it.name.as_str()).collect();
    let missing = lineage.not_found(run, labels, &|name| names.contains(name), steps);
    match missing {
        Ok(other) => other,
        Err(refusal) => {
            for object in objects.iter_mut().filter(|it| it.is_proven()) {
                object.proof = Some(LineageVerdict::Refused(refusal.clone()));
            }
            None
        }
    }
}

fn being_deleted(identity: &ObjectRef) -> (Option<CheckOutcome>, ResultReason, String) {
    let message = format!("{identity} is being deleted");
    let outcome = CheckOutcome::NotHolding;
    (Some(outcome), JudgeReason::BeingDeleted.into(), message)
}

fn by_state(
    check: &Check,
    (identity, awaiting): (&ObjectRef, Option<&Value>),
    state: &ObjectState,
    words: Option<&str>,
    approvals: Option<(&Approvals, &RunCreator)>,
) -> (Option<CheckOutcome>, JudgeReason, String) {
    let outcome = state.outcome();
    let said = |sentence: String| words.map_or(sentence, str::to_owned);
    match outcome {
        CheckOutcome::Passed => {
            if let (Some(wanted), Some((approvals, creator))) = (&check.approvers, approvals) {
                if wanted.not_requester
                    && let RunCreator::Unknown(why) = creator
                {
                    let message = format!("{identity}: notRequester: {why}");
                    return (None, JudgeReason::CreatorUnknown, message);
                }
                if let Err(short) = approvals.meet(wanted) {
                    let message = format!("{identity} {short}");
                    return (None, JudgeReason::QuorumNotMet, message);
                }
            }
            let message = said(format!("{identity} is {}", state.as_str()));
            (Some(outcome), JudgeReason::Approved, message)
        }
        CheckOutcome::Pending => {
            let message = said(pending(&check.selector.object_ref, identity, awaiting));
            (Some(outcome), JudgeReason::Pending, message)
        }
        CheckOutcome::Rejected => {
            let message = said(format!("{identity} is rejected"));
            (Some(outcome), JudgeReason::Rejected, message)
        }
        CheckOutcome::NotHolding => {
            let sentence = format!(
                "{identity} is in state {:?}; only approved and passed let through{}",
                state.as_str(),
                spelling(state).unwrap_or_default(),
            );
            (Some(outcome), JudgeReason::NotHolding, said(sentence))
        }
    }
}

/// The hint for a word that would be known in lower case.
fn spelling(state: &ObjectState) -> Option<String> {
    let word = state.as_str().to_lowercase();
    match ObjectState::from_word(&word)? {
        ObjectState::Other(_) => None,
        ObjectState::Approved
        | ObjectState::Passed
        | ObjectState::Pending
        | ObjectState::Rejected => Some(format!(", and the words are lower case: write {word:?}")),
    }
}

/// A word made up by a module may contain any part of any object.
fn hidden(state: ObjectState) -> ObjectState {
    match state {
        ObjectState::Other(_) => ObjectState::from_word("other").unwrap_or(ObjectState::Pending),
        ObjectState::Approved
        | ObjectState::Passed
        | ObjectState::Pending
        | ObjectState::Rejected => state,
    }
}

/// The sentence about an object without a decision. The approvers are named where there is an object to read them from.
fn pending(kind: &ObjectKind, identity: &ObjectRef, awaiting: Option<&Value>) -> String {
    if records_approvers(kind) {
        let ObjectRef {
            namespace, name, ..
        } = identity;
        let awaited = awaiting.map_or_else(|| "its approvers".to_owned(), approvers::awaited);
        let kind = identity.kind.to_ascii_lowercase();
        format!(
            "{identity} waits for {awaited}: kubectl connectors approve {kind}/{name} -n {namespace}"
        )
    } else {
        format!("{identity} is pending")
    }
}

fn unreadable(object: &FoundForCheck, error: StateError) -> JudgedObject {
    let identity = object.identity.clone().unwrap_or_default();
    let message = format!("{identity}: {error}");
    JudgedObject::failed(object, JudgeReason::StateUnreadable.into(), message)
}

fn rego_failed(object: &FoundForCheck, failure: &RegoFailure, is_foreign: bool) -> JudgedObject {
    let identity = object.identity.clone().unwrap_or_default();
    let (reason, detail) = match failure {
        RegoFailure::Limit(detail) => (JudgeReason::RegoLimit, detail),
        RegoFailure::Failed(detail) => (JudgeReason::RegoFailed, detail),
    };
    let message = if is_foreign {
        format!("the Rego module gives no answer for {identity}")
    } else {
        format!("the Rego module gives no answer for {identity}: {detail}")
    };
    JudgedObject::failed(object, reason.into(), message)
}

impl JudgedObject {
    pub(super) fn failed(object: &FoundForCheck, reason: ResultReason, message: String) -> Self {
        Self {
            identity: object.identity.clone().unwrap_or_default(),
            state: String::new(),
            outcome: None,
            reason,
            message,
            approved_by: Vec::new(),
            approvals: Vec::new(),
            lineage: Vec::new(),
            run_creator: None,
        }
    }

    /// The result beside another approval of the run, which the check does not find: a pass waits for it.
    pub(super) fn beside_missing(self, other: &str) -> Self {
        if self.outcome != Some(CheckOutcome::Passed) {
            return self;
        }
        let message = format!(
            "{}: its run asked for ApprovalTask {other} too, which is not there or has lost its labels; match: All waits for \
             every approval of the run",
            self.identity
        );
        Self {
            outcome: Some(CheckOutcome::Pending),
            reason: JudgeReason::OtherApprovalMissing.into(),
            message,
            ..self
        }
    }

    /// The result for the check.
    pub(super) fn outcome(&self) -> Result<CheckOutcome, ()> {
        self.outcome.ok_or(())
    }

    /// The caller passed an object that the check does not select, so it may have missed others.
    pub(super) fn is_not_selected(&self) -> bool {
        self.reason == ResultReason::Judge(JudgeReason::NotSelected)
    }

    pub(super) fn told(self) -> ObjectJudgement {
        let Self {
            identity,
            state,
            outcome,
            reason,
            message,
            approved_by,
            approvals,
            lineage,
            run_creator,
        } = self;
        ObjectJudgement {
            object: identity,
            state,
            verdict: verdict(outcome),
            reason,
            message,
            approved_by,
            approvals,
            lineage,
            run_creator,
        }
    }
}
