//! Whether a policy applies to an account and a connector, as one word and a sentence with the reason.
//!
//! The evaluation service's `Explain` and the kubectl plugin say it in the same words.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::AccessPolicySpec;
use crate::NamespaceKeys;
use crate::access_policy::MOST_SELECTORS;
use crate::config::{DEFAULT_REQUESTERS, DefaultRequesters};
use crate::policy_match::{self, Applies, Asker, WantedConnector};
use crate::policy_order::{MOST_PER_CONNECTOR, PolicyAge};
use crate::words::words;

words! {
    /// Whether one half of a policy applies: its standing permission, or its permission under checks.
    PolicyWord {
        /// It selects the connector and accepts the account.
        Yes,
        /// The policy does not have this half.
        Absent,
        /// It is about another permission.
        OtherPermission,
        /// It names other connectors.
        OtherName,
        /// It selects connectors with other labels.
        OtherLabels,
        /// It accepts other accounts.
        OtherSubject,
        /// So many older policies select the connector that this one does not count.
        TooMany,
        /// It cannot be read, or it is not known what it says.
        Unreadable,
        /// It is gone, or is being deleted.
        Gone,
    }
}

/// A word, and its reason as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWordTold {
    /// The word.
    pub word: PolicyWord,
    /// The reason.
    pub message: String,
}

impl PolicyWordTold {
    /// A word with its reason.
    #[must_use]
    pub const fn new(word: PolicyWord, message: String) -> Self {
        Self { word, message }
    }

    /// The policy is being deleted.
    #[must_use]
    pub fn going() -> Self {
        Self::new(PolicyWord::Gone, "the policy is being deleted".to_owned())
    }

    /// The policy is gone.
    #[must_use]
    pub fn gone() -> Self {
        Self::new(PolicyWord::Gone, "the policy is gone".to_owned())
    }

    fn absent(part: &str) -> Self {
        Self::new(PolicyWord::Absent, format!("the policy has no {part}"))
    }
}

/// An account and a connector, as the policies of the connector's namespace see them.
#[derive(Clone, Copy, Debug)]
pub struct PolicySight<'a> {
    /// The namespace of the connector and of its policies.
    pub namespace: &'a str,
    /// The connector and the permission.
    pub wanted: WantedConnector<'a>,
    /// The account.
    pub asker: Asker<'a>,
    /// The requesters of policies that name none.
    pub default: DefaultRequesters,
    /// The labels of namespaces by which subjects may be selected.
    pub keys: &'a NamespaceKeys,
}

/// A policy that can be read and is not being deleted, for the question which policies count.
#[derive(Clone, Copy, Debug)]
pub struct CountedPolicy<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The spec of the policy.
    pub spec: &'a AccessPolicySpec,
}

