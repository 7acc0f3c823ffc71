//! The texts for users: the sentences of conditions, and the events when a request changes.

use connectors_api::{
    AccessRequest, AccessRequestCondition,
    access_request::{AccessRequestStatus, GrantState, MatchedPolicy, Phase},
    policy_order::MOST_PER_CONNECTOR,
    reason::{ContextObjectValid, Ready},
    told_words,
};

use super::{
    conditions,
    disclosure::is_foreign,
    policy::{Followed, PolicyProgress},
};
use crate::{
    evidence::{self, shortened},
    grant,
    seen::{Miss, NearMiss},
};

pub(super) const POD_GONE: &str = "the pod is gone, or another pod took its name";
pub(super) const NOT_FOLLOWED: &str =
    "the request ended; what its checks say is not looked at any more";
pub(super) const NO_UID: &str = "spec.context.objectRef.uid: required, so that a later pod of the same name does not inherit the access";
pub(super) const OTHER_NAMESPACE: &str =
    "spec.connectorRef.namespace: a request lives in the namespace of its connector";
pub(super) const DISABLED: &str = "approvals are switched off; nothing new is granted until enable-connectors-approval is \"true\" in ConfigMap connectors-config";
pub(super) const TERMINATING: &str = "the pod is being deleted; nothing new is granted to it";
pub(super) const STANDING: &str =
    "the pod needs no request: its service account may use the connector at any time";
pub(super) const UNMATCHED: &str = "it is not known which policies apply: the ConfigMap of the installation, or the labels of the service account or of its namespace, cannot be read";
pub(super) const TOO_SLOW: &str = "a decision is due, and what it rests on takes longer than 5 seconds to read; it is tried again";
pub(super) const WRITING: &str = "the checks pass; the permission is being written";

told_words! {
    /// The events of the request-controller.
    ToldKind {
        /// The request waits.
        AccessPending,
        /// Access was granted.
        AccessGranted,
        /// Access was revoked while the pod still runs.
        AccessRevoked,
        /// The pod ended, and access or the wait for it with it; or the request is no longer needed.
        AccessEnded,
        /// A check was rejected, or the wait was too long.
        AccessRejected,
        /// The request cannot be decided.
        AccessInvalid,
        /// A rejected or revoked request was deleted, so that its pod may get a new one.
        AccessReset,
    }
}

