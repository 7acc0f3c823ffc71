//! Which approval object a command line means.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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

/// The limit of kinds that are looked up.
const MOST_KINDS: usize = 64;

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
        .map(|it| format!("{}/{}", full(&it.kind).to_ascii_lowercase(), it.name.name))
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
    let group = group(kind);
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
            if check.has_module() {
                counted.by_module.push(counting);
            } else {
                counted.by_state.push(counting);
            }
        }
    }
    kinds
}

/// A policy, by its namespace and UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PolicyKey {
    /// The namespace.
    pub(super) namespace: String,
    /// The UID.
    pub(super) uid: String,
}

/// The policies with a check that counts objects of the kind, in any of its versions.
pub(super) fn counting(policies: &[Found<AccessPolicy>], kind: &ObjectKind) -> BTreeSet<PolicyKey> {
    let counts = |policy: &&AccessPolicy| {
        let granted = policy.spec.check_granted_permission.as_ref();
        let mut checks = granted.into_iter().flat_map(|it| &it.spec.checks);
        checks.any(|check| {
            let of = &check.selector.object_ref;
            of.kind == kind.kind && group(of) == group(kind)
        })
    };
    let policies = policies.iter().flatten().filter(counts);
    policies
        .map(|it| PolicyKey {
            namespace: it.metadata.namespace.clone().unwrap_or_default(),
            uid: it.metadata.uid.clone().unwrap_or_default(),
        })
        .collect()
}

fn group(kind: &ObjectKind) -> &str {
    kind.api_version.split_once('/').map_or("", |(it, _)| it)
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

/// The checks that count objects of a kind, in any of its versions.
pub(super) fn counted(kinds: &BTreeMap<ObjectKind, KindCounted>, kind: &ObjectKind) -> KindCounted {
    let mut all = KindCounted::default();
    let of_kind = |it: &&ObjectKind| it.kind == kind.kind && group(it) == group(kind);
    for counted in kinds.keys().filter(of_kind).filter_map(|it| kinds.get(it)) {
        all.by_state.extend(counted.by_state.iter().cloned());
        all.by_module.extend(counted.by_module.iter().cloned());
    }
    all
}

/// A kind with its group, as a command names it.
fn full(kind: &ObjectKind) -> String {
    let full = format!("{}.{}", kind.kind, group(kind));
    full.trim_end_matches('.').to_owned()
}

/// The kind that a word names, among those that checks count and the cluster serves. Every author of a policy can name
/// kinds that there are not, and versions of those that there are.
pub(super) async fn kind_named(
    reads: &ClusterReads,
    word: &str,
    kinds: &BTreeMap<ObjectKind, KindCounted>,
    unread: &mut Vec<MissedRead>,
) -> Result<ObjectKind, AnswerProblem> {
    let is_named = |it: &&ObjectKind| is_word_of(word, it, None);
    let is_by_plural = !kinds.keys().any(|it| is_named(&it));
    let mut asked: Vec<&ObjectKind> = kinds
        .keys()
        .filter(|it| is_by_plural || is_named(it))
        .collect();
    // A plural begins as its kind does.
    let likeness = |it: &ObjectKind| {
        let both = it.kind.chars().zip(word.chars());
        both.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    asked.sort_by_key(|it| Reverse(likeness(it)));
    let left_out = asked.len().saturating_sub(MOST_KINDS);
    let mut found: BTreeMap<String, &ObjectKind> = BTreeMap::new();
    for kind in asked.into_iter().take(MOST_KINDS) {
        match reads.served(kind).await {
            Ok(KindServed::Namespaced { resource, .. }) => {
                let resource = format!("{}.{}", resource.plural, resource.group);
                if is_word_of(word, kind, Some(&resource)) {
                    found.entry(full(kind)).or_insert(kind);
                }
            }
            Ok(KindServed::Missing | KindServed::ClusterScoped) => {}
            Err(missed) => unread.push(missed),
        }
    }
    let mut all = found.values();
    match (all.next(), all.next()) {
        (Some(kind), None) => Ok((*kind).clone()),
        (None, _) => {
            let more = if left_out > 0 {
                format!("; {left_out} more kinds were not looked at: write KIND.GROUP/NAME")
            } else {
                String::new()
            };
            Err(AnswerProblem::No(format!(
                "no check of a policy that you may read counts objects of a kind `{word}` that the cluster serves: an answer \
                 would open nothing{more}"
            )))
        }
        (Some(_), Some(_)) => {
            let named: Vec<_> = found.keys().map(String::as_str).collect();
            Err(AnswerProblem::Usage(format!(
                "`{word}` names several kinds: write one of {} before /NAME",
                named.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests;
