//! The requesters of a policy with checks, compiled: a lookup costs the same however many accounts are
//! listed.
//!
//! Gives the same result as [`super::applies`] for the asker, and in addition reports when it cannot be
//! decided.

use std::collections::{HashMap, HashSet};

use super::{Asker, accepts_unnamed};
use crate::LabelSelector;
use crate::access_policy::{CheckGrantedPermission, SubjectForm};
use crate::config::DefaultRequesters;

/// Whether an asker is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequesterMatch {
    /// The asker is not accepted.
    No,
    /// It depends on labels or on a setting that are not known.
    Unknown,
    /// The asker is accepted.
    Yes,
}

impl RequesterMatch {
    fn both(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            (Self::Unknown | Self::Yes, Self::Unknown) | (Self::Unknown, Self::Yes) => {
                Self::Unknown
            }
        }
    }

    fn either(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::No, Self::No) => Self::No,
            (Self::Unknown | Self::No, Self::Unknown) | (Self::Unknown, Self::No) => Self::Unknown,
        }
    }
}

impl From<bool> for RequesterMatch {
    fn from(accepts: bool) -> Self {
        if accepts { Self::Yes } else { Self::No }
    }
}

/// The requesters of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requesters {
    /// True when the policy names requesters.
    named: bool,
    /// True for every service account.
    everyone: bool,
    /// All service accounts of these namespaces.
    namespaces: HashSet<String>,
    /// Service accounts, by namespace.
    accounts: HashMap<String, HashSet<String>>,
    selectors: Vec<BySelector>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BySelector {
    /// Labels of the account; absent: every account.
    account: Option<LabelSelector>,
    /// Labels of its namespace; absent: the policy's own.
    namespace: Option<LabelSelector>,
}

impl Requesters {
    /// Compiles the requesters of a policy in this namespace. A subject that cannot be parsed accepts no
    /// account.
    #[must_use]
    pub fn of(granted: &CheckGrantedPermission, policy_namespace: &str) -> Self {
        let mut requesters = Self {
            named: granted.requesters.is_some(),
            ..Self::default()
        };
        let subjects = granted.requesters.iter().flatten();
        for subject in subjects.flat_map(SubjectForm::try_from) {
            requesters.add(subject, policy_namespace);
        }
        requesters
    }

    fn add(&mut self, subject: SubjectForm, policy_namespace: &str) {
        match subject {
            SubjectForm::ServiceAccount { namespace, name } => {
                let namespace = namespace.unwrap_or_else(|| policy_namespace.to_owned());
                self.account(namespace, name);
            }
            SubjectForm::User { name } => {
                let account = name.strip_prefix("system:serviceaccount:");
                if let Some((namespace, name)) = account.and_then(|it| it.split_once(':')) {
                    self.account(namespace.to_owned(), name.to_owned());
                }
            }
            SubjectForm::Group { name } => {
                if ["system:serviceaccounts", "system:authenticated"].contains(&name.as_str()) {
                    self.everyone = true;
                } else if let Some(namespace) = name.strip_prefix("system:serviceaccounts:") {
                    self.namespaces.insert(namespace.to_owned());
                }
            }
            SubjectForm::ServiceAccountsByLabel {
                selector,
                namespaces,
            } => self.selectors.push(BySelector {
                account: Some(selector),
                namespace: namespaces,
            }),
            SubjectForm::ServiceAccountGroupsByNamespace { namespaces } => {
                self.selectors.push(BySelector {
                    account: None,
                    namespace: Some(namespaces),
                });
            }
        }
    }

    fn account(&mut self, namespace: String, name: String) {
        self.accounts.entry(namespace).or_default().insert(name);
    }

