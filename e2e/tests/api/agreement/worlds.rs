//! Random worlds: a few roles and bindings from few words, so that much matches by chance, and changes
//! of them in the middle.
//!
//! The users, groups and objects of a world carry its name, so that many worlds live beside each other.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rand::seq::IndexedRandom;
use rand::{RngExt, rngs::StdRng};

use super::object::{Object, RUN};

pub(crate) const VERBS: [&str; 5] = ["get", "list", "watch", "update", "delete"];
pub(crate) const GROUPS: [&str; 3] = ["", "apps", "connectors.alauda.io"];
pub(crate) const RESOURCES: [&str; 4] = ["pods", "deployments", "secrets", "connectors"];
pub(crate) const NAMES: [&str; 3] = ["n0", "n1", "n2"];
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// Where worlds are: a run, its two namespaces, and the name of one world.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) run: String,
    pub(crate) namespaces: [String; 2],
    pub(crate) world: String,
}

impl Place {
    fn metadata(&self, namespace: Option<&str>, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: namespace.map(str::to_owned),
            labels: Some([(RUN.to_owned(), self.run.clone())].into()),
            ..ObjectMeta::default()
        }
    }

    pub(crate) fn role(&self, namespace: &str, name: String, rules: Vec<PolicyRule>) -> Object {
        Object::Role(Role {
            metadata: self.metadata(Some(namespace), name),
            rules: Some(rules),
        })
    }

    pub(crate) fn cluster_role(&self, name: String, rules: Vec<PolicyRule>) -> Object {
        Object::ClusterRole(ClusterRole {
            metadata: self.metadata(None, name),
            rules: Some(rules),
            aggregation_rule: None,
        })
    }

    pub(crate) fn role_binding(
        &self,
        namespace: &str,
        name: String,
        role_ref: RoleRef,
        subjects: Vec<Subject>,
    ) -> Object {
        Object::RoleBinding(RoleBinding {
            metadata: self.metadata(Some(namespace), name),
            role_ref,
            subjects: Some(subjects),
        })
    }

    pub(crate) fn cluster_role_binding(
        &self,
        name: String,
        role_ref: RoleRef,
        subjects: Vec<Subject>,
    ) -> Object {
        Object::ClusterRoleBinding(ClusterRoleBinding {
            metadata: self.metadata(None, name),
            role_ref,
            subjects: Some(subjects),
        })
    }

    /// A word of this world.
    pub(crate) fn own(&self, word: &str) -> String {
        format!("{}-{}-{word}", self.run, self.world)
    }

    pub(crate) fn namespace(&self, random: &mut StdRng) -> &str {
        &self.namespaces[random.random_range(0..2)]
    }
}

pub(crate) fn pick<T: Clone>(random: &mut StdRng, of: &[T]) -> T {
    of.choose(random).unwrap().clone()
}

/// The objects of a world, as they come first.
pub(crate) fn objects(place: &Place, random: &mut StdRng) -> Vec<Object> {
    let mut objects = Vec::new();
    for number in 0..random.random_range(2..=4) {
        let namespace = place.namespace(random);
        let name = place.own(&format!("role-{number}"));
        objects.push(place.role(namespace, name, rules(place, random, false)));
    }
    for number in 0..random.random_range(2..=3) {
        let name = place.own(&format!("role-{number}"));
        objects.push(place.cluster_role(name, rules(place, random, true)));
    }
    for number in 0..random.random_range(3..=5) {
        let name = place.own(&format!("binding-{number}"));
        let (namespace, role_ref) = role_of_namespace(place, random, &objects);
        let subjects = subjects(place, random, true);
        objects.push(place.role_binding(&namespace, name, role_ref, subjects));
    }
    for number in 0..random.random_range(2..=3) {
        let name = place.own(&format!("binding-{number}"));
        let role_ref = role_ref("ClusterRole", numbered(place, random));
        let subjects = subjects(place, random, false);
        objects.push(place.cluster_role_binding(name, role_ref, subjects));
    }
    objects
}

/// A namespace, and a role that a binding there can refer to; usually one that exists.
fn role_of_namespace(place: &Place, random: &mut StdRng, objects: &[Object]) -> (String, RoleRef) {
    let roles = objects.iter().filter(|object| object.kind() == "Role");
    let roles: Vec<&ObjectMeta> = roles.map(Object::metadata).collect();
    let role = pick(random, &roles);
    let (name, namespace) = (role.name.clone(), role.namespace.clone());
    let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
    match random.random_range(0..100) {
        0..50 => (namespace, role_ref("Role", name)),
        50..60 => (namespace, role_ref("Role", place.own("nowhere"))),
        _ => {
            let namespace = place.namespace(random).to_owned();
            (namespace, role_ref("ClusterRole", numbered(place, random)))
        }
    }
}

