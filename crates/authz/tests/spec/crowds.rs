//! Many bindings to few roles, under names that nearly equal those of others: prefixes, suffixes, other case.
//! The index agrees with RBAC without an index, and tells which of the bindings are being deleted.

use authz::{RbacIndex, User};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::agreement::{compare, happen};
use crate::build::{list, role_ref, subject, user};
use crate::reference::World;
use crate::worlds::{Change, Question};

const CASES: u32 = 150;
/// With more bindings of a role than this, the index does not check them one by one.
const CROWD: usize = 8;

/// Most objects are in one of these, and most bindings are to one role.
const PLACES: &[&str] = &[
    "team", "team", "team", "team", "team", "team-a", "eam", "Team",
];
const ROLES: &[&str] = &["r", "r", "r", "r", "r-2", "R"];
const REFERENCES: &[&str] = &[
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r",
    "Role/r-2",
    "Role/R",
    "Role/gone",
    "ClusterRole/r",
    "ClusterRole/r-2",
    "role/r",
];
const SUBJECTS: &[&str] = &[
    "User/ann",
    "User/anna",
    "User/Ann",
    "User/nn",
    "User/system:serviceaccount:team:ann",
    "User/ann",
    "Group/dev",
    "Group/dev",
    "Group/dev-ops",
    "Group/Dev",
    "Group/system:serviceaccounts:team",
    "Group/system:serviceaccounts:team-a",
    "ServiceAccount/ann",
    "ServiceAccount/team/ann",
    "ServiceAccount/team/ann-a",
    "ServiceAccount/team-a/ann",
    "ServiceAccount/Team/ann",
    "user/ann",
];
const USERS: &[&str] = &[
    "ann",
    "ann",
    "anna",
    "Ann",
    "an",
    "system:serviceaccount:team:ann",
    "system:serviceaccount:team-a:ann",
    "system:serviceaccount:team:ann-a",
    "System:serviceaccount:team:ann",
];
const MEMBERSHIPS: &[&str] = &[
    "",
    "",
    "dev",
    "dev-ops Dev",
    "de",
    "system:serviceaccounts system:serviceaccounts:team",
    "system:serviceaccounts:team-a dev",
];
const VERBS: &[&str] = &["get", "get", "get", "get", "*", "*", "ge", "Get"];
const GROUPS: &[&str] = &["", "", "", "", "*", "*", "x", "X"];
const ASKED_VERBS: &[&str] = &["get", "get", "get", "get", "get", "GET", "gets", "*"];
const RESOURCES: &[&str] = &[
    "*",
    "*",
    "c/apis",
    "c/apis",
    "c/apis",
    "c/apis/v1/pod/team/p",
    "c/apis/v1/pod/team/p",
    "c/apis/v1/pod/team/p-2",
    "c/apis/v1/pod/team/*",
    "c/api",
    "C/apis",
    "c",
    "c/*",
    "c*",
    "*/apis",
    "*/apis/v1/pod/team/p",
    "*",
];
const ASKED: &[(&str, &str)] = &[
    ("c", "apis"),
    ("c", "apis"),
    ("c", "apis/v1/pod/team/p"),
    ("c", "apis/v1/pod/team/p"),
    ("c", "apis/v1/pod/team/p-2"),
    ("c", "apis/v1/pod/team"),
    ("c", "Apis"),
    ("c", ""),
    ("cc", "apis"),
];
const OBJECTS: &[&str] = &[
    "harbor", "harbor", "harbor-2", "Harbor", "arbor", "harbor*", "*", "",
];
const ASKED_OBJECTS: &[&str] = &[
    "harbor", "harbor", "harbor", "harbor-2", "Harbor", "harbo", "",
];

fn rules() -> impl Strategy<Value = Option<Vec<PolicyRule>>> {
    let words = |words: &'static [&'static str], most| {
        vec(select(words).prop_map(str::to_owned), 1..=most).prop_map(Some)
    };
    // Absent and empty mean every object; a star among names is an ordinary name.
    let names = prop_oneof![
        2 => Just(None),
        1 => Just(Some(vec![])),
        3 => words(OBJECTS, 3),
    ];
    let rule = (
        words(VERBS, 2),
        words(GROUPS, 1),
        words(RESOURCES, 4),
        names,
    );
    let rule = rule.prop_map(
        |(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs: verbs.unwrap_or_default(),
            api_groups,
            resources,
            resource_names,
            non_resource_urls: None,
        },
    );
    vec(rule, 1..4).prop_map(Some)
}

