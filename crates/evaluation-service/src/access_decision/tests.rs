use authz::{Authorizer, AuthorizerDecision, ChainLink, Verdict};
use connectors_api::AccessRequest;
use connectors_api::access_request::{
    AccessRequestStatus, GrantState, MatchedPolicy, Phase, PolicyGrant,
};
use connectors_api::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID, MANAGED_BY};
use connectors_api::reason::Ready;
use evaluation_api::access::Gating;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::fixtures::{POD_FORM, question, request, role, role_binding};

fn binding_seen() -> BindingRef {
    BindingRef {
        kind: "RoleBinding".to_owned(),
        namespace: "tools".to_owned(),
        name: "b".to_owned(),
        uid: "uid-b".to_owned(),
    }
}

/// What is there when request `a` is granted.
#[derive(Clone)]
struct Objects {
    requests: Vec<AccessRequest>,
    role: Role,
    binding: RoleBinding,
}

impl Objects {
    fn granted() -> Self {
        Self {
            requests: vec![request("a", "Granted")],
            role: role("b", POD_FORM),
            binding: role_binding("b"),
        }
    }

    fn world(self) -> World {
        let mut world = World::default();
        world.chain.rbac.apply(&self.role).unwrap();
        world.chain.rbac.apply(&self.binding).unwrap();
        for request in self.requests {
            world.requests.apply(request);
        }
        world
    }

    fn status(&mut self) -> &mut AccessRequestStatus {
        self.requests[0].status.as_mut().unwrap()
    }

    fn entry(&mut self) -> &mut MatchedPolicy {
        &mut self.status().policies[0]
    }

    fn grant(&mut self) -> &mut PolicyGrant {
        self.entry().grant.as_mut().unwrap()
    }

    fn label(&mut self, key: &str, value: Option<&str>) {
        let labels = self.binding.metadata.labels.as_mut().unwrap();
        match value {
            Some(value) => labels.insert(key.to_owned(), value.to_owned()),
            None => labels.remove(key),
        };
    }
}

fn decision(world: &World) -> Decision {
    answer(world, &question(), now().0).decision
}

fn now() -> Time {
    Time("2026-01-01T00:00:00Z".parse().unwrap())
}

/// What was kept of a policy.
fn policy(uid: &Value) -> Map<String, Value> {
    Map::from_iter([("metadata".to_owned(), json!({"uid": uid}))])
}

/// So many seconds from now.
fn at(seconds: i64) -> Timestamp {
    now().0 + jiff::SignedDuration::from_secs(seconds)
}

#[test]
fn nothing_known_is_a_no() {
    let said = answer(&World::default(), &question(), now().0);
    let expected = AccessAnswer {
        decision: Decision::Denied,
        reason: "no permission for \"*\" on connectors/apis of tools/harbor to ServiceAccount devops/builder".to_owned(),
        request: None,
        fresh_as_of: None,
        gating: Gating::Unknown,
        requestable: Requestable::Unknown,
    };
    assert_eq!(said, expected);
}

#[test]
fn the_binding_of_the_granted_request_lets_its_pod_in() {
    let said = answer(&Objects::granted().world(), &question(), now().0);
    assert_eq!(said.decision, Decision::AllowedPod(binding_seen()));
    assert_eq!(
        said.reason,
        "RBAC: allowed by RoleBinding \"b/tools\" of Role \"b\" to ServiceAccount \"builder/devops\""
    );
    let seen = RequestSeen {
        name: "a".to_owned(),
        uid: "uid-a".to_owned(),
        resource_version: "7".to_owned(),
        phase: Some(Phase::Granted),
        check_reason: None,
        permission_reason: None,
        ready_reason: Some(Ready::ChecksPending),
        message: "waits".to_owned(),
    };
    assert_eq!(said.request, Some(seen));
}

