//! Undeclared fields reach the components that can refuse them with a hint, instead of being dropped.

use serde_json::{Value, json};

use crate::schemas::{object_levels, schema_of};
use crate::support::scene;

#[tokio::test]
async fn an_unknown_field_is_stored_at_every_level() {
    let scene = scene("unknown").await;
    for kind in ["AccessPolicy", "AccessRequest"] {
        let mut object = scene.full(kind);
        let levels = object_levels(
            &object["spec"],
            &schema_of(kind)["properties"]["spec"],
            "/spec",
        );
        for level in &levels {
            object.pointer_mut(level).unwrap()["surprise"] = json!({"of": [level]});
        }
        let stored = scene.create(&object).await.unwrap();
        assert_eq!(stored["spec"], object["spec"], "{kind}");
        let error = match kind {
            "AccessPolicy" => {
                connectors_api::parse::object::<connectors_api::AccessPolicy>(&stored).err()
            }
            _ => connectors_api::parse::object::<connectors_api::AccessRequest>(&stored).err(),
        };
        assert!(
            error
                .unwrap()
                .to_string()
                .contains("surprise: unknown field"),
            "{kind}"
        );
    }
}

/// `names:` with nothing behind it must not become "every connector".
#[tokio::test]
async fn a_null_is_refused_or_stored_but_never_dropped() {
    let scene = scene("null").await;
    let policy = scene.full("AccessPolicy");
    let check = "/spec/checkGrantedPermission/spec/checks/0";
    for pointer in [
        "/spec/connector/names",
        "/spec/connector/selector",
        "/spec/connector/selector/matchLabels/connectors.cpaas.io~1connectorclass",
        "/spec/defaultPermission",
        "/spec/defaultPermission/bindingTemplate/subjects/0/namespace",
        "/spec/defaultPermission/bindingTemplate/subjects/1/namespaceSelector",
        "/spec/checkGrantedPermission/requesters",
        &format!("{check}/approvers"),
        &format!("{check}/approvers/users"),
        &format!("{check}/selector/labels/tekton.dev~1pipelineRun"),
        &format!("{check}/selector/fieldSelector"),
        &format!("{check}/selector/fieldSelector/spec.type"),
        &format!("{check}/state"),
        "/spec/checkGrantedPermission/spec/limits",
        "/spec/checkGrantedPermission/spec/limits/maxDuration",
    ] {
        let mut object = policy.clone();
        *object.pointer_mut(pointer).unwrap() = Value::Null;
        // Refused is fine: the rest of the object may not make sense without the value.
        let Ok(stored) = scene.create(&object).await else {
            continue;
        };
        assert_eq!(
            stored.pointer(pointer),
            Some(&Value::Null),
            "{pointer} was dropped"
        );
        let error =
            connectors_api::parse::object::<connectors_api::AccessPolicy>(&stored).unwrap_err();
        assert!(
            error.to_string().contains("null is not a value"),
            "{pointer}: {error}"
        );
    }
}
