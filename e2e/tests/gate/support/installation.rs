//! The installation itself, for tests that have it for themselves.

use std::time::Duration;

use e2e::{
    ApiClient, ApiError,
    api::kinds::{
        CLUSTER_ROLE, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, LEASE, MUTATING_WEBHOOKS, POD,
        ResourceKind, VALIDATING_WEBHOOKS,
    },
    checker,
    install::{self, InstallError, NAMESPACE, RELEASE},
};
use serde_json::{Value, json};

use super::{Gate, Hold, name, uid, wait_until};

/// With its switch, and the treatment of mounts when it is turned on.
const CONFIG: &str = "connectors-config";
const SWITCH: &str = "enable-connectors-approval";
const ON_ENABLE: &str = "on-enable";
const SCHEDULING_GATE: &str = "scheduling-gate";

const CONTROLLER: &str = "request-controller";

/// How long proxy tokens live by the chart's own values.
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);

/// How long a service may take to be ready again.
const READY: Duration = Duration::from_mins(2);

/// The installation, for tests that hold it alone.
pub(crate) struct Installation<'a> {
    gate: &'a Gate,
}

/// Undoes a test's changes of the installation, also when the test fails.
pub(crate) struct Undo<'a> {
    installation: Installation<'a>,
    back: Vec<Back>,
}

/// One thing that is put back.
enum Back {
    Configured {
        key: &'static str,
        value: &'static str,
    },
    Object(Value),
    Replicas {
        deployment: String,
        replicas: Value,
    },
    /// The lifetime of proxy tokens that the chart has by itself.
    TokenLifetime,
    /// The rules of a `ClusterRole` of the cluster.
    Rules {
        role: String,
        rules: Value,
    },
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for back in &self.back {
            if let Err(error) = self.installation.put_back(back) {
                eprintln!("the installation could not be put back: {error}");
            }
        }
    }
}

impl<'a> Installation<'a> {
    pub(crate) fn of(gate: &'a Gate) -> Self {
        assert!(
            matches!(&gate.hold, Hold::Turn(turn) if turn.is_alone()),
            "a test that changes the installation holds it alone"
        );
        Self { gate }
    }

    /// The API server, for calls in the namespace of the installation.
    pub(crate) fn api(&self) -> ApiClient {
        self.gate.api().in_namespace(NAMESPACE)
    }

