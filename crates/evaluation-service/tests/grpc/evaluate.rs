//! What checks say, over the wire.

use evaluation_api::v1::{
    Candidates, CheckVerdict, EvaluateChecksRequest, EvaluationStage, GrantedRule,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::fake_api::token;
use crate::world::World;

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

fn asked(rego: &str, state: &str) -> EvaluateChecksRequest {
    let policy = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools", "uid": "u"},
        "spec": {"checkGrantedPermission": {"spec": {
            "checks": [{
                "name": "gate",
                "selector": {"labels": {"run": "{.object.metadata.labels.run}"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
                "state": {"rego": rego},
            }],
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                "verbs": ["*"],
            }]}},
        }}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "deploy", "namespace": "tools", "uid": "pod-uid", "labels": {"run": "r1"}},
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "tools", "uid": "o", "resourceVersion": "1", "labels": {"run": "r1"}},
        "data": {"state": state}, "status": {"state": state},
    });
    EvaluateChecksRequest {
        policy: bytes(&policy),
        context_object: bytes(&pod),
        connector: "harbor".to_owned(),
        candidates: vec![Candidates {
            check: "gate".to_owned(),
            objects: vec![bytes(&object)],
        }],
        stage: EvaluationStage::BeforeGrant.into(),
    }
}

const MODULE: &str = "package approval\noutput := {\"state\": input.data.state, \"message\": data.context.metadata.name}";

#[tokio::test]
async fn checks_with_and_without_rego_pass_and_give_the_rule() {
    let world = World::new().await;
    for (rego, message) in [("", "ConfigMap tools/a is approved"), (MODULE, "deploy")] {
        let answer = world
            .client
            .evaluate_checks(asked(rego, "approved"))
            .await
            .unwrap();
        assert_eq!(answer.verdict(), CheckVerdict::Passed);
        let object = &answer.checks[0].objects[0];
        assert_eq!(
            (&*object.message, &*object.reason, &*object.name),
            (message, "Approved", "a")
        );
        let rule = GrantedRule {
            verbs: vec!["*".to_owned()],
            resources: vec!["connectors/apis/v1/pod/tools/deploy".to_owned()],
        };
        assert_eq!((answer.rules, &*answer.rules_reason), (vec![rule], ""));
    }
    let answer = world
        .client
        .evaluate_checks(asked(MODULE, "rejected"))
        .await
        .unwrap();
    assert_eq!(
        (answer.verdict(), answer.rules),
        (CheckVerdict::Rejected, vec![])
    );
}

#[tokio::test]
async fn rego_that_goes_wrong_is_a_failed_check_and_the_next_one_works() {
    let world = World::new().await;
    let brackets = format!(
        "package approval\noutput := {}1{}",
        "[".repeat(60),
        "]".repeat(60)
    );
    for (rego, reason) in [(&*brackets, "RegoLimit"), ("package x", "RegoFailed")] {
        let answer = world
            .client
            .evaluate_checks(asked(rego, "approved"))
            .await
            .unwrap();
        assert_eq!(answer.verdict(), CheckVerdict::Failed);
        assert_eq!(answer.checks[0].reason, reason);
        assert!(answer.rules.is_empty());
    }
    let answer = world
        .client
        .evaluate_checks(asked(MODULE, "approved"))
        .await
        .unwrap();
    assert_eq!(answer.verdict(), CheckVerdict::Passed);
    assert_eq!(
        world.metric("evaluation_rego_jobs_total{result=\"limit\"}"),
        "1"
    );
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_by_its_field() {
    type Change = fn(&mut EvaluateChecksRequest);
    let world = World::new().await;
    let cases: [(Change, Code, &str); 8] = [
        (
            |it| it.policy = b"{hunter2".to_vec(),
            Code::InvalidArgument,
            "policy: is not JSON",
        ),
        (
            |it| it.policy = "[".repeat(1000).into(),
            Code::InvalidArgument,
            "policy: is not JSON",
        ),
        (
            |it| it.context_object.clear(),
            Code::InvalidArgument,
            "context_object: is not JSON",
        ),
        (
            |it| it.candidates[0].objects[0].clear(),
            Code::InvalidArgument,
            "candidates of check \"gate\": is not JSON",
        ),
        (|it| it.stage = 0, Code::InvalidArgument, "stage:"),
        (|it| it.stage = 9, Code::InvalidArgument, "stage:"),
        (
            |it| it.candidates[0].check = "typo".to_owned(),
            Code::InvalidArgument,
            "candidates: the policy has no check `typo`",
        ),
        (
            |it| {
                let again = it.candidates[0].clone();
                it.candidates.push(again);
            },
            Code::InvalidArgument,
            "candidates: check \"gate\" is named twice",
        ),
    ];
    for (change, code, message) in cases {
        let mut request = asked("", "approved");
        change(&mut request);
        let error = world.client.evaluate_checks(request).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn the_namespace_of_the_policy_is_the_one_to_be_allowed() {
    let world = World::new().await;
    world.api.allow(&["devops"]);
    let error = world
        .client
        .evaluate_checks(asked("", "approved"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::PermissionDenied));
    let mut nowhere = asked("", "approved");
    nowhere.policy = bytes(&json!({"metadata": {}}));
    let error = world.client.evaluate_checks(nowhere).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::PermissionDenied), "{error}");
}

#[tokio::test]
async fn the_very_same_question_costs_no_second_evaluation_and_needs_the_same_permission() {
    let world = World::new().await;
    let first = world
        .client
        .evaluate_checks(asked(MODULE, "approved"))
        .await;
    let again = world
        .client
        .evaluate_checks(asked(MODULE, "approved"))
        .await;
    assert_eq!(first.unwrap(), again.unwrap());
    let other = world
        .client
        .evaluate_checks(asked(MODULE, "rejected"))
        .await;
    assert_eq!(other.unwrap().verdict(), CheckVerdict::Rejected);
    let metric =
        |source: &str| world.metric(&format!("evaluation_checks_total{{source=\"{source}\"}}"));
    assert_eq!(
        (metric("remembered"), metric("judged")),
        ("1".into(), "2".into())
    );
    assert_eq!(
        world.metric("evaluation_rego_jobs_total{result=\"answered\"}"),
        "2"
    );
}

#[tokio::test]
async fn what_is_remembered_is_told_to_nobody_who_may_not_ask() {
    let world = World::new().await;
    let answer = world.client.evaluate_checks(asked("", "approved")).await;
    assert!(answer.is_ok());
    world.api.allow(&["devops"]);
    world.token(&token("good-stranger"));
    let error = world.client.evaluate_checks(asked("", "approved")).await;
    assert_eq!(error.unwrap_err().code(), Some(Code::PermissionDenied));
}

#[tokio::test]
async fn what_went_wrong_with_a_module_is_not_remembered() {
    let world = World::new().await;
    let endless = "package approval\nn := numbers.range(1, 3000)\noutput := {\"state\": \"approved\"} if count([1 | some a in n; some b in n; some c in n; a + b == c * 7777777]) == 0";
    for rego in [endless, "package x"] {
        for _ in 0..2 {
            let answer = world.client.evaluate_checks(asked(rego, "approved")).await;
            assert_eq!(answer.unwrap().verdict(), CheckVerdict::Failed);
        }
    }
    let jobs = |result: &str| {
        world.metric(&format!(
            "evaluation_rego_jobs_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!((jobs("limit"), jobs("failed")), ("2".into(), "2".into()));
}