/// The object may be terminating, with a finalizer that keeps it.
fn metadata(namespace: Option<&str>, name: &str, is_going: bool) -> ObjectMeta {
    let since = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        deletion_timestamp: is_going.then_some(since),
        ..ObjectMeta::default()
    }
}

fn going() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn roles() -> impl Strategy<Value = Role> {
    let role = (select(PLACES), select(ROLES), rules(), going());
    role.prop_map(|(namespace, name, rules, is_going)| Role {
        metadata: metadata(Some(namespace), name, is_going),
        rules,
    })
}

fn cluster_roles() -> impl Strategy<Value = ClusterRole> {
    (select(ROLES), rules(), going()).prop_map(|(name, rules, is_going)| ClusterRole {
        metadata: metadata(None, name, is_going),
        rules,
        ..ClusterRole::default()
    })
}

/// Few, or more than the index compares one by one.
fn subjects() -> impl Strategy<Value = Option<Vec<Subject>>> {
    let some = |size| vec(select(SUBJECTS).prop_map(subject), size).prop_map(Some);
    prop_oneof![12 => some(0..3), 1 => some(17..24)]
}

fn role_bindings() -> impl Strategy<Value = RoleBinding> {
    let binding = (
        select(PLACES),
        0..24_u8,
        select(REFERENCES),
        subjects(),
        going(),
    );
    binding.prop_map(
        |(namespace, number, reference, subjects, is_going)| RoleBinding {
            metadata: metadata(Some(namespace), &format!("b{number}"), is_going),
            role_ref: role_ref(reference),
            subjects,
        },
    )
}

fn cluster_role_bindings() -> impl Strategy<Value = ClusterRoleBinding> {
    let binding = (0..6_u8, select(REFERENCES), subjects(), going());
    binding.prop_map(
        |(number, reference, subjects, is_going)| ClusterRoleBinding {
            metadata: metadata(None, &format!("b{number}"), is_going),
            role_ref: role_ref(reference),
            subjects,
        },
    )
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = prop_oneof![
        5 => roles().prop_map(Change::Role),
        2 => cluster_roles().prop_map(Change::ClusterRole),
        40 => role_bindings().prop_map(Change::RoleBinding),
        2 => cluster_role_bindings().prop_map(Change::ClusterRoleBinding),
        1 => roles().prop_map(Change::NoRole),
        1 => cluster_roles().prop_map(Change::NoClusterRole),
        4 => role_bindings().prop_map(Change::NoRoleBinding),
        1 => cluster_role_bindings().prop_map(Change::NoClusterRoleBinding),
        1 => vec(role_bindings(), 0..60).prop_map(once).prop_map(Change::RoleBindings),
    ];
    vec(one, 60..160)
}

/// A list shows each object once.
fn once(mut all: Vec<RoleBinding>) -> Vec<RoleBinding> {
    let key = |it: &RoleBinding| (it.metadata.namespace.clone(), it.metadata.name.clone());
    all.sort_by_key(key);
    all.dedup_by_key(|it| key(it));
    all
}

fn questions() -> impl Strategy<Value = Question> {
    let who = (select(USERS), select(MEMBERSHIPS)).prop_map(|(name, groups)| user(name, groups));
    let target = (select(ASKED), select(PLACES), select(ASKED_OBJECTS));
    let question = (
        who,
        select(ASKED_VERBS),
        select(&["", "", "", "", "x"][..]),
        target,
    );
    question.prop_map(
        |(user, verb, group, (resource, namespace, name))| Question {
            user,
            verb,
            group,
            resource,
            namespace,
            name,
            path: None,
        },
    )
}

/// True when the deletion state of each allowing binding is that of its object.
fn tells_what_is_going(world: &World, index: &RbacIndex, question: &Question) -> bool {
    let question = question.attributes();
    index.allowing(&question).all(|grant| {
        let name = grant.binding.name().to_owned();
        let metadata = match grant.binding.namespace() {
            Some(namespace) => {
                let key = (namespace.to_owned(), name);
                world.role_bindings.get(&key).map(|it| &it.metadata)
            }
            None => world
                .cluster_role_bindings
                .get(&name)
                .map(|it| &it.metadata),
        };
        metadata.is_some_and(|it| it.deletion_timestamp.is_some() == grant.binding.is_deleting())
    })
}

