//! The real objects behind the small values of a state, as the API server and the evaluation service would
//! return them.

use connectors_api::{
    AccessPolicy, AccessRequest,
    access_request::{AccessRequestStatus, GrantState, GrantedRule, MatchedPolicy, PolicyGrant},
    opaque::Opaque,
    reason::AccessCheckReady,
};
use evaluation_api::{
    v1::{self, CheckResult, EvaluateChecksResponse, ObjectResult},
    verdict,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::Role;
use request_controller::{
    grant,
    seen::{GrantKind, Managed, ManagedObject},
    snapshot,
};
use serde_json::{Value, json};

use super::world::{Check, Connector, Kind, Late, NAMES_OF_SLOT, PolicyLife, RequestId};

/// The namespace of the connector, the policies and the requests.
pub(super) const NAMESPACE: &str = "tools";
/// The namespace of the pods.
pub(super) const HOME: &str = "apps";
/// The service account of the pods.
pub(super) const ACCOUNT: &str = "builder";
/// The connector.
pub(super) const CONNECTOR: &str = "harbor";
const KIND: (&str, &str) = ("example.com/v1", "Approval");

/// The time of the start.
#[must_use]
pub(super) fn beginning() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
}

/// The time on the wall clock.
#[must_use]
pub(super) fn wall(late: Late) -> Timestamp {
    let passed = match late {
        Late::No => SignedDuration::from_secs(30),
        Late::Minute => SignedDuration::from_secs(90),
        Late::Days => SignedDuration::from_hours(24 * 8),
    };
    beginning() + passed
}

/// The name of a pod.
#[must_use]
pub(super) fn pod_name(slot: usize) -> String {
    format!("job-{slot}")
}

/// The UID of a pod.
#[must_use]
pub(super) fn pod_uid(slot: usize, generation: u8) -> String {
    format!("pod-{slot}-{generation}")
}

/// The name of a request.
#[must_use]
pub(super) fn request_name(name: u8) -> String {
    let slot = usize::from(name) / NAMES_OF_SLOT;
    match usize::from(name) % NAMES_OF_SLOT {
        0 => format!("of-pod-{slot}-0"),
        1 => format!("of-pod-{slot}-1"),
        _ => format!("another-of-pod-{slot}-0"),
    }
}

/// The UID of a request.
#[must_use]
pub(super) fn request_uid(id: RequestId) -> String {
    format!("{}-uid-{}", request_name(id.name), id.incarnation)
}

/// The UID of a policy.
#[must_use]
pub(super) fn policy_uid(policy: u8) -> String {
    format!("policy-{policy}-uid")
}

/// The UID of the connector.
#[must_use]
pub(super) const fn connector_uid(connector: Connector) -> Option<&'static str> {
    match connector {
        Connector::First => Some("connector-uid-0"),
        Connector::Gone => None,
        Connector::Second => Some("connector-uid-1"),
    }
}

/// The creation time of a request, in seconds: the first of its name, the second one for the pod, then the
/// same for later incarnations.
#[must_use]
pub(super) fn made(id: RequestId) -> i64 {
    let second = usize::from(id.name) % NAMES_OF_SLOT == 2;
    10 * i64::from(id.incarnation) + 5 * i64::from(second)
}

/// A request.
#[must_use]
pub(super) fn request(
    id: RequestId,
    status: Option<&AccessRequestStatus>,
) -> Option<AccessRequest> {
    let created = beginning() + SignedDuration::from_secs(made(id));
    let mut request: AccessRequest = serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1",
        "kind": "AccessRequest",
        "metadata": {
            "name": request_name(id.name), "namespace": NAMESPACE, "uid": request_uid(id),
            "resourceVersion": "1", "generation": 1, "creationTimestamp": created.to_string(),
        },
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": ACCOUNT},
            "connectorRef": {"name": CONNECTOR},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": HOME, "name": pod_name(id.slot()),
                "uid": pod_uid(id.slot(), id.generation()),
            }},
        },
    }))
    .ok()?;
    request.status = status.cloned();
    Some(request)
}

/// A policy. The first ignores the deletion of its check object and limits the waiting time. The second
/// requires the object to exist and grants for an hour.
#[must_use]
pub(super) fn policy(policy: u8, life: PolicyLife) -> Option<AccessPolicy> {
    let form = form_of(life)?;
    let (latch, limits) = match policy {
        0 => ("Auto", json!({"pendingTimeout": "24h"})),
        _ => ("WhileHolds", json!({"maxDuration": "1h"})),
    };
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1",
        "kind": "AccessPolicy",
        "metadata": {
            "name": format!("policy-{policy}"), "namespace": NAMESPACE, "uid": policy_uid(policy),
            "generation": form,
        },
        "spec": {"checkGrantedPermission": {
            "requesters": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": HOME}],
            "spec": {
                "checks": [{"name": "approval", "latch": latch, "selector": {
                    "labels": {"run": "{.object.metadata.name}"},
                    "objectRef": {"apiVersion": KIND.0, "kind": KIND.1},
                }}],
                "permissions": {"roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"], "verbs": verbs(form),
                    "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                }]}},
                "limits": limits,
            },
        }},
    }))
    .ok()
}

/// The rules that a policy grants, as a number.
#[must_use]
pub(super) const fn form_of(life: PolicyLife) -> Option<u8> {
    match life {
        PolicyLife::There => Some(1),
        PolicyLife::Edited => Some(2),
        PolicyLife::Deleted => None,
    }
}