impl PolicySight<'_> {
    /// The policies with checks that do not count for the connector, because so many older ones select it.
    pub fn left_out<'p>(
        &self,
        policies: impl IntoIterator<Item = CountedPolicy<'p>>,
    ) -> BTreeSet<&'p str> {
        let selects = |it: &CountedPolicy<'_>| {
            it.spec.check_granted_permission.is_some()
                && it.spec.permission == self.wanted.permission
                && policy_match::selects(it.spec, self.wanted)
        };
        let mut counted: Vec<_> = policies.into_iter().filter(selects).collect();
        counted.sort_by_key(|it| PolicyAge::new(it.created, Some(it.name)));
        let left_out = counted.into_iter().skip(MOST_PER_CONNECTOR);
        left_out.map(|it| it.name).collect()
    }

    /// Whether the account holds the policy's standing permission.
    #[must_use]
    pub fn standing(&self, spec: &AccessPolicySpec) -> PolicyWordTold {
        let selectors = spec.default_permission.as_ref();
        let selectors = selectors.map_or(0, |it| it.binding_template.selectors());
        let given =
            policy_match::gives_standing(spec, self.namespace, self.wanted, self.asker, self.keys);
        match given {
            None => PolicyWordTold::absent("defaultPermission"),
            Some(Applies::OtherAsker) if selectors > MOST_SELECTORS => {
                let message = format!(
                    "{selectors} of bindingTemplate.subjects have selectors, and at most {MOST_SELECTORS} may: nobody \
                     holds the permission"
                );
                PolicyWordTold::new(PolicyWord::OtherSubject, message)
            }
            Some(applies) => self.told(spec, applies, "bindingTemplate.subjects", "holds it"),
        }
    }

    /// Whether the account may ask for the policy's permission under checks. `counts` is false for a policy that is
    /// [left out](Self::left_out).
    #[must_use]
    pub fn checked(&self, spec: &AccessPolicySpec, counts: bool) -> PolicyWordTold {
        let applies =
            policy_match::applies(spec, self.namespace, self.wanted, self.asker, self.default);
        let granted = spec.check_granted_permission.as_ref();
        if applies == Applies::OtherAsker && granted.is_some_and(|it| it.requesters.is_none()) {
            let message = format!(
                "the policy names no requesters, and the pod is not in its namespace {}, \
                 which {DEFAULT_REQUESTERS}: {} of the installation asks for",
                self.namespace, self.default
            );
            return PolicyWordTold::new(PolicyWord::OtherSubject, message);
        }
        if applies == Applies::Yes && !counts {
            let message = format!(
                "{MOST_PER_CONNECTOR} older policies with checks select connector {}, and no more count: delete \
                 policies that are not needed, or select other connectors",
                self.wanted.connector
            );
            return PolicyWordTold::new(PolicyWord::TooMany, message);
        }
        self.told(spec, applies, "requesters", "may ask for it")
    }

    fn told(
        &self,
        spec: &AccessPolicySpec,
        applies: Applies,
        list: &str,
        may: &str,
    ) -> PolicyWordTold {
        let Asker {
            namespace, name, ..
        } = self.asker;
        let account = format!("ServiceAccount {namespace}/{name}");
        let connector = self.wanted.connector;
        let (word, message) = match applies {
            Applies::Yes => (PolicyWord::Yes, format!("{account} {may}")),
            Applies::NoChecks => return PolicyWordTold::absent("checkGrantedPermission"),
            Applies::OtherPermission => (
                PolicyWord::OtherPermission,
                format!(
                    "the policy is about {}, the question about {}",
                    spec.permission, self.wanted.permission
                ),
            ),
            Applies::OtherConnector => {
                let names = spec.connector.names.as_ref();
                let is_named = |names: &Vec<String>| names.iter().any(|it| it == connector);
                if names.is_some_and(|names| !is_named(names)) {
                    let message = format!("spec.connector.names does not hold {connector}");
                    (PolicyWord::OtherName, message)
                } else {
                    let message = format!("spec.connector.selector does not select {connector}");
                    (PolicyWord::OtherLabels, message)
                }
            }
            Applies::OtherAsker => (
                PolicyWord::OtherSubject,
                format!("none of {list} is {account}"),
            ),
        };
        PolicyWordTold::new(word, message)
    }
}

