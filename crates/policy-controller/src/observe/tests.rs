use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
use serde_json::json;

use super::*;
use crate::testing::{OWN, api_server, job_of, put_policy, reconciler};

#[tokio::test]
async fn a_policy_whose_name_is_not_known_is_found_by_its_uid() {
    let server = api_server();
    let policies = ["p", "q"].map(|name| (name, put_policy(&server, name)));
    let reconciler = reconciler(&server);
    let found = async |uid: &str| {
        let keys = reconciler.world.read().namespace_keys();
        let job = job_of(uid);
        let read = reconciler.observer.read(&job, None, keys);
        read.await.unwrap().policy.map(|it| it.owner.name)
    };
    for (name, uid) in policies {
        assert_eq!(found(&uid).await, Some(Name::new(OWN, name)));
    }
    assert_eq!(found("other").await, None);
}

/// Without them every look reads all service accounts.
#[test]
fn the_api_server_is_asked_for_the_labels_that_a_selector_names() {
    let selector: LabelSelector = serde_json::from_value(json!({
        "matchLabels": {"app": "ci", "team": "a"},
        "matchExpressions": [{"key": "x", "operator": "Exists"}],
    }))
    .unwrap();
    assert_eq!(equalities(&selector), "app=ci,team=a");
}

#[test]
fn an_object_was_changed_by_whoever_else_owns_its_content() {
    let entry = |manager: &str, fields: Option<Value>| ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        fields_v1: fields.map(FieldsV1),
        ..ManagedFieldsEntry::default()
    };
    let rules = || Some(json!({"f:metadata": {}, "f:rules": {}}));
    let labels = || Some(json!({"f:metadata": {}}));
    for (fields, expected) in [
        (vec![entry(MANAGER, rules())], None),
        (
            vec![entry(MANAGER, rules()), entry("kubectl", labels())],
            None,
        ),
        (vec![entry("kubectl", None)], None),
        (
            vec![entry(MANAGER, rules()), entry("kubectl", rules())],
            Some("kubectl"),
        ),
    ] {
        assert_eq!(
            changed_by(&fields, "f:rules").as_deref(),
            expected,
            "{fields:?}"
        );
    }
}
