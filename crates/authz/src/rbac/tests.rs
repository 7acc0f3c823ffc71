//! The cost of an answer, counted in steps of the join rather than timed.

use std::cell::Cell;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::candidates::{CandidateRoles, MissingRoles, RoleSet};
use super::reach::{Reached, View};
use super::rule::Rule;
use super::scope::{FoundBy, Scope};
use super::{RbacIndex, RoleId};
use crate::pool::TextPool;
use crate::{Attributes, Authorizer, ResourceRequest, Target, User};

const GRANTS: usize = 5_000;

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("connectors".to_owned()),
        ..ObjectMeta::default()
    }
}

fn role(name: &str, resource: String, connector: &str) -> rbac::Role {
    let uses = rbac::PolicyRule {
        verbs: vec!["*".to_owned()],
        api_groups: Some(vec!["connectors.alauda.io".to_owned()]),
        resources: Some(vec![resource]),
        resource_names: Some(vec![connector.to_owned()]),
        non_resource_urls: None,
    };
    rbac::Role {
        metadata: metadata(name),
        rules: Some(vec![uses]),
    }
}

/// A grant as the controllers write it: a role of its own for one pod, bound to the service account that all
/// pods share.
fn grant(index: &mut RbacIndex, number: usize) {
    let name = format!("grant-{number}");
    index.apply(&role(&name, pod(number), "harbor")).unwrap();
    index.apply(&binding(number, &name)).unwrap();
}

fn binding(number: usize, role: &str) -> rbac::RoleBinding {
    let subject = rbac::Subject {
        kind: "ServiceAccount".to_owned(),
        namespace: Some("apps".to_owned()),
        name: "pipeline".to_owned(),
        ..rbac::Subject::default()
    };
    rbac::RoleBinding {
        metadata: metadata(&format!("grant-{number}")),
        role_ref: rbac::RoleRef {
            kind: "Role".to_owned(),
            name: role.to_owned(),
            ..rbac::RoleRef::default()
        },
        subjects: Some(vec![subject]),
    }
}

fn pod(number: usize) -> String {
    format!("connectors/apis/v1/pod/apps/pod-{number}")
}

fn candidates<'a>(index: &'a RbacIndex, resource: &'a str) -> CandidateRoles<'a> {
    index.candidates("*", Target::Resource(harbor(resource)))
}

fn harbor(resource: &str) -> ResourceRequest<'_> {
    ResourceRequest {
        group: "connectors.alauda.io",
        resource,
        namespace: "connectors",
        name: "harbor",
        ..ResourceRequest::default()
    }
}

fn question<'a>(user: &'a User, resource: &'a str) -> Attributes<'a> {
    Attributes {
        user,
        verb: "*",
        target: Target::Resource(harbor(resource)),
    }
}

/// A grant with further bindings to its role, `bindings` in all.
fn grant_of_many(index: &mut RbacIndex, bindings: usize) {
    grant(index, 0);
    for number in 1..bindings {
        index.apply(&binding(number, "grant-0")).unwrap();
    }
}

#[test]
fn one_pod_meets_its_own_grant_and_none_of_the_others() {
    let mut index = RbacIndex::default();
    (0..GRANTS).for_each(|number| grant(&mut index, number));
    assert_eq!(candidates(&index, &pod(17)).at_most(), 1);
    assert_eq!(candidates(&index, &pod(GRANTS)).at_most(), 0);
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 0);

    let user = User::service_account("apps", "pipeline");
    let resource = pod(17);
    let question = question(&user, &resource);
    let names: Vec<_> = index
        .allowing(&question)
        .map(|grant| grant.binding.name())
        .collect();
    assert_eq!(names, ["grant-17"]);
}

#[test]
fn a_list_deletes_what_it_does_not_show_and_an_empty_one_leaves_no_trace() {
    let mut index = RbacIndex::default();
    (0..3).for_each(|number| grant(&mut index, number));
    assert!(index.reset([&role("grant-1", pod(1), "harbor")]).is_empty());
    assert!(index.reset([&binding(1, "grant-1")]).is_empty());
    let user = User::service_account("apps", "pipeline");
    for number in 0..3 {
        let resource = pod(number);
        let question = question(&user, &resource);
        let allowing = index.allowing(&question).count();
        assert_eq!(allowing, usize::from(number == 1), "{number}");
    }
    let none: [&rbac::Role; 0] = [];
    index.reset(none);
    let none: [&rbac::RoleBinding; 0] = [];
    index.reset(none);
    assert!(index.is_empty());
}

