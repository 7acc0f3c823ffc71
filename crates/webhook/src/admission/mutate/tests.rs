use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "r", "namespace": "tools"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build-1"}},
        },
    })
}

fn filled(object: &Value, uid: Option<&str>) -> Value {
    let mut filled = object.clone();
    let uid = uid.map(str::to_owned);
    if let Some(patch) = fill(object, spec(object).unwrap(), "tools", uid) {
        json_patch::patch(&mut filled, &patch).unwrap();
    }
    filled
}

fn labels(uid: &str) -> Value {
    json!({
        "connectors.cpaas.io/contextObjectKind": "Pod",
        "connectors.cpaas.io/contextObjectName": "build-1",
        "connectors.cpaas.io/contextObjectNamespace": "team",
        "connectors.cpaas.io/contextObjectUID": uid,
        "connectors.cpaas.io/connector": "harbor",
    })
}

#[test]
fn fills_in_what_may_be_left_out_and_nothing_else() {
    let mut expected = object();
    expected["spec"]["context"]["objectRef"]["uid"] = json!("u1");
    expected["spec"]["permission"] = json!("apis");
    expected["spec"]["connectorRef"]["namespace"] = json!("tools");
    expected["metadata"]["labels"] = labels("u1");
    assert_eq!(filled(&object(), Some("u1")), expected);
    // What is filled in once is left alone.
    let again = fill(&expected, spec(&expected).unwrap(), "tools", None);
    assert_eq!(again, None);
}

#[test]
fn what_is_given_stays_as_it_is() {
    let mut given = object();
    given["spec"]["context"]["objectRef"]["uid"] = json!("theirs");
    given["spec"]["permission"] = json!("proxy");
    given["spec"]["subject"]["namespace"] = json!("");
    given["spec"]["connectorRef"]["namespace"] = json!("elsewhere");
    assert_eq!(without_uid(&spec(&given).unwrap()), None);
    let mut expected = given.clone();
    expected["metadata"]["labels"] = labels("theirs");
    assert_eq!(filled(&given, Some("other")), expected);
}

#[test]
fn a_pod_that_was_not_found_leaves_the_uid_out() {
    let filled = filled(&object(), None);
    assert_eq!(
        filled["spec"]["context"]["objectRef"],
        object()["spec"]["context"]["objectRef"]
    );
    let labels = filled["metadata"]["labels"].as_object().unwrap();
    assert!(!labels.contains_key("connectors.cpaas.io/contextObjectUID"));
    assert_eq!(labels.len(), 4);
}

#[test]
fn our_labels_are_set_and_others_kept() {
    let mut given = object();
    given["metadata"]["labels"] = json!({
        "team": "a",
        "connectors.cpaas.io/connector": "another",
        "connectors.cpaas.io/contextObjectUID": "another",
    });
    let mut expected = labels("u1");
    expected["team"] = json!("a");
    assert_eq!(filled(&given, Some("u1"))["metadata"]["labels"], expected);
}

#[test]
fn a_wrong_label_does_not_stay_where_the_right_one_does_not_fit() {
    let mut given = object();
    given["spec"]["connectorRef"]["name"] = json!("c".repeat(64));
    given["metadata"]["labels"] = json!({"connectors.cpaas.io/connector": "another"});
    let mut expected = labels("u1");
    expected
        .as_object_mut()
        .unwrap()
        .remove("connectors.cpaas.io/connector");
    assert_eq!(filled(&given, Some("u1"))["metadata"]["labels"], expected);
}

#[test]
fn labels_of_any_shape_are_no_reason_to_fail() {
    for (given, kept) in [(json!(null), true), (json!({}), true), (json!([]), false)] {
        let mut object = object();
        object["metadata"]["labels"] = given.clone();
        let labelled = filled(&object, Some("u1"))["metadata"]["labels"] == labels("u1");
        assert_eq!(labelled, kept, "{given}");
    }
    let mut object = object();
    object.as_object_mut().unwrap().remove("metadata");
    assert_eq!(
        filled(&object, Some("u1"))["metadata"]["labels"],
        labels("u1")
    );
}

#[test]
fn a_pod_is_looked_up_under_names_only() {
    let asked = |namespace: &str, name: &str| {
        let mut object = object();
        object["spec"]["context"]["objectRef"]["namespace"] = json!(namespace);
        object["spec"]["context"]["objectRef"]["name"] = json!(name);
        without_uid(&spec(&object).unwrap()).is_some()
    };
    assert!(asked("team", "build-1"));
    for (namespace, name) in [
        ("", "a"),
        ("a", ""),
        ("a/b", "c"),
        ("a", "../b"),
        ("a", "b?c"),
    ] {
        assert!(!asked(namespace, name), "{namespace:?} {name:?}");
    }
}

#[test]
fn a_spec_that_cannot_be_read_is_left_alone() {
    for unreadable in [
        json!({}),
        json!({"spec": null}),
        json!({"spec": {"subjcet": 1}}),
        json!(1),
    ] {
        assert_eq!(spec(&unreadable), None, "{unreadable}");
    }
}
