//! One request and what surrounds it, and a world that carries plans out without any server.

use std::sync::Arc;

use connectors_api::{
    AccessPolicy, AccessRequest, AccessRequestCondition as Is,
    access_policy::Match,
    access_request::{AccessRequestStatus, GrantState, GrantedRule, ObservedObject, Phase},
    check_selector::CompiledPolicy,
    config::Config,
    reason::{AccessCheckReady, NOT_JUDGED},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::grant;
use crate::plan::{Action, Plan, Terms, conditions, finished, granted, plan};
use crate::seen::{
    CheckReads, CheckSeen, ConnectorSeen, EvidenceState, Freshness, FrozenSeen, GrantKind, LeftOut,
    Managed, ManagedObject, ObjectSeen, Observed, PodFacts, PodSeen, PolicyAnswer, PolicyJudgement,
    PolicySeen, StandingSeen, TupleSeen,
};
use service_kit::clock::Now;

pub(super) const TERMS: Terms = Terms {
    retention: SignedDuration::from_hours(168),
};
pub(super) const RESOURCE: &str = "connectors/apis/v1/pod/apps/run-deploy-pod";
/// When the request was made.
pub(super) const CREATED: &str = "2026-03-01T10:00:00Z";

pub(super) fn created() -> Timestamp {
    CREATED.parse().unwrap()
}

pub(super) fn request() -> AccessRequest {
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1",
        "kind": "AccessRequest",
        "metadata": {
            "name": "harbor-1", "namespace": "apps", "uid": "request-uid",
            "resourceVersion": "1", "generation": 1, "creationTimestamp": CREATED,
        },
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "run-deploy-pod", "uid": "pod-uid",
            }},
        },
    }))
    .unwrap()
}

pub(super) fn policy_object(name: &str, limits: &Value) -> AccessPolicy {
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1",
        "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": "apps", "uid": format!("{name}-uid"), "generation": 3},
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
                "limits": limits,
            },
        }},
    }))
    .unwrap()
}

/// What the one check of a policy says.
pub(super) fn answer(verdict: AccessCheckReady) -> PolicyAnswer {
    let state = match verdict {
        AccessCheckReady::AccessCheckPassed => "approved",
        AccessCheckReady::AccessCheckRejected => "rejected",
        AccessCheckReady::AccessCheckPending | AccessCheckReady::AccessCheckFailed => "pending",
    };
    let object = ObjectSeen {
        object: ObservedObject {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("apps".to_owned()),
            name: "approval-1".to_owned(),
            uid: Some("approval-uid".to_owned()),
            resource_version: Some("41".to_owned()),
        },
        verdict,
        state: state.to_owned(),
        reason: "Word".to_owned(),
        message: String::new(),
        approved_by: vec!["ann".to_owned()],
        approvals: vec![],
        lineage: vec![],
        run_creator: None,
    };
    let passed = verdict == AccessCheckReady::AccessCheckPassed;
    PolicyAnswer {
        verdict,
        checks: vec![CheckSeen {
            name: "approval".to_owned(),
            match_: Match::All,
            verdict,
            reason: "Word".to_owned(),
            message: "what it says".to_owned(),
            objects: vec![object],
            left_out: LeftOut::default(),
        }],
        rules: if passed { rules() } else { vec![] },
        refusal: None,
    }
}

pub(super) fn rules() -> Vec<GrantedRule> {
    vec![GrantedRule {
        resources: vec![RESOURCE.to_owned()],
        verbs: vec!["*".to_owned()],
    }]
}

/// The scene at one moment.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) seen: Observed,
    pub(super) now: Now,
}

