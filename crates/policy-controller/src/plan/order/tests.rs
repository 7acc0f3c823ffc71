use serde_json::json;

use super::*;
use crate::{
    plan::{objects::pairs, wanted::wanted},
    testing::{Access, Around, OWN, access, cluster, owner, reading, spec, write},
};

fn world(connectors: &[&str], users: &[&str], verbs: &[&str]) -> BTreeMap<String, RolePair> {
    world_in_parts(connectors, users, verbs, usize::MAX)
}

fn world_in_parts(
    connectors: &[&str],
    users: &[&str],
    verbs: &[&str],
    most: usize,
) -> BTreeMap<String, RolePair> {
    let mut around = Around::default();
    for name in connectors {
        around = around.connector(name, &[]);
    }
    let users: Vec<_> = users
        .iter()
        .map(|it| json!({"kind": "User", "name": it}))
        .collect();
    let mut policy = reading(&json!({}), &json!(users));
    policy["defaultPermission"]["roleTemplate"]["rules"][0]["verbs"] = json!(verbs);
    pairs(&wanted(&spec(&policy), OWN, around.seen()), &owner(), most)
}

fn words(steps: &[WriteStep]) -> Vec<String> {
    let word = |step: &WriteStep| match &step.write {
        Write::Create(object) => format!("create {}", object.kind()),
        Write::Change(WrittenObject::Binding(binding), _) => {
            let users = objects::subjects(binding).map(|it| it.name);
            format!("RoleBinding of {}", users.collect::<Vec<_>>().join("+"))
        }
        Write::Change(WrittenObject::Role(role), _) => {
            let verbs = rules(role).flat_map(|it| it.verbs.clone());
            format!("Role for {}", verbs.collect::<Vec<_>>().join("+"))
        }
        Write::Delete(kind, ..) => format!("delete {kind}"),
    };
    steps.iter().map(word).collect()
}

/// Makes the writes one by one, and checks all permissions after each.
fn go(mut there: Managed, wanted: &BTreeMap<String, RolePair>) -> Vec<WriteStep> {
    let (old, new) = (access(&there), access(&cluster(wanted)));
    let steps = steps(wanted, &there);
    for step in &steps {
        write(&mut there, step).unwrap();
        let now = access(&there);
        let wider: Access = now
            .difference(&old)
            .filter(|it| !new.contains(it))
            .cloned()
            .collect();
        assert_eq!(wider, Access::new(), "after {step:?}");
    }
    assert_eq!(access(&there), new);
    assert_eq!(super::steps(wanted, &there), []);
    steps
}

fn from_to(before: &BTreeMap<String, RolePair>, after: &BTreeMap<String, RolePair>) -> Vec<String> {
    words(&go(cluster(before), after))
}

#[test]
fn what_is_as_it_should_be_is_not_written() {
    let same = world(&["a"], &["u", "v"], &["read"]);
    assert_eq!(from_to(&same, &same), [""; 0]);
}

#[test]
fn a_role_comes_before_its_rolebinding_and_goes_after_it() {
    let nothing = world(&[], &["u"], &["read"]);
    let something = world(&["a"], &["u"], &["read"]);
    assert_eq!(
        from_to(&nothing, &something),
        ["create Role", "create RoleBinding"]
    );
    assert_eq!(
        from_to(&something, &nothing),
        ["delete RoleBinding", "delete Role"]
    );
}

#[test]
fn a_list_of_subjects_changes_in_one_write() {
    let before = world(&["a"], &["u", "v"], &["read"]);
    let after = world(&["a"], &["v", "w"], &["read"]);
    assert_eq!(from_to(&before, &after), ["RoleBinding of v+w"]);
    let fewer = world(&["a"], &["v"], &["read"]);
    assert_eq!(from_to(&before, &fewer), ["RoleBinding of v"]);
}

