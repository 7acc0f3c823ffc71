//! What an answer costs, counted rather than timed: the steps that a join may take.

use std::cell::Cell;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::candidates::{Candidates, RoleSet, join};
use super::rule::Rule;
use super::{BindingId, RbacIndex, RoleId};
use crate::{Attributes, ResourceRequest, Target, User};

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

/// A grant as the controllers make it: a role of its own for one pod, bound to the service account
/// that all pods share.
fn grant(index: &mut RbacIndex, number: usize) {
    let name = format!("grant-{number}");
    index.apply(role(&name, pod(number), "harbor")).unwrap();
    let subject = rbac::Subject {
        kind: "ServiceAccount".to_owned(),
        namespace: Some("apps".to_owned()),
        name: "pipeline".to_owned(),
        ..rbac::Subject::default()
    };
    let binding = rbac::RoleBinding {
        metadata: metadata(&name),
        role_ref: rbac::RoleRef {
            kind: "Role".to_owned(),
            name,
            ..rbac::RoleRef::default()
        },
        subjects: Some(vec![subject]),
    };
    index.apply(binding).unwrap();
}

fn pod(number: usize) -> String {
    format!("connectors/apis/v1/pod/apps/pod-{number}")
}

fn candidates<'a>(index: &'a RbacIndex, resource: &'a str) -> Candidates<'a> {
    let scope = index.scopes.namespaces.get("connectors").unwrap();
    let cluster = &index.scopes.cluster.postings;
    let target = Target::Resource(harbor(resource));
    Candidates::new(&index.roles, cluster, Some(&scope.postings), "*", target)
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

#[test]
fn one_pod_meets_its_own_grant_and_none_of_the_others() {
    let mut index = RbacIndex::default();
    (0..GRANTS).for_each(|number| grant(&mut index, number));
    assert_eq!(candidates(&index, &pod(17)).at_most(), 1);
    assert_eq!(candidates(&index, &pod(GRANTS)).at_most(), 0);
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 0);

    let user = User::service_account("apps", "pipeline");
    let resource = pod(17);
    let question = Attributes {
        user: &user,
        verb: "*",
        target: Target::Resource(harbor(&resource)),
    };
    let names: Vec<_> = index
        .allowing(&question)
        .map(|grant| grant.binding.name())
        .collect();
    assert_eq!(names, ["grant-17"]);
}

#[test]
fn a_connector_meets_only_the_rules_that_name_it() {
    let mut index = RbacIndex::default();
    for number in 0..GRANTS {
        let name = format!("standing-{number}");
        let connector = if number == 3 { "harbor" } else { &name };
        let standing = role(&name, "connectors/apis".to_owned(), connector);
        index.apply(standing).unwrap();
    }
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 1);
}

#[test]
fn a_rule_for_all_resources_is_met_once() {
    let mut index = RbacIndex::default();
    index.apply(role("all", "*".to_owned(), "harbor")).unwrap();
    assert_eq!(candidates(&index, "connectors/apis").at_most(), 1);
}

/// The even roles below a bound; counts how often it is asked for one.
#[derive(Clone, Copy)]
struct Even<'a> {
    below: usize,
    asked: &'a Cell<usize>,
}

impl RoleSet for Even<'_> {
    fn at_most(self) -> usize {
        self.below / 2
    }
    fn contains(self, role: RoleId) -> bool {
        self.asked.set(self.asked.get() + 1);
        role.0 < self.below && role.0.is_multiple_of(2)
    }
    fn roles(self) -> impl Iterator<Item = RoleId> {
        let count = move |role| {
            self.asked.set(self.asked.get() + 1);
            RoleId(role)
        };
        (0..self.below).step_by(2).map(count)
    }
}

#[test]
fn a_join_walks_the_smaller_side_only_and_finds_the_same() {
    let asked = Cell::new(0);
    let joined = |held: usize, below| {
        asked.set(0);
        let held = (0..held).map(|n| (RoleId(n), BindingId(n + 7))).collect();
        let even = Even {
            below,
            asked: &asked,
        };
        let found: Vec<_> = join(&held, even).collect();
        (found, asked.get())
    };
    let found: Vec<_> = [0, 2, 4].map(|n| (RoleId(n), BindingId(n + 7))).into();
    assert_eq!(joined(5, 10_000), (found.clone(), 5));
    assert_eq!(joined(10_000, 6), (found, 3));
    assert_eq!(joined(0, 10_000), (vec![], 0));
    assert_eq!(joined(10_000, 0), (vec![], 0));
}

#[test]
fn a_rule_with_two_long_lists_takes_no_room_for_their_product() {
    let numbered = |prefix| (0..100).map(move |n| format!("{prefix}{n}")).collect();
    let mut wide = role("wide", String::new(), "");
    for rule in wide.rules.iter_mut().flatten() {
        rule.resources = Some(numbered("r"));
        rule.resource_names = Some(numbered("n"));
    }
    let keys = |role: rbac::Role| {
        let rules = role.rules.into_iter().flatten();
        let rules: Vec<Rule> = rules.map(Rule::from).collect();
        rules.iter().flat_map(Rule::pairs).count()
    };
    assert_eq!(keys(wide.clone()), 100);
    for rule in wide.rules.iter_mut().flatten() {
        rule.resources = Some(vec!["r0".to_owned(), "r1".to_owned()]);
        rule.resource_names = Some(vec!["n0".to_owned(), "n1".to_owned()]);
    }
    assert_eq!(keys(wide), 4);
}
