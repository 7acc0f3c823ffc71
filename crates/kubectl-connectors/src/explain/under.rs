//! The access of a request under the policies that there are, and under others. The same judge answers both.

use std::collections::BTreeMap;

use connectors_api::policy_words::PolicyWord;
use connectors_api::{AccessPolicy, AccessRequest};
use jiff::Timestamp;

use super::collect::WriterSearch;
use super::observe::AccessReviews;
use super::report::{AccessShown, PodWord, RuleShown};
use super::seen::{AccessRead, PodRead, PolicyRead};
use super::{collect, observe, tell};
use crate::modules::Modules;
use crate::reads::ClusterReads;
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, Presence};

/// The access of a request under two sets of policies.
#[derive(Clone, Debug, PartialEq)]
pub struct UnderPolicies {
    /// False if it is known that there is no connector of this name.
    pub has_connector: bool,
    /// Under the policies that there are.
    pub before: AccessUnder,
    /// Under the others.
    pub after: AccessUnder,
}

/// An access under some policies.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessUnder {
    /// The access.
    pub shown: AccessShown,
    /// The rules of the standing permissions, by policy.
    pub standing: BTreeMap<String, Vec<RuleShown>>,
}

/// Whether a request is judged as it is, or as a new one of the same pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStage {
    /// As it is: what a policy decided stays.
    AsItIs,
    /// As a new request.
    Anew,
}

/// The access of a request under the policies that there are, and with these in place of those of the same name or
/// beside them. None if the pod is over.
pub async fn under_policies(
    reads: &ClusterReads,
    modules: &Modules,
    request: AccessRequest,
    stage: RequestStage,
    system_namespace: &str,
    others: &[AccessPolicy],
    now: Timestamp,
) -> (Option<UnderPolicies>, Vec<MissedRead>) {
    let reviews = AccessReviews::LeftOut;
    let mut observed = observe::request_read(reads, system_namespace, request, reviews).await;
    // The request of such a pod ends, whatever the policies are.
    let is_over = |pod: &PodRead| matches!(pod.word(), PodWord::Gone | PodWord::Finished);
    if observed.pod.as_ref().is_some_and(is_over) {
        return (None, observed.unread);
    }
    for access in &mut observed.accesses {
        // The policies tell the standing permission, before and afterwards.
        access.standing = Some((false, String::new()));
        if stage == RequestStage::Anew {
            access.request = Presence::Absent;
            access.grant = None;
        }
    }
    collect::judge_all(reads, modules, &mut observed, WriterSearch::LeftOut).await;
    let before = tell::explain(&observed, now).accesses;
    let standing_before: Vec<_> = observed.accesses.iter().map(standing).collect();
    for access in &mut observed.accesses {
        replace(access, others);
    }
    collect::judge_all(reads, modules, &mut observed, WriterSearch::LeftOut).await;
    let after = tell::explain(&observed, now).accesses;
    let both = before.into_iter().zip(standing_before);
    let both = both.zip(after.into_iter().zip(&observed.accesses));
    let mut found = both.map(|((before, standing_before), (after, read))| UnderPolicies {
        has_connector: read.labels != Presence::Absent,
        before: AccessUnder {
            shown: before,
            standing: standing_before,
        },
        after: AccessUnder {
            shown: after,
            standing: standing(read),
        },
    });
    (found.next(), observed.unread)
}

/// The rules of the standing permissions, by policy.
fn standing(access: &AccessRead) -> BTreeMap<String, Vec<RuleShown>> {
    let policies = access.policies.iter().flatten();
    policies
        .filter_map(|it| {
            let spec = &it.policy.as_ref().ok()?.spec;
            let rules = &spec.default_permission.as_ref()?.role_template.rules;
            let shown = rules.iter().map(|it| RuleShown {
                resources: it.resources.clone(),
                verbs: it.verbs.clone(),
            });
            Some((it.name.clone(), shown.collect()))
        })
        .collect()
}

fn replace(access: &mut AccessRead, others: &[AccessPolicy]) {
    let Some(policies) = &mut access.policies else {
        return;
    };
    let namespace = Some(access.connector.namespace.as_str());
    let of_namespace = others
        .iter()
        .filter(|it| it.metadata.namespace.as_deref() == namespace);
    for other in of_namespace {
        let mut read = PolicyRead::of(Ok(other.clone()));
        if let Some(known) = policies.iter_mut().find(|it| it.name == read.name) {
            read.uid.clone_from(&known.uid);
            read.created = known.created;
            *known = read;
        } else {
            // It is none of those that a request records.
            read.uid = format!("new {}", read.name);
            policies.push(read);
        }
    }
    policies.sort_by(|a, b| a.name.cmp(&b.name));
}

impl UnderPolicies {
    /// The pod's connector.
    #[must_use]
    pub fn connector(&self) -> &NamespacedName {
        &self.before.shown.connector
    }
}

impl AccessUnder {
    /// True when a check of a policy that applies could not be judged.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let applying = self.shown.policies.iter();
        let mut applying =
            applying.filter(|it| it.applies == PolicyWord::Yes && it.grant.is_none());
        applying.any(|it| it.verdict.is_none())
    }

    /// The rules that the pod gets by the policies that pass.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleShown> {
        let policies = self.shown.policies.iter();
        let rules = policies.filter(|it| it.grant.is_none());
        let mut rules: Vec<_> = rules.flat_map(|it| it.rules.clone()).collect();
        rules.sort();
        rules.dedup();
        rules
    }
}
