mod gates;
mod shared_texts;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::{Value, json};
use service_kit::{name::NameParts, watches::Parse as _};

use super::*;
use crate::check_object::{AsText, CheckObject};

fn name() -> Name {
    Name::new("tools", "r")
}

fn request(name: &str, uid: &str, status: &Value) -> Arc<AccessRequest> {
    let request = json!({
        "metadata": {"name": name, "namespace": "tools", "uid": uid, "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "u"}},
        },
        "status": status,
    });
    Arc::new(serde_json::from_value(request).unwrap())
}

fn granted() -> Value {
    json!({"phase": "Granted", "policies": [{"policy": {}, "grant": {"state": "Granted"}}]})
}

fn with(status: &Value) -> State {
    let mut state = State::default();
    let _ = state.request(&name(), Ok(request("r", "r-uid", status)));
    state
}

fn pod(uid: &str, version: &str, finished: bool) -> PodCached {
    PodCached {
        uid: uid.into(),
        version: version.into(),
        facts: Some(PodFacts {
            finished,
            terminating: false,
            account: "builder".to_owned(),
        }),
        gated_since: None,
    }
}

fn job(lane: Urgency) -> Wakes {
    vec![(Job::Request(name()), lane)]
}

#[test]
fn what_may_have_to_be_taken_back_is_urgent() {
    let revoking = json!({"phase": "Revoked"});
    let revoked = json!({"phase": "Revoked", "revokedAt": "2026-03-01T10:00:00Z"});
    for (status, lane) in [
        (Value::Null, Urgency::Normal),
        (json!({"phase": "Pending"}), Urgency::Normal),
        (granted(), Urgency::Urgent),
        (revoking, Urgency::Urgent),
        (revoked, Urgency::Normal),
    ] {
        let mut state = with(&status);
        let pod_name = Name::new("apps", "p");
        assert_eq!(state.pod(&pod_name, Some(pod("u", "1", false))), job(lane));
        assert_eq!(state.pod(&pod_name, Some(pod("u", "1", false))), []);
        assert_eq!(state.pod(&pod_name, None), job(lane));
        let connector = Name::new("tools", "harbor");
        let seen = ConnectorCached {
            seen: ConnectorSeen {
                uid: "c".to_owned(),
            },
            labels: Labels::new(),
        };
        assert_eq!(state.connector(&connector, Some(seen.clone())), job(lane));
        assert_eq!(state.connector(&connector, Some(seen)), []);
        assert_eq!(state.connector(&connector, None), job(lane));
        assert_eq!(state.connector(&Name::new("tools", "other"), None), []);
    }
}

#[test]
fn a_granted_request_does_not_care_for_other_changes_of_its_pod() {
    let mut state = with(&granted());
    let pod_name = Name::new("apps", "p");
    let _ = state.pod(&pod_name, Some(pod("u", "1", false)));
    assert_eq!(state.pod(&pod_name, Some(pod("u", "2", false))), []);
    assert_eq!(
        state.pod(&pod_name, Some(pod("u", "3", true))),
        job(Urgency::Urgent)
    );
    assert_eq!(
        state.pod(&pod_name, Some(pod("v", "4", true))),
        job(Urgency::Urgent)
    );
    let mut waiting = with(&Value::Null);
    let _ = waiting.pod(&pod_name, Some(pod("u", "1", false)));
    assert_eq!(
        waiting.pod(&pod_name, Some(pod("u", "2", false))),
        job(Urgency::Normal)
    );
}

#[test]
fn the_end_of_a_policy_reaches_what_it_granted_and_an_edit_does_not() {
    let policy = |uid: &str, deleting| {
        Some(PolicyCached {
            uid: uid.to_owned(),
            deleting,
            policy: Err(Unreadable {
                metadata: ObjectMeta::default(),
                problem: String::new(),
            }),
        })
    };
    let name = Name::new("tools", "p");
    for (change, reaches) in [
        (policy("a", false), false),
        (policy("a", true), true),
        (policy("b", false), true),
        (None, true),
    ] {
        let mut state = with(&granted());
        let _ = state.policy(&name, policy("a", false));
        let expected = if reaches {
            job(Urgency::Urgent)
        } else {
            vec![]
        };
        assert_eq!(state.policy(&name, change.clone()), expected, "{change:?}");
    }
    let mut waiting = with(&Value::Null);
    assert_eq!(
        waiting.policy(&name, policy("a", false)),
        job(Urgency::Normal)
    );
    assert_eq!(
        waiting.policy(&name, policy("a", false)),
        job(Urgency::Normal)
    );
    assert_eq!(waiting.policy(&Name::new("elsewhere", "p"), None), []);
}

