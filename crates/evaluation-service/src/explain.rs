//! `Explain`: every policy of a connector's namespace, whether it applies, and the results of its checks.
//!
//! A pure function of the caches, and of live reads of the request and the account.

use std::collections::BTreeMap;

use connectors_api::AccessRequest;
use connectors_api::access_policy::Check;
use connectors_api::access_request::{CheckRef, MatchedPolicy, ObservedObject};
use connectors_api::policy_match::{Asker, WantedConnector};
use connectors_api::policy_words::{
    CountedPolicy, PolicySight, PolicyWord, PolicyWordTold, looks_at_account,
};
use evaluation_api::access::{AccessQuestion, wire_time};
use evaluation_api::judgement::approval;
use evaluation_api::v1::{
    CheckExplanation, CheckedObject, ExplainResponse, LineageObject, PolicyApplies,
    PolicyExplanation,
};
use jiff::Timestamp;

use crate::access_decision;
use crate::world::{ExplainedPolicy, Labels, PolicyText, World};

const NOT_KEPT: &str = "the policies of the namespace take more bytes than this service keeps, so that it is not known \
                        here what this one says: make them shorter, or spread them over namespaces";

/// The live reads.
#[derive(Debug, Default)]
pub(crate) struct ExplainReads {
    /// The labels of the service account, if they matter and the account exists.
    pub(crate) account: Option<Labels>,
    /// The request that decides for the pod.
    pub(crate) request: Option<AccessRequest>,
}

/// Whether the labels of a service account can change a result in a namespace.
pub(crate) fn needs_account(world: &World, namespace: &str) -> bool {
    let mut policies = world.catalog.policies(namespace);
    policies.any(|(_, policy)| policy.spec().is_some_and(looks_at_account))
}

/// The explanation from the known objects, at this time.
pub(crate) fn explain(
    world: &World,
    question: &AccessQuestion,
    read: &ExplainReads,
    now: Timestamp,
) -> ExplainResponse {
    let namespace = &question.connector.namespace;
    let labels = world.catalog.connector(namespace, &question.connector.name);
    let no_labels = Labels::new();
    let sight = PolicySight {
        namespace,
        wanted: WantedConnector {
            connector: &question.connector.name,
            labels: labels.unwrap_or(&no_labels),
            permission: question.permission,
        },
        asker: Asker {
            namespace: &question.subject.namespace,
            name: &question.subject.name,
            labels: read.account.as_ref(),
            namespace_labels: world.catalog.namespace(&question.subject.namespace),
        },
        default: world.default_requesters(),
        keys: &world.namespace_keys,
    };
    let left_out = sight.left_out(world.catalog.policies(namespace).filter_map(counted));
    let mut matched = RequestedPolicies::of(read.request.as_ref());
    let mut policies: Vec<PolicyExplanation> = world
        .catalog
        .policies(namespace)
        .map(|(name, policy)| {
            let counts = !left_out.contains(name.as_str());
            of_policy(&sight, name, policy, counts, matched.take(&policy.uid))
        })
        .collect();
    policies.extend(matched.left().map(gone));
    ExplainResponse {
        answer: Some(access_decision::answer(world, question, now).into()),
        connector_exists: labels.is_some(),
        policies,
        fresh_as_of: world.all_fresh_as_of().map(wire_time),
    }
}

/// The request's records of policies, by their UID.
struct RequestedPolicies<'a>(BTreeMap<&'a str, &'a MatchedPolicy>);

impl<'a> RequestedPolicies<'a> {
    fn of(request: Option<&'a AccessRequest>) -> Self {
        let status = request.and_then(|request| request.status.as_ref());
        let policies = status.into_iter().flat_map(|status| &status.policies);
        Self(policies.map(|it| (it.uid(), it)).collect())
    }

    fn take(&mut self, uid: &str) -> Option<&'a MatchedPolicy> {
        self.0.remove(uid)
    }

    fn left(self) -> impl Iterator<Item = &'a MatchedPolicy> {
        self.0.into_values()
    }
}

/// A policy for the question which policies count. None if it cannot be read or is being deleted.
fn counted<'a>((name, policy): (&'a String, &'a ExplainedPolicy)) -> Option<CountedPolicy<'a>> {
    let spec = policy.spec().filter(|_| !policy.is_going)?;
    Some(CountedPolicy {
        name,
        created: policy.created,
        spec,
    })
}

/// The results of a policy for the account and the connector of the question.
fn of_policy(
    sight: &PolicySight<'_>,
    name: &str,
    policy: &ExplainedPolicy,
    counts: bool,
    matched: Option<&MatchedPolicy>,
) -> PolicyExplanation {
    let unreadable =
        |problem: &str| PolicyWordTold::new(PolicyWord::Unreadable, problem.to_owned());
    let (standing, checked, checks) = match &policy.said {
        PolicyText::Unreadable(problem) => {
            (unreadable(problem), unreadable(problem), [].as_slice())
        }
        PolicyText::Kept(_) | PolicyText::NotKept if policy.is_going => (
            PolicyWordTold::going(),
            PolicyWordTold::going(),
            [].as_slice(),
        ),
        PolicyText::NotKept => (unreadable(NOT_KEPT), unreadable(NOT_KEPT), [].as_slice()),
        PolicyText::Kept(spec) => {
            let granted = spec.check_granted_permission.as_ref();
            let checks = granted.map(|granted| granted.spec.checks.as_slice());
            (
                sight.standing(spec),
                sight.checked(spec, counts),
                checks.unwrap_or_default(),
            )
        }
    };
    told(
        name,
        &policy.uid,
        standing,
        checked,
        look_at_checks(checks, matched),
        matched,
    )
}