    fn until_dropped(&self, back: Vec<Back>) -> Undo<'a> {
        Undo {
            installation: Self { gate: self.gate },
            back,
        }
    }

    fn put_back(&self, back: &Back) -> Result<(), ApiError> {
        match back {
            Back::Configured { key, value } => self.configure(key, value),
            Back::Object(object) => self.api().create(object).map(drop),
            Back::Replicas {
                deployment,
                replicas,
            } => {
                self.scale(deployment, replicas)?;
                self.until_ready(deployment)
            }
            Back::TokenLifetime => {
                if let Err(error) = self.set_token_lifetime(TOKEN_LIFETIME) {
                    eprintln!("the lifetime of tokens could not be put back: {error}");
                }
                Ok(())
            }
            Back::Rules { role, rules } => {
                let fields = json!({"rules": rules});
                self.api().patch(CLUSTER_ROLE, role, &fields).map(drop)
            }
        }
    }

    fn configure(&self, key: &str, value: &str) -> Result<(), ApiError> {
        let fields = json!({"data": {key: value}});
        self.api().patch(CONFIG_MAP, CONFIG, &fields).map(drop)
    }

    fn scale(&self, deployment: &str, replicas: &Value) -> Result<(), ApiError> {
        let fields = json!({"spec": {"replicas": replicas}});
        self.api().patch(DEPLOYMENT, deployment, &fields).map(drop)
    }

    /// Turns the switch until the answer is dropped, and waits until every process has seen it.
    pub(crate) fn switch(&self, value: &str) -> Undo<'a> {
        self.configure(SWITCH, value).unwrap();
        let back = Back::Configured {
            key: SWITCH,
            value: "true",
        };
        let undo = self.until_dropped(vec![back]);
        let known = format!("connectors_approval_enabled {}", u8::from(value == "true"));
        self.wait_for_metric(&known);
        undo
    }

    /// Sets the treatment of volumes that were mounted while the switch was off, until the value is dropped.
    pub(crate) fn on_enable(&self, way: &str) -> Undo<'a> {
        self.configure(ON_ENABLE, way).unwrap();
        self.until_dropped(vec![Back::Configured {
            key: ON_ENABLE,
            value: "Keep",
        }])
    }

    /// Lets the request-controller bind Roles until the answer is dropped, as `requestController.bindRoles` does.
    pub(crate) fn bind_roles(&self) -> Undo<'a> {
        let role = format!("connectors-{CONTROLLER}");
        let before = self.object(CLUSTER_ROLE, &role)["rules"].take();
        let mut rules = before.as_array().unwrap().clone();
        rules.push(json!({
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"],
        }));
        let fields = json!({"rules": rules});
        self.api().patch(CLUSTER_ROLE, &role, &fields).unwrap();
        let rules = before;
        self.until_dropped(vec![Back::Rules { role, rules }])
    }

    /// Has new pods wait with the scheduling gate until the answer is dropped, and waits until every process has seen it.
    pub(crate) fn scheduling_gate(&self) -> Undo<'a> {
        let hooks = self.object(MUTATING_WEBHOOKS, RELEASE)["webhooks"].to_string();
        assert!(
            hooks.contains("/mutate/pods"),
            "the installation needs approval.schedulingGate: Set"
        );
        self.configure(SCHEDULING_GATE, "Set").unwrap();
        let undo = self.until_dropped(vec![Back::Configured {
            key: SCHEDULING_GATE,
            value: "Release",
        }]);
        self.wait_for_metric("connectors_scheduling_gate_enabled 1");
        undo
    }

    /// Waits until the processes that know the switch all say so.
    fn wait_for_metric(&self, line: &str) {
        let (name, _) = line.split_once(' ').unwrap();
        wait_until(&format!("every process to say {line}"), || {
            // A process that is about to end does not answer any more.
            let metrics = self.metrics().unwrap_or_default();
            let mut said = metrics
                .iter()
                .filter_map(|(_, text)| text.lines().find(|it| it.starts_with(name)))
                .peekable();
            said.peek().is_some() && said.all(|it| it == line)
        });
    }

    /// Deletes the `ConfigMap` of the switch until the answer is dropped.
    pub(crate) fn delete_switch(&self) -> Undo<'a> {
        let undo = self.until_dropped(vec![self.delete(CONFIG_MAP, CONFIG)]);
        self.wait_for_metric("connectors_config_present 0");
        undo
    }

    /// Takes both webhook configurations away until the answer is dropped.
    pub(crate) fn without_webhook_configurations(&self) -> Undo<'a> {
        let kinds = [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS];
        self.until_dropped(kinds.map(|kind| self.delete(kind, RELEASE)).into())
    }

    /// Deletes an object that can be put back.
    fn delete(&self, kind: ResourceKind, name: &str) -> Back {
        let mut object = self.object(kind, name);
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| ["name", "labels", "annotations"].contains(&key.as_str()));
        self.api().delete(kind, name).unwrap();
        Back::Object(object)
    }

    fn object(&self, kind: ResourceKind, name: &str) -> Value {
        let found = self.api().get(kind, name).unwrap();
        found.unwrap_or_else(|| panic!("the installation has no {kind} {name}"))
    }

    /// Kills every process of a service at once.
    pub(crate) fn kill(&self, service: &str) {
        let labels = component(service);
        self.api().delete_selected_now(POD, &labels).unwrap();
    }

    /// Which process of the request-controller leads.
    pub(crate) fn leader(&self) -> String {
        holder(&self.object(LEASE, CONTROLLER)).to_owned()
    }

    /// Waits until another process leads than this one.
    pub(crate) fn wait_for_another_leader(&self, before: &str) {
        let api = self.api();
        let led = api.wait_for("another leader", (LEASE, CONTROLLER), READY, |it| {
            !holder(it).is_empty() && holder(it) != before
        });
        led.unwrap();
    }

    /// Replaces every process of a service, one after the other.
    pub(crate) fn restart(&self, service: &str) {
        let moment = json!({"e2e.example.com/restarted-at": checker::now().to_string()});
        let template = json!({"metadata": {"annotations": moment}});
        let fields = json!({"spec": {"template": template}});
        self.api()
            .patch(workload(service), service, &fields)
            .unwrap();
    }

    /// Has Helm upgrade the node plugin. All its processes are replaced, and the other services stay.
    pub(crate) fn upgrade_node_plugin(&self) {
        let service = "csi-node";
        let pods = || {
            let pods = self.api().list(POD, &component(service)).unwrap();
            pods.iter().map(uid).collect::<Vec<_>>()
        };
        let before = pods();
        let container =
            &self.object(DAEMON_SET, service)["spec"]["template"]["spec"]["containers"][0];
        // A cluster that is kept may have either.
        let [present, other] = ["20m", "21m"];
        let is_other = container["resources"]["requests"]["cpu"] == other;
        let cpu = if is_other { present } else { other };
        let values = json!({"csiNode": {"resources": {"requests": {"cpu": cpu}}}});
        self.upgrade(&values).unwrap();
        self.wait_until_ready(service);
        let after = pods();
        assert!(!after.is_empty());
        assert!(
            after.iter().all(|it| !before.contains(it)),
            "{before:?} {after:?}"
        );
    }

    /// Has the kubelet make proxy tokens that live for ten minutes, the shortest time there is, until the answer is
    /// dropped.
    pub(crate) fn short_tokens(&self) -> Undo<'a> {
        let undo = self.until_dropped(vec![Back::TokenLifetime]);
        self.set_token_lifetime(Duration::from_mins(10)).unwrap();
        self.wait_until_ready("csi-node");
        undo
    }

    fn set_token_lifetime(&self, lifetime: Duration) -> Result<(), InstallError> {
        let token = json!({"expirationSeconds": lifetime.as_secs()});
        self.upgrade(&json!({"csiNode": {"proxyToken": token}}))
    }

    fn upgrade(&self, values: &Value) -> Result<(), InstallError> {
        // Helm writes the ConfigMap of the values again, also in an upgrade that fails.
        let _back = self.until_dropped(vec![Back::Configured {
            key: SCHEDULING_GATE,
            value: "Release",
        }]);
        install::upgrade(self.gate.scene().kubectl(), values)
    }

    pub(crate) fn wait_until_ready(&self, service: &str) {
        self.until_ready(service).unwrap();
    }

    fn until_ready(&self, service: &str) -> Result<(), ApiError> {
        let kind = workload(service);
        let api = self.api();
        let what = format!("{service} to be ready");
        api.wait_for(&what, (kind, service), READY, |it| {
            wanted_pods(it).is_some()
        })?;
        // The status may be of a moment before pods were killed: they are looked at themselves. Their number is that of
        // the status at that time, which is away for a while when a node comes back.
        let pods = (POD, component(service));
        api.wait_for_list(&what, (pods.0, &pods.1), READY, |pods| {
            let wanted = wanted_pods(&self.object(kind, service));
            u64::try_from(pods.len()).ok() == wanted && pods.iter().all(is_ready)
        })?;
        Ok(())
    }

    /// Takes a service away until the answer is dropped.
    pub(crate) fn away(&self, deployment: &str) -> Undo<'a> {
        let replicas = self.object(DEPLOYMENT, deployment)["spec"]["replicas"].take();
        self.scale(deployment, &json!(0)).unwrap();
        let undo = self.until_dropped(vec![Back::Replicas {
            deployment: deployment.to_owned(),
            replicas,
        }]);
        let what = format!("the end of {deployment}");
        let pods = component(deployment);
        let gone = self
            .api()
            .wait_for_list(&what, (POD, &pods), READY, <[Value]>::is_empty);
        gone.unwrap();
        undo
    }

    fn running(&self) -> Result<Vec<Value>, ApiError> {
        let pods = self.api().list(POD, "")?.into_iter();
        let running = pods.filter(|it| it["status"]["phase"] == "Running");
        Ok(running.collect())
    }

    /// The logs of every process.
    pub(crate) fn logs(&self) -> Result<Vec<(String, String)>, ApiError> {
        let log = |pod: Value| {
            let pod = name(&pod);
            Ok((format!("the log of {pod}"), self.api().logs(&pod)?))
        };
        self.running()?.into_iter().map(log).collect()
    }

    /// The metrics of every process.
    pub(crate) fn metrics(&self) -> Result<Vec<(String, String)>, ApiError> {
        let metrics = |pod: Value| {
            let pod = name(&pod);
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:9090/proxy/metrics");
            Ok((format!("the metrics of {pod}"), self.api().text(&path)?))
        };
        self.running()?.into_iter().map(metrics).collect()
    }
}

