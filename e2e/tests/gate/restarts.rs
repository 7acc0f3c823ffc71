//! The node under pods that run and pods that wait: its plugin is replaced, its kubelet and its container runtime are killed,
//! and it reboots.

use e2e::{
    Cluster, Component, Progress,
    api::kinds::POD,
    checker,
    harness::{is_long_form, say},
    images::Image,
};
use serde_json::{Value, json};

use crate::{
    support::{
        Approval, CONNECTOR, Gate, Installation, MOUNT, uid, wait_until, wait_until_nothing_left,
    },
    workloads::{pod_spec, start},
};

/// Pods of one policy: those that run and those that wait.
struct Crowd {
    gate: Gate,
    run: Vec<String>,
    wait: Vec<String>,
}

impl Crowd {
    fn start(gate: Gate, run: usize, wait: usize) -> Self {
        gate.create_policy("release", Approval::SignOff);
        let names =
            |word: &str, count: usize| (0..count).map(|it| format!("{word}-{it}")).collect();
        let crowd = Self {
            gate,
            run: names("runs", run),
            wait: names("waits", wait),
        };
        let gate = &crowd.gate;
        for pod in &crowd.run {
            gate.set_approval(pod, pod, Approval::SignOff, "approved");
        }
        for pod in crowd.run.iter().chain(&crowd.wait) {
            gate.start_pod(pod);
        }
        for pod in &crowd.run {
            gate.wait_for_output(pod);
        }
        for pod in &crowd.wait {
            gate.wait_for_reason(pod, "AccessCheckReady", "AccessCheckPending");
        }
        crowd
    }

    /// Those that run have their files and were not started again. Those that wait have not started.
    fn assert_untouched(&self) {
        let gate = &self.gate;
        let address = format!(
            "{MOUNT}/.connector/{}_{CONNECTOR}/address",
            gate.namespace()
        );
        for pod in &self.run {
            let read = || {
                gate.read_in(pod, &address)
                    .is_ok_and(|it| it.contains("https://"))
            };
            wait_until(&format!("pod {pod} to read its files"), read);
            let status = gate.object(POD, pod)["status"].take();
            assert_eq!(status["phase"], "Running", "{pod}");
            assert_eq!(status["containerStatuses"][0]["restartCount"], 0, "{pod}");
        }
        for pod in &self.wait {
            let status = gate.object(POD, pod)["status"].take();
            assert_eq!(status["phase"], "Pending", "{pod}: {status}");
        }
    }

    /// Lets this many of the pods in that wait.
    fn let_in(&mut self, count: usize) {
        let gate = &self.gate;
        let pods: Vec<String> = self.wait.drain(..count).collect();
        for pod in &pods {
            gate.set_approval(pod, pod, Approval::SignOff, "approved");
        }
        for pod in &pods {
            gate.wait_for_output(pod);
        }
        self.run.extend(pods);
    }
}

#[test]
fn helm_upgrades_the_node_plugin_under_pods_that_run_and_wait() {
    let (run, wait) = if is_long_form() { (50, 20) } else { (6, 4) };
    let mut crowd = Crowd::start(Gate::alone("plugin-upgraded"), run, wait);
    Installation::of(&crowd.gate).upgrade_node_plugin();
    crowd.assert_untouched();
    crowd.let_in(wait);
    crowd.assert_untouched();
}

#[test]
fn kubelet_and_container_runtime_are_killed_under_pods_that_run_and_wait() {
    // The recorder looks into the mounts of the kubelet's process, which is killed here.
    let mut crowd = Crowd::start(Gate::alone_without_mounts("node-killed"), 2, 2);
    let Some(cluster) = crowd.gate.scene().cluster() else {
        say("skipped: the components of this cluster cannot be killed from here");
        return;
    };
    let cluster = cluster.name().clone();
    for component in [Component::Kubelet, Component::Containerd] {
        Cluster::kill(&cluster, component).unwrap();
        Cluster::restart(&cluster, component).unwrap();
        crowd.assert_untouched();
        crowd.let_in(1);
    }
    crowd.assert_untouched();
}

/// A pod that is started again after its node was off, as that of a Deployment.
fn start_lasting_pod(gate: &Gate, pod: &str) {
    let mut spec = pod_spec(gate, &["cat", "--then-wait", MOUNT]);
    spec["restartPolicy"] = json!("Always");
    start(gate, pod, &spec);
}

/// Waits until the container of a pod runs again, and has found all of its content.
fn wait_until_again(gate: &Gate, pod: &str) {
    let what = format!("pod {pod} to run again");
    let again = |pod: &Value| {
        let container = &pod["status"]["containerStatuses"][0];
        container["restartCount"] != 0 && !container["state"]["running"].is_null()
    };
    gate.scene().wait_for_object(&what, POD, pod, again);
    let output = gate.wait_for_output(pod);
    let request = gate.wait_for_phase(pod, "Granted");
    let facts = format!("== {MOUNT}/.connector/{}_{CONNECTOR}", gate.namespace());
    let name = request["metadata"]["name"].as_str().unwrap();
    for fact in [
        format!("{facts}/address\nhttps://{CONNECTOR}.example.com"),
        format!("{facts}/request\n{name}"),
        format!("== {MOUNT}/.connector/.complete"),
    ] {
        assert!(output.contains(&fact), "{fact} is not in {output}");
    }
}

#[test]
fn a_node_that_reboots_brings_its_pods_back_with_their_content_and_nothing_of_the_others() {
    // The recorder stands beside a driver that is gone then.
    let gate = Gate::alone_without_mounts("reboot");
    let Some(cluster) = gate.scene().cluster() else {
        say("skipped: the machine of this cluster cannot be rebooted from here");
        return;
    };
    gate.create_policy("release", Approval::SignOff);
    let (run, wait) = (["runs-0", "runs-1"], ["waits-0", "waits-1"]);
    for pod in run.iter().chain(&["goes"]) {
        gate.set_approval(pod, pod, Approval::SignOff, "approved");
        start_lasting_pod(&gate, pod);
    }
    // One that is not started again.
    gate.set_approval("once", "once", Approval::SignOff, "approved");
    gate.start_pod("once");
    for pod in wait {
        start_lasting_pod(&gate, pod);
    }
    for pod in run.iter().chain(&["goes", "once"]) {
        gate.wait_for_output(pod);
    }
    for pod in wait {
        gate.wait_for_reason(pod, "AccessCheckReady", "AccessCheckPending");
    }
    let gone = [gate.pod_uid("goes"), gate.pod_uid("once")];
    let once = gate.request_of("once");

    let since = checker::now();
    let rebooted = cluster.reboot(&Progress::default(), || {
        gate.api().delete_now(POD, "goes").unwrap();
    });
    rebooted.unwrap();
    let installation = Installation::of(&gate);
    for service in Image::SERVICES.map(Image::name) {
        installation.wait_until_ready(service);
    }
    gate.outage_since(since);
    for pod in run {
        wait_until_again(&gate, pod);
    }
    assert_eq!(gate.scene().wait_for_end("once"), "Failed");
    gate.pod_ended("once");
    gate.wait_for_no_access("once", &uid(&once));
    gate.delete(POD, "once");
    wait_until_nothing_left(cluster, &gone);

    for pod in wait {
        gate.assert_held(pod);
        gate.set_approval(pod, pod, Approval::SignOff, "approved");
    }
    for pod in wait {
        gate.wait_for_output(pod);
    }
}