impl Scene {
    /// A running pod, its connector beside it, no policy; everything read live just now.
    pub(super) fn new() -> Self {
        let mono = Instant::now();
        let wall = created() + SignedDuration::from_secs(10);
        Self {
            now: Now { wall, mono },
            seen: Observed {
                request: request(),
                freshness: Freshness::Live(mono),
                only_for_grants: false,
                are_matched: true,
                config: Config {
                    enabled: true,
                    ..Config::CLOSED
                },
                pod: PodSeen::There(PodFacts {
                    finished: false,
                    terminating: false,
                    account: "builder".to_owned(),
                }),
                connector: Some(ConnectorSeen {
                    uid: "connector-uid".to_owned(),
                }),
                tuple: TupleSeen::default(),
                over_limit: false,
                standing: StandingSeen::Unknown,
                policies: vec![],
                check_reads: CheckReads::InTime,
                near: vec![],
                frozen: vec![],
                grants: vec![],
            },
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.seen);
        self
    }

    /// The same with the connector in another namespace than the pod.
    pub(super) fn elsewhere(self) -> Self {
        self.with(|seen| seen.request.metadata.namespace = Some("tools".to_owned()))
    }

    pub(super) fn standing(self, standing: StandingSeen) -> Self {
        self.with(|seen| seen.standing = standing)
    }

    pub(super) fn cached(self) -> Self {
        self.with(|seen| seen.freshness = Freshness::Cached)
    }

    pub(super) fn pod(self, change: impl FnOnce(&mut PodFacts)) -> Self {
        self.with(|seen| {
            if let PodSeen::There(facts) = &mut seen.pod {
                change(facts);
            }
        })
    }

    /// A policy that applies, under limits, with what its check says.
    pub(super) fn limited(self, name: &str, limits: &Value, judged: PolicyJudgement) -> Self {
        let policy = policy_object(name, limits);
        let granted = policy.spec.check_granted_permission.clone().unwrap();
        self.with(|seen| {
            seen.policies.push(PolicySeen {
                name: name.to_owned(),
                uid: format!("{name}-uid"),
                policy: Arc::new(CompiledPolicy::of(policy, None)),
                limits: granted.spec.limits.unwrap_or_default(),
                judged,
            });
        })
    }

    pub(super) fn policy(self, name: &str, verdict: AccessCheckReady) -> Self {
        self.limited(name, &json!({}), PolicyJudgement::Answered(answer(verdict)))
    }

    pub(super) fn after(mut self, time: SignedDuration) -> Self {
        let std = std::time::Duration::try_from(time).unwrap();
        self.now.wall += time;
        self.now.mono += std;
        if let Freshness::Live(since) = &mut self.seen.freshness {
            *since += std;
        }
        self
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.seen, self.now, TERMS)
    }

    pub(super) fn status(&self) -> AccessRequestStatus {
        self.seen.request.status.clone().unwrap_or_default()
    }

    /// The status that a plan leads to, before anything else is done.
    pub(super) fn planned(&self) -> AccessRequestStatus {
        let plan = self.plan();
        assert!(!plan.look_live, "live values were asked for");
        plan.status.unwrap_or_else(|| self.status())
    }

    /// The world after a plan was carried out without a failure, seen again.
    pub(super) fn carried_out(&self) -> Self {
        self.carry_out(self.plan())
    }

    pub(super) fn carry_out(&self, plan: Plan) -> Self {
        let mut next = self.clone();
        if let Some(status) = plan.status {
            next.seen.request.status = Some(status);
        }
        let mut grants = Vec::new();
        for action in plan.actions {
            match action {
                Action::Remove { kind, name, .. } => next
                    .seen
                    .grants
                    .retain(|it| it.kind() != kind || it.name() != name),
                Action::Grant(grant) => {
                    next.seen
                        .grants
                        .retain(|it| it.name() != grant.role.metadata.name.as_deref().unwrap());
                    next.seen.grants.extend(objects(&grant));
                    grants.push(*grant);
                }
                Action::Prepare(role) => {
                    let is_free =
                        |it: &Managed| it.name() != role.metadata.name.as_deref().unwrap();
                    if next.seen.grants.iter().all(is_free) {
                        next.seen.grants.push(stored_role(*role));
                    }
                }
                Action::Finish => {
                    next.seen.grants.clear();
                    next.seen.request.status = finished(&next.seen.request, self.now.wall);
                }
                // Nothing follows it.
                Action::DeleteRequest => {}
            }
        }
        if !grants.is_empty() {
            let decided = next.seen.request.clone();
            let (status, _) = granted(Some(&decided), &decided, &grants, self.now.wall).unwrap();
            next.seen.request.status = Some(status);
        }
        next.seen.frozen = frozen(&next.seen.request, &self.seen);
        next
    }

    /// A request that was granted by policy `p`, a moment later.
    pub(super) fn granted() -> Self {
        Self::granted_under(&json!({}))
    }

    pub(super) fn granted_under(limits: &Value) -> Self {
        let passed = PolicyJudgement::Answered(answer(AccessCheckReady::AccessCheckPassed));
        let scene = Self::new().limited("p", limits, passed).carried_out();
        assert_eq!(scene.status().phase, Some(Phase::Granted));
        scene
    }

    /// What is known about the evidence from now on.
    pub(super) fn held(self, held: &EvidenceState) -> Self {
        self.with(|seen| seen.frozen.iter_mut().for_each(|it| it.held = held.clone()))
    }
}

