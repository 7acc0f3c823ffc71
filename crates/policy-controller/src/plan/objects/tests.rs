use serde_json::json;

use super::*;
use crate::{
    plan::{MOST_BYTES, wanted::wanted},
    testing::{Around, OWN, owner, reading, spec},
};

const MEBIBYTE: usize = 1 << 20;

fn of_accounts(around: &Around, most: usize) -> BTreeMap<String, RolePair> {
    let selector = json!({"matchLabels": {"team": "a"}});
    let subject =
        json!({"kind": "ServiceAccount", "nameSelector": selector, "namespaceSelector": selector});
    let policy = spec(&reading(&json!({}), &json!([subject])));
    pairs(&wanted(&policy, OWN, around.seen()), &owner(), most)
}

fn accounts(count: usize) -> Around {
    let mut around = Around::default().connector("harbor", &[]);
    for number in 0..count {
        let namespace = format!("namespace-with-a-long-name-{:03}", number % 200);
        let account = format!("service-account-with-a-name-that-is-long-{number:05}");
        around = around.account(&namespace, &account, &[("team", "a")]);
        around
            .namespaces
            .insert(namespace, crate::testing::labels(&[("team", "a")]));
    }
    around
}

#[test]
fn a_policy_makes_one_role_and_one_rolebinding() {
    let pairs = of_accounts(&accounts(2), MOST_BYTES);
    let name = "policy-uid-p";
    assert_eq!(pairs.keys().collect::<Vec<_>>(), [name]);
    let RolePair { role, binding } = &pairs[name];
    let metadata = json!({
        "name": name, "namespace": OWN,
        "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessPolicy": "p",
            "connectors.alauda.io/accessPolicyUid": "uid-p",
        },
        "ownerReferences": [{
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "name": "p", "uid": "uid-p",
            "controller": true, "blockOwnerDeletion": false,
        }],
    });
    assert_eq!(
        serde_json::to_value(role).unwrap(),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"],
                "resourceNames": ["harbor"], "verbs": ["read"],
            }],
        })
    );
    let binding = serde_json::to_value(binding).unwrap();
    assert_eq!(binding["metadata"], metadata);
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name})
    );
    assert_eq!(binding["subjects"].as_array().unwrap().len(), 2);
}

