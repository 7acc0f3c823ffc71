mod approvals;
mod creators;
mod lineage;
mod modules;
mod second_lineage;
mod whole;

use serde_json::{Value, json};

use super::*;
use crate::reason::AccessCheckReady::{
    AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
    AccessCheckRejected as Rejected,
};

/// One policy with one check of config maps, in the pod's namespace.
pub(super) fn question() -> PolicyQuestion {
    PolicyQuestion {
        policy: json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": "policy", "namespace": "devops", "uid": "policy-uid"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": [{
                    "name": "gate",
                    "selector": {
                        "labels": {"run": "{.object.metadata.labels.run}"},
                        "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                    },
                }],
                "permissions": {"roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"],
                    "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                    "verbs": ["*"],
                }]}},
            }}},
        }),
        context: json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "deploy", "namespace": "devops", "uid": "pod-uid", "labels": {"run": "r1"}},
            "spec": {"serviceAccountName": "builder", "containers": [{"name": "secret-thing"}]},
        }),
        connector: "harbor".to_owned(),
        shared: BTreeMap::new(),
        lineage: Vec::new(),
        creators_since: None,
        candidates: BTreeMap::new(),
        stage: Stage::BeforeGrant,
    }
}

pub(super) fn gate(name: &str, state: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "devops", "uid": format!("uid-{name}"), "resourceVersion": "7", "labels": {"run": "r1"}},
        "status": {"state": state},
    })
}

/// With a policy that was not parsed before.
pub(super) fn prepare(question: PolicyQuestion) -> Result<Prepared, JudgeError> {
    super::prepare(question.read()?)
}

impl PolicyQuestion {
    pub(super) fn found(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        let objects = objects.into_iter().collect();
        self.candidates.insert("gate".to_owned(), objects);
        self
    }

    pub(super) fn check(&mut self) -> &mut Value {
        &mut self.policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn judged(self) -> Judgement {
        let prepared = prepare(self).unwrap();
        assert_eq!(prepared.rego_jobs().count(), 0);
        prepared.finish([])
    }
}

impl Judgement {
    pub(super) fn only(&self) -> &CheckJudgement {
        let [check] = self.checks.as_slice() else {
            panic!("{self:?}");
        };
        check
    }

    pub(super) fn said(&self) -> (AccessCheckReady, JudgeReason) {
        let ResultReason::Judge(reason) = self.only().reason else {
            panic!("{self:?}");
        };
        (self.only().verdict, reason)
    }
}

#[test]
fn an_approved_object_passes_and_the_pod_gets_its_rule() {
    let judgement = question().found([gate("a", "approved")]).judged();
    let object = ObjectJudgement {
        object: ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "devops".to_owned(),
            name: "a".to_owned(),
            uid: "uid-a".to_owned(),
            resource_version: "7".to_owned(),
        },
        state: "approved".to_owned(),
        verdict: Passed,
        reason: JudgeReason::Approved.into(),
        message: "ConfigMap devops/a is approved".to_owned(),
        approved_by: vec![],
        approvals: vec![],
        lineage: vec![],
        run_creator: None,
    };
    let expected = Judgement {
        verdict: Passed,
        checks: vec![CheckJudgement {
            check: "gate".to_owned(),
            verdict: Passed,
            reason: JudgeReason::Approved.into(),
            message: "ConfigMap devops/a is approved".to_owned(),
            objects: vec![object],
        }],
        rules: Some(Ok(vec![RenderedRule {
            verbs: vec!["*".to_owned()],
            resources: vec![crate::AccessResource::pod(
                crate::Permission::Apis,
                "devops",
                "deploy",
            )],
        }])),
    };
    assert_eq!(judgement, expected);
}

#[test]
fn states_and_match_decide() {
    let cases: [(&[&str], &str, AccessCheckReady, JudgeReason); 11] = [
        (&[], "All", Pending, JudgeReason::NoObjects),
        (&[], "Any", Pending, JudgeReason::NoObjects),
        (&["passed"], "All", Passed, JudgeReason::Approved),
        (&[""], "All", Pending, JudgeReason::Pending),
        (&["pending", "passed"], "All", Pending, JudgeReason::Pending),
        (&["pending", "passed"], "Any", Passed, JudgeReason::Approved),
        (
            &["rejected", "passed"],
            "All",
            Rejected,
            JudgeReason::Rejected,
        ),
        (
            &["rejected", "pending"],
            "Any",
            Pending,
            JudgeReason::Pending,
        ),
        (&["rejected"], "Any", Rejected, JudgeReason::Rejected),
        (&["expired"], "All", Pending, JudgeReason::NotHolding),
        (&["Approved"], "All", Pending, JudgeReason::NotHolding),
    ];
    for (states, match_, verdict, reason) in cases {
        let objects = states.iter().enumerate();
        let objects = objects.map(|(n, state)| gate(&n.to_string(), state));
        let judgement = question()
            .with(|it| it.check()["match"] = match_.into())
            .found(objects)
            .judged();
        assert_eq!(judgement.said(), (verdict, reason), "{states:?} {match_}");
        assert_eq!(judgement.verdict, verdict);
        assert_eq!(judgement.rules.is_some(), verdict == Passed);
        // The same result after the grant, but without rendered rules.
        let after = question()
            .with(|it| {
                it.check()["match"] = match_.into();
                it.stage = Stage::AfterGrant;
            })
            .found(
                states
                    .iter()
                    .enumerate()
                    .map(|(n, state)| gate(&n.to_string(), state)),
            )
            .judged();
        assert_eq!((after.said(), after.rules), ((verdict, reason), None));
    }
}