#[test]
fn who_leaves_never_sees_the_new_rules_and_who_comes_never_the_old() {
    let before = world(&["a"], &["u", "v"], &["read"]);
    let after = world(&["a"], &["v", "w"], &["write"]);
    assert_eq!(
        from_to(&before, &after),
        ["RoleBinding of v", "Role for write", "RoleBinding of v+w"]
    );
    let others = world(&["a"], &["w"], &["write"]);
    assert_eq!(
        from_to(&before, &others),
        ["delete RoleBinding", "Role for write", "create RoleBinding"]
    );
    let more = world(&["a"], &["u", "v", "w"], &["write"]);
    assert_eq!(
        from_to(&before, &more),
        ["Role for write", "RoleBinding of u+v+w"]
    );
    let fewer = world(&["b"], &["u"], &["read"]);
    assert_eq!(
        from_to(&before, &fewer),
        ["RoleBinding of u", "Role for read"]
    );
}

#[test]
fn a_rolebinding_of_another_role_is_replaced() {
    let wanted = world(&["a"], &["u"], &["read"]);
    let mut there = cluster(&wanted);
    let binding = there.bindings.values_mut().next().unwrap();
    binding.object.as_mut().unwrap().role_ref.name = "admin".to_owned();
    assert_eq!(
        words(&go(there, &wanted)),
        ["delete RoleBinding", "create RoleBinding"]
    );
}

#[test]
fn what_was_added_by_hand_goes_and_what_was_taken_comes_back() {
    let wanted = world(&["a"], &["u"], &["read"]);
    let mut there = cluster(&wanted);
    let role = there
        .roles
        .values_mut()
        .next()
        .unwrap()
        .object
        .as_mut()
        .unwrap();
    role.rules.as_mut().unwrap()[0].verbs.push("*".to_owned());
    assert_eq!(words(&go(there, &wanted)), ["Role for read"]);

    let mut there = cluster(&wanted);
    there.roles.clear();
    assert_eq!(words(&go(there, &wanted)), ["create Role"]);

    let mut there = cluster(&wanted);
    there.bindings.clear();
    assert_eq!(words(&go(there, &wanted)), ["create RoleBinding"]);

    let mut there = cluster(&wanted);
    let role = there
        .roles
        .values_mut()
        .next()
        .unwrap()
        .object
        .as_mut()
        .unwrap();
    role.metadata.owner_references = None;
    assert_eq!(words(&go(there, &wanted)), ["Role for read"]);
}

#[test]
fn a_rolebinding_whose_role_is_gone_goes_before_the_role_comes() {
    let before = world(&["a"], &["u", "v"], &["read"]);
    let after = world(&["a"], &["v", "w"], &["read"]);
    let mut there = cluster(&before);
    there.roles.clear();
    assert_eq!(
        words(&go(there, &after)),
        ["delete RoleBinding", "create Role", "create RoleBinding"]
    );
}

#[test]
fn what_cannot_be_read_goes() {
    let wanted = world(&["a"], &["u"], &["read"]);
    let mut there = cluster(&wanted);
    there.roles.values_mut().next().unwrap().object = None;
    assert_eq!(words(&steps(&wanted, &there)), ["Role for read"]);
    let mut there = cluster(&wanted);
    there.bindings.values_mut().next().unwrap().object = None;
    assert_eq!(
        words(&steps(&wanted, &there)),
        ["delete RoleBinding", "create RoleBinding"]
    );
}

#[test]
fn what_a_finalizer_keeps_is_emptied_once() {
    let mut there = cluster(&world(&["a"], &["u"], &["read"]));
    there
        .roles
        .values_mut()
        .for_each(|it| it.terminating = true);
    there
        .bindings
        .values_mut()
        .for_each(|it| it.terminating = true);
    let nothing = BTreeMap::new();
    assert_eq!(
        words(&go(there, &nothing)),
        ["RoleBinding of ", "Role for "]
    );
}

