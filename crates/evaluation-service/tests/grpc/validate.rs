//! What is said about policies, Rego included.

use evaluation_api::refusal::Reason;
use evaluation_api::v1::{Finding, FindingSeverity};
use serde_json::{Value, json};

use crate::world::World;

fn policy(regos: &[&str]) -> Value {
    let check = |(number, rego): (usize, &&str)| {
        json!({
            "name": format!("c{number}"),
            "selector": {"labels": {"run": "{.object.metadata.labels.run}"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
            "state": {"rego": rego},
        })
    };
    let checks: Vec<_> = regos.iter().enumerate().map(check).collect();
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools"},
        "spec": {"checkGrantedPermission": {"spec": {
            "checks": checks,
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                "verbs": ["*"],
            }]}},
        }}},
    })
}

const SOUND: &str = "package approval\noutput := {\"state\": input.data.state}";

async fn findings(world: &World, policy: &Value) -> Vec<Finding> {
    let policy = serde_json::to_vec(policy).unwrap();
    world.client.validate_policy(policy).await.unwrap().findings
}

#[tokio::test]
async fn modules_are_tried_in_workers_and_each_has_its_own_finding() {
    let world = World::new().await;
    assert_eq!(findings(&world, &policy(&[SOUND])).await, []);
    let brackets = format!(
        "package approval\noutput := {}1{}",
        "[".repeat(60),
        "]".repeat(60)
    );
    let odd = policy(&[SOUND, "package other", &brackets, SOUND]);
    let found = findings(&world, &odd).await;
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.path.as_str(), it.code.as_str(), it.severity()))
        .collect();
    let error = FindingSeverity::Error;
    let expected = [
        (
            "spec.checkGrantedPermission.spec.checks[1].state.rego",
            "RegoInvalid",
            error,
        ),
        (
            "spec.checkGrantedPermission.spec.checks[2].state.rego",
            "RegoLimit",
            error,
        ),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_module_that_never_looks_at_the_object_is_a_warning() {
    let world = World::new().await;
    let by_context = "package approval\noutput := {\"state\": data.context.metadata.name}";
    let constant = "package approval\noutput := {\"state\": \"approved\"}";
    let found = findings(&world, &policy(&[SOUND, constant, by_context])).await;
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.path.as_str(), it.code.as_str(), it.severity()))
        .collect();
    let warned = |path| (path, "ObjectIgnored", FindingSeverity::Warning);
    let expected = [
        warned("spec.checkGrantedPermission.spec.checks[1].state.rego"),
        warned("spec.checkGrantedPermission.spec.checks[2].state.rego"),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_is_wrong_elsewhere_is_told_as_well() {
    let world = World::new().await;
    let mut policy = policy(&["package other"]);
    policy["spec"]["conector"] = json!({});
    let found = findings(&world, &policy).await;
    let codes: Vec<_> = found.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["UnknownField", "RegoInvalid"]);
    assert_eq!(found[0].fix, "write `connector`");
}

#[tokio::test]
async fn only_who_may_ask_about_the_namespace_is_answered() {
    let world = World::new().await;
    let mut elsewhere = policy(&[SOUND]);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    for (policy, reason) in [
        (elsewhere.to_string(), Reason::NamespaceForbidden),
        ("{".to_owned(), Reason::JsonInvalid),
        ("[".repeat(1000), Reason::JsonInvalid),
        (" ".repeat(1024 * 1024 + 1), Reason::TooLong),
    ] {
        let error = world.client.validate_policy(policy.into_bytes()).await;
        assert_eq!(error.unwrap_err().reason(), Some(reason));
    }
}
