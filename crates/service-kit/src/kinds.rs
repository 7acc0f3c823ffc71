//! Whether a cluster has a kind, and how its objects are requested.

use std::time::Duration;

use kube::{
    Client,
    api::{DynamicObject, GroupVersionKind},
    core::{ApiResource, GroupVersion},
    discovery::{self, ApiCapabilities, Scope},
};
use serde_json::Value;
use tokio::time::timeout;
use tracing::debug;

use crate::report;

/// How long a single question may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The answer of a cluster about a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Served {
    /// There is none of this name.
    Missing,
    /// Its objects are in no namespace.
    ClusterScoped,
    /// Its objects are in namespaces.
    Namespaced(ApiResource),
}

/// How a cluster serves a kind, with its capabilities. None if there is no such kind.
pub async fn discovered(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<Option<(ApiResource, ApiCapabilities)>, kube::Error> {
    let Ok(GroupVersion { group, version, .. }) = api_version.parse::<GroupVersion>() else {
        return Ok(None);
    };
    let gvk = GroupVersionKind::gvk(&group, &version, kind);
    match discovery::pinned_kind(client, &gvk).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Discovery(error)) => {
            debug!(kind, error = report(&error), "kind not found");
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The current answer of the API server about a kind; none if it does not answer.
pub async fn served(client: &Client, api_version: &str, kind: &str) -> Option<Served> {
    match timeout(LIMIT, discovered(client, api_version, kind)).await {
        Ok(Ok(Some((_, capabilities)))) if capabilities.scope == Scope::Cluster => {
            Some(Served::ClusterScoped)
        }
        Ok(Ok(Some((resource, _)))) => Some(Served::Namespaced(resource)),
        Ok(Ok(None)) => Some(Served::Missing),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// The whole object, with its kind, which lists omit, and without `managedFields`.
#[must_use]
pub fn whole(mut object: DynamicObject, kind: &ApiResource) -> Value {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(&object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), kind.api_version.clone().into());
        fields.insert("kind".to_owned(), kind.kind.clone().into());
    }
    value
}

#[cfg(test)]
mod tests;
