//! `Explain`: every policy of a connector's namespace, whether it applies, and what became of its checks.
//!
//! A pure function of what the caches know, and of what was read live of the request and the account.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_policy::{Check, MOST_SELECTORS, SubjectSpec};
use connectors_api::access_request::{CheckRef, MatchedPolicy, ObservedObject};
use connectors_api::config::{DEFAULT_REQUESTERS, DefaultRequesters};
use connectors_api::policy_match::{self, Applies, Asker, WantedConnector};
use connectors_api::policy_order::{MOST_PER_CONNECTOR, PolicyAge};
use connectors_api::{AccessPolicySpec, AccessRequest, NamespaceKeys};
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

/// What was read live.
#[derive(Debug, Default)]
pub(crate) struct ExplainReads {
    /// The labels of the service account, where they matter and there is one.
    pub(crate) account: Option<Labels>,
    /// The request that decides for the pod.
    pub(crate) request: Option<AccessRequest>,
}

/// Whether the labels of a service account can make a difference in a namespace.
pub(crate) fn needs_account(world: &World, namespace: &str) -> bool {
    let by_label = |subjects: &[SubjectSpec]| {
        subjects
            .iter()
            .any(|subject| subject.name_selector.is_some())
    };
    let mut policies = world.catalog.policies(namespace);
    policies.any(|(_, policy)| {
        policy.spec().is_some_and(|spec| {
            let standing = spec.default_permission.as_ref();
            let granted = spec.check_granted_permission.as_ref();
            standing.is_some_and(|it| by_label(&it.binding_template.subjects))
                || granted
                    .and_then(|it| it.requesters.as_deref())
                    .is_some_and(by_label)
        })
    })
}

/// The explanation, from what is known at this time.
pub(crate) fn explain(
    world: &World,
    question: &AccessQuestion,
    read: &ExplainReads,
    now: Timestamp,
) -> ExplainResponse {
    let namespace = &question.connector.namespace;
    let labels = world.catalog.connector(namespace, &question.connector.name);
    let no_labels = Labels::new();
    let sight = Sight {
        question,
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
    let left_out = sight.left_out(world.catalog.policies(namespace));
    let mut matched = RequestedPolicies::of(read.request.as_ref());
    let mut policies: Vec<PolicyExplanation> = world
        .catalog
        .policies(namespace)
        .map(|(name, policy)| {
            let counts = !left_out.contains(name);
            sight.policy(name, policy, counts, matched.take(&policy.uid))
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

/// What the request says about policies, by their UID.
struct RequestedPolicies<'a>(BTreeMap<&'a str, &'a MatchedPolicy>);

impl<'a> RequestedPolicies<'a> {
    fn of(request: Option<&'a AccessRequest>) -> Self {
        let status = request.and_then(|request| request.status.as_ref());
        let policies = status.into_iter().flat_map(|status| &status.policies);
        Self(policies.map(|it| (metadata(it, "uid"), it)).collect())
    }

    fn take(&mut self, uid: &str) -> Option<&'a MatchedPolicy> {
        self.0.remove(uid)
    }

    fn left(self) -> impl Iterator<Item = &'a MatchedPolicy> {
        self.0.into_values()
    }
}

/// A text of the metadata of a policy as it was matched.
fn metadata<'a>(matched: &'a MatchedPolicy, field: &str) -> &'a str {
    let metadata = matched.policy.0.get("metadata");
    let text = metadata.and_then(|metadata| metadata.get(field)?.as_str());
    text.unwrap_or_default()
}

/// Who asks for what, as policies see it.
struct Sight<'a> {
    question: &'a AccessQuestion,
    wanted: WantedConnector<'a>,
    asker: Asker<'a>,
    /// Who may ask where a policy does not say.
    default: DefaultRequesters,
    /// By which labels of namespaces subjects may be selected.
    keys: &'a NamespaceKeys,
}

type AppliesAndWhy = (PolicyApplies, String);

