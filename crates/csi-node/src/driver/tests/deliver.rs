//! The files of a volume: what is delivered with the first mount, and what is renewed while the pod runs.

use connectors_api::ConnectorClass;
use serde_json::json;

use super::*;
use crate::{testing::PROXY, tool_cache};

/// A class whose configuration writes the address and the token.
pub(super) fn class(text: &str) -> Lookup<ConnectorClass> {
    let class = json!({
        "metadata": {"name": "oci"},
        "spec": {"configurations": [{"name": "docker", "data": {"config": text}}]},
    });
    Lookup::Found(Box::new(serde_json::from_value(class).unwrap()))
}

/// The usual call, for files, with a token for the proxy.
pub(super) fn request_with(token: &str) -> NodePublishVolumeRequest {
    let mut request = request();
    let tokens = json!({
        crate::volume::AUDIENCE: {"token": "the-token"}, PROXY: {"token": token},
    });
    let key = "csi.storage.k8s.io/serviceAccount.tokens".to_owned();
    request.secrets.insert(key, tokens.to_string());
    let names = ("configuration.names".to_owned(), "docker".to_owned());
    request.volume_context.extend([names]);
    request
}

pub(super) fn file(world: &World, name: &str) -> Option<String> {
    world.mounter.node().files.get(name).map(str::to_owned)
}

