//! What pods of another namespace than the connector's are told.
//!
//! One text whatever the reason: a connector that is missing, a policy that is, one that does not accept the
//! asker, and a request that waits for an approval all look the same from there.

/// The sentence about access that is not granted yet.
#[must_use]
pub fn waits_elsewhere(namespace: &str, connector: &str) -> String {
    format!(
        "connector {namespace}/{connector}: access is not granted yet; whoever looks after namespace {namespace} can tell more"
    )
}
