//! A server that lags behind.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::watcher::{Config, watcher},
};
use serde_json::json;
use testkit::{Caller, Lag};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{MAPS, get, map, server};

const LAG: Lag = Lag {
    versions: 2,
    at_most: Duration::from_secs(30),
};

#[tokio::test(start_paused = true)]
async fn a_read_of_any_version_is_behind_and_a_read_of_the_newest_is_not() {
    let server = server();
    let client = server.client(&Caller::admin());
    server.set_watch_lag("admin", Some(LAG));
    sleep(LAG.at_most).await;
    for name in ["a", "b", "c"] {
        server.create(map(name, &json!({})));
    }
    let count = async |query: &str| {
        let (_, list) = get(&client, &format!("{MAPS}{query}")).await;
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(count("?resourceVersion=0").await, 1);
    assert_eq!(count("").await, 3);
    assert_eq!(
        get(&client, &format!("{MAPS}/c?resourceVersion=0")).await.0,
        404
    );
    assert_eq!(get(&client, &format!("{MAPS}/c")).await.0, 200);
    sleep(LAG.at_most).await;
    assert_eq!(count("?resourceVersion=0").await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_behind_hears_of_a_change_later() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(server.client(&Caller::admin()), "default");
    let mut events = Box::pin(watcher(api, Config::default()));
    for _ in ["init", "done"] {
        events.next().await.unwrap().unwrap();
    }
    server.set_watch_lag("admin", Some(LAG));
    server.create(map("a", &json!({})));
    server.create(map("b", &json!({})));
    assert!(
        timeout(Duration::from_secs(1), events.next())
            .await
            .is_err()
    );
    let begun = Instant::now();
    server.create(map("c", &json!({})));
    events.next().await.unwrap().unwrap();
    assert_eq!(
        begun.elapsed(),
        Duration::ZERO,
        "two newer versions are there"
    );
    events.next().await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(29));
}