/// A Role with the label of the request, which is not read any further.
fn unread_role() -> Managed {
    let label = connectors_api::labels::ACCESS_REQUEST_UID.to_owned();
    Managed {
        object: crate::seen::ManagedObject::Role(Err(crate::seen::Unread)),
        metadata: ObjectMeta {
            labels: Some(BTreeMap::from([(label, "r-uid".to_owned())])),
            ..ObjectMeta::default()
        },
    }
}

fn unread_binding() -> Managed {
    Managed {
        object: crate::seen::ManagedObject::RoleBinding(Err(crate::seen::Unread)),
        ..unread_role()
    }
}

#[test]
fn what_a_deleted_request_held_is_looked_at() {
    let mut state = with(&granted());
    let binding = unread_binding();
    let grant = Name::new("tools", "car-1");
    let urgent = (Job::Grant(grant.clone()), Urgency::Urgent);
    assert_eq!(
        state.grant(GrantKind::RoleBinding, &grant, Some(&binding), None),
        std::slice::from_ref(&urgent)
    );
    let (gone, wakes) = state.request_gone(&name());
    assert!(gone.is_some());
    assert_eq!(wakes, [urgent]);
    assert!(state.requests.all().is_empty());
    assert!(
        state
            .requests
            .of_pod(&Name::new("apps", "p"))
            .next()
            .is_none()
    );
}

#[test]
fn a_managed_object_is_looked_at_unless_its_request_describes_it() {
    let rules = json!([{"resources": ["connectors/apis/v1/pod/apps/p"], "verbs": ["*"]}]);
    let policy = json!({"metadata": {"name": "p", "uid": "p-uid"}});
    let status = |phase: &str, state: &str, rules: &Value| {
        let grant = json!({"state": state, "rules": rules, "expiresAt": "2026-03-01T10:00:01Z"});
        json!({"phase": phase, "policies": [{"policy": policy, "grant": grant}]})
    };
    let described = status("Granted", "Granted", &rules);
    let written = request("r", "r-uid", &described);
    let entry = &written.status.as_ref().unwrap().policies[0];
    let grant = grant::of_entry(&written, entry).unwrap();
    let key = Name::in_metadata(&grant.role.metadata);
    let object = Managed {
        metadata: grant.role.metadata.clone(),
        object: crate::seen::ManagedObject::Role(Ok(grant.role)),
    };
    // No RoleBinding refers to it.
    let look = vec![(Job::Grant(key.clone()), Urgency::Normal)];
    let other = json!([{"resources": ["connectors/proxy/v1/pod/apps/p"], "verbs": ["*"]}]);
    let waits = |rules: &Value| json!({"phase": "Pending", "policies": [{"policy": policy, "preparedRules": rules}]});
    for (known, expected) in [
        (Some(described.clone()), vec![]),
        // Between the decision and its confirmation.
        (Some(status("Pending", "Granting", &rules)), vec![]),
        // Written in advance.
        (Some(waits(&rules)), vec![]),
        (Some(waits(&other)), look.clone()),
        (Some(status("Granted", "Ended", &rules)), look.clone()),
        (Some(status("Revoked", "Granted", &rules)), look.clone()),
        (Some(status("Granted", "Granted", &other)), look.clone()),
        (
            Some(json!({"phase": "Granted", "policies": []})),
            look.clone(),
        ),
        (Some(Value::Null), look.clone()),
        (None, look.clone()),
    ] {
        let world = world(known.as_ref().map_or_else(State::default, with));
        let wakes = world.grant(GrantKind::Role, &key, Some(&object));
        assert_eq!(wakes, expected, "{known:?}");
        // An event of the request looks at the objects that are known of it.
        assert_eq!(world.read().grants_under("r-uid"), look, "{known:?}");
    }
    let mut deleted = object.clone();
    deleted.metadata.deletion_timestamp = written.metadata.creation_timestamp.clone();
    let mut unreadable = object;
    unreadable.object = crate::seen::ManagedObject::Role(Err(crate::seen::Unread));
    for changed in [deleted, unreadable] {
        let wakes = world(with(&described)).grant(GrantKind::Role, &key, Some(&changed));
        assert_eq!(wakes, look);
    }
}

#[test]
fn a_managed_object_is_looked_at_if_its_request_changed_while_it_was_compared() {
    let described = granted();
    let mut other = described.clone();
    other["policies"][0]["policy"]["metadata"]["uid"] = json!("p2-uid");
    let binding = unread_binding();
    let key = Name::new("tools", "car-1");
    let look = vec![(Job::Grant(key.clone()), Urgency::Urgent)];
    let text = |state: &State| state.requests.readable(&name()).map(KeptRequest::text);
    let then = text(&with(&described));
    let set = |state: &mut State| {
        state.grant(
            GrantKind::RoleBinding,
            &key,
            Some(&binding),
            then.as_deref(),
        )
    };
    assert_eq!(set(&mut with(&described)), []);
    assert_ne!(text(&with(&other)), then);
    assert_eq!(set(&mut with(&other)), look);
    let mut gone = with(&described);
    let _ = gone.request_gone(&name());
    assert_eq!(set(&mut gone), look);
}

