//! The findings when a driver breaks a promise, and only then.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use csi_recorder::{Finding, Method, Target};
use tonic::Code;

use crate::support::{Driver, Node, TARGET, publish};

/// The findings after one publish.
async fn found(before: fn(&Node), script: fn(&Node) -> Result<(), tonic::Status>) -> Vec<Finding> {
    let node = Node::new();
    before(&node);
    let _driver = Driver::start(&node, move |node, _| script(node));
    let recorder = node.record().await;
    let _ = node.client().node_publish_volume(publish()).await;
    recorder.calls().remove(0).findings
}

#[tokio::test]
async fn ok_without_complete_content_is_found() {
    let nothing = |_: &Node| {};
    let incomplete = |target| vec![Finding::Incomplete(target)];
    assert_eq!(
        found(nothing, |_| Ok(())).await,
        incomplete(Target::Nothing)
    );
    let bare = |node: &Node| {
        node.make_target();
        Ok(())
    };
    assert_eq!(found(nothing, bare).await, incomplete(Target::Unmounted));
    let half = |node: &Node| {
        node.mount("half");
        Ok(())
    };
    assert_eq!(found(nothing, half).await, incomplete(Target::Unmarked));
    let emptied = |node: &Node| {
        node.mount(".revoked");
        Ok(())
    };
    assert_eq!(found(nothing, emptied).await, incomplete(Target::Revoked));
    // A mounted volume may be emptied when the kubelet asks again.
    assert_eq!(
        found(
            |node| node.mount(".complete"),
            |node| {
                node.unmark();
                node.mount(".revoked");
                Ok(())
            }
        )
        .await,
        []
    );
    let complete = |node: &Node| {
        node.mount(".complete");
        Ok(())
    };
    assert_eq!(found(nothing, complete).await, []);
}

#[tokio::test]
async fn an_error_that_takes_the_place_of_content_or_is_filled_later_is_found() {
    let refuses = |node: &Node| {
        node.mount_error();
        Ok(())
    };
    assert_eq!(found(|_| {}, refuses).await, []);
    assert_eq!(found(Node::mount_error, refuses).await, []);
    let wrong = [Finding::Incomplete(Target::Rejected)];
    assert_eq!(found(|node| node.mount(".complete"), refuses).await, wrong);
    assert_eq!(found(|node| node.mount(".revoked"), refuses).await, wrong);
    let fills = |node: &Node| {
        node.unmark();
        node.mount(".complete");
        Ok(())
    };
    let wrong = [Finding::Incomplete(Target::Complete)];
    assert_eq!(found(Node::mount_error, fills).await, wrong);
}

#[tokio::test]
async fn a_final_error_that_leaves_something_is_found() {
    let nothing = |_: &Node| {};
    assert_eq!(
        found(nothing, |_| Err(tonic::Status::permission_denied(""))).await,
        []
    );
    let with_directory = |node: &Node| {
        node.make_target();
        Err(tonic::Status::permission_denied(""))
    };
    assert_eq!(
        found(nothing, with_directory).await,
        [Finding::Leftover(Target::Unmounted)]
    );
    let with_mount = |node: &Node| {
        node.mount("half");
        Err(tonic::Status::internal(""))
    };
    assert_eq!(
        found(nothing, with_mount).await,
        [Finding::Leftover(Target::Unmarked)]
    );
    // After these the kubelet unpublishes.
    for code in [
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
        Code::Aborted,
        Code::Unavailable,
    ] {
        let node = Node::new();
        let _driver = Driver::start(&node, move |node, _| {
            node.mount("half");
            Err(tonic::Status::new(code, ""))
        });
        let recorder = node.record().await;
        node.client()
            .node_publish_volume(publish())
            .await
            .unwrap_err();
        recorder.assert_kept();
    }
}