#[test]
fn everything_about_the_grant_must_be_right() {
    type Change = fn(&mut Objects);
    let changes: [(&str, Change); 33] = [
        ("over", |it| it.status().expires_at = Some(at(0))),
        ("long over", |it| it.status().expires_at = Some(at(-9))),
        ("no policy", |it| it.status().policies.clear()),
        ("another policy", |it| {
            it.entry().policy.0 = policy(&json!("other"));
        }),
        ("policy without uid", |it| it.entry().policy.0.clear()),
        ("uid that is no text", |it| {
            it.entry().policy.0 = policy(&json!(1));
        }),
        ("two entries", |it| {
            let again = it.entry().clone();
            it.status().policies.push(again);
        }),
        ("no grant", |it| it.entry().grant = None),
        ("granting", |it| it.grant().state = GrantState::Granting),
        ("ended", |it| it.grant().state = GrantState::Ended),
        ("grant over", |it| it.grant().expires_at = Some(at(0))),
        ("no policy uid", |it| it.label(ACCESS_POLICY_UID, None)),
        ("no request", |it| it.requests.clear()),
        ("pending", |it| it.requests = vec![request("a", "Pending")]),
        ("rejected", |it| {
            it.requests = vec![request("a", "Rejected")];
        }),
        ("revoked", |it| it.requests = vec![request("a", "Revoked")]),
        ("invalid", |it| it.requests = vec![request("a", "Invalid")]),
        ("ended", |it| it.requests = vec![request("a", "Ended")]),
        ("no status", |it| it.requests[0].status = None),
        ("deleting", |it| {
            it.requests[0].metadata.deletion_timestamp = Some(now());
        }),
        ("another request", |it| {
            it.requests = vec![request("other", "Granted")];
        }),
        ("another namespace", |it| {
            it.requests[0].metadata.namespace = Some("devops".to_owned());
        }),
        ("no uid", |it| it.requests[0].metadata.uid = None),
        ("another pod uid", |it| {
            it.requests[0].spec.context.object_ref.uid = Some("earlier".to_owned());
        }),
        ("no pod uid", |it| {
            it.requests[0].spec.context.object_ref.uid = None;
        }),
        ("another pod name", |it| {
            it.requests[0].spec.context.object_ref.name = "other".to_owned();
        }),
        ("another pod namespace", |it| {
            it.requests[0].spec.context.object_ref.namespace = "other".to_owned();
        }),
        ("another subject", |it| {
            it.requests[0].spec.subject.name = "other".to_owned();
        }),
        ("another connector", |it| {
            it.requests[0].spec.connector_ref.name = "other".to_owned();
        }),
        ("another permission", |it| {
            it.requests[0].spec.permission = connectors_api::Permission::Proxy;
        }),
        ("not managed", |it| it.label(MANAGED_BY, Some("somebody"))),
        ("no request uid", |it| it.label(ACCESS_REQUEST_UID, None)),
        ("binding deleting", |it| {
            it.binding.metadata.deletion_timestamp = Some(now());
        }),
    ];
    for (what, change) in changes {
        let mut objects = Objects::granted();
        change(&mut objects);
        assert_eq!(decision(&objects.world()), Decision::Denied, "{what}");
    }
    let mut objects = Objects::granted();
    objects.label(ACCESS_POLICY_UID, Some(""));
    objects.entry().policy.0 = policy(&json!(""));
    assert_eq!(decision(&objects.world()), Decision::Denied);
    let mut objects = Objects::granted();
    objects.label(ACCESS_REQUEST_UID, Some(""));
    objects.requests[0].metadata.uid = Some(String::new());
    assert_eq!(decision(&objects.world()), Decision::Denied);
}

#[test]
fn a_grant_holds_until_its_end_whatever_became_of_other_policies() {
    let mut objects = Objects::granted();
    objects.status().expires_at = Some(at(5));
    objects.grant().expires_at = Some(at(3));
    let mut other = objects.entry().clone();
    other.policy.0 = policy(&json!("other"));
    other.grant.as_mut().unwrap().state = GrantState::Ended;
    objects.status().policies.insert(0, other);
    let world = objects.world();
    for (second, allowed) in [(0, true), (2, true), (3, false), (5, false)] {
        let said = answer(&world, &question(), at(second));
        assert_eq!(said.is_allowed(), allowed, "{second}");
    }
}

#[test]
fn a_request_that_does_not_decide_lets_nobody_in() {
    let mut objects = Objects::granted();
    let mut older = request("older", "Rejected");
    older.metadata.creation_timestamp = Some(Time("2025-01-01T00:00:00Z".parse().unwrap()));
    objects.requests.push(older);
    let said = answer(&objects.world(), &question(), now().0);
    assert_eq!(said.decision, Decision::Denied);
    assert_eq!(said.request.unwrap().phase, Some(Phase::Rejected));
}

#[test]
fn a_question_must_come_from_that_very_pod() {
    type Change = fn(&mut AccessQuestion);
    let changes: [(&str, Change); 9] = [
        ("no pod", |it| it.pod = None),
        ("no uid", |it| it.pod.as_mut().unwrap().uid.clear()),
        ("another uid", |it| {
            it.pod.as_mut().unwrap().uid = "later".to_owned();
        }),
        ("another name", |it| {
            it.pod.as_mut().unwrap().name = "other".to_owned();
        }),
        ("another subject", |it| it.subject.name = "other".to_owned()),
        ("another namespace", |it| {
            it.subject.namespace = "other".to_owned();
        }),
        ("another connector", |it| {
            it.connector.name = "other".to_owned();
        }),
        ("another connector namespace", |it| {
            it.connector.namespace = "other".to_owned();
        }),
        ("another permission", |it| {
            it.permission = connectors_api::Permission::Proxy;
        }),
    ];
    let world = Objects::granted().world();
    for (what, change) in changes {
        let mut asked = question();
        change(&mut asked);
        assert_eq!(
            answer(&world, &asked, now().0).decision,
            Decision::Denied,
            "{what}"
        );
    }
}