fn world(state: State) -> World {
    let world = World::default();
    *world.write() = state;
    world
}

/// A Role alone gives nothing, so its look waits behind what may have to be revoked.
#[test]
fn a_managed_role_is_looked_at_with_urgency_only_beside_its_binding() {
    let key = Name::new("tools", "car-1");
    let (role, binding) = (unread_role(), unread_binding());
    let look = |urgency| vec![(Job::Grant(key.clone()), urgency)];
    let mut state = State::default();
    let alone = state.grant(GrantKind::Role, &key, Some(&role), None);
    assert_eq!(alone, look(Urgency::Normal));
    let bound = state.grant(GrantKind::RoleBinding, &key, Some(&binding), None);
    assert_eq!(bound, look(Urgency::Urgent));
    let again = state.grant(GrantKind::Role, &key, Some(&role), None);
    assert_eq!(again, look(Urgency::Urgent));
    let uid = role
        .label(connectors_api::labels::ACCESS_REQUEST_UID)
        .unwrap();
    let all = state.grants_under(uid);
    assert!(all.iter().all(|it| it.1 == Urgency::Urgent), "{all:?}");
    let _ = state.grant(GrantKind::RoleBinding, &key, None, None);
    assert_eq!(state.grants_under(uid), look(Urgency::Normal));
}

#[test]
fn a_request_that_takes_the_name_of_another_wakes_what_the_other_held() {
    let mut state = with(&granted());
    let role = unread_role();
    let key = Name::new("tools", "car-1");
    let _ = state.grant(GrantKind::Role, &key, Some(&role), None);
    let look = (Job::Grant(key), Urgency::Normal);
    let same = state.request(&name(), Ok(request("r", "r-uid", &Value::Null)));
    assert!(!same.contains(&look), "{same:?}");
    let other = state.request(&name(), Ok(request("r", "other-uid", &Value::Null)));
    assert!(other.contains(&look), "{other:?}");
}

#[test]
fn requests_over_the_limit_are_the_youngest_that_wait() {
    let mut state = State::default();
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let _ = state.request(
            &Name::new("tools", name),
            Ok(request(name, uid, &Value::Null)),
        );
    }
    let behind = |state: &State| {
        ["a", "b", "c"].map(|name| state.requests.is_behind(&Name::new("tools", name), 2))
    };
    assert_eq!(behind(&state), [false, false, true]);
    let _ = state.request(&Name::new("tools", "a"), Ok(request("a", "1", &granted())));
    assert_eq!(behind(&state), [false, false, false]);
}

#[test]
fn requests_for_connectors_elsewhere_take_no_place_of_anybody() {
    let mut state = State::default();
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let mut other = request(name, uid, &Value::Null).as_ref().clone();
        other.metadata.namespace = Some("elsewhere".to_owned());
        let _ = state.request(
            &Name::new("elsewhere", name),
            Ok(std::sync::Arc::new(other)),
        );
    }
    let own = Name::new("tools", "d");
    let _ = state.request(&own, Ok(request("d", "4", &Value::Null)));
    assert!(!state.requests.is_behind(&own, 1));
    assert!(state.requests.is_behind(&Name::new("elsewhere", "b"), 1));
    assert_eq!(state.requests.counts(|_| true).pending, 4);
    state.request_gone(&Name::new("elsewhere", "a"));
    assert!(!state.requests.is_behind(&Name::new("elsewhere", "b"), 1));
}

#[test]
fn a_request_that_is_over_counts_until_its_grant_is_known_to_be_gone() {
    let end = "2026-03-01T10:00:09Z";
    let counts = |status: &Value| {
        let Counts {
            granted,
            revoking,
            revoking_since,
            ..
        } = with(status).requests.counts(|_| true);
        (granted, revoking, revoking_since.map(|it| it.to_string()))
    };
    let mut revoking = granted();
    revoking["phase"] = "Revoked".into();
    revoking["endedAt"] = end.into();
    let mut gone = revoking.clone();
    gone["revokedAt"] = end.into();
    gone["policies"] = json!([]);
    assert_eq!(counts(&Value::Null), (0, 0, None));
    assert_eq!(counts(&granted()), (1, 0, None));
    assert_eq!(counts(&revoking), (0, 1, Some(end.to_owned())));
    assert_eq!(counts(&gone), (0, 0, None));
}

#[test]
fn a_request_finds_those_of_its_tuple() {
    let mut state = with(&Value::Null);
    let wakes = state.request(
        &Name::new("tools", "s"),
        Ok(request("s", "s-uid", &Value::Null)),
    );
    let second = (Job::Request(Name::new("tools", "s")), Urgency::Normal);
    assert_eq!(wakes, [second, (Job::Request(name()), Urgency::Normal)]);
}