#[test]
fn a_binding_without_subjects_is_not_forgotten_with_the_last_role_of_its_namespace() {
    let mut index = RbacIndex::default();
    let mut alone = binding(0, "reader");
    alone.role_ref.kind = "ClusterRole".to_owned();
    alone.subjects = None;
    index.apply(&alone).unwrap();
    let role = role("role", pod(0), "harbor");
    index.apply(&role).unwrap();
    index.delete(&role);
    index.delete(&alone);
    assert!(index.is_empty());
}

#[test]
fn the_rules_of_a_role_are_a_trace_of_it_whatever_they_are_about() {
    let rules = |resources: &[&str], urls: &[&str]| {
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        let mut role = role("role", String::new(), "harbor");
        for rule in role.rules.iter_mut().flatten() {
            rule.resources = words(resources);
            rule.non_resource_urls = words(urls);
        }
        let mut index = RbacIndex::default();
        index.apply(&role).unwrap();
        let scope = index.scopes.get(Some("connectors"));
        !scope.unwrap().postings.is_empty()
    };
    assert!(rules(&["pods"], &[]));
    assert!(rules(&[], &["/healthz"]));
    assert!(!rules(&[], &[]));

    let mut scope = Scope::default();
    assert!(scope.is_empty());
    scope.missing.insert(RoleId(0));
    assert!(!scope.is_empty());
}

#[test]
fn a_connector_meets_only_the_rules_that_name_it() {
    let mut index = RbacIndex::default();
    for number in 0..GRANTS {
        let name = format!("standing-{number}");
        let connector = if number == 3 { "harbor" } else { &name };
        let standing = role(&name, "connectors/apis".to_owned(), connector);
        index.apply(&standing).unwrap();
    }
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 1);
}

#[test]
fn a_rule_for_all_resources_is_met_once() {
    let mut index = RbacIndex::default();
    index.apply(&role("all", "*".to_owned(), "harbor")).unwrap();
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 1);
}

/// The even roles below a bound; counts the calls.
#[derive(Clone, Copy)]
struct Even<'a> {
    below: u32,
    asked: &'a Cell<u32>,
}

impl RoleSet for Even<'_> {
    fn at_most(&self) -> usize {
        self.below as usize / 2
    }
    fn contains(&self, role: RoleId) -> bool {
        self.asked.set(self.asked.get() + 1);
        role.0 < self.below && role.0.is_multiple_of(2)
    }
    fn next(&self, last: Option<RoleId>) -> Option<RoleId> {
        let next = last.map_or(0, |last| last.0 + 2);
        if next >= self.below {
            return None;
        }
        self.asked.set(self.asked.get() + 1);
        Some(RoleId(next))
    }
}