#[test]
fn a_state_that_does_not_pass_is_told_with_its_spelling_where_only_the_case_is_wrong() {
    for (state, hint) in [
        ("expired", ""),
        ("PASSED", ", and the words are lower case: write \"passed\""),
    ] {
        let judgement = question().found([gate("a", state)]).judged();
        assert_eq!(
            judgement.only().message,
            format!(
                "ConfigMap devops/a is in state {state:?}; only approved and passed let through{hint}"
            )
        );
    }
}

#[test]
fn several_objects_of_one_mind_are_counted() {
    let judgement = question()
        .found([gate("b", "pending"), gate("a", ""), gate("c", "approved")])
        .judged();
    assert_eq!(
        judgement.only().message,
        "ConfigMap devops/a is pending (and 1 more like it)"
    );
}

#[test]
fn all_checks_must_pass() {
    for (second, together) in [
        ("approved", Passed),
        ("pending", Pending),
        ("rejected", Rejected),
    ] {
        let mut question = question().found([gate("a", "approved")]);
        let mut other = question.check().clone();
        other["name"] = "other".into();
        question.policy["spec"]["checkGrantedPermission"]["spec"]["checks"]
            .as_array_mut()
            .unwrap()
            .push(other);
        let b = vec![gate("b", second)];
        question.candidates.insert("other".to_owned(), b);
        let judgement = question.judged();
        assert_eq!(judgement.verdict, together, "{second}");
        assert_eq!(judgement.rules.is_some(), together == Passed);
        assert_eq!(judgement.checks[0].check, "gate");
    }
}

#[test]
fn what_the_check_does_not_select_fails_it_before_the_grant_and_counts_after() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 7] = [
        (|it| it["kind"] = "Secret".into(), "is of another kind"),
        (|it| it["apiVersion"] = "v2".into(), "is of another kind"),
        (
            |it| it["metadata"]["namespace"] = "other".into(),
            "is not in the pod's namespace",
        ),
        (
            |it| it["metadata"]["labels"] = json!({"run": "r2"}),
            "does not have the labels",
        ),
        (
            |it| it["metadata"]["labels"] = Value::Null,
            "does not have the labels",
        ),
        (
            |it| it["metadata"]["labels"] = json!("run"),
            "does not have the labels",
        ),
        (
            |it| it["data"]["type"] = "b".into(),
            "does not have the fields",
        ),
    ];
    for (change, message) in changes {
        // Also as one of several objects, and also where one passing object would be enough.
        let mut wrong = gate("b", "approved");
        let mut right = gate("a", "approved");
        right["data"] = json!({"type": "a"});
        wrong["data"] = json!({"type": "a"});
        change(&mut wrong);
        let asked = question().with(|it| {
            it.check()["match"] = "Any".into();
            it.check()["selector"]["fieldSelector"] = json!({"data.type": "a"});
        });
        let judgement = asked.clone().found([right.clone(), wrong.clone()]).judged();
        assert_eq!(judgement.said(), (Failed, JudgeReason::NotSelected));
        assert!(judgement.only().message.contains(message), "{judgement:?}");
        assert_eq!((judgement.verdict, judgement.rules), (Failed, None));

        let after = asked.with(|it| it.stage = Stage::AfterGrant);
        let judgement = after.found([right, wrong]).judged();
        assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
    }
}

#[test]
fn an_object_without_identity_fails_before_and_after_the_grant() {
    for pointer in ["namespace", "name", "uid", "resourceVersion"] {
        for stage in [Stage::BeforeGrant, Stage::AfterGrant] {
            for nothing in [Value::Null, json!("")] {
                let mut object = gate("a", "approved");
                object["metadata"][pointer] = nothing;
                let asked = question().with(|it| it.stage = stage);
                let said = asked.found([object]).judged().said();
                assert_eq!(said, (Failed, JudgeReason::NotSelected), "{pointer}");
            }
        }
    }
    let said = question().found([json!("approved")]).judged().said();
    assert_eq!(said, (Failed, JudgeReason::NotSelected));
}

