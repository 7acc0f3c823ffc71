//! What has to be read for the checks of a policy, and what was found put together with what was said.

use std::{fmt, sync::Arc};

use connectors_api::{
    AccessPolicy, AccessRequest,
    access_policy::{Check, CheckGrantedPermission, Match, ObjectKind},
    access_request::{GrantedRule, ObservedObject},
    check_selector::{CheckSelector, CompiledPolicy},
    check_verdict, context_view,
    field_selector::FieldSelector,
    judge::not_shared,
    names,
    reason::AccessCheckReady,
    shared_fields::{FieldPath, SharedFields},
    template::{
        Budget, RenderError, RenderLabelsError, RenderProblem, RenderedLabels, TemplateData,
    },
};
use evaluation_api::{
    v1::{EvaluateChecksResponse, ObjectResult},
    verdict,
};
use serde_json::{Map, Value, json};

use super::grant;
use crate::seen::{Answer, CheckSeen, LeftOut, ObjectSeen};

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
pub(super) fn is_trouble_of_policy(word: &str) -> bool {
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

/// A policy as it is kept with a grant: the same shape, without what plays no part in it.
#[must_use]
pub fn snapshot(policy: &AccessPolicy) -> Map<String, Value> {
    let mut snapshot = identity(policy);
    let spec = json!({
        "permission": policy.spec.permission,
        "checkGrantedPermission": policy.spec.check_granted_permission,
    });
    snapshot.insert("spec".to_owned(), spec);
    snapshot
}

/// What a status shows of a policy while its checks are awaited: no more than which one it is.
#[must_use]
pub fn identity(policy: &AccessPolicy) -> Map<String, Value> {
    let metadata = &policy.metadata;
    let identity = json!({
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "generation": metadata.generation,
    });
    Map::from_iter([
        ("apiVersion".to_owned(), names::API_VERSION.into()),
        ("kind".to_owned(), "AccessPolicy".into()),
        ("metadata".to_owned(), identity),
    ])
}

/// The same of what was kept of a policy.
#[must_use]
pub fn identity_of(snapshot: &Map<String, Value>) -> Map<String, Value> {
    let mut identity = snapshot.clone();
    identity.remove("spec");
    identity
}

/// The part of a snapshot that is evaluated. None if it cannot be read.
#[must_use]
pub fn frozen(snapshot: &Map<String, Value>) -> Option<CheckGrantedPermission> {
    let granted = snapshot.get("spec")?.get("checkGrantedPermission")?;
    serde_json::from_value(granted.clone()).ok()
}

/// Whether a policy grants under the same conditions as when it was kept with a grant.
#[must_use]
pub fn is_same(kept: &Map<String, Value>, policy: &AccessPolicy) -> bool {
    let now = snapshot(policy);
    let permission = |it: &Map<String, Value>| it.get("spec")?.get("permission").cloned();
    // Compared as it is read: what is absent and what has its default say the same.
    let conditions = |it| frozen(it).and_then(|it| serde_json::to_value(it).ok());
    conditions(kept).is_some()
        && conditions(kept) == conditions(&now)
        && permission(kept) == permission(&now)
}

/// What the checks say, given what was found for each and what the evaluation service said about it. It
/// is not asked when nothing at all was found.
#[must_use]
pub fn answer(
    request: &AccessRequest,
    wanted: &[Wanted],
    found: &[Found],
    said: Option<&EvaluateChecksResponse>,
) -> Answer {
    let checks: Vec<CheckSeen> = wanted
        .iter()
        .zip(found)
        .map(|(wanted, found)| check(request, wanted, found, said))
        .collect();
    let mut verdict = check_verdict::of_checks(checks.iter().map(|check| check.verdict));
    let mut rules = Vec::new();
    let mut refusal = None;
    if verdict == AccessCheckReady::AccessCheckPassed {
        match granted(request, said) {
            Ok(granted) => rules = granted,
            Err(why) => {
                verdict = AccessCheckReady::AccessCheckFailed;
                refusal = Some(why);
            }
        }
    }
    Answer {
        verdict,
        checks,
        rules,
        refusal,
    }
}

fn granted(
    request: &AccessRequest,
    said: Option<&EvaluateChecksResponse>,
) -> Result<Vec<GrantedRule>, String> {
    let Some(said) = said else {
        return Err("nothing was said about what is granted".to_owned());
    };
    if verdict::from_wire(said.verdict) != Ok(AccessCheckReady::AccessCheckPassed) {
        return Err("the checks pass one by one, but not together".to_owned());
    }
    let rules: Vec<_> = said
        .rules
        .iter()
        .map(|rule| GrantedRule {
            resources: rule.resources.clone(),
            verbs: rule.verbs.clone(),
        })
        .collect();
    if rules.is_empty() && !said.rules_message.is_empty() {
        return Err(said.rules_message.clone());
    }
    if grant::allowed(request, &rules) {
        Ok(rules)
    } else {
        Err("the policy's rules are not about this pod's use of connectors alone".to_owned())
    }
}

fn check(
    request: &AccessRequest,
    wanted: &Wanted,
    found: &Found,
    said: Option<&EvaluateChecksResponse>,
) -> CheckSeen {
    let seen = |verdict, reason: &str, message: String, objects| CheckSeen {
        name: wanted.check.clone(),
        match_: wanted.match_,
        verdict,
        reason: reason.to_owned(),
        message,
        objects,
        left_out: LeftOut::default(),
    };
    let failed = |reason: &str, message: String| {
        seen(AccessCheckReady::AccessCheckFailed, reason, message, vec![])
    };
    let found = match found {
        Ok(found) => found,
        Err((trouble, message)) => return failed(trouble.as_str(), message.clone()),
    };
    if found.is_empty() {
        let namespace = &request.spec.context.object_ref.namespace;
        let kind = &wanted.kind.kind;
        let which = wanted
            .selection
            .as_ref()
            .map_or_else(Clone::clone, ToString::to_string);
        return seen(
            AccessCheckReady::AccessCheckPending,
            "NoObjects",
            format!(
                "no {kind} with {which} in namespace {namespace} (checks look only in the pod's namespace)"
            ),
            vec![],
        );
    }
    let said = said.and_then(|said| said.checks.iter().find(|said| said.check == wanted.check));
    let Some(said) = said else {
        return failed(
            "NotSaid",
            "the evaluation service left this check out".to_owned(),
        );
    };
    let judged = verdict::from_wire(said.verdict).unwrap_or(AccessCheckReady::AccessCheckFailed);
    let objects: Vec<_> = said.objects.iter().map(object).collect();
    let all_judged = said.objects.len() == found.len();
    let passes = |it: &ObjectSeen| it.verdict == AccessCheckReady::AccessCheckPassed;
    let borne_out = match wanted.match_ {
        Match::All => all_judged && objects.iter().all(passes),
        Match::Any => objects.iter().any(passes),
    };
    if judged == AccessCheckReady::AccessCheckPassed && !borne_out {
        return failed(
            "NotSaid",
            "the evaluation service did not say which objects let through".to_owned(),
        );
    }
    seen(judged, &said.reason, said.message.clone(), objects)
}

fn object(said: &ObjectResult) -> ObjectSeen {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    ObjectSeen {
        object: ObservedObject {
            api_version: said.api_version.clone(),
            kind: said.kind.clone(),
            namespace: given(&said.namespace),
            name: said.name.clone(),
            uid: given(&said.uid),
            resource_version: given(&said.resource_version),
        },
        verdict: verdict::from_wire(said.verdict).unwrap_or(AccessCheckReady::AccessCheckFailed),
        state: said.state.clone(),
        reason: said.reason.clone(),
        message: said.message.clone(),
        approved_by: said.approved_by.clone(),
    }
}
