//! The objects of a question, and how tests change them.

use serde_json::{Value, json};

use crate::lineage::LineageQuestion;
use crate::lineage::tekton::RunKind;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    pub(crate) pod: Value,
    pub(crate) approval: Value,
    /// The TaskRun, the CustomRun and the PipelineRun, then those that produced results.
    pub(crate) objects: Vec<Value>,
}

impl World {
    pub(super) fn question(&self) -> LineageQuestion<'_> {
        LineageQuestion {
            pod: &self.pod,
            approval: &self.approval,
            objects: &self.objects,
        }
    }

    pub(super) fn task_run(&mut self) -> &mut Value {
        &mut self.objects[0]
    }

    pub(super) fn custom_run(&mut self) -> &mut Value {
        &mut self.objects[1]
    }

    pub(crate) fn run(&mut self) -> &mut Value {
        &mut self.objects[2]
    }

    pub(super) fn object(&self, kind: &str, name: &str) -> &Value {
        let is_wanted = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        self.objects.iter().find(is_wanted).unwrap()
    }

    /// Puts another child into the run's list.
    pub(crate) fn adopt(&mut self, kind: RunKind, name: &str, task: &str) {
        let entry = json!({
            "apiVersion": kind.api_version(), "kind": kind.as_str(), "name": name, "pipelineTaskName": task,
        });
        let children = &mut self.run()["status"]["childReferences"];
        children.as_array_mut().unwrap().push(entry);
    }
}

/// An object so many seconds after the run.
pub(super) fn stamped(api_version: &str, kind: &str, name: &str, uid: &str, seconds: u32) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "ns", "uid": uid, "resourceVersion": "7",
            "creationTimestamp": format!("2026-11-21T10:00:{seconds:02}Z"),
        },
    })
}

pub(super) fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Removes a field.
pub(super) fn clear(value: &mut Value, at: &str, field: &str) {
    let fields = value.pointer_mut(at).unwrap().as_object_mut().unwrap();
    assert!(fields.remove(field).is_some(), "{at} {field}");
}

/// The claim that Tekton makes of a template.
pub(super) fn claim(template: &str, workspace: &str, uid: &str) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{workspace}{uid}").as_bytes());
    let number = digest
        .iter()
        .take(5)
        .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{template}-{number:010x}")
}
