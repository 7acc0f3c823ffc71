use std::collections::BTreeMap;

use connectors_api::access_request::GrantState;
use connectors_api::pod_grant::RequestFacts;
use connectors_api::reason::{AccessPermissionSync, Ready};
use connectors_api::{AccessRequestCondition, Condition, request_order};
use evaluation_api::access::AccessQuestion;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::fixtures::{question, request};

fn deciding(requests: &KnownRequests) -> Option<&str> {
    let asked = question();
    let found = requests.deciding(TupleRef::of_question(&asked).unwrap());
    found?.uid.as_deref()
}

#[test]
fn a_request_is_found_by_what_it_is_about_until_it_is_gone() {
    let mut requests = KnownRequests::default();
    let tuple = Tuple::of_question(&question()).unwrap();
    assert_eq!(
        requests.apply(request("a", "Pending")),
        std::slice::from_ref(&tuple)
    );
    assert_eq!(deciding(&requests), Some("uid-a"));
    assert_eq!(
        requests.apply(request("a", "Granted")),
        std::slice::from_ref(&tuple)
    );
    assert_eq!(requests.delete("tools", "a"), Some(tuple));
    assert_eq!(requests.delete("tools", "a"), None);
    assert_eq!(deciding(&requests), None);
    assert!(requests.by_name.is_empty() && requests.by_tuple.is_empty());
}

#[test]
fn a_name_that_is_used_again_is_about_both_tuples() {
    let mut requests = KnownRequests::default();
    requests.apply(request("a", "Pending"));
    let mut other = request("a", "Pending");
    other.spec.connector_ref.name = "gitlab".to_owned();
    assert_eq!(requests.apply(other).len(), 2);
    assert_eq!(deciding(&requests), None);
}

#[test]
fn a_request_without_the_uid_of_a_pod_is_about_nothing() {
    let mut requests = KnownRequests::default();
    for nothing in [None, Some(String::new())] {
        let mut nobodys = request("a", "Granted");
        nobodys.spec.context.object_ref.uid = nothing;
        assert_eq!(requests.apply(nobodys), []);
    }
    let mut asked = question();
    asked.pod.as_mut().unwrap().uid.clear();
    assert_eq!(Tuple::of_question(&asked), None);
    asked.pod = None;
    assert_eq!(Tuple::of_question(&asked), None);
}

#[test]
fn what_is_being_deleted_decides_nothing() {
    let mut requests = KnownRequests::default();
    let mut going = request("a", "Rejected");
    going.metadata.deletion_timestamp = Some(Time("2026-01-02T00:00:00Z".parse().unwrap()));
    let known = KnownRequest::read(going.clone()).unwrap();
    assert!(RequestFacts::is_deleting(&known));
    requests.apply(going);
    assert_eq!(deciding(&requests), None);
    requests.apply(request("b", "Pending"));
    assert_eq!(deciding(&requests), Some("uid-b"));
}

#[test]
fn requests_are_listed_for_one_permission_of_one_connector() {
    let mut requests = KnownRequests::default();
    for (name, change) in [
        ("a", (|_| {}) as fn(&mut AccessRequest)),
        ("b", |it| it.spec.permission = Permission::Proxy),
        ("c", |it| it.spec.connector_ref.name = "gitlab".to_owned()),
        ("d", |it| it.metadata.namespace = Some("other".to_owned())),
    ] {
        let mut request = request(name, "Granted");
        change(&mut request);
        requests.apply(request);
    }
    let listed = requests.deciding_for("tools", "harbor", Permission::Apis);
    let listed: Vec<_> = listed.map(|it| &*it.name).collect();
    assert_eq!(listed, ["a"]);
}

#[test]
fn of_the_evidence_only_whose_grant_it_is_is_kept() {
    let mut granted = request("a", "Granted");
    let policies = &mut granted.status.as_mut().unwrap().policies;
    *policies = serde_json::from_value(json!([
        {"policy": {}},
        {"policy": {"metadata": {"uid": ""}}, "grant": {"state": "Granted"}},
        {"policy": {"metadata": {"uid": 1}}, "grant": {"state": "Granted"}},
        {"policy": {"metadata": {"uid": "waits"}}},
        {
            "policy": {"kind": "AccessPolicy", "metadata": {"name": "p", "uid": "u"}, "spec": {"long": "text"}},
            "checkRefs": [{"name": "gate"}],
            "grant": {
                "state": "Granted", "expiresAt": "2027-01-01T00:00:00Z",
                "rules": [{"resources": ["connectors/apis"], "verbs": ["*"]}],
            },
        },
    ]))
    .unwrap();
    let kept = KnownRequest::read(granted).unwrap();
    let expected = [
        KnownPolicy {
            uid: "waits".into(),
            state: None,
            expires_at: None,
        },
        KnownPolicy {
            uid: "u".into(),
            state: Some(GrantState::Granted),
            expires_at: Some("2027-01-01T00:00:00Z".parse().unwrap()),
        },
    ];
    assert_eq!(*kept.policies, expected);
}

