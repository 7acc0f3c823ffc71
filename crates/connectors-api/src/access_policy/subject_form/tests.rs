use serde_json::{Value, json};

use super::*;

fn understood(subject: &Value) -> Result<SubjectForm, SubjectError> {
    let spec: SubjectSpec = serde_json::from_value(subject.clone()).unwrap();
    SubjectForm::try_from(&spec)
}

fn labels(key: &str, value: &str) -> LabelSelector {
    serde_json::from_value(json!({"matchLabels": {key: value}})).unwrap()
}

#[test]
fn every_form_of_the_design() {
    let account = |namespace: Option<&str>, name: &str| SubjectForm::ServiceAccount {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    for (subject, form) in [
        (
            json!({"kind": "ServiceAccount", "name": "builder"}),
            account(None, "builder"),
        ),
        (
            json!({"kind": "ServiceAccount", "name": "builder", "namespace": "devops-ns1"}),
            account(Some("devops-ns1"), "builder"),
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:devops-ns1:default"}),
            account(Some("devops-ns1"), "default"),
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns:a.b", "namespace": "ns"}),
            account(Some("ns"), "a.b"),
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns:default",
                   "nameSelector": {}, "namespaceSelector": {"matchLabels": {}}}),
            account(Some("ns"), "default"),
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"app": "a"}}}),
            SubjectForm::ServiceAccountsByLabel {
                selector: labels("app", "a"),
                namespaces: None,
            },
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"app": "a"}},
                   "namespaceSelector": {"matchLabels": {"team": "b"}}}),
            SubjectForm::ServiceAccountsByLabel {
                selector: labels("app", "a"),
                namespaces: Some(labels("team", "b")),
            },
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts",
                   "namespaceSelector": {"matchLabels": {"cpaas.io/project": "devops"}}}),
            SubjectForm::ServiceAccountGroupsByNamespace {
                namespaces: labels("cpaas.io/project", "devops"),
            },
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:devops-ns1"}),
            SubjectForm::Group {
                name: "system:serviceaccounts:devops-ns1".to_owned(),
            },
        ),
        (
            json!({"kind": "Group", "name": "team", "nameSelector": {}, "namespaceSelector": {}}),
            SubjectForm::Group {
                name: "team".to_owned(),
            },
        ),
        (
            json!({"kind": "User", "name": "alice", "namespaceSelector": {}}),
            SubjectForm::User {
                name: "alice".to_owned(),
            },
        ),
    ] {
        assert_eq!(understood(&subject), Ok(form), "{subject}");
    }
}

#[test]
fn everything_else_is_refused_with_its_reason() {
    use SubjectError as E;
    let some = json!({"matchLabels": {"a": "b"}});
    for (subject, error) in [
        (json!({"kind": "User"}), E::NameRequired),
        (json!({"kind": "Group", "name": ""}), E::NameRequired),
        (
            json!({"kind": "Group", "namespaceSelector": some}),
            E::NameRequired,
        ),
        (
            json!({"kind": "User", "name": "a", "namespace": "b"}),
            E::NamespaceNotAllowed,
        ),
        (
            json!({"kind": "Group", "name": "a", "nameSelector": some}),
            E::NameSelectorNotAllowed,
        ),
        (json!({"kind": "ServiceAccount"}), E::NameOrSelectorRequired),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {}}),
            E::NameOrSelectorRequired,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchExpressions": []}, "namespaceSelector": some}),
            E::NameOrSelectorRequired,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "a", "nameSelector": some}),
            E::NameAndSelector,
        ),
        (
            json!({"kind": "ServiceAccount", "name": ""}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "A"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns:"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount::a"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns:a:b"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:a.b:c"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccounts"}),
            E::AccountName,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:ns:a", "namespace": "other"}),
            E::TwoNamespaces,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": some, "namespace": "a"}),
            E::NamespaceWithSelector,
        ),
        (
            json!({"kind": "ServiceAccount", "name": "a", "namespaceSelector": some}),
            E::NamespaceSelectorNotAllowed,
        ),
        (
            json!({"kind": "Group", "name": "team", "namespaceSelector": some}),
            E::NamespaceSelectorNotAllowed,
        ),
        (
            json!({"kind": "User", "name": "a", "namespaceSelector": some}),
            E::NamespaceSelectorNotAllowed,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": some, "namespaceSelector": {}}),
            E::EveryNamespace,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": some, "namespaceSelector": {"matchExpressions": []}}),
            E::EveryNamespace,
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {}}),
            E::EveryAccount,
        ),
    ] {
        assert_eq!(understood(&subject), Err(error), "{subject}");
    }
}

#[test]
fn selectors_that_name_no_value_of_a_label_are_refused() {
    use SubjectError as E;
    let some = json!({"matchLabels": {"a": "b"}});
    let without = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "DoesNotExist"}, {"key": key, "operator": "NotIn", "values": ["b"]}]});
    let with_key = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    for (subject, error) in [
        (
            json!({"kind": "ServiceAccount", "nameSelector": without("a")}),
            E::NameSelectorOpen,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": with_key("a"), "namespaceSelector": some}),
            E::NameSelectorOpen,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": some, "namespaceSelector": without("a")}),
            E::NamespaceSelectorOpen,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": some, "namespaceSelector": with_key("a")}),
            E::NamespaceSelectorOpen,
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": without("a")}),
            E::NamespaceSelectorOpen,
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": with_key("a")}),
            E::NamespaceSelectorOpen,
        ),
    ] {
        assert_eq!(understood(&subject), Err(error), "{subject}");
    }
}