    /// Whether the policy, which is in this namespace, accepts the asker. The default applies to a policy
    /// without requesters; none if it is not known.
    #[must_use]
    pub fn accept(
        &self,
        policy_namespace: &str,
        asker: Asker<'_>,
        default: Option<DefaultRequesters>,
    ) -> RequesterMatch {
        let Asker {
            namespace, name, ..
        } = asker;
        if !self.named {
            let accepts = |default| accepts_unnamed(default, policy_namespace, asker);
            return match default {
                Some(default) => accepts(default).into(),
                // The wider default includes the narrower one.
                None if accepts(DefaultRequesters::Namespace) => RequesterMatch::Yes,
                None => RequesterMatch::Unknown,
            };
        }
        let accounts = self.accounts.get(namespace);
        let is_listed = self.everyone
            || self.namespaces.contains(namespace)
            || accounts.is_some_and(|accounts| accounts.contains(name));
        if is_listed {
            return RequesterMatch::Yes;
        }
        let selected = self.selectors.iter();
        let selected = selected.map(|it| it.accepts(policy_namespace, asker));
        selected.fold(RequesterMatch::No, RequesterMatch::either)
    }

    /// The upper bound of comparisons of one lookup.
    #[must_use]
    pub fn weight(&self) -> usize {
        let selectors = self.selectors.iter();
        1 + selectors.map(BySelector::weight).sum::<usize>()
    }
}

impl BySelector {
    fn accepts(&self, policy_namespace: &str, asker: Asker<'_>) -> RequesterMatch {
        let Self { account, namespace } = self;
        let in_namespace = match namespace {
            None => RequesterMatch::from(asker.namespace == policy_namespace),
            Some(selector) => selected(selector, asker.namespace_labels),
        };
        let by_label = match account {
            None => RequesterMatch::Yes,
            Some(selector) => selected(selector, asker.labels),
        };
        in_namespace.both(by_label)
    }

    fn weight(&self) -> usize {
        let Self { account, namespace } = self;
        [account, namespace]
            .into_iter()
            .flatten()
            .map(LabelSelector::weight)
            .sum()
    }
}

