//! The table of templates in `connectors-api` contains kubectl's result for each: the real kubectl gives the
//! same.

use std::{fs, process::Output, thread};

use e2e::{api::kinds::APPROVAL_TASK, harness::Scene, repository};
use serde_json::{Value, json};

/// kubectl processes at the same time.
const AT_ONCE: usize = 4;

#[test]
fn kubectl_prints_what_the_table_of_templates_says() {
    let scene = Scene::new("templates");
    scene.api().define(&APPROVAL_TASK.definition()).unwrap();
    let holder = json!({
        "apiVersion": "openshift-pipelines.org/v1alpha1",
        "kind": "ApprovalTask",
        "metadata": {"name": "holder"},
        "object": yaml("object.yaml"),
    });
    scene.wait_for("the kind to be served", "get approvaltasks", |_| true);
    scene.apply(&holder).unwrap();

    let cases = cases();
    assert!(cases.len() > 200, "only {} cases", cases.len());
    let chunk = cases.len().div_ceil(AT_ONCE);
    let wrong: Vec<String> = thread::scope(|threads| {
        let started: Vec<_> = cases
            .chunks(chunk)
            .map(|some| {
                threads.spawn(|| {
                    some.iter()
                        .filter_map(|case| difference(&scene, case))
                        .collect()
                })
            })
            .collect();
        started
            .into_iter()
            .flat_map(|thread| -> Vec<String> { thread.join().unwrap() })
            .collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(scene: &Scene, case: &Value) -> Option<String> {
    let template = case["template"].as_str().unwrap();
    let mut kubectl = scene.kubectl().command();
    kubectl.args([
        "--namespace",
        scene.namespace(),
        "get",
        "approvaltask",
        "holder",
    ]);
    let Output { status, stdout, .. } = kubectl
        .arg("-o")
        .arg(format!("jsonpath={template}"))
        .output()
        .unwrap();
    let printed = status.success().then(|| String::from_utf8(stdout).unwrap());
    let expected = case.get("kubectl").and_then(Value::as_str);
    (printed.as_deref() != expected)
        .then(|| format!("{template}: {printed:?}, and the table says {expected:?}"))
}

fn cases() -> Vec<Value> {
    let folder = repository().join("crates/connectors-api/tests/templates");
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let tables = names.filter(|name| name != "object.yaml");
    tables
        .flat_map(|name| yaml(&name).as_array().unwrap().clone())
        .collect()
}

fn yaml(file: &str) -> Value {
    let path = repository()
        .join("crates/connectors-api/tests/templates")
        .join(file);
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
