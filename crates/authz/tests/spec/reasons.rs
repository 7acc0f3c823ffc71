//! The reasons in the answers.

use authz::{Authorizer, AuthorizerDecision, RbacIndex, User, Verdict};

use crate::bindings::{bound, cluster_bound, readers};
use crate::build::{attributes, cluster_role_binding, on, role_binding, user};

fn reason(index: &RbacIndex, user: &User, namespace: &str) -> String {
    let question = attributes(user, "get", on(namespace, "pods"));
    index.authorize(&question).reason
}

#[test]
fn a_yes_names_its_binding_as_kubernetes_does() {
    let alice = user("alice", "dev");
    let account = User::service_account("apps", "sa");
    for (index, who, expected) in [
        (
            bound(&["User/alice"]),
            &alice,
            r#"RBAC: allowed by RoleBinding "b/ns" of Role "reader" to User "alice""#,
        ),
        (
            bound(&["ServiceAccount/apps/sa"]),
            &account,
            r#"RBAC: allowed by RoleBinding "b/ns" of Role "reader" to ServiceAccount "sa/apps""#,
        ),
        (
            cluster_bound(&["ServiceAccount/apps/sa"]),
            &account,
            r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount "sa/apps""#,
        ),
        (
            // The first subject that matches the user, not the first kind that is looked up.
            cluster_bound(&["User/bob", "Group/dev", "User/alice"]),
            &alice,
            r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to Group "dev""#,
        ),
    ] {
        assert_eq!(reason(&index, who, "ns"), expected);
    }
    let defaulted = reason(
        &bound(&["ServiceAccount/sa"]),
        &User::service_account("ns", "sa"),
        "ns",
    );
    assert!(
        defaulted.ends_with(r#"to ServiceAccount "sa/ns""#),
        "{defaulted}"
    );
    let odd = r#"o'"x\"#;
    let to_odd = reason(&bound(&[&format!("User/{odd}")]), &user(odd, ""), "ns");
    assert!(to_odd.ends_with(r#"to User "o'\"x\\""#), "{to_odd}");
    let mut index = readers();
    index
        .apply(&role_binding("ns", odd, "Role/reader", &["User/alice"]))
        .unwrap();
    let by_odd = reason(&index, &alice, "ns");
    assert!(
        by_odd.contains(r#"RoleBinding "o'\"x\\/ns" of"#),
        "{by_odd}"
    );
}

#[test]
fn a_binding_of_the_cluster_is_named_before_one_of_the_namespace() {
    let mut index = bound(&["User/alice"]);
    let wide = cluster_role_binding("wide", "ClusterRole/reader", &["User/alice"]);
    index.apply(&wide).unwrap();
    let reason = reason(&index, &user("alice", ""), "ns");
    assert!(reason.contains(r#"ClusterRoleBinding "wide""#), "{reason}");
}

#[test]
fn a_role_that_is_not_there_is_told_and_allows_nothing() {
    let alice = user("alice", "dev");
    let mut index = RbacIndex::default();
    let mut bind = |name, reference, to| {
        index
            .apply(&role_binding("ns", name, reference, to))
            .unwrap();
        let question = attributes(&alice, "get", on("ns", "pods"));
        let Verdict { decision, reason } = index.authorize(&question);
        assert_eq!(decision, AuthorizerDecision::NoOpinion);
        reason
    };
    assert_eq!(bind("other", "Role/other", &["User/bob"]), "");
    let first = r#"role.rbac.authorization.k8s.io "gone" not found"#;
    assert_eq!(
        bind("a", "Role/gone", &["User/alice"]),
        format!("RBAC: {first}")
    );
    // The same error again, through another subject, is reported once.
    assert_eq!(
        bind("b", "Role/gone", &["Group/dev"]),
        format!("RBAC: {first}")
    );
    let second = r#"clusterrole.rbac.authorization.k8s.io "away" not found"#;
    let both = bind("c", "ClusterRole/away", &["User/alice"]);
    let either = [
        format!("RBAC: [{first}, {second}]"),
        format!("RBAC: [{second}, {first}]"),
    ];
    assert!(either.contains(&both), "{both}");
    let odd = bind("d", "Rule/x", &["User/alice"]);
    assert!(
        odd.contains(r#"unsupported role reference kind: "Rule""#),
        "{odd}"
    );
}

#[test]
fn a_binding_of_the_cluster_finds_no_role_of_a_namespace() {
    let mut index = readers();
    index
        .apply(&cluster_role_binding("b", "Role/reader", &["User/alice"]))
        .unwrap();
    assert_eq!(
        reason(&index, &user("alice", ""), "ns"),
        r#"RBAC: role.rbac.authorization.k8s.io "reader" not found"#
    );
}

#[test]
fn the_reason_of_a_no_stays_short() {
    let mut index = RbacIndex::default();
    for n in 0..1000 {
        let (name, reference) = (format!("b{n}"), format!("Role/gone{n}"));
        index
            .apply(&role_binding("ns", &name, &reference, &["User/alice"]))
            .unwrap();
    }
    let reason = reason(&index, &user("alice", ""), "ns");
    assert_eq!(reason.matches("not found").count(), 32);
    assert!(reason.ends_with(", ...]"), "{reason}");
}
