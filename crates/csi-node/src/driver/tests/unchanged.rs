//! A volume whose content is made from the same as before is left alone.

use serde_json::json;

use super::{
    deliver::{class, delivered, file, request_with},
    *,
};
use crate::tool_cache;

/// How often a volume was compared with what it should hold, and written.
fn work(world: &World) -> (usize, usize) {
    let node = world.mounter.node();
    (node.compared, node.renewed)
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_set_is_neither_made_nor_compared_nor_written() {
    let world = delivered().await;
    // Nothing could be made.
    let renders = Arc::clone(&world.driver.renders);
    let busy = renders.acquire_many(2).await.unwrap();
    for _ in 0..20 {
        let before = Instant::now();
        call(&world, request_with("t1")).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        sleep(Duration::from_mins(1)).await;
    }
    assert_eq!(work(&world), (0, 0));
    drop(busy);
    for _ in 0..20 {
        call(&world, request_with("t2")).await.unwrap();
    }
    assert_eq!(work(&world), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn each_thing_that_a_set_is_made_from_makes_another_one() {
    type Change = fn(&World, &mut NodePublishVolumeRequest);
    let changes: [(&str, Change); 6] = [
        ("token", |_, request| *request = request_with("t2")),
        ("address", |world, _| {
            let mut cluster = world.kubernetes.cluster();
            let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
            connector.spec.address = Some("https://new".to_owned());
        }),
        ("class", |world, _| {
            world.kubernetes.cluster().class = class("newer");
        }),
        ("certificates", |world, _| {
            let status = json!({"proxy": {"httpAddress": {
                "url": "http://proxy:80", "CACerts": "-----BEGIN CERTIFICATE-----",
            }}});
            let mut cluster = world.kubernetes.cluster();
            let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
            connector.status = serde_json::from_value(status).unwrap();
        }),
        ("labels", |world, _| {
            let mut cluster = world.kubernetes.cluster();
            let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
            connector.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        }),
        ("attributes", |_, request| {
            let names = "docker,!context.token".to_owned();
            let attribute = ("configuration.names".to_owned(), names);
            request.volume_context.extend([attribute]);
        }),
    ];
    for (what, change) in changes {
        let world = delivered().await;
        let mut request = request_with("t1");
        call(&world, request.clone()).await.unwrap();
        assert_eq!(work(&world), (0, 0), "{what}");
        change(&world, &mut request);
        sleep(tool_cache::AGE).await;
        for _ in 0..2 {
            call(&world, request.clone()).await.unwrap();
            assert_eq!(work(&world).0, 1, "{what}");
        }
    }
}

/// A write that broke off leaves a content that is not known.
#[tokio::test(start_paused = true)]
async fn a_set_that_broke_off_is_written_again_also_when_it_is_the_one_from_before() {
    let world = delivered().await;
    world.mounter.node().refresh_fails = true;
    call(&world, request_with("t2")).await.unwrap();
    assert_eq!(file(&world, "context.token"), None);
    call(&world, request_with("t1")).await.unwrap();
    assert_eq!(file(&world, "context.token").as_deref(), Some("t1"));
}

#[tokio::test(start_paused = true)]
async fn another_process_compares_once() {
    let world = delivered().await;
    let next = world.restarted();
    next.switch.send_replace(ON);
    next.evaluator.says("tools/harbor", Some(granted()));
    next.kubernetes.cluster().class = class("{{ .connector.spec.address }} {{ .context.token }}");
    for _ in 0..3 {
        call(&next, request_with("t1")).await.unwrap();
        assert_eq!(work(&next), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_comes_back_is_written_whatever_it_was_made_from_before() {
    let world = delivered().await;
    world.evaluator.says("tools/harbor", Some(no_request()));
    call(&world, request_with("t1")).await.unwrap();
    assert!(!mounted(&world));
    world.evaluator.says("tools/harbor", Some(granted()));
    call(&world, request_with("t1")).await.unwrap();
    assert!(mounted(&world));
    assert_eq!(world.mounter.node().refilled, 1);
    call(&world, request_with("t1")).await.unwrap();
    assert_eq!(work(&world), (0, 0));
}
