//! Pods of other shapes than one that a user starts by hand: each waits at its mount, gets in by its approval, and finds
//! its files.

use e2e::{
    api::kinds::{DEPLOYMENT, POD},
    harness::PATIENCE,
};
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR, Gate, LOGIN, MOUNT, TOOL, claims, name, policy, printed, uid, volume,
    wait_until,
};

/// Another connector, for pods with two volumes.
const SECOND: &str = "second";
/// Where the volume of that connector is mounted.
const SECOND_MOUNT: &str = "/second";

/// A container that prints what it finds in its volumes.
fn container(gate: &Gate, name: &str, args: &[&str], mounts: &Value) -> Value {
    json!({
        "name": name, "image": gate.scene().workload_image(), "imagePullPolicy": "IfNotPresent",
        "command": ["/workload"], "args": args, "volumeMounts": mounts,
    })
}

/// The spec of a pod whose only container prints its volume.
pub(super) fn pod_spec(gate: &Gate, args: &[&str]) -> Value {
    let volume = volume(&json!({"connectors": CONNECTOR, "configuration.names": TOOL}));
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volume["volumes"],
        "containers": [container(gate, "main", args, &volume["volumeMounts"])],
    })
}

pub(super) fn start(gate: &Gate, pod: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": {"app": pod}}, "spec": spec,
    });
    gate.create(&object).unwrap();
}

pub(super) fn start_deployment(gate: &Gate, app: &str) {
    let mut spec = pod_spec(gate, &["cat", "--then-wait", MOUNT]);
    spec["restartPolicy"] = json!("Always");
    let labels = json!({"app": app});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    gate.create(&object).unwrap();
}

fn start_job(gate: &Gate, app: &str) {
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": app},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"labels": {"app": app}}, "spec": pod_spec(gate, &["cat", MOUNT]),
        }},
    });
    gate.create(&object).unwrap();
}

/// A pod whose init container reads the volume too.
fn with_init_container(gate: &Gate) -> Value {
    let mut spec = pod_spec(gate, &["cat", "--then-wait", MOUNT]);
    let mounts = spec["containers"][0]["volumeMounts"].clone();
    spec["initContainers"] = json!([container(gate, "first", &["cat", MOUNT], &mounts)]);
    spec
}

/// A pod with a volume for each of two connectors.
fn with_two_volumes(gate: &Gate) -> Value {
    let mut spec = pod_spec(gate, &["cat", "--then-wait", MOUNT, SECOND_MOUNT]);
    let mut second = volume(&json!({"connectors": SECOND}))["volumes"][0].take();
    second["name"] = json!(SECOND);
    spec["volumes"].as_array_mut().unwrap().push(second);
    let mounts = &mut spec["containers"][0]["volumeMounts"];
    let mount = json!({"name": SECOND, "mountPath": SECOND_MOUNT});
    mounts.as_array_mut().unwrap().push(mount);
    spec
}

/// A pod without root's rights, whose volumes belong to a group.
fn of_a_plain_user(gate: &Gate) -> Value {
    let mut spec = pod_spec(gate, &["cat", "--then-wait", MOUNT]);
    spec["securityContext"] = json!({
        "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000,
    });
    let container = &mut spec["containers"][0];
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
    });
    spec
}

/// The names of the pods of an app that do not end, once there are so many.
pub(super) fn pods_of(gate: &Gate, app: &str, count: usize) -> Vec<String> {
    let what = format!("{count} pods of {app}");
    let lives = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let labels = format!("app={app}");
    let pods = gate.scene().wait_for_list(&what, POD, &labels, |pods| {
        pods.iter().filter(lives).count() == count
    });
    pods.iter().filter(lives).map(name).collect()
}

/// The file of the class has the pod's own token.
fn assert_its_login(pod: &str, output: &str) {
    let login = printed(output)[format!("{MOUNT}/{LOGIN}").as_str()];
    let (address, token) = login.trim_end().split_once(' ').unwrap();
    assert_eq!(address, format!("https://{CONNECTOR}.example.com"));
    let of_token = &claims(token)["kubernetes.io"]["pod"]["name"];
    assert_eq!(of_token, pod);
}

#[test]
fn pods_of_every_shape_wait_at_their_mounts_and_find_their_files() {
    let gate = Gate::new("workloads");
    gate.create_connector(SECOND);
    let mut release = policy("release", Approval::SignOff);
    release["spec"]["connector"]["names"] = json!([CONNECTOR, SECOND]);
    gate.scene().apply(&release).unwrap();

    start_deployment(&gate, "web");
    start_job(&gate, "batch");
    start(&gate, "init", &with_init_container(&gate));
    start(&gate, "two", &with_two_volumes(&gate));
    start(&gate, "plain-user", &of_a_plain_user(&gate));
    gate.start_pod("gone");
    let web = pods_of(&gate, "web", 2);
    let batch = pods_of(&gate, "batch", 1).remove(0);
    let single = ["init", "two", "plain-user"].map(str::to_owned);
    let waiting: Vec<&String> = web.iter().chain([&batch]).chain(&single).collect();
    for pod in &waiting {
        gate.wait_for_reason(pod, "AccessCheckReady", "AccessCheckPending");
    }
    for connector in [CONNECTOR, SECOND] {
        gate.wait_for_phase_of(&gate.request_for("two", connector), "Pending");
    }

    // Deleted while it is held.
    let request = gate.wait_for_phase("gone", "Pending");
    gate.delete_pod_and_wait("gone", PATIENCE);
    gate.pod_ended("gone");
    gate.wait_for_phase_of(&request, "Ended");
    gate.wait_until_nothing_is_left(&uid(&request));
    for pod in &waiting {
        let status = gate.object(POD, pod)["status"].take();
        assert_eq!(status["phase"], "Pending", "{pod}: {status}");
    }

    for app in ["web", "batch", "init", "two", "plain-user"] {
        gate.set_approval(app, app, Approval::SignOff, "approved");
    }
    for pod in web.iter().chain(&single) {
        assert_its_login(pod, &gate.wait_for_output(pod));
    }
    let fact = |mount: &str, connector: &str| {
        let place = format!("== {mount}/.connector/{}_{connector}", gate.namespace());
        format!("{place}/address\nhttps://{connector}.example.com")
    };
    let first = gate.scene().run("logs init --container=first").unwrap();
    assert!(first.contains(&fact(MOUNT, CONNECTOR)), "{first}");
    assert_its_login("init", &first);
    let two = gate.api().logs("two").unwrap();
    for fact in [fact(MOUNT, CONNECTOR), fact(SECOND_MOUNT, SECOND)] {
        assert!(two.contains(&fact), "{fact} is not in {two}");
    }
    assert_eq!(gate.scene().wait_for_end(&batch), "Succeeded");
    assert_its_login(&batch, &gate.api().logs(&batch).unwrap());
    gate.pod_ended(&batch);
    gate.wait_for_phase(&batch, "Revoked");

    // A pod that takes the place of another one asks for itself.
    let before = gate.request_of(&web[0]);
    gate.delete(POD, &web[0]);
    gate.wait_for_phase_of(&before, "Revoked");
    let renewed = pods_of(&gate, "web", 2);
    let successor = renewed.iter().find(|it| !web.contains(it)).unwrap();
    gate.wait_for_output(successor);
    let request = gate.wait_for_phase(successor, "Granted");
    assert_ne!(uid(&request), uid(&before));
    gate.delete(DEPLOYMENT, "web");
    wait_until("the grant to be gone", || {
        gate.grants(&uid(&request)).is_empty()
    });
}
