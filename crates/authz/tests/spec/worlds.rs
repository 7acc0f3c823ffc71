//! Random objects and questions from few words, so that many match by chance.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use crate::build::{self, role_ref, subject};
use authz::{Attributes, ResourceRequest, Target, User};

const NAMESPACES: &[&str] = &["a", "b"];
const NAMES: &[&str] = &["n0", "n1", "n2"];
// A word that occurs more often is drawn more often.
const VERBS: &[&str] = &["get", "get", "get", "list", "*", "*", ""];
const GROUPS: &[&str] = &["", "", "", "", "g", "*", "*", "*"];
const ASKED_VERBS: &[&str] = &["get", "get", "get", "get", "list", "*", ""];
const ASKED_GROUPS: &[&str] = &["", "", "", "", "", "g", "*"];
const OBJECTS: &[&str] = &["", "x", "y"];
const RESOURCES: &[&str] = &[
    "pods",
    "pods",
    "pods/log",
    "pods/log",
    "*",
    "*",
    "*",
    "*/log",
    "*/log",
    "*/",
    "",
    "log",
    "/log",
    "connectors/apis",
    "connectors/apis/v1/pod/a/p",
    "*/apis/v1/pod/a/p",
    "*/v1/pod/a/p",
    "connectors/*",
];
const ASKED: &[(&str, &str)] = &[
    ("pods", ""),
    ("pods", ""),
    ("pods", ""),
    ("pods", "log"),
    ("pods", "log"),
    ("pods/log", ""),
    ("log", ""),
    ("", "log"),
    ("", ""),
    ("*", ""),
    ("*", "log"),
    ("*/log", ""),
    ("pods", "x/log"),
    ("connectors", "*"),
    ("connectors", "apis"),
    ("connectors", "apis/v1/pod/a/p"),
    ("connectors/apis", "v1/pod/a/p"),
    ("connectors/apis/v1/pod/a/p", ""),
];
const URLS: &[&str] = &[
    "/healthz",
    "/healthz/*",
    "/he**",
    "*",
    "",
    "/healthz/etcd",
    "/",
];
const PATHS: &[&str] = &["/healthz", "/healthz/etcd", "/", "", "/hex"];
const USERS: &[&str] = &[
    "alice",
    "alice",
    "alice",
    "bob",
    "system:serviceaccount:a:sa",
    "system:serviceaccount:a:sa",
    "system:serviceaccount:b:sa",
    "system:serviceaccount::sa",
    "",
];
const MEMBERSHIPS: &[&str] = &[
    "",
    "dev",
    "dev ops dev",
    "system:serviceaccounts:a system:authenticated",
];
const SUBJECTS: &[&str] = &[
    "User/alice",
    "User/bob",
    "User/system:serviceaccount:a:sa",
    "Group/dev",
    "Group/ops",
    "Group/system:serviceaccounts:a",
    "Group/system:authenticated",
    "ServiceAccount/sa",
    "ServiceAccount/a/sa",
    "ServiceAccount/b/sa",
    "ServiceAccount//sa",
    "Robot/alice",
];
const REFERENCES: &[&str] = &[
    "Role/n0",
    "Role/n1",
    "Role/n2",
    "ClusterRole/n0",
    "ClusterRole/n1",
    "ClusterRole/n2",
    "Rule/n0",
];

/// One change of the objects.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Role(Role),
    ClusterRole(ClusterRole),
    RoleBinding(RoleBinding),
    ClusterRoleBinding(ClusterRoleBinding),
    NoRole(Role),
    NoClusterRole(ClusterRole),
    NoRoleBinding(RoleBinding),
    NoClusterRoleBinding(ClusterRoleBinding),
    Roles(Vec<Role>),
    ClusterRoles(Vec<ClusterRole>),
    RoleBindings(Vec<RoleBinding>),
    ClusterRoleBindings(Vec<ClusterRoleBinding>),
}

/// A question that owns its strings.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) user: User,
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: (&'static str, &'static str),
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    /// Asked instead of the resource.
    pub(crate) path: Option<&'static str>,
}

impl Question {
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        let (resource, subresource) = self.resource;
        let request = ResourceRequest {
            group: self.group,
            resource,
            subresource,
            namespace: self.namespace,
            name: self.name,
            ..ResourceRequest::default()
        };
        Attributes {
            user: &self.user,
            verb: self.verb,
            target: self.path.map_or(Target::Resource(request), Target::Path),
        }
    }
}

pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = prop_oneof![
        12 => roles().prop_map(Change::Role),
        12 => cluster_roles().prop_map(Change::ClusterRole),
        16 => role_bindings().prop_map(Change::RoleBinding),
        12 => cluster_role_bindings().prop_map(Change::ClusterRoleBinding),
        2 => roles().prop_map(Change::NoRole),
        2 => cluster_roles().prop_map(Change::NoClusterRole),
        2 => role_bindings().prop_map(Change::NoRoleBinding),
        2 => cluster_role_bindings().prop_map(Change::NoClusterRoleBinding),
        1 => vec(roles(), 0..8).prop_map(Change::Roles),
        1 => vec(cluster_roles(), 0..5).prop_map(Change::ClusterRoles),
        1 => vec(role_bindings(), 0..8).prop_map(Change::RoleBindings),
        1 => vec(cluster_role_bindings(), 0..5).prop_map(Change::ClusterRoleBindings),
    ];
    vec(one, 0..60)
}

pub(crate) fn questions() -> impl Strategy<Value = Question> {
    let user = (select(USERS), select(MEMBERSHIPS));
    let user = user.prop_map(|(name, groups)| build::user(name, groups));
    let path = prop_oneof![
        3 => Just(None),
        1 => select(PATHS).prop_map(Some),
    ];
    let target = (
        select(ASKED_GROUPS),
        select(ASKED),
        select(&["a", "a", "b", ""][..]),
        select(OBJECTS),
        path,
    );
    let question = (user, select(ASKED_VERBS), target);
    question.prop_map(
        |(user, verb, (group, resource, namespace, name, path))| Question {
            user,
            verb,
            group,
            resource,
            namespace,
            name,
            path,
        },
    )
}

/// Absent, empty, or most often some of the words.
fn words(
    words: &'static [&'static str],
    most: usize,
) -> impl Strategy<Value = Option<Vec<String>>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(vec![])),
        14 => vec(select(words).prop_map(str::to_owned), 1..=most).prop_map(Some),
    ]
}

fn rules() -> impl Strategy<Value = Option<Vec<PolicyRule>>> {
    let names = prop_oneof![
        3 => Just(None),
        2 => words(OBJECTS, 2),
    ];
    // Rules that match in all but one respect find more bugs than rules that match in none.
    let broad = |words| prop_oneof![words, Just(Some(vec!["*".to_owned()]))];
    let rule = (
        broad(words(VERBS, 3).boxed()),
        broad(words(GROUPS, 2).boxed()),
        words(RESOURCES, 5),
        names,
        words(URLS, 2),
    );
    let rule = rule.prop_map(
        |(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
            verbs: verbs.unwrap_or_default(),
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        },
    );
    weighted(0.95, vec(rule, 0..5))
}

fn metadata(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

fn roles() -> impl Strategy<Value = Role> {
    (select(NAMESPACES), select(NAMES), rules()).prop_map(|(namespace, name, rules)| Role {
        metadata: metadata(Some(namespace), name),
        rules,
    })
}

fn cluster_roles() -> impl Strategy<Value = ClusterRole> {
    (select(NAMES), rules()).prop_map(|(name, rules)| ClusterRole {
        metadata: metadata(None, name),
        rules,
        aggregation_rule: None,
    })
}

fn subjects() -> impl Strategy<Value = Option<Vec<Subject>>> {
    weighted(0.95, vec(select(SUBJECTS).prop_map(subject), 0..7))
}

fn role_bindings() -> impl Strategy<Value = RoleBinding> {
    let binding = (
        select(NAMESPACES),
        select(NAMES),
        select(REFERENCES),
        subjects(),
    );
    binding.prop_map(|(namespace, name, reference, subjects)| RoleBinding {
        metadata: metadata(Some(namespace), name),
        role_ref: role_ref(reference),
        subjects,
    })
}

fn cluster_role_bindings() -> impl Strategy<Value = ClusterRoleBinding> {
    (select(NAMES), select(REFERENCES), subjects()).prop_map(|(name, reference, subjects)| {
        ClusterRoleBinding {
            metadata: metadata(None, name),
            role_ref: role_ref(reference),
            subjects,
        }
    })
}
