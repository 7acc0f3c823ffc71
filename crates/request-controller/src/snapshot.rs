//! A policy as a request's status keeps it.

use connectors_api::{AccessPolicy, access_policy::CheckGrantedPermission, names};
use serde_json::{Map, Value, json};

/// A policy as it is kept with a grant: the same shape, without what plays no part in it.
#[must_use]
pub fn snapshot(policy: &AccessPolicy) -> Map<String, Value> {
    let mut snapshot = identity(policy);
    let spec = json!({
        "permission": policy.spec.permission,
        "checkGrantedPermission": policy.spec.check_granted_permission,
    });
    snapshot.insert("spec".to_owned(), spec);
    snapshot
}

/// What a status shows of a policy while its checks are awaited: no more than which one it is.
#[must_use]
pub fn identity(policy: &AccessPolicy) -> Map<String, Value> {
    let metadata = &policy.metadata;
    let identity = json!({
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "generation": metadata.generation,
    });
    Map::from_iter([
        ("apiVersion".to_owned(), names::API_VERSION.into()),
        ("kind".to_owned(), "AccessPolicy".into()),
        ("metadata".to_owned(), identity),
    ])
}

/// The same of what was kept of a policy.
#[must_use]
pub fn identity_of(snapshot: &Map<String, Value>) -> Map<String, Value> {
    let mut identity = snapshot.clone();
    identity.remove("spec");
    identity
}

/// The part of a snapshot that is evaluated. None if it cannot be read.
#[must_use]
pub fn frozen(snapshot: &Map<String, Value>) -> Option<CheckGrantedPermission> {
    let granted = snapshot.get("spec")?.get("checkGrantedPermission")?;
    serde_json::from_value(granted.clone()).ok()
}

/// Whether a policy grants under the same conditions as when it was kept with a grant.
#[must_use]
pub fn is_same(kept: &Map<String, Value>, policy: &AccessPolicy) -> bool {
    let now = snapshot(policy);
    let permission = |it: &Map<String, Value>| it.get("spec")?.get("permission").cloned();
    // Compared as it is read: what is absent and what has its default say the same.
    let conditions = |it| frozen(it).and_then(|it| serde_json::to_value(it).ok());
    conditions(kept).is_some()
        && conditions(kept) == conditions(&now)
        && permission(kept) == permission(&now)
}
