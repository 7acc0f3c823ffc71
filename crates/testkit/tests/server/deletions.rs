//! Deleting.

use serde_json::{Value, json};

use crate::support::{
    MAPS, REQUESTS, access_request, admin, call, get, map, merge, refusal, server,
};

#[tokio::test(start_paused = true)]
async fn a_deletion_says_what_it_deleted() {
    let server = server();
    let client = admin(&server);
    let made = server.create(map("a", &json!({})));
    let delete = format!("DELETE {MAPS}/a");
    let (code, answer) = call(&client, &delete, Value::Null).await;
    assert_eq!((code, &answer["status"]), (200, &Value::from("Success")));
    assert_eq!(answer["details"]["uid"], made["metadata"]["uid"]);
    let again = call(&client, &delete, Value::Null).await;
    assert_eq!(refusal(again), (404, "NotFound".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn preconditions_that_do_not_hold_keep_the_object() {
    let server = server();
    let client = admin(&server);
    let made = server.create(map("a", &json!({})));
    for field in ["uid", "resourceVersion"] {
        let body = json!({"preconditions": {field: "another"}});
        let answer = call(&client, &format!("DELETE {MAPS}/a"), body).await;
        assert_eq!(refusal(answer), (409, "Conflict".to_owned()), "{field}");
    }
    let metadata = &made["metadata"];
    let both = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let body = json!({"preconditions": both});
    assert_eq!(
        call(&client, &format!("DELETE {MAPS}/a"), body).await.0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_an_object_until_the_last_is_taken_away() {
    let server = server();
    let client = admin(&server);
    let mut object = access_request("a");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    server.create(object);
    let delete = format!("DELETE {REQUESTS}/a");
    let (code, marked) = call(&client, &delete, Value::Null).await;
    assert_eq!(
        (code, &marked["kind"]),
        (200, &Value::from("AccessRequest"))
    );
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(marked["metadata"]["generation"], 2);
    let (_, again) = call(&client, &delete, Value::Null).await;
    assert_eq!(again, marked, "a second deletion changes nothing");
    let path = format!("{REQUESTS}/a");
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    let answer = merge(&client, &path, more).await;
    assert_eq!(refusal(answer), (422, "Invalid".to_owned()));
    let (code, _) = merge(&client, &path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200);
    assert_eq!(get(&client, &path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_takes_the_grace_that_it_asked_for() {
    let server = server();
    let client = admin(&server);
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
            "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"},
        })
    };
    server.create(pod("a"));
    let path = "DELETE /api/v1/namespaces/default/pods/a";
    let (_, marked) = call(&client, path, Value::Null).await;
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    assert!(server.get("pods", "default", "a").is_some());
    call(&client, path, json!({"gracePeriodSeconds": 0})).await;
    assert!(server.get("pods", "default", "a").is_none());
    server.create(pod("b"));
    server.delete("pods", "default", "b");
    assert!(
        server.get("pods", "default", "b").is_none(),
        "the cluster's hand does not wait"
    );
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_as_it_is_selected() {
    let server = server();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let mut object = map(name, &json!({}));
        object["metadata"]["labels"] = json!({"l": label});
        server.create(object);
    }
    let path = format!("DELETE {MAPS}?labelSelector=l%3D1");
    assert_eq!(call(&admin(&server), &path, Value::Null).await.0, 200);
    assert_eq!(server.list("configmaps").len(), 1);
}
