//! Whether a binding lets one pod in.
//!
//! RBAC knows names, and a later pod may have the same one. So a binding of the pod form counts only together with the
//! granted request of this very pod that it was written for.

use jiff::Timestamp;

use crate::AccessRequest;
use crate::access_request::{GrantState, Phase};
use crate::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID, MANAGED_BY};
use crate::names;

/// A binding, as far as the rule needs it. Its labels are looked up one by one.
#[derive(Clone, Copy, Debug)]
pub struct BindingFacts<'a, L> {
    /// Its namespace; none for a binding of the cluster.
    pub namespace: Option<&'a str>,
    /// It has a deletion timestamp.
    pub is_deleting: bool,
    /// The value of a label.
    pub label: L,
}

/// A request, as far as the rule needs it.
pub trait RequestFacts {
    /// Its namespace.
    fn namespace(&self) -> &str;
    /// Its UID.
    fn uid(&self) -> Option<&str>;
    /// It has a deletion timestamp.
    fn is_deleting(&self) -> bool;
    /// Its phase.
    fn phase(&self) -> Option<Phase>;
    /// The name of its pod.
    fn pod_name(&self) -> &str;
    /// Its subject is in the namespace of its pod.
    fn is_in_pods_namespace(&self) -> bool;
    /// When all of it ends at the latest.
    fn expires_at(&self) -> Option<Timestamp>;
    /// The results of its policies.
    fn grants(&self) -> impl Iterator<Item = GrantFacts<'_>>;
}

/// The result of one policy for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantFacts<'a> {
    /// The UID of the policy. Never empty.
    pub policy_uid: &'a str,
    /// Where its grant stands; none while its checks are awaited.
    pub state: Option<GrantState>,
    /// When its grant ends at the latest.
    pub expires_at: Option<Timestamp>,
}

impl<'a, L: Fn(&str) -> Option<&'a str>> BindingFacts<'a, L> {
    fn label(&self, key: &str) -> Option<&'a str> {
        (self.label)(key)
    }

    fn is_ours(&self) -> bool {
        self.label(MANAGED_BY) == Some(names::MANAGED_BY)
    }

    /// True for a binding of this product that is being deleted: it counts as deleted.
    #[must_use]
    pub fn is_ours_and_going(&self) -> bool {
        self.is_ours() && self.is_deleting
    }

    /// True when the binding lets the request's pod in at this time. The request must be the one that decides for its pod,
    /// and the pod must have this name.
    #[must_use]
    pub fn lets_in(&self, request: &impl RequestFacts, pod: &str, now: Timestamp) -> bool {
        self.is_of(request, pod) && self.holds(request, now)
    }

    /// Whether the binding was written for this request, and the request lets this pod in. A request that does not
    /// decide for its pod lets no pod in, whatever its own fields say.
    fn is_of(&self, request: &impl RequestFacts, pod: &str) -> bool {
        let uid = request.uid().filter(|uid| !uid.is_empty());
        self.is_ours()
            && !self.is_deleting
            && uid.is_some()
            && self.label(ACCESS_REQUEST_UID) == uid
            && self.namespace == Some(request.namespace())
            && !request.is_deleting()
            && request.phase() == Some(Phase::Granted)
            && request.is_in_pods_namespace()
            && pod == request.pod_name()
    }

    /// Whether the request, and of its policies the one that the binding was written for, still grant. The controller
    /// takes back what is over, but it may be late.
    fn holds(&self, request: &impl RequestFacts, now: Timestamp) -> bool {
        let is_over = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        let label = self.label(ACCESS_POLICY_UID);
        let Some(uid) = label.filter(|uid| !uid.is_empty()) else {
            return false;
        };
        let mut entries = request.grants().filter(|it| it.policy_uid == uid);
        !is_over(request.expires_at())
            // The controller writes one entry for each policy. With two it is not known which one holds.
            && entries
                .next()
                .is_some_and(|it| it.state == Some(GrantState::Granted) && !is_over(it.expires_at))
            && entries.next().is_none()
    }
}

impl RequestFacts for AccessRequest {
    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn phase(&self) -> Option<Phase> {
        self.status.as_ref()?.phase
    }

    fn pod_name(&self) -> &str {
        &self.spec.context.object_ref.name
    }

