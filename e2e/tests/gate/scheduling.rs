//! The scheduling gate: pods that wait for their approvals before they have a node.

use std::{env, os::unix::fs::symlink, process::Command, thread, time::Duration};

use e2e::api::kinds::{ACCESS_POLICY, DEPLOYMENT, JOB, POD};
use serde_json::{Value, json};

use crate::{
    support::{
        Approval, CONNECTOR, Gate, Installation, MOUNT, name,
        pipelines::{Pipelines, policy_of_runs},
        uid, volume,
    },
    workloads::{pods_of, start_deployment},
};

const OURS: &str = "connectors.alauda.io/approval";

/// Starts a Job whose pod prints what it finds in its volume and then waits; gives the pod's name.
fn start_job(gate: &Gate, job: &str) -> String {
    let volumes = volume(&json!({"connectors": CONNECTOR}));
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"labels": {"app": job}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main", "image": gate.scene().workload_image(),
                    "imagePullPolicy": "IfNotPresent", "command": ["/workload"],
                    "args": ["cat", "--then-wait", MOUNT], "volumeMounts": volumes["volumeMounts"],
                }],
                "volumes": volumes["volumes"],
            },
        }},
    });
    gate.scene().apply(&object).unwrap();
    let labels = format!("batch.kubernetes.io/job-name={job}");
    let is_there = |pods: &[Value]| !pods.is_empty();
    let what = format!("the pod of job {job}");
    let pods = gate.scene().wait_for_list(&what, POD, &labels, is_there);
    name(&pods[0])
}

fn gates(pod: &Value) -> Vec<&str> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    let gates = gates.into_iter().flatten();
    gates.map(|it| it["name"].as_str().unwrap()).collect()
}

/// Waits until the request of a pod waits, and fails when the pod has a node, now or in the next moments.
fn assert_gated(gate: &Gate, pod: &str) -> Value {
    let request = gate.wait_for_reason(pod, "AccessCheckReady", "AccessCheckPending");
    for _ in 0..10 {
        let pod = gate.object(POD, pod);
        assert_eq!(gates(&pod), [OURS], "{pod}");
        assert_eq!(pod["spec"]["nodeName"], Value::Null);
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let mut conditions = conditions.iter();
        let is_gated = conditions.any(|it| it["reason"] == "SchedulingGated");
        assert!(is_gated, "{pod}");
        thread::sleep(Duration::from_millis(100));
    }
    request
}

fn wait_until_scheduled(gate: &Gate, pod: &str) {
    let what = format!("pod {pod} to have a node");
    gate.scene().wait_for_object(&what, POD, pod, |pod| {
        gates(pod).is_empty() && pod["spec"]["nodeName"].is_string()
    });
}

#[test]
fn a_job_waits_without_a_node_for_its_approval_and_goes_to_its_mount_with_a_no() {
    let gate = Gate::alone("scheduling-gate");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    let _gated = installation.scheduling_gate();

    let approved = start_job(&gate, "approved");
    let rejected = start_job(&gate, "rejected");
    let request = assert_gated(&gate, &approved);
    assert_gated(&gate, &rejected);
    gate.set_approval("yes", "approved", Approval::SignOff, "approved");
    let output = gate.wait_for_output(&approved);
    assert!(output.contains("https://prod.example.com"), "{output}");
    gate.wait_for_note("Pod", &approved, "AccessGateRemoved", "may mount all");
    let pod_uid = gate.pod_uid(&approved);
    // The mount has found the request of the gate.
    let requests = gate.requests_of(&pod_uid);
    let names: Vec<_> = requests.iter().map(uid).collect();
    assert_eq!(names, [uid(&request)]);
    assert_gated(&gate, &rejected);

    gate.set_approval("no", "rejected", Approval::SignOff, "rejected");
    wait_until_scheduled(&gate, &rejected);
    gate.wait_for_note("Pod", &rejected, "AccessGateRemoved", "was refused");
    gate.wait_for_event("Pod", &rejected, "FailedMount");
    gate.assert_held(&rejected);
    gate.delete(JOB, "rejected");
}

