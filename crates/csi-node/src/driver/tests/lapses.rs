//! What ends by time alone, times that nobody may start anew, and objects that are on their way out.

use connectors_api::config::OnEnable;

use super::*;
use crate::testing::on;

/// Somebody writes the request again and again: what it says stays the same.
async fn keep_writing(
    world: &World,
    answer: impl Fn(usize) -> evaluation_api::access::AccessAnswer,
) {
    for number in 0.. {
        world.evaluator.says("tools/harbor", Some(answer(number)));
        sleep(Duration::from_millis(700)).await;
    }
}

fn rewritten(
    mut answer: evaluation_api::access::AccessAnswer,
    number: usize,
) -> evaluation_api::access::AccessAnswer {
    if let Some(request) = &mut answer.request {
        request.resource_version = number.to_string();
    }
    answer
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_written_again_and_again_is_unusable_after_the_same_time() {
    for by_decision in [true, false] {
        let world = World::new();
        world.kubernetes.cluster().pod_form = false;
        let answer = move |number| {
            let yes = granted();
            let no = denied(Phase::Granted, Ready::Granted);
            rewritten(if by_decision { yes } else { no }, number)
        };
        world.evaluator.says("tools/harbor", Some(answer(0)));
        let before = Instant::now();
        let result = tokio::select! {
            result = publish(&world) => result,
            () = keep_writing(&world, answer) => unreachable!("it never ends"),
        };
        assert!(matches!(result, Err(PublishError::Unusable { .. })));
        assert!(
            before.elapsed() < Duration::from_secs(6),
            "{:?}",
            before.elapsed()
        );
        assert_eq!(told(&world), [EventWord::AccessUnusable]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_however_often_its_request_is_written() {
    let world = World::new();
    let answer = |number| rewritten(denied(Phase::Pending, Ready::ChecksPending), number);
    world.evaluator.says("tools/harbor", Some(answer(0)));
    let before = Instant::now();
    let result = tokio::select! {
        result = publish(&world) => result,
        () = keep_writing(&world, answer) => unreachable!("it never ends"),
    };
    assert_eq!(code(&result), Code::PermissionDenied);
    assert_eq!(before.elapsed(), Duration::from_secs(115));
    assert!(world.kubernetes.cluster().requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_however_often_the_stream_breaks() {
    let world = World::new();
    let flaps = async {
        for number in 0.. {
            let answer = (number % 2 == 0).then(no_request);
            world.evaluator.says("tools/harbor", answer);
            sleep(Duration::from_millis(700)).await;
        }
    };
    let before = Instant::now();
    let result = tokio::select! {
        result = publish(&world) => result,
        () = flaps => unreachable!("it never ends"),
    };
    assert!(result.is_err());
    assert_eq!(before.elapsed(), Duration::from_secs(115));
    assert_eq!(calls(&world, "create"), 1);
}

/// The kubelet comes back for ten lifetimes of what is remembered.
#[tokio::test(start_paused = true)]
async fn a_kept_volume_is_told_about_once_however_long_its_pod_runs() {
    let world = World::new();
    world.switch.send_replace(OFF);
    publish(&world).await.unwrap();
    world.switch.send_replace(on(OnEnable::Keep));
    for _ in 0..600 {
        publish(&world).await.unwrap();
        sleep(Duration::from_mins(1)).await;
    }
    assert!(mounted(&world));
    assert_eq!(told(&world), [EventWord::MountedWhileOff]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_is_told_once_and_asks_for_nothing_however_long_the_kubelet_tries() {
    let world = World::new();
    let over = denied(Phase::Rejected, Ready::CheckRejected);
    world.evaluator.says("tools/harbor", Some(over));
    for _ in 0..600 {
        assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
        sleep(Duration::from_mins(1)).await;
    }
    assert_eq!(told(&world), [EventWord::AccessDenied]);
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_is_being_deleted_gives_no_content_in_any_way() {
    let deletes = |world: &World| {
        let mut cluster = world.kubernetes.cluster();
        let harbor = cluster.connectors.get_mut("tools/harbor").unwrap();
        harbor.metadata.deletion_timestamp =
            serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
    };
    for switch in [ON, OFF] {
        let world = World::new();
        world.evaluator.says("tools/harbor", Some(granted()));
        world.switch.send_replace(switch);
        deletes(&world);
        assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
        // Nor does an emptied volume get it back, and that is no error.
        let world = published().await;
        world.driver.mounter.empty(&place("tool")).unwrap();
        world.switch.send_replace(switch);
        deletes(&world);
        publish(&world).await.unwrap();
        assert!(!mounted(&world));
    }
}

/// It goes only when nothing uses it any more, and until then connectors have their address from it.
#[tokio::test(start_paused = true)]
async fn a_class_that_is_being_deleted_gives_its_address_until_it_is_gone() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    {
        let mut cluster = world.kubernetes.cluster();
        let harbor = cluster.connectors.get_mut("tools/harbor").unwrap();
        harbor.spec.address = None;
        let class = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "oci", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"address": {"name": "address", "default": "https://default"}},
        }));
        cluster.class = Lookup::Found(Box::new(class.unwrap()));
    }
    publish(&world).await.unwrap();
    assert_eq!(world.mounter.node().facts[0].address, "https://default");
}
