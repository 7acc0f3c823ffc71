//! Every object that `kubectl connectors convert` prints in its cases is accepted, and stored as it is printed.

use std::{collections::BTreeSet, fs};

use e2e::api::kinds::ResourceKind;
use serde_json::{Value, json};

use crate::support::{Scene, documents, files, install_crd, scene};

/// The suffix of the files that hold what a case becomes.
const CONVERTED: &str = ".after.yaml";

#[tokio::test]
async fn every_converted_object_is_accepted() {
    let scene = scene("conversions").await;
    let (mut wrong, mut policies, mut others, mut pairs) = (Vec::new(), 0, 0, 0);
    let mut foreign = BTreeSet::new();
    for file in files("crates/kubectl-connectors/tests/convert") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(CONVERTED) {
            continue;
        }
        pairs += 1;
        for mut object in documents(&fs::read_to_string(&file).unwrap()) {
            if is_of(&object, "tekton.dev") && foreign.insert(object["kind"].to_string()) {
                define(&scene, &object).await;
            }
            object["metadata"]["namespace"] = json!(scene.namespace);
            if let Err(problem) = accepted(&scene, &object).await {
                wrong.push(format!("{name}: {problem}"));
            }
            if object["kind"] == "AccessPolicy" {
                policies += 1;
            } else {
                others += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pairs >= 40, "{pairs} pairs");
    assert!(policies >= 25 && others >= 8, "{policies} and {others}");
    assert!(!foreign.is_empty(), "no object of Tekton");
}

fn is_of(object: &Value, group: &str) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    version
        .split_once('/')
        .is_some_and(|(found, _)| found == group)
}

/// A stand-in of Tekton's kind, which this API server does not have. It keeps every field.
async fn define(scene: &Scene, object: &Value) {
    let definition = ResourceKind::of(object).unwrap().definition();
    install_crd(&scene.client, &serde_json::from_value(definition).unwrap()).await;
}

/// Creates the object, or asks whether that is possible for a workload, which would run.
async fn accepted(scene: &Scene, object: &Value) -> Result<(), String> {
    let asked = scene.try_create(object, object.to_string()).await;
    asked.map_err(|refusal| format!("{} {}", refusal.code, refusal.message))?;
    if !(is_of(object, "connectors.alauda.io") || is_of(object, "tekton.dev")) {
        return Ok(());
    }
    // Cases share names.
    let mut own = object.clone();
    let metadata = own["metadata"].as_object_mut().unwrap();
    if let Some(name) = metadata.remove("name") {
        metadata.insert(
            "generateName".to_owned(),
            format!("{}-", name.as_str().unwrap()).into(),
        );
    }
    let stored = scene.create(&own).await;
    let stored = stored.map_err(|refusal| format!("{} {}", refusal.code, refusal.message))?;
    lost(&own, &stored).map_or(Ok(()), |field| Err(format!("{field} is not stored")))
}

/// A field that the stored object has lost. It may have more, by default.
fn lost(printed: &Value, stored: &Value) -> Option<String> {
    match (printed, stored) {
        (Value::Object(printed), Value::Object(stored)) => printed.iter().find_map(|(name, it)| {
            let below = |stored| lost(it, stored).map(|field| format!("{name}.{field}"));
            stored.get(name).map_or_else(|| Some(name.clone()), below)
        }),
        (Value::Array(printed), Value::Array(stored)) if printed.len() == stored.len() => {
            let items = printed.iter().zip(stored).enumerate();
            let mut lost = items.filter_map(|(number, (printed, stored))| {
                lost(printed, stored).map(|field| format!("{number}.{field}"))
            });
            lost.next()
        }
        _ => (printed != stored).then(|| printed.to_string()),
    }
}

#[test]
fn a_field_that_is_gone_or_another_one_is_found() {
    let printed = json!({"spec": {"a": [{"b": 1}], "c": "x"}});
    let same = json!({"spec": {"a": [{"b": 1, "d": true}], "c": "x"}, "status": {}});
    assert_eq!(lost(&printed, &same), None);
    for (stored, field) in [
        (json!({"spec": {"a": [{}], "c": "x"}}), "spec.a.0.b"),
        (json!({"spec": {"a": [{"b": 2}], "c": "x"}}), "spec.a.0.b.1"),
        (json!({"spec": {"a": [{"b": 1}]}}), "spec.c"),
        (json!({"spec": {"a": [], "c": "x"}}), r#"spec.a.[{"b":1}]"#),
    ] {
        assert_eq!(lost(&printed, &stored).as_deref(), Some(field));
    }
}
