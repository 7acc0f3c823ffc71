//! Answers follow changes of the objects, in whatever order they arrive.

use authz::{Authorizer, IndexError, RbacIndex, User};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

use crate::build::{
    attributes, cluster_role, cluster_role_binding, may, on, role, role_binding, rule, user,
};

fn reads(index: &RbacIndex, who: &User) -> bool {
    may(index, who, "get", on("ns", "pods"))
}

fn reader() -> Role {
    role("ns", "reader", &[rule("get", "''", "pods")])
}

fn alices() -> RoleBinding {
    role_binding("ns", "b", "Role/reader", &["User/alice"])
}

#[test]
fn a_binding_before_its_role_counts_when_the_role_comes() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&alices()).unwrap();
    assert!(!reads(&index, &alice));
    index.apply(&reader()).unwrap();
    assert!(reads(&index, &alice));
    let verdict = index.authorize(&attributes(&alice, "get", on("ns", "secrets")));
    assert_eq!(verdict.reason, "", "nothing is missing any more");
}

#[test]
fn a_role_that_changes_changes_what_its_bindings_give() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    index
        .apply(&role("ns", "reader", &[rule("get", "''", "services")]))
        .unwrap();
    assert!(!reads(&index, &alice));
    assert!(may(&index, &alice, "get", on("ns", "services")));
    index
        .apply(&Role {
            rules: None,
            ..reader()
        })
        .unwrap();
    let verdict = index.authorize(&attributes(&alice, "get", on("ns", "services")));
    assert!(!verdict.is_allowed());
    assert_eq!(verdict.reason, "", "a role without rules exists");
}

#[test]
fn a_role_that_goes_takes_its_power_along_and_comes_back_with_it() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    index.delete(&reader());
    assert!(!reads(&index, &alice));
    index.apply(&reader()).unwrap();
    assert!(reads(&index, &alice));
}

#[test]
fn a_binding_that_changes_reaches_only_whom_it_names_now() {
    let (alice, bob) = (user("alice", ""), user("bob", ""));
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    index
        .apply(&role_binding("ns", "b", "Role/reader", &["User/bob"]))
        .unwrap();
    assert_eq!((reads(&index, &alice), reads(&index, &bob)), (false, true));
    // The binding is recreated under its name with another role, because its reference is immutable.
    index
        .apply(&role_binding("ns", "b", "Role/gone", &["User/bob"]))
        .unwrap();
    assert!(!reads(&index, &bob));
}

#[test]
fn a_binding_that_comes_again_unchanged_is_left_where_it_is() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    let place = |index: &RbacIndex| {
        let question = attributes(&alice, "get", on("ns", "pods"));
        let grant = index.allowing(&question).next();
        grant.map(|grant| grant.binding.name().as_ptr()).unwrap()
    };
    let before = place(&index);
    index.apply(&alices()).unwrap();
    assert_eq!(place(&index), before);
    assert_eq!(index.reset([&alices()]), []);
    assert_eq!(place(&index), before);
}

#[test]
fn one_binding_of_two_may_go() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    let second = role_binding("ns", "second", "Role/reader", &["User/alice"]);
    index.apply(&second).unwrap();
    index.delete(&alices());
    assert!(reads(&index, &alice));
    index.delete(&second);
    assert!(!reads(&index, &alice));
}

#[test]
fn kinds_and_namespaces_do_not_share_names() {
    let alice = user("alice", "");
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    index.delete(&cluster_role("reader", &[]));
    index.delete(&role("other", "reader", &[]));
    index.delete(&cluster_role_binding("b", "ClusterRole/reader", &[]));
    index.delete(&role_binding("other", "b", "Role/reader", &[]));
    index.delete(&role("ns", "b", &[]));
    index.delete(&role_binding("ns", "reader", "Role/reader", &[]));
    assert!(reads(&index, &alice));
}

#[test]
fn what_a_list_does_not_show_was_deleted() {
    let (alice, bob) = (user("alice", ""), user("bob", ""));
    let mut index = RbacIndex::default();
    index.apply(&reader()).unwrap();
    index.apply(&alices()).unwrap();
    let bobs = role_binding("ns", "bobs", "Role/reader", &["User/bob"]);
    assert_eq!(index.reset([&bobs]), []);
    assert_eq!((reads(&index, &alice), reads(&index, &bob)), (false, true));
    // Lists of other kinds do not affect it.
    assert_eq!(index.reset::<ClusterRole>([]), []);
    assert_eq!(index.reset::<ClusterRoleBinding>([]), []);
    assert!(reads(&index, &bob));
    assert_eq!(index.reset::<Role>([]), []);
    assert!(!reads(&index, &bob));
    assert_eq!(index.reset([&reader()]), []);
    assert!(reads(&index, &bob));
    assert_eq!(index.reset::<RoleBinding>([]), []);
    assert!(!reads(&index, &bob));
}

#[test]
fn an_object_that_cannot_be_placed_grants_nothing_and_is_told() {
    let mut index = RbacIndex::default();
    let nameless = role("ns", "", &[]);
    let no_name = IndexError::NoName { kind: "Role" };
    assert_eq!(index.apply(&nameless), Err(no_name.clone()));
    let nowhere = role_binding("", "b", "ClusterRole/reader", &["User/alice"]);
    let no_namespace = IndexError::NoNamespace {
        kind: "RoleBinding",
        name: "b".to_owned(),
    };
    assert_eq!(index.apply(&nowhere), Err(no_namespace));
    index.delete(&nowhere);
    assert!(index.is_empty());
    // The rest of a list is applied all the same.
    assert_eq!(index.reset([&nameless, &reader()]), [no_name]);
    index.apply(&alices()).unwrap();
    assert!(reads(&index, &user("alice", "")));
}

#[test]
fn nothing_is_left_of_what_was_deleted() {
    let mut index = RbacIndex::default();
    let wide = cluster_role_binding("w", "ClusterRole/gone", &["Group/dev", "Group/dev"]);
    let binding = role_binding(
        "ns",
        "b",
        "ClusterRole/gone",
        &["ServiceAccount/sa", "User/a"],
    );
    let odd = role_binding("ns", "odd", "Rule/x", &["User/a"]);
    index.apply(&wide).unwrap();
    index.apply(&binding).unwrap();
    index.apply(&odd).unwrap();
    index.apply(&reader()).unwrap();
    assert!(!index.is_empty());
    index.delete(&binding);
    index.delete(&odd);
    index.delete(&reader());
    index.delete(&reader());
    assert!(!index.is_empty());
    index.delete(&wide);
    assert!(index.is_empty());
    // Roles without rules are objects too, of the cluster alone or of a namespace alone.
    index.apply(&cluster_role("bare", &[])).unwrap();
    assert!(!index.is_empty());
    index.delete(&cluster_role("bare", &[]));
    assert!(index.is_empty());
    index.apply(&role("ns", "bare", &[])).unwrap();
    assert!(!index.is_empty());
    index.delete(&role("ns", "bare", &[]));
    assert!(index.is_empty());
}