fn config_maps() -> ObjectKind {
    ObjectKind {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    }
}

fn check_object(bytes: usize) -> CheckObject {
    let object =
        json!({"metadata": {"uid": "u", "labels": {"run": "r"}}, "data": "x".repeat(bytes)});
    AsText::parse(&object.to_string()).unwrap().object
}

fn watching() -> State {
    let mut state = State::default();
    let _ = state.kind(
        &config_maps(),
        KindState::Watching(ApiResource::erase::<ConfigMap>(&())),
    );
    state
}

fn kept(state: &State, namespace: &str) -> Option<usize> {
    state.kinds[&config_maps()].count(namespace)
}

#[test]
fn objects_above_a_namespaces_share_are_not_kept_and_others_are() {
    let mut state = watching();
    let _ = state.object(
        &config_maps(),
        &Name::new("quiet", "a"),
        Some(Ok(check_object(10))),
    );
    for number in 0..50 {
        let name = Name::new("loud", &number.to_string());
        let _ = state.object(&config_maps(), &name, Some(Ok(check_object(200 * 1024))));
    }
    assert_eq!(
        (kept(&state, "loud"), kept(&state, "quiet")),
        (None, Some(1))
    );
    let loud = Name::new("loud", "1");
    assert!(state.kinds[&config_maps()].get(&loud).is_none());
    assert!(state.kinds[&config_maps()].weight() < 2 * 1024);
    // A list of everything tells what is there now.
    let _ = state.kind(
        &config_maps(),
        KindState::Listing(ApiResource::erase::<ConfigMap>(&())),
    );
    assert_eq!(
        (kept(&state, "loud"), kept(&state, "quiet")),
        (Some(0), Some(1))
    );
}

#[test]
fn above_the_total_the_namespace_with_most_is_not_kept() {
    let mut state = watching();
    for namespace in 0..20 {
        for number in 0..(34 + namespace % 2) {
            let name = Name::new(&format!("n{namespace}"), &number.to_string());
            let _ = state.object(&config_maps(), &name, Some(Ok(check_object(200 * 1024))));
        }
    }
    let _ = state.object(
        &config_maps(),
        &Name::new("small", "a"),
        Some(Ok(check_object(10))),
    );
    let total: usize = state.kinds.values().map(KindCache::weight).sum();
    assert!(total <= 128 * 1024 * 1024, "{total}");
    assert_eq!(kept(&state, "small"), Some(1));
}

#[test]
fn objects_that_come_and_go_leave_nothing() {
    let mut state = watching();
    for number in 0..100 {
        let name = Name::new(&format!("n{}", number % 7), &number.to_string());
        let unreadable = Unreadable {
            metadata: ObjectMeta::default(),
            problem: String::new(),
        };
        let object = if number % 2 == 0 {
            Ok(check_object(100))
        } else {
            Err(unreadable)
        };
        let _ = state.object(&config_maps(), &name, Some(object.clone()));
        let _ = state.object(&config_maps(), &name, Some(object));
        let _ = state.object(&config_maps(), &name, None);
    }
    let cache = &state.kinds[&config_maps()];
    assert_eq!(
        (cache.weight(), format!("{cache:?}").contains("n1")),
        (0, false)
    );
}

/// A policy comes as the watch brings it.
fn watched(world: &World, policy: Value) -> Wakes {
    let policy: AccessPolicy = serde_json::from_value(policy).unwrap();
    let name = Name::of(&policy);
    let cached = PolicyCached {
        uid: "a".to_owned(),
        deleting: false,
        policy: Ok(world.parsed(policy)),
    };
    world.write().policy(&name, Some(cached))
}

#[test]
fn news_about_the_status_of_a_policy_wakes_nobody_and_looks_share_what_was_parsed() {
    type Edit = fn(&mut Value);
    let policy = |edit: Edit| {
        let mut policy = json!({
            "metadata": {"name": "p", "namespace": "tools", "uid": "a", "generation": 1, "resourceVersion": "1"},
            "spec": {"permission": "apis"},
        });
        edit(&mut policy);
        policy
    };
    let name = Name::new("tools", "p");
    let edits: [(Edit, bool); 5] = [
        (|it| it["metadata"]["resourceVersion"] = "2".into(), false),
        (|it| it["status"] = json!({"observedGeneration": 1}), false),
        (|it| it["metadata"]["generation"] = 2.into(), true),
        (|it| it["metadata"]["uid"] = "b".into(), true),
        (|it| it["spec"]["permission"] = "proxy".into(), true),
    ];
    for (edit, wakes) in edits {
        let world = World::default();
        *world.write() = with(&Value::Null);
        let _ = watched(&world, policy(|_| {}));
        let (before, revision) = {
            let state = world.read();
            (state.policies.compiled(&name).unwrap(), state.revision())
        };
        let woken = watched(&world, policy(edit));
        assert_eq!(woken.is_empty(), !wakes);
        assert_eq!(world.read().revision() > revision, wakes);
        let after = world.read().policies.compiled(&name).unwrap();
        assert_eq!(Arc::ptr_eq(&before, &after), !wakes);
    }
}

