//! The objects that must be read for the checks of a policy.

use std::{fmt, sync::Arc};

use connectors_api::{
    access_policy::{Check, Match, ObjectKind},
    check_selector::{CompiledPolicy, SelectorTemplate},
    context_view,
    field_selector::FieldSelector,
    judge::{ProofNeeded, not_shared, proof_needed},
    shared_fields::{FieldPath, SharedFields},
    template::{
        Budget, RenderError, RenderLabelsError, RenderProblem, RenderedLabels, TemplateData,
    },
};
use serde_json::Value;

/// The objects that one check selects, all in the pod's namespace.
#[derive(Clone, Debug)]
pub struct WantedObjects {
    /// The check's name.
    pub check: String,
    /// How its objects count.
    pub match_: Match,
    /// Their kind.
    pub kind: ObjectKind,
    /// An object counts only with a proof of its lineage.
    pub needs_proof: bool,
    /// Their labels and fields, or the reason why nothing can be selected.
    pub selection: Result<Selection, String>,
}

/// The conditions of a check on its objects.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The labels, at least one.
    pub labels: RenderedLabels,
    /// The fields.
    pub fields: Option<FieldSelector>,
}

/// The reason why a check cannot be judged, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckTrouble {
    /// The kind does not exist.
    KindMissing,
    /// Reading the kind is forbidden.
    KindForbidden,
    /// The controller reads the kind for its own work, so it is never read as a check.
    KindRefused,
    /// The kind is not namespaced.
    KindNotNamespaced,
    /// Nothing can be selected.
    SelectorInvalid,
    /// A selected object is unreadable.
    ObjectUnreadable,
    /// The objects between the pod and the approvals are too many or too large.
    LineageTooLarge,
}

impl CheckTrouble {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KindMissing => "KindMissing",
            Self::KindForbidden => "KindForbidden",
            Self::KindRefused => "KindRefused",
            Self::KindNotNamespaced => "KindNotNamespaced",
            Self::SelectorInvalid => "SelectorInvalid",
            Self::ObjectUnreadable => "ObjectUnreadable",
            Self::LineageTooLarge => "LineageTooLarge",
        }
    }
}

/// True when a check's reason is an error of its policy, which is found before any object is read.
pub(crate) fn is_trouble_of_policy(word: &str) -> bool {
    let of_policy = [
        CheckTrouble::KindMissing,
        CheckTrouble::KindForbidden,
        CheckTrouble::KindRefused,
        CheckTrouble::KindNotNamespaced,
        CheckTrouble::SelectorInvalid,
    ];
    of_policy.iter().any(|it| it.as_str() == word)
}

/// The objects that one check selects.
#[derive(Clone, Debug, Default)]
pub struct CheckCandidates {
    /// Those that were read, as JSON.
    pub texts: Vec<Arc<str>>,
    /// Why one of them, or what proves it, could not be read. It decides only where the others do not.
    pub unread: Option<(CheckTrouble, String)>,
}

/// The objects that one check selects, or why there can be none.
pub type FoundCandidates = Result<CheckCandidates, (CheckTrouble, String)>;

/// The selections of a policy's checks. Selectors are not parsed here, but once for each version of a policy.
#[must_use]
pub fn wanted(compiled: &CompiledPolicy, pod: &Value, shared: &SharedFields) -> Vec<WantedObjects> {
    let namespace = compiled.policy.metadata.namespace.as_deref();
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    let is_foreign = text("/metadata/namespace") != namespace;
    let data = TemplateData::of(context_view::of(pod, namespace.unwrap_or_default()));
    let mut budget = Budget::default();
    let checks = compiled.checks();
    checks
        .map(|(check, selector)| {
            let shared = shared.of(&check.selector.object_ref);
            let selection = selection(check, selector, &data, &mut budget, name);
            WantedObjects {
                check: check.name.clone(),
                match_: check.match_,
                kind: check.selector.object_ref.clone(),
                needs_proof: proof_needed(check) != ProofNeeded::No,
                selection: selection.and_then(|it| it.of_shared_fields(is_foreign, shared)),
            }
        })
        .collect()
}

fn selection(
    check: &Check,
    selector: &SelectorTemplate,
    data: &TemplateData,
    budget: &mut Budget,
    pod: &str,
) -> Result<Selection, String> {
    let labels = selector.labels.as_ref();
    let labels = labels
        .map_err(ToString::to_string)?
        .render(data, budget)
        .map_err(|error| unfilled(&error, pod, &check.selector.object_ref.kind))?;
    let fields = selector.fields.as_ref();
    let fields = fields.map_err(ToString::to_string)?.clone();
    Ok(Selection { labels, fields })
}

/// The reason why there is nothing to select, with the object that lacks the value.
fn unfilled(error: &RenderLabelsError, pod: &str, kind: &str) -> String {
    match error {
        RenderLabelsError::Render {
            error:
                RenderError {
                    problem: RenderProblem::NoLabel(label),
                    ..
                },
            ..
        } => format!("pod {pod} has no label `{label}`, by which the check finds its {kind}"),
        RenderLabelsError::Render { .. } | RenderLabelsError::Value { .. } => error.to_string(),
    }
}

impl Selection {
    /// The same, unless a policy of another namespace selects by a field that is not shared: the objects that it
    /// finds would reveal the field's values.
    fn of_shared_fields(self, is_foreign: bool, shared: &[FieldPath]) -> Result<Self, String> {
        let fields = self.fields.as_ref().filter(|_| is_foreign);
        match fields.and_then(|it| it.hidden(shared)) {
            Some(field) => Err(not_shared(&field)),
            None => Ok(self),
        }
    }

    /// True when an object with these labels may be selected.
    #[must_use]
    pub fn has_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.labels.match_found(label)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "labels {}", self.labels)?;
        if self.fields.is_some() {
            f.write_str(" and the policy's fieldSelector")?;
        }
        Ok(())
    }
}
