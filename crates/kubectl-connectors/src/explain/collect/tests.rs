//! Whether a check finds an object that was read alone.

use serde_json::json;

use super::*;

/// The selection of the only check of a policy, for the pod `ci/p`.
fn wanted(field_selector: &Value) -> WantedObjects {
    let policy = json!({
        "metadata": {"namespace": "ci", "name": "p", "uid": "p"},
        "spec": {"connector": {"names": ["harbor"]}, "checkGrantedPermission": {"spec": {
            "checks": [{"name": "c", "selector": {
                "objectRef": {"apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest"},
                "labels": {"pod": "{.object.metadata.name}", "of": "us"}, "fieldSelector": field_selector,
            }}],
            "permissions": {"roleTemplate": {"rules": []}},
        }}},
    });
    let policy: AccessPolicy = serde_json::from_value(policy).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ci", "name": "p", "uid": "u"},
    });
    let compiled = CompiledPolicy::of(policy, None);
    let mut all = wanted_objects::wanted(&compiled, &pod, &SharedFields::default());
    let only = all.remove(0);
    assert!(only.selection.is_ok(), "{only:?}");
    only
}

fn object() -> Value {
    json!({
        "apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest",
        "metadata": {"namespace": "ci", "name": "chg-1", "uid": "o", "labels": {"pod": "p", "of": "us", "more": "x"}},
        "spec": {"tier": "prod"},
    })
}

/// A user that may read one object and list none is told what a list would have found.
#[test]
fn an_object_that_was_read_alone_is_found_as_a_list_would_find_it() {
    type Change = fn(&mut Value);
    let rows: [(&str, Change, bool); 14] = [
        ("nothing", |_| (), true),
        (
            "another version of its group",
            |it| it["apiVersion"] = "itsm.example.com/v2".into(),
            true,
        ),
        (
            "another group",
            |it| it["apiVersion"] = "other.example.com/v1".into(),
            false,
        ),
        ("the core group", |it| it["apiVersion"] = "v1".into(), false),
        ("another kind", |it| it["kind"] = "Change".into(), false),
        (
            "a kind in another case",
            |it| it["kind"] = "changerequest".into(),
            false,
        ),
        (
            "another namespace",
            |it| it["metadata"]["namespace"] = "ci2".into(),
            false,
        ),
        (
            "no namespace",
            |it| it["metadata"]["namespace"] = Value::Null,
            false,
        ),
        (
            "it is being deleted",
            |it| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            false,
        ),
        (
            "the label of another pod",
            |it| it["metadata"]["labels"]["pod"] = "p2".into(),
            false,
        ),
        (
            "the second label differs",
            |it| it["metadata"]["labels"]["of"] = "them".into(),
            false,
        ),
        (
            "one label is missing",
            |it| it["metadata"]["labels"] = json!({"pod": "p"}),
            false,
        ),
        (
            "an empty label",
            |it| it["metadata"]["labels"]["of"] = "".into(),
            false,
        ),
        (
            "no labels",
            |it| it["metadata"]["labels"] = Value::Null,
            false,
        ),
    ];
    let by_labels = wanted(&Value::Null);
    for (what, change, expected) in rows {
        let mut changed = object();
        change(&mut changed);
        assert_eq!(is_found(&changed, &by_labels, "ci"), expected, "{what}");
    }
    let by_field = wanted(&json!({"spec.tier": "prod"}));
    assert!(is_found(&object(), &by_field, "ci"));
    let mut other = object();
    other["spec"]["tier"] = "prod2".into();
    assert!(!is_found(&other, &by_field, "ci"));
}