/// The highest number of bindings of one role.
fn crowd(world: &World) -> usize {
    let key = |it: &RoleBinding| {
        let namespace = it.metadata.namespace.clone();
        (
            namespace,
            it.role_ref.kind.clone(),
            it.role_ref.name.clone(),
        )
    };
    let of = |wanted: &RoleBinding| {
        let same = world
            .role_bindings
            .values()
            .filter(|it| key(it) == key(wanted));
        same.count()
    };
    world
        .role_bindings
        .values()
        .map(of)
        .max()
        .unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_index_agrees_with_the_reference_about_crowds_and_names_that_are_nearly_the_same(
        changes in changes(),
        questions in vec(questions(), 24),
    ) {
        let (mut world, mut index) = (World::default(), RbacIndex::default());
        for change in changes {
            happen(&mut world, &mut index, change);
        }
        for question in &questions {
            compare(&world, &index, question)?;
            prop_assert!(tells_what_is_going(&world, &index, question));
        }
    }
}

/// Without roles with many bindings, or with refusals alone, the comparison would prove little.
#[test]
fn crowds_are_met_and_answered_in_both_ways() {
    let mut runner = TestRunner::deterministic();
    let (mut crowds, mut allowed, mut refused) = (0, 0, 0);
    for _ in 0..CASES {
        let (mut world, mut index) = (World::default(), RbacIndex::default());
        for change in changes().new_tree(&mut runner).unwrap().current() {
            happen(&mut world, &mut index, change);
        }
        crowds += u32::from(crowd(&world) > CROWD);
        let question = questions().new_tree(&mut runner).unwrap().current();
        let answer = world.answer(&question.attributes());
        if answer.allowing.is_empty() {
            refused += 1;
        } else {
            allowed += 1;
        }
    }
    let enough = CASES / 10;
    assert!(crowds > enough, "{crowds} crowds");
    assert!(allowed > enough, "{allowed} allowed");
    assert!(refused > enough, "{refused} refused");
}

/// A binding that is recreated under its name with another role leaves the old role, however it is found
/// there.
#[test]
fn a_replaced_binding_is_of_its_new_role_alone_however_many_are_beside_it() {
    for beside in [0, 1, CROWD - 1, CROWD, CROWD + 1, 50] {
        for is_listed in [false, true] {
            let mut index = RbacIndex::default();
            for (name, verb) in [("old", "get"), ("new", "list")] {
                let rules = [crate::build::rule(verb, "''", "pods")];
                index
                    .apply(&crate::build::role("ns", name, &rules))
                    .unwrap();
            }
            let binding = |name: &str, reference: &str, who: &str| {
                crate::build::role_binding("ns", name, reference, &[who])
            };
            let mut all: Vec<_> = (0..beside)
                .map(|number| binding(&format!("beside-{number}"), "Role/old", "User/bob"))
                .collect();
            all.push(binding("b", "Role/old", "User/ann"));
            for one in &all {
                index.apply(one).unwrap();
            }
            let replaced = binding("b", "Role/new", "User/ann");
            if is_listed {
                all.pop();
                all.push(replaced);
                assert_eq!(index.reset(&all), []);
            } else {
                index.apply(&replaced).unwrap();
            }
            let may = |name: &str, verb: &str| {
                let who = User {
                    name: name.to_owned(),
                    groups: list(""),
                };
                crate::build::may(&index, &who, verb, crate::build::on("ns", "pods"))
            };
            let told = format!("{beside} beside it, listed: {is_listed}");
            assert!(!may("ann", "get") && may("ann", "list"), "{told}");
            assert!(
                may("bob", "get") == (beside > 0) && !may("bob", "list"),
                "{told}"
            );
            let target = authz::Target::Resource(crate::build::on("ns", "pods"));
            let who = index.who_can("get", target, 9, |_| true);
            assert_eq!(who.subjects.len(), usize::from(beside > 0), "{told}");
        }
    }
}
