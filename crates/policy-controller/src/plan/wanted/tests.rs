use connectors_api::{NamespaceKeys, namespace_keys::ForeignKey};
use serde_json::{Value, json};

use super::*;
use crate::seen::{MostSelected, Surroundings};
use crate::testing::{Around, OWN, reading, spec};

fn world() -> Around {
    Around::default()
        .connector(
            "prod-harbor",
            &[
                ("connectors.cpaas.io/connectorclass", "oci"),
                ("stage", "prod"),
            ],
        )
        .connector(
            "test-harbor",
            &[("connectors.cpaas.io/connectorclass", "oci")],
        )
        .connector(
            "git",
            &[
                ("connectors.cpaas.io/connectorclass", "git"),
                ("stage", "prod"),
            ],
        )
        .namespace(OWN, &[("cpaas.io/project", "devops")])
        .namespace("devops-ns1", &[("cpaas.io/project", "devops")])
        .namespace("other", &[("cpaas.io/project", "other")])
        .namespace("bare", &[])
        .account(OWN, "deployer", &[("tekton.dev/pipeline", "deploy-prod")])
        .account(OWN, "default", &[])
        .account("devops-ns1", "default", &[])
        .account(
            "devops-ns1",
            "deployer",
            &[("tekton.dev/pipeline", "deploy-prod")],
        )
        .account(
            "other",
            "deployer",
            &[("tekton.dev/pipeline", "deploy-prod")],
        )
}

fn connectors(selector: &Value) -> Vec<String> {
    let policy = spec(&reading(selector, &json!([{"kind": "User", "name": "u"}])));
    let wanted = wanted(&policy, OWN, world().seen());
    wanted.connectors.into_iter().collect()
}

#[test]
fn connectors_are_selected_by_names_by_labels_by_both_or_all() {
    let all = ["git", "prod-harbor", "test-harbor"];
    let class = "connectors.cpaas.io/connectorclass";
    let none: [&str; 0] = [];
    for (selector, expected) in [
        (json!({}), &all[..]),
        (json!({"names": ["prod-harbor"]}), &["prod-harbor"]),
        (
            json!({"names": ["prod-harbor", "not-there"]}),
            &["prod-harbor"],
        ),
        (json!({"names": ["not-there"]}), &none),
        (json!({"names": ["prod"]}), &none),
        (
            json!({"selector": {"matchLabels": {class: "oci"}}}),
            &["prod-harbor", "test-harbor"],
        ),
        (
            json!({"selector": {"matchLabels": {class: "oci", "stage": "prod"}}}),
            &["prod-harbor"],
        ),
        (json!({"selector": {"matchLabels": {class: "npm"}}}), &none),
        (
            json!({"selector": {"matchExpressions": [{"key": class, "operator": "In", "values": ["git", "npm"]}]}}),
            &["git"],
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": class, "operator": "NotIn", "values": ["oci"]}]}}),
            &["git"],
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "stage", "operator": "Exists"}]}}),
            &["git", "prod-harbor"],
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}}),
            &["test-harbor"],
        ),
        (
            json!({"selector": {"matchLabels": {class: "oci"}, "matchExpressions": [{"key": "stage", "operator": "Exists"}]}}),
            &["prod-harbor"],
        ),
        (
            json!({"names": ["prod-harbor", "git"], "selector": {"matchLabels": {class: "oci"}}}),
            &["prod-harbor"],
        ),
        (
            json!({"names": ["git"], "selector": {"matchLabels": {class: "oci"}}}),
            &none,
        ),
        // The schema refuses these; without the schema they select nothing.
        (json!({"names": []}), &none),
        (json!({"selector": {}}), &none),
        (
            json!({"selector": {"matchLabels": {}, "matchExpressions": []}}),
            &none,
        ),
    ] {
        assert_eq!(connectors(&selector), expected, "{selector}");
    }
}

