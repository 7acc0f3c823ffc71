//! Decides whether a policy applies to a request: it must select the connector and accept the asker.

#[cfg(test)]
mod namesakes;
mod requesters;

use std::collections::BTreeMap;

use crate::access_policy::{CheckGrantedPermission, MOST_SELECTORS, SubjectForm, SubjectSpec};
use crate::config::DefaultRequesters;
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::{AccessPolicySpec, NamespaceKeys, Permission};

pub use requesters::{RequesterMatch, Requesters};

type Labels = BTreeMap<String, String>;

/// The asking service account.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels; none when they are unknown, and then no selector matches it.
    pub labels: Option<&'a Labels>,
    /// The labels of its namespace; none when they are unknown, and then no selector matches it.
    pub namespace_labels: Option<&'a Labels>,
}

/// The requested connector.
#[derive(Clone, Copy, Debug)]
pub struct WantedConnector<'a> {
    /// Its name.
    pub connector: &'a str,
    /// Its labels.
    pub labels: &'a Labels,
    /// The requested permission.
    pub permission: Permission,
}

/// The result of matching a policy with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// It selects the connector and accepts the asker.
    Yes,
    /// It grants nothing under checks.
    NoChecks,
    /// It is for another permission.
    OtherPermission,
    /// It does not select the connector.
    OtherConnector,
    /// It does not accept the asker.
    OtherAsker,
}

/// Decides whether a policy applies.
#[must_use]
pub fn applies(
    policy: &AccessPolicySpec,
    policy_namespace: &str,
    wanted: WantedConnector<'_>,
    asker: Asker<'_>,
    default_requesters: DefaultRequesters,
) -> Applies {
    let Some(granted) = &policy.check_granted_permission else {
        return Applies::NoChecks;
    };
    if policy.permission != wanted.permission {
        return Applies::OtherPermission;
    }
    if !selects(policy, wanted) {
        return Applies::OtherConnector;
    }
    if !accepts(granted, policy_namespace, asker, default_requesters) {
        return Applies::OtherAsker;
    }
    Applies::Yes
}

/// Decides whether a policy gives its standing permission; none when it has none. Subjects may select
/// namespaces by these keys only.
#[must_use]
pub fn gives_standing(
    policy: &AccessPolicySpec,
    policy_namespace: &str,
    wanted: WantedConnector<'_>,
    asker: Asker<'_>,
    keys: &NamespaceKeys,
) -> Option<Applies> {
    let standing = policy.default_permission.as_ref()?;
    let binding = &standing.binding_template;
    let has_too_many = binding.selectors() > MOST_SELECTORS;
    let subjects = binding.subjects.iter().map(SubjectForm::try_from);
    // A subject that cannot be parsed matches no account; the others still count.
    let mut admitted = subjects
        .flatten()
        .filter(|subject| subject.namespaces().is_none_or(|it| keys.admit(it).is_ok()));
    Some(if policy.permission != wanted.permission {
        Applies::OtherPermission
    } else if !selects(policy, wanted) {
        Applies::OtherConnector
    } else if has_too_many || !admitted.any(|it| is_meant(&it, policy_namespace, asker)) {
        Applies::OtherAsker
    } else {
        Applies::Yes
    })
}

/// True when the labels of the asker's account, or of its namespace, could affect the decision.
#[must_use]
pub fn looks_at_labels(policy: &AccessPolicySpec) -> bool {
    let granted = policy.check_granted_permission.as_ref();
    let requesters = granted.and_then(|granted| granted.requesters.as_ref());
    let has_selector = |subject: &SubjectSpec| {
        subject.name_selector.is_some() || subject.namespace_selector.is_some()
    };
    requesters.is_some_and(|subjects| subjects.iter().any(has_selector))
}

