//! Server-side apply.

use kube::Client;
use serde_json::{Value, json};

use crate::support::{MAPS, admin, call, map, merge, refusal, server, typed_call};

async fn apply(client: &Client, manager: &str, data: Value) -> (u16, Value) {
    let what = format!("PATCH {MAPS}/a?fieldManager={manager}");
    typed_call(
        client,
        &what,
        "application/apply-patch+yaml",
        map("a", &data),
    )
    .await
}

async fn force(client: &Client, manager: &str, data: Value) -> (u16, Value) {
    let what = format!("PATCH {MAPS}/a?force=true&fieldManager={manager}");
    typed_call(
        client,
        &what,
        "application/apply-patch+yaml",
        map("a", &data),
    )
    .await
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let all = object["metadata"]["managedFields"].as_array().unwrap();
    let text =
        |it: &'static str, value: &'_ Value| value[it].as_str().unwrap().to_owned().leak() as &str;
    all.iter()
        .map(|it| (text("manager", it), text("operation", it)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_created_and_then_changed() {
    let server = server();
    let client = admin(&server);
    let (code, made) = apply(&client, "m", json!({"x": "1"})).await;
    assert_eq!((code, managers(&made)), (201, vec![("m", "Apply")]));
    let owned = json!({"f:data": {"f:x": {}}});
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], owned);
    let (code, after) = apply(&client, "m", json!({"x": "2", "y": "1"})).await;
    assert_eq!((code, &after["data"]), (200, &json!({"x": "2", "y": "1"})));
}

#[tokio::test(start_paused = true)]
async fn applying_the_same_again_makes_no_version() {
    let server = server();
    let client = admin(&server);
    apply(&client, "m", json!({"x": "1"})).await;
    let before = server.version();
    tokio::time::advance(std::time::Duration::from_mins(1)).await;
    assert_eq!(apply(&client, "m", json!({"x": "1"})).await.0, 200);
    assert_eq!(server.version(), before);
}

#[tokio::test(start_paused = true)]
async fn what_its_only_owner_no_longer_says_goes() {
    let server = server();
    let client = admin(&server);
    apply(&client, "m", json!({"x": "1", "y": "1", "z": "1"})).await;
    apply(&client, "other", json!({"y": "1"})).await;
    merge(
        &client,
        &format!("{MAPS}/a"),
        json!({"data": {"foreign": "1"}}),
    )
    .await;
    let (_, after) = apply(&client, "m", json!({"x": "1"})).await;
    assert_eq!(after["data"], json!({"x": "1", "y": "1", "foreign": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let server = server();
    let client = admin(&server);
    apply(&client, "m", json!({"x": "1"})).await;
    let answer = apply(&client, "n", json!({"x": "2"})).await;
    assert_eq!(answer.1["details"]["causes"][0]["field"], ".data.x");
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    let (code, after) = force(&client, "n", json!({"x": "2"})).await;
    assert_eq!((code, managers(&after)), (200, vec![("n", "Apply")]));
    let (code, shared) = apply(&client, "m", json!({"x": "2"})).await;
    assert_eq!(
        (code, managers(&shared).len()),
        (200, 2),
        "the same value is shared"
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_that_was_created_or_updated_otherwise_is_owned_too() {
    let server = server();
    let client = admin(&server);
    call(
        &client,
        &format!("POST {MAPS}?fieldManager=maker"),
        map("a", &json!({"x": "1"})),
    )
    .await;
    let answer = apply(&client, "m", json!({"x": "2"})).await;
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    let (_, after) = apply(&client, "m", json!({"y": "1"})).await;
    assert_eq!(managers(&after), [("m", "Apply"), ("maker", "Update")]);
    merge(
        &client,
        &format!("{MAPS}/a?fieldManager=third"),
        json!({"data": {"y": "2"}}),
    )
    .await;
    let answer = apply(&client, "m", json!({"y": "1"})).await;
    assert_eq!(
        refusal(answer),
        (409, "Conflict".to_owned()),
        "an update takes what it changes"
    );
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_applied_one_by_one() {
    let server = server();
    let client = admin(&server);
    let mut object = map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/z"]);
    server.create(object.clone());
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    let what = format!("PATCH {MAPS}/a?fieldManager=m");
    let kind = "application/apply-patch+yaml";
    let (_, after) = typed_call(&client, &what, kind, object).await;
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["example.com/z", "example.com/a"])
    );
    let (_, after) = apply(&client, "m", json!({})).await;
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/z"]));
}

#[tokio::test(start_paused = true)]
async fn an_apply_names_its_manager() {
    let server = server();
    let client = admin(&server);
    let kind = "application/apply-patch+yaml";
    let what = format!("PATCH {MAPS}/a");
    let answer = typed_call(&client, &what, kind, map("a", &json!({}))).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
}