/// True when the labels of a service account can make a difference to what a policy says.
#[must_use]
pub fn looks_at_account(spec: &AccessPolicySpec) -> bool {
    let standing = spec.default_permission.as_ref();
    let granted = spec.check_granted_permission.as_ref();
    let standing = standing.map(|it| it.binding_template.subjects.as_slice());
    let requesters = granted.and_then(|it| it.requesters.as_deref());
    let mut subjects = standing.into_iter().chain(requesters).flatten();
    subjects.any(|subject| subject.name_selector.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::Permission;

    fn spec(spec: Value) -> AccessPolicySpec {
        serde_json::from_value(spec).unwrap()
    }

    fn checked(connector: &Value, requesters: &Value) -> AccessPolicySpec {
        let mut granted = json!({"spec": {
            "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }});
        if !requesters.is_null() {
            granted["requesters"] = requesters.clone();
        }
        spec(json!({"connector": connector, "checkGrantedPermission": granted}))
    }

    fn with_sight<T>(namespace: &str, look: impl FnOnce(PolicySight<'_>) -> T) -> T {
        let (labels, keys) = (BTreeMap::new(), NamespaceKeys::default());
        look(PolicySight {
            namespace: "tools",
            wanted: WantedConnector {
                connector: "harbor",
                labels: &labels,
                permission: Permission::Apis,
            },
            asker: Asker {
                namespace,
                name: "builder",
                labels: None,
                namespace_labels: None,
            },
            default: DefaultRequesters::Namespace,
            keys: &keys,
        })
    }

    #[test]
    fn a_policy_of_another_connector_says_by_which_part_it_selects() {
        for (connector, word) in [
            (json!({}), PolicyWord::Yes),
            (json!({"names": ["harbor"]}), PolicyWord::Yes),
            (json!({"names": ["gitlab"]}), PolicyWord::OtherName),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                PolicyWord::OtherLabels,
            ),
        ] {
            let policy = checked(&connector, &json!(null));
            let told = with_sight("tools", |it| it.checked(&policy, true));
            assert_eq!(told.word, word, "{connector}: {}", told.message);
        }
    }

    #[test]
    fn a_policy_without_requesters_names_the_setting_that_keeps_other_namespaces_out() {
        let policy = checked(&json!({}), &json!(null));
        let told = with_sight("shop", |it| it.checked(&policy, true));
        assert_eq!(told.word, PolicyWord::OtherSubject);
        assert!(told.message.contains("default-requesters: Namespace"));
        let named = json!([{"kind": "ServiceAccount", "name": "other"}]);
        let told = with_sight("shop", |it| it.checked(&checked(&json!({}), &named), true));
        let message = "none of requesters is ServiceAccount shop/builder";
        assert_eq!(
            told,
            PolicyWordTold::new(PolicyWord::OtherSubject, message.to_owned())
        );
    }

    #[test]
    fn only_a_policy_that_would_apply_is_left_out_for_its_age() {
        let other = checked(&json!({"names": ["gitlab"]}), &json!(null));
        let own = checked(&json!({}), &json!(null));
        for (policy, word) in [(&own, PolicyWord::TooMany), (&other, PolicyWord::OtherName)] {
            let told = with_sight("tools", |it| it.checked(policy, false));
            assert_eq!(told.word, word);
        }
    }

    #[test]
    fn the_youngest_of_too_many_policies_is_left_out_if_it_selects_the_connector() {
        let names: Vec<_> = (0..=MOST_PER_CONNECTOR)
            .map(|n| format!("p{n:02}"))
            .collect();
        for (connector, permission, left_out) in [
            (json!({}), Permission::Apis, vec!["p00"]),
            (json!({"names": ["gitlab"]}), Permission::Apis, vec![]),
            (json!({}), Permission::Proxy, vec![]),
        ] {
            let mut spec = checked(&connector, &json!(null));
            spec.permission = permission;
            let mut policies = Vec::new();
            for (second, name) in (0..).zip(&names) {
                policies.push(CountedPolicy {
                    name,
                    // The oldest has the last name.
                    created: Timestamp::from_second(-second).ok(),
                    spec: &spec,
                });
            }
            let found = with_sight("tools", |it| it.left_out(policies));
            assert_eq!(Vec::from_iter(found), left_out, "{connector}");
        }
    }

    #[test]
    fn a_standing_permission_with_too_many_selectors_says_so() {
        let by_label =
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}});
        for (selectors, message) in [
            (
                MOST_SELECTORS,
                "none of bindingTemplate.subjects is ServiceAccount tools/builder",
            ),
            (
                MOST_SELECTORS + 1,
                "17 of bindingTemplate.subjects have selectors, and at most 16 may: nobody holds the permission",
            ),
        ] {
            let subjects = vec![by_label.clone(); selectors];
            let standing = spec(json!({"defaultPermission": {
                "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": subjects},
            }}));
            let told = with_sight("tools", |it| it.standing(&standing));
            let expected = PolicyWordTold::new(PolicyWord::OtherSubject, message.to_owned());
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn the_labels_of_an_account_matter_where_a_subject_selects_by_them() {
        let by_label =
            json!([{"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}}]);
        let by_name = json!([{"kind": "ServiceAccount", "name": "builder"}]);
        for (subjects, looks) in [(by_label, true), (by_name, false)] {
            assert_eq!(looks_at_account(&checked(&json!({}), &subjects)), looks);
            let standing = spec(json!({"defaultPermission": {
                "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": subjects},
            }}));
            assert_eq!(looks_at_account(&standing), looks);
        }
    }
}