#[test]
fn an_object_concerns_what_is_granted_while_another_policy_is_undecided() {
    let undecided = json!({"phase": "Granted", "policies": [
        {"policy": {}, "grant": {"state": "Granted"}}, {"policy": {}},
    ]});
    let decided = json!({"phase": "Granted", "policies": [
        {"policy": {}, "grant": {"state": "Granted"}}, {"policy": {}, "grant": {"state": "Ended"}},
    ]});
    let mut over = undecided.clone();
    over["phase"] = "Revoked".into();
    for (status, woken) in [
        (granted(), vec![]),
        (decided, vec![]),
        (over, vec![]),
        (
            json!({"phase": "Pending", "policies": [{"policy": {}}]}),
            vec![],
        ),
        (undecided, vec![Job::Request(name())]),
        (json!({"phase": "Revoked"}), vec![]),
        (Value::Null, vec![]),
    ] {
        let world = World::default();
        *world.write() = with(&status);
        let _ = world.write().kind(&config_maps(), KindState::Starting);
        let _ = watched(&world, about("tools", "ConfigMap"));
        let of_pod = Name::new("apps", "x");
        let state = world.read();
        assert_eq!(
            state.may_get_more(&config_maps(), &of_pod),
            woken,
            "{status}"
        );
        let elsewhere = Name::new("elsewhere", "x");
        assert_eq!(state.may_get_more(&config_maps(), &elsewhere), []);
    }
}

/// A policy with a check about a kind.
fn about(namespace: &str, kind: &str) -> Value {
    let check = json!({"name": "c", "selector": {"labels": {"run": "x"}, "objectRef": {"apiVersion": "v1", "kind": kind}}});
    let spec = json!({"permission": "apis", "checkGrantedPermission": {
        "requesters": [], "spec": {"checks": [check], "permissions": {"roleTemplate": {"rules": []}}},
    }});
    json!({"metadata": {"name": "p", "namespace": namespace, "uid": "a"}, "spec": spec})
}

#[test]
fn an_object_wakes_the_requests_whose_namespace_has_a_policy_about_its_kind() {
    for (namespace, kind, wakes) in [
        ("tools", "ConfigMap", true),
        ("tools", "Secret", false),
        ("other", "ConfigMap", false),
    ] {
        let world = World::default();
        *world.write() = with(&Value::Null);
        let _ = world.write().kind(&config_maps(), KindState::Starting);
        let _ = watched(&world, about(namespace, kind));
        let of_pod = Name::new("apps", "x");
        let woken = world.write().object(&config_maps(), &of_pod, None);
        assert_eq!(!woken.is_empty(), wakes, "{namespace} {kind}");
    }
}

/// A status with evidence of about so many bytes.
fn long(phase: &str, grant: &str, bytes: usize) -> Value {
    json!({"phase": phase, "revokedAt": "2026-03-01T10:00:00Z", "policies": [{
        "policy": {"metadata": {"name": "p", "uid": "p-uid"}, "spec": {"padding": "x".repeat(bytes)}},
        "checkRefs": [{"name": "approval", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}],
        "grant": {"state": grant},
    }]})
}

#[test]
fn long_requests_are_kept_within_the_share_of_their_pods_namespace() {
    let mut state = State::default();
    let mut put = |number: usize, bytes: usize| {
        let name = format!("r{number}");
        let long = request(&name, &name, &long("Granted", "Granted", bytes));
        let name = Name::new("tools", &name);
        let _ = state.request(&name, Ok(long));
        state.requests.get(&name).unwrap().lacks_evidence
    };
    assert!((0..8).all(|number| !put(number, 1000 * 1024)));
    assert!(put(8, 1000 * 1024), "above the share");
    assert!(!put(9, 1024), "a short one is kept in any case");
    assert!(!put(0, 900 * 1024), "its own room is free for it again");
    let cached = state.requests.get(&Name::new("tools", "r8")).unwrap();
    let kept = cached.request.as_ref().unwrap().read().unwrap();
    assert!(connectors_api::parse::json_bytes(&kept) < 1024);
    assert!(state.requests.holds(&Name::new("tools", "r8")));
    // What it rests on is not known any more: each object of a kind that it was decided on concerns it.
    let _ = state.kind(&config_maps(), KindState::Starting);
    let woken = state.object(&config_maps(), &Name::new("apps", "other"), None);
    let long = Job::Request(Name::new("tools", "r8"));
    assert_eq!(woken, [(long, Urgency::Urgent)]);
    assert_eq!(state.wanted_kinds().len(), 1);
    for number in 0..10 {
        let _ = state.request_gone(&Name::new("tools", &format!("r{number}")));
    }
    assert!(state.requests.is_empty());
}

