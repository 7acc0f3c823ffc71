use serde_json::Value;

use super::*;

const NAMESPACE: &str = "tools";
const NAME: &str = "use";

/// A role with this name and rules, in a namespace or of the cluster.
fn role<K: serde::de::DeserializeOwned>(namespace: Option<&str>, rules: &Value) -> K {
    let metadata = json!({"name": NAME, "namespace": namespace});
    serde_json::from_value(json!({"metadata": metadata, "rules": rules})).unwrap()
}

/// A binding with this name to the role of this kind.
fn binding<K: serde::de::DeserializeOwned>(
    namespace: Option<&str>,
    role: &str,
    groups: &[&str],
) -> K {
    let subject =
        |it: &&str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": it});
    serde_json::from_value(json!({
        "metadata": {"name": NAME, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    }))
    .unwrap()
}

fn rule(resources: &[&str]) -> Value {
    json!({"apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resources": resources})
}

/// Roles and bindings of one place, of which `ops` has too much.
fn of_place(role_kind: &str, rules: &Value, groups: &[&str]) -> RbacObjects {
    RbacObjects {
        cluster_roles: vec![role(None, rules)],
        cluster_bindings: vec![binding(None, "ClusterRole", groups)],
        roles: vec![role(Some(NAMESPACE), rules)],
        bindings: vec![binding(Some(NAMESPACE), role_kind, groups)],
    }
}

/// The remedy for a binding of the namespace, or of the cluster if it is empty.
fn remedy(read: &RbacObjects, namespace: &str) -> Option<Value> {
    let ops = Subject::Group("ops".into());
    let found = without(read, namespace, NAME, &BTreeSet::from([&ops]));
    found.map(|it| serde_json::to_value(it).unwrap())
}

/// In other namespaces there may be roles and bindings of the same names, and so may be for the whole cluster.
#[test]
fn a_namesake_in_another_place_changes_no_remedy() {
    let (alone, with_more) = (
        json!([rule(&["connectors/apis"])]),
        json!([rule(&["connectors/apis", "connectors/status"])]),
    );
    let mut mended = 0;
    for role_kind in ["Role", "ClusterRole"] {
        for rules in [&alone, &with_more] {
            for groups in [&["ops"][..], &["ops", "dev"]] {
                let expected = remedy(&of_place(role_kind, rules, groups), NAMESPACE);
                mended += usize::from(expected.is_some());
                for other_rules in [&alone, &with_more, &json!([])] {
                    for elsewhere in ["tool", "tools-2", "other"] {
                        for is_first in [true, false] {
                            let mut read = of_place(role_kind, rules, groups);
                            let at = |length: usize| if is_first { 0 } else { length };
                            let place = Some(elsewhere);
                            read.roles.insert(at(1), role(place, other_rules));
                            let others = ["ops", "elsewhere"];
                            let namesake = binding(place, role_kind, &others);
                            read.bindings.insert(at(1), namesake);
                            assert_eq!(remedy(&read, NAMESPACE), expected, "{elsewhere} {read:?}");
                        }
                    }
                }
            }
        }
    }
    assert_eq!(mended, 5);
}

#[test]
fn the_remedy_of_a_binding_of_the_cluster_is_made_of_the_cluster_alone() {
    let alone = json!([rule(&["connectors/apis"])]);
    let mut read = of_place("Role", &alone, &["ops", "dev"]);
    let expected = remedy(&read, "").unwrap();
    assert_eq!(expected["kind"], "ClusterRoleBinding");
    assert_eq!(expected["subjects"][0]["name"], "dev");
    read.bindings = vec![binding(Some(NAMESPACE), "Role", &["ops", "elsewhere"])];
    read.roles = vec![role(Some(NAMESPACE), &json!([]))];
    assert_eq!(remedy(&read, ""), Some(expected));
    read.cluster_bindings.clear();
    assert_eq!(remedy(&read, ""), None);
}
