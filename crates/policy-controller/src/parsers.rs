//! How the text of a policy becomes a value.

use connectors_api::{AccessPolicy, parse};
use serde_json::Value;
use service_kit::watches::Parse;

/// Our own kind: an unknown field is an error, because ignoring it could widen access.
#[derive(Clone, Copy, Debug)]
pub enum Strict {}

impl Parse<AccessPolicy> for Strict {
    fn parse(json: &str) -> Result<AccessPolicy, String> {
        // Without the words of the parser, which may quote the text.
        let value: Value = serde_json::from_str(json)
            .map_err(|error| format!("no JSON that can be read, at column {}", error.column()))?;
        let mut policy: AccessPolicy = parse::object(&value).map_err(|error| error.to_string())?;
        policy.metadata.managed_fields = None;
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_with_a_field_that_nobody_knows_is_no_policy() {
        let json = r#"{"metadata": {"name": "p"}, "spec": {"connector": {"name": ["a"]}, "defaultPermission": {}}}"#;
        let problem = Strict::parse(json).unwrap_err();
        assert!(problem.starts_with("spec.connector.name"), "{problem}");
    }
}
