//! The controller in a small cluster: one connector, one policy, one pod, one approval.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use connectors_api::{
    access_policy::{Match, ObjectKind},
    check_selector::CompiledPolicy,
    check_state::ObjectState,
    check_state::StateError,
    check_verdict, connector,
};
use evaluation_api::{
    access::{
        AccessAnswer, AccessQuestion, BindingRef, Decision, Gating, RequestSeen, Requestable,
    },
    client::EvaluationCallError,
    v1::{CheckResult, EvaluateChecksRequest, EvaluateChecksResponse, GrantedRule, ObjectResult},
    verdict,
};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{ResourceExt, core::ApiResource};
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::{
    clock::Now,
    retry::{Backoff, RetryPolicy},
    watches::{Guarded, Parse, Plain, Unreadable},
};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{ApiServer, tekton};
use crate::{
    api::{Live, Name, Strict, binding, role},
    apply::{Applier, Writes},
    cache::{ConnectorCached, KindState, PodCached, PolicyCached, World},
    check_object::{AsText, CheckObject, NamedCheck},
    evaluator::{Evaluator, Unanswered, mount_access},
    events::Events,
    metrics::{Metrics, RequestGauges},
    observe::{Observer, gated_since, pod_facts},
    plan::Terms,
    reconcile::{ReconcileError, Reconciler},
    seen::{ConnectorSeen, GrantKind, MountAccess, StandingSeen},
    shards::{JobQueues, LeadsNamespace, ShardCount},
    sweep::reads::SweepReads,
};

const CALLS: RetryPolicy = RetryPolicy {
    attempts: 1,
    attempt: std::time::Duration::from_secs(3),
    total: std::time::Duration::from_secs(6),
    pauses: Backoff::new(
        std::time::Duration::from_millis(1),
        std::time::Duration::from_millis(2),
    ),
};

pub(crate) const RESOURCE: &str = "connectors/apis/v1/pod/apps/run-deploy-pod";

/// Says of each object what its state says, and that everything may be used by the pod.
struct Judge {
    answers: Arc<AtomicBool>,
    refuses: Arc<Mutex<Option<Code>>>,
    standing: Arc<Mutex<StandingSeen>>,
    asked: Arc<Mutex<Vec<Vec<AccessQuestion>>>>,
    mounts: Arc<Mutex<BTreeMap<String, MountAccess>>>,
    mounting: Arc<Mutex<Vec<Vec<AccessQuestion>>>>,
}

impl Judge {
    fn is_there(&self) -> Result<(), Unanswered> {
        if let Some(code) = *self.refuses.lock().unwrap() {
            let status = Box::new(Status::new(code, "no"));
            let call = "EvaluateChecks";
            return Err(EvaluationCallError::Status { call, status }.into());
        }
        if !self.answers.load(Ordering::SeqCst) {
            return Err(Unanswered::Late(std::time::Duration::ZERO));
        }
        Ok(())
    }
}

impl Evaluator for Judge {
    fn mounts(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        let said = self.mounts.lock().unwrap().clone();
        let answers = questions.iter().map(|it| {
            let connector = format!("{}/{}", it.connector.namespace, it.connector.name);
            let said = said.get(&connector).copied();
            mount_access(&answer(said.unwrap_or(MountAccess::Denied)))
        });
        let answers = self.is_there().map(|()| answers.collect());
        self.mounting.lock().unwrap().push(questions);
        Box::pin(async move { answers })
    }

    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        let number = questions.len();
        self.asked.lock().unwrap().push(questions);
        let said = *self.standing.lock().unwrap();
        let answer = self.is_there().map(|()| vec![said; number]);
        Box::pin(async move { answer })
    }

    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(async move {
            self.is_there()?;
            if tekton::is_about_runs(&question) {
                return Ok(tekton::judged(&question));
            }
            let mut verdicts = Vec::new();
            let mut checks = Vec::new();
            for candidates in &question.candidates {
                let objects: Vec<Value> = candidates
                    .objects
                    .iter()
                    .map(|it| serde_json::from_slice(it).unwrap())
                    .collect();
                let results: Vec<_> = objects.iter().map(result).collect();
                let said = objects
                    .iter()
                    .map(|it| ObjectState::of(it).map(|state| state.outcome()));
                let said = check_verdict::of_objects::<StateError>(Match::default(), said);
                verdicts.push(said);
                checks.push(CheckResult {
                    check: candidates.check.clone(),
                    verdict: verdict::to_wire(said).into(),
                    reason: "Said".to_owned(),
                    message: "as it stands there".to_owned(),
                    objects: results,
                });
            }
            Ok(EvaluateChecksResponse {
                verdict: verdict::to_wire(check_verdict::of_checks(verdicts)).into(),
                checks,
                rules: vec![GrantedRule {
                    verbs: vec!["*".to_owned()],
                    resources: vec![RESOURCE.to_owned()],
                }],
                ..EvaluateChecksResponse::default()
            })
        })
    }
}

