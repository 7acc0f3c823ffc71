use connectors_api::{AccessPolicy, AccessRequest, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::full;
use crate::walk::{objects, schema_of};

fn read(kind: &str, object: &Value) -> Result<Value, parse::ParseError> {
    Ok(match kind {
        "AccessPolicy" => serde_json::to_value(parse::object::<AccessPolicy>(object)?).unwrap(),
        _ => serde_json::to_value(parse::object::<AccessRequest>(object)?).unwrap(),
    })
}

/// The AccessPolicy with `change` made to it.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut policy = full("AccessPolicy");
    change(&mut policy["spec"]);
    read("AccessPolicy", &policy).unwrap_err().to_string()
}

#[test]
fn a_full_object_is_read_and_written_back_unchanged() {
    for kind in ["AccessPolicy", "AccessRequest"] {
        assert_eq!(read(kind, &full(kind)), Ok(full(kind)));
    }
}

#[test]
fn a_spec_has_a_bounded_number_of_bytes() {
    let of_size = |bytes: usize| {
        let mut policy = full("AccessPolicy");
        let rego = |length: usize| json!({"rego": "x".repeat(length)});
        let state = |policy: &mut Value, length| {
            policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["state"] = rego(length);
        };
        state(&mut policy, 0);
        let bare = policy["spec"].to_string().len();
        state(&mut policy, bytes - bare);
        policy
    };
    assert!(read("AccessPolicy", &of_size(parse::MOST_SPEC_BYTES)).is_ok());
    let longer = of_size(parse::MOST_SPEC_BYTES + 1);
    let expected =
        "spec: 65537 bytes of JSON, and at most 65536 may be; make several objects of it";
    let error = read("AccessPolicy", &longer).unwrap_err();
    assert_eq!(error.to_string(), expected);
    let found = connectors_api::validate::policy(&longer);
    let told: Vec<_> = found
        .findings
        .iter()
        .map(|it| format!("{}: {}", it.path, it.message))
        .collect();
    assert_eq!(
        told,
        [expected],
        "it is told before anything else is looked at"
    );
}

#[test]
fn a_typo_is_answered_with_the_likely_word() {
    for (pointer, typo, message) in [
        (
            "/connector",
            "name",
            "spec.connector.name: unknown field; did you mean `names`?",
        ),
        (
            "/connector",
            "matchLabels",
            "spec.connector.matchLabels: unknown field; known here: names, selector",
        ),
        (
            "",
            "defaultPermissions",
            "spec.defaultPermissions: unknown field; did you mean `defaultPermission`?",
        ),
        (
            "/checkGrantedPermission/spec/checks/0",
            "approver",
            "spec.checkGrantedPermission.spec.checks[0].approver: unknown field; did you mean `approvers`?",
        ),
        (
            "/checkGrantedPermission",
            "requestors",
            "spec.checkGrantedPermission.requestors: unknown field; did you mean `requesters`?",
        ),
        (
            "/connector/selector",
            "matchlabels",
            "spec.connector.selector.matchlabels: unknown field; did you mean `matchLabels`?",
        ),
        (
            "/defaultPermission/roleTemplate/rules/0",
            "resourceNames",
            "spec.defaultPermission.roleTemplate.rules[0].resourceNames: unknown field; known here: apiGroups, resources, verbs",
        ),
    ] {
        assert_eq!(
            refused(|spec| spec.pointer_mut(pointer).unwrap()[typo] = json!({})),
            message
        );
    }
}

/// Absent means "not restricted" or "the default"; null looks like a forgotten value.
#[test]
fn null_is_not_absent() {
    for (pointer, path) in [
        ("/connector/names", "spec.connector.names"),
        (
            "/connector/selector/matchLabels/connectors.cpaas.io~1connectorclass",
            "spec.connector.selector.matchLabels.connectors.cpaas.io/connectorclass",
        ),
        ("/permission", "spec.permission"),
        ("/checkGrantedPermission", "spec.checkGrantedPermission"),
        (
            "/checkGrantedPermission/requesters",
            "spec.checkGrantedPermission.requesters",
        ),
        (
            "/checkGrantedPermission/spec/checks/0/approvers",
            "spec.checkGrantedPermission.spec.checks[0].approvers",
        ),
        (
            "/checkGrantedPermission/spec/checks/0/selector/fieldSelector/spec.type",
            "spec.checkGrantedPermission.spec.checks[0].selector.fieldSelector.spec.type",
        ),
        (
            "/checkGrantedPermission/spec/limits/maxDuration",
            "spec.checkGrantedPermission.spec.limits.maxDuration",
        ),
    ] {
        let message = refused(|spec| *spec.pointer_mut(pointer).unwrap() = Value::Null);
        assert_eq!(
            message,
            format!("{path}: null is not a value; give one or leave the field out")
        );
    }
}

