use serde_json::json;

use super::*;
use crate::testing::{labels, reading, spec};

fn policy(uid: &str, subjects: &serde_json::Value) -> PolicyCached {
    let policy = AccessPolicy::new("p", spec(&reading(&json!({}), subjects)));
    PolicyCached::of(uid.to_owned(), false, Some(policy))
}

fn job(uid: &str) -> Job {
    Job {
        namespace: "tools".to_owned(),
        uid: uid.to_owned(),
    }
}

fn uids(wakes: Wakes) -> Vec<String> {
    wakes.into_iter().map(|(job, _)| job.uid).collect()
}

/// One policy for a user, one for the accounts of a project, one for accounts by label.
fn world() -> State {
    let mut state = State::default();
    let project = json!({"matchLabels": {"project": "devops"}});
    let role = json!({"matchLabels": {"role": "builder"}});
    for (name, subject) in [
        ("user", json!({"kind": "User", "name": "u"})),
        (
            "group",
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project}),
        ),
        (
            "accounts",
            json!({"kind": "ServiceAccount", "nameSelector": role}),
        ),
    ] {
        state.policy(
            &Name::new("tools", name),
            Some(policy(name, &json!([subject]))),
        );
    }
    state
}

const NONE: [&str; 0] = [];

#[test]
fn selectors_find_as_many_subjects_as_the_installation_allows() {
    let most = MostSelected(7);
    assert_eq!(World::of(most).read().around("tools").most_selected, most);
}