fn workload(service: &str) -> ResourceKind {
    if service == "csi-node" {
        DAEMON_SET
    } else {
        DEPLOYMENT
    }
}

fn component(service: &str) -> String {
    format!("app.kubernetes.io/component={service}")
}

/// The number of pods of a service, once its controller has updated all of them.
fn wanted_pods(service: &Value) -> Option<u64> {
    let number = |pointer: &str| service.pointer(pointer).and_then(Value::as_u64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or_default();
    let (wanted, all, updated, available) = match number("/spec/replicas") {
        Some(wanted) => (
            wanted,
            status("replicas"),
            status("updatedReplicas"),
            status("availableReplicas"),
        ),
        None => (
            number("/status/desiredNumberScheduled")?,
            status("currentNumberScheduled"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
        ),
    };
    let is_seen = status("observedGeneration") >= number("/metadata/generation")?;
    let is_done = [all, updated, available].iter().all(|it| *it == wanted);
    (is_seen && is_done).then_some(wanted)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

#[test]
fn a_service_is_ready_only_when_all_its_pods_are_of_its_present_state() {
    let deployment = |generation: u64, all: u64, updated: u64, available: u64| {
        json!({
            "metadata": {"generation": generation}, "spec": {"replicas": 2},
            "status": {
                "observedGeneration": 2, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available,
            },
        })
    };
    assert_eq!(wanted_pods(&deployment(2, 2, 2, 2)), Some(2));
    for not_yet in [
        deployment(3, 2, 2, 2),
        deployment(2, 3, 2, 2),
        deployment(2, 2, 1, 2),
        deployment(2, 2, 2, 1),
        json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}}),
        json!({"metadata": {"generation": 1}}),
    ] {
        assert_eq!(wanted_pods(&not_yet), None, "{not_yet}");
    }
    let daemons = json!({
        "metadata": {"generation": 1}, "spec": {},
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "updatedNumberScheduled": 1, "numberAvailable": 1,
        },
    });
    assert_eq!(wanted_pods(&daemons), Some(1));
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}
