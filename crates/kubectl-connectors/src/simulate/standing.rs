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

/// Every verb.
const ANY_VERB: &str = "*";

/// The standing permissions that begin or end when policies of a namespace are replaced. A verb that `*` of the same
/// holder covers neither begins nor ends.
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
        for ((holder, resource, verb), connectors) in to {
            let has = |of: &StandingKeys, verb: &str, connector: &String| {
                let key = (holder.clone(), resource.clone(), verb.to_owned());
                of.get(&key).is_some_and(|it| it.contains(connector))
            };
            let is_told = |connector: &&String| {
                let is_covered = verb != ANY_VERB && has(to, ANY_VERB, connector);
                !is_covered && !has(from, verb, connector) && !has(from, ANY_VERB, connector)
            };
            let connectors: Vec<_> = connectors.iter().filter(is_told).cloned().collect();
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

/// The policies whose standing permission gives nothing, whatever it says.
pub(super) fn without_effect(
    namespace: &str,
    policies: &[AccessPolicy],
    around: Surroundings<'_>,
) -> BTreeSet<String> {
    let gives_nothing = |policy: &&AccessPolicy| {
        let wanted = standing::wanted(&policy.spec, namespace, around);
        match wanted.standing {
            StandingPermission::Invalid(_)
            | StandingPermission::TooMany { .. }
            | StandingPermission::TooManySelectors { .. } => true,
            StandingPermission::None | StandingPermission::Given { .. } => false,
        }
    };
    let found = policies.iter().filter(gives_nothing);
    found.map(kube::ResourceExt::name_any).collect()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use connectors_api::NamespaceKeys;
    use connectors_api::standing::MostSelected;
    use serde_json::json;

    use super::*;

    /// A standing permission of `builder` with these verbs.
    fn policy(name: &str, verbs: &[&str]) -> AccessPolicy {
        let policy = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": name, "namespace": "payments"},
            "spec": {"connector": {"names": ["harbor"]}, "defaultPermission": {
                "roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": verbs,
                }]},
                "bindingTemplate": {"subjects": [{"kind": "User", "name": "builder"}]},
            }},
        });
        serde_json::from_value(policy).unwrap()
    }

    fn changed(before: &[AccessPolicy], after: &[AccessPolicy]) -> Vec<(StandingWord, String)> {
        let connectors = BTreeMap::from([("harbor".to_owned(), BTreeMap::new())]);
        let around = Surroundings {
            most_selected: MostSelected::default(),
            namespace_keys: &NamespaceKeys::default(),
            connectors: &connectors,
            namespaces: &BTreeMap::new(),
            accounts: &BTreeMap::new(),
        };
        let changes = changes("payments", before, after, around).into_iter();
        changes.map(|it| (it.change, it.verb)).collect()
    }

    #[test]
    fn a_verb_that_the_holder_keeps_by_every_verb_neither_begins_nor_ends() {
        let (all, read) = (policy("all", &["*"]), policy("read", &["read"]));
        let both = [all.clone(), read.clone()];
        let (all, read) = (&both[..1], &both[1..]);
        let loses = |verb: &str| (StandingWord::Loses, verb.to_owned());
        let gains = |verb: &str| (StandingWord::Gains, verb.to_owned());
        assert_eq!(changed(&both, all), []);
        assert_eq!(changed(all, &both), []);
        assert_eq!(changed(&both, read), [loses("*")]);
        assert_eq!(changed(read, &both), [gains("*")]);
        assert_eq!(changed(read, all), [gains("*")]);
        assert_eq!(changed(&both, &[]), [loses("*")]);
        assert_eq!(changed(read, &[]), [loses("read")]);
    }
}
