//! Every object that `kubectl connectors convert` prints in its cases is accepted.

use std::fs;

use serde_json::{Value, json};

use crate::support::{documents, files, scene};

/// The suffix of the files that hold what a case becomes.
const CONVERTED: &str = ".after.yaml";

#[tokio::test]
async fn every_converted_object_is_accepted() {
    let scene = scene("conversions").await;
    let (mut wrong, mut policies, mut others) = (Vec::new(), 0, 0);
    for file in files("crates/kubectl-connectors/tests/convert") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(CONVERTED) {
            continue;
        }
        for mut object in documents(&fs::read_to_string(&file).unwrap()) {
            if is_foreign(&object) {
                continue;
            }
            object["metadata"]["namespace"] = json!(scene.namespace);
            if let Err(refusal) = scene.try_create(&object, object.to_string()).await {
                wrong.push(format!("{name}: {} {}", refusal.code, refusal.message));
            }
            if object["kind"] == "AccessPolicy" {
                policies += 1;
            } else {
                others += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(policies >= 25 && others >= 8, "{policies} and {others}");
}

/// Tekton's kinds are not on this API server, and their own webhook judges them.
fn is_foreign(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    version.starts_with("tekton.dev/")
}
