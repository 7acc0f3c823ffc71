//! The objects that a check selects, and the checks that fail regardless of their objects.

use super::object::FoundForCheck;
use super::{JudgeReason, Stage};
use crate::access_policy::{Check, ObjectKind, Provenance};
use crate::approval_kind::{self, LineageKind, has_lineage, may_approve, records_approvers};
use crate::check_selector::SelectorTemplate;
use crate::field_selector::FieldSelector;
use crate::lineage::Lineage;
use crate::shared_fields::FieldPath;
use crate::template::{Budget, RenderedLabels, Template, TemplateData};

/// The parsed selector of a check, independent of the asking pod, or the error with which the check fails
/// regardless of its objects.
#[derive(Debug)]
pub(super) struct CheckSelectors {
    refused: Option<SelectionProblem>,
    /// Used before a grant.
    by_policy: SelectorTemplate,
}

/// The requirements for an object to decide a check.
#[derive(Debug)]
pub(super) enum CheckSelection {
    /// Those of the policy's current selector.
    ByPolicy(Box<ByPolicy>),
    /// None: the objects are those that access was granted on.
    ByGrant,
}

#[derive(Debug)]
pub(super) struct ByPolicy {
    namespace: String,
    labels: RenderedLabels,
    fields: Option<FieldSelector>,
}

pub(super) type SelectionProblem = (JudgeReason, String);

fn failed(error: &dyn std::fmt::Display) -> SelectionProblem {
    let message = format!("selector.labels: {error}");
    (JudgeReason::TemplateFailed, message)
}

impl CheckSelectors {
    pub(super) fn of(check: &Check, by_policy: SelectorTemplate) -> Self {
        Self {
            refused: refused(check).err(),
            by_policy,
        }
    }

    /// The templates that are rendered from the pod.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        let labels = self.by_policy.labels.iter();
        labels.flat_map(|it| it.iter().map(|(_, template)| template))
    }
}

/// The error for a field that policies of other namespaces may not see.
#[must_use]
pub fn not_shared(field: &str) -> String {
    format!(
        "selector.fieldSelector: {field} is not shared with policies of other namespaces; leave it out, or ask the \
         administrator to add it to checks.sharedFields"
    )
}

/// The error with which a check fails both before and after a grant.
fn refused(check: &Check) -> Result<(), SelectionProblem> {
    if !may_approve(&check.selector.object_ref) {
        let ObjectKind { api_version, kind } = &check.selector.object_ref;
        let message = format!(
            "selector.objectRef: a {kind} of {api_version} is no approval; select a kind that \
             records approvals, or a ConfigMap"
        );
        return Err((JudgeReason::KindRefused, message));
    }
    proof(check)?;
    if check.approvers.is_some() && !records_approvers(&check.selector.object_ref) {
        let message = format!(
            "a {} does not record who approved; remove approvers from the check",
            check.selector.object_ref.kind
        );
        return Err((JudgeReason::ApproversUnsupported, message));
    }
    Ok(())
}

impl CheckSelection {
    /// The selection, or the error with which the check fails regardless of its objects.
    pub(super) fn of(
        selector: &CheckSelectors,
        pod_namespace: &str,
        data: &TemplateData,
        budget: &mut Budget,
        stage: Stage,
    ) -> Result<Self, SelectionProblem> {
        let CheckSelectors { refused, by_policy } = selector;
        if let Some(problem) = refused {
            return Err(problem.clone());
        }
        if stage == Stage::AfterGrant {
            return Ok(Self::ByGrant);
        }
        let SelectorTemplate { labels, fields } = by_policy;
        let labels = labels.as_ref().map_err(|error| failed(error))?;
        let labels = labels
            .render(data, budget)
            .map_err(|error| failed(&error))?;
        let fields = fields.as_ref();
        let fields = fields.map_err(|error| (JudgeReason::SelectorInvalid, error.to_string()))?;
        Ok(Self::ByPolicy(Box::new(ByPolicy {
            namespace: pod_namespace.to_owned(),
            labels,
            fields: fields.clone(),
        })))
    }

