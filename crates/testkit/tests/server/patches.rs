//! Merge and JSON patches.

use serde_json::{Value, json};

use crate::support::{
    MAPS, REQUESTS, access_request, admin, map, merge, refusal, server, typed_call,
};

#[tokio::test(start_paused = true)]
async fn a_merge_patch_changes_what_it_names() {
    let server = server();
    server.create(map("a", &json!({"x": "1", "y": "1"})));
    let path = format!("{MAPS}/a");
    let (code, after) = merge(
        &admin(&server),
        &path,
        json!({"data": {"x": null, "z": "1"}}),
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(after["data"], json!({"y": "1", "z": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_status_leaves_the_rest() {
    let server = server();
    server.create(access_request("a"));
    let body = json!({"status": {"phase": "Denied"}, "spec": {"permission": "proxy"}});
    let (_, after) = merge(
        &admin(&server),
        &format!("{REQUESTS}/a/status"),
        body.clone(),
    )
    .await;
    assert_eq!(after["status"]["phase"], "Denied");
    assert_eq!(after["spec"]["permission"], "apis");
    let (_, after) = merge(&admin(&server), &format!("{REQUESTS}/a"), body).await;
    assert_eq!(after["spec"]["permission"], "proxy");
}

#[tokio::test(start_paused = true)]
async fn a_uid_or_a_version_in_a_patch_must_be_the_objects() {
    let server = server();
    let client = admin(&server);
    server.create(access_request("a"));
    let path = format!("{REQUESTS}/a");
    let answer = merge(&client, &path, json!({"metadata": {"uid": "999"}})).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
    let answer = merge(
        &client,
        &path,
        json!({"metadata": {"resourceVersion": "999"}}),
    )
    .await;
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    let answer = merge(&client, &format!("{REQUESTS}/b"), json!({})).await;
    assert_eq!(refusal(answer), (404, "NotFound".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_does_all_or_nothing() {
    let server = server();
    let client = admin(&server);
    server.create(map("a", &json!({"x": "1"})));
    let what = format!("PATCH {MAPS}/a");
    let kind = "application/json-patch+json";
    let body = json!([
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]);
    let (code, after) = typed_call(&client, &what, kind, body.clone()).await;
    assert_eq!((code, &after["data"]["x"]), (200, &Value::from("2")));
    let again = typed_call(&client, &what, kind, body).await;
    assert_eq!(refusal(again), (422, "Invalid".to_owned()));
    let unreadable = typed_call(&client, &what, kind, json!({"op": "test"})).await;
    assert_eq!(refusal(unreadable), (400, "BadRequest".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_take_no_strategic_merge() {
    let server = server();
    server.create(access_request("a"));
    let what = format!("PATCH {REQUESTS}/a");
    let kind = "application/strategic-merge-patch+json";
    let answer = typed_call(&admin(&server), &what, kind, json!({})).await;
    assert_eq!(refusal(answer), (415, "UnsupportedMediaType".to_owned()));
}
