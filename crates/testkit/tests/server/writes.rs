//! Creating and replacing.

use serde_json::{Value, json};
use testkit::{ChangeKind, What};

use crate::support::{
    MAPS, REQUESTS, access_request, admin, call, get, map, merge, refusal, server,
};

#[tokio::test(start_paused = true)]
async fn a_new_object_gets_what_only_the_server_writes() {
    let server = server();
    let mut body = access_request("a");
    body["status"] = json!({"phase": "Granted"});
    body["metadata"]["uid"] = "mine".into();
    let (code, made) = call(&admin(&server), &format!("POST {REQUESTS}"), body).await;
    assert_eq!(code, 201);
    let metadata = &made["metadata"];
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["resourceVersion"], server.version().to_string());
    assert_eq!(made["status"], Value::Null, "the status has its own path");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_only_once_and_generated_ones_never_are() {
    let server = server();
    let client = admin(&server);
    let post = format!("POST {MAPS}");
    assert_eq!(call(&client, &post, map("a", &json!({}))).await.0, 201);
    let again = call(&client, &post, map("a", &json!({}))).await;
    assert_eq!(refusal(again), (409, "AlreadyExists".to_owned()));
    let generated =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
    let (_, first) = call(&client, &post, generated.clone()).await;
    let (_, second) = call(&client, &post, generated).await;
    let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&first).starts_with("g-") && name(&first).len() == 7);
    assert_ne!(name(&first), name(&second));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_created_says_why() {
    let server = server();
    let client = admin(&server);
    let cases = [
        (MAPS, json!({"metadata": {}}), 422, "Invalid"),
        (MAPS, json!({"metadata": {"name": "Big"}}), 422, "Invalid"),
        (
            MAPS,
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            400,
            "BadRequest",
        ),
        (
            MAPS,
            json!({"kind": "Pod", "metadata": {"name": "a"}}),
            400,
            "BadRequest",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "resourceVersion": "3"}}),
            500,
            "",
        ),
        (
            REQUESTS,
            json!({"metadata": {"name": "a"}}),
            400,
            "BadRequest",
        ),
        (
            "/api/v1/namespaces/no/configmaps",
            json!({"metadata": {"name": "a"}}),
            404,
            "NotFound",
        ),
    ];
    for (path, body, code, reason) in cases {
        let answer = call(&client, &format!("POST {path}"), body.clone()).await;
        assert_eq!(refusal(answer), (code, reason.to_owned()), "{body}");
    }
    let status = format!("POST {REQUESTS}/a/status");
    let answer = call(&client, &status, access_request("a")).await;
    assert_eq!(refusal(answer), (405, "MethodNotAllowed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_changes_nothing() {
    let server = server();
    let client = admin(&server);
    let old = server.create(access_request("a"));
    server.change("accessrequests", "default", "a", |it| {
        it["spec"]["permission"] = "proxy".into();
    });
    let before = server.version();
    let answer = call(&client, &format!("PUT {REQUESTS}/a"), old.clone()).await;
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    let body =
        json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {}});
    let answer = merge(&client, &format!("{REQUESTS}/a"), body).await;
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    assert_eq!(server.version(), before);
}

