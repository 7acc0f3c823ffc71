//! The question as a whole, and the rules that are granted in the end.

use serde_json::{Value, json};

use super::*;

#[test]
fn rules_that_cannot_be_granted_leave_none() {
    type Change = fn(&mut Value);
    let cases: [(Change, RulesReason); 9] = [
        (
            |it| it["apiGroups"] = json!([""]),
            RulesReason::WrongApiGroup,
        ),
        (|it| it["apiGroups"] = json!([]), RulesReason::WrongApiGroup),
        (|it| it["verbs"] = json!([]), RulesReason::NoVerbs),
        (|it| it["resources"] = json!([]), RulesReason::WrongResource),
        (
            |it| it["resources"] = json!(["connectors/apis"]),
            RulesReason::WrongResource,
        ),
        (
            |it| it["resources"] = json!(["connectors/apis/v1/pod/devops/another"]),
            RulesReason::WrongResource,
        ),
        (
            |it| it["resources"] = json!(["secrets/apis/v1/pod/devops/deploy"]),
            RulesReason::WrongResource,
        ),
        (
            |it| it["resources"] = json!(["*"]),
            RulesReason::WrongResource,
        ),
        (
            |it| it["resources"] = json!(["connectors/proxy/v1/pod/devops/deploy"]),
            RulesReason::WrongPermission,
        ),
    ];
    for (change, reason) in cases {
        let mut asked = question().found([gate("a", "approved")]);
        let template = &mut asked.policy["spec"]["checkGrantedPermission"]["spec"]["permissions"]["roleTemplate"];
        // A valid rule before it does not help.
        let good = template["rules"][0].clone();
        template["rules"].as_array_mut().unwrap().push(good);
        change(&mut template["rules"][1]);
        let judgement = asked.judged();
        assert_eq!(judgement.verdict, Passed);
        let error = judgement.rules.unwrap().unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
    }
    let judgement =
        question()
            .found([gate("a", "approved")])
            .with(|it| {
                it.policy["spec"]["checkGrantedPermission"]["spec"]["permissions"]["roleTemplate"]
                    ["rules"] = json!([]);
            })
            .judged();
    assert_eq!(judgement.rules, Some(Err(NoRules::Empty)));
}

#[test]
fn a_question_that_makes_no_sense_is_an_error() {
    type Change = fn(&mut PolicyQuestion);
    let cases: [(Change, &str); 13] = [
        (
            |it| it.policy = json!(null),
            "policy: must be an AccessPolicy",
        ),
        (
            |it| it.policy["kind"] = "AccessRequest".into(),
            "policy: must be an AccessPolicy",
        ),
        (
            |it| it.policy["apiVersion"] = "connectors.alauda.io/v1".into(),
            "policy: must be an AccessPolicy",
        ),
        (
            |it| it.policy["spec"]["chekGranted"] = json!({}),
            "policy: spec.chekGranted",
        ),
        (
            |it| it.check()["aprovers"] = json!({}),
            "policy: spec.checkGrantedPermission.spec.checks[0].aprovers",
        ),
        (
            |it| it.policy["spec"]["checkGrantedPermission"] = json!({}),
            "policy: has no checkGrantedPermission",
        ),
        (
            |it| it.policy["metadata"]["namespace"] = Value::Null,
            "policy: metadata.namespace",
        ),
        (
            |it| it.context["kind"] = "Job".into(),
            "context object: must be a Pod",
        ),
        (
            |it| it.context["metadata"]["uid"] = "".into(),
            "context object: metadata.uid",
        ),
        (
            |it| it.context["metadata"]["name"] = "a/b".into(),
            "context object: metadata.name",
        ),
        (
            |it| it.context["metadata"]["namespace"] = json!(1),
            "context object: metadata.namespace",
        ),
        (|it| it.connector = "a/b".to_owned(), "connector:"),
        (
            |it| {
                it.candidates.insert("typo".to_owned(), vec![]);
            },
            "candidates: the policy has no check `typo`",
        ),
    ];
    for (change, message) in cases {
        let error = prepare(question().with(change)).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn the_snapshot_of_a_grant_is_a_policy_too() {
    let asked = question().found([gate("a", "approved")]).with(|it| {
        it.stage = Stage::AfterGrant;
        it.policy["metadata"] =
            json!({"name": "p", "namespace": "devops", "uid": "u", "generation": 3});
    });
    assert_eq!(asked.judged().verdict, Passed);
}

/// Callers need rights in it.
#[test]
fn the_namespace_of_a_parsed_policy_is_that_of_its_object() {
    for namespace in ["devops", "tools"] {
        let asked = question().with(|it| it.policy["metadata"]["namespace"] = namespace.into());
        let policy = GatedPolicy::read(&asked.policy).unwrap();
        assert_eq!(policy.namespace(), namespace);
    }
}

#[test]
fn a_policy_without_checks_lets_nobody_in() {
    let asked = question().with(|it| {
        it.policy["spec"]["checkGrantedPermission"]["spec"]["checks"] = json!([]);
    });
    let judgement = asked.judged();
    assert_eq!((judgement.verdict, judgement.rules), (Failed, None));
}

#[test]
fn the_templates_of_many_checks_take_no_longer_than_those_of_one() {
    let asked = question().with(|it| {
        let checks = &mut it.policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
        checks[0]["selector"]["labels"] = json!({"run": "{.object..run}"});
        let check = checks[0].clone();
        *checks = (0..32)
            .map(|number| {
                let mut check = check.clone();
                check["name"] = format!("gate-{number}").into();
                check
            })
            .collect();
        it.context["metadata"]["annotations"] = (0..5_000)
            .map(|number| (number.to_string(), json!("")))
            .collect();
    });
    let judgement = asked.judged();
    assert_eq!(judgement.verdict, Failed);
    let failed = judgement
        .checks
        .iter()
        .filter(|check| check.verdict == Failed);
    let messages: Vec<_> = failed.map(|check| check.message.as_str()).collect();
    let told = messages
        .iter()
        .filter(|it| it.contains("too many values to look at"))
        .count();
    // Each visits some five thousand values, and the budget for all is a hundred thousand.
    assert!((10..16).contains(&told), "{messages:?}");
}
