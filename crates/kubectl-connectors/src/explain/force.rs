//! Whether a recorded grant is in force, by the rule of the evaluation service.

use connectors_api::AccessRequest;
use connectors_api::access_request::GrantState;
use connectors_api::pod_grant::RequestFacts;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::RoleBinding;

use crate::bindings::facts;
use crate::reads::Found;

/// The objects behind a grant.
#[derive(Debug)]
pub(super) struct GrantRead {
    /// Whether the request is the one that decides for its pod; none if that could not be read.
    pub(super) decides: Option<bool>,
    /// The RoleBindings with the UID of the request; none if they could not be read.
    pub(super) bindings: Option<Vec<Found<RoleBinding>>>,
    /// There are more of them than were read.
    pub(super) is_cut: bool,
    /// The API server's answer to the question of the pod's mount; none if it could not be asked.
    pub(super) allowed: Option<bool>,
}

/// Whether a grant is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantForce {
    /// It is.
    Holds,
    /// Something that decides could not be read.
    Unknown,
    /// It is not.
    Lacks(GrantLack),
}

/// Why a grant is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantLack {
    /// The request is being deleted.
    RequestGoes,
    /// Another request decides for the pod.
    OtherDecides,
    /// Its time is over since then.
    Over(Timestamp),
    /// No RoleBinding of the grant counts for the pod.
    NoBinding,
    /// The bound Role allows something else than the question.
    NoRule,
}

impl GrantLack {
    /// The same as a part of a sentence.
    pub(super) fn told(self) -> String {
        match self {
            Self::RequestGoes => "the request is being deleted".to_owned(),
            Self::OtherDecides => "another request decides for the pod".to_owned(),
            Self::Over(at) => format!("its time is over since {at}"),
            Self::NoBinding => {
                "no RoleBinding of the grant is there that counts for the pod".to_owned()
            }
            Self::NoRule => {
                "the bound Role does not allow the pod this access: the policy grants another resource or verb, or the \
                 Role is gone"
                    .to_owned()
            }
        }
    }
}

/// Whether the grant of a request lets its pod in at this time.
pub(super) fn of(
    read: Option<&GrantRead>,
    request: &AccessRequest,
    pod: &str,
    now: Timestamp,
) -> GrantForce {
    if request.is_deleting() {
        return GrantForce::Lacks(GrantLack::RequestGoes);
    }
    if let Some(at) = over(request, now) {
        return GrantForce::Lacks(GrantLack::Over(at));
    }
    let Some((read, bindings)) = read.and_then(|it| Some((it, it.bindings.as_ref()?))) else {
        return GrantForce::Unknown;
    };
    let mut bindings = bindings.iter().flatten();
    if !bindings.any(|it| facts(it).lets_in(request, pod, now)) {
        return if read.is_cut {
            GrantForce::Unknown
        } else {
            GrantForce::Lacks(GrantLack::NoBinding)
        };
    }
    match (read.decides, read.allowed) {
        (Some(false), _) => GrantForce::Lacks(GrantLack::OtherDecides),
        (_, Some(false)) => GrantForce::Lacks(GrantLack::NoRule),
        (None, _) | (_, None) => GrantForce::Unknown,
        (Some(true), Some(true)) => GrantForce::Holds,
    }
}

/// The end of the request, or of the last of its grants, if it is past.
fn over(request: &AccessRequest, now: Timestamp) -> Option<Timestamp> {
    let grants = || {
        let all = request.grants();
        all.filter(|it| it.state == Some(GrantState::Granted))
    };
    let last = grants().map(|it| it.expires_at);
    // A grant without an end is no reason: none is smaller than every time.
    let of_grants = if grants().any(|it| it.expires_at.is_none()) {
        None
    } else {
        last.max().flatten()
    };
    let ends = [request.expires_at(), of_grants].into_iter().flatten();
    ends.filter(|it| *it <= now).min()
}

#[cfg(test)]
mod tests {
    use connectors_api::labels::ACCESS_POLICY_UID;
    use serde_json::{Value, json};

