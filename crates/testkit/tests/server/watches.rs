//! Watches: the lines that they send, and the recovery of kube's watcher from every fault.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::watcher::{Config, Error, Event, watcher},
};
use serde_json::json;
use testkit::{ApiServer, CallFault, CallPoint, Caller, EventFault, EventKind, EventPoint, Faults};
use tokio::time::{Instant, timeout};

use crate::support::{admin, map, server};

/// Applies the fault to the first event of that kind about that object.
struct Once(Mutex<Option<(EventKind, &'static str, EventFault)>>);

impl Faults for Once {
    fn on_call(&self, _: &CallPoint) -> CallFault {
        CallFault::None
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        let mut left = self.0.lock().unwrap();
        match left.take_if(|(kind, name, _)| point.kind == *kind && point.name == *name) {
            Some((_, _, fault)) => fault,
            None => EventFault::None,
        }
    }
}

fn break_once(server: &ApiServer, kind: EventKind, name: &'static str, fault: EventFault) {
    server.set_faults(Arc::new(Once(Mutex::new(Some((kind, name, fault))))));
}

fn maps(server: &ApiServer) -> impl Stream<Item = Result<Event<ConfigMap>, Error>> + Unpin {
    let api: Api<ConfigMap> = Api::namespaced(admin(server), "default");
    Box::pin(watcher(api, Config::default()))
}

/// The next event other than an error, as a short text.
async fn next(
    events: &mut (impl Stream<Item = Result<Event<ConfigMap>, Error>> + Unpin),
) -> String {
    let within = Duration::from_mins(10);
    let name = |it: &ConfigMap| it.metadata.name.clone().unwrap();
    loop {
        match timeout(within, events.next()).await.unwrap().unwrap() {
            Ok(Event::Init) => return "init".to_owned(),
            Ok(Event::InitApply(it)) => return format!("init {}", name(&it)),
            Ok(Event::InitDone) => return "done".to_owned(),
            Ok(Event::Apply(it)) => return format!("apply {}", name(&it)),
            Ok(Event::Delete(it)) => return format!("delete {}", name(&it)),
            Err(_) => {}
        }
    }
}

async fn expect(
    events: &mut (impl Stream<Item = Result<Event<ConfigMap>, Error>> + Unpin),
    expected: &[&str],
) {
    for expected in expected {
        assert_eq!(next(events).await, *expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_the_list_and_then_every_change() {
    let server = server();
    server.create(map("a", &json!({})));
    let mut events = maps(&server);
    expect(&mut events, &["init", "init a", "done"]).await;
    server.create(map("b", &json!({})));
    server.change("configmaps", "default", "a", |it| {
        it["data"]["x"] = "1".into();
    });
    server.delete("configmaps", "default", "b");
    expect(&mut events, &["apply b", "apply a", "delete b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_lists_again_after_gone() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Gone);
    server.create(map("a", &json!({})));
    expect(&mut events, &["init", "init a", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_goes_on_where_it_was_after_a_close() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Close);
    server.create(map("a", &json!({})));
    expect(&mut events, &["apply a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_leaves_a_silent_stream_by_its_own_timeout() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Silence);
    server.create(map("a", &json!({})));
    let begun = Instant::now();
    expect(&mut events, &["apply a"]).await;
    assert!(
        begun.elapsed() >= Duration::from_mins(4),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_dropped_comes_with_the_list_after_the_next_line_of_its_own_stream() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Drop);
    server.create(map("a", &json!({})));
    assert!(
        timeout(Duration::from_secs(5), events.next())
            .await
            .is_err()
    );
    // Another watch of the same process lost no event.
    let mut others = maps(&server);
    expect(&mut others, &["init", "init a", "done"]).await;
    server.create(map("b", &json!({})));
    expect(&mut others, &["apply b"]).await;
    expect(&mut events, &["init", "init a", "init b", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_comes_twice_or_late_as_told() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Twice);
    server.create(map("a", &json!({})));
    expect(&mut events, &["apply a", "apply a"]).await;
    let late = Duration::from_secs(7);
    break_once(&server, EventKind::Added, "b", EventFault::Delay(late));
    server.create(map("b", &json!({})));
    server.create(map("c", &json!({})));
    let begun = Instant::now();
    expect(&mut events, &["apply b", "apply c"]).await;
    assert_eq!(begun.elapsed(), late);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_version_is_told_to_list_again() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::Close);
    server.create(map("a", &json!({})));
    server.delete("configmaps", "default", "a");
    server.create(map("b", &json!({})));
    server.compact();
    expect(&mut events, &["init", "init b", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_with_streaming_lists_sees_the_same() {
    let server = server();
    server.create(map("a", &json!({})));
    let api: Api<ConfigMap> = Api::namespaced(admin(&server), "default");
    let mut events = Box::pin(watcher(api, Config::default().streaming_lists()));
    expect(&mut events, &["init", "init a", "done"]).await;
    server.create(map("b", &json!({})));
    expect(&mut events, &["apply b"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_enters_a_selection_is_added_and_what_leaves_it_is_deleted() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(admin(&server), "default");
    let mut events = Box::pin(watcher(api, Config::default().labels("in=yes")));
    server.create(map("a", &json!({})));
    expect(&mut events, &["init", "done"]).await;
    let label = |value: &str| {
        server.change("configmaps", "default", "a", |it| {
            it["metadata"]["labels"]["in"] = value.into();
        });
    };
    label("yes");
    expect(&mut events, &["apply a"]).await;
    label("no");
    expect(&mut events, &["delete a"]).await;
    server.delete("configmaps", "default", "a");
    assert!(
        timeout(Duration::from_secs(5), events.next())
            .await
            .is_err()
    );
}

/// The lines of a raw watch, as type and name (of an error: its code), until it ends or the time has passed;
/// and whether it ended.
async fn lines(server: &ApiServer, query: &str, within: Duration) -> (Vec<(String, String)>, bool) {
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1&{query}");
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let response = admin(server).send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = http_body_util::BodyExt::into_data_stream(response.into_body());
    let mut body = body.map(Result::unwrap);
    let mut lines = Vec::new();
    loop {
        match timeout(within, body.next()).await {
            Err(_) => return (lines, false),
            Ok(None) => return (lines, true),
            Ok(Some(line)) => {
                let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
                let object = &line["object"];
                let name = &object["metadata"]["name"];
                let name = name
                    .as_str()
                    .map_or_else(|| object["code"].to_string(), ToOwned::to_owned);
                lines.push((line["type"].as_str().unwrap().to_owned(), name));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over_with_bookmarks_before() {
    let server = server();
    server.create(map("a", &json!({})));
    let query = "resourceVersion=0&timeoutSeconds=100&allowWatchBookmarks=true";
    let begun = Instant::now();
    let (lines, ended) = lines(&server, query, Duration::from_mins(5)).await;
    let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    let bookmark = pair("BOOKMARK", "null");
    assert_eq!(lines, [pair("ADDED", "a"), bookmark.clone(), bookmark]);
    assert!(ended);
    assert_eq!(begun.elapsed(), Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_answered_by_an_error_on_the_stream() {
    let server = server();
    server.create(map("a", &json!({})));
    server.compact();
    let (lines, ended) = lines(&server, "resourceVersion=1", Duration::from_secs(1)).await;
    assert_eq!(lines, [("ERROR".to_owned(), "410".to_owned())]);
    assert!(ended);
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_kind_end_with_it() {
    let server = server();
    let client = admin(&server);
    server.create(crate::support::access_request("a"));
    let path = format!("{}?watch=1&resourceVersion=0", crate::support::REQUESTS);
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let response = client.send(request).await.unwrap();
    let mut body = http_body_util::BodyExt::into_data_stream(response.into_body());
    assert!(body.next().await.is_some());
    server.unregister("accessrequests", "connectors.alauda.io");
    let deleted = body.next().await.unwrap().unwrap();
    assert!(deleted.starts_with(b"{\"type\":\"DELETED\""));
    assert!(body.next().await.is_none());
    let (code, _) = crate::support::get(&client, crate::support::REQUESTS).await;
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_killed_process_fall_silent() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(
        server.client(&Caller {
            process: "p".to_owned(),
            ..Caller::admin()
        }),
        "default",
    );
    let mut events = Box::pin(watcher(api, Config::default()));
    expect(&mut events, &["init", "done"]).await;
    server.kill("p");
    server.create(map("a", &json!({})));
    assert!(
        timeout(Duration::from_mins(20), events.next())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_can_be_killed_by_what_it_is_about_to_see() {
    let server = server();
    let mut events = maps(&server);
    expect(&mut events, &["init", "done"]).await;
    break_once(&server, EventKind::Added, "a", EventFault::KillBefore);
    server.create(map("a", &json!({})));
    let silence = Duration::from_mins(20);
    assert!(timeout(silence, events.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_initial_list_of_a_watch_can_be_lost() {
    let server = server();
    server.create(map("a", &json!({})));
    server.create(map("b", &json!({})));
    break_once(&server, EventKind::InitialList, "a", EventFault::Drop);
    let within = Duration::from_secs(1);
    let (lines, is_over) = lines(&server, "resourceVersion=0", within).await;
    assert_eq!(lines, [("ERROR".to_owned(), "410".to_owned())]);
    assert!(is_over);
}
