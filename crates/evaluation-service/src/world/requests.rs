//! Access requests, by what they are about.

use std::collections::{BTreeSet, HashMap, HashSet};

use connectors_api::access_request::MatchedPolicy;
use connectors_api::request_order;
use connectors_api::{AccessRequest, Permission};
use evaluation_api::access::AccessQuestion;
use serde_json::json;

/// Namespace and name.
type Key = (String, String);

/// Who wants what for which pod: what one decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The namespace of connector and request.
    pub namespace: String,
    /// The connector.
    pub connector: String,
    /// The capability.
    pub permission: Permission,
    /// The namespace of pod and service account.
    pub subject_namespace: String,
    /// The service account.
    pub subject: String,
    /// The pod. Never empty.
    pub pod_uid: String,
}

impl Tuple {
    /// What a question is about; nothing when no pod asks.
    #[must_use]
    pub fn of_question(question: &AccessQuestion) -> Option<Self> {
        let pod = question.pod.as_ref().filter(|pod| !pod.uid.is_empty())?;
        Some(Self {
            namespace: question.connector.namespace.clone(),
            connector: question.connector.name.clone(),
            permission: question.permission,
            subject_namespace: question.subject.namespace.clone(),
            subject: question.subject.name.clone(),
            pod_uid: pod.uid.clone(),
        })
    }

    /// What a request is about; nothing when it names no pod by its UID.
    #[must_use]
    pub fn of_request(request: &AccessRequest) -> Option<Self> {
        let spec = &request.spec;
        let uid = spec.context.object_ref.uid.as_ref();
        Some(Self {
            namespace: request.metadata.namespace.clone()?,
            connector: spec.connector_ref.name.clone(),
            permission: spec.permission,
            subject_namespace: spec.subject_namespace().to_owned(),
            subject: spec.subject.name.clone(),
            pod_uid: uid.filter(|uid| !uid.is_empty())?.clone(),
        })
    }
}

/// All requests, as far as decisions need them.
#[derive(Debug, Default)]
pub struct Requests {
    requests: HashMap<Key, AccessRequest>,
    by_tuple: HashMap<Tuple, BTreeSet<String>>,
}

impl Requests {
    /// Takes a request as it is now. Tells what it is and was about.
    pub fn apply(&mut self, mut request: AccessRequest) -> Vec<Tuple> {
        let Some(key) = key(&request) else {
            return Vec::new();
        };
        let old = self.delete(&key.0, &key.1);
        prune(&mut request);
        let new = Tuple::of_request(&request);
        if let Some(tuple) = &new {
            let names = self.by_tuple.entry(tuple.clone()).or_default();
            names.insert(key.1.clone());
        }
        self.requests.insert(key, request);
        let new = new.filter(|new| old.as_ref() != Some(new));
        old.into_iter().chain(new).collect()
    }

    /// Forgets a request. Tells what it was about.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Tuple> {
        let key = (namespace.to_owned(), name.to_owned());
        let request = self.requests.remove(&key)?;
        let tuple = Tuple::of_request(&request)?;
        if let Some(names) = self.by_tuple.get_mut(&tuple) {
            names.remove(name);
            if names.is_empty() {
                self.by_tuple.remove(&tuple);
            }
        }
        Some(tuple)
    }

    /// Takes all requests, as a new list shows them.
    pub fn reset(&mut self, requests: Vec<AccessRequest>) {
        let listed: HashSet<Key> = requests.iter().filter_map(key).collect();
        let gone = self.requests.keys().filter(|key| !listed.contains(key));
        let gone: Vec<Key> = gone.cloned().collect();
        for (namespace, name) in gone {
            self.delete(&namespace, &name);
        }
        for request in requests {
            self.apply(request);
        }
    }

    /// What requests of a namespace are about: pods that want this of a connector.
    pub fn about<'a>(
        &'a self,
        namespace: &'a str,
        connector: &'a str,
        permission: Permission,
    ) -> impl Iterator<Item = &'a Tuple> {
        let is_about = move |tuple: &&Tuple| {
            tuple.permission == permission
                && tuple.connector == connector
                && tuple.namespace == namespace
        };
        self.by_tuple.keys().filter(is_about)
    }

    /// The request that decides about a tuple. One that is being deleted counts as deleted: its
    /// controller does not look at it either.
    #[must_use]
    pub fn deciding(&self, tuple: &Tuple) -> Option<&AccessRequest> {
        let names = self.by_tuple.get(tuple).into_iter().flatten();
        let found = names.filter_map(|name| {
            let key = (tuple.namespace.clone(), name.clone());
            self.requests.get(&key)
        });
        request_order::deciding(found.filter(|it| it.metadata.deletion_timestamp.is_none()))
    }
}