#[test]
fn an_absent_connector_field_is_every_connector() {
    let mut policy = reading(&json!({}), &json!([{"kind": "User", "name": "u"}]));
    policy.as_object_mut().unwrap().remove("connector");
    let wanted = wanted(&spec(&policy), OWN, world().seen());
    assert_eq!(wanted.connectors.len(), 3);
}

fn standing_of(subjects: &Value) -> (Vec<String>, usize) {
    let policy = spec(&reading(&json!({}), subjects));
    match wanted(&policy, OWN, world().seen()).standing {
        StandingPermission::Given {
            holders, unclear, ..
        } => (
            holders.iter().map(ToString::to_string).collect(),
            unclear.len(),
        ),
        other @ (StandingPermission::None
        | StandingPermission::Invalid(_)
        | StandingPermission::TooMany { .. }
        | StandingPermission::TooManySelectors { .. }) => panic!("{other:?}"),
    }
}

#[test]
fn subjects_are_understood_in_every_form() {
    let devops = json!({"matchLabels": {"cpaas.io/project": "devops"}});
    let deploy = json!({"matchLabels": {"tekton.dev/pipeline": "deploy-prod"}});
    let none: [&str; 0] = [];
    for (subject, expected) in [
        (
            json!({"kind": "ServiceAccount", "name": "builder", "namespace": "devops-ns1"}),
            &["ServiceAccount devops-ns1/builder"][..],
        ),
        (
            json!({"kind": "ServiceAccount", "name": "builder"}),
            &["ServiceAccount tools/builder"],
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:devops-ns1:default"}),
            &["ServiceAccount devops-ns1/default"],
        ),
        // The source document's example: empty selectors next to a name say nothing.
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:devops-ns1:default", "nameSelector": {}, "namespaceSelector": {}}),
            &["ServiceAccount devops-ns1/default"],
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": deploy}),
            &["ServiceAccount tools/deployer"],
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": deploy, "namespaceSelector": devops}),
            &[
                "ServiceAccount devops-ns1/deployer",
                "ServiceAccount tools/deployer",
            ],
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"no": "body"}}}),
            &none,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": deploy, "namespaceSelector": {"matchLabels": {"no": "where"}}}),
            &none,
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchExpressions": [
                {"key": "tekton.dev/pipeline", "operator": "In", "values": ["deploy-prod"]},
                {"key": "paused", "operator": "DoesNotExist"},
            ]}}),
            &["ServiceAccount tools/deployer"],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:devops-ns1"}),
            &["Group system:serviceaccounts:devops-ns1"],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": devops}),
            &[
                "Group system:serviceaccounts:devops-ns1",
                "Group system:serviceaccounts:tools",
            ],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchExpressions": [{"key": "cpaas.io/project", "operator": "In", "values": ["devops", "other"]}]}}),
            &[
                "Group system:serviceaccounts:devops-ns1",
                "Group system:serviceaccounts:other",
                "Group system:serviceaccounts:tools",
            ],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts"}),
            &["Group system:serviceaccounts"],
        ),
        (
            json!({"kind": "Group", "name": "developers"}),
            &["Group developers"],
        ),
        (
            json!({"kind": "User", "name": "alice@example.com"}),
            &["User alice@example.com"],
        ),
    ] {
        let (holders, unclear) = standing_of(&json!([subject]));
        assert_eq!(holders, expected, "{subject}");
        assert_eq!(unclear, 0, "{subject}");
    }
}

#[test]
fn an_empty_selector_finds_nobody_and_hides_nobody_else() {
    let alice = json!({"kind": "User", "name": "alice"});
    for subject in [
        json!({"kind": "ServiceAccount", "nameSelector": {}}),
        json!({"kind": "ServiceAccount", "nameSelector": {}, "namespaceSelector": {}}),
        json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}}),
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {}}),
        json!({"kind": "Group"}),
        json!({"kind": "User", "name": ""}),
        json!({"kind": "ServiceAccount", "name": "system:serviceaccount:x"}),
        json!({"kind": "ServiceAccount", "name": "*"}),
    ] {
        let (holders, unclear) = standing_of(&json!([subject, alice]));
        assert_eq!(holders, ["User alice"], "{subject}");
        assert_eq!(unclear, 1, "{subject}");
    }
}

