//! Calls that overlap, break off, fail in the middle, or remove what is there.

use std::{io, sync::Mutex};

use connectors_api::{Permission, config::OnEnable};
use futures::FutureExt;
use prometheus::proto::Metric;

use super::*;
use crate::hold_quota::HoldQuotaFull;

#[tokio::test(start_paused = true)]
async fn a_second_call_for_a_volume_in_flight_is_turned_away() {
    let world = World::new();
    let first = held(&world).await;
    for _ in 0..16 {
        assert_eq!(publish(&world).await, Err(PublishError::InFlight));
    }
    let unpublish = world.driver.unpublish(&unpublish_request()).await;
    assert_eq!(Status::from(unpublish.unwrap_err()).code(), Code::Aborted);
    world.evaluator.says("tools/harbor", Some(granted()));
    first.await.unwrap().unwrap();
    publish(&world).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_hangs_up_frees_the_volume() {
    let world = World::new();
    for _ in 0..4 {
        let call = held(&world).await;
        call.abort();
        let _ = call.await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(world.evaluator.followers("tools/harbor"), 0);
    }
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
}

#[tokio::test]
async fn a_volume_is_locked_until_its_mount_is_done_whoever_hangs_up() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    let (go, waits) = std::sync::mpsc::channel();
    world.mounter.node().publish_waits = Some(waits);
    let driver = Arc::clone(&world.driver);
    let call = tokio::spawn(async move { driver.publish(request(), None).await });
    let is_mounting = || world.mounter.node().found.get(&place("tool")) == Some(&OnDisk::Partial);
    while !is_mounting() {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // Nobody waits for it any more, and it goes on.
    assert_eq!(publish(&world).await, Err(PublishError::InFlight));
    let unpublish = world.driver.unpublish(&unpublish_request()).await;
    assert_eq!(Status::from(unpublish.unwrap_err()).code(), Code::Aborted);
    go.send(()).unwrap();
    let ends = async {
        while world.driver.unpublish(&unpublish_request()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ends)
        .await
        .unwrap();
    assert_eq!(world.mounter.node().found.get(&place("tool")), None);
}

/// The kubelet hangs up while the file system works, and does not come back: its pod's folder is gone by then.
#[tokio::test]
async fn a_removal_that_nobody_waits_for_takes_everything_of_the_volume_with_it() {
    let world = World::new();
    let connector = key("tools/harbor");
    world.evaluator.says("tools/harbor", Some(granted()));
    for waits_for_nothing in [false, true] {
        publish(&world).await.unwrap();
        let driver = Arc::clone(&world.driver);
        driver.kept.is_news(&place("tool"), OnEnable::Keep);
        driver
            .asked
            .count("uid-1", &connector, Permission::Apis)
            .unwrap();
        let request = unpublish_request();
        let mut call = Box::pin(driver.unpublish(&request));
        {
            // The file system is busy for as long as this is there.
            let _busy = world.mounter.node();
            let first = call.as_mut().now_or_never();
            assert!(first.is_none());
        }
        if waits_for_nothing {
            drop(call);
        } else {
            call.await.unwrap();
        }
        let ends = async {
            while driver.locks.census() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ends)
            .await
            .unwrap();
        assert_eq!(world.mounter.node().found.get(&place("tool")), None);
        assert_eq!((driver.kept.census(), driver.asked.census()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_held_than_there_is_room_for() {
    let world = World::with_room_for(1);
    let first = held(&world).await;
    let other = crate::testing::request_at(&place("other"));
    let result = world.driver.publish(other.clone(), None).await;
    assert_eq!(result, Err(PublishError::Crowded(HoldQuotaFull::Node(1))));
    assert_eq!(calls(&world, "create"), 1, "it costs nobody a request");
    // What needs no waiting needs no room.
    world.evaluator.says("tools/harbor", Some(granted()));
    first.await.unwrap().unwrap();
    world.driver.publish(other, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_pod_holds_no_more_calls_than_its_share() {
    let world = World::new();
    let mut held = tokio::task::JoinSet::new();
    for number in 0..16 {
        let driver = Arc::clone(&world.driver);
        let request = crate::testing::request_at(&place(&format!("v{number}")));
        held.spawn(async move { driver.publish(request, Some(Duration::from_mins(2))).await });
    }
    sleep(Duration::from_secs(1)).await;
    let other = crate::testing::request_at(&place("other"));
    let result = world.driver.publish(other.clone(), None).await;
    assert_eq!(result, Err(PublishError::Crowded(HoldQuotaFull::Pod)));
    assert!(!is_final(code(&result)));
    world.evaluator.says("tools/harbor", Some(granted()));
    while let Some(result) = held.join_next().await {
        result.unwrap().unwrap();
    }
    // Its places are free again.
    world.evaluator.says("tools/harbor", Some(no_request()));
    let result = world.driver.publish(other, None).await;
    assert_eq!(code(&result), Code::PermissionDenied);
}

/// Sixteen connectors in each of two volumes.
fn of_volume(number: usize) -> NodePublishVolumeRequest {
    let mut request = crate::testing::request_at(&place(&format!("v{number}")));
    let names: Vec<_> = (0..16).map(|it| format!("tools/c{number}-{it}")).collect();
    request
        .volume_context
        .insert("connectors".to_owned(), names.join(","));
    request
}

#[tokio::test(start_paused = true)]
async fn one_pod_makes_no_more_requests_than_its_share_over_all_its_volumes() {
    let world = World::new();
    let first = world.driver.publish(of_volume(1), None).await;
    assert_eq!(code(&first), Code::PermissionDenied);
    assert_eq!(world.kubernetes.cluster().requests.len(), 16);
    let before = Instant::now();
    for _ in 0..3 {
        let second = world.driver.publish(of_volume(2), None).await;
        assert_eq!(second, Err(PublishError::Crowded(HoldQuotaFull::Requests)));
        assert_eq!(code(&second), Code::ResourceExhausted);
        assert!(text(&second).contains("at most 16"), "{}", text(&second));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(world.kubernetes.cluster().requests.len(), 16);
    // What was counted may be made again, and the pod's end makes room.
    let again = world.driver.publish(of_volume(1), None).await;
    assert_eq!(code(&again), Code::PermissionDenied);
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    let second = world.driver.publish(of_volume(2), None).await;
    assert_eq!(code(&second), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn one_pod_waits_for_no_more_connectors_than_that_where_no_request_is_made_either() {
    let world = World::new();
    for (number, connector) in (1..=2).flat_map(|volume| (0..16).map(move |it| (volume, it))) {
        let no = no_request_and(Requestable::No);
        world
            .evaluator
            .says(&format!("tools/c{number}-{connector}"), Some(no));
    }
    let first = world.driver.publish(of_volume(1), None).await;
    assert_eq!(code(&first), Code::PermissionDenied);
    let second = world.driver.publish(of_volume(2), None).await;
    assert_eq!(second, Err(PublishError::Crowded(HoldQuotaFull::Requests)));
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_permissions_makes_no_request_and_takes_no_room() {
    let world = World::with_room_for(0);
    let full = Err(PublishError::Crowded(HoldQuotaFull::Node(0)));
    world.evaluator.says("tools/harbor", Some(standing()));
    world.kubernetes.cluster().standing = true;
    publish(&world).await.unwrap();
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    world.kubernetes.cluster().standing = false;
    world.evaluator.says("tools/harbor", Some(no_request()));
    let result = publish(&world).await;
    assert_eq!(result, full);
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn held_calls_are_answered_when_the_process_ends() {
    let world = World::new();
    let call = held(&world).await;
    let before = Instant::now();
    world.terminate();
    assert_eq!(call.await.unwrap(), Err(PublishError::Stopping));
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(publish(&world).await, Err(PublishError::Stopping));
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_left_is_made_anew() {
    let world = World::new();
    world
        .mounter
        .node()
        .found
        .insert(place("tool"), OnDisk::Partial);
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    assert!(mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_fails_leaves_nothing_and_one_that_does_is_not_final() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.mounter.node().publish_fails = true;
    assert_eq!(code(&publish(&world).await), Code::Internal);
    world.mounter.node().publish_fails = true;
    world.mounter.node().clear_fails = true;
    assert_eq!(code(&publish(&world).await), Code::Aborted);
    world.mounter.node().clear_fails = false;
    publish(&world).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_fails_at_its_last_step_is_not_final_and_the_next_call_looks_after_it() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.mounter.node().seal_fails = true;
    let result = publish(&world).await;
    assert!(!is_final(code(&result)) && mounted(&world), "{result:?}");
    publish(&world).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_nothing_and_the_volume_free() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.mounter.node().publish_panics = true;
    assert_eq!(publish(&world).await, Err(PublishError::Broken));
    publish(&world).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_final_error_says_so_when_something_was_there_before() {
    let world = World::new();
    world
        .mounter
        .node()
        .found
        .insert(place("tool"), OnDisk::Partial);
    assert_eq!(
        code(&call(&world, request_for("A")).await),
        Code::InvalidArgument
    );
    world
        .mounter
        .node()
        .found
        .insert(place("tool"), OnDisk::Partial);
    world.mounter.node().clear_fails = true;
    assert_eq!(code(&call(&world, request_for("A")).await), Code::Aborted);
}

#[tokio::test(start_paused = true)]
async fn unpublishing_works_twice_and_while_nobody_can_be_reached() {
    let world = published().await;
    world.kubernetes.cluster().reachable = false;
    world.evaluator.says("tools/harbor", None);
    for _ in 0..2 {
        world.driver.unpublish(&unpublish_request()).await.unwrap();
        assert_eq!(world.mounter.node().found.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn unpublishing_what_was_never_there_is_fine_and_an_incomplete_call_is_not() {
    let world = World::new();
    let at = |volume_id: &str, target_path: &str| {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            target_path: target_path.to_owned(),
        };
        let driver = Arc::clone(&world.driver);
        async move {
            driver
                .unpublish(&request)
                .await
                .map_err(|error| Status::from(error).code())
        }
    };
    assert_eq!(at("unknown", &request().target_path).await, Ok(()));
    assert_eq!(at("unknown", "/no/such/path").await, Ok(()));
    for there_or_unknown in ["/", "/proc/version/mount"] {
        let result = at("unknown", there_or_unknown).await;
        assert_eq!(result, Err(Code::InvalidArgument), "{there_or_unknown}");
    }
    assert_eq!(
        at("", &request().target_path).await,
        Err(Code::InvalidArgument)
    );
    assert_eq!(at("unknown", "").await, Err(Code::InvalidArgument));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_removed_is_an_error() {
    let world = published().await;
    world.mounter.node().clear_fails = true;
    let result = world.driver.unpublish(&unpublish_request()).await;
    assert!(matches!(result, Err(UnpublishError::Stuck)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_and_waits_are_counted() {
    let world = World::new();
    let call = held(&world).await;
    let value = |name: &str| {
        let families = world.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        let of = |it: &Metric| it.get_gauge().get_value() + it.get_counter().get_value();
        family.get_metric().iter().map(of).sum::<f64>()
    };
    assert!((value("connectors_mount_held") - 1.0).abs() < f64::EPSILON);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
    assert!(value("connectors_mount_held").abs() < f64::EPSILON);
    assert!((value("connectors_mount_publishes_total") - 1.0).abs() < f64::EPSILON);
}

/// Everything that this process logs from the first look on.
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every call of a life, good and bad, with everything logged that anybody logs.
#[tokio::test(start_paused = true)]
async fn no_log_line_no_error_and_no_metric_holds_the_token() {
    // For the whole process: a subscriber of one thread misses what another one came by first. The
    // lines of other tests are welcome.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(|| Lines)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = published().await;
    let mut said = String::new();
    let mut say = |result: Result_| said.extend([format!("{result:?}")]);
    say(call(&world, request()).await);
    say(call(&world, request_for("tools/git")).await);
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    world.kubernetes.cluster().token.authenticated = Some(false);
    say(call(&world, request()).await);
    let mut in_context = request_for("A");
    in_context.volume_context.extend(in_context.secrets.clone());
    say(call(&world, in_context.clone()).await);
    let tokens = "csi.storage.k8s.io/serviceAccount.tokens";
    in_context
        .secrets
        .insert(tokens.to_owned(), "the-token".to_owned());
    say(call(&world, in_context).await);
    for odd in [
        r#""the-token""#,
        r#"{"connectors.alauda.io": "the-token"}"#,
        r#"{"connectors.alauda.io": {"token": ["the-token"]}}"#,
        r#"{"connectors.alauda.io": {"the-token": 1}}"#,
    ] {
        let mut request = request();
        request.secrets.insert(tokens.to_owned(), odd.to_owned());
        say(call(&world, request).await);
    }
    let logged = String::from_utf8(LINES.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("unpublished") && logged.contains("not published"),
        "{logged}"
    );
    let metrics = prometheus::TextEncoder::new();
    said.push_str(&metrics.encode_to_string(&world.registry.gather()).unwrap());
    assert!(
        !logged.contains("the-token") && !said.contains("the-token"),
        "{logged}{said}"
    );
}
