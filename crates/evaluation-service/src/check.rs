//! The access decision: a pure function of what is known and what is asked.
//!
//! First the standing form, which counts as RBAC counts it. Then the form of one pod, for which RBAC is
//! not enough: it knows names, and a later pod may have the same one. So a binding of the pod form
//! counts only together with the granted request of this very pod that it was written for.

use authz::{Attributes, Grant, ResourceRequest, Target, User};
use connectors_api::access_request::{GrantState, MatchedPolicy, Phase};
use connectors_api::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID, MANAGED_BY};
use connectors_api::names::{self, CONNECTORS, GROUP};
use connectors_api::{AccessRequest, AccessRequestCondition, AccessResource};
use evaluation_api::access::{AccessAnswer, AccessQuestion, Binding, Decision, RequestSeen};
use jiff::Timestamp;

use crate::world::{Tuple, World};

/// The answer to a question, from what is known, at this time.
#[must_use]
pub fn answer(world: &World, question: &AccessQuestion, now: Timestamp) -> AccessAnswer {
    let deciding = Tuple::of_question(question).and_then(|tuple| world.requests.deciding(&tuple));
    let user = User::service_account(&question.subject.namespace, &question.subject.name);
    let (decision, reason) = decide(world, question, &user, deciding, now);
    AccessAnswer {
        decision,
        reason,
        request: deciding.and_then(seen),
        fresh_as_of: world.fresh_as_of(),
    }
}

fn decide(
    world: &World,
    question: &AccessQuestion,
    user: &User,
    deciding: Option<&AccessRequest>,
    now: Timestamp,
) -> (Decision, String) {
    let permission = question.permission;
    let resource = AccessResource::standing(permission).subresource();
    let mut standing = allowing(world, question, user, &resource);
    if let Some(grant) = standing.find(|grant| !is_ours_and_going(grant)) {
        return (Decision::AllowedStanding(binding(&grant)), reason(&grant));
    }
    // Without the UID of a pod nobody can tell whose permission the pod form is.
    let pod = question.pod.as_ref().filter(|pod| !pod.uid.is_empty());
    let Some(pod) = pod else {
        return (Decision::Denied, no(question, "no standing permission"));
    };
    let resource = AccessResource::pod(permission, &question.subject.namespace, &pod.name);
    let resource = resource.subresource();
    let mut is_covered = false;
    for grant in allowing(world, question, user, &resource) {
        is_covered = true;
        if deciding
            .is_some_and(|request| is_of(&grant, request, question) && holds(&grant, request, now))
        {
            return (Decision::AllowedPod(binding(&grant)), reason(&grant));
        }
    }
    let why = if is_covered {
        "no AccessRequest of this very pod whose grant holds now behind a binding that names it,"
    } else {
        "no permission"
    };
    (Decision::Denied, no(question, why))
}

fn allowing<'a>(
    world: &'a World,
    question: &'a AccessQuestion,
    user: &'a User,
    subresource: &'a str,
) -> impl Iterator<Item = Grant<'a>> + use<'a> {
    world.rbac.allowing(&Attributes {
        user,
        verb: &question.verb,
        target: Target::Resource(ResourceRequest {
            group: GROUP,
            resource: CONNECTORS,
            subresource,
            namespace: &question.connector.namespace,
            name: &question.connector.name,
        }),
    })
}

fn is_ours(grant: &Grant<'_>) -> bool {
    grant.binding.label(MANAGED_BY) == Some(names::MANAGED_BY)
}

/// An object with a deletion timestamp counts as deleted, where it is ours to say so.
fn is_ours_and_going(grant: &Grant<'_>) -> bool {
    is_ours(grant) && grant.binding.is_deleting()
}

/// Whether the binding was written for this request, and the request lets this pod in now. A request
/// that does not decide for its pod lets nobody in, whatever it says of itself.
fn is_of(grant: &Grant<'_>, request: &AccessRequest, question: &AccessQuestion) -> bool {
    let Grant { binding, .. } = grant;
    let metadata = &request.metadata;
    let object = &request.spec.context.object_ref;
    let phase = request.status.as_ref().and_then(|status| status.phase);
    let pod = question.pod.as_ref();
    let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    is_ours(grant)
        && !binding.is_deleting()
        && uid.is_some()
        && binding.label(ACCESS_REQUEST_UID) == uid
        && binding.namespace() == metadata.namespace.as_deref()
        && metadata.deletion_timestamp.is_none()
        && phase == Some(Phase::Granted)
        // The rest of the tuple is how the request was found.
        && object.namespace == question.subject.namespace
        && pod.is_some_and(|pod| pod.name == object.name)
}

/// Whether the request, and of its policies the one that the binding was written for, still grant. The
/// controller takes back what is over, but it may be late.
fn holds(grant: &Grant<'_>, request: &AccessRequest, now: Timestamp) -> bool {
    let is_over = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
    let label = grant.binding.label(ACCESS_POLICY_UID);
    let Some(uid) = label.filter(|uid| !uid.is_empty()) else {
        return false;
    };
    let Some(status) = request.status.as_ref() else {
        return false;
    };
    let is_its = |matched: &&MatchedPolicy| {
        let metadata = matched.policy.0.get("metadata");
        metadata.and_then(|it| it.get("uid")?.as_str()) == Some(uid)
    };
    let mut entries = status.policies.iter().filter(is_its);
    !is_over(status.expires_at)
        // Two entries for one policy is nothing that the controller writes: who knows which holds.
        && entries.next().is_some_and(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|it| it.state == GrantState::Granted && !is_over(it.expires_at))
        })
        && entries.next().is_none()
}

fn binding(grant: &Grant<'_>) -> Binding {
    let Grant { binding, .. } = grant;
    Binding {
        kind: binding.kind().to_owned(),
        namespace: binding.namespace().unwrap_or_default().to_owned(),
        name: binding.name().to_owned(),
        uid: binding.uid().unwrap_or_default().to_owned(),
    }
}

fn reason(grant: &Grant<'_>) -> String {
    format!("RBAC: allowed by {grant}")
}

fn no(question: &AccessQuestion, why: &str) -> String {
    let AccessQuestion {
        subject,
        connector,
        permission,
        verb,
        ..
    } = question;
    format!(
        "{why} for {verb:?} on {CONNECTORS}/{permission} of {}/{} to ServiceAccount {}/{}",
        connector.namespace, connector.name, subject.namespace, subject.name
    )
}

/// The request as an answer shows it; one without a name or UID is none.
fn seen(request: &AccessRequest) -> Option<RequestSeen> {
    let metadata = &request.metadata;
    let status = request.status.as_ref();
    let condition = |of: AccessRequestCondition| {
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == of)
    };
    let ready = condition(AccessRequestCondition::Ready);
    Some(RequestSeen {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        phase: status.and_then(|status| status.phase),
        check_reason: condition(AccessRequestCondition::AccessCheckReady)
            .and_then(|condition| word(&condition.reason)),
        permission_reason: condition(AccessRequestCondition::AccessPermissionSync)
            .and_then(|condition| word(&condition.reason)),
        ready_reason: ready.and_then(|condition| word(&condition.reason)),
        message: ready.map_or_else(String::new, |condition| condition.message.clone()),
    })
}

/// A word of a set; none for a word of another version, which explains nothing here.
fn word<W: serde::de::DeserializeOwned>(text: &str) -> Option<W> {
    serde_json::from_value(text.into()).ok()
}

#[cfg(test)]
mod tests;
