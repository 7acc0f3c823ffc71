//! The users that a binding applies to, and the namespaces.

use authz::{
    Attributes, Authorizer, RbacIndex, ResourceRequest, SystemMasters, Target, Union, User,
};
use k8s_openapi::api::rbac::v1::Subject;

use crate::build::{
    cluster_role, cluster_role_binding, may, on, role, role_binding, rule, subject, user,
};

/// A role and a cluster role with the same name, both for reading pods.
pub(crate) fn readers() -> RbacIndex {
    let read = [rule("get", "''", "pods")];
    let mut index = RbacIndex::default();
    index.apply(&role("ns", "reader", &read)).unwrap();
    index.apply(&cluster_role("reader", &read)).unwrap();
    index
}

pub(crate) fn bound(subjects: &[&str]) -> RbacIndex {
    let mut index = readers();
    index
        .apply(&role_binding("ns", "b", "Role/reader", subjects))
        .unwrap();
    index
}

pub(crate) fn cluster_bound(subjects: &[&str]) -> RbacIndex {
    let mut index = readers();
    index
        .apply(&cluster_role_binding("b", "ClusterRole/reader", subjects))
        .unwrap();
    index
}

fn reads(index: &RbacIndex, user: &User, namespace: &str) -> bool {
    may(index, user, "get", on(namespace, "pods"))
}

#[test]
fn a_subject_is_a_user_a_group_or_a_service_account() {
    let account = User::service_account("ns", "sa");
    for (to, who, expected) in [
        ("User/alice", user("alice", ""), true),
        ("User/alice", user("Alice", ""), false),
        ("User/alice", user("bob", "alice"), false),
        ("Group/dev", user("alice", "ops dev"), true),
        ("Group/dev", user("dev", "ops"), false),
        ("Group/dev", user("alice", ""), false),
        ("ServiceAccount/ns/sa", account.clone(), true),
        (
            "ServiceAccount/ns/sa",
            user("system:serviceaccount:ns:sa", ""),
            true,
        ),
        (
            "ServiceAccount/ns/sa",
            User::service_account("ns", "sa2"),
            false,
        ),
        (
            "ServiceAccount/ns/sa",
            User::service_account("other", "sa"),
            false,
        ),
        ("ServiceAccount/ns/sa", user("sa", ""), false),
        ("User/system:serviceaccount:ns:sa", account.clone(), true),
        ("Group/system:serviceaccounts:ns", account.clone(), true),
        ("Group/system:serviceaccounts:other", account.clone(), false),
        ("Group/system:serviceaccounts", account.clone(), true),
        ("Group/system:authenticated", account.clone(), true),
        ("User/*", user("alice", ""), false),
        ("Group/*", user("alice", "dev"), false),
        ("Robot/alice", user("alice", "alice"), false),
        ("user/alice", user("alice", ""), false),
        ("User/", user("", ""), true),
    ] {
        assert_eq!(reads(&bound(&[to]), &who, "ns"), expected, "{to} {who:?}");
        assert_eq!(
            reads(&cluster_bound(&[to]), &who, ""),
            expected,
            "{to} {who:?}"
        );
    }
}

#[test]
fn a_service_account_without_its_groups_is_not_in_them() {
    let bare = user("system:serviceaccount:ns:sa", "");
    assert!(!reads(
        &bound(&["Group/system:serviceaccounts"]),
        &bare,
        "ns"
    ));
}

#[test]
fn a_service_account_without_a_namespace_is_one_of_the_bindings_own() {
    let own = User::service_account("ns", "sa");
    assert!(reads(&bound(&["ServiceAccount/sa"]), &own, "ns"));
    assert!(!reads(
        &bound(&["ServiceAccount/sa"]),
        &User::service_account("o", "sa"),
        "ns"
    ));
    // A ClusterRoleBinding has no namespace to fall back to.
    assert!(!reads(&cluster_bound(&["ServiceAccount/sa"]), &own, "ns"));
    let mut nowhere = user("system:serviceaccount::sa", "");
    assert!(!reads(
        &cluster_bound(&["ServiceAccount/sa"]),
        &nowhere,
        "ns"
    ));
    nowhere.name = "system:serviceaccount:sa".to_owned();
    assert!(!reads(
        &cluster_bound(&["ServiceAccount/sa"]),
        &nowhere,
        "ns"
    ));
}

#[test]
fn an_empty_namespace_of_a_subject_is_an_absent_one() {
    let mut binding = role_binding("ns", "b", "Role/reader", &[]);
    binding.subjects = Some(vec![Subject {
        namespace: Some(String::new()),
        ..subject("ServiceAccount/sa")
    }]);
    let mut index = readers();
    index.apply(&binding).unwrap();
    assert!(reads(&index, &User::service_account("ns", "sa"), "ns"));
}

#[test]
fn nobody_is_meant_by_no_subjects() {
    let mut absent = role_binding("ns", "b", "Role/reader", &[]);
    let mut index = readers();
    index.apply(&absent).unwrap();
    assert!(!reads(&index, &user("", ""), "ns"));
    absent.subjects = None;
    index.apply(&absent).unwrap();
    assert!(!reads(&index, &user("", ""), "ns"));
}

#[test]
fn a_role_binding_counts_in_its_namespace_alone() {
    let alice = user("alice", "");
    for reference in ["Role/reader", "ClusterRole/reader"] {
        let mut index = readers();
        index
            .apply(&role_binding("ns", "b", reference, &["User/alice"]))
            .unwrap();
        assert!(reads(&index, &alice, "ns"), "{reference}");
        assert!(!reads(&index, &alice, "other"), "{reference}");
        assert!(!reads(&index, &alice, ""), "{reference}");
    }
}

#[test]
fn a_cluster_role_binding_counts_everywhere() {
    let index = cluster_bound(&["User/alice"]);
    for namespace in ["", "ns", "other"] {
        assert!(reads(&index, &user("alice", ""), namespace), "{namespace}");
    }
}

#[test]
fn a_role_is_looked_for_in_the_bindings_namespace() {
    let mut index = readers();
    index
        .apply(&role_binding("other", "b", "Role/reader", &["User/alice"]))
        .unwrap();
    assert!(!reads(&index, &user("alice", ""), "other"));
    assert!(!reads(&index, &user("alice", ""), "ns"));
}

#[test]
fn a_missing_role_does_not_hide_one_that_allows() {
    let mut index = bound(&["User/alice"]);
    index
        .apply(&cluster_role_binding(
            "broken",
            "ClusterRole/gone",
            &["User/alice"],
        ))
        .unwrap();
    assert!(reads(&index, &user("alice", ""), "ns"));
}

#[test]
fn masters_may_do_everything_without_any_rule() {
    let index = RbacIndex::default();
    let chain: [&dyn Authorizer; 2] = [&SystemMasters, &index];
    for (groups, expected) in [
        ("system:masters", true),
        ("dev system:masters", true),
        ("dev", false),
        ("system:master", false),
        ("", false),
    ] {
        let who = user("system:masters", groups);
        for target in [
            Target::Path("/x"),
            Target::Resource(ResourceRequest::default()),
        ] {
            let question = Attributes {
                user: &who,
                verb: "*",
                target,
            };
            assert_eq!(
                Union(&chain).authorize(&question).is_allowed(),
                expected,
                "{groups}"
            );
            assert!(!index.authorize(&question).is_allowed(), "{groups}");
        }
    }
}