    /// The same, or an error if a policy of another namespace selects by fields that it may not see: whether
    /// an object is found would disclose their values.
    pub(super) fn of_shared_fields(
        self,
        is_foreign: bool,
        shared: &[FieldPath],
    ) -> Result<Self, SelectionProblem> {
        let hidden = match &self {
            Self::ByPolicy(it) if is_foreign => it.fields.as_ref().and_then(|it| it.hidden(shared)),
            Self::ByPolicy(_) | Self::ByGrant => None,
        };
        match hidden {
            Some(field) => Err((JudgeReason::SelectorInvalid, not_shared(&field))),
            None => Ok(self),
        }
    }

    /// True before a grant. Then an object that is being deleted counts as deleted; objects that access was granted on
    /// count until the caller finds them gone.
    pub(super) const fn is_by_policy(&self) -> bool {
        match self {
            Self::ByPolicy(_) => true,
            Self::ByGrant => false,
        }
    }

    /// The labels of all objects, if nothing else selects them.
    pub(super) fn only_labels(&self) -> Option<&RenderedLabels> {
        match self {
            Self::ByPolicy(it) if it.fields.is_none() => Some(&it.labels),
            Self::ByPolicy(_) | Self::ByGrant => None,
        }
    }

    /// The reason why an object does not belong to the check.
    pub(super) fn problem_with(
        &self,
        check: &Check,
        object: &FoundForCheck,
    ) -> Option<SelectionProblem> {
        let Some(identity) = &object.identity else {
            let message = "an object without apiVersion, kind, namespace, name, UID or \
                           resourceVersion cannot be told from another"
                .to_owned();
            return Some((JudgeReason::NotSelected, message));
        };
        let Self::ByPolicy(by_policy) = self else {
            return None;
        };
        let ByPolicy {
            namespace,
            labels,
            fields,
        } = by_policy.as_ref();
        let kind = &check.selector.object_ref;
        let other = if identity.api_version != kind.api_version || identity.kind != kind.kind {
            "is of another kind than the check selects"
        } else if identity.namespace != *namespace {
            "is not in the pod's namespace"
        } else if !labels.match_found(|key| object.label(key)) {
            "does not have the labels that the check selects"
        } else if fields
            .as_ref()
            .is_some_and(|fields| !fields.matches(&object.value))
        {
            "does not have the fields that the check selects"
        } else {
            return None;
        };
        let message = format!("{identity} {other}");
        Some((JudgeReason::NotSelected, message))
    }
}

/// The proof that the objects of a check need before they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofNeeded {
    /// None: labels and state decide.
    No,
    /// That they belong to the pod's own run, by this lineage.
    By(&'static dyn Lineage),
    /// One that no lineage gives, so the check never passes.
    Unavailable,
}

impl ProofNeeded {
    /// The lineage that gives the proof.
    #[must_use]
    pub const fn lineage(self) -> Option<&'static dyn Lineage> {
        match self {
            Self::By(lineage) => Some(lineage),
            Self::No | Self::Unavailable => None,
        }
    }
}

/// The proof that a check asks for.
#[must_use]
pub fn proof_needed(check: &Check) -> ProofNeeded {
    let proof = approval_kind::of(&check.selector.object_ref).proof;
    match (check.provenance, proof) {
        (Provenance::None, _) | (Provenance::Auto, LineageKind::Unknown) => ProofNeeded::No,
        (Provenance::Auto | Provenance::Required, LineageKind::By(lineage)) => {
            ProofNeeded::By(lineage)
        }
        (Provenance::Required, LineageKind::Unknown)
        | (Provenance::Auto | Provenance::Required, LineageKind::Unprovable) => {
            ProofNeeded::Unavailable
        }
    }
}

/// A check whose proof no lineage gives fails.
fn proof(check: &Check) -> Result<(), SelectionProblem> {
    let kind = &check.selector.object_ref;
    match proof_needed(check) {
        ProofNeeded::No | ProofNeeded::By(_) => Ok(()),
        ProofNeeded::Unavailable => {
            let message = format!(
                "no lineage is known that proves that a {} belongs to the pod's pipeline run; \
                 {} in the check accepts it without proof",
                kind.kind,
                without_proof(check)
            );
            Err((JudgeReason::ProofUnavailable, message))
        }
    }
}

/// The setting with which objects of a check count without a proof.
#[must_use]
pub fn without_proof(check: &Check) -> &'static str {
    if has_lineage(&check.selector.object_ref) {
        "provenance: None"
    } else {
        "provenance: Auto"
    }
}