const fn wire(word: PolicyWord) -> PolicyApplies {
    match word {
        PolicyWord::Yes => PolicyApplies::Yes,
        PolicyWord::Absent => PolicyApplies::Absent,
        PolicyWord::OtherPermission => PolicyApplies::OtherPermission,
        PolicyWord::OtherName => PolicyApplies::OtherName,
        PolicyWord::OtherLabels => PolicyApplies::OtherLabels,
        PolicyWord::OtherSubject => PolicyApplies::OtherSubject,
        PolicyWord::TooMany => PolicyApplies::TooMany,
        PolicyWord::Unreadable => PolicyApplies::Unreadable,
        PolicyWord::Gone => PolicyApplies::Gone,
    }
}

/// A policy that a request was matched with, and that no longer exists.
fn gone(matched: &MatchedPolicy) -> PolicyExplanation {
    told(
        matched.name(),
        matched.uid(),
        PolicyWordTold::gone(),
        PolicyWordTold::gone(),
        look_at_checks(&[], Some(matched)),
        Some(matched),
    )
}

fn told(
    name: &str,
    uid: &str,
    standing: PolicyWordTold,
    checked: PolicyWordTold,
    checks: Vec<CheckExplanation>,
    matched: Option<&MatchedPolicy>,
) -> PolicyExplanation {
    let grant = matched.and_then(|matched| matched.grant.as_ref());
    let reason = grant.and_then(|grant| grant.reason);
    PolicyExplanation {
        name: name.to_owned(),
        uid: uid.to_owned(),
        standing: wire(standing.word).into(),
        standing_message: standing.message,
        checked: wire(checked.word).into(),
        checked_message: checked.message,
        grant_state: grant.map_or("", |grant| grant.state.as_str()).to_owned(),
        grant_reason: reason.map_or("", |reason| reason.as_str()).to_owned(),
        checks,
    }
}

/// The policy's checks in its order, then the judged checks that it no longer has.
fn look_at_checks(checks: &[Check], matched: Option<&MatchedPolicy>) -> Vec<CheckExplanation> {
    let refs = matched.map_or([].as_slice(), |matched| matched.check_refs.as_slice());
    let mut told: Vec<CheckExplanation> = checks
        .iter()
        .map(|check| CheckExplanation {
            check: check.name.clone(),
            api_version: check.selector.object_ref.api_version.clone(),
            kind: check.selector.object_ref.kind.clone(),
            ..CheckExplanation::default()
        })
        .collect();
    for check_ref in refs {
        let place = told.iter().position(|it| it.check == check_ref.name);
        let place = place.unwrap_or_else(|| {
            told.push(CheckExplanation {
                check: check_ref.name.clone(),
                ..CheckExplanation::default()
            });
            told.len() - 1
        });
        if let Some(check) = told.get_mut(place) {
            look_at_object(check, check_ref);
        }
    }
    told
}

fn look_at_object(check: &mut CheckExplanation, check_ref: &CheckRef) {
    let status = check_ref.status.clone().unwrap_or_default();
    let (reason, message) = (
        status.reason.unwrap_or_default(),
        status.message.unwrap_or_default(),
    );
    let Some(object) = check_ref.ref_.clone() else {
        check.reason = reason;
        check.message = message;
        return;
    };
    check.objects.push(CheckedObject {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace.unwrap_or_default(),
        name: object.name,
        uid: object.uid.unwrap_or_default(),
        resource_version: object.resource_version.unwrap_or_default(),
        state: status.state.unwrap_or_default(),
        reason,
        message,
        approved_by: status.approved_by,
        approvals: status.approvals.into_iter().map(approval).collect(),
        lineage: check_ref.lineage.iter().cloned().map(link).collect(),
        run_creator: status.run_creator.unwrap_or_default(),
    });
}

fn link(object: ObservedObject) -> LineageObject {
    LineageObject {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace.unwrap_or_default(),
        name: object.name,
        uid: object.uid.unwrap_or_default(),
        resource_version: object.resource_version.unwrap_or_default(),
    }
}

/// The name of the request that decides for the pod of a question, and its UID.
pub(crate) fn request(world: &World, question: &AccessQuestion) -> Option<(String, String)> {
    let request = access_decision::deciding(world, question)?;
    let uid = request.uid.as_deref()?;
    Some((request.name.to_string(), uid.to_owned()))
}

/// The request that was read, if it is the one that decides.
pub(crate) fn same(read: Option<AccessRequest>, uid: &str) -> Option<AccessRequest> {
    read.filter(|request| request.metadata.uid.as_deref() == Some(uid))
}

#[cfg(test)]
mod tests;
