//! Pods run, end, and can be looked into.

use std::time::Duration;

use e2e::{api::kinds::POD, harness::Scene};
use serde_json::json;

#[test]
fn a_pod_runs_to_its_end_and_its_output_can_be_read() {
    let scene = Scene::new("pod-says");
    scene.start_pod("hello", &["say", "good morning"]).unwrap();
    assert_eq!(scene.wait_for_end("hello"), "Succeeded");
    assert_eq!(scene.api().logs("hello").unwrap().trim(), "good morning");
}

#[test]
fn a_failing_pod_is_seen_with_its_exit_code() {
    let scene = Scene::new("pod-fails");
    scene.start_pod("bad", &["exit", "7"]).unwrap();
    assert_eq!(scene.wait_for_end("bad"), "Failed");
    let pod = scene.api().get(POD, "bad").unwrap().unwrap();
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 7);
}

#[test]
fn a_running_pod_runs_further_commands_and_ends_when_deleted() {
    let scene = Scene::new("pod-exec");
    scene.start_pod("waiting", &["wait"]).unwrap();
    scene.wait_for_running("waiting");
    let answer = scene.run("exec waiting -- /workload say inside").unwrap();
    assert_eq!(answer.trim(), "inside");
    scene.api().delete(POD, "waiting").unwrap();
    let limit = Duration::from_secs(30);
    let gone = scene.api().wait_until_gone(POD, "waiting", limit);
    gone.unwrap();
}

#[test]
fn a_config_map_is_mounted_as_files() {
    let scene = Scene::new("pod-files");
    let facts = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "facts"}, "data": {"color": "blue"},
    });
    scene.apply(&facts).unwrap();
    let mount = json!({
        "volumes": [{"name": "facts", "configMap": {"name": "facts"}}],
        "volumeMounts": [{"name": "facts", "mountPath": "/facts"}],
    });
    scene
        .start_pod_with("reader", &["cat", "/facts/color"], &mount)
        .unwrap();
    assert_eq!(scene.wait_for_end("reader"), "Succeeded");
    assert_eq!(
        scene.api().logs("reader").unwrap(),
        "== /facts/color\nblue\n"
    );
}
