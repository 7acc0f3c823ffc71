//! The index agrees with RBAC without an index, after any changes in any order.

use std::collections::BTreeSet;

use authz::{
    Attributes, Authorizer, AuthorizerDecision, NonResourceRule, RbacIndex, ResourceRule,
    RuleResolver,
};
use k8s_openapi::Metadata;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::reference::{Answer, World};
use crate::worlds::{Change, Question, changes, questions};

const CASES: u32 = 400;

/// The limit for subjects in a question; the question without a limit is asked too.
const FEW: usize = 2;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_index_agrees_with_the_reference(
        changes in changes(),
        questions in vec(questions(), 16),
    ) {
        let (mut world, mut index) = (World::default(), RbacIndex::default());
        for change in changes {
            happen(&mut world, &mut index, change);
            // Compares between changes too, because traces of an earlier answer must not show later.
            compare(&world, &index, &questions[0])?;
        }
        for question in &questions {
            compare(&world, &index, question)?;
        }
        empty(&mut index);
        prop_assert!(index.is_empty(), "{index:?}");
    }
}

/// If all answers were refusals, the comparison would prove little.
#[test]
fn the_questions_are_answered_in_every_way() {
    let mut runner = TestRunner::deterministic();
    let (mut allowed, mut missing, mut refused) = (0, 0, 0);
    for _ in 0..CASES {
        let (mut world, mut index) = (World::default(), RbacIndex::default());
        let changes = changes().new_tree(&mut runner).unwrap().current();
        let question = questions().new_tree(&mut runner).unwrap().current();
        for change in changes {
            happen(&mut world, &mut index, change);
        }
        let answer = world.answer(&question.attributes());
        match (answer.allowing.is_empty(), answer.errors.is_empty()) {
            (false, _) => allowed += 1,
            (true, false) => missing += 1,
            (true, true) => refused += 1,
        }
    }
    let enough = CASES / 8;
    assert!(allowed > enough, "{allowed} allowed");
    assert!(missing > enough, "{missing} with missing roles");
    assert!(refused > enough, "{refused} refused");
}

pub(crate) fn compare(
    world: &World,
    index: &RbacIndex,
    question: &Question,
) -> Result<(), TestCaseError> {
    let question = question.attributes();
    let Attributes { user, verb, target } = question;
    let namespace = target.namespace();
    let expected = world.answer(&question);

    let verdict = index.authorize(&question);
    if expected.allowing.is_empty() {
        prop_assert_eq!(verdict.decision, AuthorizerDecision::NoOpinion);
        for error in &expected.errors {
            prop_assert!(verdict.reason.contains(error), "{}", verdict.reason);
        }
        prop_assert_eq!(verdict.reason.is_empty(), expected.errors.is_empty());
    } else {
        prop_assert_eq!(verdict.decision, AuthorizerDecision::Allow);
        let binding = verdict.reason.strip_prefix("RBAC: allowed by ").unwrap();
        prop_assert!(expected.allowing.contains(binding), "{}", binding);
        let wide = |text: &str| text.starts_with("Cluster");
        prop_assert_eq!(
            wide(binding),
            expected.allowing.iter().any(|text| wide(text))
        );
    }

    let allowing: Vec<String> = index
        .allowing(&question)
        .map(|grant| grant.to_string())
        .collect();
    let once = allowing.len();
    let who = index.who_can(verb, target, usize::MAX, |_| true);
    let few = index.who_can(verb, target, FEW, |_| true);
    prop_assert!(few.subjects.iter().eq(who.subjects.iter().take(FEW)));
    prop_assert_eq!(few.is_cut, who.subjects.len() > FEW);
    prop_assert!(!who.is_cut);
    let (rules, errors) = world.rules_for(user.as_user(), namespace);
    let listed = index.rules_for(user.as_user(), namespace);
    let actual = Answer {
        allowing: allowing.into_iter().collect(),
        errors: expected.errors.clone(),
        who: who.subjects.iter().map(ToString::to_string).collect(),
        who_errors: who.errors.iter().map(ToString::to_string).collect(),
    };
    prop_assert_eq!(actual.allowing.len(), once, "each binding once");
    prop_assert_eq!(actual, expected);
    prop_assert_eq!(sorted(listed.resource), sorted(resource_rules(&rules)));
    prop_assert_eq!(
        sorted(listed.non_resource),
        sorted(non_resource_rules(rules))
    );
    let told: BTreeSet<String> = listed.errors.iter().map(ToString::to_string).collect();
    prop_assert_eq!(told.len(), listed.errors.len(), "each error once");
    prop_assert_eq!(told, errors);
    Ok(())
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}

