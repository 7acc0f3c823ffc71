//! The decision about a request as one line of the log: requests are deleted some time after their end, and auditors
//! ask later.
//!
//! Names, UIDs, versions, states and times, never more of an object. A line is bounded: long approvals of one tenant
//! would otherwise rotate the lines of others away.

use connectors_api::{
    AccessRequest,
    access_request::{CheckRef, MatchedPolicy, ObservedObject, Phase, PolicyGrant},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// The most check objects in one line. The rest is counted.
const MOST_APPROVALS: usize = 16;
/// The most approvers of an object.
const MOST_APPROVERS: usize = 10;
/// The most characters of a word or name that a tenant chooses.
const LONGEST: usize = 64;

/// The phase that a written status begins, if it is a decision.
#[must_use]
pub fn decision(before: &AccessRequest, after: &AccessRequest) -> Option<Phase> {
    let phase = |it: &AccessRequest| it.status.as_ref().and_then(|it| it.phase);
    phase(after).filter(|now| *now != Phase::Pending && phase(before) != Some(*now))
}

/// The account and the connector, the time of the access, its policies and its approvals.
#[must_use]
pub fn of(request: &AccessRequest) -> Value {
    let spec = &request.spec;
    let pod = &spec.context.object_ref;
    let status = request.status.as_ref();
    let decided = status.iter().flat_map(|it| &it.policies);
    let decided = decided.filter_map(|it| it.grant.as_ref().map(|grant| (it, grant)));
    let mut room = MOST_APPROVALS;
    let policies: Vec<_> = decided
        .map(|(entry, grant)| policy(entry, grant, &mut room))
        .collect();
    json!({
        "request": {"namespace": request.namespace(), "name": request.name_any(), "uid": request.uid()},
        "subject": {"namespace": spec.subject.namespace.as_ref().unwrap_or(&pod.namespace), "name": spec.subject.name},
        "connector": {
            "namespace": request.namespace(), "name": spec.connector_ref.name,
            "uid": status.and_then(|it| it.connector_uid.as_ref()),
        },
        "permission": spec.permission,
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "phase": status.and_then(|it| it.phase),
        "created": request.creation_timestamp().map(|it| it.0),
        "grantedAt": status.and_then(|it| it.granted_at),
        "endedAt": status.and_then(|it| it.ended_at),
        "revokedAt": status.and_then(|it| it.revoked_at),
        "evidence": status.and_then(|it| it.evidence.as_ref()),
        "policies": policies,
    })
}

fn policy(entry: &MatchedPolicy, grant: &PolicyGrant, room: &mut usize) -> Value {
    let shown = entry.check_refs.len().min(*room);
    *room -= shown;
    let approvals: Vec<_> = entry.check_refs.iter().take(shown).map(approval).collect();
    let left_out = entry.check_refs_left_out.unwrap_or_default();
    let left_out = entry.check_refs.len() - shown + usize::try_from(left_out).unwrap_or_default();
    json!({
        "policy": entry.policy.0.get("metadata"),
        "state": grant.state,
        "reason": grant.reason,
        "grantedAt": grant.granted_at,
        "expiresAt": grant.expires_at,
        "endedAt": grant.ended_at,
        "approvals": approvals,
        "approvalsLeftOut": left_out,
    })
}

fn approval(check: &CheckRef) -> Value {
    let status = check.status.as_ref();
    let approved_by = status.map_or(&[][..], |it| &it.approved_by);
    json!({
        "check": check.name,
        "object": check.ref_.as_ref().map(object),
        "state": status.and_then(|it| it.state.as_ref()).map(|it| short(it)),
        "reason": status.and_then(|it| it.reason.as_ref()).map(|it| short(it)),
        "approvedBy": approved_by.iter().take(MOST_APPROVERS).map(|it| short(it)).collect::<Vec<_>>(),
        "approvers": approved_by.len(),
        "run": check.lineage.first().map(object),
        "runCreator": status.and_then(|it| it.run_creator.as_ref()).map(|it| short(it)),
    })
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn object(object: &ObservedObject) -> Value {
    json!({
        "kind": object.kind, "name": object.name, "uid": object.uid, "resourceVersion": object.resource_version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(status: &Value) -> AccessRequest {
        let request = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
            "metadata": {"name": "r", "namespace": "tools", "uid": "r-uid"},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "builder"},
                "connectorRef": {"name": "harbor"},
                "context": {"objectRef": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "deploy-1", "uid": "pod-uid",
                }},
            },
            "status": status,
        });
        serde_json::from_value(request).unwrap()
    }

    fn policy(approvals: usize) -> Value {
        let approval = json!({
            "name": "gate", "ref": {"apiVersion": "a/v1", "kind": "ApprovalTask", "name": "run-wait", "uid": "a-uid"},
            "status": {"state": "approved", "approvedBy": ["alice"], "message": "not told", "runCreator": "carol"},
            "lineage": [{"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "run", "uid": "run-uid"}],
        });
        json!({
            "policy": {"metadata": {"name": "p", "uid": "p-uid", "generation": 3}, "spec": {"secret": "not told"}},
            "checkRefs": vec![approval; approvals],
            "grant": {"state": "Granted", "grantedAt": "2026-03-01T10:00:00Z", "expiresAt": "2026-03-01T11:00:00Z"},
        })
    }

    #[test]
    fn a_record_says_who_may_use_what_by_which_policy_on_whose_approval_and_until_when() {
        let record = of(&request(&json!({
            "phase": "Granted", "grantedAt": "2026-03-01T10:00:00Z", "policies": [policy(1)],
        })));
        for (pointer, expected) in [
            ("/request/uid", json!("r-uid")),
            ("/subject", json!({"namespace": "apps", "name": "builder"})),
            ("/connector/name", json!("harbor")),
            ("/pod/uid", json!("pod-uid")),
            ("/permission", json!("apis")),
            ("/phase", json!("Granted")),
            ("/grantedAt", json!("2026-03-01T10:00:00Z")),
            ("/policies/0/policy/generation", json!(3)),
            ("/policies/0/expiresAt", json!("2026-03-01T11:00:00Z")),
            ("/policies/0/approvals/0/object/uid", json!("a-uid")),
            ("/policies/0/approvals/0/approvedBy", json!(["alice"])),
            ("/policies/0/approvals/0/run/uid", json!("run-uid")),
            ("/policies/0/approvals/0/runCreator", json!("carol")),
        ] {
            assert_eq!(record.pointer(pointer), Some(&expected), "{pointer}");
        }
        assert!(!record.to_string().contains("not told"));
    }

    #[test]
    fn a_request_without_a_decision_has_a_record_without_policies() {
        let undecided = json!({"policies": [{"policy": {"metadata": {"name": "p"}}}]});
        for status in [json!(null), json!({}), undecided] {
            let record = of(&request(&status));
            assert_eq!(record["policies"], json!([]), "{status}");
        }
    }

    #[test]
    fn a_record_has_16_approvals_at_most_and_counts_the_rest() {
        let mut second = policy(500);
        second["checkRefsLeftOut"] = 7.into();
        let record = of(&request(&json!({"policies": [policy(12), second]})));
        let of = |number: usize| {
            let policy = &record["policies"][number];
            let shown = policy["approvals"].as_array().unwrap().len();
            (shown, policy["approvalsLeftOut"].as_u64().unwrap())
        };
        assert_eq!((of(0), of(1)), ((12, 0), (4, 503)));
    }

    #[test]
    fn approvers_in_a_record_are_ten_with_short_names_and_are_counted() {
        let mut long = policy(1);
        let people = vec!["x".repeat(500); 100];
        long["checkRefs"][0]["status"]["approvedBy"] = json!(people);
        let record = of(&request(&json!({"policies": [long]})));
        let approval = &record["policies"][0]["approvals"][0];
        assert_eq!(approval["approvers"], 100);
        assert_eq!(approval["approvedBy"], json!(vec!["x".repeat(64); 10]));
        assert!(record.to_string().len() < 4_000);
    }

    #[test]
    fn a_decision_is_a_phase_other_than_pending_that_begins() {
        let of = |phase: &str| match phase {
            "" => request(&json!({})),
            phase => request(&json!({"phase": phase})),
        };
        for (before, after, expected) in [
            ("", "Pending", false),
            ("Pending", "Pending", false),
            ("", "Granted", true),
            ("Pending", "Granted", true),
            ("Granted", "Granted", false),
            ("Granted", "Revoked", true),
            ("Pending", "Rejected", true),
            ("Granted", "", false),
        ] {
            assert_eq!(
                decision(&of(before), &of(after)).is_some(),
                expected,
                "{before} {after}"
            );
        }
    }
}