#[test]
fn a_long_request_that_is_decided_for_good_is_kept_without_its_evidence() {
    for (phase, grant, bytes, lacks) in [
        ("Rejected", "Ended", 100 * 1024, true),
        ("Rejected", "Ended", 1024, false),
        ("Revoked", "Ended", 100 * 1024, true),
        // Something may still be in force.
        ("Revoked", "Granted", 100 * 1024, false),
        ("Pending", "Granting", 100 * 1024, false),
    ] {
        let state = with(&long(phase, grant, bytes));
        let cached = state.requests.get(&name()).unwrap();
        assert_eq!(cached.lacks_evidence, lacks, "{phase} {grant} {bytes}");
    }
}

#[test]
fn an_object_may_end_open_grants_that_rest_on_it_and_nothing_else() {
    let evidence = Name::new("apps", "a");
    for (phase, grant, rests) in [
        ("Granted", "Granted", 1),
        ("Pending", "Granting", 1),
        ("Pending", "Ended", 0),
        // What is over is taken back, whatever becomes of the object.
        ("Revoked", "Granted", 0),
        ("Rejected", "Ended", 0),
    ] {
        let state = with(&long(phase, grant, 10));
        let found = state.requests.resting_on(&config_maps(), &evidence).count();
        assert_eq!(found, rests, "{phase} {grant}");
    }
}

#[test]
fn a_request_that_is_taken_from_the_cache_waits_and_holds_nothing() {
    for (status, waits) in [
        (Value::Null, true),
        (json!({"phase": "Pending"}), true),
        (granted(), false),
        (json!({"phase": "Rejected"}), false),
        (long("Pending", "Granting", 10), false),
        (long("Revoked", "Granted", 10), false),
    ] {
        let state = with(&status);
        assert_eq!(state.requests.waiting(&name()).is_some(), waits, "{status}");
    }
}

#[test]
fn a_short_request_takes_no_room_of_the_long_ones() {
    let room = |bytes: usize| {
        let state = with(&long("Granted", "Granted", bytes));
        state.requests.census().pop()
    };
    assert_eq!((room(1024), room(100 * 1024)), (Some(0), Some(1)));
}

#[test]
fn a_request_is_known_to_be_for_a_pod_of_its_namespace() {
    let requests = with(&Value::Null).requests;
    assert_eq!(requests.pod_namespace(&name()).as_deref(), Some("apps"));
    assert_eq!(requests.pod_namespace(&Name::new("tools", "s")), None);
}

#[test]
fn requests_that_come_and_go_leave_no_index() {
    let mut state = State::default();
    for number in 0..50 {
        let (name, uid) = (format!("r{number}"), format!("uid{number}"));
        let _ = state.request(
            &Name::new("tools", &name),
            Ok(request(&name, &uid, &Value::Null)),
        );
    }
    assert_eq!(state.requests.tuple_of(&Name::new("tools", "r7")).len(), 49);
    let waits = Name::new("tools", "r1");
    for (is_beyond, next) in [(true, Some(&waits)), (false, None), (true, Some(&waits))] {
        state.requests.waits_for_place(&waits, is_beyond);
        let line = state.requests.waiting_line(&waits).unwrap();
        assert_eq!(state.requests.next_in_line(&line), next);
    }
    let undecided = json!({"phase": "Granted", "policies": [
        {"policy": {}, "grant": {"state": "Granted"}, "checkRefs": [
            {"name": "approval", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}},
        ]},
        {"policy": {}},
    ]});
    let granted = Name::new("tools", "r2");
    let _ = state.request(&granted, Ok(request("r2", "uid2", &undecided)));
    let evidence = Name::new("apps", "a");
    let resting = |state: &State| state.requests.resting_on(&config_maps(), &evidence).count();
    let awaiting = |state: &State| state.requests.awaiting_more("apps").count();
    assert_eq!((resting(&state), awaiting(&state)), (1, 1));
    let census: usize = state.requests.census().iter().sum();
    let _ = state.request(&granted, Ok(request("r2", "uid2", &undecided)));
    assert_eq!(state.requests.census().iter().sum::<usize>(), census);
    for number in 0..50 {
        let _ = state.request_gone(&Name::new("tools", &format!("r{number}")));
    }
    assert!(state.requests.is_empty());
}

#[test]
fn requests_of_the_same_about_a_connector_elsewhere_are_of_another_tuple() {
    let mut state = with(&Value::Null);
    let mut other = AccessRequest::clone(&request("r", "other-uid", &Value::Null));
    other.metadata.namespace = Some("tools-1".to_owned());
    let elsewhere = Name::new("tools-1", "r");
    let _ = state.request(&elsewhere, Ok(Arc::new(other)));
    for name in [name(), elsewhere] {
        assert_eq!(state.requests.tuple_of(&name), []);
    }
}