#[tokio::test]
async fn an_unpublish_leaves_nothing() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| Ok(()));
    let recorder = node.record().await;
    let request = csi_node::proto::csi::NodeUnpublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: TARGET.to_owned(),
    };
    node.client()
        .node_unpublish_volume(request.clone())
        .await
        .unwrap();
    node.mount(".complete");
    node.client().node_unpublish_volume(request).await.unwrap();
    let calls = recorder.calls();
    assert_eq!(
        (
            calls[0].method,
            calls[0].target_path.as_str(),
            calls[0].findings.len()
        ),
        (Method::Unpublish, TARGET, 0)
    );
    assert_eq!(calls[1].findings, [Finding::Leftover(Target::Complete)]);
}

#[tokio::test]
async fn content_without_access_is_found() {
    for (answer, expected) in [
        (Ok(()), vec![]),
        (
            Err("the review says no".to_owned()),
            vec![Finding::NotAllowed("the review says no".to_owned())],
        ),
    ] {
        let node = Node::new();
        let _driver = Driver::start(&node, |node, _| {
            node.mount(".complete");
            Ok(())
        });
        let asked = Arc::new(AtomicBool::new(false));
        let mut eyes = node.eyes();
        eyes.access = Some(Arc::new({
            let asked = Arc::clone(&asked);
            move |call| {
                assert_eq!(call.pod_name, "job");
                asked.store(true, Ordering::SeqCst);
                answer.clone()
            }
        }));
        let recorder = node.record_with(eyes).await;
        node.client().node_publish_volume(publish()).await.unwrap();
        // Before the kubelet had its answer.
        assert!(asked.load(Ordering::SeqCst));
        assert_eq!(recorder.calls().remove(0).findings, expected);
    }
}

#[tokio::test]
async fn access_is_asked_only_where_content_is_delivered() {
    let node = Node::new();
    let refuses = AtomicBool::new(true);
    let _driver = Driver::start(&node, move |node, _| {
        if refuses.swap(false, Ordering::SeqCst) {
            return Err(tonic::Status::permission_denied(""));
        }
        node.unmark();
        node.mount(".revoked");
        Ok(())
    });
    let mut eyes = node.eyes();
    eyes.access = Some(Arc::new(|_| Err("asked".to_owned())));
    let recorder = node.record_with(eyes).await;
    node.client()
        .node_publish_volume(publish())
        .await
        .unwrap_err();
    // Mounted before, and emptied when the kubelet asks again.
    node.mount(".complete");
    node.client().node_publish_volume(publish()).await.unwrap();
    recorder.assert_kept();
}

#[tokio::test]
async fn a_question_that_fails_is_no_yes() {
    let node = Node::new();
    let _driver = Driver::start(&node, |node, _| {
        node.mount(".complete");
        Ok(())
    });
    let mut eyes = node.eyes();
    eyes.access = Some(Arc::new(|_| panic!("no answer")));
    let recorder = node.record_with(eyes).await;
    node.client().node_publish_volume(publish()).await.unwrap();
    assert!(matches!(
        recorder.calls()[0].findings.as_slice(),
        [Finding::NotAllowed(_)]
    ));
}

#[tokio::test]
async fn what_nobody_can_look_at_is_a_finding() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| Ok(()));
    fs::remove_file(node.mountinfo()).unwrap();
    let recorder = node.record().await;
    node.client().node_publish_volume(publish()).await.unwrap();
    assert!(matches!(
        recorder.calls()[0].findings.as_slice(),
        [Finding::Unseen(_), Finding::Unseen(_)]
    ));
}

#[tokio::test]
#[should_panic(expected = "at the target path is: nothing")]
async fn a_test_fails_with_what_was_found() {
    let node = Node::new();
    let _driver = Driver::start(&node, |_, _| Ok(()));
    let recorder = node.record().await;
    node.client().node_publish_volume(publish()).await.unwrap();
    recorder.assert_kept();
}

#[tokio::test]
#[should_panic(expected = "no call to judge")]
async fn a_test_without_calls_proves_nothing() {
    let node = Node::new();
    node.record_with(node.eyes()).await.assert_kept();
}
