//! Which approval object a command line means.

use std::collections::BTreeMap;

use connectors_api::AccessPolicy;
use connectors_api::access_policy::ObjectKind;
use connectors_api::reason::AccessCheckReady;
use kube::ResourceExt as _;

use super::{AnswerProblem, CountingCheck};
use crate::approval_write::ApprovalAnswer;
use crate::args::ObjectWord;
use crate::explain::foresee::{CountedObject, Foreseen};
use crate::reads::{ClusterReads, Found, KindServed, Strict};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// The limit of kinds that are looked up to compare a word with their plurals.
const MOST_KINDS: usize = 16;

/// An approval object that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MeantObject {
    /// The kind.
    pub(super) kind: ObjectKind,
    /// Namespace and name.
    pub(super) name: NamespacedName,
}

/// The checks that count objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindCounted {
    /// Checks that read the state of the object.
    pub(super) by_state: Vec<CountingCheck>,
    /// Checks with a Rego module, which decides by other fields.
    pub(super) by_module: Vec<CountingCheck>,
}

/// The one object that the accesses of a pod wait for.
pub(super) fn awaited(
    foreseen: &Foreseen,
    answer: ApprovalAnswer,
    only: Option<&ObjectWord>,
) -> Result<MeantObject, AnswerProblem> {
    let mut found: Vec<&CountedObject> = Vec::new();
    let counted = || foreseen.accesses.iter().flat_map(|it| &it.counted);
    for object in counted().filter(|it| takes(it, answer)) {
        if !found.iter().any(|it| it.uid == object.uid) {
            found.push(object);
        }
    }
    if let Some(only) = only {
        let is_named = |it: &&CountedObject| {
            only.name == it.name.name && is_word_of(&only.kind, &it.kind, Some(&it.resource))
        };
        let named = counted().find(|it| is_named(it));
        return match (named, found.into_iter().find(is_named)) {
            (_, Some(object)) => Ok(meant(object)),
            (Some(object), None) => Err(AnswerProblem::No(not_open(object))),
            (None, None) => Err(AnswerProblem::Usage(format!(
                "no check of the pod finds {only}; it finds {}",
                told(counted())
            ))),
        };
    }
    match found.as_slice() {
        [object] => Ok(meant(object)),
        [] => {
            let because: Vec<_> = foreseen
                .accesses
                .iter()
                .map(|it| format!("{}: {}", it.now.connector, it.now.because))
                .collect();
            let because = if because.is_empty() {
                "the pod mounts no connector".to_owned()
            } else {
                because.join("; ")
            };
            let message = format!("no approval waits for an answer: {because}");
            Err(AnswerProblem::No(message))
        }
        [_, ..] => Err(AnswerProblem::Usage(format!(
            "several approvals are awaited: name one of {} with --only KIND/NAME",
            told(found.iter().copied())
        ))),
    }
}

/// True when the answer could change the result of the object.
const fn takes(object: &CountedObject, answer: ApprovalAnswer) -> bool {
    if object.has_module {
        return false;
    }
    match (answer, object.verdict) {
        (_, AccessCheckReady::AccessCheckPending | AccessCheckReady::AccessCheckFailed)
        | (ApprovalAnswer::Reject, AccessCheckReady::AccessCheckPassed) => true,
        (ApprovalAnswer::Approve, AccessCheckReady::AccessCheckPassed)
        | (_, AccessCheckReady::AccessCheckRejected) => false,
    }
}

fn not_open(object: &CountedObject) -> String {
    let CountedObject {
        kind,
        name,
        policy,
        check,
        ..
    } = object;
    if object.has_module {
        by_module(
            &format!("{} {name}", kind.kind),
            &format!("{policy}, check {check}"),
        )
    } else {
        format!("{} {name} waits for no such answer", kind.kind)
    }
}

/// Why an object is not written on which only Rego modules decide.
pub(super) fn by_module(object: &str, checks: &str) -> String {
    format!(
        "a Rego module decides by the fields of {object}, and not its state (policy {checks}): `kubectl edit` changes them"
    )
}

fn meant(object: &CountedObject) -> MeantObject {
    MeantObject {
        kind: object.kind.clone(),
        name: object.name.clone(),
    }
}

