//! The deletions by the cluster's own controllers.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::ApiServer;
use tokio::time::sleep;

use crate::support::{MAPS, admin, call, map, refusal, server};

fn owned(name: &str, owner: &Value) -> Value {
    let mut object = map(name, &json!({}));
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    object
}

fn names(server: &ApiServer) -> Vec<String> {
    let all = server.list("configmaps");
    all.iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_goes_a_second_after_its_owner() {
    let server = server();
    let owner = server.create(map("owner", &json!({})));
    let child = server.create(owned("child", &owner));
    server.create(owned("grandchild", &child));
    server.delete("configmaps", "default", "owner");
    sleep(Duration::from_millis(999)).await;
    assert_eq!(names(&server), ["child", "grandchild"]);
    sleep(Duration::from_secs(3)).await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_counts_as_gone() {
    let server = server();
    let mut bogus = json!({"metadata": {"name": "owner", "uid": "no"}});
    server.create(owned("a", &bogus));
    bogus["metadata"] = server.create(map("owner", &json!({})))["metadata"].clone();
    server.create(owned("b", &bogus));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&server), ["b", "owner"]);
}

#[tokio::test(start_paused = true)]
async fn one_owner_that_is_left_keeps_an_object() {
    let server = server();
    let first = server.create(map("first", &json!({})));
    let second = server.create(map("second", &json!({})));
    let mut child = owned("child", &first);
    let other = owned("", &second)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(other);
    server.create(child);
    server.delete("configmaps", "default", "first");
    sleep(Duration::from_secs(5)).await;
    let child = server.get("configmaps", "default", "child").unwrap();
    assert_eq!(
        child["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn propagation_decides_who_goes_first() {
    let server = server();
    let client = admin(&server);
    let owner = server.create(map("owner", &json!({})));
    server.create(owned("child", &owner));
    let delete = format!("DELETE {MAPS}/owner");
    let (_, marked) = call(&client, &delete, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    sleep(Duration::from_secs(5)).await;
    assert!(names(&server).is_empty());
    let owner = server.create(map("owner", &json!({})));
    server.create(owned("child", &owner));
    call(&client, &delete, json!({"propagationPolicy": "Orphan"})).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(names(&server), ["child"]);
    let child = server.get("configmaps", "default", "child").unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn without_a_collector_nothing_goes_by_itself() {
    let server = server();
    server.collect_garbage(None);
    let owner = server.create(map("owner", &json!({})));
    server.create(owned("child", &owner));
    server.delete("configmaps", "default", "owner");
    sleep(Duration::from_hours(1)).await;
    assert_eq!(names(&server), ["child"]);
    server.collect_garbage(Some(Duration::from_secs(5)));
    sleep(Duration::from_secs(6)).await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_what_is_in_it_and_takes_nothing_new() {
    let server = server();
    let client = admin(&server);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    server.create(namespace);
    let inside = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": name},
        })
    };
    server.create(inside("a"));
    let (_, going) = call(&client, "DELETE /api/v1/namespaces/n", Value::Null).await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let answer = call(&client, "POST /api/v1/namespaces/n/configmaps", inside("b")).await;
    assert_eq!(refusal(answer), (403, "Forbidden".to_owned()));
    sleep(Duration::from_secs(5)).await;
    assert!(server.get("namespaces", "", "n").is_none());
    assert!(server.list("configmaps").is_empty());
}