/// The name of a cluster role. There are two or three of the three.
fn numbered(place: &Place, random: &mut StdRng) -> String {
    let number = random.random_range(0..3);
    place.own(&format!("role-{number}"))
}

pub(crate) fn role_ref(kind: &str, name: String) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name,
    }
}

fn subjects(place: &Place, random: &mut StdRng, namespaced: bool) -> Vec<Subject> {
    (0..random.random_range(1..=3))
        .map(|_| subject(place, random, namespaced))
        .collect()
}

fn subject(place: &Place, random: &mut StdRng, namespaced: bool) -> Subject {
    let namespace = place.namespace(random).to_owned();
    let account = place.own("sa");
    let (kind, name, namespace) = match random.random_range(0..12) {
        0..3 => ("User", place.own(pick(random, &["alice", "bob"])), None),
        3..6 => ("Group", place.own(pick(random, &["dev", "ops"])), None),
        6 => (
            "User",
            format!("system:serviceaccount:{namespace}:{account}"),
            None,
        ),
        7 => ("Group", format!("system:serviceaccounts:{namespace}"), None),
        8..10 if namespaced => ("ServiceAccount", account, None),
        _ => ("ServiceAccount", account, Some(namespace)),
    };
    Subject {
        api_group: (kind != "ServiceAccount").then(|| RBAC.to_owned()),
        kind: kind.to_owned(),
        name,
        namespace,
    }
}

fn rules(place: &Place, random: &mut StdRng, cluster: bool) -> Vec<PolicyRule> {
    (0..random.random_range(1..=3))
        .map(|_| match random.random_range(0..5) {
            0..2 if cluster => path_rule(random),
            _ => resource_rule(place, random),
        })
        .collect()
}

fn path_rule(random: &mut StdRng) -> PolicyRule {
    let urls = [
        "/agreed",
        "/agreed/on",
        "/deep/er",
        "/agreed*",
        "/other/*",
        "/x/**",
        "*",
    ];
    PolicyRule {
        verbs: verbs(random),
        non_resource_urls: Some(some(random, &urls)),
        ..PolicyRule::default()
    }
}

fn resource_rule(place: &Place, random: &mut StdRng) -> PolicyRule {
    let groups = match random.random_range(0..4) {
        0 => vec!["*".to_owned()],
        _ => some(random, &GROUPS),
    };
    let resources = (0..random.random_range(1..=2)).map(|_| resource(place, random));
    let resources = resources.collect();
    let names = random.random_range(0..10) < 3;
    PolicyRule {
        verbs: verbs(random),
        api_groups: Some(groups),
        resources: Some(resources),
        resource_names: names.then(|| some(random, &NAMES)),
        non_resource_urls: None,
    }
}

fn verbs(random: &mut StdRng) -> Vec<String> {
    match random.random_range(0..4) {
        0 => vec!["*".to_owned()],
        _ => some(random, &VERBS),
    }
}

/// One or two of the words.
fn some(random: &mut StdRng, words: &[&str]) -> Vec<String> {
    (0..random.random_range(1..=2))
        .map(|_| pick(random, words).to_owned())
        .collect()
}

/// A resource as a rule writes it.
fn resource(place: &Place, random: &mut StdRng) -> String {
    let subresource = subresource(place, random);
    match random.random_range(0..10) {
        0..3 => pick(random, &RESOURCES).to_owned(),
        3..5 => format!(
            "{}/{}",
            pick(random, &RESOURCES),
            pick(random, &["log", "status"])
        ),
        5 => "*".to_owned(),
        6..8 => format!("*/{subresource}"),
        _ => format!("connectors/{}", pod_form(place, random)),
    }
}

/// A subresource as a question has it.
pub(crate) fn subresource(place: &Place, random: &mut StdRng) -> String {
    match random.random_range(0..4) {
        0 => "log".to_owned(),
        1 => "status".to_owned(),
        2 => "apis".to_owned(),
        _ => pod_form(place, random),
    }
}

/// The resource of a mount's question.
fn pod_form(place: &Place, random: &mut StdRng) -> String {
    let namespace = place.namespace(random).to_owned();
    format!("apis/v1/pod/{namespace}/p{}", random.random_range(0..2))
}

/// The change of an object in the middle.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// It stays as it is.
    Stay(Object),
    /// It has other rules or subjects from now on.
    Replace(Object),
    Delete(Object),
}

/// The middle of a world's life.
pub(crate) fn change(place: &Place, random: &mut StdRng, object: Object) -> Change {
    match random.random_range(0..10) {
        0..3 => Change::Delete(object),
        3..5 => {
            let mut object = object;
            let namespaced = object.metadata().namespace.is_some();
            if let Some(old) = object.rules() {
                *old = rules(place, random, !namespaced);
            }
            if let Some(old) = object.subjects() {
                *old = subjects(place, random, namespaced);
            }
            Change::Replace(object)
        }
        _ => Change::Stay(object),
    }
}