#[test]
fn a_split_takes_nothing_from_anybody_on_the_way() {
    let users: Vec<String> = (0..12).map(|it| format!("user-{it}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let one = world_in_parts(&["a"], &users, &["read"], 2_000);
    let several = world_in_parts(&["a"], &users, &["read"], 300);
    assert!(several.len() > 2);
    for (before, after) in [(&one, &several), (&several, &one)] {
        let mut there = cluster(before);
        for step in steps(after, &there) {
            write(&mut there, &step).unwrap();
            assert_eq!(access(&there), access(&cluster(after)), "after {step:?}");
        }
    }
}

#[test]
fn a_split_with_other_rules_takes_back_first() {
    let before = world_in_parts(&["a"], &["u", "v", "w"], &["read"], 2_000);
    let after = world_in_parts(&["a"], &["u", "v", "w", "x"], &["write"], 100);
    let steps = go(cluster(&before), &after);
    assert_eq!(words(&steps)[0], "delete RoleBinding");
}

#[test]
fn roles_that_lose_something_are_written_before_those_that_gain() {
    let wanted = world_in_parts(&["a", "b"], &["u"], &["read"], 1);
    let names: Vec<_> = wanted.keys().collect();
    for (loses, gains) in [(0, 1), (1, 0)] {
        let mut there = cluster(&wanted);
        let mut damage = |at: usize, damage: fn(&mut Vec<String>)| {
            let role = there.roles.get_mut(names[at]).unwrap();
            damage(&mut role.object.as_mut().unwrap().rules.as_mut().unwrap()[0].verbs);
        };
        damage(loses, |verbs| verbs.push("*".to_owned()));
        damage(gains, Vec::clear);
        let steps = go(there, &wanted);
        let written: Vec<_> = steps.iter().map(|it| it.write.name()).collect();
        assert_eq!(written, [names[loses], names[gains]]);
    }
}

#[test]
fn an_emptied_object_says_its_identity_and_nothing_else() {
    let (_, pair) = world(&["a"], &["u"], &["read"]).pop_first().unwrap();
    let mut there = pair.clone();
    for metadata in [&mut there.role.metadata, &mut there.binding.metadata] {
        metadata.uid = Some("uid".to_owned());
        metadata.resource_version = Some("7".to_owned());
        metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
    }
    let role = Role {
        rules: Some(Vec::new()),
        ..pair.role
    };
    let binding = RoleBinding {
        subjects: Some(Vec::new()),
        ..pair.binding
    };
    assert_eq!(empty_role(&there.role), role);
    assert_eq!(empty_binding(&there.binding), binding);
}

#[test]
fn a_rule_is_within_one_that_has_all_of_its_groups_resources_and_verbs() {
    let rule = |field: &str, value: serde_json::Value| -> PolicyRule {
        let mut rule = json!({"apiGroups": ["g"], "resources": ["r"], "verbs": ["get", "list"]});
        rule[field] = value;
        serde_json::from_value(rule).unwrap()
    };
    let wide = rule("verbs", json!(["get", "list"]));
    for (field, value, is_within) in [
        ("verbs", json!(["list"]), true),
        ("verbs", json!(["list", "watch"]), false),
        ("apiGroups", json!(["g", "h"]), false),
        ("resources", json!(["r", "s"]), false),
        ("nonResourceURLs", json!(["/metrics"]), false),
    ] {
        assert_eq!(
            does(&wide, &rule(field, value.clone())),
            is_within,
            "{field}: {value}"
        );
    }
}

#[test]
fn a_rule_about_all_connectors_is_within_none_that_names_some() {
    let rule = |names: serde_json::Value| -> PolicyRule {
        serde_json::from_value(json!({
            "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["get"],
            "resourceNames": names,
        }))
        .unwrap()
    };
    let wanted = [rule(json!(["git"])), rule(json!(["harbor"]))];
    for (names, is_within) in [
        (json!(["git"]), true),
        (json!(["git", "harbor"]), true),
        (json!(["git", "other"]), false),
        (json!([]), false),
        (json!(null), false),
    ] {
        let found = [rule(names.clone())];
        assert_eq!(
            covers(Some(found.iter()), &wanted.iter()),
            is_within,
            "{names}"
        );
    }
}
