//! A pipeline run whose deploy pod waits for its approval, as Tekton and the gate write it.

use std::collections::BTreeMap;

use connectors_api::{
    access_policy::ObjectKind,
    judge::{self, PolicyQuestion, Stage},
    lineage::TEKTON,
};
use evaluation_api::{
    access::read_time,
    judgement,
    v1::{EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage},
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{ApiServer, Cluster, cluster::check_object};
use crate::{api::Name, cache::Keeps, reconcile::Reconciler};

const GATE: &str = "openshift-pipelines.org/v1alpha1";
const RUN: &str = "run";

/// The kinds of a run, with their plurals.
pub(crate) fn kinds() -> Vec<(ObjectKind, &'static str)> {
    let approval = ObjectKind {
        api_version: GATE.to_owned(),
        kind: "ApprovalTask".to_owned(),
    };
    let between = TEKTON.object_kinds();
    let kinds = between.chain([approval]);
    kinds
        .map(|kind| (kind.clone(), plural(&kind.kind)))
        .collect()
}

/// The objects of a kind that the caches keep.
pub(crate) fn keeps(kind: &ObjectKind) -> Keeps {
    if TEKTON.object_kinds().any(|it| it == *kind) {
        Keeps::Linked
    } else {
        Keeps::All
    }
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "TaskRun" => "taskruns",
        "CustomRun" => "customruns",
        "PipelineRun" => "pipelineruns",
        _ => "approvaltasks",
    }
}

/// The API's description of a kind.
pub(crate) fn resource(kind: &ObjectKind) -> ApiResource {
    let (group, version) = kind.api_version.split_once('/').unwrap();
    let kind_of = GroupVersionKind::gvk(group, version, &kind.kind);
    ApiResource::from_gvk_with_plural(&kind_of, plural(&kind.kind))
}

fn object(api_version: &str, kind: &str, name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let owners = owner.map(|(api_version, kind, name)| {
        json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{kind}-{name}"),
            "controller": true,
        })
    });
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "apps", "uid": format!("uid-{kind}-{name}"),
            "creationTimestamp": "2026-03-01T10:00:00Z", "ownerReferences": owners.as_slice(),
            "labels": {"tekton.dev/pipelineRun": RUN},
        },
    })
}

fn params() -> Value {
    json!([
        {"name": "approvers", "value": ["alice"]}, {"name": "numberOfApprovalsRequired", "value": "1"},
    ])
}

fn steps() -> Value {
    json!({"steps": [{"name": "deploy", "image": "tool:1"}]})
}

impl Cluster {
    /// A cluster whose policy asks for an ApprovalTask of the pod's run, with such a run. No approver has answered.
    pub(crate) fn with_run() -> Self {
        let cluster = Self::new();
        let run = (("tekton.dev/v1"), "PipelineRun", RUN);
        let server = &cluster.server;
        server.change("accesspolicies", "p", |policy| {
            let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
            checks[0]["selector"] = json!({
                "labels": {"tekton.dev/pipelineRun": "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
                "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
            });
        });
        server.change("pods", "run-deploy-pod", |pod| {
            let owned = object(
                "v1",
                "Pod",
                "run-deploy-pod",
                Some(("tekton.dev/v1", "TaskRun", "run-deploy")),
            );
            pod["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
            pod["metadata"]["labels"] = owned["metadata"]["labels"].clone();
            pod["metadata"]["creationTimestamp"] = "2026-03-01T10:00:00Z".into();
        });
        let mut pipeline = object("tekton.dev/v1", "PipelineRun", RUN, None);
        pipeline["spec"] = json!({"taskRunTemplate": {"serviceAccountName": "builder"}});
        pipeline["status"] = json!({
            "pipelineSpec": {"tasks": [
                {"name": "wait", "taskRef": {"apiVersion": GATE, "kind": "ApprovalTask"}, "params": params()},
                {"name": "deploy", "taskSpec": steps()},
            ]},
            "childReferences": [
                {"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": "run-wait", "pipelineTaskName": "wait"},
                {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "run-deploy", "pipelineTaskName": "deploy"},
            ],
        });
        let mut task_run = object("tekton.dev/v1", "TaskRun", "run-deploy", Some(run));
        task_run["spec"] = json!({"serviceAccountName": "builder", "taskSpec": steps()});
        task_run["status"] = json!({"podName": "run-deploy-pod"});
        let mut custom_run = object("tekton.dev/v1beta1", "CustomRun", "run-wait", Some(run));
        custom_run["spec"] = json!({
            "serviceAccountName": "builder", "params": params(),
            "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
        });
        let owner = ("tekton.dev/v1beta1", "CustomRun", "run-wait");
        let mut approval = object(GATE, "ApprovalTask", "run-wait", Some(owner));
        approval["spec"] = json!({
            "numberOfApprovalsRequired": 1, "approvers": [{"name": "alice", "type": "User", "input": "pending"}],
        });
        approval["status"] = json!({"state": "pending"});
        for object in [pipeline, task_run, custom_run, approval] {
            server.put(plural(object["kind"].as_str().unwrap()), object);
        }
        cluster
    }

    /// The approver says yes, and the gate sums up.
    pub(crate) fn approve(&self) {
        self.server.change("approvaltasks", "run-wait", |approval| {
            approval["spec"]["approvers"][0]["input"] = "approve".into();
            approval["spec"]["approvers"][0]["message"] = "go".into();
            approval["status"]["state"] = "approved".into();
        });
    }

    /// One event of an object of a run, as its watch would bring it. Returns the woken jobs.
    pub(crate) fn news(
        &self,
        controller: &Reconciler,
        plural: &str,
        name: &str,
    ) -> crate::cache::Wakes {
        let (kind, _) = kinds().into_iter().find(|it| it.1 == plural).unwrap();
        let object = self
            .server
            .named(plural, name)
            .and_then(|it| check_object(&resource(&kind), &it));
        let mut state = controller.world.write();
        state.object(&kind, &Name::new("apps", name), object)
    }
}

/// Takes an object of a run away while a controller looks on through its caches.
pub(crate) fn take_away(server: &ApiServer, plural: &str, name: &str) -> Value {
    let object = server.named(plural, name).unwrap();
    server.remove(plural, name);
    object
}

/// Whether a question is about approvals of runs.
pub(crate) fn is_about_runs(question: &EvaluateChecksRequest) -> bool {
    let objects = question.candidates.iter().flat_map(|it| &it.objects);
    objects
        .map(|it| read(it))
        .any(|it| it["kind"] == "ApprovalTask")
}

fn read(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

/// The answer of the judge itself.
pub(crate) fn judged(question: &EvaluateChecksRequest) -> EvaluateChecksResponse {
    let objects = |texts: &[Vec<u8>]| texts.iter().map(|it| read(it)).collect::<Vec<_>>();
    let candidates = question.candidates.iter();
    let asked = PolicyQuestion {
        policy: read(&question.policy),
        context: read(&question.context_object),
        connector: question.connector.clone(),
        candidates: candidates
            .map(|it| (it.check.clone(), objects(&it.objects)))
            .collect(),
        shared: BTreeMap::new(),
        lineage: objects(&question.lineage),
        creators_since: question.creators_since.as_ref().and_then(read_time),
        stage: if question.stage == i32::from(EvaluationStage::AfterGrant) {
            Stage::AfterGrant
        } else {
            Stage::BeforeGrant
        },
    };
    judgement::to_wire(judge::prepare(asked.read().unwrap()).unwrap().finish([]))
}