const fn verbs(form: u8) -> &'static [&'static str] {
    match form {
        1 => &["*"],
        _ => &["*", "get"],
    }
}

fn rules(slot: usize, form: u8) -> (String, Vec<String>) {
    let resource = format!("connectors/apis/v1/pod/{HOME}/{}", pod_name(slot));
    (
        resource,
        verbs(form).iter().map(|&verb| verb.to_owned()).collect(),
    )
}

/// The number of the rules of a Role.
#[must_use]
pub(super) fn form(role: &Role) -> u8 {
    let rules = role.rules.iter().flatten();
    let verbs = rules.flat_map(|rule| &rule.verbs).count();
    if verbs == 1 { 1 } else { 2 }
}

/// The pod in the form that templates use.
#[must_use]
pub(super) fn pod(slot: usize, generation: u8) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod_name(slot), "namespace": HOME, "uid": pod_uid(slot, generation)},
        "spec": {"serviceAccountName": ACCOUNT},
    })
}

/// A check object; none if it is deleted.
#[must_use]
pub(super) fn approval(slot: usize, policy: u8, check: Check) -> Option<Value> {
    let state = word(check)?;
    Some(json!({
        "apiVersion": KIND.0, "kind": KIND.1,
        "metadata": {
            "name": format!("approval-{slot}-{policy}"), "namespace": HOME,
            "uid": approval_uid(slot, policy), "labels": {"run": pod_name(slot)},
        },
        "status": {"state": state},
    }))
}

/// The UID of a check object.
#[must_use]
pub(super) fn approval_uid(slot: usize, policy: u8) -> String {
    format!("approval-{slot}-{policy}-uid")
}

const fn word(check: Check) -> Option<&'static str> {
    match check {
        Check::Pending => Some("pending"),
        Check::Approved => Some("approved"),
        Check::Rejected => Some("rejected"),
        Check::Deleted => None,
    }
}

/// The answer of the evaluation service about one check, when it answers.
#[must_use]
pub(super) fn said(
    slot: usize,
    policy: u8,
    check: Check,
    form: u8,
) -> Option<EvaluateChecksResponse> {
    let state = word(check)?;
    let says = match check {
        Check::Approved => AccessCheckReady::AccessCheckPassed,
        Check::Rejected => AccessCheckReady::AccessCheckRejected,
        Check::Pending | Check::Deleted => AccessCheckReady::AccessCheckPending,
    };
    let wire = verdict::to_wire(says).into();
    let (resource, verbs) = rules(slot, form);
    let passed = says == AccessCheckReady::AccessCheckPassed;
    Some(EvaluateChecksResponse {
        verdict: wire,
        checks: vec![CheckResult {
            check: "approval".to_owned(),
            verdict: wire,
            reason: "Word".to_owned(),
            message: state.to_owned(),
            objects: vec![ObjectResult {
                api_version: KIND.0.to_owned(),
                kind: KIND.1.to_owned(),
                namespace: HOME.to_owned(),
                name: format!("approval-{slot}-{policy}"),
                uid: approval_uid(slot, policy),
                resource_version: "1".to_owned(),
                state: state.to_owned(),
                verdict: wire,
                reason: "Word".to_owned(),
                message: state.to_owned(),
                approved_by: vec![],
                approvals: vec![],
                lineage: vec![],
                run_creator: String::new(),
            }],
        }],
        rules: if passed {
            vec![v1::GrantedRule {
                resources: vec![resource],
                verbs,
            }]
        } else {
            vec![]
        },
        rules_reason: String::new(),
        rules_message: String::new(),
    })
}

/// A Role or RoleBinding as it is stored: built by the production code from a status entry that grants it.
#[must_use]
pub(super) fn managed(id: RequestId, policy: u8, kind: Kind, form: u8) -> Option<Managed> {
    let life = if form == 2 {
        PolicyLife::Edited
    } else {
        PolicyLife::There
    };
    let (resource, verbs) = rules(id.slot(), form);
    let entry = MatchedPolicy {
        policy: Opaque(snapshot::snapshot(&self::policy(policy, life)?)),
        check_refs: vec![],
        check_refs_left_out: None,
        prepared_rules: vec![],
        grant: Some(PolicyGrant {
            state: GrantState::Granting,
            reason: None,
            rules: vec![GrantedRule {
                resources: vec![resource],
                verbs,
            }],
            granted_at: None,
            expires_at: None,
            ended_at: None,
        }),
    };
    let grant = grant::of_entry(&request(id, None)?, &entry)?;
    let (mut metadata, object) = match kind {
        Kind::Role => (
            grant.role.metadata.clone(),
            ManagedObject::Role(Ok(grant.role)),
        ),
        Kind::Binding => (
            grant.binding.metadata.clone(),
            ManagedObject::RoleBinding(Ok(grant.binding)),
        ),
    };
    let kind: GrantKind = real(kind);
    metadata.uid = Some(format!("{}-uid", kind.as_str()));
    Some(Managed { object, metadata })
}

/// The kind in the controller's type.
#[must_use]
pub(super) const fn real(kind: Kind) -> GrantKind {
    match kind {
        Kind::Binding => GrantKind::RoleBinding,
        Kind::Role => GrantKind::Role,
    }
}