#[test]
fn all_bindings_of_the_pod_form_are_looked_at() {
    let objects = Objects::granted();
    let mut world = objects.clone().world();
    // Others of the same role that do not count, on both sides in the order of names.
    for name in ["a0", "z9"] {
        let mut other = objects.clone();
        other.binding.metadata.name = Some(name.to_owned());
        other.label(ACCESS_REQUEST_UID, Some("elsewhere"));
        world.chain.rbac.apply(&other.binding).unwrap();
    }
    assert_eq!(decision(&world), Decision::AllowedPod(binding_seen()));
}

fn standing(resource: &str) -> World {
    let mut world = World::default();
    world.chain.rbac.apply(&role("b", resource)).unwrap();
    let mut binding = role_binding("b");
    binding.metadata.labels = None;
    world.chain.rbac.apply(&binding).unwrap();
    world
}

#[test]
fn a_standing_permission_needs_no_request_and_no_pod() {
    let world = standing("connectors/apis");
    let mut asked = question();
    for _ in 0..2 {
        let said = answer(&world, &asked, now().0).decision;
        assert_eq!(said, Decision::AllowedStanding(binding_seen()));
        asked.pod = None;
    }
}

#[test]
fn a_pod_form_that_nobody_manages_lets_nobody_in() {
    let mut world = standing(POD_FORM);
    world.requests.apply(request("a", "Granted"));
    let said = answer(&world, &question(), now().0);
    assert_eq!(said.decision, Decision::Denied);
    assert!(
        said.reason.starts_with("no AccessRequest of this very pod"),
        "{}",
        said.reason
    );
}

#[test]
fn a_standing_binding_of_ours_that_is_being_deleted_is_gone_and_one_of_others_is_not() {
    for (ours, expected) in [
        (true, Decision::Denied),
        (false, Decision::AllowedStanding(binding_seen())),
    ] {
        let mut objects = Objects::granted();
        objects.role = role("b", "connectors/apis");
        objects.binding.metadata.deletion_timestamp = Some(now());
        if !ours {
            objects.label(MANAGED_BY, None);
        }
        assert_eq!(decision(&objects.world()), expected);
    }
}

#[test]
fn groups_and_cluster_roles_count_for_the_standing_form() {
    let mut world = World::default();
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "admin"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "admins", "uid": "u"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "Group", "name": "system:serviceaccounts:devops"}],
    }))
    .unwrap();
    world.chain.rbac.apply(&role).unwrap();
    assert_eq!(decision(&world), Decision::Denied);
    world.chain.rbac.apply(&binding).unwrap();
    let Decision::AllowedStanding(binding) = decision(&world) else {
        panic!("denied");
    };
    assert_eq!(
        (&*binding.kind, &*binding.namespace),
        ("ClusterRoleBinding", "")
    );
    let mut asked = question();
    asked.subject.namespace = "other".to_owned();
    assert_eq!(answer(&world, &asked, now().0).decision, Decision::Denied);
}

#[test]
fn a_cluster_wide_binding_is_nobodys_grant_whatever_its_labels_say() {
    let mut world = World::default();
    world.requests.apply(request("a", "Granted"));
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "b"},
        "rules": [{"apiGroups": ["*"], "resources": [POD_FORM], "verbs": ["*"]}],
    }))
    .unwrap();
    let binding = role_binding("b");
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "b", "uid": "u", "labels": binding.metadata.labels},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "b"},
        "subjects": binding.subjects,
    }))
    .unwrap();
    world.chain.rbac.apply(&role).unwrap();
    world.chain.rbac.apply(&binding).unwrap();
    assert_eq!(decision(&world), Decision::Denied);
}

#[test]
fn a_role_for_some_verbs_is_none_for_all() {
    let mut objects = Objects::granted();
    let rules = objects.role.rules.as_mut().unwrap();
    rules[0].verbs = vec!["get".to_owned()];
    let world = objects.world();
    assert_eq!(decision(&world), Decision::Denied);
    let mut asked = question();
    asked.verb = "get".to_owned();
    assert_eq!(
        answer(&world, &asked, now().0).decision,
        Decision::AllowedPod(binding_seen())
    );
}

#[derive(Debug)]
struct Fixed(AuthorizerDecision);

