//! How the text of an object becomes a value.

use connectors_api::{AccessPolicy, AccessRequest, Connector, ConnectorSpec, parse};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod, PodSpec, PodStatus, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use service_kit::watches::Parse;
use std::collections::BTreeMap;

/// Our own kinds: an unknown field is an error, because ignoring it could widen access.
#[derive(Clone, Copy, Debug)]
pub enum Strict {}

impl Parse<AccessRequest> for Strict {
    fn parse(json: &str) -> Result<AccessRequest, String> {
        let value = tree(json)?;
        parse::object(&value).map_err(|error| error.to_string())
    }
}

impl Parse<AccessPolicy> for Strict {
    fn parse(json: &str) -> Result<AccessPolicy, String> {
        let value = tree(json)?;
        parse::object(&value).map_err(|error| error.to_string())
    }
}

/// Without the words of the parser, which may quote the text.
fn tree(json: &str) -> Result<Value, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("no JSON that can be read, at column {}", error.column()))
}

/// Only what an object is called. Whatever else is in it is skipped unread.
#[derive(Clone, Copy, Debug)]
pub enum Named {}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        let Identity {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            creation_timestamp,
            deletion_timestamp,
            owner_references,
        } = identity;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            creation_timestamp,
            deletion_timestamp,
            owner_references,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Identity,
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("cannot be read, at column {}", error.column()))
}

fn metadata(json: &str) -> Result<ObjectMeta, String> {
    Ok(read::<Object>(json)?.metadata.into())
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

/// What matters about a pod; the rest of every pod of a cluster would not fit into memory.
#[derive(Clone, Copy, Debug)]
pub enum PodFields {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodText {
    metadata: Identity,
    spec: PodSpecText,
    status: PodStatusText,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpecText {
    service_account_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatusText {
    phase: Option<String>,
}

impl Parse<Pod> for PodFields {
    fn parse(json: &str) -> Result<Pod, String> {
        let PodText {
            metadata,
            spec,
            status,
        } = read(json)?;
        Ok(Pod {
            metadata: metadata.into(),
            spec: Some(PodSpec {
                service_account_name: spec.service_account_name,
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: status.phase,
                ..PodStatus::default()
            }),
        })
    }
}
