//! The objects that must be read for the checks of a policy, and why none can be.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::access_policy::{Check, Match, ObjectKind};
use crate::check_selector::{CompiledPolicy, SelectorTemplate};
use crate::context_view;
use crate::field_selector::FieldSelector;
use crate::judge::{ProofNeeded, not_shared, proof_needed};
use crate::shared_fields::{FieldPath, SharedFields};
use crate::template::{
    Budget, RenderError, RenderLabelsError, RenderProblem, RenderedLabels, TemplateData,
};
use crate::words::words;

/// The objects that one check selects, all in the pod's namespace.
#[derive(Clone, Debug)]
pub struct WantedObjects {
    /// The check's name.
    pub check: String,
    /// How its objects count.
    pub match_: Match,
    /// Their kind.
    pub kind: ObjectKind,
    /// The proof of lineage with which an object counts.
    pub proof: ProofNeeded,
    /// Their labels and fields, or the reason why nothing can be selected.
    pub selection: Result<Selection, SelectsNothing>,
}

/// The conditions of a check on its objects.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The labels, at least one.
    pub labels: RenderedLabels,
    /// The fields.
    pub fields: Option<FieldSelector>,
}

/// The reason why a check selects nothing for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectsNothing {
    /// The pod lacks a label that the selector takes over.
    #[error("pod {pod} has no label `{label}`, by which the check finds its {kind}")]
    NoLabel {
        /// The name of the pod.
        pod: String,
        /// The label.
        label: String,
        /// The kind of the objects.
        kind: String,
    },
    /// The selector cannot be used.
    #[error("{0}")]
    Invalid(String),
}

words! {
    /// The reason why the request-controller cannot judge a check, as one word.
    CheckTrouble {
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
        /// The evaluation service gave no result for the check, or did not name the objects that let through.
        NotSaid,
    }
}

/// The sentence for a kind that the cluster does not have.
#[must_use]
pub fn kind_missing(kind: &ObjectKind) -> String {
    let ObjectKind { api_version, kind } = kind;
    format!("there is no kind {kind} of {api_version} in this cluster")
}

/// The sentence for a kind that the controller may not read, with the remedy. Its own ClusterRole is aggregated from
/// others, so a rule that is added to it directly does not persist.
#[must_use]
pub fn kind_forbidden(plural: &str, group: &str) -> String {
    format!(
        "{plural} may not be read; add the kind to the chart's checks.kinds, or label \
         connectors.alauda.io/aggregate-to-check-reader: \"true\" a ClusterRole with the rule \
         {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [get, list, watch]}}"
    )
}

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
                proof: proof_needed(check),
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
) -> Result<Selection, SelectsNothing> {
    let invalid = |error: &dyn fmt::Display| SelectsNothing::Invalid(error.to_string());
    let labels = selector.labels.as_ref();
    let labels = labels
        .map_err(|error| invalid(error))?
        .render(data, budget)
        .map_err(|error| unfilled(&error, pod, &check.selector.object_ref.kind))?;
    let fields = selector.fields.as_ref();
    let fields = fields.map_err(|error| invalid(error))?.clone();
    Ok(Selection { labels, fields })
}

/// The reason why there is nothing to select, with the object that lacks the value.
fn unfilled(error: &RenderLabelsError, pod: &str, kind: &str) -> SelectsNothing {
    match error {
        RenderLabelsError::Render {
            error:
                RenderError {
                    problem: RenderProblem::NoLabel(label),
                    ..
                },
            ..
        } => SelectsNothing::NoLabel {
            pod: pod.to_owned(),
            label: label.clone(),
            kind: kind.to_owned(),
        },
        RenderLabelsError::Render { .. } | RenderLabelsError::Value { .. } => {
            SelectsNothing::Invalid(error.to_string())
        }
    }
}

impl WantedObjects {
    /// The sentence for a check that found nothing in a namespace.
    #[must_use]
    pub fn none_found(&self, namespace: &str) -> String {
        let kind = &self.kind.kind;
        let which = self
            .selection
            .as_ref()
            .map_or_else(ToString::to_string, ToString::to_string);
        format!(
            "no {kind} with {which} in namespace {namespace} (checks look only in the pod's namespace)"
        )
    }
}

impl Selection {
    /// The same, unless a policy of another namespace selects by a field that is not shared: the objects that it
    /// finds would reveal the field's values.
    fn of_shared_fields(
        self,
        is_foreign: bool,
        shared: &[FieldPath],
    ) -> Result<Self, SelectsNothing> {
        let fields = self.fields.as_ref().filter(|_| is_foreign);
        match fields.and_then(|it| it.hidden(shared)) {
            Some(field) => Err(SelectsNothing::Invalid(not_shared(&field))),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    fn of_pod(labels: &Value) -> WantedObjects {
        let policy = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": "p", "namespace": "apps"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": [{"name": "change", "selector": {
                    "labels": {"change": "{.object.metadata.labels.change}"},
                    "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                }}],
                "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        let policy = CompiledPolicy::of(parse::object(&policy).unwrap(), None);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "build", "namespace": "apps", "uid": "u", "labels": labels,
        }});
        wanted(&policy, &pod, &SharedFields::default()).remove(0)
    }

    #[test]
    fn a_check_names_the_label_that_the_pod_lacks() {
        let without = of_pod(&json!({"other": "x"}));
        let Err(SelectsNothing::NoLabel { pod, label, kind }) = without.selection else {
            panic!("{without:?}");
        };
        assert_eq!([pod, label, kind], ["build", "change", "ConfigMap"]);
        let invalid = of_pod(&json!({"change": "a b"}));
        let invalid = invalid.selection.unwrap_err();
        assert!(matches!(invalid, SelectsNothing::Invalid(_)), "{invalid:?}");
    }

    #[test]
    fn a_kind_that_the_cluster_lacks_is_named_with_its_version() {
        let kind = ObjectKind {
            api_version: "example.com/v1".to_owned(),
            kind: "SignOff".to_owned(),
        };
        let told = "there is no kind SignOff of example.com/v1 in this cluster";
        assert_eq!(kind_missing(&kind), told);
    }

    #[test]
    fn a_check_that_finds_nothing_says_by_what_and_where_it_looked() {
        let none = of_pod(&json!({"change": "42"})).none_found("apps");
        assert_eq!(
            none,
            "no ConfigMap with labels change=42 in namespace apps (checks look only in the pod's namespace)"
        );
    }
}
