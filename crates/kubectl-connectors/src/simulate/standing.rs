//! The standing permissions of a namespace, before and afterwards, by the rules of the policy-controller. Pure.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::AccessPolicy;
use connectors_api::standing::{self, StandingPermission, Surroundings};
use kube::ResourceExt as _;

use super::{StandingChange, StandingWord};

/// A standing permission on one connector: holder, resource and verb.
type StandingKey = (String, String, String);
/// The connectors of each standing permission.
type StandingKeys = BTreeMap<StandingKey, BTreeSet<String>>;

/// The standing permissions that begin or end when policies of a namespace are replaced.
pub(super) fn changes(
    namespace: &str,
    before: &[AccessPolicy],
    after: &[AccessPolicy],
    around: Surroundings<'_>,
) -> Vec<StandingChange> {
    let (before, after) = (
        holds(namespace, before, around),
        holds(namespace, after, around),
    );
    let mut changes = Vec::new();
    let mut add = |change, from: &StandingKeys, to: &StandingKeys| {
        let none = BTreeSet::new();
        for ((holder, resource, verb), connectors) in to {
            let key = (holder.clone(), resource.clone(), verb.clone());
            let known = from.get(&key).unwrap_or(&none);
            let connectors: Vec<_> = connectors.difference(known).cloned().collect();
            if !connectors.is_empty() {
                changes.push(StandingChange {
                    namespace: namespace.to_owned(),
                    change,
                    holder: holder.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    connectors,
                });
            }
        }
    };
    add(StandingWord::Gains, &before, &after);
    add(StandingWord::Loses, &after, &before);
    changes.sort();
    changes
}

fn holds(namespace: &str, policies: &[AccessPolicy], around: Surroundings<'_>) -> StandingKeys {
    let mut found = StandingKeys::new();
    for policy in policies {
        let wanted = standing::wanted(&policy.spec, namespace, around);
        let StandingPermission::Given { rules, holders, .. } = wanted.standing else {
            continue;
        };
        // Without a connector there is no Role.
        if wanted.connectors.is_empty() {
            continue;
        }
        for holder in &holders {
            for rule in &rules {
                for (resource, verb) in rule
                    .resources
                    .iter()
                    .flat_map(|it| rule.verbs.iter().map(move |verb| (it, verb)))
                {
                    let key = (holder.to_string(), resource.clone(), verb.clone());
                    let connectors = found.entry(key).or_default();
                    connectors.extend(wanted.connectors.iter().cloned());
                }
            }
        }
    }
    found
}

/// The reasons for which standing permissions of policies give nothing, or less than they say.
pub(super) fn problems(
    namespace: &str,
    policies: &[AccessPolicy],
    around: Surroundings<'_>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for policy in policies {
        let name = policy.name_any();
        let at = format!("policy {namespace}/{name}: defaultPermission gives nothing");
        match standing::wanted(&policy.spec, namespace, around).standing {
            StandingPermission::None => {}
            StandingPermission::Invalid(wrong) => problems.push(format!("{at}: {wrong}")),
            StandingPermission::TooMany { found, most } => problems.push(format!(
                "{at}: its selectors find {found} subjects, and at most {} may be selected",
                most.0
            )),
            StandingPermission::TooManySelectors { found } => {
                problems.push(format!("{at}: {found} of its subjects have selectors"));
            }
            StandingPermission::Given { unclear, .. } => {
                problems.extend(unclear.iter().map(|(place, why)| {
                    format!("policy {namespace}/{name}: bindingTemplate.subjects[{place}] holds nothing: {why}")
                }));
            }
        }
    }
    problems
}
