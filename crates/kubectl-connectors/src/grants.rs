//! `grants`: the pods that have access now, their approvers, and the ends of the grants.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::{GrantState, MatchedPolicy};
use connectors_api::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID};
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::{AccessRequest, Permission};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::RoleBinding;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bindings::{facts, label};
use crate::explain::report::EndShown;
use crate::explain::{end_text, ends_of_grant};
use crate::output::{Cell, Colours, Tone, table};
use crate::reads::Found;
use crate::terms::{NamespacedName, seconds, span};

/// The age of a binding from which its request must be there. The lists of both are not of the same moment.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// The grants of a namespace, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantList {
    /// The grants, the oldest first.
    pub grants: Vec<GrantRow>,
    /// Bindings of grants that no request describes. The request-controller deletes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<NamespacedName>,
}

/// The grant of one policy for one pod.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantRow {
    /// The request.
    pub request: NamespacedName,
    /// The policy.
    pub policy: String,
    /// The connector, in the same namespace.
    pub connector: String,
    /// The permission.
    pub permission: Permission,
    /// The pod.
    pub pod: NamespacedName,
    /// The service account, in the pod's namespace.
    pub account: String,
    /// Whether its RoleBinding is there.
    pub in_force: InForce,
    /// When it was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Timestamp>,
    /// The seconds since then.
    pub seconds: i64,
    /// When it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The users who approved, where the check objects record them.
    pub approvers: Vec<String>,
    /// The check objects that it rests on, as kind, namespace and name.
    pub evidence: Vec<String>,
    /// The ends of the grant.
    pub ends: Vec<EndShown>,
}

/// Whether the RoleBinding of a grant is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum InForce {
    /// It is, so the API server says yes.
    Yes,
    /// It is not, or it does not count any more.
    No,
    /// Bindings could not be read.
    Unknown,
}

/// The grants in force, at this time. Without bindings it is not known whether they are in force.
#[must_use]
pub fn list(
    requests: &[Found<AccessRequest>],
    bindings: Option<&[Found<RoleBinding>]>,
    connector: Option<&str>,
    now: Timestamp,
) -> GrantList {
    let bindings = bindings.map(|it| it.iter().flatten().collect::<Vec<_>>());
    let mut by_request: BTreeMap<&str, Vec<&RoleBinding>> = BTreeMap::new();
    for binding in bindings.iter().flatten() {
        if let Some(uid) = label(binding, ACCESS_REQUEST_UID) {
            by_request.entry(uid).or_default().push(binding);
        }
    }
    let mut listed = GrantList::default();
    for request in requests.iter().flatten() {
        let uid = request.uid().unwrap_or_default();
        let of = by_request.get(uid).map_or(&[][..], Vec::as_slice);
        for policy in request.status.iter().flat_map(|it| &it.policies) {
            let state = policy.grant.as_ref().map(|it| it.state);
            let its = of
                .iter()
                .filter(|it| label(it, ACCESS_POLICY_UID) == Some(policy.uid()));
            let its: Vec<_> = its.collect();
            if state != Some(GrantState::Granted) {
                continue;
            }
            if connector.is_some_and(|it| it != request.spec.connector_ref.name) {
                continue;
            }
            let lets_in = |it: &RoleBinding| facts(it).lets_in(request, request.pod_name(), now);
            let in_force = match &bindings {
                None => InForce::Unknown,
                Some(_) if its.iter().any(|it| lets_in(it)) => InForce::Yes,
                Some(_) => InForce::No,
            };
            listed.grants.push(row(request, policy, in_force, now));
        }
    }
    // A request that ended keeps its bindings for a moment, until the controller has deleted them.
    let known: BTreeSet<&str> = requests
        .iter()
        .filter_map(|it| match it {
            Ok(request) => request.metadata.uid.as_deref(),
            Err(unreadable) => unreadable.metadata.uid.as_deref(),
        })
        .collect();
    if connector.is_none() {
        let grants = by_request.into_iter();
        let orphans = grants.filter(|(uid, _)| !known.contains(uid));
        let orphans = orphans.flat_map(|(_, bindings)| bindings);
        let orphans = orphans.filter(|it| {
            let metadata = &it.metadata;
            let created = metadata.creation_timestamp.as_ref();
            let is_old = created.is_none_or(|it| it.0 + PATIENCE < now);
            is_old && metadata.deletion_timestamp.is_none()
        });
        listed.orphans = orphans
            .map(|it| {
                let metadata = &it.metadata;
                NamespacedName::new(
                    metadata.namespace.as_deref().unwrap_or_default(),
                    metadata.name.as_deref().unwrap_or_default(),
                )
            })
            .collect();
        listed.orphans.sort();
    }
    listed
        .grants
        .sort_by(|a, b| (a.granted, &a.request).cmp(&(b.granted, &b.request)));
    listed
}

