//! The contents of an answer besides yes and no.

use std::collections::BTreeSet;

use authz::{
    AllowedSubjects, Authorizer, NonResourceRule, RbacIndex, ResolveError, ResourceRule,
    RuleResolver, Subject, Target, User, UserRules,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::build::{
    attributes, cluster_role, cluster_role_binding, list, named, on, paths, role, role_binding,
    rule, user,
};

fn read_pods() -> RbacIndex {
    let mut index = RbacIndex::default();
    let read = [rule("get", "''", "pods")];
    index.apply(&role("ns", "reader", &read)).unwrap();
    index.apply(&cluster_role("reader", &read)).unwrap();
    index
}

#[test]
fn a_grant_shows_the_binding_that_decided() {
    let mut binding = role_binding("ns", "grant-1", "Role/reader", &["ServiceAccount/sa"]);
    binding.metadata.uid = Some("uid-1".to_owned());
    let labels = [("managed-by", "us"), ("request", "r-1"), ("a", "")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    binding.metadata.labels = Some(labels.into());
    let mut index = read_pods();
    index.apply(&binding).unwrap();

    let who = User::service_account("ns", "sa");
    let question = attributes(&who, "get", on("ns", "pods"));
    let grants: Vec<_> = index.allowing(&question).collect();
    let [grant] = grants.as_slice() else {
        panic!("{grants:?}")
    };
    let binding = grant.binding;
    assert_eq!(binding.kind(), "RoleBinding");
    assert_eq!(
        (binding.namespace(), binding.name()),
        (Some("ns"), "grant-1")
    );
    assert_eq!(binding.uid(), Some("uid-1"));
    assert_eq!(binding.label("request"), Some("r-1"));
    assert_eq!((binding.label("a"), binding.label("b")), (Some(""), None));
    let labels: Vec<_> = binding.labels().collect();
    assert_eq!(
        labels,
        [("a", ""), ("managed-by", "us"), ("request", "r-1")]
    );
    assert_eq!(grant.role.kind.as_str(), "Role");
    assert_eq!(&*grant.role.name, "reader");
    assert!(!binding.is_deleting());
    assert_eq!(
        index.authorize(&question).reason,
        format!("RBAC: allowed by {grant}")
    );
}

#[test]
fn a_binding_that_is_being_deleted_counts_and_says_so() {
    let mut binding = role_binding("ns", "b", "Role/reader", &["User/alice"]);
    binding.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    let mut index = read_pods();
    index.apply(&binding).unwrap();
    let who = user("alice", "");
    let question = attributes(&who, "get", on("ns", "pods"));
    let deleting: Vec<_> = index
        .allowing(&question)
        .map(|grant| grant.binding.is_deleting())
        .collect();
    assert_eq!(deleting, [true]);
}

#[test]
fn a_label_that_changes_alone_is_seen() {
    let mut binding = role_binding("ns", "b", "Role/reader", &["User/alice"]);
    let mut index = read_pods();
    index.apply(&binding).unwrap();
    let labels = [("request".to_owned(), "r-2".to_owned())];
    binding.metadata.labels = Some(labels.into());
    index.apply(&binding).unwrap();
    let who = user("alice", "");
    let question = attributes(&who, "get", on("ns", "pods"));
    let grant = index.allowing(&question).next().unwrap();
    assert_eq!(grant.binding.label("request"), Some("r-2"));
}

#[test]
fn every_allowing_binding_comes_up_once_however_often_it_matches() {
    let mut index = read_pods();
    let many = [
        rule("get", "''", "pods"),
        rule("*", "*", "*"),
        named("x", rule("get", "''", "pods")),
    ];
    index.apply(&cluster_role("many", &many)).unwrap();
    let everybody = &["Group/dev", "User/alice", "User/alice", "Group/ops"];
    for (name, reference) in [("one", "Role/reader"), ("two", "ClusterRole/many")] {
        index
            .apply(&role_binding("ns", name, reference, everybody))
            .unwrap();
    }
    index
        .apply(&cluster_role_binding(
            "three",
            "ClusterRole/many",
            everybody,
        ))
        .unwrap();
    let who = user("alice", "ops dev dev ops");
    let question = attributes(&who, "get", on("ns", "pods"));
    let mut names: Vec<_> = index
        .allowing(&question)
        .map(|grant| (grant.binding.name(), grant.subject.to_string()))
        .collect();
    assert_eq!(names[0].0, "three", "the cluster first");
    names.sort();
    let dev = || r#"Group "dev""#.to_owned();
    assert_eq!(names, [("one", dev()), ("three", dev()), ("two", dev())]);
}

#[test]
fn who_can_is_everybody_whom_a_matching_binding_names() {
    let mut index = read_pods();
    for (namespace, name, reference, to) in [
        (
            "ns",
            "a",
            "Role/reader",
            &["User/alice", "ServiceAccount/sa", "Robot/x"] as &[_],
        ),
        (
            "ns",
            "b",
            "ClusterRole/reader",
            &["Group/dev", "User/alice"],
        ),
        ("ns", "c", "Role/gone", &["User/carol"]),
        ("other", "d", "ClusterRole/reader", &["User/dave"]),
        ("other", "e", "Role/gone-elsewhere", &["User/dave"]),
    ] {
        index
            .apply(&role_binding(namespace, name, reference, to))
            .unwrap();
    }
    index
        .apply(&cluster_role_binding(
            "f",
            "ClusterRole/reader",
            &["Group/ops", "ServiceAccount/x"],
        ))
        .unwrap();

    let account = Subject::ServiceAccount {
        namespace: "ns".into(),
        name: "sa".into(),
    };
    let group = |name: &str| Subject::Group(name.into());
    let in_ns = [
        Subject::User("alice".into()),
        account,
        group("dev"),
        group("ops"),
    ];
    assert_eq!(
        index.who_can("get", Target::Resource(on("ns", "pods")), 4, |_| true),
        AllowedSubjects {
            subjects: in_ns.into(),
            is_cut: false,
            errors: [ResolveError::RoleNotFound("gone".to_owned())].into(),
        }
    );
    assert_eq!(
        index
            .who_can("get", Target::Resource(on("", "pods")), 4, |_| true)
            .subjects,
        [group("ops")].into()
    );
    assert_eq!(
        index
            .who_can("delete", Target::Resource(on("ns", "pods")), 4, |_| true)
            .subjects,
        BTreeSet::new()
    );
    for (most, listed, is_cut) in [(0, 0, true), (3, 3, true), (4, 4, false)] {
        let who = index.who_can("get", Target::Resource(on("ns", "pods")), most, |_| true);
        assert_eq!((who.subjects.len(), who.is_cut), (listed, is_cut), "{most}");
    }
    let nobody = index.who_can("delete", Target::Resource(on("ns", "pods")), 0, |_| true);
    assert!(!nobody.is_cut);
    let by_b = index.who_can("get", Target::Resource(on("ns", "pods")), 2, |one| {
        one.name() == "b"
    });
    assert_eq!(
        by_b.subjects,
        [Subject::User("alice".into()), group("dev")].into()
    );
    assert!(!by_b.is_cut);
}

#[test]
fn rules_for_lists_what_every_binding_of_the_user_gives() {
    let mut index = read_pods();
    let both = [
        paths("get", "/metrics"),
        named("x", rule("*", "apps", "deployments")),
        rule("get", "", ""),
    ];
    index.apply(&cluster_role("both", &both)).unwrap();
    for (name, reference, to) in [
        ("a", "Role/reader", &["User/alice", "Group/dev"] as &[_]),
        ("b", "Role/gone", &["User/alice"]),
        ("c", "Role/gone", &["Group/dev"]),
        ("d", "ClusterRole/reader", &["User/bob"]),
    ] {
        index
            .apply(&role_binding("ns", name, reference, to))
            .unwrap();
    }
    index
        .apply(&cluster_role_binding(
            "wide",
            "ClusterRole/both",
            &["Group/dev"],
        ))
        .unwrap();
    let wide = ResourceRule {
        verbs: list("*"),
        api_groups: list("apps"),
        resources: list("deployments"),
        resource_names: list("x"),
    };
    let narrow = ResourceRule {
        verbs: list("get"),
        api_groups: list("''"),
        resources: list("pods"),
        resource_names: vec![],
    };
    let non_resource = vec![NonResourceRule {
        verbs: list("get"),
        urls: list("/metrics"),
    }];
    let alice = user("alice", "dev");
    assert_eq!(
        index.rules_for(&alice, "ns"),
        UserRules {
            resource: vec![wide.clone(), narrow],
            non_resource: non_resource.clone(),
            errors: vec![ResolveError::RoleNotFound("gone".to_owned())],
        }
    );
    for elsewhere in ["", "other"] {
        let expected = UserRules {
            resource: vec![wide.clone()],
            non_resource: non_resource.clone(),
            errors: vec![],
        };
        assert_eq!(index.rules_for(&alice, elsewhere), expected);
    }
    assert_eq!(
        index.rules_for(&user("carol", ""), "ns"),
        UserRules::default()
    );
}

#[test]
fn rules_about_paths_are_listed_even_where_they_do_not_count() {
    let mut index = RbacIndex::default();
    index
        .apply(&cluster_role("r", &[paths("get", "*")]))
        .unwrap();
    index
        .apply(&role_binding("ns", "b", "ClusterRole/r", &["User/alice"]))
        .unwrap();
    let rules = index.rules_for(&user("alice", ""), "ns");
    assert_eq!(rules.non_resource.len(), 1);
}

#[test]
fn a_binding_that_begins_to_be_deleted_says_so_and_nothing_else_of_it_has_to_change() {
    let mut binding = role_binding("ns", "b", "Role/reader", &["User/alice"]);
    let mut index = read_pods();
    let who = user("alice", "");
    for time in [None, Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))] {
        binding.metadata.deletion_timestamp = time.clone();
        index.apply(&binding).unwrap();
        let question = attributes(&who, "get", on("ns", "pods"));
        let grant = index.allowing(&question).next().unwrap();
        assert_eq!(grant.binding.is_deleting(), time.is_some());
    }
}
