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
        .account("n0", "besides", &[])
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
    let places = places.map(|(namespace, accounts)| format!("{namespace}: {}", accounts.join(" ")));
    everywhere.into_iter().chain(places).collect()
}

#[test]
fn who_may_ask_is_who_could_forge() {
    let labels = json!({"matchLabels": {"role": "builder"}});
    let test = json!({"matchLabels": {"stage": "test"}});
    for (subject, expected) in [
        // A pod of the namespace can run as any of its accounts, not only as the named ones.
        (
            json!({"kind": "ServiceAccount", "name": "ci"}),
            "tools: ci default",
        ),
        (
            json!({"kind": "ServiceAccount", "name": "ci", "namespace": "team"}),
            "team: ci builder default",
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:team:ci"}),
            "team: ci builder default",
        ),
        (
            json!({"kind": "User", "name": "system:serviceaccount:team:ci"}),
            "team: ci builder default",
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": labels, "namespaceSelector": test}),
            "team: builder default",
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
        assert!(suspects.extent.is_whole(), "{subject}");
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
fn those_that_may_ask_are_looked_at_before_the_others() {
    let asking = json!([{"kind": "ServiceAccount", "namespace": "n0", "name": "z"}]);
    let suspects = of(&asking, DefaultRequesters::Namespace);
    assert_eq!(said(&suspects), ["n0: z besides"]);
}

#[test]
fn of_many_some_are_looked_at_and_it_is_said_how_many() {
    let many = |namespaces: usize, accounts: usize| -> Value {
        let all = (0..namespaces).flat_map(|namespace| {
            (0..accounts).map(move |name| {
                json!({"kind": "ServiceAccount", "namespace": format!("n{namespace}"), "name": format!("a{name}")})
            })
        });
        all.collect()
    };
    for (namespaces, accounts, said) in [
        (1, MOST_ACCOUNTS, "looked at 50 of 51 accounts"),
        (2, MOST_ACCOUNTS, "looked at 50 of 101 accounts"),
        (1, 2, "looked at 3 of 3 accounts"),
        (
            MOST_PLACES + 1,
            1,
            "looked at 21 of 21 accounts, and at none of 1 more namespaces",
        ),
    ] {
        let suspects = of(&many(namespaces, accounts), DefaultRequesters::Namespace);
        let looked: usize = suspects.places.values().map(Vec::len).sum();
        assert_eq!(suspects.extent.looked, looked);
        assert_eq!(suspects.extent.to_string(), said);
    }
}