#[test]
fn what_is_being_deleted_counts_as_deleted_before_the_grant() {
    let mut object = gate("a", "approved");
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let judgement = question().found([object.clone()]).judged();
    assert_eq!(judgement.said(), (Pending, JudgeReason::BeingDeleted));
    let after = question().with(|it| it.stage = Stage::AfterGrant);
    let judgement = after.found([object]).judged();
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
}

#[test]
fn labels_that_cannot_be_made_fail_the_check() {
    type Change = fn(&mut PolicyQuestion);
    let changes: [Change; 4] = [
        |it| it.context["metadata"]["labels"] = json!({}),
        |it| it.context["metadata"]["labels"]["run"] = "".into(),
        |it| it.context["metadata"]["labels"]["run"] = "no label value!".into(),
        |it| it.check()["selector"]["labels"] = json!({}),
    ];
    for change in changes {
        let judgement = question()
            .with(change)
            .found([gate("a", "approved")])
            .judged();
        assert_eq!(judgement.said(), (Failed, JudgeReason::TemplateFailed));
        assert_eq!(judgement.only().objects[0].verdict, Failed);
        assert!(!judgement.only().message.contains("no label value!"));
    }
    let judgement = question()
        .with(|it| it.check()["selector"]["fieldSelector"] = json!({"a..b": "c"}))
        .judged();
    assert_eq!(judgement.said(), (Failed, JudgeReason::SelectorInvalid));
}

#[test]
fn a_kind_that_is_no_approval_fails_its_check_before_and_after_the_grant() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("connectors.alauda.io/v1alpha1", "Connector"),
    ] {
        for stage in [Stage::BeforeGrant, Stage::AfterGrant] {
            let mut object = gate("a", "approved");
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            for found in [vec![], vec![object]] {
                let judgement = question()
                    .with(|it| {
                        it.stage = stage;
                        it.check()["state"] = json!({"rego": "package approval"});
                        it.check()["selector"]["objectRef"] =
                            json!({"apiVersion": api_version, "kind": kind});
                    })
                    .found(found)
                    .judged();
                assert_eq!(judgement.said(), (Failed, JudgeReason::KindRefused));
                assert_eq!((judgement.verdict, judgement.rules), (Failed, None));
                let message = &judgement.checks[0].message;
                assert!(message.contains(kind), "{message}");
            }
        }
    }
}

#[test]
fn a_state_that_cannot_be_read_fails_the_check() {
    for status in [json!("approved"), json!({"state": true}), json!([1])] {
        let mut object = gate("a", "approved");
        object["status"] = status;
        let judgement = question().found([object]).judged();
        assert_eq!(judgement.said(), (Failed, JudgeReason::StateUnreadable));
    }
}

#[test]
fn kinds_of_pipelines_without_a_lineage_pass_no_check_that_asks_for_a_proof() {
    for (api_version, kind, provenance, verdict) in [
        ("openshift-pipelines.org/v9", "Other", "Auto", Failed),
        (
            "openshift-pipelines.org/v1alpha1",
            "ApprovalRequest",
            "Auto",
            Passed,
        ),
        ("tekton.dev/v1", "PipelineRun", "Auto", Failed),
        ("tekton.dev/v1", "PipelineRun", "None", Passed),
        (
            "openshift-pipelines.org/v1alpha1",
            "ApprovalTask",
            "None",
            Passed,
        ),
        ("v1", "ConfigMap", "Auto", Passed),
        ("v1", "ConfigMap", "Required", Failed),
        ("not-tekton.dev/v1", "PipelineRun", "Auto", Passed),
    ] {
        let mut object = gate("a", "approved");
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        for stage in [Stage::BeforeGrant, Stage::AfterGrant] {
            for state in ["approved", "rejected"] {
                object["status"]["state"] = state.into();
                let judgement = question()
                    .with(|it| {
                        it.stage = stage;
                        it.check()["provenance"] = provenance.into();
                        it.check()["selector"]["objectRef"] =
                            json!({"apiVersion": api_version, "kind": kind});
                    })
                    .found([object.clone()])
                    .judged();
                let (said, reason) = judgement.said();
                if verdict == Failed {
                    // Without proof, a rejection is worth as little as an approval.
                    assert_eq!((said, reason), (Failed, JudgeReason::ProofUnavailable));
                    let message = &judgement.only().message;
                    let way = if provenance == "Required" && kind == "ConfigMap" {
                        "provenance: Auto"
                    } else {
                        "provenance: None"
                    };
                    assert!(message.contains(way), "{message}");
                } else {
                    assert_eq!(
                        said,
                        if state == "approved" {
                            Passed
                        } else {
                            Rejected
                        }
                    );
                }
            }
        }
    }
}

#[test]
fn proof_is_missed_before_anything_is_found() {
    let judgement = question()
        .with(|it| it.check()["provenance"] = "Required".into())
        .judged();
    assert_eq!(judgement.said(), (Failed, JudgeReason::ProofUnavailable));
}