#[test]
fn a_join_walks_the_smaller_side_only_and_finds_the_same() {
    let user = User::service_account("apps", "pipeline");
    let joined = |held: usize, below| {
        let mut index = RbacIndex::default();
        (0..held).for_each(|number| grant(&mut index, number));
        let asked = Cell::new(0);
        let even = Even {
            below,
            asked: &asked,
        };
        let [_, view] = index.views("connectors");
        let found = view.into_iter();
        let found = found.flat_map(|view| Reached::new(&index, view, &user, even));
        let found: Vec<String> = found.map(|grant| grant.binding.name().to_owned()).collect();
        (found, asked.get())
    };
    let found = ["grant-0", "grant-2", "grant-4"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(joined(5, 10_000), (found.clone(), 5));
    assert_eq!(joined(5_000, 6), (found, 3));
    assert_eq!(joined(0, 10_000), (vec![], 0));
    assert_eq!(joined(5_000, 0), (vec![], 0));
    // Up to eight roles are walked without a look at the other side.
    let first = vec!["grant-0".to_owned()];
    assert_eq!(joined(1, 16), (first.clone(), 8));
    assert_eq!(joined(1, 18), (first, 1));
}

#[test]
fn missing_roles_are_counted_and_walked_in_the_cluster_and_in_the_namespace() {
    let set = |ids: &[u32]| ids.iter().map(|id| RoleId(*id)).collect();
    let (cluster, own) = (set(&[1, 4, 5]), set(&[2, 7]));
    for (namespace, expected) in [(None, &[1, 4, 5][..]), (Some(&own), &[1, 2, 4, 5, 7])] {
        let missing = MissingRoles {
            cluster: &cluster,
            namespace,
        };
        assert_eq!(missing.at_most(), expected.len());
        assert!(missing.roles().map(|role| role.0).eq(expected.to_vec()));
    }
}

#[test]
fn a_user_is_looked_up_by_its_name_and_each_group_and_no_further() {
    let user = User::service_account("apps", "pipeline");
    let names = (0..).map_while(|number| FoundBy::of(number, &user));
    assert_eq!(names.count(), 1 + user.groups.len());
}

/// The scope is empty here, so what is found was found among the bindings of the role.
#[test]
fn up_to_eight_bindings_of_a_role_are_walked_and_more_are_looked_up_by_the_user() {
    let user = User::service_account("apps", "pipeline");
    for (bindings, walked) in [(1, 1), (8, 8), (9, 0), (10, 0)] {
        let mut index = RbacIndex::default();
        grant_of_many(&mut index, bindings);
        let view = View {
            name: Some("connectors"),
            scope: &Scope::default(),
        };
        let first = Even {
            below: 2,
            asked: &Cell::new(0),
        };
        let found = Reached::new(&index, view, &user, first).count();
        assert_eq!(found, walked, "{bindings} bindings");
    }
}

/// The view has the bindings of another namespace here, so what is found was found among those of the role.
#[test]
fn the_bindings_of_a_role_are_walked_unless_its_namespace_has_fewer() {
    for (bindings, walked) in [(2, 2), (3, 3), (4, 0)] {
        let mut index = RbacIndex::default();
        grant_of_many(&mut index, bindings);
        for number in 0..3 {
            let mut elsewhere = binding(number, "grant-0");
            elsewhere.metadata.namespace = Some("other".to_owned());
            index.apply(&elsewhere).unwrap();
        }
        let [_, other] = index.views("other");
        let view = View {
            name: Some("connectors"),
            ..other.unwrap()
        };
        let found = index.bound(view, RoleId(0)).count();
        assert_eq!(found, walked, "{bindings} bindings");
    }
}

/// No reason is written in two pieces, and none takes much more memory than its text.
#[test]
fn a_reason_has_room_for_its_names_and_little_more() {
    let long = |letter: &str| letter.repeat(63);
    let (namespace, name) = (long("n"), long("u"));
    let user = |name: &str, groups: &[&str]| User {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    };
    for (kind, user) in [
        ("User", user(&name, &[])),
        ("Group", user("", &[&name])),
        ("ServiceAccount", User::service_account(&namespace, &name)),
    ] {
        let mut role = role(&long("r"), pod(0), "harbor");
        role.metadata.namespace = Some(namespace.clone());
        let mut binding = binding(0, &long("r"));
        binding.metadata.name = Some(long("b"));
        binding.metadata.namespace = Some(namespace.clone());
        for subject in binding.subjects.iter_mut().flatten() {
            subject.kind = kind.to_owned();
            subject.namespace = Some(namespace.clone());
            subject.name.clone_from(&name);
        }
        let mut index = RbacIndex::default();
        index.apply(&role).unwrap();
        index.apply(&binding).unwrap();
        let resource = pod(0);
        let target = Target::Resource(ResourceRequest {
            namespace: &namespace,
            ..harbor(&resource)
        });
        let question = Attributes {
            target,
            ..question(&user, &resource)
        };
        let grant = index.allowing(&question).next().unwrap();
        let (text, room) = (grant.to_string(), grant.room());
        assert!(
            (text.len()..text.len() + 96).contains(&room),
            "{room} for {text}"
        );
    }
}

/// For a role bound to many users, a lookup costs one user no more than its own bindings.
#[test]
fn a_role_with_many_bindings_is_looked_up_by_the_user() {
    let mut index = RbacIndex::default();
    grant_of_many(&mut index, GRANTS);
    let resource = pod(0);
    let everybody = User::service_account("apps", "pipeline");
    assert_eq!(
        index.allowing(&question(&everybody, &resource)).count(),
        GRANTS
    );
    let nobody = User::service_account("apps", "other");
    assert_eq!(index.allowing(&question(&nobody, &resource)).count(), 0);
    let who = index.who_can("*", Target::Resource(harbor(&resource)), 2, |_| true);
    assert_eq!(who.subjects.len(), 1);
}

/// The range of one role's bindings ends where those of the next begin, however many it has.
#[test]
fn many_bindings_of_one_role_say_nothing_about_its_neighbours() {
    for bindings in [1, 8, 9, 100] {
        let mut index = RbacIndex::default();
        let other = |index: &mut RbacIndex, number: usize| {
            grant(index, number);
            let mut binding = binding(number, &format!("grant-{number}"));
            for subject in binding.subjects.iter_mut().flatten() {
                subject.name = "other".to_owned();
            }
            index.apply(&binding).unwrap();
        };
        other(&mut index, 1000);
        grant_of_many(&mut index, bindings);
        other(&mut index, 1001);
        let allowed = |user: &str, number: usize| {
            let (user, resource) = (User::service_account("apps", user), pod(number));
            let question = question(&user, &resource);
            index.allowing(&question).count()
        };
        assert_eq!(allowed("pipeline", 0), bindings);
        assert_eq!((allowed("other", 1000), allowed("other", 1001)), (1, 1));
        assert_eq!(allowed("other", 0), 0, "{bindings} bindings");
    }
}

#[test]
fn a_missing_role_is_reported_only_to_those_that_it_is_bound_to() {
    for missing in [1, 8, 9, 100] {
        let mut index = RbacIndex::default();
        grant(&mut index, 0);
        for number in 1..=missing {
            let mut binding = binding(number, &format!("missing-{number}"));
            for subject in binding.subjects.iter_mut().flatten() {
                subject.name = "other".to_owned();
            }
            index.apply(&binding).unwrap();
        }
        let reason = |user: &str| {
            let user = User::service_account("apps", user);
            let question = question(&user, "connectors/apis");
            index.authorize(&question).reason
        };
        assert_eq!(reason("pipeline"), "", "{missing} missing roles");
        assert_ne!(reason("other"), "", "{missing} missing roles");
    }
}

#[test]
fn a_rule_with_two_long_lists_takes_no_room_for_their_product() {
    let numbered =
        |prefix| -> Vec<String> { (0..100).map(move |n| format!("{prefix}{n}")).collect() };
    let mut wide = role("wide", String::new(), "");
    for rule in wide.rules.iter_mut().flatten() {
        rule.resources = Some(numbered("r"));
        rule.resource_names = Some(numbered("n"));
    }
    let keys = |role: &rbac::Role| {
        let rules = role.rules.iter().flatten();
        let mut shapes = TextPool::default();
        let rules: Vec<Rule> = rules.map(|rule| Rule::new(rule, &mut shapes)).collect();
        for rule in &rules {
            let pairs = (0..).map_while(|at| rule.pair(at));
            assert!(pairs.eq(rule.pairs()));
        }
        rules.iter().flat_map(Rule::pairs).count()
    };
    assert_eq!(keys(&wide), 100);
    // A few of one list are enough if the other one is long.
    for (resources, names, expected) in [(60, 2, 60), (2, 60, 2), (32, 2, 64), (33, 2, 33)] {
        for rule in wide.rules.iter_mut().flatten() {
            rule.resources = Some(numbered("r").into_iter().take(resources).collect());
            rule.resource_names = Some(numbered("n").into_iter().take(names).collect());
        }
        assert_eq!(
            keys(&wide),
            expected,
            "{resources} resources, {names} names"
        );
    }
    for rule in wide.rules.iter_mut().flatten() {
        rule.resources = Some(vec!["r0".to_owned(), "r1".to_owned()]);
        rule.resource_names = Some(vec!["n0".to_owned(), "n1".to_owned()]);
    }
    assert_eq!(keys(&wide), 4);
}
