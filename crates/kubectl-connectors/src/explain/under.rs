//! The access of a request under the policies that there are, and under others. The same judge answers both.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::GrantState;
use connectors_api::config::{CONFIG_MAP, DEFAULT_REQUESTERS, ENABLE, Knowledge};
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;
use connectors_api::{AccessPolicy, AccessRequest};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::collect::{CheckLook, WriterSearch};
use super::observe::{AccessReviews, RequestLook};
use super::report::{AccessShown, GatingWord, PodWord, PolicyShown, RuleShown};
use super::seen::{AccessRead, Observed, PodRead, PolicyRead};
use super::{collect, observe, state, tell};
use crate::modules::Modules;
use crate::reads::ClusterReads;
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, Presence, ReadOf, ReadVerb};

/// The changes of the policies of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct PolicyChanges<'a> {
    /// Policies in place of those of the same name, or beside them.
    pub written: &'a [AccessPolicy],
    /// The policies that are deleted.
    pub deleted: &'a [NamespacedName],
}

/// The access of a request under two sets of policies.
#[derive(Clone, Debug, PartialEq)]
pub struct UnderPolicies {
    /// Why nothing new is granted, whatever the checks say.
    pub barred: Option<String>,
    /// The setting without which it is not known whether anything new is granted.
    pub unknown_switch: Option<MissedRead>,
    /// The policies whose grants end, because they are deleted.
    pub ending: Vec<PolicyShown>,
    /// False if it is known that there is no connector of this name.
    pub has_connector: bool,
    /// The connector is another one than when the request was made. Nothing is granted.
    pub is_replaced: bool,
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
    /// The setting without which it is not known which policies apply.
    pub unknown_default: Option<MissedRead>,
    /// Checks, permissions and limits of the policies that apply and have not decided, by policy.
    pub terms: BTreeMap<String, Value>,
}

/// Whether a request is judged as it is, or as a new one of the same pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStage {
    /// As it is: what a policy decided stays. A granted request is judged by the policies that have not decided.
    AsItIs,
    /// As a new request.
    Anew,
}

/// The access of a request under the policies that there are, and after these changes. None if the pod is over.
pub async fn under_policies(
    reads: &ClusterReads,
    modules: &Modules,
    request: AccessRequest,
    stage: RequestStage,
    system_namespace: &str,
    changes: PolicyChanges<'_>,
    now: Timestamp,
) -> (Option<UnderPolicies>, Vec<MissedRead>) {
    let look = RequestLook {
        reviews: AccessReviews::LeftOut,
        others: changes.written,
    };
    let mut observed = observe::request_read(reads, system_namespace, request, look).await;
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
            access.is_replaced = false;
            access.grant = None;
        }
    }
    let reader = collect::reader(system_namespace);
    let look = CheckLook {
        known: None,
        is_granted_too: stage == RequestStage::AsItIs,
        writers: WriterSearch::LeftOut,
        reader: Some(&reader),
    };
    Box::pin(collect::judge_these(reads, modules, &mut observed, look)).await;
    let before = under(&observed, now);
    for access in &mut observed.accesses {
        if let Some(policies) = &mut access.policies {
            change(policies, &access.connector.namespace, changes);
        }
    }
    Box::pin(collect::judge_these(reads, modules, &mut observed, look)).await;
    let after = under(&observed, now);
    let (barred, unknown_switch) = (barred(&observed), unknown_switch(&observed));
    let is_deleted = |namespace: &str, name: &str| {
        let mut deleted = changes.deleted.iter();
        deleted.any(|it| it.namespace == namespace && it.name == name)
    };
    let ending = |before: &AccessUnder| {
        let namespace = &before.shown.connector.namespace;
        let held = before.held().filter(|it| is_deleted(namespace, &it.name));
        held.cloned().collect()
    };
    let both = before.into_iter().zip(after).zip(&observed.accesses);
    let mut found = both.map(|((before, after), read)| UnderPolicies {
        barred: barred.clone(),
        unknown_switch: unknown_switch.clone(),
        ending: ending(&before),
        has_connector: read.labels != Presence::Absent,
        is_replaced: read.is_replaced,
        before,
        after,
    });
    (found.next(), observed.unread)
}

/// Why nothing new is granted, whatever the checks say.
fn barred(observed: &Observed) -> Option<String> {
    if observed.gating() == GatingWord::Off {
        return Some("approvals are switched off, and nothing new is granted".to_owned());
    }
    let pod = observed.pod.as_ref();
    let pod = pod.filter(|it| it.word() == PodWord::Terminating)?;
    let name = &pod.name;
    Some(format!(
        "pod {name} is being deleted, and nothing is granted to it any more"
    ))
}