fn row(
    request: &AccessRequest,
    policy: &MatchedPolicy,
    in_force: InForce,
    now: Timestamp,
) -> GrantRow {
    let spec = &request.spec;
    let pod = &spec.context.object_ref;
    let grant = policy.grant.as_ref();
    let granted = grant.and_then(|it| it.granted_at);
    let statuses = policy.check_refs.iter().filter_map(|it| it.status.as_ref());
    let approvers: BTreeSet<&String> = statuses.flat_map(|it| &it.approved_by).collect();
    let objects = policy.check_refs.iter().filter_map(|it| it.ref_.as_ref());
    let evidence = objects.map(|it| {
        let namespace = it.namespace.as_deref().unwrap_or(&pod.namespace);
        format!("{} {namespace}/{}", it.kind, it.name)
    });
    GrantRow {
        request: NamespacedName::new(
            request.namespace(),
            request.metadata.name.as_deref().unwrap_or_default(),
        ),
        policy: policy.name().to_owned(),
        connector: spec.connector_ref.name.clone(),
        permission: spec.permission,
        pod: NamespacedName::new(&pod.namespace, &pod.name),
        account: spec.subject.name.clone(),
        in_force,
        granted,
        seconds: granted.map_or(0, |it| seconds(it, now)),
        expires: grant.and_then(|it| it.expires_at),
        approvers: approvers.into_iter().cloned().collect(),
        evidence: evidence.collect(),
        ends: ends_of_grant(policy, &spec.connector_ref.name),
    }
}

/// The same for people.
#[must_use]
pub fn text(listed: &GrantList, now: Timestamp, colours: Colours) -> String {
    let cells = |row: &GrantRow| {
        let expires = row.expires.map_or_else(
            || "with the pod".to_owned(),
            |at| span(at.duration_since(now).as_secs()),
        );
        let (tone, word) = match row.in_force {
            InForce::Yes => (Tone::Good, "yes"),
            InForce::No => (Tone::Bad, "no"),
            InForce::Unknown => (Tone::Dim, "not known"),
        };
        vec![
            Cell::from(format!("{}/{}", row.request.namespace, row.connector)),
            row.pod.to_string().into(),
            row.policy.clone().into(),
            Cell::new(tone, word),
            span(row.seconds).into(),
            expires.into(),
            row.approvers.join(", ").into(),
            row.evidence.join(", ").into(),
        ]
    };
    let rows: Vec<_> = listed.grants.iter().map(cells).collect();
    let head = [
        "CONNECTOR",
        "POD",
        "POLICY",
        "IN FORCE",
        "AGE",
        "ENDS IN",
        "APPROVED BY",
        "RESTS ON",
    ];
    let mut text = if rows.is_empty() {
        "no grants\n".to_owned()
    } else {
        table(&head, &rows, colours)
    };
    for grant in &listed.grants {
        let ends = grant.ends.iter().map(|it| end_text(it, now));
        let ends: Vec<_> = ends.collect();
        let line = format!("{} ends when {}", grant.pod, ends.join("; or "));
        text.push_str(&colours.paint(Tone::Dim, &line));
        text.push('\n');
    }
    for orphan in &listed.orphans {
        let line = format!(
            "RoleBinding {orphan} belongs to no request; the request-controller deletes it when it runs"
        );
        text.push_str(&colours.paint(Tone::Bad, &line));
        text.push('\n');
    }
    text
}
