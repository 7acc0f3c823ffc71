//! Roles that are written while the checks are awaited: when, for which policies, and when they go.

use std::sync::Arc;

use connectors_api::{
    access_request::Phase,
    check_selector::CompiledPolicy,
    reason::AccessCheckReady::{
        AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
        AccessCheckRejected as Rejected,
    },
};
use serde_json::json;

use super::scene::{RESOURCE, Scene, answer, policy_object, rules};
use crate::{
    grant::{self, keep},
    plan::{Action, Plan, prepared::MOST},
    seen::{GrantKind, Managed, PodSeen, PolicyJudgement, StandingSeen},
};

/// The names of the Roles that a plan writes in advance.
fn prepares(plan: &Plan) -> Vec<String> {
    let prepared = plan.actions.iter().filter_map(|it| match it {
        Action::Prepare(role) => role.metadata.name.clone(),
        Action::Remove { .. } | Action::Grant(_) | Action::Finish | Action::DeleteRequest => None,
    });
    prepared.collect()
}

fn role_name(policy: &str) -> String {
    grant::name("request-uid", &format!("{policy}-uid"))
}

/// A request that waits for the approval of policy `p`, whose Role is there.
fn waiting() -> Scene {
    Scene::new().policy("p", Pending).cached().carried_out()
}

/// The same, with another answer to the checks.
fn then(verdict: connectors_api::reason::AccessCheckReady) -> Scene {
    let now = Scene::new().policy("p", verdict).seen.policies;
    let freshness = Scene::new().seen.freshness;
    waiting().with(|seen| {
        seen.policies = now;
        seen.freshness = freshness;
    })
}

#[test]
fn the_first_look_at_a_waiting_request_writes_the_role_and_no_binding() {
    let scene = Scene::new().policy("p", Pending).cached();
    let plan = scene.plan();
    assert_eq!(prepares(&plan), [role_name("p")]);
    assert_eq!(plan.actions.len(), 1);
    let entry = &plan.status.unwrap().policies[0];
    assert_eq!((&entry.prepared_rules, &entry.grant), (&rules(), &None));
    let next = waiting();
    assert_eq!(
        next.seen
            .grants
            .iter()
            .map(Managed::kind)
            .collect::<Vec<_>>(),
        [GrantKind::Role]
    );
    assert!(next.plan().is_idle());
}

#[test]
fn a_role_is_written_in_advance_only_while_an_approval_may_lead_to_a_grant() {
    let pending = || Scene::new().policy("p", Pending).cached();
    let unanswered = Scene::new().limited("p", &json!({}), PolicyJudgement::Unanswered);
    for (what, scene) in [
        ("no policy", Scene::new()),
        ("no answer", unanswered),
        (
            "a check that cannot be judged",
            Scene::new().policy("p", Failed),
        ),
        ("a check that says no", Scene::new().policy("p", Rejected)),
        ("a check that passes", Scene::new().policy("p", Passed)),
        (
            "switched off",
            pending().with(|seen| seen.config.enabled = false),
        ),
        (
            "a pod that ends",
            pending().pod(|pod| pod.terminating = true),
        ),
        (
            "too many requests",
            pending().with(|seen| seen.over_limit = true),
        ),
        ("no connector", pending().with(|seen| seen.connector = None)),
        (
            "a grant at the same time",
            Scene::new().policy("p", Passed).policy("q", Pending),
        ),
        ("a granted request", Scene::granted().policy("q", Pending)),
    ] {
        let plan = scene.plan();
        assert_eq!(prepares(&plan), Vec::<String>::new(), "{what}");
        let mut entries = plan.status.iter().flat_map(|it| &it.policies);
        assert!(entries.all(|it| it.prepared_rules.is_empty()), "{what}");
    }
    // The caches cannot decide that it is another one.
    let other = pending().pod(|pod| pod.account = "other".to_owned());
    assert!(other.plan().look_live);
}

