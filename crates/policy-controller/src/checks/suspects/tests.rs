use connectors_api::AccessPolicySpec;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Around, OWN, spec};

fn around() -> Around {
    Around::default()
        .namespace("team", &[("stage", "test")])
        .namespace("other", &[("stage", "prod")])
        .account(OWN, "default", &[])
        .account("team", "builder", &[("role", "builder")])
        .account("team", "default", &[])
        .account("other", "builder", &[("role", "builder")])
}

fn of(requesters: &Value, defaults: DefaultRequesters) -> Suspects {
    let mut policy = json!({"connector": {}, "checkGrantedPermission": {"spec": {
        "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
        "permissions": {"roleTemplate": {"rules": []}},
    }}});
    if !requesters.is_null() {
        policy["checkGrantedPermission"]["requesters"] = requesters.clone();
    }
    let AccessPolicySpec {
        check_granted_permission,
        ..
    } = spec(&policy);
    Suspects::of(
        &check_granted_permission.unwrap(),
        OWN,
        defaults,
        around().seen(),
    )
}

fn said(suspects: &Suspects) -> Vec<String> {
    let everywhere = suspects.everywhere.then(|| "everywhere".to_owned());
    let places = suspects.places.iter();
    let places = places.map(|(namespace, accounts)| {
        let accounts: Vec<&str> = accounts.iter().map(String::as_str).collect();
        format!("{namespace}: {}", accounts.join(" "))
    });
    everywhere.into_iter().chain(places).collect()
}

#[test]
fn who_may_ask_is_who_could_forge() {
    let labels = json!({"matchLabels": {"role": "builder"}});
    let test = json!({"matchLabels": {"stage": "test"}});
    for (subject, expected) in [
        (json!({"kind": "ServiceAccount", "name": "ci"}), "tools: ci"),
        (
            json!({"kind": "ServiceAccount", "name": "ci", "namespace": "team"}),
            "team: ci",
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:team:ci"}),
            "team: ci",
        ),
        (
            json!({"kind": "User", "name": "system:serviceaccount:team:ci"}),
            "team: ci",
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": labels, "namespaceSelector": test}),
            "team: builder",
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": labels}),
            "",
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": test}),
            "team: builder default",
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:other"}),
            "other: builder",
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts"}),
            "everywhere",
        ),
        (
            json!({"kind": "Group", "name": "system:authenticated"}),
            "everywhere",
        ),
        (json!({"kind": "Group", "name": "people"}), ""),
        (json!({"kind": "User", "name": "ada"}), ""),
        (json!({"kind": "ServiceAccount", "nameSelector": {}}), ""),
    ] {
        let suspects = of(&json!([subject]), DefaultRequesters::Any);
        assert_eq!(said(&suspects).join(", "), expected, "{subject}");
        assert!(!suspects.is_cut);
    }
}

#[test]
fn without_requesters_the_installation_says_who_may_ask() {
    let nothing = json!(null);
    assert_eq!(
        said(&of(&nothing, DefaultRequesters::Namespace)),
        ["tools: default"]
    );
    assert_eq!(said(&of(&nothing, DefaultRequesters::Any)), ["everywhere"]);
}

#[test]
fn of_many_some_are_looked_at() {
    let many = |namespaces: usize, accounts: usize| -> Value {
        let all = (0..namespaces).flat_map(|namespace| {
            (0..accounts).map(move |name| {
                json!({"kind": "ServiceAccount", "namespace": format!("n{namespace}"), "name": format!("a{name}")})
            })
        });
        all.collect()
    };
    let count = |suspects: &Suspects| suspects.places.values().map(BTreeSet::len).sum::<usize>();
    let suspects = of(&many(1, MOST_ACCOUNTS), DefaultRequesters::Namespace);
    assert_eq!((count(&suspects), suspects.is_cut), (MOST_ACCOUNTS, false));
    let suspects = of(&many(2, MOST_ACCOUNTS), DefaultRequesters::Namespace);
    assert_eq!((count(&suspects), suspects.is_cut), (MOST_ACCOUNTS, true));
    let suspects = of(&many(MOST_PLACES + 1, 1), DefaultRequesters::Namespace);
    assert_eq!(
        (suspects.places.len(), suspects.is_cut),
        (MOST_PLACES, true)
    );
}
