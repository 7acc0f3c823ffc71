//! The objects of one request, as long as the API server sends them.

use evaluation_api::v1::{CheckResult, EvaluateChecksResponse, GrantedRule, ObjectResult};
use serde_json::{Value, json};
use service_kit::name::NameParts;

use crate::{api::Name, grant};

pub(super) const TOOLS: &str = "tools-team";
pub(super) const POLICY: &str = "production-harbor-push";
pub(super) const POLICY_UID: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const PODS: &str = "delivery-team";

/// A policy of usual length.
pub(super) fn policy() -> String {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": POLICY, "namespace": TOOLS, "uid": POLICY_UID, "generation": 3},
        "spec": {"permission": "apis", "checkGrantedPermission": granted_permission()},
    })
    .to_string()
}

fn granted_permission() -> Value {
    json!({
        "requesters": [{"kind": "ServiceAccount", "name": "pipeline", "namespace": PODS}],
        "spec": {
            "checks": [{
                "name": "manual-approval-check",
                "selector": {
                    "labels": {"tekton.dev/pipelineRun": "{.object.metadata.labels[\"tekton\\.dev/pipelineRun\"]}"},
                    "objectRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
                },
                "approvers": {"users": ["alice@example.com", "bob@example.com"], "minimum": 1, "notRequester": true},
                "match": "All", "latch": "Auto", "provenance": "None",
            }],
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
            }]}},
            "limits": {"maxDuration": "4h", "pendingTimeout": "24h"},
        },
    })
}

/// `managedFields` of a manager that wrote these fields.
fn managed(manager: &str, fields: &Value) -> Value {
    fn owned(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let owned = fields
                    .iter()
                    .map(|(key, it)| (format!("f:{key}"), owned(it)));
                Value::Object(owned.collect())
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => json!({}),
        }
    }
    json!({
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-03-01T10:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": owned(fields),
    })
}

/// The objects of one request.
pub(super) struct Objects(usize);

impl Objects {
    pub(super) const fn of(number: usize) -> Self {
        Self(number)
    }

    fn uid_of(&self, kind: u32) -> String {
        format!("{kind:08x}-2f1b-4c58-9d53-{:012x}", self.0)
    }

    pub(super) fn uid(&self) -> String {
        self.uid_of(1)
    }

    pub(super) fn pod_uid(&self) -> String {
        self.uid_of(2)
    }

    pub(super) fn run(&self) -> String {
        format!("release-frontend-{:05}", self.0)
    }

    pub(super) fn name(&self) -> Name {
        Name::new(TOOLS, &format!("areq-{:016x}", self.0))
    }

    pub(super) fn pod_name(&self) -> Name {
        Name::new(PODS, &format!("{}-deploy-pod", self.run()))
    }

    pub(super) fn check_name(&self) -> Name {
        Name::new(PODS, &format!("{}-wait", self.run()))
    }

    fn resource(&self) -> String {
        format!("connectors/apis/v1/pod/{PODS}/{}", self.pod_name().name)
    }

    pub(super) fn note(&self) -> String {
        let check = &self.check_name().name;
        format!(
            "harbor-prod: waits for ApprovalTask {check}: 0 of 1 approvals; approve it with: tkn-approvaltask approve {check} \
             -n {PODS}"
        )
    }

    fn check_ref(&self, state: &str) -> Value {
        json!({
            "name": "manual-approval-check",
            "ref": {
                "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask", "namespace": PODS,
                "name": self.check_name().name, "uid": self.uid_of(3), "resourceVersion": format!("{}", 4_000_000 + self.0),
            },
            "status": {"state": state, "reason": "Said", "message": self.note()},
        })
    }

