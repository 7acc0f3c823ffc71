//! The message for pods of another namespace than the connector's.
//!
//! The text is the same for every reason. From there, a missing connector, a missing policy, a policy that
//! does not accept the asker and a request that waits for an approval all look the same.

/// The message for access that is not granted yet.
#[must_use]
pub fn waits_elsewhere(namespace: &str, connector: &str) -> String {
    format!(
        "connector {namespace}/{connector}: access is not granted yet; whoever looks after namespace {namespace} can tell more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_connector_and_its_namespace() {
        let message = waits_elsewhere("tools", "harbor");
        assert!(message.starts_with("connector tools/harbor: access is not granted yet"));
        assert!(message.contains("namespace tools can"));
    }
}
