//! What has to be read for the checks of a policy.

use std::{fmt, sync::Arc};

use connectors_api::{
    access_policy::{Check, Match, ObjectKind},
    check_selector::{CheckSelector, CompiledPolicy},
    context_view,
    field_selector::FieldSelector,
    judge::not_shared,
    shared_fields::{FieldPath, SharedFields},
    template::{
        Budget, RenderError, RenderLabelsError, RenderProblem, RenderedLabels, TemplateData,
    },
};
use serde_json::Value;

/// The objects that one check looks for, all in the pod's namespace.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The check's name.
    pub check: String,
    /// How its objects count.
    pub match_: Match,
    /// Their kind.
    pub kind: ObjectKind,
    /// Their labels and fields, or why nothing can be looked for.
    pub selection: Result<Selection, String>,
}

/// What an object must have to be looked at.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Labels, never none.
    pub labels: RenderedLabels,
    /// Fields.
    pub fields: Option<FieldSelector>,
}

/// Why a check cannot be judged from what was found, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No such kind in the cluster.
    KindMissing,
    /// The kind may not be read.
    KindForbidden,
    /// The kind is read for other things, and never as a check.
    KindRefused,
    /// Objects of the kind are in no namespace.
    KindNotNamespaced,
    /// Nothing can be looked for.
    SelectorInvalid,
    /// An object that was found cannot be read.
    ObjectUnreadable,
}

impl Trouble {
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
        }
    }
}

/// Whether a check's word says what is wrong with its policy. It is found before any object is looked for.
pub(crate) fn is_trouble_of_policy(word: &str) -> bool {
    let of_policy = [
        Trouble::KindMissing,
        Trouble::KindForbidden,
        Trouble::KindRefused,
        Trouble::KindNotNamespaced,
        Trouble::SelectorInvalid,
    ];
    of_policy.iter().any(|it| it.as_str() == word)
}

/// What was found for one check: the objects that it selects, as JSON.
pub type Found = Result<Vec<Arc<str>>, (Trouble, String)>;

/// What the checks of a policy look for. Nothing is parsed here: that is done once for each version of a policy.
#[must_use]
pub fn wanted(compiled: &CompiledPolicy, pod: &Value, shared: &SharedFields) -> Vec<Wanted> {
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
            Wanted {
                check: check.name.clone(),
                match_: check.match_,
                kind: check.selector.object_ref.clone(),
                selection: selection.and_then(|it| it.of_shared_fields(is_foreign, shared)),
            }
        })
        .collect()
}

fn selection(
    check: &Check,
    selector: &CheckSelector,
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

/// Why there is nothing to look for, with the object that lacks something.
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
    /// The same if the policy may select by these fields: by what is found it would be told their values.
    fn of_shared_fields(self, is_foreign: bool, shared: &[FieldPath]) -> Result<Self, String> {
        let fields = self.fields.as_ref().filter(|_| is_foreign);
        match fields.and_then(|it| it.hidden(shared)) {
            Some(field) => Err(not_shared(&field)),
            None => Ok(self),
        }
    }

    /// Whether an object with these labels may be one of those that are looked for.
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
