//! A policy as a request's status keeps it.

pub use connectors_api::access_request::frozen;
use connectors_api::{AccessPolicy, names};
use serde_json::{Map, Value, json};

/// The snapshot of a policy for a status: the same structure, with only the parts that decisions use.
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

/// The identity of a policy, which is all that a status shows while the checks are pending.
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

/// The identity in a snapshot.
#[must_use]
pub fn identity_of(snapshot: &Map<String, Value>) -> Map<String, Value> {
    let mut identity = snapshot.clone();
    identity.remove("spec");
    identity
}

/// True when a policy has the same conditions as its snapshot.
#[must_use]
pub fn is_same(kept: &Map<String, Value>, policy: &AccessPolicy) -> bool {
    let now = snapshot(policy);
    let permission = |it: &Map<String, Value>| it.get("spec")?.get("permission").cloned();
    // Compared after parsing, so that an absent field and one with its default value are equal.
    let conditions = |it| frozen(it).and_then(|it| serde_json::to_value(it).ok());
    conditions(kept).is_some()
        && conditions(kept) == conditions(&now)
        && permission(kept) == permission(&now)
}
