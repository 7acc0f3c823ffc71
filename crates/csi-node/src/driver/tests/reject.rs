//! Pods that are refused for good, and want to know it themselves.

use connectors_api::config::OnEnable;
use serde_json::Value;

use super::*;
use crate::{refused_reviews, testing::on};

fn request_for_a_file() -> NodePublishVolumeRequest {
    let mut request = request();
    asks_for_a_file(&mut request);
    request
}

fn rejected() -> World {
    let world = World::new();
    rejects(&world, "uid-1");
    world
}

/// A pod has its error.
async fn told_why() -> World {
    let world = rejected();
    call(&world, request_for_a_file()).await.unwrap();
    assert!(has_error(&world));
    world
}

fn has_error(world: &World) -> bool {
    let node = world.mounter.node();
    matches!(node.found.get(&place("tool")), Some(OnDisk::Rejected(_)))
}

fn error(world: &World) -> Value {
    let node = world.mounter.node();
    serde_json::from_str(node.error.as_ref().unwrap().text()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_that_asks_for_a_file_starts_with_that_file_alone_and_is_told_once() {
    let world = rejected();
    for _ in 0..3 {
        call(&world, request_for_a_file()).await.unwrap();
        assert!(has_error(&world) && !mounted(&world));
    }
    assert_eq!(error(&world)["code"], 7);
    let message = "connector tools/harbor: access was rejected; a new pod may ask again";
    assert_eq!(error(&world)["message"], message);
    {
        let node = world.mounter.node();
        assert!(node.facts.is_empty() && node.files.is_empty());
    }
    let told = world.kubernetes.cluster().told.clone();
    let note = format!("{message}; the pod starts with a volume that holds .error.json alone");
    assert_eq!(told, [(EventWord::MountedErrorFile, note)]);
    // It is no delivered volume, and no grant was waited for.
    let results = ["error_file", "looked_after", "made"]
        .map(|it| counted(&world, "connectors_mount_publishes_total", it));
    assert_eq!(format!("{results:?}"), "[1.0, 2.0, 0.0]");
    assert_eq!(calls(&world, "create") + calls(&world, "get connector"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_attribute_or_with_fail_a_rejection_fails_the_mount() {
    for word in [None, Some("Fail")] {
        let mut request = request();
        let attribute = word.map(|it| ("onRejected".to_owned(), it.to_owned()));
        request.volume_context.extend(attribute);
        let world = rejected();
        let result = call(&world, request).await;
        assert_eq!(code(&result), Code::PermissionDenied);
        assert_eq!(told(&world), [EventWord::AccessDenied]);
        assert_eq!(calls(&world, "get request"), 0);
    }
}

/// The wait is over in the same call.
#[tokio::test(start_paused = true)]
async fn a_rejection_during_the_wait_ends_it_with_the_file() {
    let world = World::new();
    let driver = Arc::clone(&world.driver);
    let call = tokio::spawn(async move { driver.publish(request_for_a_file(), None).await });
    sleep(Duration::from_mins(1)).await;
    assert!(!call.is_finished());
    rejects(&world, "uid-1");
    call.await.unwrap().unwrap();
    assert!(has_error(&world));
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_before_the_mount_is_for_good_as_well() {
    for ready in [Ready::CheckLapsed, Ready::Expired, Ready::PolicyDeleted] {
        let world = World::new();
        let revoked = denied(Phase::Revoked, ready);
        world.evaluator.says("tools/harbor", Some(revoked));
        let request = over("uid-1", "tools/harbor", Phase::Revoked);
        world.kubernetes.cluster().found = Lookup::Found(Box::new(request));
        call(&world, request_for_a_file()).await.unwrap();
        assert_eq!(error(&world)["details"][0]["reason"], "ACCESS_TAKEN_BACK");
    }
}

#[tokio::test(start_paused = true)]
async fn at_home_the_file_says_what_the_request_says_and_elsewhere_it_does_not() {
    let world = World::new();
    let rejected = denied(Phase::Rejected, Ready::CheckRejected);
    world.evaluator.says("shop/own", Some(rejected));
    let found = over("uid-1", "shop/own", Phase::Rejected);
    world.kubernetes.cluster().found = Lookup::Found(Box::new(found));
    let mut request = request_for("own");
    asks_for_a_file(&mut request);
    call(&world, request).await.unwrap();
    let message = &error(&world)["message"];
    assert_eq!(message, "connector shop/own: the sentence of the request");
    let elsewhere = told_why().await;
    let text = error(&elsewhere).to_string();
    assert!(
        !text.contains("sentence") && !text.contains("the-request"),
        "{text}"
    );
}

/// Access may still come, or there is no answer about it.
#[tokio::test(start_paused = true)]
async fn nothing_but_a_final_no_makes_a_file() {
    type Change = fn(&World);
    let changes: [(&str, Change); 9] = [
        ("no request", |world| {
            world.evaluator.says("tools/harbor", Some(no_request()));
        }),
        ("pending", |world| {
            let pending = denied(Phase::Pending, Ready::ChecksPending);
            world.evaluator.says("tools/harbor", Some(pending));
        }),
        ("invalid", |world| {
            let invalid = denied(Phase::Invalid, Ready::WrongSubject);
            world.evaluator.says("tools/harbor", Some(invalid));
        }),
        ("makes way", |world| {
            let ended = denied(Phase::Ended, Ready::StandingPermission);
            world.evaluator.says("tools/harbor", Some(ended));
        }),
        ("pod ends", |world| {
            let ended = denied(Phase::Revoked, Ready::PodFinished);
            world.evaluator.says("tools/harbor", Some(ended));
        }),
        ("no mount can use it", |world| {
            let granted = denied(Phase::Granted, Ready::Granted);
            world.evaluator.says("tools/harbor", Some(granted));
        }),
        ("no evaluator", |world| {
            world.evaluator.says("tools/harbor", None);
        }),
        ("no API server", |world| {
            world.kubernetes.cluster().reachable = false;
        }),
        ("no switch", |world| {
            world.switch.send_replace(None);
        }),
    ];
    for (what, change) in changes {
        let world = rejected();
        change(&world);
        let result = call(&world, request_for_a_file()).await;
        assert!(result.is_err() && !has_error(&world), "{what}");
        assert_eq!(world.mounter.node().error, None, "{what}");
    }
}

/// A replica of the evaluation service may lag, a request be reset, and a right come during the call.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_the_api_server_does_not_confirm_makes_no_file() {
    type Change = fn(&mut AccessRequest);
    let changes: [(&str, Change); 7] = [
        ("another UID", |it| it.metadata.uid = Some("r2".to_owned())),
        ("no UID", |it| it.metadata.uid = None),
        ("being deleted", |it| {
            let time = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
            it.metadata.deletion_timestamp = Some(time);
        }),
        ("no status", |it| it.status = None),
        ("pending", |it| {
            it.status.as_mut().unwrap().phase = Some(Phase::Pending);
        }),
        ("granted", |it| {
            it.status.as_mut().unwrap().phase = Some(Phase::Granted);
        }),
        ("another pod", |it| {
            it.spec.context.object_ref.uid = Some("uid-10".to_owned());
        }),
    ];
    for (what, change) in changes {
        let world = rejected();
        let mut request = over("uid-1", "tools/harbor", Phase::Rejected);
        change(&mut request);
        world.kubernetes.cluster().found = Lookup::Found(Box::new(request));
        let result = call(&world, request_for_a_file()).await;
        assert_eq!(code(&result), Code::PermissionDenied, "{what}");
        assert!(!has_error(&world), "{what}");
    }
    for found in [Lookup::Absent, Lookup::Unreadable] {
        let world = rejected();
        world.kubernetes.cluster().found = found;
        let result = call(&world, request_for_a_file()).await;
        assert_eq!(code(&result), Code::PermissionDenied);
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_that_comes_during_the_call_makes_no_file() {
    // Right after the API server said no, and later.
    for wait in [Duration::from_millis(1), Duration::from_mins(1)] {
        let world = World::new();
        let driver = Arc::clone(&world.driver);
        let held = tokio::spawn(async move { driver.publish(request_for_a_file(), None).await });
        sleep(wait).await;
        world.kubernetes.cluster().standing = true;
        rejects(&world, "uid-1");
        assert_eq!(code(&held.await.unwrap()), Code::PermissionDenied);
        // A later call hears of it.
        sleep(refused_reviews::AGE).await;
        call(&world, request_for_a_file()).await.unwrap();
        assert!(mounted(&world));
    }
}

/// The API server answers, and then it does not.
#[tokio::test(start_paused = true)]
async fn without_a_confirmation_the_mount_waits_for_the_next_call() {
    let world = World::new();
    let driver = Arc::clone(&world.driver);
    let held = tokio::spawn(async move { driver.publish(request_for_a_file(), None).await });
    sleep(Duration::from_mins(1)).await;
    world.kubernetes.cluster().reachable = false;
    rejects(&world, "uid-1");
    assert_eq!(code(&held.await.unwrap()), Code::Unavailable);
    assert!(!has_error(&world));
    world.kubernetes.cluster().reachable = true;
    call(&world, request_for_a_file()).await.unwrap();
    assert!(has_error(&world));
}

/// A request that is reset, a grant, a right and the switch come too late for this pod.
#[tokio::test(start_paused = true)]
async fn an_error_stays_whatever_is_heard_later_and_nobody_is_asked() {
    type Change = fn(&World);
    let changes: [(&str, Change); 7] = [
        ("granted", |world| {
            world.evaluator.says("tools/harbor", Some(granted()));
        }),
        ("standing", |world| {
            world.evaluator.says("tools/harbor", Some(standing()));
            world.kubernetes.cluster().standing = true;
        }),
        ("reset", |world| {
            world.evaluator.says("tools/harbor", Some(no_request()));
        }),
        ("off", |world| {
            world.switch.send_replace(OFF);
        }),
        ("unknown", |world| {
            world.switch.send_replace(None);
        }),
        ("empties", |world| {
            world.switch.send_replace(on(OnEnable::Empty));
        }),
        ("unreachable", |world| {
            world.evaluator.says("tools/harbor", None);
            world.kubernetes.cluster().reachable = false;
        }),
    ];
    for (what, change) in changes {
        let world = told_why().await;
        change(&world);
        world.kubernetes.cluster().calls.clear();
        call(&world, request_for_a_file()).await.unwrap();
        assert!(has_error(&world), "{what}");
        assert_eq!(world.kubernetes.cluster().calls, [""; 0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_leaves_the_error_as_it_is_and_tells_nothing() {
    let world = told_why().await;
    let next = world.restarted();
    next.evaluator.says("tools/harbor", Some(granted()));
    next.switch.send_replace(ON);
    for _ in 0..2 {
        call(&next, request_for_a_file()).await.unwrap();
        assert!(has_error(&next));
    }
    assert_eq!(told(&next), []);
    next.driver.unpublish(&unpublish_request()).await.unwrap();
    assert!(next.mounter.node().found.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_error_is_not_given_to_a_call_for_something_else() {
    let world = told_why().await;
    let mut other = request_for("tools/git");
    asks_for_a_file(&mut other);
    let result = call(&world, other).await;
    assert_eq!(result, Err(PublishError::OtherVolume));
    assert!(has_error(&world));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_cannot_be_written_leaves_nothing_and_is_tried_again() {
    let world = rejected();
    world.mounter.node().publish_fails = true;
    let result = call(&world, request_for_a_file()).await;
    assert_eq!(code(&result), Code::Internal);
    assert_eq!(told(&world), []);
    call(&world, request_for_a_file()).await.unwrap();
    assert_eq!(told(&world), [EventWord::MountedErrorFile]);
}

/// Nothing is gated, so no pod is refused.
#[tokio::test(start_paused = true)]
async fn while_the_feature_is_off_a_rejected_pod_has_its_content() {
    let world = rejected();
    world.switch.send_replace(OFF);
    call(&world, request_for_a_file()).await.unwrap();
    assert!(mounted(&world));
}

/// One connector of two is refused, in whatever order they stand and whatever becomes of the other.
#[tokio::test(start_paused = true)]
async fn one_refused_connector_of_several_is_enough() {
    let pending = denied(Phase::Pending, Ready::ChecksPending);
    let invalid = denied(Phase::Invalid, Ready::Unreadable);
    for list in ["tools/harbor,tools/git", "tools/git,tools/harbor"] {
        for other in [
            Some(granted()),
            Some(pending.clone()),
            Some(invalid.clone()),
            None,
        ] {
            let world = rejected();
            world.evaluator.says("tools/git", other.clone());
            let mut request = request_for(list);
            asks_for_a_file(&mut request);
            call(&world, request).await.unwrap();
            assert!(has_error(&world), "{list} {other:?}");
            let metadata = error(&world)["details"][0]["metadata"].take();
            assert_eq!(metadata["connector"], "tools/harbor");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_gets_no_error_whatever_else_is_refused() {
    let world = rejected();
    let ending = denied(Phase::Pending, Ready::PodTerminating);
    world.evaluator.says("tools/git", Some(ending));
    let mut request = request_for("tools/harbor,tools/git");
    asks_for_a_file(&mut request);
    assert_eq!(call(&world, request).await, Err(PublishError::PodEnding));
}

/// An error of the volume's author is told as such.
#[tokio::test(start_paused = true)]
async fn a_wish_that_cannot_be_understood_makes_no_file() {
    for (key, value) in [
        ("onRejected", "errorFile"),
        ("configuration.names", "!.error.json"),
        ("configuration.names", "!oci/.error.json"),
    ] {
        let mut request = request_for_a_file();
        let attribute = (key.to_owned(), value.to_owned());
        request.volume_context.extend([attribute]);
        let world = rejected();
        let result = call(&world, request).await;
        assert_eq!(code(&result), Code::InvalidArgument, "{value}");
        assert!(text(&result).contains(key), "{}", text(&result));
    }
}