fn told<'a>(objects: impl Iterator<Item = &'a CountedObject>) -> String {
    let mut named: Vec<_> = objects
        .map(|it| format!("{}/{}", it.kind.kind.to_ascii_lowercase(), it.name.name))
        .collect();
    named.sort();
    named.dedup();
    if named.is_empty() {
        "none".to_owned()
    } else {
        named.join(", ")
    }
}

/// True when the word names the kind: as kind, plural, or either with the group.
pub(super) fn is_word_of(word: &str, kind: &ObjectKind, resource: Option<&str>) -> bool {
    let group = kind.api_version.split_once('/').map_or("", |(it, _)| it);
    let is = |it: &str| it.eq_ignore_ascii_case(word);
    let plural = resource.and_then(|it| it.split_once('.')).map(|(it, _)| it);
    is(&kind.kind)
        || is(&format!("{}.{group}", kind.kind))
        || resource.is_some_and(is)
        || plural.is_some_and(is)
}

/// The kinds that checks of policies count.
pub(super) fn kinds_of(policies: &[Found<AccessPolicy>]) -> BTreeMap<ObjectKind, KindCounted> {
    let mut kinds: BTreeMap<ObjectKind, KindCounted> = BTreeMap::new();
    for policy in policies.iter().flatten() {
        let granted = policy.spec.check_granted_permission.as_ref();
        for check in granted.into_iter().flat_map(|it| &it.spec.checks) {
            let counted = kinds.entry(check.selector.object_ref.clone()).or_default();
            let namespace = policy.metadata.namespace.clone().unwrap_or_default();
            let counting = CountingCheck {
                policy: NamespacedName::new(namespace, policy.name_any()),
                check: check.name.clone(),
            };
            if check.state.as_ref().is_some_and(|it| !it.rego.is_empty()) {
                counted.by_module.push(counting);
            } else {
                counted.by_state.push(counting);
            }
        }
    }
    kinds
}

/// The policies that the user may read: those of all namespaces, or those of one.
pub(super) async fn policies(
    reads: &ClusterReads,
    namespaces: &[&str],
    unread: &mut Vec<MissedRead>,
) -> Vec<Found<AccessPolicy>> {
    let missed = match reads.all::<AccessPolicy, Strict>("", "").await {
        Ok(all) => return all,
        Err(missed) => missed,
    };
    unread.push(missed);
    let mut found = Vec::new();
    for namespace in namespaces {
        match reads.all::<AccessPolicy, Strict>(namespace, "").await {
            Ok(all) => found.extend(all),
            Err(missed) => unread.push(missed),
        }
    }
    found
}

/// The kind that a word names, among those that checks count.
pub(super) async fn kind_named(
    reads: &ClusterReads,
    word: &str,
    kinds: &BTreeMap<ObjectKind, KindCounted>,
    unread: &mut Vec<MissedRead>,
) -> Result<ObjectKind, AnswerProblem> {
    let mut found: Vec<&ObjectKind> = kinds
        .keys()
        .filter(|it| is_word_of(word, it, None))
        .collect();
    if found.is_empty() {
        for kind in kinds.keys().take(MOST_KINDS) {
            match reads.served(kind).await {
                Ok(KindServed::Namespaced { resource, .. }) => {
                    let resource = format!("{}.{}", resource.plural, resource.group);
                    if is_word_of(word, kind, Some(&resource)) {
                        found.push(kind);
                    }
                }
                Ok(KindServed::Missing | KindServed::ClusterScoped) => {}
                Err(missed) => unread.push(missed),
            }
        }
    }
    match found.as_slice() {
        [kind] => Ok((*kind).clone()),
        [] => Err(AnswerProblem::No(format!(
            "no check of a policy that you may read counts objects of kind `{word}`: an answer would open nothing"
        ))),
        [_, ..] => {
            let group = |it: &&ObjectKind| format!("{}.{}", it.kind, it.api_version);
            let named: Vec<_> = found.iter().map(group).collect();
            Err(AnswerProblem::Usage(format!(
                "`{word}` names several kinds: {}; write KIND.GROUP/NAME",
                named.join(", ")
            )))
        }
    }
}