impl Authorizer for Fixed {
    fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
        // The target and the user are those of the standing form, whatever pod asks.
        assert_eq!(
            attributes.target,
            target(question().connector.borrowed(), "apis")
        );
        assert_eq!(
            attributes.user.as_user(),
            &user(question().subject.borrowed())
        );
        Verdict {
            decision: self.0,
            reason: "so it is".to_owned(),
        }
    }
}

/// With a further authorizer at this place of the chain.
fn joined(mut world: World, place: usize, decision: AuthorizerDecision) -> World {
    let link = ChainLink::Other("fixed", Box::new(Fixed(decision)));
    world.chain.links.insert(place, link);
    world
}

#[test]
fn each_authorizer_has_its_place_and_the_first_yes_or_no_counts() {
    type Make = fn() -> World;
    let worlds: [(Make, Decision); 3] = [
        (World::default, Decision::Denied),
        (
            || standing("connectors/apis"),
            Decision::AllowedStanding(binding_seen()),
        ),
        (
            || Objects::granted().world(),
            Decision::AllowedPod(binding_seen()),
        ),
    ];
    let authorizer = Decision::AllowedStanding(BindingRef {
        kind: "Authorizer".to_owned(),
        namespace: String::new(),
        name: "fixed".to_owned(),
        uid: String::new(),
    });
    for (world, by_rbac) in worlds {
        for place in 0..=world().chain.links.len() {
            let said = |decision| answer(&joined(world(), place, decision), &question(), now().0);
            assert_eq!(said(AuthorizerDecision::NoOpinion).decision, by_rbac);
            // RBAC is the second of the chain.
            let is_asked = place < 2 || by_rbac == Decision::Denied;
            let (allowed, denied) = (
                said(AuthorizerDecision::Allow),
                said(AuthorizerDecision::Deny),
            );
            if is_asked {
                assert_eq!(allowed.decision, authorizer);
                assert_eq!(allowed.reason, "fixed: so it is");
                assert_eq!(denied.decision, Decision::Denied);
                let why = "denied by fixed (so it is) for \"*\" on connectors/apis of tools/harbor";
                assert!(denied.reason.starts_with(why), "{}", denied.reason);
            } else {
                assert_eq!(
                    (allowed.decision, denied.decision),
                    (by_rbac.clone(), by_rbac.clone())
                );
            }
        }
    }
}

#[test]
fn without_a_place_in_the_chain_rbac_allows_nothing() {
    for mut world in [standing("connectors/apis"), Objects::granted().world()] {
        world.chain.links.clear();
        assert_eq!(decision(&world), Decision::Denied);
    }
}

#[test]
fn other_authorizers_are_told_the_pod_only_with_its_uid() {
    let told = |asked: &AccessQuestion| {
        let asked = asked.borrowed();
        let user = user(asked.subject);
        PreparedQuestion::new(asked, &user).info()
    };
    let info = json!({
        "username": "system:serviceaccount:devops:builder",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:devops", "system:authenticated"],
        "extra": {POD_NAME: ["deploy"], POD_UID: ["pod-uid"]},
    });
    assert_eq!(json!(told(&question())), info);
    let mut asked = question();
    asked.pod.as_mut().unwrap().uid.clear();
    assert_eq!(told(&asked).extra, None);
    asked.pod = None;
    assert_eq!(told(&asked).extra, None);
}

proptest! {
    /// However the world is put together: a yes for a pod names a binding and a granted request of it.
    #[test]
    fn a_yes_for_a_pod_rests_on_its_granted_request(
        phases in proptest::collection::vec(
            (0..3_usize, prop::sample::select(&["Granted", "Pending", "Rejected", "Revoked", "Invalid", "Ended"][..]), any::<bool>()),
            0..4,
        ),
        labelled in prop::sample::select(&["uid-0", "uid-1", "uid-2", "", "other"][..]),
        uid in prop::sample::select(&["pod-uid", "", "later"][..]),
    ) {
        let mut objects = Objects::granted();
        objects.label(ACCESS_REQUEST_UID, Some(labelled));
        objects.requests = phases.into_iter().map(|(name, phase, going)| {
            let mut request = request(&name.to_string(), phase);
            request.metadata.deletion_timestamp = going.then(now);
            request
        }).collect();
        let world = objects.world();
        let mut asked = question();
        asked.pod.as_mut().unwrap().uid = uid.to_owned();
        let said = answer(&world, &asked, now().0);
        if said.is_allowed() {
            let seen = said.request.unwrap();
            prop_assert_eq!(seen.phase, Some(Phase::Granted));
            prop_assert_eq!(seen.uid, labelled);
            prop_assert_eq!(uid, "pod-uid");
        }
    }
}