    use super::*;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn request(grants: &Value) -> AccessRequest {
        let policies = grants.as_array().unwrap().iter();
        let policies = policies.enumerate().map(|(at, grant)| {
            json!({"policy": {"metadata": {"name": format!("p{at}"), "uid": format!("uid-{at}")}}, "grant": grant})
        });
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "tools", "uid": "uid-a"},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                "connectorRef": {"name": "c"},
                "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}},
            },
            "status": {"phase": "Granted", "policies": policies.collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn read(bindings: Option<usize>) -> GrantRead {
        let binding = || {
            let binding = json!({"metadata": {"name": "b", "namespace": "tools", "labels": {
                "app.kubernetes.io/managed-by": "connectors-approval",
                "connectors.alauda.io/accessRequestUid": "uid-a",
                "connectors.alauda.io/accessPolicyUid": "uid-0",
            }}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "b"}});
            Ok(serde_json::from_value(binding).unwrap())
        };
        GrantRead {
            decides: Some(true),
            bindings: bindings.map(|number| (0..number).map(|_| binding()).collect()),
            is_cut: false,
            allowed: Some(true),
        }
    }

    fn force(read: &GrantRead, request: &AccessRequest) -> GrantForce {
        of(Some(read), request, "p", NOON.parse().unwrap())
    }

    #[test]
    fn a_grant_is_in_force_with_a_binding_that_counts_and_a_role_that_allows() {
        let granted = request(&json!([{"state": "Granted"}]));
        assert_eq!(force(&read(Some(1)), &granted), GrantForce::Holds);
        let lacks = |read: &GrantRead| force(read, &granted);
        let no_binding = GrantForce::Lacks(GrantLack::NoBinding);
        assert_eq!(lacks(&read(Some(0))), no_binding);
        let mut of_another_policy = read(Some(1));
        for binding in of_another_policy.bindings.iter_mut().flatten().flatten() {
            let labels = binding.metadata.labels.as_mut().unwrap();
            labels.insert(ACCESS_POLICY_UID.to_owned(), "uid-9".to_owned());
        }
        assert_eq!(lacks(&of_another_policy), no_binding);
        let mut no_rule = read(Some(1));
        no_rule.allowed = Some(false);
        assert_eq!(lacks(&no_rule), GrantForce::Lacks(GrantLack::NoRule));
        let mut going = granted.clone();
        going.metadata.deletion_timestamp = serde_json::from_value(json!(NOON)).unwrap();
        let goes = GrantForce::Lacks(GrantLack::RequestGoes);
        assert_eq!(force(&read(Some(1)), &going), goes);
    }

    #[test]
    fn a_grant_of_a_request_that_does_not_decide_for_its_pod_is_not_in_force() {
        let mut beside = read(Some(1));
        beside.decides = Some(false);
        let granted = request(&json!([{"state": "Granted"}]));
        let other = GrantForce::Lacks(GrantLack::OtherDecides);
        assert_eq!(force(&beside, &granted), other);
    }

    #[test]
    fn a_grant_past_its_end_is_over_though_the_request_says_granted() {
        let at = NOON.parse().unwrap();
        let ends = json!({"state": "Granted", "expiresAt": NOON});
        let lasts = json!({"state": "Granted"});
        let over = GrantForce::Lacks(GrantLack::Over(at));
        assert_eq!(force(&read(Some(1)), &request(&json!([ends]))), over);
        // The binding is that of the first policy.
        let both = request(&json!([lasts, ends]));
        assert_eq!(force(&read(Some(1)), &both), GrantForce::Holds);
        let mut whole = request(&json!([lasts]));
        if let Some(status) = &mut whole.status {
            status.expires_at = Some(at);
        }
        assert_eq!(force(&read(Some(1)), &whole), over);
    }

    #[test]
    fn a_binding_past_its_own_end_does_not_count() {
        let ends = json!({"state": "Granted", "expiresAt": NOON});
        let two = request(&json!([ends, {"state": "Granted"}]));
        let no_binding = GrantForce::Lacks(GrantLack::NoBinding);
        assert_eq!(force(&read(Some(1)), &two), no_binding);
    }

    #[test]
    fn what_could_not_be_read_makes_neither_a_yes_nor_a_no() {
        let granted = request(&json!([{"state": "Granted"}]));
        let mut cut = read(Some(0));
        cut.is_cut = true;
        let mut unasked = read(Some(1));
        unasked.allowed = None;
        let mut unlisted = read(Some(1));
        unlisted.decides = None;
        for read in [read(None), cut, unasked, unlisted] {
            assert_eq!(force(&read, &granted), GrantForce::Unknown, "{read:?}");
        }
    }
}