#[test]
fn keys_of_the_installation_concern_whoever_selects_namespaces() {
    let mut state = world();
    let keys = |keys: &str| -> BTreeMap<String, String> {
        [("namespace-selector-keys".to_owned(), keys.to_owned())].into()
    };
    assert_eq!(state.default_requesters(), None, "nothing was heard");
    assert_eq!(uids(state.learn(None).1), NONE);
    assert_eq!(
        state.default_requesters(),
        Some(DefaultRequesters::Namespace)
    );
    assert_eq!(
        uids(state.learn(Some(&keys(r#"["project"]"#))).1),
        ["group"]
    );
    assert_eq!(uids(state.learn(Some(&keys(r#"["project"]"#))).1), NONE);
    let known = state.namespace_keys();
    // An unreadable or deleted ConfigMap changes nothing.
    let (problems, wakes) = state.learn(Some(&keys("project")));
    assert!(!problems.is_empty() && wakes.is_empty());
    assert_eq!(uids(state.learn(None).1), NONE);
    assert_eq!(state.namespace_keys(), known);
    assert_eq!(uids(state.learn(Some(&BTreeMap::new())).1), ["group"]);
}

fn checked(name: &str, created: u32, spec: &serde_json::Value) -> AccessPolicy {
    let mut spec = spec.clone();
    if spec["checkGrantedPermission"].is_null() {
        spec["checkGrantedPermission"] = json!({"spec": {
            "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
            "permissions": {"roleTemplate": {"rules": []}},
        }});
    }
    let created = format!("2026-01-01T00:{:02}:{:02}Z", created / 60, created % 60);
    let object = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": created}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn put_policy(state: &mut State, policy: &AccessPolicy, deleting: bool) {
    let name = policy.metadata.name.clone().unwrap();
    let cached = PolicyCached::of(name.clone(), deleting, Some(policy.clone()));
    state.policy(&Name::new("tools", &name), Some(cached));
}

#[test]
fn the_64_oldest_policies_of_a_connector_count() {
    let mut state = State::default();
    for connector in ["free", "harbor"] {
        state.connector(&Name::new("tools", connector), Some(labels(&[])));
    }
    let harbor = json!({"connector": {"names": ["harbor"]}});
    let mut last = checked("last", 3000, &harbor);
    put_policy(&mut state, &last, false);
    // These do not count: younger, for another capability or connector, without checks, elsewhere, or going.
    put_policy(&mut state, &checked("younger", 3001, &harbor), false);
    put_policy(
        &mut state,
        &checked("proxy", 1, &json!({"permission": "proxy"})),
        false,
    );
    put_policy(
        &mut state,
        &checked("free", 1, &json!({"connector": {"names": ["free"]}})),
        false,
    );
    let mut standing = checked("standing", 1, &harbor);
    standing.spec.check_granted_permission = None;
    put_policy(&mut state, &standing, false);
    put_policy(&mut state, &checked("going", 1, &harbor), true);
    for number in 0..63 {
        put_policy(
            &mut state,
            &checked(&format!("p{number}"), 100 + number, &harbor),
            false,
        );
    }
    assert_eq!(state.crowded("tools", &last), None);
    put_policy(&mut state, &checked("every", 99, &json!({})), false);
    assert_eq!(state.crowded("tools", &last), Some("harbor".to_owned()));
    assert_eq!(state.crowded("elsewhere", &last), None);
    last.spec.connector.names = Some(vec!["free".to_owned()]);
    assert_eq!(state.crowded("tools", &last), None);
    last.spec.connector.names = None;
    assert_eq!(state.crowded("tools", &last), Some("harbor".to_owned()));
    state.policy(&Name::new("tools", "p7"), None);
    assert_eq!(state.crowded("tools", &last), None);
}

#[test]
fn a_connector_concerns_the_policies_of_its_namespace_when_its_labels_change() {
    let mut state = world();
    let harbor = Name::new("tools", "harbor");
    let all = ["accounts", "group", "user"];
    assert_eq!(uids(state.connector(&harbor, Some(labels(&[])))), all);
    assert_eq!(uids(state.connector(&harbor, Some(labels(&[])))), NONE);
    assert_eq!(
        uids(state.connector(&harbor, Some(labels(&[("a", "b")])))),
        all
    );
    assert_eq!(uids(state.connector(&harbor, None)), all);
    assert_eq!(uids(state.connector(&harbor, None)), NONE);
    let elsewhere = Name::new("elsewhere", "harbor");
    assert_eq!(uids(state.connector(&elsewhere, Some(labels(&[])))), NONE);
}

#[test]
fn a_namespace_concerns_whose_selectors_find_it_now_or_no_longer() {
    let mut state = world();
    let devops = || Some(labels(&[("project", "devops")]));
    assert_eq!(uids(state.namespace("n", Some(labels(&[])))), NONE);
    assert_eq!(uids(state.namespace("n", devops())), ["group"]);
    assert_eq!(uids(state.namespace("n", devops())), NONE);
    assert_eq!(uids(state.namespace("n", None)), ["group"]);
}

#[test]
fn a_service_account_concerns_whose_selectors_find_it_now_or_no_longer() {
    let mut state = world();
    let name = Name::new("tools", "sa");
    let builder = || Some(labels(&[("role", "builder")]));
    assert_eq!(uids(state.account(&name, Some(labels(&[])))), NONE);
    assert_eq!(uids(state.account(&name, builder())), ["accounts"]);
    assert_eq!(
        uids(state.account(&name, Some(labels(&[("role", "x")])))),
        ["accounts"]
    );
    assert_eq!(uids(state.account(&name, None)), NONE);
}

#[test]
fn a_policy_that_took_the_name_of_another_concerns_both() {
    let mut state = world();
    let name = Name::new("tools", "user");
    let subjects = json!([{"kind": "User", "name": "u"}]);
    let wakes = state.policy(&name, Some(policy("second", &subjects)));
    assert_eq!(uids(wakes), ["second", "user"]);
    assert!(state.policy_of(&job("user")).is_none());
    assert!(state.policy_of(&job("second")).is_some());
    assert_eq!(uids(state.policy(&name, None)), ["second"]);
    assert_eq!(state.policies(), 2);
}

#[test]
fn what_holds_something_is_urgent_and_what_was_relabelled_concerns_both() {
    let mut state = world();
    let name = Name::new("tools", "policy-user");
    let object = ManagedCached {
        version: String::new(),
        said: None,
        terminating: false,
    };
    let wakes = state.object(ManagedKind::Role, &name, Some(("user", object.clone())));
    assert_eq!(wakes, [(job("user"), Urgency::Urgent)]);
    assert_eq!(state.managed(&job("user")).len(), 1);
    let wakes = state.object(ManagedKind::Role, &name, Some(("group", object)));
    assert_eq!(
        wakes,
        [
            (job("group"), Urgency::Urgent),
            (job("user"), Urgency::Normal)
        ]
    );
    assert_eq!(
        uids(state.object(ManagedKind::Role, &name, None)),
        ["group"]
    );
    assert_eq!(state.managed(&job("group")).len(), 0);
}

/// A policy with a selector for namespaces, that takes about 60 KiB.
fn long(uid: &str) -> PolicyCached {
    let project = json!({"matchLabels": {"project": "devops"}});
    let group =
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project});
    let mut written = spec(&reading(&json!({}), &json!([group])));
    let names = (0..240).map(|it| format!("{it:0>250}"));
    written.connector.names = Some(names.collect());
    PolicyCached::of(uid.to_owned(), false, Some(AccessPolicy::new("p", written)))
}

/// So many long policies are kept of one namespace.
fn most() -> usize {
    MOST_OF_NAMESPACE / long("p").bytes()
}

fn fill(state: &mut State, namespace: &str, count: usize) {
    for number in 0..count {
        let name = format!("{namespace}-{number:03}");
        state.policy(&Name::new(namespace, &name), Some(long(&name)));
    }
}

fn kept(state: &State, namespace: &str) -> usize {
    state.in_namespace(namespace).count()
}

#[test]
fn policies_above_their_namespaces_share_are_not_kept_and_anything_concerns_them() {
    let mut state = world();
    let quiet = kept(&state, "tools");
    fill(&mut state, "loud", most());
    assert_eq!(kept(&state, "loud"), most());
    fill(&mut state, "loud", most() + 1);
    assert_eq!((kept(&state, "loud"), kept(&state, "tools")), (0, quiet));
    let first = Name::new("loud", "loud-000");
    let said = &state.policy_named(&first).unwrap().said;
    assert!(matches!(said, CachedPolicy::NotKept));
    // Their selectors are not known.
    let of_loud = |wakes: Wakes| {
        wakes
            .iter()
            .filter(|(job, _)| job.namespace == "loud")
            .count()
    };
    let any = Some(labels(&[("any", "thing")]));
    assert_eq!(of_loud(state.namespace("new", any.clone())), most() + 1);
    assert_eq!(
        of_loud(state.account(&Name::new("new", "robot"), any)),
        most() + 1
    );
    let keys = [("namespace-selector-keys".to_owned(), r#"["a"]"#.to_owned())];
    assert_eq!(of_loud(state.learn(Some(&keys.into())).1), most() + 1);
    // A policy that is written again is kept again if there is room.
    state.policy(&first, Some(long("loud-000")));
    assert_eq!(kept(&state, "loud"), 1);
}

#[test]
fn above_the_total_the_namespace_that_has_most_is_not_kept() {
    let mut state = State::default();
    fill(&mut state, "heavy", most());
    let namespaces = MOST_OF_ALL / MOST_OF_NAMESPACE;
    for number in 0..namespaces {
        fill(&mut state, &format!("n{number}"), most() - 1);
    }
    assert_eq!(kept(&state, "heavy"), 0);
    let others = (0..namespaces).map(|it| kept(&state, &format!("n{it}")));
    assert_eq!(others.sum::<usize>(), namespaces * (most() - 1));
    assert!(state.budget.total() <= MOST_OF_ALL);
}
