//! `grants`: the pods that have access now, their approvers, and the ends of the grants.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::{GrantState, MatchedPolicy};
use connectors_api::labels::{ACCESS_POLICY_UID, ACCESS_REQUEST_UID};
use connectors_api::pod_grant::RequestFacts;
use connectors_api::{AccessRequest, Permission};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::RoleBinding;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bindings::{facts, label};
use crate::deciding;
use crate::explain::report::EndShown;
use crate::explain::{end_text, ends_of_grant};
use crate::output::{Cell, Colours, Tone, table};
use crate::reads::Found;
use crate::terms::{NamespacedName, seconds, span};

/// The age from which an object must be in the list of another kind. The lists of both are not of the same moment.
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

/// Whether the RoleBinding of a grant is there, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum InForce {
    /// It is, so the API server says yes.
    Yes,
    /// It is not, or it does not count any more.
    No,
    /// Bindings could not be read, or the grant is newer than their list.
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
    let deciding: BTreeSet<&str> = deciding::of_each(requests.iter().flatten())
        .filter_map(RequestFacts::uid)
        .collect();
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
            let granted = policy.grant.as_ref().and_then(|it| it.granted_at);
            let in_force = match &bindings {
                None => InForce::Unknown,
                // The services let no pod in beside the request that decides for it.
                Some(_) if !deciding.contains(uid) => InForce::No,
                Some(_) if its.iter().any(|it| lets_in(it)) => InForce::Yes,
                // Its binding may be newer than the list of bindings.
                Some(_) if its.is_empty() && granted.is_some_and(|it| !is_old(it, now)) => {
                    InForce::Unknown
                }
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
            let is_old = created.is_none_or(|it| is_old(it.0, now));
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

/// True when what is this old must be in the list of another kind, read shortly before or after.
pub(crate) fn is_old(created: Timestamp, now: Timestamp) -> bool {
    now.duration_since(created) > PATIENCE
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    const NOON: &str = "2026-01-01T12:00:00Z";

    /// A request that says that access was granted at this time, and that was created at the other.
    fn granted(name: &str, created: &str, granted: &str) -> Value {
        let mut request = testing::request(name, "ci");
        request["metadata"]["creationTimestamp"] = created.into();
        request["status"] = json!({"phase": "Granted", "policies": [{
            "policy": {"metadata": {"name": "p", "uid": "uid-p"}},
            "grant": {"state": "Granted", "grantedAt": granted},
        }]});
        request
    }

    fn binding(of: &str) -> Value {
        json!({"metadata": {"name": of, "namespace": "tools", "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequestUid": of,
            "connectors.alauda.io/accessPolicyUid": "uid-p",
        }}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": of}})
    }

    /// The requests, by the order of their names, with whether their grants are in force at noon.
    fn in_force(requests: &[Value], bindings: &[Value]) -> Vec<(String, InForce)> {
        let requests = requests.iter().cloned();
        let requests: Vec<Found<AccessRequest>> = requests
            .map(|it| Ok(serde_json::from_value(it).unwrap()))
            .collect();
        let bindings = bindings.iter().cloned();
        let bindings: Vec<Found<RoleBinding>> = bindings
            .map(|it| Ok(serde_json::from_value(it).unwrap()))
            .collect();
        let listed = list(&requests, Some(&bindings), None, NOON.parse().unwrap());
        let grants = listed.grants.into_iter();
        let mut found: Vec<_> = grants.map(|it| (it.request.name, it.in_force)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// The services let a pod in by the request that decides for it alone.
    #[test]
    fn a_grant_of_a_request_that_does_not_decide_for_its_pod_is_not_in_force() {
        let early = "2026-01-01T10:00:00Z";
        let first = granted("a", early, early);
        let second = granted("b", "2026-01-01T11:00:00Z", early);
        let bindings = ["a", "b"].map(binding);
        let named = |name: &str, it: InForce| (name.to_owned(), it);
        let both = in_force(&[first.clone(), second.clone()], &bindings);
        assert_eq!(both, [named("a", InForce::Yes), named("b", InForce::No)]);
        // A rejection decides too.
        let mut rejected = first.clone();
        rejected["status"] = json!({"phase": "Rejected"});
        let beside_a_no = in_force(&[rejected, second.clone()], &bindings);
        assert_eq!(beside_a_no, [named("b", InForce::No)]);
        // A request that is being deleted counts as deleted.
        let mut going = first;
        going["metadata"]["deletionTimestamp"] = NOON.into();
        let beside_one_that_goes = in_force(&[going, second], &bindings);
        let expected = [named("a", InForce::No), named("b", InForce::Yes)];
        assert_eq!(beside_one_that_goes, expected);
    }

    /// Bindings are listed before the requests, and a grant may come between the two lists.
    #[test]
    fn a_grant_without_its_binding_is_not_accused_before_it_is_old() {
        let created = "2026-01-01T11:00:00Z";
        for (at, bindings, expected) in [
            ("2026-01-01T11:58:59Z", &[][..], InForce::No),
            ("2026-01-01T11:59:59Z", &[], InForce::Unknown),
            ("2026-01-01T11:59:59Z", &[binding("a")], InForce::Yes),
        ] {
            let found = in_force(&[granted("a", created, at)], bindings);
            assert_eq!(found, [("a".to_owned(), expected)], "{at} {bindings:?}");
        }
    }

    /// Each row changes one thing of a binding that lets the pod in.
    #[test]
    fn a_binding_of_another_request_policy_or_installation_puts_no_grant_in_force() {
        type Change = fn(&mut Value);
        let rows: [(&str, Change, InForce); 6] = [
            ("nothing", |_| (), InForce::Yes),
            (
                "another request",
                |it| it["metadata"]["labels"]["connectors.alauda.io/accessRequestUid"] = "b".into(),
                InForce::No,
            ),
            (
                "another policy",
                |it| {
                    it["metadata"]["labels"]["connectors.alauda.io/accessPolicyUid"] =
                        "uid-p2".into();
                },
                InForce::No,
            ),
            (
                "another writer",
                |it| {
                    it["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "someone".into();
                },
                InForce::No,
            ),
            (
                "another namespace",
                |it| it["metadata"]["namespace"] = "tools2".into(),
                InForce::No,
            ),
            (
                "it is being deleted",
                |it| it["metadata"]["deletionTimestamp"] = NOON.into(),
                InForce::No,
            ),
        ];
        let early = "2026-01-01T10:00:00Z";
        for (what, change, expected) in rows {
            let mut changed = binding("a");
            change(&mut changed);
            let found = in_force(&[granted("a", early, early)], &[changed]);
            assert_eq!(found, [("a".to_owned(), expected)], "{what}");
        }
    }

    #[test]
    fn the_patience_with_a_grant_ends_behind_its_limit() {
        let created = "2026-01-01T11:00:00Z";
        for (at, expected) in [
            ("2026-01-01T11:59:00.001Z", InForce::Unknown),
            ("2026-01-01T11:59:00Z", InForce::Unknown),
            ("2026-01-01T11:58:59.999Z", InForce::No),
            // A clock that goes behind.
            ("2026-01-01T12:30:00Z", InForce::Unknown),
        ] {
            let found = in_force(&[granted("a", created, at)], &[]);
            assert_eq!(found, [("a".to_owned(), expected)], "{at}");
        }
    }

    /// The controller deletes a binding only if no request is there, also none that cannot be understood.
    #[test]
    fn bindings_belong_to_none_if_no_request_of_any_kind_has_their_uid() {
        let unreadable = |uid: &str| {
            let metadata = json!({"name": uid, "namespace": "tools", "uid": uid});
            Err(Box::new(service_kit::watches::Unreadable {
                metadata: serde_json::from_value(metadata).unwrap(),
                problem: "unknown field".to_owned(),
            }))
        };
        let early = "2026-01-01T10:00:00Z";
        let known = serde_json::from_value(granted("a", early, early)).unwrap();
        let requests: Vec<Found<AccessRequest>> = vec![Ok(known), unreadable("b")];
        let mut going = binding("gone-3");
        going["metadata"]["deletionTimestamp"] = NOON.into();
        let mut without_label = binding("gone-4");
        without_label["metadata"]["labels"] = json!({});
        let names = ["b", "gone-2", "a", "gone-1", "aa"];
        let bindings = names.into_iter().map(binding);
        let bindings = bindings.chain([going, without_label]);
        let bindings: Vec<Found<RoleBinding>> = bindings
            .map(|it| Ok(serde_json::from_value(it).unwrap()))
            .collect();
        let now = NOON.parse().unwrap();
        let orphans = |connector: Option<&str>| {
            let listed = list(&requests, Some(&bindings), connector, now);
            let names = listed.orphans.into_iter().map(|it| it.name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(orphans(None), ["aa", "gone-1", "gone-2"]);
        // Nothing says of which connector they are.
        assert_eq!(orphans(Some("harbor")), [""; 0]);
    }

    #[test]
    fn the_grants_of_one_connector_are_those_of_its_whole_name_and_in_force_alone_is_unknown() {
        let early = "2026-01-01T10:00:00Z";
        let rows = ["harbor", "harbor2", "Harbor", "arbor"].map(|connector| {
            let mut request = granted(connector, early, early);
            request["spec"]["connectorRef"]["name"] = connector.into();
            request
        });
        let requests = rows.map(|it| Ok(serde_json::from_value(it).unwrap()));
        let now = NOON.parse().unwrap();
        let named = |connector: Option<&str>| {
            let listed = list(&requests, None, connector, now);
            let all = listed.grants.iter();
            assert!(all.clone().all(|it| it.in_force == InForce::Unknown));
            all.map(|it| it.connector.clone()).collect::<Vec<_>>()
        };
        assert_eq!(named(Some("harbor")), ["harbor"]);
        assert_eq!(named(None).len(), 4);
    }

    /// Evidence of a grant that has ended lets no pod in.
    #[test]
    fn only_a_grant_that_is_in_force_is_listed_and_each_policy_has_its_own() {
        let early = "2026-01-01T10:00:00Z";
        let mut request = granted("a", early, early);
        let policy = |name: &str, grant: Value| {
            let mut policy =
                json!({"policy": {"metadata": {"name": name, "uid": format!("uid-{name}")}}});
            if !grant.is_null() {
                policy["grant"] = grant;
            }
            policy
        };
        request["status"]["policies"] = json!([
            policy("ended", json!({"state": "Ended", "grantedAt": early})),
            policy("p", json!({"state": "Granted", "grantedAt": early})),
            policy("q", json!({"state": "Granted", "grantedAt": early})),
            policy("writing", json!({"state": "Granting"})),
            policy("waits", Value::Null),
        ]);
        let requests = [Ok(serde_json::from_value(request).unwrap())];
        let bindings = [Ok(serde_json::from_value(binding("a")).unwrap())];
        let listed = list(&requests, Some(&bindings), None, NOON.parse().unwrap());
        let rows = listed.grants.iter();
        let rows: Vec<_> = rows.map(|it| (it.policy.as_str(), it.in_force)).collect();
        assert_eq!(rows, [("p", InForce::Yes), ("q", InForce::No)]);
    }
}
