//! The properties of every input of the evaluators.
//!
//! Owns: one module per target of the fuzzer, each with a function that takes any bytes and panics when a
//! property does not hold. Refuses to know: the source and the number of inputs, which `cargo xtask fuzz`
//! owns.
//!
//! Invariant: no input makes an evaluator panic, hang past its limit, or turn an error into a yes.

pub mod class_template;
pub mod lineage;
pub mod protobuf;
pub mod rego;
pub mod template;

use std::sync::LazyLock;

use serde_json::{Value, json};

/// Between the parts of an input, so that its files can be read and written by people.
const SEPARATOR: &str = "\n---\n";

/// The parts of an input that is text; none when it is not.
fn parts(data: &[u8]) -> Option<impl Iterator<Item = &str>> {
    Some(std::str::from_utf8(data).ok()?.split(SEPARATOR))
}

/// A part as JSON, or the likely object where there is none.
fn object(part: Option<&str>, likely: impl FnOnce() -> Value) -> Option<Value> {
    part.map_or_else(|| Some(likely()), |text| serde_json::from_str(text).ok())
}

/// A pod that may ask, with something for every kind of path to find.
fn pod() -> Value {
    static POD: LazyLock<Value> = LazyLock::new(|| {
        serde_json::from_str(include_str!("pod.json")).expect("a file of this crate")
    });
    POD.clone()
}

/// A policy with one check of config maps in the pod's namespace.
fn policy() -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "policy", "namespace": "devops-ns1", "uid": "policy-uid"},
        "spec": {"checkGrantedPermission": {"spec": {
            "checks": [{
                "name": "gate",
                "selector": {
                    "labels": {"run": "{.object.metadata.labels.run}"},
                    "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                },
            }],
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                "verbs": ["*"],
            }]}},
        }}},
    })
}

/// An object that the policy's check finds.
fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "a", "namespace": "devops-ns1", "uid": "uid-a", "resourceVersion": "7",
            "labels": {"run": "r1"},
        },
        "data": {"decision": "yes", "by": "ana", "pod": "deploy-prod-xxx"},
        "status": {"state": "approved"},
    })
}