/// Names that are nearly one: longer, shorter, of another case.
fn nearly(name: &str) -> Vec<String> {
    let shorter = &name[..name.len() - 1];
    let upper = name.to_uppercase();
    vec![
        format!("{name}-1"),
        format!("a-{name}"),
        shorter.to_owned(),
        upper,
    ]
}

#[test]
fn news_reach_whom_they_are_about_and_nobody_whose_names_are_nearly_the_same() {
    type News = fn(&mut State, &Name) -> Wakes;
    fn some_labels() -> Labels {
        Labels::from([("a".to_owned(), "b".to_owned())])
    }
    let table: [(&str, Name, News); 7] = [
        ("pod", Name::new("apps", "p"), |state, name| {
            state.pod(name, Some(pod("u", "1", false)))
        }),
        ("connector", Name::new("tools", "harbor"), |state, name| {
            let seen = ConnectorSeen {
                uid: "c".to_owned(),
            };
            let labels = Labels::new();
            state.connector(name, Some(ConnectorCached { seen, labels }))
        }),
        ("account", Name::new("apps", "builder"), |state, name| {
            state.account(name, Some(some_labels()))
        }),
        ("namespace", Name::new("apps", ""), |state, name| {
            state.namespace(&name.namespace, Some(some_labels()))
        }),
        ("policy", Name::new("tools", ""), |state, name| {
            let problem = String::new();
            let metadata = ObjectMeta::default();
            let policy = PolicyCached {
                uid: "p".to_owned(),
                deleting: false,
                policy: Err(Unreadable { metadata, problem }),
            };
            state.policy(&Name::new(&name.namespace, "p"), Some(policy))
        }),
        ("object", Name::new("apps", ""), |state, name| {
            state.object(&config_maps(), &Name::new(&name.namespace, "x"), None)
        }),
        // Its name stands in for the UID.
        ("standing", Name::new("", "r-uid"), |state, name| {
            state.stands(BTreeSet::from([name.name.clone()]))
        }),
    ];
    for (what, exact, news) in table {
        let told = |name: &Name| {
            let world = World::default();
            *world.write() = with(&Value::Null);
            let _ = world.write().kind(&config_maps(), KindState::Starting);
            let _ = watched(&world, about("tools", "ConfigMap"));
            news(&mut world.write(), name)
        };
        assert_eq!(told(&exact), job(Urgency::Normal), "{what}");
        let NameParts { namespace, name } = &*exact;
        let places = nearly_or_none(namespace).into_iter();
        let places = places.map(|it| Name::new(&it, name));
        let names = nearly_or_none(name).into_iter();
        let names = names.map(|it| Name::new(namespace, &it));
        for other in places.chain(names) {
            assert_eq!(told(&other), [], "{what} {other}");
        }
    }
}

fn nearly_or_none(name: &str) -> Vec<String> {
    if name.is_empty() {
        Vec::new()
    } else {
        nearly(name)
    }
}

#[test]
fn the_kinds_of_a_proof_are_watched_as_long_as_a_check_needs_it() {
    let named = |provenance: &str| {
        let object = json!({
            "metadata": {"name": "p", "namespace": "tools", "uid": "p-uid"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": [{"name": "c", "provenance": provenance, "selector": {
                    "labels": {"a": "b"},
                    "objectRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
                }}],
                "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        let policy: AccessPolicy = serde_json::from_value(object).unwrap();
        let mut state = State::default();
        let cached = PolicyCached {
            uid: "p-uid".to_owned(),
            deleting: false,
            policy: Ok(Arc::new(CompiledPolicy::of(policy, None))),
        };
        let _ = state.policy(&Name::new("tools", "p"), Some(cached));
        let kinds = state.wanted_kinds().into_iter();
        let kinds = kinds.map(|(kind, keeps)| (kind.kind, keeps));
        kinds.collect::<Vec<_>>()
    };
    let approvals = ("ApprovalTask".to_owned(), Keeps::All);
    let between = ["PipelineRun", "TaskRun", "CustomRun"];
    let mut all = vec![approvals.clone()];
    all.extend(between.map(|it| (it.to_owned(), Keeps::Linked)));
    assert_eq!(named("Auto"), all);
    assert_eq!(named("Required"), all);
    assert_eq!(named("None"), [approvals]);
}

