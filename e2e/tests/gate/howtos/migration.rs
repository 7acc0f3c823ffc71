//! The page about migration, beside files as the other product's cluster exports them.

use std::{collections::BTreeSet, fs};

use e2e::repository;
use serde_json::{Value, json};

use super::{Desk, play_at};
use crate::support::{CONNECTOR, Gate, MOUNT, session};

/// Why no test runs a block of the page.
const REASONS: [&str; 3] = [
    "the policies of the other product are in no cluster of the tests",
    "the driver of the other product is in no cluster of the tests",
    "the run has installed the chart; another test takes objects over with these flags",
];
/// The `ConfigMaps` of the other product, in words of this project.
const TEMPLATES: &str = "crates/kubectl-connectors/tests/convert/templates.yaml";
const POD: &str = "uses-the-tool";

/// A policy of the other product: every account of the namespace may use the connector.
fn policy(namespace: &str) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "everybody-here", "namespace": namespace},
        "spec": {
            "connector": {"names": [CONNECTOR]},
            "defaultPermission": {
                "roleTemplate": {"ref": {"configMap": {"name": "connectors-use-connectors-proxy"}}},
                "bindingTemplate": {"serviceAccounts": [{"namespaceSelector": {"names": [namespace]}}]},
            },
        },
    })
}

/// A pod with a volume as the other product has it.
fn pod(gate: &Gate) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": gate.namespace()},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": gate.scene().workload_image(), "imagePullPolicy": "IfNotPresent",
                "command": ["/workload"], "args": ["cat", "--then-wait", MOUNT],
                "volumeMounts": [{"name": "tool", "mountPath": MOUNT}],
            }],
            "volumes": [{"name": "tool", "csi": {
                "driver": "connectors-csi", "readOnly": true, "volumeAttributes": {"connectors": CONNECTOR},
            }}],
        },
    })
}

#[test]
fn the_page_about_migration_brings_a_policy_and_a_workload_over() {
    let gate = Gate::new("migration");
    let page = fs::read_to_string(repository().join("docs/migrate.md")).unwrap();
    assert!(!page.contains("```console"), "a block that nothing runs");
    let mut blocks = session::blocks(&page);
    let reasons: BTreeSet<String> = blocks.iter().filter_map(|it| it.left_out.clone()).collect();
    assert_eq!(reasons, REASONS.map(str::to_owned).into());
    blocks.retain(|it| it.left_out.is_none());
    assert!(blocks.len() >= 6, "{blocks:?}");

    let desk = Desk::new();
    let write = |name: &str, object: &Value| {
        let file = desk.folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, object.to_string()).unwrap();
    };
    write("policies.yaml", &policy(gate.namespace()));
    write("manifests/pod.yaml", &pod(&gate));
    let templates = desk.folder.path().join("templates.yaml");
    fs::copy(repository().join(TEMPLATES), templates).unwrap();
    // The cluster has namespaces of other tests.
    let own = format!("--all -n {}", gate.namespace());
    let look = format!("doctor -n {}", gate.namespace());
    let in_place = [("--all -A", own.as_str()), ("doctor -A", look.as_str())];
    // A deletion that is not replaced would reach them.
    for block in &blocks {
        let own = block.commands.replace("--all -A", "");
        assert!(
            !own.contains("delete") || !(own.contains(" -A") || own.contains("--all")),
            "{own}"
        );
    }
    play_at(&desk, "migrate.md", blocks, &in_place);

    // There is no approval in this policy: the converted one opens the connector at once.
    let output = gate.wait_for_output(POD);
    assert!(output.contains(CONNECTOR), "{output}");
}