/// The answer of the evaluation service with this meaning. Its test
/// `a_batch_in_detail_says_as_each_question_alone_whether_a_request_could_be_accepted` shows that it gives such answers.
fn answer(access: MountAccess) -> AccessAnswer {
    let binding = BindingRef {
        kind: "RoleBinding".to_owned(),
        namespace: "tools".to_owned(),
        name: "b".to_owned(),
        uid: "b-uid".to_owned(),
    };
    let request = RequestSeen {
        name: "r".to_owned(),
        uid: "r-uid".to_owned(),
        resource_version: "1".to_owned(),
        phase: None,
        check_reason: None,
        permission_reason: None,
        ready_reason: None,
        message: String::new(),
    };
    let (decision, request, requestable) = match access {
        MountAccess::Allowed => (
            Decision::AllowedStanding(binding),
            None,
            Requestable::Unknown,
        ),
        MountAccess::Requested => (Decision::Denied, Some(request), Requestable::Unknown),
        MountAccess::Denied => (Decision::Denied, None, Requestable::Yes),
        MountAccess::Unaccepted => (Decision::Denied, None, Requestable::No),
        MountAccess::Unknown => panic!("no answer has this meaning"),
    };
    AccessAnswer {
        decision,
        reason: String::new(),
        request,
        fresh_as_of: None,
        gating: Gating::On,
        requestable,
    }
}

fn result(object: &Value) -> ObjectResult {
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let said = ObjectState::of(object).map(|state| state.outcome());
    let said = check_verdict::of_objects::<StateError>(Match::default(), [said]);
    ObjectResult {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        state: text("/status/state"),
        verdict: verdict::to_wire(said).into(),
        ..ObjectResult::default()
    }
}

fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// An object as its watch brings it.
#[allow(
    clippy::unnecessary_wraps,
    reason = "as the caches take it; none is an object that is gone"
)]
pub(crate) fn check_object(
    resource: &ApiResource,
    object: &Value,
) -> Option<Result<CheckObject, Unreadable>> {
    let read = <AsText as Parse<NamedCheck>>::parse(&object.to_string());
    let read = read.map(|it| it.object.of_kind(resource));
    Some(read.map_err(|problem| Unreadable {
        metadata: serde_json::from_value(object["metadata"].clone()).unwrap(),
        problem,
    }))
}

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) leads: Arc<AtomicBool>,
    pub(crate) answers: Arc<AtomicBool>,
    /// With what every question is refused.
    pub(crate) refuses: Arc<Mutex<Option<Code>>>,
    /// What is said about the standing permission of every pod.
    pub(crate) standing: Arc<Mutex<StandingSeen>>,
    /// The questions about standing permissions, call by call.
    pub(crate) asked: Arc<Mutex<Vec<Vec<AccessQuestion>>>>,
    /// What is said about mounts, by connector. Of others, that a request could be accepted.
    pub(crate) mounts: Arc<Mutex<BTreeMap<String, MountAccess>>>,
    /// The questions about mounts, call by call.
    pub(crate) mounting: Arc<Mutex<Vec<Vec<AccessQuestion>>>>,
    pub(crate) now: Arc<Mutex<Now>>,
    /// How many requests may wait at a time.
    pub(crate) most_waiting: usize,
    /// How many shards there are.
    pub(crate) shards: ShardCount,
    /// The shards that the process does not lead.
    pub(crate) not_led: Arc<Mutex<Vec<usize>>>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let server = ApiServer::new();
        let ours = "connectors.alauda.io/v1alpha1";
        server.put(
            "connectors",
            json!({
                "apiVersion": ours, "kind": "Connector",
                "metadata": {"name": "harbor", "namespace": "tools", "uid": "connector-uid"},
                "spec": {"connectorClassName": "harbor"},
            }),
        );
        server.put("accesspolicies", json!({
            "apiVersion": ours, "kind": "AccessPolicy",
            "metadata": {"name": "p", "namespace": "tools", "uid": "p-uid", "generation": 1},
            "spec": {"checkGrantedPermission": {
                "requesters": [{"kind": "ServiceAccount", "name": "builder", "namespace": "apps"}],
                "spec": {
                    "checks": [{"name": "approval", "selector": {
                        "labels": {"run": "{.object.metadata.name}"},
                        "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                    }}],
                    "permissions": {"roleTemplate": {"rules": [{
                        "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                        "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                    }]}},
                },
            }},
        }));
        server.put(
            "pods",
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "run-deploy-pod", "namespace": "apps", "uid": "pod-uid"},
                "spec": {"serviceAccountName": "builder"},
                "status": {"phase": "Pending"},
            }),
        );
        server.put("accessrequests", json!({
            "apiVersion": ours, "kind": "AccessRequest",
            "metadata": {
                "name": "request", "namespace": "tools", "uid": "request-uid", "generation": 1,
                "creationTimestamp": "2026-03-01T10:00:00Z",
            },
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "builder"},
                "connectorRef": {"name": "harbor"},
                "context": {"objectRef": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "run-deploy-pod", "uid": "pod-uid",
                }},
            },
        }));
        let now = Now {
            wall: "2026-03-01T10:00:10Z".parse().unwrap(),
            mono: Instant::now(),
        };
        Self {
            server,
            leads: Arc::new(AtomicBool::new(true)),
            answers: Arc::new(AtomicBool::new(true)),
            refuses: Arc::default(),
            standing: Arc::default(),
            asked: Arc::default(),
            mounts: Arc::default(),
            mounting: Arc::default(),
            now: Arc::new(Mutex::new(now)),
            most_waiting: 2,
            shards: ShardCount::ONE,
            not_led: Arc::default(),
        }
    }

    /// The pod waits with the scheduling gate, and with one of others, for these connectors. There is no request of it.
    pub(crate) fn gated(connectors: &str) -> Self {
        let cluster = Self::new();
        cluster.server.remove("accessrequests", "request");
        cluster.server.change("pods", "run-deploy-pod", |pod| {
            pod["metadata"]["creationTimestamp"] = "2026-03-01T10:00:00Z".into();
            pod["spec"]["schedulingGates"] =
                json!([{"name": "example.com/quota"}, {"name": "connectors.alauda.io/approval"}]);
            pod["spec"]["volumes"] = json!([{"name": "tool", "csi": {
                "driver": "connectors-csi", "readOnly": true, "volumeAttributes": {"connectors": connectors},
            }}]);
        });
        cluster
    }

    pub(crate) fn approval(&self, state: &str) {
        self.server.put("configmaps", json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "approval-1", "namespace": "apps", "uid": "approval-uid", "labels": {"run": "run-deploy-pod"}},
            "status": {"state": state},
        }));
    }

    /// Puts more policies beside those of the cluster into the caches than are kept there.
    pub(crate) fn crowd_policies(&self, controller: &Reconciler) -> Vec<Name> {
        let mut padding = self.server.all("accesspolicies").remove(0);
        padding["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["state"] =
            json!({"rego": "x".repeat(60 * 1024)});
        let mut state = controller.world.write();
        let names: Vec<_> = (0..80)
            .map(|it| Name::new("tools", &format!("padding-{it}")))
            .collect();
        for name in &names {
            padding["metadata"]["name"] = name.name.clone().into();
            let policy: connectors_api::AccessPolicy =
                serde_json::from_value(padding.clone()).unwrap();
            let cached = PolicyCached {
                uid: name.name.clone(),
                deleting: false,
                policy: Ok(Arc::new(CompiledPolicy::of(policy, None))),
            };
            let _ = state.policy(name, Some(cached));
        }
        assert!(state.policies.of("tools").is_none());
        names
    }

    pub(crate) fn request() -> Name {
        Name::new("tools", "request")
    }

    pub(crate) fn status(&self) -> Value {
        self.server.named("accessrequests", "request").unwrap()["status"].clone()
    }

    pub(crate) fn phase(&self) -> String {
        self.status()["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// True while no account is bound to anything. A Role alone gives nothing.
    pub(crate) fn gives_nothing(&self) -> bool {
        self.server.all("rolebindings").is_empty()
    }

    /// Names of all managed objects, the bindings first.
    pub(crate) fn managed(&self) -> Vec<String> {
        ["rolebindings", "roles"]
            .iter()
            .flat_map(|plural| self.server.all(plural))
            .map(|it| {
                format!(
                    "{} {}",
                    it["kind"].as_str().unwrap_or_default(),
                    it["metadata"]["name"]
                )
            })
            .collect()
    }

    /// The evaluation service of a controller.
    pub(crate) fn evaluator(&self) -> Arc<dyn Evaluator> {
        Arc::new(Judge {
            answers: Arc::clone(&self.answers),
            refuses: Arc::clone(&self.refuses),
            standing: Arc::clone(&self.standing),
            asked: Arc::clone(&self.asked),
            mounts: Arc::clone(&self.mounts),
            mounting: Arc::clone(&self.mounting),
        })
    }

    /// A controller that was just started: its caches hold what is there now.
    pub(crate) fn controller(&self) -> Reconciler {
        let client = self.server.client();
        let world = Arc::new(World::default());
        let live = Live::new(client.clone(), CALLS);
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let leads = Arc::clone(&self.leads);
        let leads: LeadsNamespace = {
            let (shards, not_led) = (self.shards, Arc::clone(&self.not_led));
            Arc::new(move |namespace| {
                let is_led = !not_led.lock().unwrap().contains(&shards.of(namespace));
                is_led && leads.load(Ordering::SeqCst)
            })
        };
        let now = Arc::clone(&self.now);
        let clock: service_kit::clock::Clock = Arc::new(move || *now.lock().unwrap());
        let writes = Writes::new(client.clone(), CALLS, Arc::clone(&leads), metrics.clone());
        let reconciler = Reconciler {
            observer: Observer::new(
                Arc::clone(&world),
                live.clone(),
                self.evaluator(),
                Arc::clone(&clock),
                self.most_waiting,
            ),
            applier: Applier::new(live.clone(), writes, Arc::clone(&clock), metrics.clone()),
            queues: Arc::new(JobQueues::new(self.shards, || {
                crate::controller::queue(Arc::clone(&world))
            })),
            world,
            live,
            events: Events::new(client, "test").0,
            metrics,
            gauges: self
                .shards
                .all()
                .map(|_| RequestGauges::register(&Registry::new()).unwrap())
                .collect(),
            clock,
            leads,
            sweeps: SweepReads::default(),
            terms: Terms {
                retention: jiff::SignedDuration::from_hours(168),
            },
            paces: std::sync::Mutex::default(),
        };
        self.fill(&reconciler);
        reconciler
    }

    /// Has a controller read by this client.
    pub(crate) fn reads_by(
        &self,
        controller: &mut Reconciler,
        client: kube::Client,
        policy: RetryPolicy,
    ) {
        controller.observer = Observer::new(
            Arc::clone(&controller.world),
            Live::new(client, policy),
            self.evaluator(),
            Arc::clone(&controller.clock),
            self.most_waiting,
        );
    }

    /// Brings the caches of a controller up to date.
    pub(crate) fn fill(&self, controller: &Reconciler) {
        let enabled = [("enable-connectors-approval".to_owned(), "true".to_owned())];
        let _ = controller.world.write().learn(&BTreeMap::from(enabled));
        self.fill_objects(controller);
    }

    /// The same without a word about the configuration.
    pub(crate) fn fill_objects(&self, controller: &Reconciler) {
        let mut state = controller.world.write();
        let kind = ObjectKind {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
        };
        let _ = state.kind(
            &kind,
            KindState::Watching(ApiResource::erase::<ConfigMap>(&())),
        );
        let name = |it: &Value| {
            let text = |field: &str| {
                it["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            Name::new(&text("namespace"), &text("name"))
        };
        for object in self.server.all("configmaps") {
            let resource = ApiResource::erase::<ConfigMap>(&());
            let read = check_object(&resource, &object);
            let _ = state.object(&kind, &name(&object), read);
        }
        for (kind, plural) in tekton::kinds() {
            let resource = tekton::resource(&kind);
            state.begin_kind(&kind, tekton::keeps(&kind));
            let _ = state.kind(&kind, KindState::Watching(resource.clone()));
            for object in self.server.all(plural) {
                let read = check_object(&resource, &object);
                let _ = state.object(&kind, &name(&object), read);
            }
        }
        for request in self.server.all("accessrequests") {
            let parsed =
                <Strict as Parse<connectors_api::AccessRequest>>::parse(&request.to_string());
            let parsed = parsed.map(Arc::new).map_err(|problem| Unreadable {
                metadata: serde_json::from_value(request["metadata"].clone()).unwrap(),
                problem,
            });
            let _ = state.request(&name(&request), parsed);
        }
        for policy in self.server.all("accesspolicies") {
            let parsed =
                <Strict as Parse<connectors_api::AccessPolicy>>::parse(&policy.to_string());
            let parsed = parsed.map(|it| Arc::new(CompiledPolicy::of(it, None)));
            let cached = PolicyCached {
                uid: policy["metadata"]["uid"].as_str().unwrap().to_owned(),
                deleting: is_going(&policy),
                policy: parsed.map_err(|problem| Unreadable {
                    metadata: serde_json::from_value(policy["metadata"].clone()).unwrap(),
                    problem,
                }),
            };
            let _ = state.policy(&name(&policy), Some(cached));
        }
        for connector in self.server.all("connectors") {
            let cached = ConnectorCached {
                seen: ConnectorSeen {
                    uid: connector["metadata"]["uid"].as_str().unwrap().to_owned(),
                },
                labels: serde_json::from_value::<connector::Selectable>(connector.clone())
                    .unwrap()
                    .labels()
                    .clone(),
            };
            let cached = (!is_going(&connector)).then_some(cached);
            let _ = state.connector(&name(&connector), cached);
        }
        for pod in self.server.all("pods") {
            let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
            let facts = pod_facts(&typed);
            let cached = PodCached {
                gated_since: gated_since(&typed),
                uid: typed.metadata.uid.unwrap().into(),
                version: typed.metadata.resource_version.unwrap().into(),
                facts: Some(facts),
            };
            let _ = state.pod(&name(&pod), Some(cached));
        }
        for object in self.server.all("roles") {
            let guarded: Guarded<_, Plain> = serde_json::from_value(object.clone()).unwrap();
            let role = role(guarded);
            let _ = state.grant(GrantKind::Role, &name(&object), Some(&role), None);
        }
        for object in self.server.all("rolebindings") {
            let guarded: Guarded<_, Plain> = serde_json::from_value(object.clone()).unwrap();
            let binding = binding(guarded);
            let _ = state.grant(GrantKind::RoleBinding, &name(&object), Some(&binding), None);
        }
    }

    /// One look at the request by a controller whose caches are up to date.
    pub(crate) async fn look(&self) -> Result<(), ReconcileError> {
        let controller = self.controller();
        let request = Self::request();
        // Tests hold several of these in one future.
        Box::pin(controller.request(&request, Instant::now()))
            .await
            .map(|_| ())
    }

    /// What a new leader does, until nothing changes any more.
    pub(crate) async fn restart(&self) {
        let controller = self.controller();
        crate::sweep::sweep(&controller, 0, std::time::Duration::ZERO)
            .await
            .unwrap();
        for _ in 0..10 {
            self.server.forget_writes();
            if self.server.named("accessrequests", "request").is_none() {
                return;
            }
            if self.look().await.is_ok() && self.server.writes().is_empty() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.server.writes());
    }

    /// A request that was approved and granted.
    pub(crate) async fn granted() -> Self {
        let cluster = Self::new();
        cluster.approval("approved");
        cluster.look().await.unwrap();
        assert_eq!(cluster.phase(), "Granted");
        cluster.server.forget_writes();
        cluster
    }
}