#[test]
fn a_request_that_is_gone_depends_on_no_object() {
    let mut state = with(&Value::Null);
    let kind = ObjectKind {
        api_version: "tekton.dev/v1".to_owned(),
        kind: "TaskRun".to_owned(),
    };
    let link = Link {
        kind: kind.clone(),
        name: Name::new("apps", "run-deploy"),
    };
    assert!(state.links.add(&name(), [link.clone()]));
    let _ = state.kind(&kind, KindState::Starting);
    assert_eq!(state.object(&kind, &link.name, None), job(Urgency::Normal));
    let _ = state.request_gone(&name());
    assert_eq!(state.links.census(), [0, 0, 0]);
    assert_eq!(state.object(&kind, &link.name, None), []);
}

/// Evidence is of kinds that must be watched.
#[test]
fn a_request_that_comes_or_goes_may_change_the_wanted_kinds() {
    let mut state = State::default();
    let before = state.revision();
    let _ = state.request(&name(), Ok(request("r", "r-uid", &granted())));
    let with_it = state.revision();
    let _ = state.request_gone(&name());
    assert!(before < with_it && with_it < state.revision());
}

#[test]
fn the_fields_that_the_installation_shares_are_those_of_its_configuration() {
    let fields = r#"[{"apiVersion": "v1", "kind": "ConfigMap", "fields": ["data.verdict"]}]"#;
    let key = connectors_api::config::SHARED_CHECK_FIELDS.to_owned();
    let mut state = State::default();
    assert_eq!(*state.shared(), SharedFields::default());
    let _ = state.learn(&BTreeMap::from([(key, fields.to_owned())]));
    assert_eq!(*state.shared(), SharedFields::parse(fields).unwrap());
}

#[test]
fn labels_of_accounts_and_namespaces_wake_who_waits_when_they_change() {
    type News = fn(&mut State, Option<Labels>) -> Wakes;
    let table: [News; 2] = [
        |state, labels| state.account(&Name::new("apps", "builder"), labels),
        |state, labels| state.namespace("apps", labels),
    ];
    let labels = |value: &str| Some(Labels::from([("a".to_owned(), value.to_owned())]));
    for news in table {
        let (mut waiting, mut holding) = (with(&Value::Null), with(&granted()));
        for (labels, wakes) in [
            (None, false),
            (labels("1"), true),
            (labels("1"), false),
            (labels("2"), true),
            (None, true),
            (None, false),
        ] {
            let expected = if wakes { job(Urgency::Normal) } else { vec![] };
            let woken = news(&mut waiting, labels.clone());
            assert_eq!(woken, expected, "{labels:?}");
            assert_eq!(news(&mut holding, labels), [], "a grant stays");
        }
    }
}

/// The state of a kind concerns who may find objects of it, and whose grant may rest on one.
#[test]
fn a_kind_whose_state_changes_wakes_the_open_requests_that_it_may_concern() {
    let mut proved = about("other", "ApprovalTask");
    let check = &mut proved["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
    check["provenance"] = "Auto".into();
    check["selector"]["objectRef"]["apiVersion"] = "openshift-pipelines.org/v1alpha1".into();
    let task_runs = ObjectKind {
        api_version: "tekton.dev/v1".to_owned(),
        kind: "TaskRun".to_owned(),
    };
    let evidence = long("Granted", "Granted", 10);
    let (urgent, normal) = (job(Urgency::Urgent), job(Urgency::Normal));
    for (status, policy, kind, expected) in [
        (
            Some(Value::Null),
            about("tools", "ConfigMap"),
            config_maps(),
            normal.clone(),
        ),
        (
            Some(Value::Null),
            about("other", "ConfigMap"),
            config_maps(),
            vec![],
        ),
        (
            Some(Value::Null),
            about("tools", "Secret"),
            config_maps(),
            vec![],
        ),
        // The kinds between pods and approvals are the installation's.
        (Some(Value::Null), proved.clone(), task_runs.clone(), normal),
        (Some(Value::Null), proved, config_maps(), vec![]),
        // The grant rests on an object of the kind.
        (
            Some(evidence.clone()),
            about("other", "Secret"),
            config_maps(),
            urgent.clone(),
        ),
        (Some(evidence), about("other", "Secret"), task_runs, vec![]),
        // The request is unreadable, and may have a grant.
        (None, about("other", "Secret"), config_maps(), urgent),
        (
            Some(long("Rejected", "Ended", 10)),
            about("tools", "ConfigMap"),
            config_maps(),
            vec![],
        ),
    ] {
        let world = World::default();
        let _ = watched(&world, policy.clone());
        let mut state = world.write();
        let known = status.as_ref().map(|it| request("r", "r-uid", it));
        let known = known.ok_or_else(|| Unreadable {
            metadata: ObjectMeta::default(),
            problem: String::new(),
        });
        let _ = state.request(&name(), known);
        let woken = state.kind(&kind, KindState::Missing);
        assert_eq!(woken, expected, "{kind:?} {policy}");
        assert_eq!(state.kind(&kind, KindState::Missing), [], "nothing changed");
    }
}
