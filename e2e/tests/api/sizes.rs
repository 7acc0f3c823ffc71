//! Large objects are stored or refused with a reason, and never break the API server.

use serde_json::{Value, json};

use crate::support::{Refusal, documents, scene};

fn standing() -> Value {
    documents(include_str!("../../cases/bases/standing.yaml")).remove(0)
}

fn checked() -> Value {
    documents(include_str!("../../cases/bases/checked.yaml")).remove(0)
}

/// So many subjects, of which the first are in the form that costs the rules most.
fn subjects(count: usize, selectors: usize) -> Value {
    let subject = |number| {
        if number >= selectors {
            return json!({"kind": "ServiceAccount", "name": format!("builder-{number}")});
        }
        json!({
            "kind": "ServiceAccount",
            "nameSelector": {"matchLabels": {"app.kubernetes.io/name": format!("builder-{number}")}},
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
        })
    };
    (0..count).map(subject).collect()
}

fn checks(count: usize) -> Value {
    let one = checked()["spec"]["checkGrantedPermission"]["spec"]["checks"][0].clone();
    let named = |number| {
        let mut check = one.clone();
        check["name"] = json!(format!("check-{number}"));
        check
    };
    (0..count).map(named).collect()
}

fn labels(bytes: usize) -> Value {
    let pair = |number: usize| (format!("example.com/{number:050}"), json!("v".repeat(63)));
    Value::Object((0..bytes / 126).map(pair).collect())
}

fn refused(answer: Result<Value, Refusal>, message: &str) {
    let refusal = answer.unwrap_err();
    assert!(
        (400..500).contains(&refusal.code),
        "{} {}",
        refusal.code,
        refusal.message
    );
    assert!(refusal.message.contains(message), "{}", refusal.message);
}

#[tokio::test]
async fn a_policy_holds_a_thousand_subjects_and_no_more() {
    let scene = scene("subjects").await;
    let mut policy = standing();
    policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = subjects(1000, 16);
    policy["spec"]["checkGrantedPermission"] = checked()["spec"]["checkGrantedPermission"].clone();
    policy["spec"]["checkGrantedPermission"]["requesters"] = subjects(1000, 1000);
    scene.create(&policy).await.unwrap();
    policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = subjects(1001, 16);
    let message = "spec.defaultPermission.bindingTemplate.subjects: Too many: 1001: must have at most 1000 items";
    refused(scene.create(&policy).await, message);
    policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = subjects(17, 17);
    let message = "subjects: at most 16 may have selectors";
    refused(scene.create(&policy).await, message);
}

#[tokio::test]
async fn a_policy_holds_32_checks_and_no_more() {
    let scene = scene("checks").await;
    let mut policy = checked();
    for (count, fits) in [(32, true), (33, false), (100, false)] {
        policy["spec"]["checkGrantedPermission"]["spec"]["checks"] = checks(count);
        let answer = scene.create(&policy).await;
        if fits {
            answer.unwrap();
        } else {
            let message = format!("checks: Too many: {count}: must have at most 32 items");
            refused(answer, &message);
        }
    }
}

#[tokio::test]
async fn fifty_kilobytes_of_labels() {
    let scene = scene("labels").await;
    let mut policy = checked();
    policy["metadata"]["labels"] = labels(50_000);
    scene.create(&policy).await.unwrap();
    let mut policy = checked();
    policy["spec"]["connector"] = json!({"selector": {"matchLabels": labels(50_000)}});
    refused(
        scene.create(&policy).await,
        "matchLabels: Too many: 396: must have at most 16 items",
    );
    let mut policy = checked();
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
        labels(50_000);
    refused(
        scene.create(&policy).await,
        "labels: Too many: 396: must have at most 16 items",
    );
}

/// Only tried, never stored: many clients cannot read it back, and one such object among many spoils
/// their listing of all.
#[tokio::test]
async fn deep_nesting_is_accepted_or_refused() {
    let scene = scene("nesting").await;
    for (depth, fits) in [(100, true), (200, true), (20_000, false)] {
        let mut policy = standing();
        policy["metadata"] = json!({"generateName": "nested-"});
        policy["spec"]["connector"] = json!({ "surprise": "here" });
        let nested = format!("{}0{}", "{\"deeper\":".repeat(depth), "}".repeat(depth));
        let text = policy.to_string().replace("\"here\"", &nested);
        match scene.try_create(&policy, text).await {
            Ok(()) => assert!(fits, "{depth} levels were accepted"),
            Err(refusal) => {
                assert!(
                    (400..500).contains(&refusal.code),
                    "{} {}",
                    refusal.code,
                    refusal.message
                );
                assert!(!fits, "{depth}: {}", refusal.message);
            }
        }
    }
}

#[tokio::test]
async fn the_longest_texts_are_judged_and_longer_ones_refused() {
    let scene = scene("texts").await;
    let mut policy = checked();
    let check = "/spec/checkGrantedPermission/spec/checks/0";
    policy.pointer_mut(check).unwrap()["state"] = json!({"rego": "x".repeat(16_384)});
    scene.create(&policy).await.unwrap();
    policy.pointer_mut(check).unwrap()["state"] = json!({"rego": "x".repeat(16_385)});
    refused(
        scene.create(&policy).await,
        "state.rego: Too long: may not be more than 16384 bytes",
    );
    let mut policy = standing();
    policy["spec"]["connector"] =
        json!({"names": (0..256).map(|number| format!("{number:0253}")).collect::<Vec<_>>()});
    scene.create(&policy).await.unwrap();
    policy["spec"]["connector"] =
        json!({"names": (0..257).map(|number| number.to_string()).collect::<Vec<_>>()});
    refused(
        scene.create(&policy).await,
        "spec.connector.names: Too many: 257: must have at most 256 items",
    );
}