/// As policies say that were stored before selectors had to name a value.
#[test]
fn a_selector_that_names_no_value_finds_nobody_and_hides_nobody_else() {
    let alice = json!({"kind": "User", "name": "alice"});
    let deploy = json!({"matchLabels": {"tekton.dev/pipeline": "deploy-prod"}});
    for open in [
        json!({"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}),
        json!({"matchExpressions": [{"key": "no", "operator": "NotIn", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "cpaas.io/project", "operator": "Exists"}]}),
    ] {
        for subject in [
            json!({"kind": "ServiceAccount", "nameSelector": open}),
            json!({"kind": "ServiceAccount", "nameSelector": open, "namespaceSelector": deploy}),
            json!({"kind": "ServiceAccount", "nameSelector": deploy, "namespaceSelector": open}),
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": open}),
        ] {
            let (holders, unclear) = standing_of(&json!([subject, alice]));
            assert_eq!(holders, ["User alice"], "{subject}");
            assert_eq!(unclear, 1, "{subject}");
        }
    }
}

#[test]
fn who_is_named_twice_is_named_once() {
    let (holders, _) = standing_of(&json!([
        {"kind": "ServiceAccount", "name": "deployer"},
        {"kind": "ServiceAccount", "name": "system:serviceaccount:tools:deployer"},
        {"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"tekton.dev/pipeline": "deploy-prod"}}},
    ]));
    assert_eq!(holders, ["ServiceAccount tools/deployer"]);
}

fn standing_by(rules: &Value) -> StandingPermission {
    let mut policy = reading(&json!({}), &json!([{"kind": "User", "name": "u"}]));
    policy["defaultPermission"]["roleTemplate"]["rules"] = rules.clone();
    wanted(&spec(&policy), OWN, world().seen()).standing
}

#[test]
fn a_rule_beyond_what_policies_hand_out_leaves_none_of_them() {
    let rule = |groups: Value, resources: Value, verbs: Value| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let good = rule(
        json!(["connectors.alauda.io"]),
        json!(["connectors/apis"]),
        json!(["read"]),
    );
    assert!(matches!(
        standing_by(&json!([good])),
        StandingPermission::Given { .. }
    ));
    let ours = || json!(["connectors.alauda.io"]);
    for wrong in [
        rule(json!([""]), json!(["connectors/apis"]), json!(["*"])),
        rule(json!([]), json!(["connectors/apis"]), json!(["*"])),
        rule(json!(["*"]), json!(["connectors/apis"]), json!(["*"])),
        rule(
            json!(["connectors.alauda.io", ""]),
            json!(["connectors/apis"]),
            json!(["*"]),
        ),
        rule(ours(), json!(["connectors"]), json!(["*"])),
        rule(ours(), json!(["connectors/*"]), json!(["*"])),
        rule(ours(), json!(["*"]), json!(["*"])),
        rule(ours(), json!(["*/apis"]), json!(["*"])),
        rule(ours(), json!(["accesspolicies"]), json!(["*"])),
        rule(ours(), json!(["connectors/proxy"]), json!(["*"])),
        rule(ours(), json!(["connectors/status"]), json!(["*"])),
        rule(
            ours(),
            json!(["connectors/apis/v1/pod/{.object.metadata.namespace}/x"]),
            json!(["*"]),
        ),
        rule(ours(), json!([]), json!(["*"])),
        rule(ours(), json!(["connectors/apis"]), json!([])),
        rule(ours(), json!(["connectors/apis"]), json!([""])),
    ] {
        let rules = json!([good, wrong]);
        assert!(
            matches!(standing_by(&rules), StandingPermission::Invalid(_)),
            "{wrong}"
        );
    }
    assert_eq!(
        standing_by(&json!([])),
        StandingPermission::Invalid(WrongRule::None)
    );
}

#[test]
fn access_of_one_named_object_may_be_held_always() {
    let rules = json!([{
        "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
        "resources": ["connectors/apis/v1/pod/devops-ns1/runner"],
    }]);
    let StandingPermission::Given { rules, .. } = standing_by(&rules) else {
        panic!("nothing is given");
    };
    assert_eq!(
        rules[0].resources,
        ["connectors/apis/v1/pod/devops-ns1/runner"]
    );
}

#[test]
fn a_policy_without_a_standing_permission_wants_none() {
    for absent in [json!({}), Value::Null] {
        let mut policy = json!({"connector": {}, "checkGrantedPermission": {"spec": {
            "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }}});
        if !absent.is_null() {
            policy["defaultPermission"] = absent;
        }
        let wanted = wanted(&spec(&policy), OWN, world().seen());
        assert_eq!(wanted.standing, StandingPermission::None);
        assert_eq!(wanted.connectors.len(), 3);
    }
}

/// Half of them would look like all of them.
#[test]
fn selectors_that_find_too_many_subjects_give_nobody_anything() {
    let policy = |subjects: &Value| reading(&json!({}), subjects);
    let around = |accounts: usize| {
        let names = (0..accounts).map(|number| format!("a{number}"));
        names.fold(Around::default().connector("harbor", &[]), |world, name| {
            world.account("tools", &name, &[("team", "a")])
        })
    };
    let by_label =
        json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"team": "a"}}});
    let named = json!({"kind": "ServiceAccount", "name": "other"});
    let subjects = json!([by_label, named]);
    let most = MostSelected::default();
    let standing = |accounts: usize| {
        let spec = spec(&policy(&subjects));
        let around = around(accounts);
        let bounded = Surroundings {
            most_selected: most,
            ..around.seen()
        };
        wanted(&spec, "tools", bounded).standing
    };
    let StandingPermission::Given { holders, .. } = standing(1000) else {
        panic!("nothing is given");
    };
    assert_eq!(holders.len(), 1001);
    assert_eq!(
        standing(1001),
        StandingPermission::TooMany { found: 1001, most }
    );
}

#[test]
fn namespaces_are_selected_by_keys_of_the_installation_alone() {
    let devops = json!({"matchLabels": {"cpaas.io/project": "devops"}});
    let groups =
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": devops});
    let by_name = json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "bare"},
    }});
    let alice = json!({"kind": "User", "name": "alice"});
    let policy = spec(&reading(&json!({}), &json!([groups, by_name, alice])));
    let around = Around {
        namespace_keys: NamespaceKeys::default(),
        ..world().namespace("bare", &[("kubernetes.io/metadata.name", "bare")])
    };
    let StandingPermission::Given {
        holders, unclear, ..
    } = wanted(&policy, OWN, around.seen()).standing
    else {
        panic!("nothing is given");
    };
    let holders: Vec<_> = holders.iter().map(ToString::to_string).collect();
    assert_eq!(holders, ["Group system:serviceaccounts:bare", "User alice"]);
    let key = ForeignKey("cpaas.io/project".to_owned());
    assert_eq!(unclear, [(0, NoSubject::Key(key))]);
}

#[test]
fn more_selectors_than_a_policy_may_have_give_nobody_anything() {
    let by_label = |number: usize| json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": number.to_string()}}});
    let standing = |selectors: usize| {
        let mut subjects: Vec<_> = (0..selectors).map(by_label).collect();
        subjects.push(json!({"kind": "User", "name": "alice"}));
        let policy = spec(&reading(&json!({}), &json!(subjects)));
        wanted(&policy, OWN, world().seen()).standing
    };
    assert!(matches!(standing(0), StandingPermission::Given { .. }));
    assert!(matches!(standing(16), StandingPermission::Given { .. }));
    assert_eq!(
        standing(17),
        StandingPermission::TooManySelectors { found: 17 }
    );
}