/// What a look at the evidence says when nothing has changed, and the policy is what it was.
fn frozen(request: &AccessRequest, before: &Observed) -> Vec<FrozenSeen> {
    let entries = request.status.iter().flat_map(|it| &it.policies);
    entries
        .filter(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|it| it.granted_at.is_some() && it.state != GrantState::Ended)
        })
        .map(|entry| {
            let (_, uid) = grant::identity(entry).unwrap();
            let known = before.frozen.iter().find(|it| it.uid == uid).cloned();
            known.unwrap_or(FrozenSeen {
                uid: uid.to_owned(),
                exists: true,
                held: EvidenceState::Holds,
                again: None,
                changed: false,
            })
        })
        .collect()
}

/// The two objects of a grant as a server would store them.
pub(super) fn objects(grant: &grant::Grant) -> [Managed; 2] {
    let binding = grant.binding.clone();
    [
        stored_role(grant.role.clone()),
        Managed {
            metadata: stored(&binding.metadata, GrantKind::RoleBinding),
            object: ManagedObject::RoleBinding(Ok(binding)),
        },
    ]
}

fn stored_role(role: Role) -> Managed {
    Managed {
        metadata: stored(&role.metadata, GrantKind::Role),
        object: ManagedObject::Role(Ok(role)),
    }
}

fn stored(metadata: &ObjectMeta, kind: GrantKind) -> ObjectMeta {
    ObjectMeta {
        uid: Some(format!("{}-uid", kind.as_str())),
        resource_version: Some("7".to_owned()),
        ..metadata.clone()
    }
}

/// A status as one line: phase, then each condition that was judged as its letters, sign and reason.
pub(super) fn line(status: &AccessRequestStatus) -> String {
    let condition = |type_: Is, short: &str| {
        conditions::find(&status.conditions, type_)
            .filter(|it| it.reason != NOT_JUDGED)
            .map(|it| {
                let status = it.status.as_str().chars().next().unwrap();
                format!(" {short}:{status}:{}", it.reason)
            })
            .unwrap_or_default()
    };
    let phase = status.phase.map_or("-", Phase::as_str);
    let all = [
        (Is::ContextObjectValid, "pod"),
        (Is::ConnectorResolved, "connector"),
        (Is::AccessPolicyMatched, "policy"),
        (Is::AccessCheckReady, "checks"),
        (Is::AccessPermissionSync, "permission"),
        (Is::Ready, "ready"),
    ];
    let conditions: String = all
        .iter()
        .map(|(type_, short)| condition(*type_, short))
        .collect();
    format!("{phase}{conditions}")
}