#[test]
fn a_prepared_role_stays_as_long_as_its_policy_waits() {
    let unanswered = Scene::new().limited("p", &json!({}), PolicyJudgement::Unanswered);
    let silent = unanswered.seen.policies;
    for (what, scene) in [
        ("pending", then(Pending)),
        ("not judged", then(Failed)),
        (
            "no answer",
            then(Pending).with(|seen| seen.policies = silent),
        ),
        (
            "switched off",
            then(Passed).with(|seen| seen.config.enabled = false),
        ),
        (
            "a pod that ends",
            then(Passed).pod(|pod| pod.terminating = true),
        ),
    ] {
        let next = scene.carried_out();
        assert_eq!(next.seen.grants.len(), 1, "{what}");
        assert!(next.plan().is_idle(), "{what}");
    }
}

#[test]
fn a_prepared_role_goes_with_what_it_was_written_for() {
    let covered = then(Pending).standing(StandingSeen::There);
    for (what, scene) in [
        ("no", then(Rejected)),
        (
            "the pod is gone",
            then(Pending).with(|seen| seen.pod = PodSeen::Gone),
        ),
        (
            "the pod ended",
            then(Pending).pod(|pod| pod.finished = true),
        ),
        (
            "the policy is gone",
            then(Pending).with(|seen| seen.policies.clear()),
        ),
        (
            "the connector is gone",
            then(Pending).with(|seen| seen.connector = None),
        ),
        (
            "too many requests",
            then(Pending).with(|seen| seen.over_limit = true),
        ),
        ("a standing permission", covered),
    ] {
        let plan = scene.clone().cached().plan();
        assert!(plan.look_live || !plan.ends, "{what}");
        let next = scene.carried_out();
        assert!(next.seen.grants.is_empty(), "{what}");
        assert!(next.plan().is_idle(), "{what}");
    }
}

#[test]
fn a_grant_takes_the_role_that_was_prepared() {
    let scene = then(Passed);
    let plan = scene.plan();
    let [Action::Grant(granted)] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    assert!(grant::is_there(
        GrantKind::Role,
        granted,
        &scene.seen.grants
    ));
    assert!(!grant::is_there(
        GrantKind::RoleBinding,
        granted,
        &scene.seen.grants
    ));
    let next = scene.carried_out();
    assert_eq!(next.status().phase, Some(Phase::Granted));
    assert!(next.status().policies[0].prepared_rules.is_empty());
}

/// The answer about the live policy decides, whatever was prepared.
#[test]
fn a_prepared_role_with_other_rules_than_the_grant_is_removed_first() {
    let mut passed = answer(Passed);
    passed.rules[0].verbs = vec!["get".to_owned()];
    let scene = then(Passed).with(|seen| {
        seen.policies[0].judged = PolicyJudgement::Answered(passed);
    });
    let plan = scene.plan();
    let [Action::Remove { kind, name, .. }, Action::Grant(granted)] = plan.actions.as_slice()
    else {
        panic!("{plan:?}");
    };
    assert_eq!((*kind, name), (GrantKind::Role, &role_name("p")));
    assert!(!grant::is_there(
        GrantKind::Role,
        granted,
        &scene.seen.grants
    ));
}

#[test]
fn a_policy_with_other_rules_prepares_another_role() {
    let mut policy = policy_object("p", &json!({}));
    let granted = policy.spec.check_granted_permission.as_mut().unwrap();
    granted.spec.permissions.role_template.rules[0].verbs = vec!["get".to_owned()];
    let policy = Arc::new(CompiledPolicy::of(policy, None));
    let scene = then(Pending).with(|seen| seen.policies[0].policy = policy);
    let plan = scene.plan();
    let removes = matches!(plan.actions.first(), Some(Action::Remove { .. }));
    assert!(removes && prepares(&plan) == [role_name("p")], "{plan:?}");
    let next = scene.carried_out();
    let request = Some(&next.seen.request);
    assert!(keep(&next.seen.grants[0], request, next.now.wall));
    assert!(next.plan().is_idle());
}