    /// A request with the status of its phase.
    pub(super) fn request(&self, phase: &str) -> String {
        let is_granted = phase == "Granted";
        let state = if is_granted { "approved" } else { "pending" };
        let condition = |kind: &str, status: &str, reason: &str| {
            let message = if status == "True" {
                String::new()
            } else {
                self.note()
            };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-03-01T10:00:00Z", "observedGeneration": 1,
            })
        };
        let ready = if is_granted {
            ("True", "Granted")
        } else {
            ("False", "Pending")
        };
        let mut policy = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": POLICY, "namespace": TOOLS, "uid": POLICY_UID, "generation": 3},
        });
        let rules = json!([{"resources": [self.resource()], "verbs": ["*"]}]);
        let mut entry = json!({"checkRefs": [self.check_ref(state)], "preparedRules": rules});
        if is_granted {
            policy["spec"] =
                json!({"permission": "apis", "checkGrantedPermission": granted_permission()});
            entry["grant"] = json!({
                "state": "Granted", "rules": rules, "grantedAt": "2026-03-01T10:01:00Z", "expiresAt": "2026-03-01T14:01:00Z",
            });
        }
        entry["policy"] = policy;
        let mut status = json!({
            "observedGeneration": 1, "phase": phase, "policies": [entry], "connectorUid": self.uid_of(9),
            "conditions": [
                condition("ContextObjectValid", "True", "Valid"), condition("ConnectorResolved", "True", "Resolved"),
                condition("AccessPolicyMatched", "True", "Matched"), condition("AccessCheckReady", ready.0, "AccessCheckPending"),
                condition("AccessPermissionSync", ready.0, "Waiting"), condition("Ready", ready.0, ready.1),
            ],
        });
        if is_granted {
            status["grantedAt"] = "2026-03-01T10:01:00Z".into();
            status["expiresAt"] = "2026-03-01T14:01:00Z".into();
            status["evidence"] = format!("sha256:{:064x}", self.0).into();
        }
        let NameParts { namespace, name } = &*self.name();
        let spec = json!({
            "subject": {"kind": "ServiceAccount", "name": "pipeline", "namespace": PODS},
            "connectorRef": {"name": "harbor-prod", "namespace": TOOLS}, "permission": "apis",
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": PODS, "name": self.pod_name().name, "uid": self.pod_uid(),
            }},
        });
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.uid(), "resourceVersion": format!("{}", 5_000_000 + self.0),
                "generation": 1, "creationTimestamp": "2026-03-01T10:00:00Z",
                "managedFields": [
                    managed("csi-node", &json!({"spec": spec})), managed("request-controller", &json!({"status": status})),
                ],
            },
            "spec": spec, "status": status,
        })
        .to_string()
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/managed-by": "tekton-pipelines", "tekton.dev/pipeline": "release-frontend",
            "tekton.dev/pipelineRun": self.run(), "tekton.dev/pipelineTask": "deploy",
            "tekton.dev/taskRun": format!("{}-deploy", self.run()), "tekton.dev/memberOf": "tasks",
        })
    }

    /// A pod of Tekton.
    pub(super) fn pod(&self) -> String {
        let NameParts { namespace, name } = &*self.pod_name();
        let container = |step: usize| {
            json!({
                "name": format!("step-{step}"), "image": "registry.example.com/tools/deploy:v1.4.2",
                "command": ["/tekton/bin/entrypoint"],
                "args": ["-wait_file", "/tekton/downward/ready", "-post_file", format!("/tekton/run/{step}/out"), "-step_metadata_dir",
                    format!("/tekton/run/{step}/status"), "-entrypoint", "/bin/sh", "--", "-c", "deploy --verbose --wait"],
                "env": (0..6).map(|it| json!({"name": format!("SETTING_{it}"), "value": "a-value-of-usual-length"})).collect::<Vec<_>>(),
                "volumeMounts": (0..8).map(|it| json!({"name": format!("tekton-internal-{it}"), "mountPath": format!("/tekton/internal/{it}"), "readOnly": true})).collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}, "terminationMessagePath": "/tekton/termination",
            })
        };
        let spec = json!({
            "serviceAccountName": "pipeline", "restartPolicy": "Never",
            "containers": (0..3).map(container).collect::<Vec<_>>(), "initContainers": (3..5).map(container).collect::<Vec<_>>(),
            "volumes": (0..8).map(|it| json!({"name": format!("tekton-internal-{it}"), "emptyDir": {}})).collect::<Vec<_>>(),
        });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.pod_uid(), "resourceVersion": format!("{}", 3_000_000 + self.0),
                "creationTimestamp": "2026-03-01T10:00:00Z", "labels": self.labels(),
                "managedFields": [managed("tekton-pipelines", &json!({"metadata": {"labels": self.labels()}, "spec": spec}))],
            },
            "spec": spec, "status": {"phase": "Pending"},
        })
        .to_string()
    }

    /// An `ApprovalTask`.
    pub(super) fn check(&self, state: &str) -> String {
        let NameParts { namespace, name } = &*self.check_name();
        let spec = json!({
            "approvers": [
                {"name": "alice@example.com", "input": "pending", "type": "User", "message": ""},
                {"name": "bob@example.com", "input": "pending", "type": "User", "message": ""},
            ],
            "numberOfApprovalsRequired": 1, "description": "Approve the release of the frontend to production",
        });
        json!({
            "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask",
            "metadata": {
                "name": name, "namespace": namespace, "uid": self.uid_of(3), "resourceVersion": format!("{}", 4_000_000 + self.0),
                "creationTimestamp": "2026-03-01T10:00:00Z", "labels": self.labels(),
                "managedFields": [managed("manual-approval-gate", &json!({"metadata": {"labels": self.labels()}, "spec": spec}))],
                "ownerReferences": [{"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": name, "uid": self.uid_of(4),
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": spec, "status": {"state": state, "approvalsRequired": 1, "approvalsReceived": 0},
        })
        .to_string()
    }

    fn granted(&self) -> grant::Grant {
        let request = serde_json::from_str(&self.request("Granted")).unwrap();
        let request: connectors_api::AccessRequest = request;
        let entry = request.status.as_ref().unwrap().policies[0].clone();
        grant::of_entry(&request, &entry).unwrap()
    }

    fn stored(object: impl serde::Serialize, uid: String) -> String {
        let mut object = serde_json::to_value(object).unwrap();
        let fields = object.clone();
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = "6000000".into();
        object["metadata"]["creationTimestamp"] = "2026-03-01T10:00:00Z".into();
        object["metadata"]["managedFields"] = json!([managed("request-controller", &fields)]);
        object.to_string()
    }

    pub(super) fn role(&self) -> String {
        Self::stored(self.granted().role, self.uid_of(5))
    }

    pub(super) fn binding(&self) -> String {
        Self::stored(self.granted().binding, self.uid_of(6))
    }

    /// The answer of the evaluation service.
    pub(super) fn said(&self) -> EvaluateChecksResponse {
        let NameParts { namespace, name } = &*self.check_name();
        EvaluateChecksResponse {
            verdict: 2,
            checks: vec![CheckResult {
                check: "manual-approval-check".to_owned(),
                verdict: 2,
                reason: "Said".to_owned(),
                message: self.note(),
                objects: vec![ObjectResult {
                    api_version: "openshift-pipelines.org/v1alpha1".to_owned(),
                    kind: "ApprovalTask".to_owned(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    uid: self.uid_of(3),
                    resource_version: format!("{}", 4_000_000 + self.0),
                    state: "pending".to_owned(),
                    ..ObjectResult::default()
                }],
            }],
            rules: vec![GrantedRule {
                verbs: vec!["*".to_owned()],
                resources: vec![self.resource()],
            }],
            ..EvaluateChecksResponse::default()
        }
    }
}