#[test]
fn words_of_conditions_are_read_and_a_word_of_another_version_is_none() {
    let mut request = request("a", "Pending");
    let conditions = &mut request.status.as_mut().unwrap().conditions;
    let like = conditions[0].clone();
    for (type_, reason) in [
        (AccessRequestCondition::AccessCheckReady, "Tomorrow"),
        (
            AccessRequestCondition::AccessPermissionSync,
            "AccessPermissionGranted",
        ),
    ] {
        let (reason, like) = (reason.to_owned(), like.clone());
        conditions.push(Condition {
            type_,
            reason,
            ..like
        });
    }
    let kept = KnownRequest::read(request).unwrap();
    assert_eq!(kept.check_reason, None);
    let granted = AccessPermissionSync::AccessPermissionGranted;
    assert_eq!(kept.permission_reason, Some(granted));
    assert_eq!(kept.ready_reason, Some(Ready::ChecksPending));
    assert_eq!(&*kept.message, "waits");
}

proptest! {
    #[test]
    fn a_list_leaves_what_it_shows_and_nothing_else(
        before in proptest::collection::vec(select(&["a", "b", "c", "d"][..]), 0..6),
        listed in proptest::collection::btree_set(select(&["a", "b", "c", "d"][..]), 0..4),
    ) {
        let mut requests = KnownRequests::default();
        for name in before {
            requests.apply(request(name, "Pending"));
        }
        let all = listed.iter().map(|name| request(name, "Granted"));
        requests.reset(all.filter_map(KnownRequest::read));
        prop_assert_eq!(requests.by_name.len(), listed.len());
        let in_tuples: usize = requests.by_tuple.iter().map(|it| it.others.len() + 1).sum();
        prop_assert_eq!(in_tuples, listed.len());
        let first = listed.first().map(|name| format!("uid-{name}"));
        prop_assert_eq!(deciding(&requests), first.as_deref());
    }

    /// Requests come, go, and come again under their names with everything else changed.
    #[test]
    fn a_lookup_finds_what_a_scan_of_all_requests_finds(
        steps in proptest::collection::vec(step(), 0..40),
        relisted in any::<prop::sample::Index>(),
    ) {
        let mut requests = KnownRequests::default();
        let mut all = BTreeMap::new();
        for (place, step) in steps.iter().enumerate() {
            let key = (step.namespace, step.name);
            let old = all.get(&key).and_then(tuple_of);
            let told = if step.is_delete {
                all.remove(&key);
                requests.delete(step.namespace, step.name).into_iter().collect()
            } else {
                all.insert(key, step.request());
                requests.apply(step.request())
            };
            let new = all.get(&key).and_then(tuple_of).filter(|new| old.as_ref() != Some(new));
            let expected: Vec<_> = old.into_iter().chain(new).collect();
            prop_assert_eq!(told, expected);
            if place == relisted.index(steps.len()) {
                let listed = all.values().cloned();
                requests.reset(listed.filter_map(KnownRequest::read));
            }
        }
        for asked in questions() {
            let expected = scan(&all, &asked);
            let about = TupleRef::of_question(&asked);
            let found = about.and_then(|about| requests.deciding(about));
            prop_assert_eq!(found, expected.as_ref());
            let target = &asked.connector;
            let listed = requests.deciding_for(&target.namespace, &target.name, asked.permission);
            let listed: Vec<_> = listed.filter(|it| Some(it.tuple.about()) == about).collect();
            prop_assert_eq!(listed, found.into_iter().collect::<Vec<_>>());
        }
        let left: Vec<_> = all.into_keys().collect();
        for (namespace, name) in left {
            requests.delete(namespace, name);
        }
        prop_assert!(requests.by_name.is_empty() && requests.by_tuple.is_empty());
    }
}