/// Takes away what no answer shows.
pub(super) fn prune(request: &mut AccessRequest) {
    if let Some(status) = &mut request.status {
        status.policies.iter_mut().for_each(forget_evidence);
    }
    request.metadata.managed_fields = None;
    request.metadata.annotations = None;
}

/// The evidence is most of a request, and no answer shows it: what is left says whose grant holds until
/// when.
fn forget_evidence(matched: &mut MatchedPolicy) {
    let policy = &mut matched.policy.0;
    let uid = policy.get("metadata").and_then(|it| it.get("uid"));
    let metadata = json!({"uid": uid});
    policy.clear();
    policy.insert("metadata".to_owned(), metadata);
    matched.check_refs = Vec::new();
    if let Some(grant) = &mut matched.grant {
        grant.rules = Vec::new();
    }
}

fn key(request: &AccessRequest) -> Option<Key> {
    let metadata = &request.metadata;
    Some((metadata.namespace.clone()?, metadata.name.clone()?))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::fixtures::{question, request};

    fn deciding(requests: &Requests) -> Option<&str> {
        let tuple = Tuple::of_question(&question()).unwrap();
        requests.deciding(&tuple)?.metadata.uid.as_deref()
    }

    #[test]
    fn a_request_is_found_by_what_it_is_about_until_it_is_gone() {
        let mut requests = Requests::default();
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
        assert!(requests.requests.is_empty() && requests.by_tuple.is_empty());
    }

    #[test]
    fn a_name_that_is_used_again_is_about_both_tuples() {
        let mut requests = Requests::default();
        requests.apply(request("a", "Pending"));
        let mut other = request("a", "Pending");
        other.spec.connector_ref.name = "gitlab".to_owned();
        assert_eq!(requests.apply(other).len(), 2);
        assert_eq!(deciding(&requests), None);
    }

    #[test]
    fn a_request_without_the_uid_of_a_pod_is_about_nothing() {
        let mut requests = Requests::default();
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
        let mut requests = Requests::default();
        let mut going = request("a", "Rejected");
        going.metadata.deletion_timestamp = Some(Time("2026-01-02T00:00:00Z".parse().unwrap()));
        requests.apply(going);
        assert_eq!(deciding(&requests), None);
        requests.apply(request("b", "Pending"));
        assert_eq!(deciding(&requests), Some("uid-b"));
    }

    #[test]
    fn of_the_evidence_only_whose_grant_it_is_is_kept() {
        let mut requests = Requests::default();
        let mut granted = request("a", "Granted");
        let policies = &mut granted.status.as_mut().unwrap().policies;
        *policies = serde_json::from_value(json!([
            {"policy": {}},
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
        requests.apply(granted);
        let kept = requests.requests.values().next().unwrap();
        let kept = &kept.status.as_ref().unwrap().policies;
        let expected = json!([
            {"policy": {"metadata": {"uid": null}}},
            {
                "policy": {"metadata": {"uid": "u"}},
                "grant": {"state": "Granted", "expiresAt": "2027-01-01T00:00:00Z"},
            },
        ]);
        assert_eq!(serde_json::to_value(kept).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn a_list_leaves_what_it_shows_and_nothing_else(
            before in proptest::collection::vec(select(&["a", "b", "c", "d"][..]), 0..6),
            listed in proptest::collection::btree_set(select(&["a", "b", "c", "d"][..]), 0..4),
        ) {
            let mut requests = Requests::default();
            for name in before {
                requests.apply(request(name, "Pending"));
            }
            requests.reset(listed.iter().map(|name| request(name, "Granted")).collect());
            prop_assert_eq!(requests.requests.len(), listed.len());
            let in_tuples: usize = requests.by_tuple.values().map(BTreeSet::len).sum();
            prop_assert_eq!(in_tuples, listed.len());
            let first = listed.first().map(|name| format!("uid-{name}"));
            prop_assert_eq!(deciding(&requests), first.as_deref());
        }
    }
}
