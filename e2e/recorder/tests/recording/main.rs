//! A recorder between a caller and a driver whose behaviour each test chooses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod findings;
mod support;

use std::{fs, os::unix::net::UnixListener, time::Duration};

use csi_recorder::{Answer, Method, Target};
use tonic::Code;

use crate::support::{Driver, Node, TARGET, publish};

#[tokio::test]
async fn a_call_is_passed_on_as_it_is_and_written_down_without_its_secrets() {
    let node = Node::new();
    let driver = Driver::start(&node, |node, _| {
        node.mount(".complete");
        Ok(())
    });
    let recorder = node.record().await;
    let mut request = tonic::Request::new(publish());
    request.set_timeout(Duration::from_secs(100));
    request
        .metadata_mut()
        .insert("x-note", "kept".parse().unwrap());
    node.client().node_publish_volume(request).await.unwrap();

    let (message, metadata) = driver.received().remove(0);
    assert_eq!(message, publish());
    assert_eq!(metadata.get("x-note").unwrap(), "kept");
    assert!(
        metadata.get("grpc-timeout").is_some(),
        "the deadline was lost"
    );

    let call = recorder.calls().remove(0);
    assert_eq!(
        (
            call.method,
            call.volume_id.as_str(),
            call.target_path.as_str()
        ),
        (Method::Publish, "csi-1", TARGET)
    );
    assert_eq!(
        (
            call.pod_namespace.as_str(),
            call.pod_name.as_str(),
            call.pod_uid.as_str()
        ),
        ("team", "job", "pod-uid")
    );
    assert_eq!(call.connectors, "prod");
    assert_eq!(
        (call.before, call.after),
        (Some(Target::Nothing), Some(Target::Complete))
    );
    assert!(
        call.answer.as_ref().unwrap().is_ok() && call.took().unwrap() >= jiff::SignedDuration::ZERO
    );
    assert_eq!(recorder.publishes_of("team", "job").len(), 1);
    assert_eq!(recorder.publishes_of("team", "other").len(), 0);
    let written = format!("{recorder:?}");
    assert!(!written.contains("s3cret"), "{written}");
    recorder.assert_kept();
}

#[tokio::test]
async fn answers_arrive_as_the_driver_gave_them() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| {
        Err(tonic::Status::permission_denied("prod: 100% awaits ü"))
    });
    let recorder = node.record().await;
    let error = node
        .client()
        .node_publish_volume(publish())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::PermissionDenied, "prod: 100% awaits ü")
    );
    let answer = recorder.calls().remove(0).answer.unwrap();
    assert_eq!(
        answer,
        Answer::Status {
            code: 7,
            message: "prod: 100% awaits ü".to_owned()
        }
    );
    // Calls of other kinds pass, and are not written down.
    let error = node
        .client()
        .node_get_info(csi_node::proto::csi::NodeGetInfoRequest {})
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert_eq!(recorder.calls().len(), 1);
    recorder.assert_kept();
}

#[tokio::test]
async fn a_call_that_the_kubelet_gives_up_is_given_up_by_the_driver_too() {
    let node = Node::new();
    let driver = Driver::start_holding(&node);
    let recorder = node.record().await;
    let mut client = node.client();
    let call = tokio::spawn(async move { client.node_publish_volume(publish()).await });
    support::until(|| !driver.received().is_empty()).await;
    let underway = recorder.calls().remove(0);
    assert_eq!((underway.answer, underway.ended), (None, None));
    call.abort();
    support::until(|| driver.given_up() == 1).await;
    support::until(|| recorder.calls()[0].answer == Some(Answer::Abandoned)).await;
    assert!(
        !recorder.calls()[0]
            .answer
            .as_ref()
            .unwrap()
            .is_final_error()
    );
}

#[tokio::test]
async fn many_calls_at_once_are_each_written_down() {
    let node = Node::new();
    let driver = Driver::start_holding(&node);
    let recorder = node.record().await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut client = node.client();
            tokio::spawn(async move { client.node_publish_volume(publish()).await })
        })
        .collect();
    support::until(|| driver.received().len() == 20).await;
    node.mount(".complete");
    driver.let_go();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(recorder.calls().len(), 20);
    // A call that began before the mount existed ends well all the same.
    recorder.assert_kept();
}

#[tokio::test]
async fn a_driver_that_starts_anew_is_recorded_again() {
    let node = Node::new();
    let done = |node: &Node, _: &_| {
        node.mount(".complete");
        Ok(())
    };
    let first = Driver::start(&node, done);
    let recorder = node.record().await;
    node.client().node_publish_volume(publish()).await.unwrap();
    first.stop().await;
    // Its socket still exists, without a listener.
    let error = node
        .client()
        .node_publish_volume(publish())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    let _second = Driver::start(&node, done);
    support::until(|| recorder.taken() == 2).await;
    node.client().node_publish_volume(publish()).await.unwrap();
    let codes: Vec<_> = recorder
        .calls()
        .iter()
        .map(|call| call.answer.as_ref().unwrap().is_ok())
        .collect();
    assert_eq!(codes, [true, false, true]);
    assert_eq!(recorder.failures(), Vec::<String>::new());
    recorder.assert_kept();
}

#[tokio::test]
async fn a_driver_that_is_not_there_yet_is_waited_for() {
    let node = Node::new();
    let recorder = csi_recorder::Recorder::interpose(&node.socket(), node.eyes()).unwrap();
    assert_eq!(recorder.taken(), 0);
    let _driver = Driver::start(&node, |node, _| {
        node.mount(".complete");
        Ok(())
    });
    support::until(|| recorder.taken() == 1).await;
    node.client().node_publish_volume(publish()).await.unwrap();
    assert_eq!(recorder.calls().len(), 1);
}

#[tokio::test]
async fn the_driver_has_its_place_back_afterwards() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| Ok(()));
    let recorder = node.record().await;
    drop(recorder);
    node.client().node_publish_volume(publish()).await.unwrap();
    let left: Vec<_> = fs::read_dir(node.socket().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["csi.sock"]);
}

#[tokio::test]
async fn a_recorder_that_was_killed_is_cleared_away_by_the_next() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| Ok(()));
    let socket = node.socket();
    fs::rename(&socket, socket.with_extension("sock.driver")).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let recorder = node.record().await;
    node.client().node_publish_volume(publish()).await.unwrap();
    drop(recorder);
    node.client().node_publish_volume(publish()).await.unwrap();
}