#[tokio::test(start_paused = true)]
async fn only_the_servers_own_kinds_are_replaced_without_a_version() {
    let server = server();
    let client = admin(&server);
    server.create(access_request("a"));
    server.create(map("a", &json!({"x": "1"})));
    let answer = call(&client, &format!("PUT {REQUESTS}/a"), access_request("a")).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
    let (code, _) = call(
        &client,
        &format!("PUT {MAPS}/a"),
        map("a", &json!({"x": "2"})),
    )
    .await;
    assert_eq!(code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_uid_in_a_replacement_names_the_object() {
    let server = server();
    let client = admin(&server);
    server.create(access_request("a"));
    let mut other = server.get("accessrequests", "default", "a").unwrap();
    other["metadata"]["uid"] = "another".into();
    let answer = call(&client, &format!("PUT {REQUESTS}/a"), other.clone()).await;
    assert_eq!(refusal(answer), (409, "Conflict".to_owned()));
    server.delete("accessrequests", "default", "a");
    let answer = call(&client, &format!("PUT {REQUESTS}/a"), other.clone()).await;
    assert_eq!(refusal(answer), (404, "NotFound".to_owned()));
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "uid": "another"},
    });
    let answer = call(&client, &format!("PUT {path}"), lease).await;
    let conflict = (409, "Conflict".to_owned());
    assert_eq!(
        refusal(answer),
        conflict,
        "what a PUT creates has no UID yet"
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_has_its_own_path_and_the_rest_the_other() {
    let server = server();
    let client = admin(&server);
    let mut object = server.create(access_request("a"));
    object["status"] = json!({"phase": "Granted"});
    object["spec"]["permission"] = "proxy".into();
    object["metadata"]["labels"] = json!({"l": "1"});
    let (code, after) = call(&client, &format!("PUT {REQUESTS}/a/status"), object.clone()).await;
    assert_eq!(code, 200);
    assert_eq!(after["status"]["phase"], "Granted");
    assert_eq!(after["spec"]["permission"], "apis");
    assert_eq!(after["metadata"]["labels"], Value::Null);
    assert_eq!(after["metadata"]["generation"], 1);
    object["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    object["status"] = Value::Null;
    let (_, after) = call(&client, &format!("PUT {REQUESTS}/a"), object).await;
    assert_eq!(after["status"]["phase"], "Granted");
    assert_eq!(after["spec"]["permission"], "proxy");
    assert_eq!(after["metadata"]["generation"], 2);
    let (_, read) = get(&client, &format!("{REQUESTS}/a/status")).await;
    assert_eq!(read, after);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_makes_no_version() {
    let server = server();
    let client = admin(&server);
    let object = server.create(access_request("a"));
    let before = server.version();
    let (code, after) = call(&client, &format!("PUT {REQUESTS}/a"), object.clone()).await;
    assert_eq!((code, &after), (200, &object));
    assert_eq!(server.version(), before);
}

#[tokio::test(start_paused = true)]
async fn leases_and_rbac_objects_are_created_by_a_put() {
    let server = server();
    let client = admin(&server);
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    assert_eq!(call(&client, &format!("PUT {path}"), lease).await.0, 201);
    let answer = call(&client, &format!("PUT {MAPS}/m"), map("m", &json!({}))).await;
    assert_eq!(refusal(answer), (404, "NotFound".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn every_call_and_every_change_is_in_the_log() {
    let server = server();
    let client = admin(&server);
    let known = server.log().len();
    call(&client, &format!("POST {MAPS}"), map("a", &json!({}))).await;
    get(&client, &format!("{MAPS}/b")).await;
    let log = server.log_since(known);
    let [change, post, read] = log.as_slice() else {
        panic!("{log:?}");
    };
    let What::Change(change) = &change.what else {
        panic!("{change:?}");
    };
    assert_eq!(
        (change.kind, change.by.as_str()),
        (ChangeKind::Added, "admin")
    );
    let What::Call(post) = &post.what else {
        panic!("{post:?}");
    };
    assert_eq!((post.point.name.as_str(), post.code), ("a", Some(201)));
    assert_eq!(post.answer, change.after);
    let What::Call(read) = &read.what else {
        panic!("{read:?}");
    };
    assert_eq!((read.code, read.carried_out), (Some(404), true));
}

#[tokio::test(start_paused = true)]
async fn events_of_both_groups_are_the_same_objects() {
    let server = server();
    let client = admin(&server);
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let old = "/api/v1/namespaces/default/events";
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "told",
        "regarding": {"kind": "Pod", "name": "p"}, "reason": "Tested", "type": "Normal",
    });
    call(&client, &format!("POST {new}"), event).await;
    let (_, list) = get(
        &client,
        &format!("{old}?fieldSelector=involvedObject.name%3Dp"),
    )
    .await;
    let shown = &list["items"][0];
    assert_eq!(
        (&list["apiVersion"], &shown["message"]),
        (&"v1".into(), &"told".into())
    );
    let older = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "f"}, "message": "also told",
        "involvedObject": {"kind": "Pod", "name": "p"},
    });
    let (code, made) = call(&client, &format!("POST {old}"), older).await;
    assert_eq!((code, &made["message"]), (201, &"also told".into()));
    assert_eq!(
        get(&client, &format!("{new}/f")).await.1["note"],
        "also told"
    );
    assert_eq!(server.list("events").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_jumps_and_the_other_does_not() {
    let server = server();
    server.jump(jiff::SignedDuration::from_hours(-1));
    let made = server.create(map("a", &json!({})));
    assert_eq!(
        made["metadata"]["creationTimestamp"],
        "2025-12-31T23:00:00Z"
    );
    let last = server.log().pop().unwrap();
    assert_eq!(last.at, std::time::Duration::ZERO);
    assert_eq!(last.wall, server.now());
}

#[tokio::test(start_paused = true)]
async fn of_two_writers_at_once_one_meets_a_conflict() {
    let server = server();
    let client = admin(&server);
    let mut object = server.create(access_request("a"));
    let first = object.clone();
    object["spec"]["permission"] = "proxy".into();
    let put = format!("PUT {REQUESTS}/a");
    let mut other = first;
    other["spec"]["permission"] = "other".into();
    let both = futures::join!(call(&client, &put, object), call(&client, &put, other));
    assert_eq!((both.0.0, both.1.0), (200, 409));
}