    fn is_in_pods_namespace(&self) -> bool {
        self.spec.subject_namespace() == self.spec.context.object_ref.namespace
    }

    fn expires_at(&self) -> Option<Timestamp> {
        self.status.as_ref()?.expires_at
    }

    fn grants(&self) -> impl Iterator<Item = GrantFacts<'_>> {
        let policies = self.status.iter().flat_map(|it| &it.policies);
        let known = policies.filter(|it| !it.uid().is_empty());
        known.map(|it| {
            let grant = it.grant.as_ref();
            GrantFacts {
                policy_uid: it.uid(),
                state: grant.map(|it| it.state),
                expires_at: grant.and_then(|it| it.expires_at),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn request() -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "tools", "uid": "uid-a"},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "s"},
                "connectorRef": {"name": "c"},
                "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}},
            },
            "status": {"phase": "Granted", "policies": [
                {"policy": {"metadata": {"name": "x", "uid": "uid-x"}}, "grant": {"state": "Granted"}},
            ]},
        })
    }

    fn lets_in(request: &Value, labels: &[(&str, &str)], is_deleting: bool) -> bool {
        let request: AccessRequest = serde_json::from_value(request.clone()).unwrap();
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let binding = BindingFacts {
            namespace: Some("tools"),
            is_deleting,
            label: |key: &str| labels.get(key).copied(),
        };
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        binding.lets_in(&request, "p", now)
    }

    const LABELS: [(&str, &str); 3] = [
        (MANAGED_BY, names::MANAGED_BY),
        (ACCESS_REQUEST_UID, "uid-a"),
        (ACCESS_POLICY_UID, "uid-x"),
    ];

    /// The evaluation service tries every part of the rule on its caches; here it is tried on whole requests.
    #[test]
    fn a_binding_lets_in_with_the_granted_request_that_it_was_written_for() {
        assert!(lets_in(&request(), &LABELS, false));
        assert!(!lets_in(&request(), &LABELS, true));
        for without in 0..LABELS.len() {
            let mut labels = LABELS.to_vec();
            labels.remove(without);
            assert!(!lets_in(&request(), &labels, false), "{labels:?}");
        }
        let changes: [(&str, Value); 7] = [
            ("/metadata/uid", json!("uid-b")),
            ("/metadata/namespace", json!("other")),
            ("/spec/context/objectRef/name", json!("q")),
            ("/status/phase", json!("Revoked")),
            ("/status/policies/0/grant/state", json!("Ended")),
            (
                "/status/policies/0/grant",
                json!({"state": "Granted", "expiresAt": "2026-01-01T12:00:00Z"}),
            ),
            ("/status/policies/0/policy/metadata/uid", json!("")),
        ];
        for (path, value) in changes {
            let mut other = request();
            *other.pointer_mut(path).unwrap() = value;
            assert!(!lets_in(&other, &LABELS, false), "{path}");
        }
        let mut going = request();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(!lets_in(&going, &LABELS, false));
        for (end, expected) in [
            ("2026-01-01T12:00:00Z", false),
            ("2026-01-01T12:00:01Z", true),
        ] {
            let mut ending = request();
            ending["status"]["expiresAt"] = end.into();
            assert_eq!(lets_in(&ending, &LABELS, false), expected, "{end}");
        }
        let mut elsewhere = request();
        elsewhere["spec"]["subject"]["namespace"] = "other".into();
        assert!(!lets_in(&elsewhere, &LABELS, false));
        let mut twice = request();
        let entry = twice["status"]["policies"][0].clone();
        twice["status"]["policies"]
            .as_array_mut()
            .unwrap()
            .push(entry);
        assert!(!lets_in(&twice, &LABELS, false));
    }

    #[test]
    fn a_binding_of_this_product_counts_as_deleted_while_it_is_being_deleted() {
        for (manager, is_deleting, expected) in [
            (names::MANAGED_BY, true, true),
            (names::MANAGED_BY, false, false),
            ("another", true, false),
            ("another", false, false),
        ] {
            let binding = BindingFacts {
                namespace: None,
                is_deleting,
                label: |key: &str| (key == MANAGED_BY).then_some(manager),
            };
            let is_going = binding.is_ours_and_going();
            assert_eq!(is_going, expected, "{manager} {is_deleting}");
        }
    }
}