#[test]
fn what_is_prepared_for_a_request_is_bounded() {
    let names: Vec<_> = (0..MOST + 3).map(|it| format!("p{it}")).collect();
    let many = names
        .iter()
        .fold(Scene::new(), |scene, name| scene.policy(name, Pending));
    assert_eq!(prepares(&many.plan()).len(), MOST);
    let next = many.carried_out();
    assert_eq!(next.seen.grants.len(), MOST);
    assert!(next.plan().is_idle());

    let mut policy = policy_object("p", &json!({}));
    let granted = policy.spec.check_granted_permission.as_mut().unwrap();
    let rule = &mut granted.spec.permissions.role_template.rules[0];
    rule.verbs = vec!["v".repeat(64); 16];
    let policy = Arc::new(CompiledPolicy::of(policy, None));
    let large = Scene::new()
        .policy("p", Pending)
        .with(|seen| seen.policies[0].policy = policy);
    assert_eq!(prepares(&large.plan()), Vec::<String>::new());
}

/// Of an entry without a result, the Role alone is described.
#[test]
fn a_binding_of_a_prepared_role_is_a_stray() {
    let scene = then(Pending);
    let mut granted = Scene::granted().seen.grants;
    let request = Some(&scene.seen.request);
    granted.sort_by_key(Managed::kind);
    let kept: Vec<_> = granted
        .iter()
        .map(|it| keep(it, request, scene.now.wall))
        .collect();
    assert_eq!(kept, [false, true]);
    let bound = scene.with(|seen| seen.grants = granted);
    assert!(bound.clone().cached().plan().look_live);
    assert!(matches!(
        bound.plan().actions.as_slice(),
        [Action::Remove {
            kind: GrantKind::RoleBinding,
            ..
        }]
    ));
}

#[test]
fn rules_of_another_pod_in_a_status_describe_no_role() {
    let scene = waiting();
    let wide = RESOURCE.replace("run-deploy-pod", "other");
    let forged = scene.with(|seen| {
        let status = seen.request.status.as_mut().unwrap();
        status.policies[0].prepared_rules[0].resources = vec![wide];
    });
    let entry = &forged.status().policies[0];
    assert_eq!(grant::prepared(&forged.seen.request, entry), None);
}

/// Labels that come and go would cost live looks otherwise.
#[test]
fn a_prepared_role_of_a_policy_that_applies_no_more_goes_without_a_live_look() {
    let unmatched = then(Pending).with(|seen| seen.policies.clear()).cached();
    let plan = unmatched.plan();
    let removes = matches!(
        plan.actions.as_slice(),
        [Action::Remove {
            kind: GrantKind::Role,
            uid: Some(_),
            ..
        }]
    );
    assert!(removes && plan.status.is_some() && !plan.ends, "{plan:?}");
    assert!(unmatched.carried_out().seen.grants.is_empty());
    // The status pins the version; without one to write, the caches may be behind a grant.
    let told = unmatched.clone().with(|seen| {
        seen.request.status = plan.status.clone();
    });
    assert!(told.plan().look_live);
    // A RoleBinding may give something.
    let bound = unmatched.with(|seen| seen.grants = Scene::granted().seen.grants);
    assert!(bound.plan().look_live);
}

#[test]
fn a_final_status_describes_no_prepared_role() {
    let of = |scene: Scene| -> usize {
        let status = scene.planned();
        let entries = status.policies.iter();
        entries.map(|it| it.prepared_rules.len()).sum()
    };
    for ended in [
        then(Rejected),
        then(Pending).with(|seen| seen.pod = PodSeen::Gone),
        then(Pending).standing(StandingSeen::There),
    ] {
        assert_eq!(of(ended), 0);
    }
    // A revocation names what has to be gone, until it is recorded as done.
    let beside = then(Passed).with(|seen| {
        let other = Scene::new().policy("q", Pending);
        seen.policies.extend(other.seen.policies);
    });
    let both = Scene::new()
        .policy("p", Pending)
        .policy("q", Pending)
        .carried_out();
    let granted = both
        .with(|seen| seen.policies = beside.seen.policies.clone())
        .carried_out();
    assert_eq!(granted.status().phase, Some(Phase::Granted));
    let over = granted.pod(|pod| pod.finished = true);
    assert_eq!(over.planned().phase, Some(Phase::Revoked));
    assert_eq!(of(over.clone()), 1);
    let done = over.carried_out();
    assert!(done.status().revoked_at.is_some());
    assert_eq!(of(done), 0);
}
