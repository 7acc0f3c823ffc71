//! Parsers from the text of an object to a value.

use connectors_api::{AccessPolicy, AccessRequest, parse};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use serde::Deserialize;
use serde_json::Value;
use service_kit::watches::{Identity, Parse, read};

/// For this product's own kinds: an unknown field is an error, because ignoring it could widen access.
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

/// The parser's own message is left out, because it may quote the text.
fn tree(json: &str) -> Result<Value, String> {
    serde_json::from_str(json)
        .map_err(|error| format!("no JSON that can be read, at column {}", error.column()))
}

/// The fields of a pod that decisions need. All fields of all pods of a cluster would not fit into memory.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_pod_only_account_and_phase_are_read_beside_its_identity() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "apps", "uid": "u"},
            "spec": {"serviceAccountName": "builder", "containers": [{"name": "c"}]},
            "status": {"phase": "Succeeded", "podIP": "10.0.0.1"},
        });
        let pod = PodFields::parse(&pod.to_string()).unwrap();
        assert_eq!(pod.metadata.uid.as_deref(), Some("u"));
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("builder"));
        assert!(spec.containers.is_empty());
        let status = pod.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Succeeded"));
        assert_eq!(status.pod_ip, None);
        let bare = PodFields::parse("{}").unwrap();
        assert_eq!(bare.status.unwrap().phase, None);
    }
}