/// True when a policy selects a connector, regardless of the permission.
#[must_use]
pub fn selects(policy: &AccessPolicySpec, wanted: WantedConnector<'_>) -> bool {
    let selector = &policy.connector;
    let by_name = |names: &Vec<String>| names.iter().any(|name| name == wanted.connector);
    selector.names.as_ref().is_none_or(by_name)
        && selector
            .selector
            .as_ref()
            .is_none_or(|labels| labels.matches(wanted.labels))
}

fn accepts(
    granted: &CheckGrantedPermission,
    policy_namespace: &str,
    asker: Asker<'_>,
    default_requesters: DefaultRequesters,
) -> bool {
    match &granted.requesters {
        Some(subjects) => are_meant(subjects, policy_namespace, asker),
        None => accepts_unnamed(default_requesters, policy_namespace, asker),
    }
}

/// Decides whether an asker is accepted by a policy without requesters.
fn accepts_unnamed(default: DefaultRequesters, policy_namespace: &str, asker: Asker<'_>) -> bool {
    match default {
        DefaultRequesters::Any => true,
        DefaultRequesters::Namespace => asker.namespace == policy_namespace,
    }
}

/// A subject that cannot be parsed accepts no account; the others still count.
fn are_meant(subjects: &[SubjectSpec], policy_namespace: &str, asker: Asker<'_>) -> bool {
    let understood = subjects.iter().map(SubjectForm::try_from);
    understood
        .flatten()
        .any(|subject| is_meant(&subject, policy_namespace, asker))
}

/// True when a subject can be the service account of a pod, the only kind of subject in a request.
#[must_use]
pub fn can_be_a_pod(subject: &SubjectForm) -> bool {
    match subject {
        SubjectForm::ServiceAccount { .. }
        | SubjectForm::ServiceAccountsByLabel { .. }
        | SubjectForm::ServiceAccountGroupsByNamespace { .. } => true,
        SubjectForm::Group { name } => {
            let namespace = name.strip_prefix("system:serviceaccounts:");
            ["system:serviceaccounts", "system:authenticated"].contains(&name.as_str())
                || namespace.is_some_and(is_dns_label)
        }
        SubjectForm::User { name } => {
            let account = name.strip_prefix("system:serviceaccount:");
            let account = account.and_then(|it| it.split_once(':'));
            account
                .is_some_and(|(namespace, name)| is_dns_label(namespace) && is_dns_subdomain(name))
        }
    }
}