fn selected(selector: &LabelSelector, labels: Option<&super::Labels>) -> RequesterMatch {
    labels.map_or(RequesterMatch::Unknown, |labels| {
        selector.matches(labels).into()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::policy_match::{Applies, WantedConnector, applies};
    use crate::{AccessPolicySpec, Permission};

    fn spec(requesters: Option<Vec<Value>>) -> AccessPolicySpec {
        let mut granted = json!({"spec": {
            "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }});
        if let Some(requesters) = requesters {
            granted["requesters"] = requesters.into();
        }
        serde_json::from_value(json!({"checkGrantedPermission": granted})).unwrap()
    }

    fn requesters(spec: &AccessPolicySpec) -> Requesters {
        Requesters::of(spec.check_granted_permission.as_ref().unwrap(), "own")
    }

    fn labels(value: &str) -> BTreeMap<String, String> {
        [("team".to_owned(), value.to_owned())].into()
    }

    fn any_subject() -> impl Strategy<Value = Value> {
        let selector = |value: &str| json!({"matchLabels": {"team": value}});
        prop::sample::select(vec![
            json!({"kind": "ServiceAccount", "name": "ci"}),
            json!({"kind": "ServiceAccount", "name": "ci", "namespace": "a"}),
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:b:cd"}),
            json!({"kind": "ServiceAccount", "nameSelector": selector("x")}),
            json!({"kind": "ServiceAccount", "nameSelector": selector("x"), "namespaceSelector": selector("y")}),
            json!({"kind": "ServiceAccount", "nameSelector": selector("y"), "namespaceSelector": {
                "matchExpressions": [{"key": "team", "operator": "Exists"}],
            }}),
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": selector("x")}),
            json!({"kind": "Group", "name": "system:serviceaccounts:a"}),
            json!({"kind": "Group", "name": "system:serviceaccounts"}),
            json!({"kind": "Group", "name": "system:authenticated"}),
            json!({"kind": "Group", "name": "people"}),
            json!({"kind": "User", "name": "system:serviceaccount:a:cd"}),
            json!({"kind": "User", "name": "ann"}),
            // Cannot be parsed.
            json!({"kind": "ServiceAccount"}),
            json!({"kind": "ServiceAccount", "name": "ci", "nameSelector": selector("x")}),
        ])
    }

    proptest! {
        /// Agrees with `applies` where everything is known; an answer without labels holds for any labels.
        #[test]
        fn what_is_compiled_accepts_whom_the_policy_accepts(
            subjects in prop::option::of(prop::collection::vec(any_subject(), 0..3)),
            namespace in prop::sample::select(vec!["own", "a", "b"]),
            name in prop::sample::select(vec!["ci", "cd"]),
            account in prop::sample::select(vec!["x", "y", "z"]),
            home in prop::sample::select(vec!["x", "y", "z"]),
            default in prop::sample::select(vec![DefaultRequesters::Namespace, DefaultRequesters::Any]),
        ) {
            let spec = spec(subjects);
            let (account, home, none) = (labels(account), labels(home), BTreeMap::new());
            let asker = |labels, namespace_labels| Asker { namespace, name, labels, namespace_labels };
            let wanted = WantedConnector { connector: "c", labels: &none, permission: Permission::Apis };
            let known = asker(Some(&account), Some(&home));
            let truth = applies(&spec, "own", wanted, known, default) == Applies::Yes;
            let compiled = requesters(&spec);
            prop_assert_eq!(compiled.accept("own", known, Some(default)), truth.into());
            for asker in [known, asker(None, Some(&home)), asker(Some(&account), None), asker(None, None)] {
                for default in [None, Some(default)] {
                    let said = compiled.accept("own", asker, default);
                    prop_assert!(said == RequesterMatch::Unknown || said == truth.into(), "{said:?} {truth}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_known_decides_only_where_it_matters() {
        let selector = json!({"matchLabels": {"team": "x"}});
        let by_both = json!({"kind": "ServiceAccount", "nameSelector": selector, "namespaceSelector": selector});
        let at_home = json!({"kind": "ServiceAccount", "nameSelector": selector});
        let (x, y) = (labels("x"), labels("y"));
        let asked = |subjects: Vec<Value>, namespace, home| {
            let asker = Asker {
                namespace,
                name: "ci",
                labels: None,
                namespace_labels: home,
            };
            requesters(&spec(Some(subjects))).accept("own", asker, None)
        };
        assert_eq!(
            asked(vec![by_both.clone()], "a", Some(&x)),
            RequesterMatch::Unknown
        );
        assert_eq!(
            asked(vec![by_both.clone()], "a", Some(&y)),
            RequesterMatch::No
        );
        assert_eq!(
            asked(vec![by_both.clone()], "a", None),
            RequesterMatch::Unknown
        );
        assert_eq!(asked(vec![at_home.clone()], "a", None), RequesterMatch::No);
        assert_eq!(asked(vec![at_home], "own", None), RequesterMatch::Unknown);
        let named = json!({"kind": "ServiceAccount", "name": "ci", "namespace": "a"});
        assert_eq!(asked(vec![by_both, named], "a", None), RequesterMatch::Yes);
        assert_eq!(asked(vec![], "own", None), RequesterMatch::No);
        let unnamed = requesters(&spec(None));
        let from = |namespace| Asker {
            namespace,
            name: "ci",
            labels: None,
            namespace_labels: None,
        };
        assert_eq!(
            unnamed.accept("own", from("own"), None),
            RequesterMatch::Yes
        );
        assert_eq!(
            unnamed.accept("own", from("a"), None),
            RequesterMatch::Unknown
        );
    }

    #[test]
    fn a_look_costs_as_much_as_its_selectors_and_accounts_cost_nothing() {
        let account =
            |number: usize| json!({"kind": "ServiceAccount", "name": format!("a{number}")});
        let many = requesters(&spec(Some((0..1000).map(account).collect())));
        assert_eq!(many.weight(), 1);
        let selector = json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2", "3"]}],
        });
        let selected = json!({"kind": "ServiceAccount", "nameSelector": selector, "namespaceSelector": selector});
        let selected = requesters(&spec(Some(vec![selected])));
        assert_eq!(selected.weight(), 1 + 2 * 5);
    }
}