impl Sight<'_> {
    /// The policies with checks that do not count for the connector, because so many older ones select it.
    fn left_out<'p>(
        &self,
        policies: impl Iterator<Item = (&'p String, &'p ExplainedPolicy)>,
    ) -> BTreeSet<&'p String> {
        let selects = |policy: &ExplainedPolicy| {
            let spec = policy.spec().filter(|_| !policy.is_going);
            spec.is_some_and(|spec| {
                spec.check_granted_permission.is_some()
                    && spec.permission == self.wanted.permission
                    && policy_match::selects(spec, self.wanted)
            })
        };
        let mut counted: Vec<_> = policies.filter(|(_, policy)| selects(policy)).collect();
        counted.sort_by_key(|(name, policy)| PolicyAge::new(policy.created, Some(name)));
        let left_out = counted.into_iter().skip(MOST_PER_CONNECTOR);
        left_out.map(|(name, _)| name).collect()
    }

    fn policy(
        &self,
        name: &str,
        policy: &ExplainedPolicy,
        counts: bool,
        matched: Option<&MatchedPolicy>,
    ) -> PolicyExplanation {
        let (standing, checked, checks) = match &policy.said {
            PolicyText::Unreadable(problem) => {
                let word = || (PolicyApplies::Unreadable, problem.clone());
                (word(), word(), [].as_slice())
            }
            PolicyText::Kept(_) | PolicyText::NotKept if policy.is_going => {
                (going(), going(), [].as_slice())
            }
            PolicyText::NotKept => {
                let word = || (PolicyApplies::Unreadable, NOT_KEPT.to_owned());
                (word(), word(), [].as_slice())
            }
            PolicyText::Kept(spec) => {
                let granted = spec.check_granted_permission.as_ref();
                let checks = granted.map(|granted| granted.spec.checks.as_slice());
                (
                    self.standing(spec),
                    match self.checked(spec) {
                        (PolicyApplies::Yes, _) if !counts => self.too_many(),
                        word => word,
                    },
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

    fn standing(&self, spec: &AccessPolicySpec) -> AppliesAndWhy {
        let namespace = &self.question.connector.namespace;
        let selectors = spec.default_permission.as_ref();
        let selectors = selectors.map_or(0, |it| it.binding_template.selectors());
        match policy_match::gives_standing(spec, namespace, self.wanted, self.asker, self.keys) {
            None => absent("defaultPermission"),
            Some(Applies::OtherAsker) if selectors > MOST_SELECTORS => {
                let message = format!(
                    "{selectors} of bindingTemplate.subjects have selectors, and at most {MOST_SELECTORS} may: nobody \
                     holds the permission"
                );
                (PolicyApplies::OtherSubject, message)
            }
            Some(applies) => self.word(spec, applies, "bindingTemplate.subjects", "holds it"),
        }
    }

    fn checked(&self, spec: &AccessPolicySpec) -> AppliesAndWhy {
        let namespace = &self.question.connector.namespace;
        let default = self.default;
        let applies = policy_match::applies(spec, namespace, self.wanted, self.asker, default);
        let granted = spec.check_granted_permission.as_ref();
        if applies == Applies::OtherAsker && granted.is_some_and(|it| it.requesters.is_none()) {
            let message = format!(
                "the policy names no requesters, and the pod is not in its namespace {namespace}, \
                 which {DEFAULT_REQUESTERS}: {default} of the installation asks for"
            );
            return (PolicyApplies::OtherSubject, message);
        }
        self.word(spec, applies, "requesters", "may ask for it")
    }

    fn too_many(&self) -> AppliesAndWhy {
        let connector = &self.question.connector.name;
        let message = format!(
            "{MOST_PER_CONNECTOR} older policies with checks select connector {connector}, and no more count: delete \
             policies that are not needed, or select other connectors"
        );
        (PolicyApplies::TooMany, message)
    }

    fn word(
        &self,
        spec: &AccessPolicySpec,
        applies: Applies,
        list: &str,
        may: &str,
    ) -> AppliesAndWhy {
        let subject = &self.question.subject;
        let account = format!("ServiceAccount {}/{}", subject.namespace, subject.name);
        let connector = &self.question.connector.name;
        match applies {
            Applies::Yes => (PolicyApplies::Yes, format!("{account} {may}")),
            Applies::NoChecks => absent("checkGrantedPermission"),
            Applies::OtherPermission => (
                PolicyApplies::OtherPermission,
                format!(
                    "the policy is about {}, the question about {}",
                    spec.permission, self.question.permission
                ),
            ),
            Applies::OtherConnector => {
                let names = spec.connector.names.as_ref();
                if names.is_some_and(|names| !names.contains(connector)) {
                    let message = format!("spec.connector.names does not hold {connector}");
                    (PolicyApplies::OtherName, message)
                } else {
                    let message = format!("spec.connector.selector does not select {connector}");
                    (PolicyApplies::OtherLabels, message)
                }
            }
            Applies::OtherAsker => {
                let message = format!("none of {list} is {account}");
                (PolicyApplies::OtherSubject, message)
            }
        }
    }
}

fn absent(part: &str) -> AppliesAndWhy {
    (PolicyApplies::Absent, format!("the policy has no {part}"))
}

fn going() -> AppliesAndWhy {
    let message = "the policy is being deleted".to_owned();
    (PolicyApplies::Gone, message)
}

/// A policy that a request was matched with, and that is not there any more.
fn gone(matched: &MatchedPolicy) -> PolicyExplanation {
    let word = || (PolicyApplies::Gone, "the policy is gone".to_owned());
    told(
        metadata(matched, "name"),
        metadata(matched, "uid"),
        word(),
        word(),
        look_at_checks(&[], Some(matched)),
        Some(matched),
    )
}

fn told(
    name: &str,
    uid: &str,
    (standing, standing_message): AppliesAndWhy,
    (checked, checked_message): AppliesAndWhy,
    checks: Vec<CheckExplanation>,
    matched: Option<&MatchedPolicy>,
) -> PolicyExplanation {
    let grant = matched.and_then(|matched| matched.grant.as_ref());
    let reason = grant.and_then(|grant| grant.reason);
    PolicyExplanation {
        name: name.to_owned(),
        uid: uid.to_owned(),
        standing: standing.into(),
        standing_message,
        checked: checked.into(),
        checked_message,
        grant_state: grant.map_or("", |grant| grant.state.as_str()).to_owned(),
        grant_reason: reason.map_or("", |reason| reason.as_str()).to_owned(),
        checks,
    }
}

/// The policy's checks in its order, then what was judged for checks that it does not have any more.
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

/// The request as it was read, if it is the one that decides.
pub(crate) fn same(read: Option<AccessRequest>, uid: &str) -> Option<AccessRequest> {
    read.filter(|request| request.metadata.uid.as_deref() == Some(uid))
}

#[cfg(test)]
mod tests;
