//! Lists: selections, pages, versions.

use serde_json::{Value, json};

use crate::support::{MAPS, REQUESTS, access_request, admin, get, map, refusal, server};

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_selected_objects_in_order() {
    let server = server();
    let client = admin(&server);
    for (name, label) in [("c", "1"), ("a", "2"), ("b", "1")] {
        let mut object = map(name, &json!({}));
        object["metadata"]["labels"] = json!({"l": label});
        server.create(object);
    }
    let (_, list) = get(&client, MAPS).await;
    assert_eq!(
        (&list["kind"], names(&list)),
        (&Value::from("ConfigMapList"), vec!["a", "b", "c"])
    );
    assert_eq!(
        list["metadata"]["resourceVersion"],
        server.version().to_string()
    );
    let (_, list) = get(&client, &format!("{MAPS}?labelSelector=l%20in%20(1)")).await;
    assert_eq!(names(&list), ["b", "c"]);
    let (_, list) = get(&client, &format!("{MAPS}?fieldSelector=metadata.name!%3Db")).await;
    assert_eq!(names(&list), ["a", "c"]);
    let (_, list) = get(&client, "/api/v1/configmaps").await;
    assert_eq!(names(&list).len(), 3);
    for bad in ["fieldSelector=data.x%3D1", "labelSelector=a%20b%20c"] {
        let answer = get(&client, &format!("{MAPS}?{bad}")).await;
        assert_eq!(refusal(answer), (400, "BadRequest".to_owned()), "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_selected_by_node_and_phase() {
    let server = server();
    let client = admin(&server);
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        server.create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
            "spec": {"nodeName": node},
        }));
    }
    let path = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2,status.phase%3DPending";
    assert_eq!(names(&get(&client, path).await.1), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_show_one_version() {
    let server = server();
    let client = admin(&server);
    for name in ["a", "b", "c"] {
        server.create(map(name, &json!({})));
    }
    let (_, first) = get(&client, &format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    server.delete("configmaps", "default", "c");
    let next = format!("{MAPS}?limit=2&continue={token}");
    let (_, second) = get(&client, &next).await;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert_eq!(second["metadata"]["continue"], Value::Null);
    server.compact();
    let expired = get(&client, &next).await;
    let anew = expired.1["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(refusal(expired), (410, "Expired".to_owned()));
    let (_, rest) = get(&client, &format!("{MAPS}?continue={anew}")).await;
    assert!(names(&rest).is_empty(), "the rest as it is now");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_a_limit_has_as_many_pages_as_the_server_makes_of_it() {
    let server = server();
    let client = admin(&server);
    for name in ["a", "b", "c"] {
        server.create(map(name, &json!({})));
    }
    server.page_at_most(1);
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in 0..3 {
        let path = format!("{MAPS}?limit=500&continue={token}");
        let (_, page) = get(&client, &path).await;
        found.extend(names(&page).into_iter().map(str::to_owned));
        let next = page["metadata"]["continue"].as_str().unwrap_or_default();
        token = next.to_owned();
    }
    assert_eq!(
        (found, token.as_str()),
        (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], "")
    );
    let (_, whole) = get(&client, MAPS).await;
    assert_eq!(names(&whole), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_the_version_that_it_is_asked_for() {
    let server = server();
    let client = admin(&server);
    server.create(access_request("a"));
    let then = server.version();
    server.create(access_request("b"));
    let exact = format!("{REQUESTS}?resourceVersion={then}&resourceVersionMatch=Exact");
    assert_eq!(names(&get(&client, &exact).await.1), ["a"]);
    let newer = format!("{REQUESTS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&get(&client, &newer).await.1), ["a", "b"]);
    server.compact();
    let answer = get(&client, &exact).await;
    assert_eq!(refusal(answer), (410, "Expired".to_owned()));
    let future = format!("{REQUESTS}?resourceVersion=9999&resourceVersionMatch=NotOlderThan");
    assert_eq!(
        refusal(get(&client, &future).await),
        (504, "Timeout".to_owned())
    );
    let alone = format!("{REQUESTS}?resourceVersionMatch=Exact");
    assert_eq!(
        refusal(get(&client, &alone).await),
        (422, "Invalid".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn only_items_of_custom_kinds_say_what_they_are() {
    let server = server();
    let client = admin(&server);
    server.create(access_request("a"));
    server.create(map("a", &json!({})));
    assert_eq!(
        get(&client, REQUESTS).await.1["items"][0]["kind"],
        "AccessRequest"
    );
    assert_eq!(get(&client, MAPS).await.1["items"][0]["kind"], Value::Null);
}