/// A setting of the installation that says nothing. The services keep the last value that they read.
fn unknown_setting(observed: &Observed, problem: &str) -> MissedRead {
    let read = ReadOf {
        verb: ReadVerb::Get,
        resource: "configmaps",
        namespace: &observed.system_namespace,
        name: CONFIG_MAP,
    };
    let namespace = &observed.system_namespace;
    let message = format!("ConfigMap {CONFIG_MAP} of namespace {namespace}: {problem}");
    MissedRead::of(read, None, &message)
}

fn unknown_switch(observed: &Observed) -> Option<MissedRead> {
    (observed.gating() == GatingWord::Unknown).then(|| {
        let problem = format!(
            "{ENABLE} is not `true` or `false`, so it is not known whether anything is granted"
        );
        unknown_setting(observed, &problem)
    })
}

/// Matters for a policy that names no requesters, if the account is of another namespace.
fn unknown_default(observed: &Observed, read: &AccessRead) -> Option<MissedRead> {
    let settings = observed.settings.as_ref();
    let is_known = settings.is_some_and(Knowledge::knows_default_requesters);
    let elsewhere = observed.account.namespace != read.connector.namespace;
    let mut policies = read.policies.iter().flatten();
    let open = policies.find(|it| it.granted_part().is_some_and(|it| it.requesters.is_none()));
    let open = open.filter(|_| !is_known && elsewhere)?;
    let problem = format!(
        "{DEFAULT_REQUESTERS} is not `Namespace` or `Any`, so it is not known who may ask by policy {}",
        open.name
    );
    Some(unknown_setting(observed, &problem))
}

fn under(observed: &Observed, now: Timestamp) -> Vec<AccessUnder> {
    let shown = tell::explain(observed, now).accesses.into_iter();
    let both = shown.zip(&observed.accesses);
    both.map(|(mut shown, read)| {
        refuse_decided(&mut shown);
        if let Some(told) = state::late(&shown.policies).filter(|_| !read.is_replaced) {
            shown.because = told;
        }
        AccessUnder {
            standing: standing(read),
            unknown_default: unknown_default(observed, read),
            terms: terms(&shown, read),
            shown,
        }
    })
    .collect()
}

/// Policies that refused the request before, or whose grant ended, refuse it for good. It does not matter whether they
/// still apply.
fn refuse_decided(shown: &mut AccessShown) {
    let ended = |it: &&mut PolicyShown| {
        let grant = it.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Ended)
    };
    for policy in shown.policies.iter_mut().filter(ended) {
        policy.applies = PolicyWord::Yes;
        policy.verdict = Some(AccessCheckReady::AccessCheckRejected);
        policy.rules.clear();
    }
}