fn resource_rules(rules: &[PolicyRule]) -> Vec<ResourceRule> {
    let rules = rules.iter().cloned().map(|rule| ResourceRule {
        verbs: rule.verbs,
        api_groups: rule.api_groups.unwrap_or_default(),
        resources: rule.resources.unwrap_or_default(),
        resource_names: rule.resource_names.unwrap_or_default(),
    });
    rules.filter(|rule| !rule.resources.is_empty()).collect()
}

fn non_resource_rules(rules: Vec<PolicyRule>) -> Vec<NonResourceRule> {
    let rules = rules.into_iter().map(|rule| NonResourceRule {
        verbs: rule.verbs,
        urls: rule.non_resource_urls.unwrap_or_default(),
    });
    rules.filter(|rule| !rule.urls.is_empty()).collect()
}

fn name<K: Metadata<Ty = ObjectMeta>>(object: &K) -> String {
    object.metadata().name.clone().unwrap()
}

fn key<K: Metadata<Ty = ObjectMeta>>(object: &K) -> (String, String) {
    let namespace = object.metadata().namespace.clone();
    (namespace.unwrap(), name(object))
}

pub(crate) fn happen(world: &mut World, index: &mut RbacIndex, change: Change) {
    let errors = match change {
        Change::Role(one) => {
            world.roles.insert(key(&one), one.clone());
            index.apply(&one).err().into_iter().collect()
        }
        Change::ClusterRole(one) => {
            world.cluster_roles.insert(name(&one), one.clone());
            index.apply(&one).err().into_iter().collect()
        }
        Change::RoleBinding(one) => {
            world.role_bindings.insert(key(&one), one.clone());
            index.apply(&one).err().into_iter().collect()
        }
        Change::ClusterRoleBinding(one) => {
            world.cluster_role_bindings.insert(name(&one), one.clone());
            index.apply(&one).err().into_iter().collect()
        }
        Change::NoRole(one) => {
            world.roles.remove(&key(&one));
            index.delete(&one);
            vec![]
        }
        Change::NoClusterRole(one) => {
            world.cluster_roles.remove(&name(&one));
            index.delete(&one);
            vec![]
        }
        Change::NoRoleBinding(one) => {
            world.role_bindings.remove(&key(&one));
            index.delete(&one);
            vec![]
        }
        Change::NoClusterRoleBinding(one) => {
            world.cluster_role_bindings.remove(&name(&one));
            index.delete(&one);
            vec![]
        }
        Change::Roles(all) => {
            world.roles = all.iter().cloned().map(|one| (key(&one), one)).collect();
            index.reset(&all)
        }
        Change::ClusterRoles(all) => {
            world.cluster_roles = all.iter().cloned().map(|one| (name(&one), one)).collect();
            index.reset(&all)
        }
        Change::RoleBindings(all) => {
            world.role_bindings = all.iter().cloned().map(|one| (key(&one), one)).collect();
            index.reset(&all)
        }
        Change::ClusterRoleBindings(all) => {
            let all_named = all.iter().cloned().map(|one| (name(&one), one));
            world.cluster_role_bindings = all_named.collect();
            index.reset(&all)
        }
    };
    assert_eq!(errors, []);
}

fn empty(index: &mut RbacIndex) {
    let changes = [
        Change::RoleBindings(vec![]),
        Change::ClusterRoles(vec![]),
        Change::ClusterRoleBindings(vec![]),
        Change::Roles(vec![]),
    ];
    for change in changes {
        happen(&mut World::default(), index, change);
    }
}
