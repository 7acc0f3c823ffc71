//! The allocations of a decision: none for a no, at most the text of the reason for a yes, however many
//! grants there are. This checks what a clock could check only on an idle machine.

mod grants;

use allocation_counter::measure;
use authz::{Authorizer, RbacIndex, SystemMasters, Union};
use grants::{Grant, Holders, Question, index};

/// Decides once; returns the decision and the number of allocations.
fn decide(authorizer: &dyn Authorizer, question: &Question) -> (bool, u64) {
    let attributes = question.attributes();
    let mut allowed = false;
    let cost = measure(|| allowed = authorizer.authorize(&attributes).is_allowed());
    (allowed, cost.count_total)
}

fn each_size(check: impl Fn(&RbacIndex, &Grant)) {
    for holders in [Holders::One, Holders::Many] {
        for count in [10, 10_000] {
            let index = index(count, holders);
            for number in [0, count / 2, count - 1] {
                check(&index, &Grant::new(number, holders));
            }
        }
    }
}

#[test]
fn a_no_allocates_nothing() {
    each_size(|index, grant| {
        assert_eq!(decide(index, &grant.standing_form()), (false, 0));
        let other = Grant::new(usize::MAX / 32, Holders::Many);
        assert_eq!(decide(index, &other.pod_form()), (false, 0));
        assert_eq!(decide(index, &other.standing_form()), (false, 0));
    });
}

#[test]
fn a_yes_allocates_its_reason_and_nothing_else() {
    each_size(|index, grant| assert_eq!(decide(index, &grant.pod_form()), (true, 1)));
}

#[test]
fn a_grant_without_its_reason_allocates_nothing() {
    each_size(|index, grant| {
        let question = grant.pod_form();
        let attributes = question.attributes();
        let mut found = 0;
        let cost = measure(|| found = index.allowing(&attributes).count());
        assert_eq!((found, cost.count_total), (1, 0));
    });
}

/// The list of its rules, and the resources of its only rule in one piece.
#[test]
fn a_role_that_comes_again_unchanged_is_read_in_two_allocations() {
    let mut index = index(10, Holders::One);
    let role = Grant::new(3, Holders::One).role();
    let mut applied = Ok(());
    let cost = measure(|| applied = index.apply(&role));
    assert_eq!((applied, cost.count_total), (Ok(()), 2));
}

#[test]
fn a_chain_of_authorizers_adds_nothing() {
    each_size(|index, grant| {
        let chain: [&dyn Authorizer; 2] = [&SystemMasters, index];
        let union = Union(&chain);
        assert_eq!(decide(&union, &grant.pod_form()), (true, 1));
        assert_eq!(decide(&union, &grant.standing_form()), (false, 0));
    });
}

/// Uses the longest names that Kubernetes accepts.
#[test]
fn the_reason_of_a_yes_is_one_piece_however_long_the_names_are() {
    use authz::{Attributes, Target, User};
    use k8s_openapi::api::rbac::v1::{
        ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject,
    };

    let long = "n".repeat(253);
    let mut index = RbacIndex::default();
    let mut role = ClusterRole::default();
    role.metadata.name = Some(long.clone());
    role.rules = Some(vec![PolicyRule {
        verbs: vec!["get".to_owned()],
        non_resource_urls: Some(vec!["/healthz".to_owned()]),
        ..PolicyRule::default()
    }]);
    let mut binding = ClusterRoleBinding {
        role_ref: RoleRef {
            kind: "ClusterRole".to_owned(),
            name: long.clone(),
            ..RoleRef::default()
        },
        ..ClusterRoleBinding::default()
    };
    binding.metadata.name = Some(long.clone());
    binding.subjects = Some(vec![Subject {
        kind: "User".to_owned(),
        name: long.clone(),
        ..Subject::default()
    }]);
    index.apply(&role).unwrap();
    index.apply(&binding).unwrap();
    let user = User {
        name: long,
        groups: Vec::new(),
    };
    let attributes = Attributes {
        user: &user,
        verb: "get",
        target: Target::Path("/healthz"),
    };
    let mut allowed = false;
    let cost = measure(|| allowed = index.authorize(&attributes).is_allowed());
    assert_eq!((allowed, cost.count_total), (true, 1));
}
