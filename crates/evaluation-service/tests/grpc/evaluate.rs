//! What checks say, over the wire.

use evaluation_api::refusal::Reason;
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
            shared_fields: vec![],
        }],
        stage: EvaluationStage::BeforeGrant.into(),
        lineage: vec![],
        creators_since: None,
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
        world.metric("connectors_evaluation_rego_jobs_total{result=\"limit\"}"),
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
    let metric = |source: &str| {
        world.metric(&format!(
            "connectors_evaluation_checks_total{{source=\"{source}\"}}"
        ))
    };
    assert_eq!(
        (metric("remembered"), metric("judged")),
        ("1".into(), "2".into())
    );
    assert_eq!(
        world.metric("connectors_evaluation_rego_jobs_total{result=\"answered\"}"),
        "2"
    );
}

/// The module is evaluated by a worker once, and then by its program.
#[tokio::test]
async fn a_module_of_paths_and_constants_needs_a_worker_once() {
    let world = World::new().await;
    let native = "package approval\noutput = {\"state\": state} { state := input.data.state } else = {\"state\": \"pending\"}";
    for (number, (rego, state, verdict)) in [
        (native, "approved", CheckVerdict::Passed),
        (native, "rejected", CheckVerdict::Rejected),
        (native, "expired", CheckVerdict::Pending),
        (MODULE, "approved", CheckVerdict::Passed),
        (MODULE, "rejected", CheckVerdict::Rejected),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = world.client.evaluate_checks(asked(rego, state)).await;
        assert_eq!(answer.unwrap().verdict(), verdict, "{number}");
    }
    // A state is too long for both, in the same words.
    let long = "x".repeat(64);
    let [own, others] = [native, MODULE].map(|rego| asked(rego, &long));
    let own = world.client.evaluate_checks(own).await.unwrap();
    let others = world.client.evaluate_checks(others).await.unwrap();
    assert_eq!(own.checks[0].objects, others.checks[0].objects);
    let jobs = |result: &str| {
        world.metric(&format!(
            "connectors_evaluation_rego_jobs_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!((jobs("answered"), jobs("native")), ("3".into(), "3".into()));
    assert_eq!(jobs("failed"), "1");
}

/// Only for its program, which most modules do not have. No object that a program leaves to a worker asks again.
#[tokio::test]
async fn a_new_worker_is_started_once_for_each_module() {
    let world = World::new().await;
    let native = "package approval\ndefault output = {\"state\": \"pending\"}\noutput = {\"state\": \"approved\"} { input.data.n == 1 }";
    for (rego, state, number, started) in [
        (MODULE, "approved", json!(0), 2),
        (MODULE, "rejected", json!(0), 2),
        (MODULE, "pending", json!(0), 2),
        (native, "a", json!(1.5), 3),
        (native, "b", json!(2.5), 3),
        (native, "c", json!(1), 3),
    ] {
        let mut asked = asked(rego, state);
        let object = &mut asked.candidates[0].objects[0];
        let mut with_number: Value = serde_json::from_slice(object).unwrap();
        with_number["data"]["n"] = number;
        *object = bytes(&with_number);
        world.client.evaluate_checks(asked).await.unwrap();
        let metric = world.metric("connectors_evaluation_rego_workers_started_total");
        assert_eq!(metric, started.to_string(), "{state}");
    }
    let jobs = |result: &str| {
        world.metric(&format!(
            "connectors_evaluation_rego_jobs_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!((jobs("answered"), jobs("native")), ("5".into(), "1".into()));
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
            "connectors_evaluation_rego_jobs_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!((jobs("limit"), jobs("failed")), ("2".into(), "2".into()));
}

/// Objects of seven bytes that take six hundred when they are read.
fn heavy() -> Vec<u8> {
    format!("[{}]", vec![r#"{"":0}"#; 100_000].join(",")).into()
}

fn heavy_policy() -> Vec<u8> {
    let heavy = String::from_utf8(heavy()).unwrap();
    format!(r#"{{"metadata":{{"namespace":"tools"}},"spec":{heavy}}}"#).into()
}

#[tokio::test]
async fn what_would_take_too_much_memory_is_refused_before_it_is_read() {
    let world = World::new().await;
    let changes: [fn(&mut EvaluateChecksRequest); 3] = [
        |it| it.candidates[0].objects.push(heavy()),
        |it| it.context_object = heavy(),
        |it| it.policy = heavy_policy(),
    ];
    for change in changes {
        let mut question = asked("", "approved");
        change(&mut question);
        let refused = world.client.evaluate_checks(question).await.unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::TooLong), "{refused}");
    }
    let refused = world
        .client
        .validate_policy(heavy_policy())
        .await
        .unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::TooLong), "{refused}");
}

#[tokio::test]
async fn nothing_is_read_for_who_may_not_ask() {
    let world = World::new().await;
    world.api.allow(&["elsewhere"]);
    let mut question = asked("", "approved");
    question.candidates[0].objects = vec![heavy(), b"{".to_vec()];
    let refused = world
        .client
        .evaluate_checks(question.clone())
        .await
        .unwrap_err();
    assert_eq!(
        refused.reason(),
        Some(Reason::NamespaceForbidden),
        "{refused}"
    );
    let refused = world
        .client
        .validate_policy(question.policy)
        .await
        .unwrap_err();
    assert_eq!(
        refused.reason(),
        Some(Reason::NamespaceForbidden),
        "{refused}"
    );
}

#[tokio::test]
async fn a_policy_of_two_namespaces_is_of_none() {
    let world = World::new().await;
    let mut question = asked("", "approved");
    let policy = String::from_utf8(question.policy.clone()).unwrap();
    question.policy = policy
        .replacen('{', r#"{"metadata":{"namespace":"elsewhere"},"#, 1)
        .into();
    let refused = world.client.evaluate_checks(question).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::PermissionDenied), "{refused}");
}

#[tokio::test]
async fn a_policy_that_was_read_before_is_the_same_for_another_pod() {
    let world = World::new().await;
    for state in ["approved", "rejected", "pending", "approved"] {
        let mut question = asked("", state);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": state, "namespace": "tools", "uid": state, "labels": {"run": "r1"}},
        });
        question.context_object = bytes(&pod);
        let answer = world.client.evaluate_checks(question).await.unwrap();
        let verdict = match state {
            "approved" => CheckVerdict::Passed,
            "rejected" => CheckVerdict::Rejected,
            _ => CheckVerdict::Pending,
        };
        assert_eq!(answer.verdict(), verdict);
        let rules: Vec<_> = answer
            .rules
            .into_iter()
            .flat_map(|it| it.resources)
            .collect();
        let granted = format!("connectors/apis/v1/pod/tools/{state}");
        assert_eq!(rules.contains(&granted), state == "approved");
    }
}
