//! A world on the fake API server, with both controllers as they ship.

use std::sync::Arc;
use std::time::Duration;

use campaign::evaluator::Oracle;
use campaign::process::Processes;
use campaign::stage::{SYSTEM, Stage};
use connectors_api::request_name::RequestIdentity;
use connectors_api::{AccessRequestSpec, labels};
use evaluation_api::client::EvaluationCallError;
use evaluation_api::v1::Finding;
use futures::future::BoxFuture;
use futures::stream;
use policy_controller::checks::facts::Validator;
use policy_controller::controller::{self, Settings};
use policy_controller::seen::MostSelected;
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::client::bounded;
use service_kit::clock::{Now, whole_seconds};
use service_kit::lease::LeaseTerms;
use service_kit::readiness::Readiness;
use service_kit::shutdown::{Signal, Tasks};
use testkit::{ApiServer, Caller, Kind};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::world::{Ask, Meanwhile, OURS, World};

/// The time in which both controllers have done all that they do at once.
const SETTLED: Duration = Duration::from_secs(7);
/// The age of the requests at the forecast.
const WAITED: Duration = Duration::from_secs(24);
/// The interval of sweeps.
const SWEEP: Duration = Duration::from_secs(15);
/// The limit of subjects that the installation has.
const MOST_SELECTED: usize = 20_000;

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    processes: Processes,
    policies: JoinHandle<()>,
}

/// Finds no fault in any Rego.
struct NoFindings;

impl Validator for NoFindings {
    fn findings(&self, _: Vec<u8>) -> BoxFuture<'_, Result<Vec<Finding>, EvaluationCallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Cluster {
    /// With all of a world before the events, and the effect of it.
    pub(crate) async fn of(world: &World) -> Self {
        let stage = Stage::new();
        let server = stage.server.clone();
        let kind = |group: &str, kind: &str, plural: &str| Kind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
            status: false,
        };
        server.register(kind("example.com", "Freeze", "freezes"));
        server.register(kind("apps", "Deployment", "deployments"));
        let most = format!("--max-selected-subjects={MOST_SELECTED}");
        server.create(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "policy-controller", "namespace": SYSTEM},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "args": [most]}]}}},
        }));
        rights(&server);
        server.change("configmaps", SYSTEM, "connectors-config", |it| {
            for (key, value) in &world.settings {
                it["data"][key] = value.clone().into();
            }
        });
        for object in &world.objects {
            put(&server, object);
        }
        for policy in &world.policies {
            put(&server, policy);
        }
        let cluster = Self {
            processes: Processes::new(
                stage.clone(),
                Oracle::new(None, None),
                Duration::from_hours(168),
            )
            .sweeping(SWEEP),
            policies: tokio::spawn(follow_policies(server.clone())),
            server,
        };
        cluster.processes.start(SYSTEM, "one");
        sleep(SETTLED).await;
        cluster.ask(&world.asks);
        sleep(WAITED).await;
        cluster
    }

    /// The requests, as the node plugin creates them.
    pub(crate) fn ask(&self, asks: &[Ask]) {
        for ask in asks {
            let name = self.name_of(ask);
            if self
                .server
                .get("accessrequests", &ask.owner, &name)
                .is_some()
            {
                continue;
            }
            let spec = json!({
                "subject": {"kind": "ServiceAccount", "name": ask.account, "namespace": ask.home},
                "connectorRef": {"name": ask.connector},
                "permission": ask.permission,
                "context": {"objectRef": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": ask.home, "name": ask.pod, "uid": self.pod_uid(ask),
                }},
            });
            let parsed: AccessRequestSpec = serde_json::from_value(spec.clone()).unwrap();
            self.server.create(json!({
                "apiVersion": OURS, "kind": "AccessRequest", "spec": spec,
                "metadata": {"name": name, "namespace": ask.owner, "labels": labels::of_request(&parsed)},
            }));
        }
    }

    /// A connector that is being deleted is none.
    pub(crate) fn has_connector(&self, ask: &Ask) -> bool {
        let connector = self.server.get("connectors", &ask.owner, &ask.connector);
        connector.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_string())
    }

    fn pod_uid(&self, ask: &Ask) -> String {
        let pod = self.server.get("pods", &ask.home, &ask.pod);
        let uid = pod.as_ref().and_then(|it| it["metadata"]["uid"].as_str());
        uid.unwrap_or("gone").to_owned()
    }

    pub(crate) fn name_of(&self, ask: &Ask) -> String {
        let identity = RequestIdentity {
            subject_namespace: &ask.home,
            subject_name: &ask.account,
            connector: &ask.connector,
            permission: ask.permission,
            pod_uid: &self.pod_uid(ask),
        };
        identity.name()
    }

    /// The events, and their effect.
    pub(crate) async fn meet(&self, world: &World) {
        let keep = |plural: &str, namespace: &str, name: &str| {
            self.server.change(plural, namespace, name, |it| {
                it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
            });
            self.server.delete(plural, namespace, name);
        };
        for event in &world.meanwhile {
            match event {
                Meanwhile::PodGoes(namespace, name) => keep("pods", namespace, name),
                Meanwhile::PodEnds(namespace, name) => {
                    self.server.change("pods", namespace, name, |it| {
                        it["status"]["phase"] = "Succeeded".into();
                    });
                }
                Meanwhile::Decided(namespace, name, state) => {
                    self.server.change("signoffs", namespace, name, |it| {
                        it["status"]["state"] = state.clone().into();
                    });
                }
                Meanwhile::ConnectorGoes(namespace, name) => keep("connectors", namespace, name),
                Meanwhile::ConnectorReplaced(namespace, name) => {
                    let mut connector = self.server.get("connectors", namespace, name).unwrap();
                    self.server.delete("connectors", namespace, name);
                    let metadata = connector["metadata"].as_object_mut().unwrap();
                    metadata
                        .retain(|key, _| ["name", "namespace", "labels"].contains(&key.as_str()));
                    self.server.create(connector);
                }
                Meanwhile::RequestGoes(number) => {
                    let ask = &world.asks[*number];
                    let name = self.name_of(ask);
                    if self
                        .server
                        .get("accessrequests", &ask.owner, &name)
                        .is_some()
                    {
                        keep("accessrequests", &ask.owner, &name);
                    }
                }
            }
        }
        sleep(SETTLED).await;
    }

    /// The policies of the files are applied, others are deleted after that, and all of it has its effect. Granted requests
    /// are looked at by a sweep.
    pub(crate) async fn apply(
        &self,
        files: &[Value],
        removed: &[(String, String)],
        has_grants: bool,
    ) {
        for file in files {
            put(&self.server, file);
        }
        if !removed.is_empty() {
            sleep(SETTLED).await;
        }
        for (namespace, name) in removed {
            self.server.delete("accesspolicies", namespace, name);
        }
        if has_grants {
            sleep(SWEEP).await;
        }
        sleep(SETTLED).await;
    }

    /// Each request is made anew, with approvals switched on.
    pub(crate) async fn start_over(&self, asks: &[Ask]) {
        self.server
            .change("configmaps", SYSTEM, "connectors-config", |it| {
                it["data"]["enable-connectors-approval"] = "true".into();
            });
        for request in self.server.list("accessrequests") {
            let text = |field: &str| request["metadata"][field].as_str().unwrap().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            self.server
                .change("accessrequests", &namespace, &name, |it| {
                    it["metadata"]["finalizers"] = json!([]);
                });
            if self
                .server
                .get("accessrequests", &namespace, &name)
                .is_some()
            {
                self.server.delete("accessrequests", &namespace, &name);
            }
        }
        sleep(SETTLED).await;
        self.ask(asks);
        sleep(SETTLED).await;
    }

    /// Faults of the controllers themselves. Both end.
    pub(crate) fn end(self) -> Vec<String> {
        let complaints = self.processes.complaints();
        let _ = self.processes.kill_all();
        self.server.kill("policies");
        self.policies.abort();
        complaints
    }
}

