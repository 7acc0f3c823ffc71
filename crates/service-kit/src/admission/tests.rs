use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::fake_api::{self, answer, refusal};

const NAME: &str = "rule";
const EARLIER: &str = "2026-03-01T09:00:00Z";
const LATER: &str = "2026-03-01T10:00:00Z";

/// The policy and the binding of a rule that refuses every object.
fn strict() -> [Value; 2] {
    let binding = json!({"policyName": NAME, "validationActions": ["Deny"]});
    [(EARLIER, json!({})), (LATER, binding)].map(
        |(since, spec)| json!({"metadata": {"name": NAME, "creationTimestamp": since, "generation": 1}, "spec": spec}),
    )
}

/// Whether the rule of this policy and binding is in force, and since when for every author.
async fn asked(objects: [Option<Value>; 2]) -> Result<(bool, Option<Timestamp>), CallError> {
    let [policy, binding] = objects;
    let client = fake_api::client(move |request: Request<Body>| {
        let found = match request.uri().path() {
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/rule" => &policy,
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/rule" => {
                &binding
            }
            other => panic!("{other}"),
        };
        let answer = match found {
            Some(Value::Null) => refusal(StatusCode::FORBIDDEN),
            Some(found) => answer(StatusCode::OK, found.to_string()),
            None => refusal(StatusCode::NOT_FOUND),
        };
        async { answer }
    });
    let calls = RetryPolicy::default();
    Ok((
        is_in_force(&client, &calls, NAME).await?,
        rule_since(&client, &calls, NAME).await?,
    ))
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Each change of a rule that refuses every object, and whether it still does.
#[tokio::test]
async fn a_rule_is_in_force_if_it_refuses_every_object_everywhere_and_stays() {
    const POLICY: usize = 0;
    const BINDING: usize = 1;
    let some = json!({"matchLabels": {"a": "b"}});
    let every = json!({"namespaceSelector": {}, "objectSelector": {}});
    for (object, part, field, value, is_in_force) in [
        (POLICY, "spec", "failurePolicy", json!("Fail"), true),
        (POLICY, "spec", "failurePolicy", json!("Ignore"), false),
        (POLICY, "spec", "matchConstraints", json!({}), true),
        (POLICY, "spec", "matchConstraints", every, true),
        (
            POLICY,
            "spec",
            "matchConstraints",
            json!({"namespaceSelector": some}),
            false,
        ),
        (
            POLICY,
            "spec",
            "matchConstraints",
            json!({"objectSelector": some}),
            false,
        ),
        (
            POLICY,
            "spec",
            "matchConstraints",
            json!({"excludeResourceRules": [{}]}),
            false,
        ),
        (POLICY, "metadata", "deletionTimestamp", json!(LATER), false),
        (BINDING, "spec", "policyName", json!("other"), false),
        (BINDING, "spec", "policyName", Value::Null, false),
        (BINDING, "spec", "matchResources", json!({}), false),
        (BINDING, "spec", "paramRef", json!({"name": "p"}), false),
        (
            BINDING,
            "spec",
            "validationActions",
            json!(["Audit", "Deny"]),
            true,
        ),
        (
            BINDING,
            "spec",
            "validationActions",
            json!(["Audit", "Warn"]),
            false,
        ),
        (BINDING, "spec", "validationActions", json!([]), false),
        (BINDING, "spec", "validationActions", Value::Null, false),
        (
            BINDING,
            "metadata",
            "deletionTimestamp",
            json!(LATER),
            false,
        ),
    ] {
        let mut objects = strict();
        objects[object][part][field] = value.clone();
        let expected = (is_in_force, is_in_force.then(|| time(LATER)));
        let asked = asked(objects.map(Some)).await.unwrap();
        assert_eq!(asked, expected, "{field}: {value}");
    }
}

#[tokio::test]
async fn a_rule_of_which_a_part_is_missing_or_cannot_be_read_is_not_in_force() {
    for absent in [0, 1] {
        let mut objects = strict().map(Some);
        objects[absent] = None;
        assert_eq!(asked(objects).await.unwrap(), (false, None), "{absent}");
        let mut objects = strict();
        objects[absent]["spec"] = Value::Null;
        let without = asked(objects.map(Some)).await.unwrap();
        assert_eq!(without, (false, None), "{absent}");
        let mut objects = strict().map(Some);
        objects[absent] = Some(Value::Null);
        let refused = asked(objects).await.unwrap_err();
        assert_eq!(refused.status(), Some(403), "{absent}");
    }
}

#[tokio::test]
async fn a_rule_counts_since_its_later_part_and_not_if_it_excepts_authors() {
    let [mut policy, mut binding] = strict();
    policy["metadata"]["creationTimestamp"] = json!(LATER);
    binding["metadata"]["creationTimestamp"] = json!(EARLIER);
    let objects = [policy.clone(), binding.clone()].map(Some);
    assert_eq!(asked(objects).await.unwrap(), (true, Some(time(LATER))));
    policy["spec"]["matchConditions"] = json!([{"name": "others", "expression": "false"}]);
    let objects = [policy, binding].map(Some);
    assert_eq!(asked(objects).await.unwrap(), (true, None));
}

/// It may have been a weaker rule before, whose objects are not to be believed. Labels leave the generation as it is.
#[tokio::test]
async fn a_rule_that_was_changed_counts_since_no_time() {
    for (generation, since) in [
        (json!(1), Some(LATER)),
        (json!(2), None),
        (json!(7), None),
        (json!(0), None),
        (json!(null), None),
    ] {
        for changed in [0, 1] {
            let mut objects = strict();
            objects[changed]["metadata"]["generation"] = generation.clone();
            objects[changed]["metadata"]["managedFields"] =
                json!([{"manager": "helm", "time": EARLIER, "operation": "Update"}]);
            let expected = (true, since.map(time));
            let asked = asked(objects.map(Some)).await.unwrap();
            assert_eq!(asked, expected, "{changed}: {generation}");
        }
    }
}