/// What happens to one request. Nearly all are about the same, so that there is something to decide.
#[derive(Clone, Debug)]
struct Step {
    is_delete: bool,
    namespace: &'static str,
    name: &'static str,
    connector: &'static str,
    subject: &'static str,
    pod_uid: Option<&'static str>,
    permission: Permission,
    phase: &'static str,
    /// Its age, its UID, and whether it is on its way out.
    identity: (Option<i64>, &'static str, bool),
}

const NAMESPACES: &[&str] = &["tools", "other"];
const NAMES: &[&str] = &["a", "b", "c", "d"];
const CONNECTORS: &[&str] = &["harbor", "gitlab"];
const SUBJECTS: &[&str] = &["builder", "deployer"];
const PODS: &[&str] = &["pod-uid", "later"];

/// Mostly the first.
fn mostly<T: Copy + std::fmt::Debug + 'static>(of: &'static [T]) -> impl Strategy<Value = T> {
    prop_oneof![9 => Just(of[0]), 1 => select(of)]
}

fn step() -> impl Strategy<Value = Step> {
    let name = (
        prop::bool::weighted(0.2),
        mostly(NAMESPACES),
        select(NAMES),
        mostly(CONNECTORS),
        mostly(SUBJECTS),
    );
    let pod = mostly(&[Some("pod-uid"), Some("later"), Some(""), None]);
    let phase = select(
        &[
            "Pending", "Granted", "Rejected", "Revoked", "Invalid", "Ended",
        ][..],
    );
    let identity = (
        proptest::option::of(0..2_i64),
        select(&["u", "v"][..]),
        prop::bool::weighted(0.2),
    );
    let rest = (pod, mostly(Permission::ALL), phase, identity);
    (name, rest).prop_map(|(name, (pod_uid, permission, phase, identity))| {
        let (is_delete, namespace, name, connector, subject) = name;
        Step {
            is_delete,
            namespace,
            name,
            connector,
            subject,
            pod_uid,
            permission,
            phase,
            identity,
        }
    })
}

impl Step {
    fn request(&self) -> AccessRequest {
        let mut request = request(self.name, self.phase);
        let time = |second| Time(Timestamp::from_second(second).unwrap());
        let (created, uid, is_going) = self.identity;
        let metadata = &mut request.metadata;
        metadata.namespace = Some(self.namespace.to_owned());
        metadata.uid = Some(uid.to_owned());
        metadata.creation_timestamp = created.map(time);
        metadata.deletion_timestamp = is_going.then(|| time(9));
        let spec = &mut request.spec;
        spec.connector_ref.name = self.connector.to_owned();
        spec.subject.name = self.subject.to_owned();
        spec.permission = self.permission;
        spec.context.object_ref.uid = self.pod_uid.map(ToOwned::to_owned);
        request
    }
}

fn tuple_of(request: &AccessRequest) -> Option<Tuple> {
    let spec = &request.spec;
    let pod_uid = spec.context.object_ref.uid.as_deref()?;
    (!pod_uid.is_empty()).then(|| Tuple {
        namespace: request.metadata.namespace.as_deref().unwrap().into(),
        connector: spec.connector_ref.name.as_str().into(),
        permission: spec.permission,
        subject_namespace: spec.subject_namespace().into(),
        subject: spec.subject.name.as_str().into(),
        pod_uid: pod_uid.into(),
    })
}

type All = BTreeMap<(&'static str, &'static str), AccessRequest>;

fn scan(all: &All, asked: &AccessQuestion) -> Option<KnownRequest> {
    let pod = asked.pod.as_ref().filter(|pod| !pod.uid.is_empty())?;
    let is_asked = |request: &&AccessRequest| {
        let AccessRequest { metadata, spec, .. } = request;
        metadata.deletion_timestamp.is_none()
            && metadata.namespace.as_deref() == Some(&asked.connector.namespace)
            && spec.connector_ref.name == asked.connector.name
            && spec.permission == asked.permission
            && spec.subject_namespace() == asked.subject.namespace
            && spec.subject.name == asked.subject.name
            && spec.context.object_ref.uid.as_ref() == Some(&pod.uid)
    };
    let found = request_order::deciding(all.values().filter(is_asked))?;
    KnownRequest::read(found.clone())
}

fn questions() -> Vec<AccessQuestion> {
    let mut questions = Vec::new();
    for namespace in NAMESPACES {
        for connector in CONNECTORS {
            for subject in SUBJECTS {
                for pod in PODS.iter().chain(&[""]) {
                    for permission in Permission::ALL {
                        let mut asked = question();
                        asked.connector.namespace = (*namespace).to_owned();
                        asked.connector.name = (*connector).to_owned();
                        asked.subject.name = (*subject).to_owned();
                        asked.pod.as_mut().unwrap().uid = (*pod).to_owned();
                        asked.permission = *permission;
                        questions.push(asked);
                    }
                }
            }
        }
    }
    questions
}