impl ToldKind {
    /// True for events of the type Warning.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        match self {
            Self::AccessPending | Self::AccessGranted | Self::AccessEnded | Self::AccessReset => {
                false
            }
            Self::AccessRevoked | Self::AccessRejected | Self::AccessInvalid => true,
        }
    }
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventObject {
    /// The request.
    Request,
    /// The requesting pod.
    Pod,
    /// A policy.
    Policy {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Its object.
    pub about: EventObject,
    /// Its kind.
    pub kind: ToldKind,
    /// The reason of the condition Ready, if the reader may know it.
    pub why: Option<Ready>,
    /// The sentence.
    pub note: String,
}

/// The events of a change: one when a request changes its state or waits for something else, none otherwise.
/// [`super::pace`] limits the events about the wait. Details of a foreign pod's objects are published only `at_pod`.
#[must_use]
pub fn of_change(
    request: &AccessRequest,
    old: &AccessRequestStatus,
    new: &AccessRequestStatus,
    at_pod: &str,
) -> Vec<Told> {
    let (was, is) = (
        conditions::ready(&old.conditions),
        conditions::ready(&new.conditions),
    );
    let message = |status: &AccessRequestStatus| {
        let ready = conditions::find(&status.conditions, AccessRequestCondition::Ready);
        ready.map(|it| it.message.clone()).unwrap_or_default()
    };
    let moved = is != was || old.phase != new.phase;
    let waits_for_another = new.phase == Some(Phase::Pending) && message(old) != message(new);
    let Some(why) = is.filter(|_| moved || waits_for_another) else {
        return Vec::new();
    };
    let kind = match new.phase {
        Some(Phase::Granted) => ToldKind::AccessGranted,
        Some(Phase::Revoked | Phase::Ended) if is_normal_end(why) => ToldKind::AccessEnded,
        Some(Phase::Revoked | Phase::Ended) => ToldKind::AccessRevoked,
        Some(Phase::Rejected) => ToldKind::AccessRejected,
        Some(Phase::Invalid) => ToldKind::AccessInvalid,
        // The grant is decided and not in force yet: there is nothing to wait for.
        Some(Phase::Pending) | None if why == Ready::GrantNotWritten => {
            return Vec::new();
        }
        Some(Phase::Pending) | None => ToldKind::AccessPending,
    };
    let message = message(new);
    let told = |about: EventObject, note: String| Told {
        about,
        kind,
        why: Some(why),
        note: shortened(note),
    };
    let mut events = vec![told(EventObject::Request, message.clone())];
    if !is_foreign(request) {
        events.push(told(EventObject::Pod, for_pod(request, &message)));
    } else if old.phase != new.phase && kind != ToldKind::AccessPending {
        events.push(at_foreign_pod(request, kind, at_pod));
    }
    if matches!(kind, ToldKind::AccessGranted | ToldKind::AccessRevoked) {
        let changed = new.policies.iter().filter(|entry| changed(old, entry));
        for entry in changed {
            let Some((name, uid)) = grant::identity(entry) else {
                continue;
            };
            let about = EventObject::Policy {
                name: name.to_owned(),
                uid: uid.to_owned(),
            };
            events.push(told(about, format!("{}: {message}", whose(request))));
        }
    }
    events
}

/// The event about the wait for a pod of another namespace, which is not in the request's status.
#[must_use]
pub fn wait(request: &AccessRequest, new: &AccessRequestStatus, at_pod: &str) -> Option<Told> {
    let waits = new.phase == Some(Phase::Pending)
        && conditions::ready(&new.conditions) != Some(Ready::GrantNotWritten);
    (waits && is_foreign(request)).then(|| at_foreign_pod(request, ToldKind::AccessPending, at_pod))
}

/// True when a request ended without a problem.
const fn is_normal_end(why: Ready) -> bool {
    matches!(
        why,
        Ready::PodFinished | Ready::PodGone | Ready::StandingPermission
    )
}

/// True when a policy granted, or stopped granting.
fn changed(old: &AccessRequestStatus, entry: &MatchedPolicy) -> bool {
    let state = |entry: &MatchedPolicy| entry.grant.as_ref().map(|grant| grant.state);
    let was_granted = entry
        .grant
        .as_ref()
        .is_some_and(|it| it.granted_at.is_some());
    let identity = grant::identity(entry);
    let before = old
        .policies
        .iter()
        .find(|it| grant::identity(it) == identity);
    was_granted && before.and_then(state) != state(entry)
}

fn whose(request: &AccessRequest) -> String {
    let spec = &request.spec;
    let pod = &spec.context.object_ref;
    format!(
        "connector {} for pod {}/{} ({})",
        spec.connector_ref.name, pod.namespace, pod.name, spec.subject.name
    )
}

fn for_pod(request: &AccessRequest, message: &str) -> String {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let connector = &request.spec.connector_ref.name;
    format!(
        "connector {namespace}/{connector}: {message}; see kubectl -n {namespace} get areq {name} -o yaml"
    )
}

fn at_foreign_pod(request: &AccessRequest, kind: ToldKind, of_objects: &str) -> Told {
    Told {
        about: EventObject::Pod,
        kind,
        why: None,
        note: for_foreign_pod(request, kind, of_objects),
    }
}

/// A pod of another namespace learns nothing about this namespace except the outcome of its own request and the state
/// of the objects in its own namespace. If the text is too long, the part about objects is cut.
fn for_foreign_pod(request: &AccessRequest, kind: ToldKind, of_objects: &str) -> String {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let connector = &request.spec.connector_ref.name;
    let what = match kind {
        ToldKind::AccessPending => "access is not granted yet",
        ToldKind::AccessGranted => "access was granted",
        ToldKind::AccessRevoked => "access was taken back",
        ToldKind::AccessEnded => "the request for access ended",
        ToldKind::AccessRejected => "access was refused",
        ToldKind::AccessInvalid => "the request for access cannot be decided",
        ToldKind::AccessReset => "access may be asked for anew",
    };
    let what = format!("connector {namespace}/{connector}: {what}");
    let whom = format!("; whoever looks after namespace {namespace} can tell more");
    if of_objects.is_empty() {
        return format!("{what}{whom}");
    }
    let room = evidence::LONGEST.saturating_sub(what.len() + whom.len() + 2);
    let of_objects = evidence::cut(of_objects.to_owned(), room);
    format!("{what}: {of_objects}{whom}")
}

pub(super) fn no_connector(name: &str) -> String {
    format!("there is no connector {name} in this namespace")
}

pub(super) fn replaced(name: &str) -> String {
    format!(
        "connector {name} is another one than when this request was made; delete the request to ask for the new one"
    )
}

/// The number of near misses that are named; the others are only counted.
const NAMED: usize = 5;

pub(super) fn no_policy(request: &AccessRequest, near: &[NearMiss]) -> String {
    let spec = &request.spec;
    let connector = &spec.connector_ref.name;
    let account = format!(
        "ServiceAccount {}/{}",
        spec.subject_namespace(),
        spec.subject.name
    );
    let none = format!(
        "no AccessPolicy of this namespace with checkGrantedPermission selects connector {connector} for permission {} and accepts {account}",
        spec.permission,
    );
    let mut near: Vec<_> = near.iter().collect();
    near.sort_by(|a, b| b.why.cmp(&a.why).then_with(|| a.policy.cmp(&b.policy)));
    let named = near.iter().take(NAMED).map(|miss| {
        let name = &miss.policy;
        match miss.why {
            Miss::TooMany => format!(
                "policy {name}: {MOST_PER_CONNECTOR} older policies select {connector}, and no more count"
            ),
            Miss::Requesters => format!("policy {name}: requesters do not accept {account}"),
            Miss::Connector => format!("policy {name}: connector does not select {connector}"),
            Miss::Permission(permission) => format!("policy {name}: permission is {permission}"),
        }
    });
    let mut parts: Vec<_> = std::iter::once(none).chain(named).collect();
    if let Some(rest) = near.len().checked_sub(NAMED).filter(|rest| *rest > 0) {
        parts.push(format!("{rest} more policies do not apply either"));
    }
    parts.push("kubectl get apol lists them".to_owned());
    parts.join("; ")
}

/// The message of a rejection: that it is final, and the remedy. The reason is cut rather than the remedy.
pub(super) fn for_good(request: &AccessRequest, reason: &str, is_of_a_run: bool) -> String {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let help = if is_of_a_run {
        // The approval of a run is final, and users start no pods of runs.
        "; this is final for this pipeline run: start a new one".to_owned()
    } else {
        format!(
            "; this is final for this pod: start a new pod, or a user who may delete requests runs kubectl -n {namespace} delete areq {name}"
        )
    };
    let room = evidence::LONGEST.saturating_sub(help.len());
    format!("{}{help}", evidence::cut(reason.to_owned(), room))
}

pub(super) fn wrong_subject(request: &AccessRequest) -> String {
    format!(
        "the pod does not run as ServiceAccount {}/{}",
        request.spec.subject_namespace(),
        request.spec.subject.name
    )
}

pub(super) fn duplicate(other: &str) -> String {
    format!("request {other} decides for the same subject, connector, permission and pod")
}

pub(super) fn too_many(namespace: &str) -> String {
    format!(
        "too many requests of pods in namespace {namespace} are waiting already; this one is looked at when others are decided"
    )
}

/// A sentence about one policy.
pub(super) fn of_policy(entry: &MatchedPolicy, message: &str) -> String {
    let name = grant::identity(entry).map_or("", |(name, _)| name);
    match message {
        "" => format!("policy {name}: a check did not hold"),
        message => format!("policy {name}: {message}"),
    }
}

/// The checks that all undecided policies wait for.
pub(super) fn awaited(followed: &[Followed]) -> String {
    let waiting = followed
        .iter()
        .filter(|it| matches!(it.standing, PolicyProgress::Waiting(_)));
    let told: Vec<_> = waiting
        .map(|it| of_policy(&it.entry, &it.told.message))
        .collect();
    one_suffices(&told)
}

/// The same for a pod of another namespace: its own objects, without the policies.
pub(super) fn awaited_at_pod(followed: &[Followed]) -> String {
    let waiting = followed
        .iter()
        .filter(|it| matches!(it.standing, PolicyProgress::Waiting(_)));
    let mut told: Vec<String> = Vec::new();
    for at_pod in waiting.filter_map(|it| it.told.at_pod.as_ref()) {
        if !at_pod.is_empty() && !told.contains(at_pod) {
            told.push(at_pod.clone());
        }
    }
    one_suffices(&told)
}

fn one_suffices(told: &[String]) -> String {
    match told {
        [_, _, ..] => format!("one of these suffices: {}", told.join("; or ")),
        one => one.concat(),
    }
}

/// The approvers, as far as the objects name them.
pub(super) fn granted(policies: &[MatchedPolicy]) -> String {
    let granted = policies.iter().filter(|entry| {
        let grant = entry.grant.as_ref();
        grant.is_some_and(|grant| grant.state == GrantState::Granted)
    });
    let told: Vec<_> = granted
        .map(|entry| {
            let name = grant::identity(entry).map_or("", |(name, _)| name);
            let statuses = entry.check_refs.iter().filter_map(|it| it.status.as_ref());
            let mut people: Vec<_> = statuses
                .flat_map(|it| it.approved_by.iter().map(String::as_str))
                .collect();
            people.sort_unstable();
            people.dedup();
            if people.is_empty() {
                format!("granted by policy {name}")
            } else {
                format!(
                    "granted by policy {name}, approved by {}",
                    people.join(", ")
                )
            }
        })
        .collect();
    told.join("; ")
}

/// The event for the pod when a rejected or revoked request is deleted.
#[must_use]
pub fn of_deletion(request: &AccessRequest) -> Vec<Told> {
    let phase = request.status.as_ref().and_then(|status| status.phase);
    let Some(phase) = phase.filter(|phase| matches!(phase, Phase::Rejected | Phase::Revoked))
    else {
        return Vec::new();
    };
    let conditions = request.status.iter().flat_map(|it| &it.conditions);
    let not_found = ContextObjectValid::NotFound.to_string();
    // The pod is gone, so it cannot get a new request.
    if conditions
        .into_iter()
        .any(|it| it.type_ == AccessRequestCondition::ContextObjectValid && it.reason == not_found)
    {
        return Vec::new();
    }
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let note = format!(
        "request {name} was deleted when it was {phase}; {} may be asked for anew",
        whose(request)
    );
    [EventObject::Request, EventObject::Pod]
        .map(|about| Told {
            kind: ToldKind::AccessReset,
            why: None,
            note: match about {
                EventObject::Pod if is_foreign(request) => {
                    for_foreign_pod(request, ToldKind::AccessReset, "")
                }
                EventObject::Request | EventObject::Pod | EventObject::Policy { .. } => {
                    note.clone()
                }
            },
            about,
        })
        .into()
}