/// A volume with files, of a pod with access.
pub(super) async fn delivered() -> World {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().class = class("{{ .connector.spec.address }} {{ .context.token }}");
    call(&world, request_with("t1")).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn a_first_mount_delivers_the_files_of_the_class_and_the_token() {
    let world = delivered().await;
    assert_eq!(file(&world, "config").as_deref(), Some("https://harbor t1"));
    assert_eq!(file(&world, "context.token").as_deref(), Some("t1"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_a_wish_for_files_reads_no_class_and_has_the_token_if_there_is_one() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    assert!(world.mounter.node().files.is_empty());
    assert!(
        !world
            .kubernetes
            .cluster()
            .calls
            .contains(&"get class".to_owned())
    );
}

/// A misspelt name and a class that cannot be rendered are told before the pod starts.
#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_made_refuse_the_mount_and_say_why() {
    for (found, told) in [
        (class("{{ .context.token | frobnicate }}"), "config:1:"),
        (
            class("{{ .connector.spec.user }}"),
            "prints a value that is missing",
        ),
        (Lookup::Absent, "they have none"),
    ] {
        let world = World::new();
        world.evaluator.says("tools/harbor", Some(granted()));
        world.kubernetes.cluster().class = found;
        let error = call(&world, request_with("t1")).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.text().contains(told), "{error}");
        assert!(!mounted(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_token_is_delivered_with_the_next_call_and_the_same_one_is_not_written() {
    let world = delivered().await;
    for (token, renewed) in [("t1", 0), ("t2", 1), ("t2", 1), ("t3", 2)] {
        call(&world, request_with(token)).await.unwrap();
        assert_eq!(world.mounter.node().renewed, renewed, "{token}");
        assert_eq!(file(&world, "context.token").as_deref(), Some(token));
        assert_eq!(world.mounter.node().facts[0].request, "the-request");
    }
}

/// How often the life of a delivered token was measured, and the sum of the seconds.
fn measured(world: &World) -> (u64, f64) {
    let families = world.registry.gather();
    let name = "connectors_mount_token_remaining_seconds";
    let family = families.iter().find(|it| it.name() == name).unwrap();
    let histogram = family.get_metric()[0].get_histogram();
    (histogram.get_sample_count(), histogram.get_sample_sum())
}

/// The usual call for files, whose token for the proxy has this end.
fn request_ending(end: &serde_json::Value) -> NodePublishVolumeRequest {
    let mut request = request_with("t1");
    let tokens = json!({
        crate::volume::AUDIENCE: {"token": "the-token"},
        PROXY: {"token": "t1", "expirationTimestamp": end},
    });
    let key = "csi.storage.k8s.io/serviceAccount.tokens".to_owned();
    request.secrets.insert(key, tokens.to_string());
    request
}

#[tokio::test(start_paused = true)]
async fn the_remaining_life_of_a_token_is_measured_at_the_mount_and_at_each_later_call() {
    let world = delivered().await;
    assert_eq!(
        measured(&world).0,
        0,
        "the kubelet did not say when it ends"
    );
    for end in [json!(null), json!(""), json!("soon"), json!(7)] {
        call(&world, request_ending(&end)).await.unwrap();
        assert_eq!(file(&world, "context.token").as_deref(), Some("t1"));
        assert_eq!(measured(&world).0, 0, "{end}");
    }
    let over = json!("2020-01-01T00:00:00Z");
    call(&world, request_ending(&over)).await.unwrap();
    assert_eq!(measured(&world), (1, 0.0));
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().class = class("{{ .context.token }}");
    let in_an_hour = service_kit::clock::now() + std::time::Duration::from_hours(1);
    let end = json!(in_an_hour.to_string());
    for calls in 1..3 {
        call(&world, request_ending(&end)).await.unwrap();
        let (count, sum) = measured(&world);
        assert_eq!(count, calls);
        let mean = sum / f64::from(u32::try_from(calls).unwrap());
        assert!((3000.0..=3600.0).contains(&mean), "{mean}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connector_or_class_that_changed_is_delivered_by_a_call_ten_seconds_later() {
    let world = delivered().await;
    let change = |address: &str, text: &str| {
        let mut cluster = world.kubernetes.cluster();
        let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
        connector.spec.address = Some(address.to_owned());
        cluster.class = class(text);
    };
    change("https://new", "{{ .connector.spec.address }}!");
    call(&world, request_with("t1")).await.unwrap();
    assert_eq!(world.mounter.node().renewed, 0, "read a moment ago");
    sleep(tool_cache::AGE).await;
    call(&world, request_with("t1")).await.unwrap();
    assert_eq!(file(&world, "config").as_deref(), Some("https://new!"));
    assert_eq!(world.mounter.node().facts[0].address, "https://new");
}

/// A first mount delivers what was read during that call, whatever was read before it.
#[tokio::test(start_paused = true)]
async fn a_first_mount_uses_nothing_that_was_read_before() {
    let world = delivered().await;
    world.mounter.node().found.clear();
    world.kubernetes.cluster().class = class("newer");
    call(&world, request_with("t1")).await.unwrap();
    assert_eq!(file(&world, "config").as_deref(), Some("newer"));
}

/// A running pod keeps what it has, and is told once why. What passes by itself is not told.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_renewed_stays_as_it_is_and_is_told_once() {
    type Change = fn(&World);
    let changes: [(&str, Change); 5] = [
        ("unreachable", |it| {
            it.kubernetes.cluster().reachable = false;
        }),
        ("no class", |it| {
            it.kubernetes.cluster().class = Lookup::Absent;
        }),
        ("no template", |it| {
            it.kubernetes.cluster().class = class("{{ x }}");
        }),
        ("no connector", |it| {
            it.kubernetes.cluster().connectors.clear();
        }),
        ("no address", |it| {
            let mut cluster = it.kubernetes.cluster();
            let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
            connector.spec.address = None;
        }),
    ];
    for (what, change) in changes {
        let world = delivered().await;
        let (connectors, class) = {
            let cluster = world.kubernetes.cluster();
            (cluster.connectors.clone(), cluster.class.clone())
        };
        change(&world);
        sleep(tool_cache::AGE).await;
        for _ in 0..3 {
            call(&world, request_with("t2")).await.unwrap();
            let kept = file(&world, "config");
            assert_eq!(kept.as_deref(), Some("https://harbor t1"), "{what}");
            assert_eq!(world.mounter.node().renewed, 0, "{what}");
            assert_eq!(world.driver.metrics.outdated.get(), 1, "{what}");
        }
        let passes = what == "unreachable";
        let expected: &[_] = if passes {
            &[]
        } else {
            &[EventWord::VolumeOutdated]
        };
        assert_eq!(told(&world), expected, "{what}");
        let notes: Vec<_> = world.kubernetes.cluster().told.clone();
        assert!(notes.iter().all(|(_, note)| !note.contains("t2")), "{what}");

        {
            let mut cluster = world.kubernetes.cluster();
            (cluster.connectors, cluster.class) = (connectors, class);
            cluster.reachable = true;
        }
        sleep(tool_cache::AGE).await;
        call(&world, request_with("t2")).await.unwrap();
        let newer = file(&world, "config");
        assert_eq!(newer.as_deref(), Some("https://harbor t2"), "{what}");
        assert_eq!(world.driver.metrics.outdated.get(), 0, "{what}");
    }
}

/// A volume whose class is gone, after a call that could not renew it.
async fn outdated() -> World {
    let world = delivered().await;
    world.kubernetes.cluster().class = Lookup::Absent;
    sleep(tool_cache::AGE).await;
    call(&world, request_with("t2")).await.unwrap();
    assert_eq!(world.driver.metrics.outdated.get(), 1);
    world
}

/// A volume is not outdated any more when it is emptied or removed.
#[tokio::test(start_paused = true)]
async fn a_volume_without_content_is_not_outdated() {
    type End = fn(&World);
    let ends: [(&str, End); 2] = [
        ("emptied", |it| {
            it.evaluator.says("tools/harbor", Some(no_request()));
            it.kubernetes.cluster().pod_form = false;
        }),
        ("switched off", |it| {
            it.kubernetes.cluster().class = class("newer");
            it.switch.send_replace(OFF);
        }),
    ];
    for (what, end) in ends {
        let world = outdated().await;
        end(&world);
        sleep(tool_cache::AGE).await;
        call(&world, request_with("t2")).await.unwrap();
        assert_eq!(world.driver.metrics.outdated.get(), 0, "{what}");
    }
    let world = outdated().await;
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    assert_eq!(world.driver.metrics.outdated.get(), 0);
}

/// Volumes that are looked after at about the same time read an object once for all of them.
#[tokio::test(start_paused = true)]
async fn many_volumes_read_a_connector_and_its_class_once_in_ten_seconds() {
    let world = delivered().await;
    sleep(tool_cache::AGE).await;
    world.kubernetes.cluster().calls.clear();
    for number in 0..20 {
        call(&world, request_with(&format!("t{number}")))
            .await
            .unwrap();
    }
    let mut calls = world.kubernetes.cluster().calls.clone();
    calls.retain(|call| call.starts_with("get"));
    assert_eq!(calls, ["get connector", "get class"]);
}

#[tokio::test(start_paused = true)]
async fn access_that_ended_and_came_back_brings_newer_files() {
    let world = delivered().await;
    world.evaluator.says("tools/harbor", Some(no_request()));
    world.kubernetes.cluster().pod_form = false;
    call(&world, request_with("t2")).await.unwrap();
    assert!(!mounted(&world));
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().pod_form = true;
    call(&world, request_with("t2")).await.unwrap();
    assert_eq!(file(&world, "config").as_deref(), Some("https://harbor t2"));
}

/// The settings of the installation may change under a running pod. What it asked for then is refused to new pods, and
/// keeps no volume from being emptied.
#[tokio::test(start_paused = true)]
async fn a_wish_for_files_that_is_none_any_more_keeps_no_volume_from_being_emptied() {
    for (key, value) in [
        ("token.expiration", "24h"),
        ("configuration.names", "no name"),
        ("configuration.params", "no JSON"),
    ] {
        let mut odd = request_with("t2");
        let attribute = [(key.to_owned(), value.to_owned())];
        odd.volume_context.extend(attribute);
        let world = World::new();
        world.evaluator.says("tools/harbor", Some(granted()));
        let error = call(&world, odd.clone()).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");

        let world = delivered().await;
        call(&world, odd.clone()).await.unwrap();
        assert_eq!(file(&world, "context.token").as_deref(), Some("t1"));
        world.evaluator.says("tools/harbor", Some(no_request()));
        world.kubernetes.cluster().pod_form = false;
        call(&world, odd).await.unwrap();
        assert!(!mounted(&world), "{key}");
    }
}

/// Otherwise what was allowed minutes ago would be delivered, and the volume be locked meanwhile.
#[tokio::test(start_paused = true)]
async fn a_volume_waits_two_seconds_for_those_whose_files_are_being_made() {
    let world = delivered().await;
    let renders = Arc::clone(&world.driver.renders);
    let busy = renders.acquire_many(2).await.unwrap();
    let began = Instant::now();
    call(&world, request_with("t2")).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(world.mounter.node().renewed, 0);
    world.mounter.node().found.clear();
    let error = call(&world, request_with("t2")).await.unwrap_err();
    assert_eq!(error, PublishError::RendersBusy);
    // A volume without files of a class does not wait.
    publish(&world).await.unwrap();
    drop(busy);
}
