//! The installation itself, for tests that have it for themselves.

use e2e::Kubectl;

use super::{Gate, Hold, wait_until};

/// The installation, for tests that hold it alone.
pub(crate) struct Installation<'a> {
    kubectl: &'a Kubectl,
}

/// Undoes what a test did to the installation, also when the test fails.
pub(crate) struct Undo<'a> {
    kubectl: &'a Kubectl,
    words: Vec<String>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for words in &self.words {
            if let Err(error) = self.kubectl.run(words) {
                eprintln!("the installation could not be put back: {error}");
            }
        }
    }
}

/// Puts objects back, also when the test fails.
pub(crate) struct Reinstall<'a> {
    kubectl: &'a Kubectl,
    stored: [String; 2],
}

impl Drop for Reinstall<'_> {
    fn drop(&mut self) {
        for object in &self.stored {
            if let Err(error) = self.kubectl.run_with_input("create -f -", object) {
                eprintln!("the installation could not be put back: {error}");
            }
        }
    }
}

const IN_INSTALLATION: &str = "--namespace connectors-system";

impl<'a> Installation<'a> {
    pub(crate) fn of(gate: &'a Gate) -> Self {
        assert!(
            matches!(&gate.hold, Hold::Turn(turn) if turn.is_alone()),
            "a test that changes the installation holds it alone"
        );
        Self {
            kubectl: gate.scene.kubectl(),
        }
    }

    pub(crate) fn run(&self, words: &str) -> String {
        self.kubectl
            .run(&format!("{IN_INSTALLATION} {words}"))
            .unwrap()
    }

    /// Turns the switch until the answer is dropped, and waits until every process has seen it.
    pub(crate) fn switch(&self, value: &str) -> Undo<'a> {
        self.set_switch(value);
        Undo {
            kubectl: self.kubectl,
            words: vec![set_switch("true")],
        }
    }

    fn set_switch(&self, value: &str) {
        self.kubectl.run(&set_switch(value)).unwrap();
        let known = format!("connectors_approval_enabled {}", u8::from(value == "true"));
        self.wait_for_metric(&known);
    }

    /// Says what becomes of volumes that were mounted while the switch was off, until the answer is dropped.
    pub(crate) fn on_enable(&self, way: &str) -> Undo<'a> {
        self.kubectl.run(&configure("on-enable", way)).unwrap();
        Undo {
            kubectl: self.kubectl,
            words: vec![configure("on-enable", "Keep")],
        }
    }

    /// Waits until the processes that know the switch all say so.
    fn wait_for_metric(&self, line: &str) {
        wait_until(&format!("every process to say {line}"), || {
            let metrics = self.metrics();
            let (name, _) = line.split_once(' ').unwrap();
            let mut said = metrics
                .iter()
                .filter_map(|(_, text)| text.lines().find(|it| it.starts_with(name)))
                .peekable();
            said.peek().is_some() && said.all(|it| it == line)
        });
    }

    /// Deletes the `ConfigMap` of the switch until the answer is dropped.
    pub(crate) fn delete_switch(&self) -> Undo<'a> {
        self.run("delete configmap connectors-config");
        self.wait_for_metric("connectors_config_present 0");
        Undo {
            kubectl: self.kubectl,
            words: vec![format!(
                "{IN_INSTALLATION} create configmap connectors-config --from-literal=enable-connectors-approval=true --from-literal=default-requesters=Namespace --from-literal=on-enable=Keep"
            )],
        }
    }

    /// Takes both webhook configurations away until the answer is dropped.
    pub(crate) fn without_webhook_configurations(&self) -> Reinstall<'a> {
        let kinds = [
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
        ];
        let stored = kinds.map(|kind| {
            let words = format!("get {kind} connectors-approval -o json");
            let mut object = super::parsed(&self.kubectl.run(&words).unwrap());
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.retain(|key, _| ["name", "labels", "annotations"].contains(&key.as_str()));
            object.to_string()
        });
        for kind in kinds {
            self.kubectl
                .run(&format!("delete {kind} connectors-approval"))
                .unwrap();
        }
        let kubectl = self.kubectl;
        Reinstall { kubectl, stored }
    }

    /// Kills every process of a service at once.
    pub(crate) fn kill(&self, service: &str) {
        self.run(&format!(
            "delete pods --selector app.kubernetes.io/component={service} --grace-period=0 --force --wait=false"
        ));
    }

    pub(crate) fn wait_until_ready(&self, service: &str) {
        let kind = if service == "csi-node" {
            "daemonset"
        } else {
            "deployment"
        };
        self.run(&format!("rollout status {kind}/{service} --timeout=120s"));
    }

    /// Takes a service away until the answer is dropped.
    pub(crate) fn away(&self, deployment: &str) -> Undo<'a> {
        let replicas = self.run(&format!(
            "get deployment {deployment} -o jsonpath={{.spec.replicas}}"
        ));
        self.run(&format!("scale deployment {deployment} --replicas=0"));
        self.run(&format!(
            "wait --for=delete pod --selector app.kubernetes.io/component={deployment} --timeout=60s"
        ));
        Undo {
            kubectl: self.kubectl,
            words: vec![
                format!("{IN_INSTALLATION} scale deployment {deployment} --replicas={replicas}"),
                format!("{IN_INSTALLATION} rollout status deployment/{deployment} --timeout=120s"),
            ],
        }
    }

    fn pods(&self) -> Vec<String> {
        let words = "get pods --field-selector=status.phase=Running -o name";
        self.run(words).lines().map(str::to_owned).collect()
    }

    /// What every process has logged.
    pub(crate) fn logs(&self) -> Vec<(String, String)> {
        let log = |pod: String| {
            let text = self.run(&format!("logs {pod}"));
            (format!("the log of {pod}"), text)
        };
        self.pods().into_iter().map(log).collect()
    }

    /// What every process tells about itself.
    pub(crate) fn metrics(&self) -> Vec<(String, String)> {
        let metrics = |pod: String| {
            let name = pod.trim_start_matches("pod/");
            let path =
                format!("/api/v1/namespaces/connectors-system/pods/{name}:9090/proxy/metrics");
            let text = self.kubectl.run(&format!("get --raw {path}")).unwrap();
            (format!("the metrics of {pod}"), text)
        };
        self.pods().into_iter().map(metrics).collect()
    }
}

fn set_switch(value: &str) -> String {
    configure("enable-connectors-approval", value)
}

fn configure(key: &str, value: &str) -> String {
    format!(
        r#"{IN_INSTALLATION} patch configmap connectors-config --type=merge --patch {{"data":{{"{key}":"{value}"}}}}"#
    )
}
