//! How the text of an object becomes a value: no more of it than decisions need.

use std::collections::BTreeMap;

use connectors_api::{AccessPolicy, Connector, ConnectorSpec, parse};
use k8s_openapi::{
    api::core::v1::{Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::Deserialize;
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

/// What an object is called and its labels. Whatever else is in it is skipped unread.
#[derive(Clone, Copy, Debug)]
pub enum Named {}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<Time>,
}

fn metadata(json: &str) -> Result<ObjectMeta, String> {
    let object: Object = serde_json::from_str(json)
        .map_err(|error| format!("cannot be read, at column {}", error.column()))?;
    let Metadata {
        name,
        namespace,
        uid,
        resource_version,
        labels,
        deletion_timestamp,
    } = object.metadata;
    Ok(ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        labels,
        deletion_timestamp,
        ..ObjectMeta::default()
    })
}

impl Parse<Connector> for Named {
    fn parse(json: &str) -> Result<Connector, String> {
        let mut connector = Connector::new("", ConnectorSpec::default());
        connector.metadata = metadata(json)?;
        Ok(connector)
    }
}

impl Parse<Namespace> for Named {
    fn parse(json: &str) -> Result<Namespace, String> {
        Ok(Namespace {
            metadata: metadata(json)?,
            ..Namespace::default()
        })
    }
}

impl Parse<ServiceAccount> for Named {
    fn parse(json: &str) -> Result<ServiceAccount, String> {
        Ok(ServiceAccount {
            metadata: metadata(json)?,
            ..ServiceAccount::default()
        })
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

    #[test]
    fn of_other_objects_only_names_and_labels_are_kept() {
        let json = r#"{"metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"big": "text"}}, "secrets": 7}"#;
        let account: ServiceAccount = Named::parse(json).unwrap();
        assert_eq!(account.metadata.labels.unwrap()["x"], "y");
        assert_eq!(account.metadata.annotations, None);
    }
}