#[test]
fn other_mistakes_name_the_field_too() {
    for (pointer, value, message) in [
        (
            "/permission",
            json!("api"),
            "spec.permission: unknown variant `api`, expected `apis` or `proxy`",
        ),
        (
            "/permission",
            json!(["apis"]),
            "spec.permission: must be one of apis, proxy",
        ),
        (
            "/connector/names",
            json!("prod-harbor"),
            "spec.connector.names: invalid type: string \"prod-harbor\", expected a sequence",
        ),
        (
            "/defaultPermission",
            json!({"roleTemplate": {"rules": []}}),
            "spec.defaultPermission: field `bindingTemplate` is required",
        ),
        (
            "/defaultPermission",
            json!([]),
            "spec.defaultPermission: invalid type: sequence, expected an object",
        ),
        (
            "/checkGrantedPermission/spec/limits/maxDuration",
            json!("4 hours"),
            "spec.checkGrantedPermission.spec.limits.maxDuration: \
             must be hours, minutes and seconds in this order, such as 4h, 1h30m or 90s",
        ),
        (
            "/checkGrantedPermission/spec/checks/0/selector",
            json!({"labels": {"a": "b"}}),
            "spec.checkGrantedPermission.spec.checks[0].selector: field `objectRef` is required",
        ),
    ] {
        let refusal = refused(|spec| *spec.pointer_mut(pointer).unwrap() = value);
        assert_eq!(refusal, message);
    }
}

#[test]
fn the_object_around_the_spec_is_judged_too() {
    let read = |object| {
        parse::object::<AccessPolicy>(&object)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(read(json!({"metadata": {}})), "spec: required");
    let message = read(json!({"metadata": {"name": 1}, "spec": {}}));
    assert!(
        message.starts_with("metadata.name: invalid type"),
        "{message}"
    );
}

#[test]
fn absent_and_empty_are_told_apart_where_they_differ() {
    let read = |spec: Value| parse::spec::<connectors_api::AccessPolicySpec>(&spec).unwrap();
    let nothing = read(json!({}));
    assert!(nothing.connector.is_everything());
    assert_eq!(nothing.default_permission, None);
    assert_eq!(nothing.check_granted_permission, None);
    assert_eq!(
        read(json!({"connector": {}, "defaultPermission": {}, "checkGrantedPermission": {}})),
        nothing
    );

    // An empty list never means "all": a search in it finds nothing.
    let none = read(json!({"connector": {"names": []}}));
    assert_eq!(none.connector.names, Some(Vec::new()));
    assert!(!none.connector.is_everything());
    let mut policy = full("AccessPolicy")["spec"].take();
    policy["checkGrantedPermission"]["requesters"] = json!([]);
    assert_eq!(
        read(policy.clone())
            .check_granted_permission
            .unwrap()
            .requesters,
        Some(Vec::new())
    );
    policy["checkGrantedPermission"]
        .as_object_mut()
        .unwrap()
        .remove("requesters");
    assert_eq!(
        read(policy).check_granted_permission.unwrap().requesters,
        None
    );
}

#[test]
fn the_subject_of_a_request_is_in_the_pods_namespace_however_it_is_written() {
    for namespace in [None, Some(""), Some("devops-ns1")] {
        let mut request = full("AccessRequest");
        match namespace {
            Some(namespace) => request["spec"]["subject"]["namespace"] = json!(namespace),
            None => drop(
                request["spec"]["subject"]
                    .as_object_mut()
                    .unwrap()
                    .remove("namespace"),
            ),
        }
        let request = parse::object::<AccessRequest>(&request).unwrap();
        assert_eq!(request.spec.subject_namespace(), "devops-ns1");
    }
}

/// Every object level of the full objects: kind, JSON pointer, path.
fn levels() -> Vec<(&'static str, String, String)> {
    let mut levels = Vec::new();
    for kind in ["AccessPolicy", "AccessRequest"] {
        let schema = schema_of(kind);
        objects(
            &full(kind)["spec"],
            &schema["properties"]["spec"],
            &mut |pointer, path, _| {
                levels.push((kind, pointer.to_owned(), path.to_owned()));
            },
        );
    }
    levels
}

proptest! {
    /// An unknown field is refused at its own path, for every name and place.
    #[test]
    fn no_unknown_field_gets_through(
        (kind, pointer, path) in proptest::sample::select(levels()),
        field in "[a-z][A-Za-z]{0,11}Z",
        value in proptest::sample::select(vec![json!({}), json!([1]), json!("x"), json!(true), Value::Null]),
    ) {
        let mut object = full(kind);
        object.pointer_mut(&pointer).unwrap()[&field] = value;
        let error = read(kind, &object).unwrap_err();
        prop_assert_eq!(error.path, format!("{path}.{field}"));
    }
}

#[test]
fn no_level_lets_an_unknown_field_through() {
    let levels = levels();
    assert!(levels.len() > 30, "{levels:#?}");
    for (kind, pointer, path) in levels {
        let mut object = full(kind);
        // The alphabetically first field is the one that is read ahead where `{}` means absent.
        object.pointer_mut(&pointer).unwrap()["aaa"] = json!(1);
        let error = read(kind, &object).unwrap_err();
        assert_eq!(error.path, format!("{path}.aaa"));
    }
}