fn terms(shown: &AccessShown, read: &AccessRead) -> BTreeMap<String, Value> {
    let applies = |name: &str| {
        let mut all = shown.policies.iter();
        all.any(|it| it.name == name && it.applies == PolicyWord::Yes && it.grant.is_none())
    };
    let policies = read.policies.iter().flatten();
    policies
        .filter(|it| applies(&it.name))
        .filter_map(|it| Some((it.name.clone(), json!(it.granted_part()?.spec))))
        .collect()
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

/// Changes the policies of a namespace.
fn change(policies: &mut Vec<PolicyRead>, namespace: &str, changes: PolicyChanges<'_>) {
    let is_here = |it: &&NamespacedName| it.namespace == namespace;
    for deleted in changes.deleted.iter().filter(is_here) {
        policies.retain(|it| it.name != deleted.name);
    }
    let of_namespace = changes
        .written
        .iter()
        .filter(|it| it.metadata.namespace.as_deref() == Some(namespace));
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

    /// The differences of the policies that apply and have not decided, each as a sentence.
    #[must_use]
    pub fn differences(&self) -> Vec<String> {
        let (before, after) = (&self.before.terms, &self.after.terms);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let told = names.into_iter().filter_map(|name| {
            let (was, is) = match (before.get(name), after.get(name)) {
                (Some(was), Some(is)) => (was, is),
                (None, _) => return Some(format!("policy {name} applies too")),
                (_, None) => return Some(format!("policy {name} does not apply any more")),
            };
            let fields = ["checks", "permissions", "limits"];
            let fields = fields.into_iter().filter(|it| was.get(it) != is.get(it));
            let fields: Vec<_> = fields.collect();
            match fields.as_slice() {
                [] if was == is => None,
                [] => Some(format!("policy {name} has another text")),
                [_, ..] => Some(format!("policy {name} has other {}", fields.join(" and "))),
            }
        });
        told.collect()
    }

    /// The policies that pass afterwards, and did not before. The end of a grant lets the controller look at all that pass.
    #[must_use]
    pub fn newly_passing(&self) -> Vec<&PolicyShown> {
        let passes = |it: &&PolicyShown| {
            it.applies == PolicyWord::Yes
                && it.grant.is_none()
                && it.verdict == Some(AccessCheckReady::AccessCheckPassed)
        };
        if !self.has_connector || self.is_replaced || self.barred.is_some() {
            return Vec::new();
        }
        let before = &self.before.shown.policies;
        let did = |name: &str| before.iter().any(|it| it.name == name && passes(&it));
        let after = self.after.shown.policies.iter();
        after
            .filter(passes)
            .filter(|it| !self.ending.is_empty() || !did(&it.name))
            .collect()
    }

    /// The settings without which the result is not known.
    pub fn unknown_settings(&self) -> impl Iterator<Item = &MissedRead> {
        let of_both = [&self.before, &self.after];
        let defaults = of_both
            .into_iter()
            .filter_map(|it| it.unknown_default.as_ref());
        self.unknown_switch.iter().chain(defaults)
    }

    /// True when a grant of the request stays in force.
    #[must_use]
    pub fn keeps_a_grant(&self) -> bool {
        self.before.held().count() > self.ending.len()
    }
}

impl AccessUnder {
    /// The policies whose grants were in force, and have not ended.
    fn held(&self) -> impl Iterator<Item = &PolicyShown> {
        let policies = self.shown.policies.iter();
        policies.filter(|it| {
            let grant = it.grant.as_ref();
            grant.is_some_and(|it| it.state != GrantState::Ended)
        })
    }

    /// Takes away the standing permissions of these policies, which give nothing.
    pub fn without_standing(&mut self, policies: &BTreeSet<String>) {
        let named = self.shown.policies.iter_mut();
        for policy in
            named.filter(|it| it.standing == PolicyWord::Yes && policies.contains(&it.name))
        {
            policy.standing = PolicyWord::Absent;
            "its defaultPermission gives nothing".clone_into(&mut policy.standing_because);
        }
    }

    /// True when a standing permission of one of these policies would cover the account.
    #[must_use]
    pub fn may_hold_by(&self, policies: &BTreeSet<String>) -> bool {
        let mut named = self.shown.policies.iter();
        named.any(|it| it.standing == PolicyWord::Yes && policies.contains(&it.name))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(namespace: &str, name: &str) -> AccessPolicy {
        let uid = format!("{namespace}-{name}");
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "uid": uid}, "spec": {},
        }))
        .unwrap()
    }

    /// The names and UIDs of the policies of namespace b after a change.
    fn changed(changes: PolicyChanges<'_>) -> Vec<(String, String)> {
        let known = ["x", "y"].map(|name| PolicyRead::of(Ok(policy("b", name))));
        let mut policies = Vec::from(known);
        change(&mut policies, "b", changes);
        let identity = |it: PolicyRead| (it.name, it.uid);
        policies.into_iter().map(identity).collect()
    }

    #[test]
    fn a_change_reaches_the_policies_of_its_own_namespace_alone() {
        let named = |namespace: &str| NamespacedName::new(namespace, "x");
        let pair = |name: &str, uid: &str| (name.to_owned(), uid.to_owned());
        let (x, y) = (pair("x", "b-x"), pair("y", "b-y"));
        for (deleted, written, expected) in [
            (vec![], vec![], vec![x.clone(), y.clone()]),
            (vec![named("a")], vec![], vec![x.clone(), y.clone()]),
            (vec![named("bb")], vec![], vec![x.clone(), y.clone()]),
            (vec![named("b")], vec![], vec![y.clone()]),
            (vec![], vec![policy("a", "z")], vec![x.clone(), y.clone()]),
            // A policy that is replaced stays the same one.
            (vec![], vec![policy("b", "x")], vec![x.clone(), y.clone()]),
            (
                vec![named("b")],
                vec![policy("b", "a")],
                vec![pair("a", "new a"), y.clone()],
            ),
        ] {
            let changes = PolicyChanges {
                written: &written,
                deleted: &deleted,
            };
            assert_eq!(changed(changes), expected, "{deleted:?} {written:?}");
        }
    }
}
