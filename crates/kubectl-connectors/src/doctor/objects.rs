//! Requests, grants and connectors, beside policies.

use std::collections::BTreeSet;

use connectors_api::access_request::Phase;
use connectors_api::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID, CONNECTOR_CLASS, fits};
use connectors_api::{AccessRequest, Connector, names};
use jiff::Timestamp;
use kube::ResourceExt as _;
use service_kit::watches::Unreadable;

use super::commands::logs;
use super::policies::{PATIENCE, key};
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord, FixObject, policies};
use crate::grants::{self, InForce};
use crate::terms::{NamespacedName, shell, span};

pub(super) fn examine(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for policy in read.policies.iter().flatten() {
        match policy {
            Ok(policy) => findings.extend(policies::of_policy(read, policy, now)),
            Err(it) => findings.push(policies::unreadable(it)),
        }
    }
    for request in read.requests.iter().flatten() {
        match request {
            Ok(request) => findings.extend(of_request(read, request, now)),
            Err(it) => findings.push(unreadable_request(it)),
        }
    }
    findings.extend(of_grants(read, now));
    findings.extend(standing_orphans(read, now));
    let connectors = read.connectors.iter().flatten().flatten();
    findings.extend(connectors.filter_map(of_connector));
    findings
}

fn unreadable_request(it: &Unreadable) -> DoctorFinding {
    let (namespace, name) = key(it);
    DoctorFinding::new(
        DoctorSeverity::Warning,
        DoctorWord::RequestUnreadable,
        format!("AccessRequest {namespace}/{name}"),
        format!("{}: every service ignores it", it.problem),
        "delete it: its pod gets a new one with the next try of its mount",
    )
    .with_command(format!(
        "kubectl -n {} delete accessrequest {}",
        shell(namespace),
        shell(name)
    ))
}

fn of_request(read: &DoctorRead, request: &AccessRequest, now: Timestamp) -> Option<DoctorFinding> {
    let namespace = request.namespace().unwrap_or_default();
    let name = request.name_any();
    let object = format!("AccessRequest {namespace}/{name}");
    let status = request.status.as_ref();
    let phase = status.and_then(|it| it.phase);
    let Some(phase) = phase else {
        let created = request.metadata.creation_timestamp.as_ref();
        let is_old = created.is_some_and(|it| now.duration_since(it.0) > PATIENCE);
        return is_old.then(|| {
            DoctorFinding::new(
                DoctorSeverity::Error,
                DoctorWord::RequestNotLookedAt,
                object,
                "the request-controller has not looked at it",
                "look at the Deployment request-controller",
            )
            .with_command(logs(read, "request-controller"))
        });
    };
    let is_left = phase == Phase::Revoked && status.is_some_and(|it| it.revoked_at.is_none());
    let ended = status.and_then(|it| it.ended_at);
    let is_old = ended.is_none_or(|it| now.duration_since(it) > PATIENCE);
    (is_left && is_old).then(|| {
        let uid = request.uid().unwrap_or_default();
        DoctorFinding::new(
            DoctorSeverity::Error,
            DoctorWord::GrantNotRemoved,
            object,
            "it is revoked, and a Role or RoleBinding of its grant is still there",
            "remove the finalizer of the object that this command shows; if there is none, look at the request-controller",
        )
        .with_command(format!(
            "kubectl -n {} get roles,rolebindings -l {ACCESS_REQUEST_UID}={} -o yaml",
            shell(&namespace),
            shell(&uid)
        ))
    })
}

fn of_grants(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    let (Some(requests), Some(bindings)) = (&read.requests, &read.bindings) else {
        return Vec::new();
    };
    let listed = grants::list(requests, Some(bindings), None, now);
    let mut findings: Vec<_> = listed
        .grants
        .iter()
        .filter_map(|grant| {
            let object = format!("AccessRequest {}", grant.request);
            let is_over = grant.expires.filter(|it| now.duration_since(*it) > PATIENCE);
            let (severity, word, message) = match (grant.in_force, is_over) {
                (_, Some(at)) => (
                    DoctorSeverity::Error,
                    DoctorWord::GrantOverdue,
                    format!(
                        "the grant of policy {} to pod {} is over since {}, and not revoked",
                        grant.policy,
                        grant.pod,
                        span(now.duration_since(at).as_secs())
                    ),
                ),
                (InForce::No, None) => (
                    DoctorSeverity::Warning,
                    DoctorWord::GrantNotInForce,
                    format!(
                        "policy {} granted to pod {}, and the RoleBinding of the grant is not there or does not count",
                        grant.policy, grant.pod
                    ),
                ),
                (InForce::Yes | InForce::Unknown, None) => return None,
            };
            let fix = "look at the Deployment request-controller, which mends it when it runs";
            let finding = DoctorFinding::new(severity, word, object, message, fix);
            Some(finding.with_command(logs(read, "request-controller")))
        })
        .collect();
    findings.extend(
        listed
            .orphans
            .iter()
            .map(|it| orphan(&it.namespace, &it.name, "request")),
    );
    findings
}

/// RoleBindings of standing permissions whose policy is gone. A policy may be newer than the list of policies.
fn standing_orphans(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    let (Some(policies), Some(bindings)) = (&read.policies, &read.bindings) else {
        return Vec::new();
    };
    let uids: BTreeSet<&str> = policies
        .iter()
        .filter_map(|it| match it {
            Ok(policy) => policy.metadata.uid.as_deref(),
            Err(unreadable) => unreadable.metadata.uid.as_deref(),
        })
        .collect();
    bindings
        .iter()
        .flatten()
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .filter(|it| {
            let created = it.metadata.creation_timestamp.as_ref();
            created.is_none_or(|it| grants::is_old(it.0, now))
        })
        .filter(|it| {
            let labels = it.labels();
            let policy = labels.get(ACCESS_POLICY_UID);
            !labels.contains_key(ACCESS_REQUEST_UID)
                && policy.is_some_and(|it| !uids.contains(it.as_str()))
        })
        .map(|it| {
            let namespace = it.namespace().unwrap_or_default();
            orphan(&namespace, &it.name_any(), "policy")
        })
        .collect()
}