/// Creates an object, or replaces its labels and its spec.
fn put(server: &ApiServer, object: &Value) {
    let plural = match object["kind"].as_str().unwrap() {
        "AccessPolicy" => "accesspolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    if server.get(&plural, namespace, name).is_none() {
        server.create(object.clone());
        return;
    }
    server.change(&plural, namespace, name, |it| {
        if object["metadata"]["labels"].is_object() {
            it["metadata"]["labels"] = object["metadata"]["labels"].clone();
        }
        if object["spec"].is_object() {
            it["spec"] = object["spec"].clone();
        }
    });
}

async fn follow_policies(server: ApiServer) {
    let caller = Caller::service_account("policies", SYSTEM, "policy-controller");
    let clock = server.clone();
    let settings = Settings {
        client: bounded(server.client(&caller)),
        validator: Arc::new(NoFindings),
        clock: Arc::new(move || Now {
            wall: whole_seconds(clock.now()),
            mono: Instant::now(),
        }),
        namespace: SYSTEM.to_owned(),
        identity: "policies".to_owned(),
        lease: LeaseTerms::default(),
        sweep_every: SWEEP,
        most_selected: MostSelected(MOST_SELECTED),
    };
    let mut tasks = Tasks::new();
    let (readiness, start) = Readiness::starting();
    controller::start(settings, &Registry::new(), &mut tasks, &readiness).unwrap();
    start.ready();
    let never = stream::pending::<Signal>();
    tasks.run(never, &readiness, Duration::ZERO).await;
}

/// The policy-controller may do everything here. Its rights are a subject of other tests.
fn rights(server: &ApiServer) {
    let rbac = "rbac.authorization.k8s.io";
    server.create(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "policy-controller"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }));
    server.create(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "policy-controller"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "policy-controller"},
        "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM, "name": "policy-controller"}],
    }));
}