/// Their owners count such pods as pending, and replace none of them.
#[test]
fn pods_of_a_deployment_and_of_a_run_wait_without_a_node_for_their_approvals() {
    let gate = Gate::alone("scheduling-owners");
    let installation = Installation::of(&gate);
    gate.create_policy("deployments", Approval::SignOff);
    let _gated = installation.scheduling_gate();

    start_deployment(&gate, "web");
    let pods = pods_of(&gate, "web", 2);
    for pod in &pods {
        assert_gated(&gate, pod);
    }
    gate.set_approval("yes", "web", Approval::SignOff, "approved");
    for pod in &pods {
        let output = gate.wait_for_output(pod);
        assert!(output.contains("https://prod.example.com"), "{output}");
    }
    assert_eq!(pods_of(&gate, "web", 2), pods);
    gate.delete(DEPLOYMENT, "web");
    gate.delete(ACCESS_POLICY, "deployments");

    gate.scene().apply(&policy_of_runs()).unwrap();
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    let request = assert_gated(&gate, "run-deploy-pod");
    pipelines.answer("run-wait", "alice", "approve");
    let output = gate.wait_for_output("run-deploy-pod");
    assert!(output.contains("https://prod.example.com"), "{output}");
    let granted = gate.wait_for_phase("run-deploy-pod", "Granted");
    assert_eq!(uid(&granted), uid(&request));
}

#[test]
fn pods_that_wait_with_the_gate_go_to_their_mounts_when_it_is_released_or_approvals_are_off() {
    let gate = Gate::alone("scheduling-release");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    let gated = installation.scheduling_gate();
    gate.start_pod("released");
    assert_gated(&gate, "released");
    drop(gated);
    wait_until_scheduled(&gate, "released");
    gate.assert_held("released");
    gate.set_approval("yes", "released", Approval::SignOff, "approved");
    gate.wait_for_output("released");

    let _gated = installation.scheduling_gate();
    gate.start_pod("free");
    assert_gated(&gate, "free");
    let off = installation.switch("false");
    gate.wait_for_output("free");
    drop(off);
    // A gate that nothing needs is taken away as well.
    let image = gate.scene().workload_image();
    let plain = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
        "spec": {
            "schedulingGates": [{"name": OURS}], "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": image, "command": ["/workload"], "args": ["cat", "--then-wait", "/"]}],
        },
    });
    gate.create(&plain).unwrap();
    wait_until_scheduled(&gate, "plain");
}

/// The command of the documents for a cluster without the product: its accounts and policies play no part in it.
#[test]
fn the_documented_command_removes_the_gate_by_hand_and_no_other() {
    // Its only mount is held until the end, so there is no answer for the recorder to judge.
    let gate = Gate::alone_without_mounts("scheduling-by-hand");
    let installation = Installation::of(&gate);
    let _gated = installation.scheduling_gate();
    let away = installation.away("request-controller");
    gate.start_pod("left");
    let image = gate.scene().workload_image();
    let other = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"},
        "spec": {
            "schedulingGates": [{"name": "example.com/quota"}, {"name": OURS}],
            "containers": [{"name": "main", "image": image, "command": ["/workload"]}],
        },
    });
    gate.create(&other).unwrap();
    assert_eq!(gates(&gate.object(POD, "left")), [OURS]);

    let text = std::fs::read_to_string(e2e::repository().join("docs/install.md")).unwrap();
    let (_, command) = text.split_once("```sh\n").unwrap();
    let (command, _) = command.split_once("\n```").unwrap();
    assert!(command.contains(OURS), "{command}");
    let dir = tempfile::tempdir().unwrap();
    symlink(env::var("E2E_KUBECTL").unwrap(), dir.path().join("kubectl")).unwrap();
    let output = Command::new("bash")
        .args(["-euc", command])
        .env(
            "PATH",
            format!("{}:{}", dir.path().display(), env::var("PATH").unwrap()),
        )
        .env("KUBECONFIG", env::var("E2E_KUBECONFIG").unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    wait_until_scheduled(&gate, "left");
    assert_eq!(gates(&gate.object(POD, "other")), ["example.com/quota"]);
    gate.assert_held("left");
    drop(away);
}