fn orphan(namespace: &str, name: &str, of: &str) -> DoctorFinding {
    DoctorFinding::new(
        DoctorSeverity::Error,
        DoctorWord::GrantOrphaned,
        format!("RoleBinding {namespace}/{name}"),
        format!("it gives access, and the {of} that it was written for is not there"),
        "its controller deletes it when it runs; if it stays, delete it",
    )
    .with_command(format!(
        "kubectl -n {} delete rolebinding {}",
        shell(namespace),
        shell(name)
    ))
}

fn of_connector(connector: &Connector) -> Option<DoctorFinding> {
    let class = &connector.spec.connector_class_name;
    let labels = connector.labels();
    let missing: Vec<_> = CONNECTOR_CLASS
        .iter()
        .filter(|key| labels.get(**key) != Some(class))
        .collect();
    if missing.is_empty() || !fits(class) {
        return None;
    }
    let namespace = connector.namespace().unwrap_or_default();
    let name = connector.name_any();
    let words: Vec<_> = missing
        .iter()
        .map(|key| format!("{key}={}", shell(class)))
        .collect();
    let finding = DoctorFinding::new(
        DoctorSeverity::Hint,
        DoctorWord::ConnectorUnlabelled,
        format!("Connector {namespace}/{name}"),
        format!("lists by the label of its class {class} do not find it; policies do"),
        "write the labels, which the webhook writes with each change of a connector",
    );
    let command = format!(
        "kubectl -n {} label --overwrite connector {} {}",
        shell(&namespace),
        shell(&name),
        words.join(" ")
    );
    let labels = missing
        .iter()
        .map(|key| ((**key).to_owned(), class.clone()));
    let name = NamespacedName::new(namespace, name);
    let manifest = FixObject::new(names::API_VERSION, "Connector", name).with_labels(labels);
    Some(finding.with_command(command).with_object(manifest))
}

#[cfg(test)]
mod tests {
    use connectors_api::AccessPolicy;
    use serde_json::json;
    use service_kit::watches::Unreadable;

    use super::*;
    use crate::reads::Found;

    /// The words about a binding of a standing permission that was created at this time, read at noon without its policy.
    fn words(created: Option<&str>, is_going: bool) -> Vec<DoctorWord> {
        words_beside(created, is_going, Some(Vec::new()))
    }

    /// The same beside these policies; none if they could not be read.
    fn words_beside(
        created: Option<&str>,
        is_going: bool,
        policies: Option<Vec<Found<AccessPolicy>>>,
    ) -> Vec<DoctorWord> {
        let noon = "2026-01-01T12:00:00Z";
        let binding = json!({
            "metadata": {
                "name": "standing", "namespace": "tools", "creationTimestamp": created,
                "deletionTimestamp": is_going.then_some(noon),
                "labels": {
                    "app.kubernetes.io/managed-by": "connectors-approval",
                    "connectors.alauda.io/accessPolicyUid": "uid-of-no-policy",
                },
            },
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "standing"},
        });
        let read = DoctorRead {
            policies,
            requests: Some(Vec::new()),
            bindings: Some(vec![Ok(serde_json::from_value(binding).unwrap())]),
            ..DoctorRead::default()
        };
        let findings = examine(&read, noon.parse().unwrap());
        findings.iter().map(|it| it.word).collect()
    }

    /// Access would be deleted that a policy still gives.
    #[test]
    fn a_binding_of_a_policy_that_is_there_is_no_orphan_whether_it_can_be_read_or_not() {
        let metadata = |uid: &str| json!({"name": "p", "namespace": "tools", "uid": uid});
        let readable = |uid: &str| {
            let policy = json!({"apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
                "metadata": metadata(uid), "spec": {}});
            Ok(serde_json::from_value(policy).unwrap())
        };
        let unreadable = |uid: &str| {
            Err(Box::new(Unreadable {
                metadata: serde_json::from_value(metadata(uid)).unwrap(),
                problem: "unknown field".to_owned(),
            }))
        };
        let (own, other) = ("uid-of-no-policy", "uid-of-no-policy-2");
        let is_orphan = |policies: Option<Vec<Found<AccessPolicy>>>| {
            words_beside(None, false, policies).contains(&DoctorWord::GrantOrphaned)
        };
        assert!(!is_orphan(None));
        assert!(is_orphan(Some(vec![])));
        for (policies, expected) in [
            (vec![readable(own)], false),
            (vec![unreadable(own)], false),
            (vec![readable(other), unreadable(other)], true),
            (vec![readable(other), unreadable(own)], false),
            (vec![unreadable(other), readable(own)], false),
        ] {
            assert_eq!(is_orphan(Some(policies)), expected);
        }
    }

    /// The lists of policies and bindings are not of one moment, and the finding has a command that deletes.
    #[test]
    fn a_binding_without_its_policy_is_an_orphan_once_it_is_old() {
        let orphan = [DoctorWord::GrantOrphaned];
        assert_eq!(words(None, false), orphan);
        assert_eq!(words(Some("2026-01-01T11:58:59Z"), false), orphan);
        assert_eq!(words(Some("2026-01-01T11:58:59Z"), true), []);
        assert_eq!(words(Some("2026-01-01T11:59:59Z"), false), []);
    }
}
