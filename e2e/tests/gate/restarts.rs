//! The node under pods that run and pods that wait: its plugin is replaced, its kubelet and its container runtime are killed.

use e2e::{
    Cluster, Component,
    api::kinds::POD,
    harness::{is_long_form, say},
};

use crate::support::{Approval, CONNECTOR, Gate, Installation, MOUNT, wait_until};

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
fn the_node_plugin_is_replaced_under_pods_that_run_and_wait() {
    let (run, wait) = if is_long_form() { (50, 20) } else { (6, 4) };
    let mut crowd = Crowd::start(Gate::alone("plugin-replaced"), run, wait);
    let installation = Installation::of(&crowd.gate);
    installation.restart("csi-node");
    installation.wait_until_ready("csi-node");
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
