//! Whether a cluster has a kind, and how its objects are requested.

use std::time::Duration;

use kube::{
    Client,
    api::GroupVersionKind,
    core::{ApiResource, GroupVersion},
    discovery::{self, Scope},
};
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

/// The current answer of the API server about a kind; none if it does not answer.
pub async fn served(client: &Client, api_version: &str, kind: &str) -> Option<Served> {
    let Ok(GroupVersion { group, version, .. }) = api_version.parse::<GroupVersion>() else {
        return Some(Served::Missing);
    };
    let gvk = GroupVersionKind::gvk(&group, &version, kind);
    match timeout(LIMIT, discovery::pinned_kind(client, &gvk)).await {
        Ok(Ok((_, capabilities))) if capabilities.scope == Scope::Cluster => {
            Some(Served::ClusterScoped)
        }
        Ok(Ok((resource, _))) => Some(Served::Namespaced(resource)),
        Ok(Err(kube::Error::Discovery(error))) => {
            debug!(kind, error = report(&error), "kind not found");
            Some(Served::Missing)
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Some(Served::Missing),
        Ok(Err(_)) | Err(_) => None,
    }
}
