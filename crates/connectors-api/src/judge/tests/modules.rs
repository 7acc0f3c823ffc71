//! The parts of evaluation by Rego modules that need no running module.

use super::approvals::{about_tasks, task};
use super::*;
use crate::shared_fields::FieldPath;

fn with_rego(question: PolicyQuestion) -> PolicyQuestion {
    question.with(|it| it.check()["state"] = json!({"rego": "package approval"}))
}

fn answer(state: &str, message: Option<&str>) -> RegoAnswer {
    RegoAnswer {
        state: ObjectState::from_word(state).unwrap(),
        message: message.map(str::to_owned),
    }
}

#[test]
fn a_module_is_asked_about_each_object_and_speaks_for_it() {
    let asked = with_rego(question()).found([gate("b", "pending"), gate("a", "rejected")]);
    let prepared = prepare(asked).unwrap();
    let jobs: Vec<_> = prepared.rego_jobs().collect();
    let names: Vec<_> = jobs
        .iter()
        .map(|job| &job.input["metadata"]["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(jobs[0].module, "package approval");
    assert_eq!(
        jobs[0].context["spec"]["containers"][0]["name"],
        "secret-thing"
    );
    let judgement = prepared.finish([
        Ok(answer("passed", Some("all well"))),
        Ok(answer("approved", None)),
    ]);
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
    let objects = &judgement.only().objects;
    assert_eq!(
        (&*objects[0].state, &*objects[0].message),
        ("passed", "all well")
    );
    assert_eq!(objects[1].message, "ConfigMap devops/b is approved");
}

#[test]
fn a_module_without_an_answer_fails_the_check() {
    let limit = || Err(RegoFailure::Limit("took too long".to_owned()));
    let failed = || Err(RegoFailure::Failed("no such function".to_owned()));
    for (answers, reason) in [
        (vec![limit()], JudgeReason::RegoLimit),
        (vec![failed()], JudgeReason::RegoFailed),
        (vec![], JudgeReason::RegoLimit),
    ] {
        let asked = with_rego(question()).found([gate("a", "approved")]);
        let judgement = prepare(asked).unwrap().finish(answers);
        assert_eq!(judgement.said(), (Failed, reason));
        assert_eq!(judgement.rules, None);
    }
}

#[test]
fn a_module_is_not_asked_about_what_does_not_count() {
    let mut wrong = gate("b", "approved");
    wrong["metadata"]["labels"] = json!({});
    let asked = with_rego(question()).found([wrong, gate("a", "pending")]);
    let prepared = prepare(asked).unwrap();
    assert_eq!(prepared.rego_jobs().count(), 1);
    let judgement = prepared.finish([Ok(answer("approved", None))]);
    assert_eq!(judgement.said(), (Failed, JudgeReason::NotSelected));
    assert_eq!(judgement.only().objects[0].verdict, Passed);

    let asked = with_rego(question())
        .with(|it| it.check()["provenance"] = "Required".into())
        .found([gate("a", "approved")]);
    assert_eq!(prepare(asked).unwrap().rego_jobs().count(), 0);
}

#[test]
fn a_module_that_approves_waives_no_approver_whatever_it_says() {
    for words in [None, Some(""), Some("all well")] {
        for (approvers, expected) in [
            (json!([]), (Failed, JudgeReason::QuorumNotMet)),
            (
                json!([{"name": "alice", "type": "User", "input": "approve"}]),
                (Passed, JudgeReason::Approved),
            ),
        ] {
            let asked = about_tasks(with_rego(question()))
                .with(|it| it.check()["approvers"] = json!({"users": ["alice"]}))
                .found([task(&approvers, "approved")]);
            let judgement = prepare(asked)
                .unwrap()
                .finish([Ok(answer("approved", words))]);
            assert_eq!(judgement.said(), expected, "{words:?} {approvers}");
        }
    }
}

#[test]
fn an_empty_module_is_none() {
    let judgement = question()
        .with(|it| it.check()["state"] = json!({"rego": ""}))
        .found([gate("a", "approved")])
        .judged();
    assert_eq!(judgement.said(), (Passed, JudgeReason::Approved));
}

/// Through the state that the module returns, the policy's author would learn anything that the module can
/// read.
#[test]
fn a_module_of_another_namespace_sees_what_is_shared_of_an_object() {
    let mut object = gate("a", "approved");
    object["data"] = json!({"verdict": "yes", "hidden": "secret-thing"});
    object["metadata"]["labels"]["team"] = "secret-team".into();
    let asked = |stage: Stage, namespace: &str, shared: &[&str]| {
        let paths = shared.iter().map(|it| FieldPath::parse(it).unwrap());
        let shared = BTreeMap::from([("gate".to_owned(), paths.collect())]);
        let question = with_rego(question()).found([object.clone()]);
        let question = question.with(|it| {
            it.policy["metadata"]["namespace"] = namespace.into();
            it.shared = shared.clone();
            it.stage = stage;
        });
        let prepared = prepare(question).unwrap();
        prepared.rego_jobs().next().unwrap().input.clone()
    };
    for stage in [Stage::BeforeGrant, Stage::AfterGrant] {
        assert_eq!(asked(stage, "devops", &[]), object);
        let seen = asked(stage, "tools", &[]);
        assert_eq!(seen["status"], json!({"state": "approved"}));
        assert_eq!(seen["metadata"]["labels"], json!({"run": "r1"}));
        assert!(!seen.to_string().contains("secret"), "{seen}");
        let seen = asked(stage, "tools", &["data.verdict"]);
        assert_eq!(seen["data"], json!({"verdict": "yes"}));
    }
}

#[test]
fn a_policy_of_another_namespace_selects_by_shared_fields_alone() {
    let mut object = gate("a", "approved");
    object["spec"] = json!({"title": "secret-thing"});
    let judged = |namespace: &str, field: &str, shared: &[&str]| {
        let paths = shared.iter().map(|it| FieldPath::parse(it).unwrap());
        let shared = BTreeMap::from([("gate".to_owned(), paths.collect())]);
        let value = if field == "status.state" {
            "approved"
        } else {
            "secret-thing"
        };
        let question = question().found([object.clone()]).with(|it| {
            it.policy["metadata"]["namespace"] = namespace.into();
            it.check()["selector"]["fieldSelector"] = json!({field: value});
            it.shared = shared.clone();
        });
        question.judged().said()
    };
    let approved = (Passed, JudgeReason::Approved);
    assert_eq!(judged("devops", "spec.title", &[]), approved);
    assert_eq!(judged("tools", "status.state", &[]), approved);
    assert_eq!(judged("tools", "spec.title", &["spec.title"]), approved);
    assert_eq!(
        judged("tools", "spec.title", &[]),
        (Failed, JudgeReason::SelectorInvalid)
    );
}

#[test]
fn a_policy_of_another_namespace_sees_and_says_little() {
    let asked = with_rego(question())
        .with(|it| it.policy["metadata"]["namespace"] = "tools".into())
        .found([gate("a", "approved")]);
    let prepared = prepare(asked.clone()).unwrap();
    let jobs: Vec<_> = prepared.rego_jobs().collect();
    assert_eq!(
        jobs[0].context["spec"],
        json!({"serviceAccountName": "builder"})
    );
    let judgement = prepared.finish([Ok(answer("pending", Some("containers: secret-thing")))]);
    assert_eq!(judgement.said(), (Pending, JudgeReason::Pending));
    assert!(!format!("{judgement:?}").contains("secret-thing"));

    let word = Ok(answer("secret-thing", None));
    let judgement = prepare(asked.clone()).unwrap().finish([word]);
    assert_eq!(judgement.said(), (Pending, JudgeReason::NotHolding));
    assert_eq!(judgement.only().objects[0].state, "other");
    assert!(!format!("{judgement:?}").contains("secret-thing"));

    let leaky = Err(RegoFailure::Failed("at secret-thing".to_owned()));
    let judgement = prepare(asked).unwrap().finish([leaky]);
    assert!(!format!("{judgement:?}").contains("secret-thing"));
    assert_eq!(
        judgement.only().message,
        "the Rego module gives no answer for ConfigMap devops/a"
    );
}
