//! The objects of this measurement.

use serde_json::{Map, Value, json};

/// The files of the class.
pub(crate) const FILES: usize = 10;
pub(crate) const CONFIGURATION: &str = "files";
pub(crate) const ADDRESS: &str = "https://tool.example.com";
/// The connector and its policy.
pub(crate) const CONNECTOR: &str = "tool";
const API: &str = "connectors.alauda.io/v1alpha1";
/// The label by which an approval and its pod belong together.
const APP: &str = "app";

/// The state of a `ConfigMap` is the word in its data.
const VERDICT: &str = r#"package approval
import rego.v1
default output := {"state": "pending", "message": "not decided"}
output := {"state": input.data.verdict, "message": "decided"} if input.data.verdict
"#;

/// A login for each registry, as the sample class for Docker has it.
const FILE: &str = r#"{
  "auths": {
    {{- range $i, $connector := .connectors }}{{ if $i }},{{ end }}
    {{ (urlParse $connector.spec.address).host | quote }}: {
      "auth": {{ printf "%s:%s" $.connector.metadata.name $.context.token | b64enc | quote }}
    }
    {{- end }}
  }
}
"#;

pub(crate) fn class(name: &str) -> Value {
    let files = (0..FILES).map(|it| (format!("config-{it}.json"), json!(FILE)));
    json!({
        "apiVersion": API, "kind": "ConnectorClass", "metadata": {"name": name},
        "spec": {"configurations": [{"name": CONFIGURATION, "data": files.collect::<Map<_, _>>()}]},
    })
}

pub(crate) fn connector(class: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "Connector", "metadata": {"name": CONNECTOR},
        "spec": {"connectorClassName": class, "address": ADDRESS},
    })
}

pub(crate) fn policy() -> Value {
    let pod = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    let check = json!({
        "name": "approval",
        "selector": {
            "labels": {APP: format!("{{.object.metadata.labels.{APP}}}")},
            "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
        },
        "state": {"rego": VERDICT},
    });
    json!({
        "apiVersion": API, "kind": "AccessPolicy", "metadata": {"name": CONNECTOR},
        "spec": {
            "connector": {"names": [CONNECTOR]},
            "checkGrantedPermission": {"spec": {
                "checks": [check],
                "permissions": {"roleTemplate": {"rules": [
                    {"apiGroups": ["connectors.alauda.io"], "resources": [pod], "verbs": ["*"]},
                ]}},
            }},
        },
    })
}

/// The approval of a pod, which is not given yet.
pub(crate) fn approval(pod: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": pod, "labels": {APP: pod}}, "data": {},
    })
}

/// A pod with so many volumes of the connector.
pub(crate) fn waiting(name: &str, image: &str, count: usize) -> Value {
    let attributes = json!({"connectors": CONNECTOR, "configuration.names": CONFIGURATION});
    let driver =
        json!({"driver": "connectors-csi", "readOnly": true, "volumeAttributes": attributes});
    pod(name, image, count, &json!({"csi": driver}))
}

/// A pod with a file system in memory, as the driver mounts one.
pub(crate) fn bare(name: &str, image: &str) -> Value {
    pod(name, image, 1, &json!({"emptyDir": {"medium": "Memory"}}))
}

fn pod(name: &str, image: &str, count: usize, source: &Value) -> Value {
    let volume = |number: usize| {
        let mut volume = source.clone();
        volume["name"] = json!(format!("v{number}"));
        volume
    };
    let mount =
        |number: usize| json!({"name": format!("v{number}"), "mountPath": format!("/v{number}")});
    let container = json!({
        "name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
        // Its first line is the end of the measured time.
        "command": ["/workload"], "args": ["cat", "--then-wait", "/etc/nsswitch.conf"],
        "volumeMounts": (0..count).map(mount).collect::<Vec<_>>(),
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {APP: name}},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [container], "volumes": (0..count).map(volume).collect::<Vec<_>>(),
        },
    })
}