#[test]
fn users_and_groups_have_the_api_group_of_rbac_and_accounts_have_none() {
    let around = Around::default().connector("harbor", &[]);
    let subjects = json!([
        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"},
    ]);
    let policy = spec(&reading(&json!({}), &subjects));
    let pairs = pairs(&wanted(&policy, OWN, around.seen()), &owner(), MOST_BYTES);
    let binding = serde_json::to_value(&pairs["policy-uid-p"].binding).unwrap();
    let group = "rbac.authorization.k8s.io";
    assert_eq!(
        binding["subjects"],
        json!([
            {"apiGroup": group, "kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "name": "s", "namespace": OWN},
            {"apiGroup": group, "kind": "User", "name": "u"},
        ])
    );
}

#[test]
fn without_a_connector_or_a_holder_there_is_no_object() {
    assert_eq!(of_accounts(&accounts(0), MOST_BYTES), BTreeMap::new());
    let mut around = accounts(2);
    around.connectors.clear();
    assert_eq!(of_accounts(&around, MOST_BYTES), BTreeMap::new());
}

#[test]
fn a_policy_whose_name_is_too_long_for_a_label_is_found_by_its_uid() {
    let mut owner = owner();
    owner.name = crate::seen::Name::new(&owner.name.namespace, &"p".repeat(200));
    let labels = metadata("x", &owner).labels.unwrap();
    assert!(!labels.contains_key(labels::ACCESS_POLICY));
    assert_eq!(labels[labels::ACCESS_POLICY_UID], "uid-p");
}

#[test]
fn twenty_thousand_subjects_are_split_and_one_more_rewrites_one_object() {
    let mut around = accounts(20_000);
    let before = of_accounts(&around, MOST_BYTES);
    assert!(before.len() > 1, "{}", before.len());
    let mut count = 0;
    for (name, pair) in &before {
        let size = serde_json::to_string(&pair.binding).unwrap().len();
        assert!(size < MEBIBYTE * 3 / 2, "{name}: {size} bytes");
        assert_eq!(pair.binding.role_ref.name, *name);
        assert_eq!(pair.role.metadata.name.as_ref(), Some(name));
        count += pair.binding.subjects.as_ref().unwrap().len();
    }
    assert_eq!(count, 20_000);
    around = around.account(
        "namespace-with-a-long-name-007",
        "one-more",
        &[("team", "a")],
    );
    let after = of_accounts(&around, MOST_BYTES);
    assert!(before.keys().eq(after.keys()));
    let changed = after.iter().filter(|(name, it)| before[*name] != **it);
    assert_eq!(changed.count(), 1);
}

#[test]
fn many_connectors_are_split_too_and_each_part_is_bound_to_everybody() {
    let mut around = accounts(60);
    for number in 0..60 {
        around = around.connector(&format!("connector-{number:03}"), &[]);
    }
    let pairs = of_accounts(&around, 700);
    let part = |name: &String, letter: char| name.split('-').any(|it| it.starts_with(letter));
    assert!(
        pairs.keys().any(|name| part(name, 'c')),
        "{:?}",
        pairs.keys()
    );
    let mut given = BTreeSet::new();
    for pair in pairs.values() {
        let rules = pair.role.rules.as_deref().unwrap_or_default();
        for name in rules
            .iter()
            .flat_map(|it| it.resource_names.iter().flatten())
        {
            for holder in subjects(&pair.binding) {
                assert!(given.insert((name.clone(), holder)), "given twice");
            }
        }
    }
    assert_eq!(given.len(), 61 * 60);
}

#[test]
fn a_list_of_connectors_is_split_above_its_limit_counting_each_rule() {
    let names: BTreeSet<String> = ["aa", "bb"].map(str::to_owned).into();
    let rule = WantedRule {
        resources: Vec::new(),
        verbs: Vec::new(),
    };
    let rules = [rule.clone(), rule];
    // Each rule has both names, each with two quotes and a comma.
    let size = 2 * (5 + 5);
    for (most, parts) in [(size, 1), (size - 1, 2)] {
        assert_eq!(split_connectors(&names, &rules, most).len(), parts);
    }
}

#[test]
fn the_owner_of_an_object_is_the_policy_of_our_group() {
    let owner = |api_version: &str, kind: &str| OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: format!("{kind} of {api_version}"),
        ..OwnerReference::default()
    };
    let ours = owner(names::API_VERSION, "AccessPolicy");
    let mut object = ObjectMeta {
        owner_references: Some(vec![
            owner(names::API_VERSION, "AccessRequest"),
            owner("example.com/v1", "AccessPolicy"),
            ours.clone(),
        ]),
        ..ObjectMeta::default()
    };
    assert_eq!(owner_in(&object), Some(&ours));
    object.owner_references.as_mut().unwrap().pop();
    assert_eq!(owner_in(&object), None);
}

#[test]
fn a_fingerprint_tells_what_is_ours_to_say_and_nothing_else() {
    let pairs = of_accounts(&accounts(2), MOST_BYTES);
    let RolePair { role, binding } = &pairs["policy-uid-p"];
    let mut same = role.clone();
    same.metadata.uid = Some("u".to_owned());
    same.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(of_role(role), of_role(&same));

    let mut other = role.clone();
    other.rules.as_mut().unwrap()[0].verbs.push("*".to_owned());
    assert_ne!(of_role(role), of_role(&other));
    let mut other = role.clone();
    other.metadata.owner_references = None;
    assert_ne!(of_role(role), of_role(&other));
    let mut other = binding.clone();
    other.metadata.labels = None;
    assert_ne!(of_binding(binding), of_binding(&other));
    let mut other = binding.clone();
    other.subjects.as_mut().unwrap().pop();
    assert_ne!(of_binding(binding), of_binding(&other));
    let mut other = binding.clone();
    other.role_ref.name = "admin".to_owned();
    assert_ne!(of_binding(binding), of_binding(&other));
}
