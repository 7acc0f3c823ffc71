//! The scheduling gate of a pod that mounts connectors: pure.

use std::{borrow::Cow, fmt, marker::PhantomData};

use connectors_api::names::{CSI_DRIVER, SCHEDULING_GATE};
use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::json;

use crate::review::RequestResource;

/// The memory that an answer about a pod takes at most: one word, in a few copies.
pub(crate) const WEIGHT: usize = 1024;

/// The fields of a pod that are read, however large the rest is.
#[derive(Deserialize)]
struct PodReview<'a> {
    #[serde(borrow)]
    spec: PodReviewSpec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodReviewSpec<'a> {
    #[serde(borrow, default)]
    node_name: Option<Cow<'a, str>>,
    /// Null is absent.
    #[serde(default)]
    scheduling_gates: Option<AnyOf<GateReview>>,
    #[serde(default)]
    volumes: Option<AnyOf<VolumeReview>>,
}

#[derive(Deserialize)]
struct GateReview {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VolumeReview {
    #[serde(default)]
    csi: Option<DriverReview>,
}

#[derive(Deserialize)]
struct DriverReview {
    #[serde(default)]
    driver: String,
}

/// An item of a list that may be ours.
trait MaybeOurs {
    fn is_ours(&self) -> bool;
}

impl MaybeOurs for GateReview {
    fn is_ours(&self) -> bool {
        self.name == SCHEDULING_GATE
    }
}

impl MaybeOurs for VolumeReview {
    fn is_ours(&self) -> bool {
        self.csi.as_ref().is_some_and(|it| it.driver == CSI_DRIVER)
    }
}

/// Whether a list has an item of ours. No item is kept.
struct AnyOf<T> {
    is_there: bool,
    items: PhantomData<T>,
}

impl<'de, T: MaybeOurs + Deserialize<'de>> Deserialize<'de> for AnyOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemReader(PhantomData))
    }
}

struct ItemReader<T>(PhantomData<T>);

impl<'de, T: MaybeOurs + Deserialize<'de>> Visitor<'de> for ItemReader<T> {
    type Value = AnyOf<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyOf<T>, A::Error> {
        let mut is_there = false;
        while let Some(item) = items.next_element::<T>()? {
            is_there |= item.is_ours();
        }
        Ok(AnyOf {
            is_there,
            items: PhantomData,
        })
    }
}

/// The resource of pods in reviews.
pub(super) fn pods() -> RequestResource {
    RequestResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "pods".to_owned(),
    }
}

/// The patch that gives a pod the gate, if the pod mounts a connector, is bound to no node and does not have the gate yet.
/// None for an object that cannot be read.
pub(crate) fn gated(pod: &str) -> Option<Patch> {
    let PodReview { spec } = serde_json::from_str(pod).ok()?;
    let PodReviewSpec {
        node_name,
        scheduling_gates: gates,
        volumes,
    } = spec;
    let mounts = volumes.is_some_and(|it| it.is_there);
    // The API server refuses a pod that has both a node and a gate.
    let is_bound = node_name.is_some_and(|it| !it.is_empty());
    let has_it = gates.as_ref().is_some_and(|it| it.is_there);
    if !mounts || is_bound || has_it {
        return None;
    }
    let mut path = vec!["spec", "schedulingGates"];
    let gate = json!({"name": SCHEDULING_GATE});
    let value = if gates.is_some() {
        path.push("-");
        gate
    } else {
        json!([gate])
    };
    let path = PointerBuf::from_tokens(path);
    let add = PatchOperation::Add(AddOperation { path, value });
    Some(Patch(vec![add]))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn volume(driver: &str) -> Value {
        json!({"name": "v", "csi": {
            "driver": driver, "readOnly": true, "volumeAttributes": {"connectors": "harbor"},
        }})
    }

    fn pod(spec: &Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    }

    /// The gates of a pod after the patch; nothing where there is none.
    fn gates(spec: &Value) -> Option<Value> {
        let mut pod = pod(spec);
        let patch = gated(&pod.to_string())?;
        json_patch::patch(&mut pod, &patch).unwrap();
        let gates = pod["spec"]["schedulingGates"].take();
        // Nothing else changes.
        let mut before = spec.clone();
        before["schedulingGates"] = Value::Null;
        assert_eq!(pod["spec"], before);
        Some(gates)
    }

    #[test]
    fn a_pod_that_mounts_a_connector_gets_the_gate_beside_those_that_it_has() {
        let ours = json!({"name": "connectors.alauda.io/approval"});
        let others = json!({"name": "example.com/quota"});
        let volumes =
            json!([{"name": "e", "emptyDir": {}}, volume("connectors-csi"), volume("other")]);
        for (before, after) in [
            (json!(null), json!([ours])),
            (json!([]), json!([ours])),
            (json!([others]), json!([others, ours])),
        ] {
            let spec = json!({"volumes": volumes, "schedulingGates": before, "nodeName": ""});
            assert_eq!(gates(&spec), Some(after), "{before}");
        }
        let spec = json!({"volumes": volumes, "containers": []});
        assert_eq!(gates(&spec), Some(json!([ours])));
    }

    #[test]
    fn no_other_pod_gets_it() {
        let ours = json!([volume("connectors-csi")]);
        let claim = json!({"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "connectors-csi"}}}});
        for spec in [
            json!({}),
            json!({"volumes": null}),
            json!({"volumes": []}),
            json!({"volumes": [{"name": "v", "csi": null}, {"name": "w", "emptyDir": {}}, claim]}),
            json!({"volumes": [volume("connectors-csi2"), volume("Connectors-csi"), volume("")]}),
            // It was scheduled by its author.
            json!({"volumes": ours, "nodeName": "node-1"}),
            // A second one of the name would be refused.
            json!({"volumes": ours, "schedulingGates": [{"name": "connectors.alauda.io/approval"}]}),
        ] {
            assert_eq!(gates(&spec), None, "{spec}");
        }
    }

    #[test]
    fn what_is_no_pod_stays_as_it_is() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"spec": null}"#,
            r#"{"spec": {"volumes": {}}}"#,
            r#"{"spec": {"volumes": [7]}}"#,
            r#"{"spec": {"volumes": [{"csi": {"driver": 7}}]}}"#,
            r#"{"spec": {"volumes": [{"csi": {"driver": "connectors-csi"}}], "schedulingGates": 7}}"#,
        ] {
            assert_eq!(gated(text), None, "{text}");
        }
    }
}
