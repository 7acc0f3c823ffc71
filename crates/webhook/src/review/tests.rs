use std::net::Ipv4Addr;

use json_patch::{Patch, jsonptr::PointerBuf};
use serde_json::{Value, json};

use super::*;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn parsed(text: &str) -> Result<ReviewedObject, ReviewError> {
    parse(&Bytes::from(text.to_owned()), PEER, UserPart::Whole)
}

fn body() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "kind": {"group": "connectors.alauda.io", "version": "v1alpha1", "kind": "AccessRequest"},
            "resource": {"group": "connectors.alauda.io", "version": "v1alpha1", "resource": "accessrequests"},
            "namespace": "team", "name": "", "operation": "CREATE",
            "userInfo": {"username": "ada", "groups": ["dev"], "extra": {"k": ["v"]}},
            "object": {"spec": {}}, "oldObject": null, "dryRun": true,
        },
    })
}

#[test]
fn reads_what_the_api_server_sends() {
    let request = parsed(&body().to_string()).unwrap();
    assert_eq!(request.uid, "u1");
    assert_eq!(request.operation, Operation::Create);
    assert_eq!(request.namespace.as_deref(), Some("team"));
    assert_eq!(request.sub_resource, None);
    assert_eq!(request.object.unwrap().get(), r#"{"spec":{}}"#);
    assert_eq!(request.user_info.username.as_deref(), Some("ada"));
}

#[test]
fn refuses_bodies_that_cannot_be_answered() {
    let without = |pointer: &str, value: Value| {
        let mut body = body();
        *body.pointer_mut(pointer).unwrap() = value;
        parsed(&body.to_string()).unwrap_err().to_string()
    };
    let cases = [
        (
            "/apiVersion",
            json!("admission.k8s.io/v1beta1"),
            "only AdmissionReview of admission.k8s.io/v1 is understood",
        ),
        (
            "/kind",
            json!("Pod"),
            "only AdmissionReview of admission.k8s.io/v1 is understood",
        ),
        (
            "/request",
            Value::Null,
            "the AdmissionReview has no request",
        ),
        ("/request/uid", json!(""), "the request has no uid"),
        (
            "/request/userInfo",
            json!({}),
            "the request does not say whose it is",
        ),
        (
            "/request/userInfo/username",
            json!(""),
            "the request does not say whose it is",
        ),
        (
            "/request/operation",
            json!("PATCH"),
            "not an AdmissionReview",
        ),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(without(pointer, value), expected, "{pointer}");
    }
    assert!(matches!(parsed(""), Err(ReviewError::Shape(_))));
    let mut body = body();
    body["request"]["userInfo"]["groups"] = json!("dev");
    let told = service_kit::report(&parsed(&body.to_string()).unwrap_err());
    let expected = "expected a list, or a map of lists";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_user_has_a_bounded_number_of_groups_extras_and_bytes() {
    let with = |user: Value| {
        let mut body = body();
        body["request"]["userInfo"] = user;
        body.to_string()
    };
    let refused = |text: &str| match parsed(text) {
        Err(ReviewError::User { uid, source }) => {
            assert_eq!(uid, "u1", "it can be answered");
            Some(source)
        }
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };
    let groups = |count| json!({"username": "ada", "groups": vec![""; count]});
    assert_eq!(refused(&with(groups(MOST_GROUPS))), None);
    assert_eq!(
        refused(&with(groups(MOST_GROUPS + 1))),
        Some(LargeUser::Groups)
    );
    // One and a half megabytes, of which nothing is read.
    assert_eq!(refused(&with(groups(500_000))), Some(LargeUser::Bytes));
    let values = |count| json!({"username": "ada", "extra": {"k": vec![""; count]}});
    assert_eq!(refused(&with(values(MOST_EXTRA - 1))), None);
    assert_eq!(refused(&with(values(MOST_EXTRA))), Some(LargeUser::Extra));
    let keys = |count| {
        let extra: serde_json::Map<_, _> = (0..count)
            .map(|key| (format!("k{key}"), json!([])))
            .collect();
        json!({"username": "ada", "extra": extra})
    };
    assert_eq!(refused(&with(keys(MOST_EXTRA))), None);
    assert_eq!(refused(&with(keys(MOST_EXTRA + 1))), Some(LargeUser::Extra));
    // The API server writes an empty list of values so.
    let empty: serde_json::Map<_, _> = (0..MOST_EXTRA)
        .map(|key| (format!("k{key}"), Value::Null))
        .collect();
    let user = parsed(&with(json!({"username": "ada", "extra": empty})));
    let extra = user.unwrap().user_info.extra.unwrap();
    assert_eq!(extra.len(), MOST_EXTRA);
    assert!(extra.values().all(Vec::is_empty));
    let long = |bytes| json!({"username": "a".repeat(bytes)});
    let around = long(0).to_string().len();
    assert_eq!(refused(&with(long(LONGEST_USER - around))), None);
    assert_eq!(
        refused(&with(long(LONGEST_USER - around + 1))),
        Some(LargeUser::Bytes)
    );
    for nothing in [
        json!({"username": "ada", "groups": null, "extra": null}),
        json!({"username": "ada", "groups": [], "extra": {}}),
    ] {
        assert_eq!(refused(&with(nothing)), None);
    }
    let named = parse(&Bytes::from(with(groups(500_000))), PEER, UserPart::Name);
    let named = named.unwrap().user_info;
    assert_eq!(
        (named.username.as_deref(), named.groups),
        (Some("ada"), None)
    );
    // Nobody asks who writes a connector.
    let body = Bytes::from(with(groups(500_000)));
    assert_eq!(
        parse(&body, PEER, UserPart::Nothing).unwrap().user_info,
        UserInfo::default()
    );
}

#[test]
fn words_are_short() {
    for pointer in [
        "/uid",
        "/namespace",
        "/subResource",
        "/resource/group",
        "/resource/version",
        "/resource/resource",
    ] {
        for (length, fits) in [(LONGEST_WORD, true), (LONGEST_WORD + 1, false)] {
            let mut body = body();
            body["request"]["subResource"] = json!("");
            let word = body["request"].pointer_mut(pointer).unwrap();
            *word = json!("x".repeat(length));
            let parsed = parsed(&body.to_string());
            assert_eq!(parsed.is_ok(), fits, "{pointer} {length}");
            assert!(fits || matches!(parsed, Err(ReviewError::LongWord(_))));
        }
    }
}

#[test]
fn an_object_is_a_part_of_its_body_and_no_copy() {
    let body = Bytes::from(body().to_string());
    let request = parse(&body, PEER, UserPart::Whole).unwrap();
    let object = request.object.unwrap();
    assert!(body.as_ptr_range().contains(&object.get().as_ptr()));
}

#[test]
fn an_object_of_any_depth_leaves_the_review_readable() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = body().to_string().replace(r#"{"spec":{}}"#, &deep);
    assert_eq!(parsed(&text).unwrap().uid, "u1");
}

fn rendered(answer: &AdmissionAnswer) -> Value {
    let reply: Value = serde_json::from_slice(&render("u1", answer).unwrap()).unwrap();
    assert_eq!(reply["apiVersion"], API_VERSION);
    assert_eq!(reply["kind"], KIND);
    assert_eq!(reply["response"]["uid"], "u1");
    reply["response"].clone()
}

#[test]
fn an_answer_says_no_more_than_it_has_to() {
    assert_eq!(
        rendered(&AdmissionAnswer::allowed()),
        json!({"uid": "u1", "allowed": true})
    );
}

#[test]
fn warnings_are_shown_to_whoever_is_let_through() {
    let warnings = vec!["spec.a: is odd".to_owned()];
    let patch = None;
    assert_eq!(
        rendered(&AdmissionAnswer::Allowed { patch, warnings }),
        json!({"uid": "u1", "allowed": true, "warnings": ["spec.a: is odd"]})
    );
}

#[test]
fn a_patch_is_sent_in_base64() {
    let operation = json_patch::AddOperation {
        path: PointerBuf::parse("/a").unwrap(),
        value: json!(1),
    };
    let patch = Patch(vec![json_patch::PatchOperation::Add(operation)]);
    let expected = json!({
        "uid": "u1", "allowed": true, "patchType": "JSONPatch",
        "patch": ByteString(br#"[{"op":"add","path":"/a","value":1}]"#.to_vec()),
    });
    assert_eq!(rendered(&AdmissionAnswer::patched(Some(patch))), expected);
}

#[test]
fn every_refusal_has_its_code() {
    let cases = [
        (RefusalStatus::Unavailable, 503, "ServiceUnavailable"),
        (RefusalStatus::Forbidden, 403, "Forbidden"),
        (RefusalStatus::Invalid, 422, "Invalid"),
        (RefusalStatus::BadRequest, 400, "BadRequest"),
    ];
    for (status, code, reason) in cases {
        let answer = AdmissionAnswer::Refused(AdmissionRefusal {
            status,
            message: "no".to_owned(),
        });
        let expected =
            json!({"status": "Failure", "code": code, "reason": reason, "message": "no"});
        let response = rendered(&answer);
        assert_eq!(
            (&response["allowed"], &response["status"]),
            (&json!(false), &expected)
        );
    }
}