fn is_meant(subject: &SubjectForm, policy_namespace: &str, asker: Asker<'_>) -> bool {
    let in_selected_namespace = |selector: &crate::LabelSelector| {
        asker
            .namespace_labels
            .is_some_and(|labels| selector.matches(labels))
    };
    match subject {
        SubjectForm::ServiceAccount { namespace, name } => {
            let namespace = namespace.as_deref().unwrap_or(policy_namespace);
            asker.namespace == namespace && asker.name == name
        }
        SubjectForm::ServiceAccountsByLabel {
            selector,
            namespaces,
        } => {
            let in_namespace = match namespaces {
                Some(namespaces) => in_selected_namespace(namespaces),
                None => asker.namespace == policy_namespace,
            };
            in_namespace && asker.labels.is_some_and(|labels| selector.matches(labels))
        }
        SubjectForm::ServiceAccountGroupsByNamespace { namespaces } => {
            in_selected_namespace(namespaces)
        }
        SubjectForm::Group { name } => {
            let own = format!("system:serviceaccounts:{}", asker.namespace);
            ["system:serviceaccounts", "system:authenticated", &own].contains(&name.as_str())
        }
        SubjectForm::User { name } => {
            *name == format!("system:serviceaccount:{}:{}", asker.namespace, asker.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(connector: &Value, requesters: &Value) -> AccessPolicySpec {
        let mut granted = json!({"spec": {
            "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }});
        if !requesters.is_null() {
            granted["requesters"] = requesters.clone();
        }
        let mut spec = json!({"checkGrantedPermission": granted});
        if !connector.is_null() {
            spec["connector"] = connector.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn labels(entries: &[(&str, &str)]) -> Labels {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    }

    fn asked(policy: &AccessPolicySpec, namespace: &str, name: &str) -> Applies {
        let (connector, account, home) = (
            labels(&[("class", "harbor")]),
            labels(&[("role", "builder")]),
            labels(&[("project", "devops")]),
        );
        let wanted = WantedConnector {
            connector: "prod",
            labels: &connector,
            permission: Permission::Apis,
        };
        let asker = Asker {
            namespace,
            name,
            labels: Some(&account),
            namespace_labels: Some(&home),
        };
        applies(policy, "own", wanted, asker, DefaultRequesters::Namespace)
    }

    #[test]
    fn a_standing_permission_is_given_to_its_subjects() {
        let spec = |subjects: Value| -> AccessPolicySpec {
            serde_json::from_value(json!({
                "connector": {"names": ["prod"]},
                "defaultPermission": {
                    "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": subjects},
                },
            }))
            .unwrap()
        };
        let asked = |policy: &AccessPolicySpec, connector: &str, permission| {
            let none = labels(&[]);
            let wanted = WantedConnector {
                connector,
                labels: &none,
                permission,
            };
            let asker = Asker {
                namespace: "devops",
                name: "builder",
                labels: None,
                namespace_labels: None,
            };
            gives_standing(policy, "own", wanted, asker, &NamespaceKeys::default())
        };
        let mine =
            spec(json!([{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}]));
        let others = spec(json!([{"kind": "ServiceAccount", "name": "builder"}]));
        let apis = Permission::Apis;
        assert_eq!(asked(&mine, "prod", apis), Some(Applies::Yes));
        assert_eq!(asked(&mine, "dev", apis), Some(Applies::OtherConnector));
        let proxy = asked(&mine, "prod", Permission::Proxy);
        assert_eq!(proxy, Some(Applies::OtherPermission));
        assert_eq!(asked(&others, "prod", apis), Some(Applies::OtherAsker));
        let checked = policy(&json!(null), &json!(null));
        assert_eq!(asked(&checked, "prod", apis), None);
    }

    #[test]
    fn a_standing_permission_by_labels_is_given_within_the_bounds_of_selectors() {
        let (none, home) = (labels(&[]), labels(&[("project", "devops")]));
        let by_project = json!({"kind": "Group", "name": "system:serviceaccounts",
            "namespaceSelector": {"matchLabels": {"project": "devops"}}});
        let given = |subjects: Vec<Value>, keys: Value| {
            let policy: AccessPolicySpec = serde_json::from_value(json!({"defaultPermission": {
                "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": subjects},
            }}))
            .unwrap();
            let wanted = WantedConnector {
                connector: "prod",
                labels: &none,
                permission: Permission::Apis,
            };
            let asker = Asker {
                namespace: "devops",
                name: "builder",
                labels: None,
                namespace_labels: Some(&home),
            };
            let keys = NamespaceKeys::parse(&keys.to_string()).unwrap();
            gives_standing(&policy, "own", wanted, asker, &keys)
        };
        let known = || json!(["project"]);
        assert_eq!(given(vec![by_project.clone()], known()), Some(Applies::Yes));
        let foreign = given(vec![by_project.clone()], json!([]));
        assert_eq!(foreign, Some(Applies::OtherAsker));
        let most = vec![by_project.clone(); MOST_SELECTORS];
        assert_eq!(given(most, known()), Some(Applies::Yes));
        let more = vec![by_project; MOST_SELECTORS + 1];
        assert_eq!(given(more, known()), Some(Applies::OtherAsker));
        assert_eq!(given(vec![], known()), Some(Applies::OtherAsker));
    }

    #[test]
    fn a_connector_must_satisfy_names_and_selector() {
        use Applies::{OtherConnector, Yes};
        for (selector, expected) in [
            (json!(null), Yes),
            (json!({}), Yes),
            (json!({"names": ["prod"]}), Yes),
            (json!({"names": ["test", "prod"]}), Yes),
            (json!({"names": ["pro"]}), OtherConnector),
            (json!({"names": []}), OtherConnector),
            (
                json!({"selector": {"matchLabels": {"class": "harbor"}}}),
                Yes,
            ),
            (
                json!({"selector": {"matchLabels": {"class": "git"}}}),
                OtherConnector,
            ),
            // The schema refuses it; without the schema it selects nothing.
            (json!({"selector": {}}), OtherConnector),
            (
                json!({"names": ["prod"], "selector": {"matchLabels": {"class": "git"}}}),
                OtherConnector,
            ),
            (
                json!({"names": ["test"], "selector": {"matchLabels": {"class": "harbor"}}}),
                OtherConnector,
            ),
        ] {
            assert_eq!(
                asked(&policy(&selector, &json!(null)), "own", "sa"),
                expected,
                "{selector}"
            );
        }
    }

    #[test]
    fn without_requesters_only_the_own_namespace_may_ask() {
        let policy = policy(&json!(null), &json!(null));
        assert_eq!(asked(&policy, "own", "sa"), Applies::Yes);
        assert_eq!(asked(&policy, "other", "sa"), Applies::OtherAsker);
        let (connector, none) = (labels(&[]), labels(&[]));
        let wanted = WantedConnector {
            connector: "prod",
            labels: &connector,
            permission: Permission::Apis,
        };
        let asker = Asker {
            namespace: "other",
            name: "sa",
            labels: Some(&none),
            namespace_labels: None,
        };
        assert_eq!(
            applies(&policy, "own", wanted, asker, DefaultRequesters::Any),
            Applies::Yes
        );
    }

    #[test]
    fn requesters_are_understood_in_every_form() {
        use Applies::{OtherAsker, Yes};
        let devops = json!({"matchLabels": {"project": "devops"}});
        let builders = json!({"matchLabels": {"role": "builder"}});
        for (subject, own, other) in [
            (
                json!({"kind": "ServiceAccount", "name": "sa"}),
                Yes,
                OtherAsker,
            ),
            (
                json!({"kind": "ServiceAccount", "name": "sb"}),
                OtherAsker,
                OtherAsker,
            ),
            (
                json!({"kind": "ServiceAccount", "name": "sa", "namespace": "other"}),
                OtherAsker,
                Yes,
            ),
            (
                json!({"kind": "ServiceAccount", "name": "system:serviceaccount:other:sa"}),
                OtherAsker,
                Yes,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": builders}),
                Yes,
                OtherAsker,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": builders, "namespaceSelector": devops}),
                Yes,
                Yes,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "x"}}}),
                OtherAsker,
                OtherAsker,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": {}}),
                OtherAsker,
                OtherAsker,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": devops}),
                Yes,
                Yes,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {"project": "x"}}}),
                OtherAsker,
                OtherAsker,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts:other"}),
                OtherAsker,
                Yes,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts"}),
                Yes,
                Yes,
            ),
            (
                json!({"kind": "Group", "name": "system:authenticated"}),
                Yes,
                Yes,
            ),
            (
                json!({"kind": "Group", "name": "system:unauthenticated"}),
                OtherAsker,
                OtherAsker,
            ),
            (
                json!({"kind": "User", "name": "system:serviceaccount:other:sa"}),
                OtherAsker,
                Yes,
            ),
            (
                json!({"kind": "User", "name": "sa"}),
                OtherAsker,
                OtherAsker,
            ),
        ] {
            let policy = policy(&json!(null), &json!([subject]));
            assert_eq!(asked(&policy, "own", "sa"), own, "{subject}");
            assert_eq!(asked(&policy, "other", "sa"), other, "{subject}");
        }
        let nobody = policy(&json!(null), &json!([]));
        assert_eq!(asked(&nobody, "own", "sa"), OtherAsker);
    }

    #[test]
    fn labels_are_read_for_each_form_that_selects_by_them_and_for_no_other() {
        let labels = json!({"matchLabels": {"a": "b"}});
        let (builder, everyone) = ("builder", "system:serviceaccounts");
        for (subject, looks) in [
            (json!({"kind": "ServiceAccount", "name": builder}), false),
            (
                json!({"kind": "ServiceAccount", "nameSelector": labels}),
                true,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": labels, "namespaceSelector": labels}),
                true,
            ),
            (
                json!({"kind": "Group", "name": everyone, "namespaceSelector": labels}),
                true,
            ),
            (json!({"kind": "Group", "name": "team"}), false),
            (json!({"kind": "User", "name": "eve"}), false),
        ] {
            for subjects in [
                json!([subject]),
                json!([{"kind": "User", "name": "adam"}, subject]),
            ] {
                let policy = policy(&json!(null), &subjects);
                assert_eq!(looks_at_labels(&policy), looks, "{subjects}");
            }
        }
        for subjects in [json!(null), json!([])] {
            assert!(!looks_at_labels(&policy(&json!(null), &subjects)));
        }
    }

    #[test]
    fn unknown_labels_are_found_by_no_selector() {
        let subjects = json!([
            {"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}}},
            {"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {"project": "devops"}}},
        ]);
        let policy = policy(&json!(null), &subjects);
        assert!(looks_at_labels(&policy));
        assert_eq!(asked(&policy, "own", "sa"), Applies::Yes);
        let none = labels(&[]);
        let wanted = WantedConnector {
            connector: "prod",
            labels: &none,
            permission: Permission::Apis,
        };
        let asker = Asker {
            namespace: "own",
            name: "sa",
            labels: None,
            namespace_labels: None,
        };
        assert_eq!(
            applies(&policy, "own", wanted, asker, DefaultRequesters::Any),
            Applies::OtherAsker
        );
    }

    #[test]
    fn whatever_selects_namespaces_selects_by_keys_of_the_installation_alone() {
        let project = json!({"matchLabels": {"project": "devops"}});
        for (subject, is_bound) in [
            (
                json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project}),
                true,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}}, "namespaceSelector": project}),
                true,
            ),
            (
                json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}}}),
                false,
            ),
        ] {
            let spec = json!({"defaultPermission": {
                "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": [subject]},
            }});
            let spec: AccessPolicySpec = serde_json::from_value(spec).unwrap();
            let (labels, none) = (
                labels(&[("role", "builder"), ("project", "devops")]),
                labels(&[]),
            );
            let wanted = WantedConnector {
                connector: "prod",
                labels: &none,
                permission: Permission::Apis,
            };
            let asker = Asker {
                namespace: "own",
                name: "sa",
                labels: Some(&labels),
                namespace_labels: Some(&labels),
            };
            let given = |keys: &NamespaceKeys| gives_standing(&spec, "own", wanted, asker, keys);
            let named = NamespaceKeys::parse(r#"["project"]"#).unwrap();
            assert_eq!(given(&named), Some(Applies::Yes), "{subject}");
            let other = if is_bound {
                Applies::OtherAsker
            } else {
                Applies::Yes
            };
            assert_eq!(given(&NamespaceKeys::default()), Some(other), "{subject}");
        }
    }

    #[test]
    fn a_policy_without_checks_or_for_another_capability_does_not_apply() {
        let mut other = policy(&json!(null), &json!(null));
        other.permission = Permission::Proxy;
        assert_eq!(asked(&other, "own", "sa"), Applies::OtherPermission);
        other.check_granted_permission = None;
        assert_eq!(asked(&other, "own", "sa"), Applies::NoChecks);
        assert!(!looks_at_labels(&other));
    }
}
