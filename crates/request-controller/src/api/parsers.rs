//! Parsers from the text of an object to a value.

use connectors_api::{AccessPolicy, AccessRequest, names::SCHEDULING_GATE, parse};
use k8s_openapi::api::core::v1::{
    CSIVolumeSource, Pod, PodSchedulingGate, PodSpec, PodStatus, Volume,
};
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
    scheduling_gates: Option<Vec<PodSchedulingGate>>,
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
        let mut gates = spec.scheduling_gates.unwrap_or_default();
        // The gates of others are no matter of ours.
        gates.retain(|it| it.name == SCHEDULING_GATE);
        Ok(Pod {
            metadata: metadata.into(),
            spec: Some(PodSpec {
                service_account_name: spec.service_account_name,
                scheduling_gates: Some(gates).filter(|it| !it.is_empty()),
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: status.phase,
                ..PodStatus::default()
            }),
        })
    }
}

/// The fields of a pod with the scheduling gate that decisions about it need: account, gates, and volumes of drivers.
#[derive(Clone, Copy, Debug)]
pub enum GatedPodFields {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GatedPodText {
    metadata: Identity,
    spec: GatedPodSpecText,
    status: PodStatusText,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GatedPodSpecText {
    service_account_name: Option<String>,
    scheduling_gates: Option<Vec<PodSchedulingGate>>,
    volumes: Option<Vec<VolumeText>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeText {
    name: String,
    csi: Option<CSIVolumeSource>,
}

impl Parse<Pod> for GatedPodFields {
    fn parse(json: &str) -> Result<Pod, String> {
        let GatedPodText {
            metadata,
            spec,
            status,
        } = read(json)?;
        let of_drivers = spec.volumes.into_iter().flatten();
        let of_drivers = of_drivers.filter(|it| it.csi.is_some());
        let volumes = of_drivers.map(|VolumeText { name, csi }| Volume {
            name,
            csi,
            ..Volume::default()
        });
        Ok(Pod {
            metadata: metadata.into(),
            spec: Some(PodSpec {
                service_account_name: spec.service_account_name,
                scheduling_gates: spec.scheduling_gates,
                volumes: Some(volumes.collect()),
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

    #[test]
    fn a_pod_has_our_gate_or_none() {
        let gates = |gates: serde_json::Value| {
            let pod = json!({"spec": {"schedulingGates": gates}});
            let pod = PodFields::parse(&pod.to_string()).unwrap();
            pod.spec.unwrap().scheduling_gates.map(|it| it.len())
        };
        let (ours, others) = (
            json!({"name": "connectors.alauda.io/approval"}),
            json!({"name": "example.com/quota"}),
        );
        assert_eq!(gates(json!([others, ours])), Some(1));
        for none in [json!(null), json!([]), json!([others])] {
            assert_eq!(gates(none.clone()), None, "{none}");
        }
    }

    #[test]
    fn of_a_gated_pod_the_volumes_of_drivers_are_read() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "apps", "uid": "u"},
            "spec": {
                "serviceAccountName": "builder", "schedulingGates": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "c"}],
                "volumes": [
                    {"name": "secret", "secret": {"secretName": "s"}},
                    {"name": "tool", "csi": {"driver": "connectors-csi", "readOnly": true,
                        "volumeAttributes": {"connectors": "harbor"}}},
                ],
            },
        });
        let pod = GatedPodFields::parse(&pod.to_string()).unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("builder"));
        assert_eq!(spec.scheduling_gates.unwrap().len(), 2);
        assert!(spec.containers.is_empty());
        let volumes = spec.volumes.unwrap();
        assert_eq!((volumes.len(), volumes[0].name.as_str()), (1, "tool"));
        assert!(volumes[0].csi.as_ref().unwrap().volume_attributes.is_some());
        let bare = GatedPodFields::parse("{}").unwrap();
        assert_eq!(bare.spec.unwrap().volumes, Some(vec![]));
    }
}
