//! Who is let in, when, and what is said to the others.

use std::path::Path;

use super::{churn::publish_request, *};
use crate::{
    refused_reviews,
    testing::{KUBELET, place_of},
};

#[tokio::test(start_paused = true)]
async fn mounts_at_once_with_a_standing_permission_that_the_api_server_confirms() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(standing()));
    world.kubernetes.cluster().standing = true;
    publish(&world).await.unwrap();
    let facts = &world.mounter.node().facts[0];
    assert_eq!(
        (facts.address.as_str(), facts.request.as_str()),
        ("https://harbor", "")
    );
    assert_eq!(
        world.kubernetes.cluster().calls,
        ["review token", "review apis", "get connector"]
    );
}

#[tokio::test(start_paused = true)]
async fn mounts_with_the_pods_own_permission_and_names_its_request() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    assert_eq!(world.mounter.node().facts[0].request, "the-request");
    assert_eq!(calls(&world, "review apis/v1/pod/shop/deploy-1"), 1);
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn mounts_when_another_authorizer_knows_of_a_standing_permission() {
    let world = World::new();
    world.kubernetes.cluster().standing = true;
    publish(&world).await.unwrap();
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_access_is_held_and_mounted_when_access_comes() {
    let world = World::new();
    let call = held(&world).await;
    assert_eq!(
        world.kubernetes.cluster().requests,
        [wish(&["tools/harbor"]).request(&key("tools/harbor"))]
    );
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    sleep(Duration::from_mins(1)).await;
    assert!(!call.is_finished() && !mounted(&world));
    let before = Instant::now();
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
    assert!(mounted(&world));
    assert_eq!(before.elapsed(), Duration::ZERO);
    // One write, and no more reads than the kubelet's other calls cost.
    assert_eq!(calls(&world, "create"), 1);
    assert_eq!(calls(&world, "review"), 3);
    assert_eq!(calls(&world, "get"), 1);
    // Nobody listens any more.
    assert_eq!(world.evaluator.followers("tools/harbor"), 0);
}

/// The API server walks all `RoleBindings` of the namespace for each of these answers.
#[tokio::test(start_paused = true)]
async fn pods_of_one_account_that_wait_share_the_no_and_each_has_its_own_yes() {
    let pods = 50;
    let world = World::with_room_for(2 * pods);
    world.kubernetes.cluster().review_takes = Duration::from_millis(20);
    let mut mounts = Vec::new();
    for pod in 0..pods {
        let pod = format!("uid-{pod}");
        world.kubernetes.prove(&pod);
        let place = place_of(Path::new(KUBELET), &pod, "tool");
        let (driver, request) = (Arc::clone(&world.driver), publish_request(&pod, &place));
        let call = tokio::spawn(async move { driver.publish(request, None).await });
        while calls(&world, "review token") <= mounts.len() {
            sleep(Duration::from_millis(1)).await;
        }
        mounts.push(call);
    }
    let standing = || exactly(&world, "review apis");
    sleep(Duration::from_secs(1)).await;
    assert_eq!((standing(), calls(&world, "create")), (1, pods));
    // Only the first call has a no of its own. The others ask once more, together.
    sleep(Duration::from_mins(1)).await;
    assert_eq!(standing(), 2);
    world.evaluator.says("tools/harbor", Some(granted()));
    for mount in mounts {
        mount.await.unwrap().unwrap();
    }
    assert_eq!(standing(), 2);
    assert_eq!(calls(&world, "review apis/v1/pod"), pods);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_comes_back_at_once_to_a_rejected_pod_costs_no_further_review() {
    let world = World::new();
    rejects(&world, "uid-1");
    for (pause, expected) in [(0, 1), (500, 1), (1000, 1), (2000, 2), (4000, 3)] {
        sleep(Duration::from_millis(pause)).await;
        assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
        assert_eq!(exactly(&world, "review apis"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_of_another_authorizer_that_comes_just_after_a_no_is_noticed_in_seconds() {
    // The no is that of another pod of the account.
    let world = World::new();
    world.kubernetes.prove("uid-0");
    let place = place_of(Path::new(KUBELET), "uid-0", "tool");
    let (driver, other) = (Arc::clone(&world.driver), publish_request("uid-0", &place));
    let other = tokio::spawn(async move { driver.publish(other, None).await });
    sleep(Duration::from_secs(1)).await;
    world.kubernetes.prove("uid-1");
    world.kubernetes.cluster().standing = true;
    let before = Instant::now();
    publish(&world).await.unwrap();
    assert_eq!(
        before.elapsed(),
        refused_reviews::AGE.saturating_sub(Duration::from_secs(1))
    );
    assert!(!other.is_finished(), "it asked in this call");
}

#[tokio::test(start_paused = true)]
async fn the_answer_about_a_granted_pod_is_never_remembered() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().pod_form = false;
    let call = held(&world).await;
    world.kubernetes.cluster().pod_form = true;
    let before = Instant::now();
    call.await.unwrap().unwrap();
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_before_the_kubelets_with_a_text_that_never_changes() {
    let world = World::new();
    let before = Instant::now();
    let first = publish(&world).await;
    assert_eq!(before.elapsed(), Duration::from_secs(115));
    assert_eq!(code(&first), Code::PermissionDenied);
    assert_eq!(
        text(&first),
        "connector tools/harbor: no access is granted to this pod yet"
    );
    assert_eq!(publish(&world).await, first);
    // A kubelet that waits less gets its answer in its time.
    let before = Instant::now();
    world
        .driver
        .publish(request(), Some(Duration::from_secs(20)))
        .await
        .unwrap_err();
    assert_eq!(before.elapsed(), Duration::from_secs(17));
    let before = Instant::now();
    world
        .driver
        .publish(request(), Some(Duration::from_secs(2)))
        .await
        .unwrap_err();
    assert_eq!(before.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_there_is_used() {
    let world = World::new();
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    let result = publish(&world).await;
    assert_eq!(
        text(&result),
        "connector tools/harbor: waiting for an approval"
    );
    assert_eq!(calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn at_home_a_pod_is_told_what_the_request_says() {
    let world = World::new();
    world.evaluator.says(
        "shop/own",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    let result = call(&world, request_for("own")).await;
    assert_eq!(
        text(&result),
        "connector shop/own: the sentence of the request"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_over_fails_the_mount_at_once_and_is_told_once() {
    let over = [
        Phase::Rejected,
        Phase::Revoked,
        Phase::Invalid,
        Phase::Ended,
    ];
    for phase in over {
        let world = World::new();
        world
            .evaluator
            .says("tools/harbor", Some(denied(phase, Ready::CheckRejected)));
        for _ in 0..3 {
            let before = Instant::now();
            let result = publish(&world).await;
            assert_eq!(before.elapsed(), Duration::ZERO);
            assert_eq!(code(&result), Code::PermissionDenied);
            assert!(!text(&result).contains("sentence"));
        }
        assert_eq!(told(&world), [EventWord::AccessDenied], "{phase}");
        assert_eq!(calls(&world, "create"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_ends_the_wait() {
    let world = World::new();
    let call = held(&world).await;
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Rejected, Ready::CheckRejected)),
    );
    assert_eq!(code(&call.await.unwrap()), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_let_go_at_once() {
    for (phase, ready) in [
        (Phase::Pending, Ready::PodTerminating),
        (Phase::Granted, Ready::PodTerminating),
        (Phase::Invalid, Ready::PodGone),
        (Phase::Revoked, Ready::PodFinished),
        (Phase::Ended, Ready::PodFinished),
        (Phase::Ended, Ready::PodGone),
    ] {
        let world = World::new();
        let call = held(&world).await;
        world
            .evaluator
            .says("tools/harbor", Some(denied(phase, ready)));
        assert_eq!(code(&call.await.unwrap()), Code::Aborted, "{phase} {ready}");
        assert_eq!(told(&world), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_the_api_server_sees_late_is_waited_for() {
    let world = World::new();
    world.kubernetes.cluster().pod_form = false;
    world.evaluator.says("tools/harbor", Some(granted()));
    let call = held(&world).await;
    world.kubernetes.cluster().pod_form = true;
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_no_mount_can_use_fails_with_an_event_of_its_own() {
    for answer in [granted(), denied(Phase::Granted, Ready::Granted)] {
        let world = World::new();
        world.kubernetes.cluster().pod_form = false;
        world.evaluator.says("tools/harbor", Some(answer));
        let before = Instant::now();
        let result = publish(&world).await;
        assert!(
            matches!(result, Err(PublishError::Unusable { .. })),
            "{result:?}"
        );
        assert_eq!(before.elapsed(), Duration::from_secs(5));
        assert!(calls(&world, "review") < 20);
        assert_eq!(told(&world), [EventWord::AccessUnusable]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_deleted_is_made_anew() {
    let world = World::new();
    let call = held(&world).await;
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    sleep(Duration::from_secs(1)).await;
    world.evaluator.says("tools/harbor", Some(no_request()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls(&world, "create"), 2);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_request_of_an_earlier_call_is_met_by_its_name() {
    let world = World::new();
    let ours = wish(&["tools/harbor"]).request(&key("tools/harbor"));
    world.kubernetes.cluster().created = Created::Exists;
    world.kubernetes.cluster().found = Lookup::Found(Box::new(ours));
    let call = held(&world).await;
    // It stays there, so no look for it follows.
    sleep(Duration::from_secs(20)).await;
    assert_eq!(calls(&world, "get request"), 1);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_request_under_the_name_is_never_adopted() {
    let mut other = wish(&["tools/harbor"]).request(&key("tools/harbor"));
    other.spec.subject.name = "attacker".to_owned();
    for found in [Lookup::Found(Box::new(other)), Lookup::Unreadable] {
        let world = World::new();
        world.kubernetes.cluster().created = Created::Exists;
        world.kubernetes.cluster().found = found;
        let result = publish(&world).await;
        assert!(
            matches!(result, Err(PublishError::Squatted { .. })),
            "{result:?}"
        );
        assert_eq!(told(&world), [EventWord::AccessDenied]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_on_its_way_out_is_replaced_when_it_is_gone() {
    let world = World::new();
    let mut ours = wish(&["tools/harbor"]).request(&key("tools/harbor"));
    ours.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
    world.kubernetes.cluster().created = Created::Exists;
    world.kubernetes.cluster().found = Lookup::Found(Box::new(ours));
    let call = held(&world).await;
    world.kubernetes.cluster().created = Created::Made;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.kubernetes.cluster().requests.len(), 1);
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_missing_looks_like_a_connector_that_is_missing() {
    let world = World::new();
    world.kubernetes.cluster().created = Created::NoNamespace;
    let before = Instant::now();
    let missing = publish(&world).await;
    assert_eq!(before.elapsed(), Duration::from_secs(115));
    let other = World::new();
    other.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ConnectorNotFound)),
    );
    assert_eq!(publish(&other).await, missing);
    assert_eq!(calls(&world, "create"), 1);
}

/// What a pod of another namespace sees of a wait: its error, how long it took, and its events.
async fn seen_from_elsewhere(world: &World) -> (Result_, Duration, Vec<(EventWord, String)>) {
    let before = Instant::now();
    let result = publish(world).await;
    let told = world.kubernetes.cluster().told.clone();
    (result, before.elapsed(), told)
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_namespace_cannot_tell_why_no_request_is_made() {
    let (refused, missing, full) = (World::new(), World::new(), World::new());
    let no = no_request_and(Requestable::No);
    refused.evaluator.says("tools/harbor", Some(no));
    missing.kubernetes.cluster().created = Created::NoNamespace;
    full.kubernetes.cluster().created = Created::QuotaFull;
    let expected = seen_from_elsewhere(&refused).await;
    assert_eq!(expected.1, Duration::from_secs(115));
    assert_eq!(
        text(&expected.0),
        "connector tools/harbor: no access is granted to this pod yet"
    );
    let note = "connector tools/harbor: access is not granted yet; whoever looks after namespace tools can tell more";
    assert_eq!(expected.2, [(EventWord::AccessPending, note.to_owned())]);
    for world in [&missing, &full] {
        assert_eq!(seen_from_elsewhere(world).await, expected);
    }
    // One that was made is told of by the request-controller, in the same words.
    let made = World::new();
    assert_eq!(publish(&made).await, expected.0);
    assert_eq!(told(&made), []);
}

#[tokio::test(start_paused = true)]
async fn no_request_is_made_in_another_namespace_where_no_policy_could_accept_it() {
    let world = World::new();
    let says = |requestable| {
        let answer = no_request_and(requestable);
        world.evaluator.says("tools/harbor", Some(answer));
    };
    says(Requestable::No);
    let call = held(&world).await;
    assert_eq!(calls(&world, "create"), 0);
    // A policy that is written meanwhile is noticed during the call.
    says(Requestable::Yes);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls(&world, "create"), 1);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_is_made_where_it_is_not_known_whether_a_policy_could_accept_it() {
    let world = World::new();
    let unknown = no_request_and(Requestable::Unknown);
    world.evaluator.says("tools/harbor", Some(unknown));
    publish(&world).await.unwrap_err();
    assert_eq!(calls(&world, "create"), 1);
}

#[tokio::test(start_paused = true)]
async fn at_home_a_request_is_made_in_any_case_because_it_tells_what_is_missing() {
    let world = World::new();
    let no = no_request_and(Requestable::No);
    world.evaluator.says("shop/own", Some(no));
    call(&world, request_for("own")).await.unwrap_err();
    assert_eq!(calls(&world, "create request in shop"), 1);
    assert_eq!(told(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_there_is_followed_whatever_policies_say() {
    let world = World::new();
    let mut rejected = denied(Phase::Rejected, Ready::CheckRejected);
    rejected.requestable = Requestable::No;
    world.evaluator.says("tools/harbor", Some(rejected));
    let before = Instant::now();
    let result = publish(&world).await;
    assert!(text(&result).contains("access was rejected"));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_is_waited_for_and_asked_again_in_the_same_call() {
    let world = World::new();
    world.kubernetes.cluster().created = Created::QuotaFull;
    let call = held(&world).await;
    sleep(Duration::from_secs(28)).await;
    // News about policies does not hurry it.
    for requestable in [Requestable::Unknown, Requestable::Yes, Requestable::Unknown] {
        let news = no_request_and(requestable);
        world.evaluator.says("tools/harbor", Some(news));
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(calls(&world, "create"), 1);
    world.kubernetes.cluster().created = Created::Made;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.kubernetes.cluster().requests.len(), 1);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_home_a_pod_is_told_that_the_quota_is_used_up() {
    let world = World::new();
    world.kubernetes.cluster().created = Created::QuotaFull;
    for _ in 0..2 {
        let result = call(&world, request_for("own")).await;
        assert_eq!(code(&result), Code::PermissionDenied);
        let says = "connector shop/own: no AccessRequest can be made, the quota of namespace shop is used up";
        assert!(text(&result).starts_with(says), "{}", text(&result));
    }
    assert_eq!(told(&world), [EventWord::AccessPending]);
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_name_is_none_is_not_asked_for() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    {
        let mut cluster = world.kubernetes.cluster();
        let harbor = cluster.connectors.get_mut("tools/harbor").unwrap();
        harbor.spec.address = None;
        harbor.spec.connector_class_name = "../connectors".to_owned();
    }
    let result = publish(&world).await;
    assert_eq!(code(&result), Code::FailedPrecondition);
    assert_eq!(calls(&world, "get class"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_cluster_refuses_fails_the_mount() {
    let world = World::new();
    world.kubernetes.cluster().created = Created::Refused;
    let result = publish(&world).await;
    assert!(
        matches!(result, Err(PublishError::RequestRefused { .. })),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_evaluation_service_nothing_is_mounted_and_nothing_is_asked_for() {
    let world = World::new();
    world.kubernetes.cluster().standing = true;
    world.evaluator.says("tools/harbor", None);
    let before = Instant::now();
    let result = publish(&world).await;
    assert_eq!(before.elapsed(), Duration::from_secs(115));
    assert_eq!(code(&result), Code::Unavailable);
    assert_eq!(calls(&world, "create") + calls(&world, "review apis"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_service_that_comes_back_is_heard() {
    let world = World::new();
    world.evaluator.says("tools/harbor", None);
    let call = held(&world).await;
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_yes_from_before_the_connection_broke_is_no_yes() {
    let world = World::new();
    world.kubernetes.cluster().pod_form = false;
    world.evaluator.says("tools/harbor", Some(granted()));
    let call = held(&world).await;
    world.evaluator.says("tools/harbor", None);
    sleep(Duration::from_millis(1)).await;
    world.kubernetes.cluster().pod_form = true;
    sleep(Duration::from_mins(1)).await;
    assert!(!mounted(&world));
    assert_eq!(code(&call.await.unwrap()), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_nothing_is_mounted() {
    for answer in [granted(), standing(), no_request()] {
        let world = World::new();
        let call = {
            world.evaluator.says("tools/harbor", None);
            let call = held(&world).await;
            world.kubernetes.cluster().reachable = false;
            world.evaluator.says("tools/harbor", Some(answer));
            call
        };
        let result = call.await.unwrap();
        assert_eq!(code(&result), Code::Unavailable);
        assert!(
            text(&result).contains("Kubernetes API"),
            "{}",
            text(&result)
        );
        assert!(!mounted(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_comes_back_is_asked_again() {
    let world = World::new();
    world.evaluator.says("tools/harbor", None);
    let call = held(&world).await;
    world.kubernetes.cluster().reachable = false;
    world.evaluator.says("tools/harbor", Some(granted()));
    sleep(Duration::from_secs(30)).await;
    world.kubernetes.cluster().reachable = true;
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_connectors_of_a_volume_must_be_allowed() {
    let world = World::new();
    let both = || request_for("tools/harbor,tools/git");
    world.evaluator.says("tools/harbor", Some(granted()));
    let driver = Arc::clone(&world.driver);
    let call = tokio::spawn(async move { driver.publish(both(), None).await });
    sleep(Duration::from_secs(10)).await;
    assert!(!mounted(&world));
    // The first lapses while the second comes.
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    world.evaluator.says("tools/git", Some(granted()));
    sleep(Duration::from_secs(10)).await;
    assert!(!mounted(&world) && !call.is_finished());
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
    assert_eq!(world.mounter.node().facts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_lapsed_while_another_was_waited_for_is_not_mounted_if_both_were_held() {
    let world = World::new();
    let driver = Arc::clone(&world.driver);
    let call = tokio::spawn(async move {
        let both = request_for("tools/harbor,tools/git");
        driver.publish(both, None).await
    });
    sleep(Duration::from_secs(10)).await;
    world.evaluator.says("tools/harbor", Some(granted()));
    sleep(Duration::from_secs(10)).await;
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Pending, Ready::ChecksPending)),
    );
    world.evaluator.says("tools/git", Some(granted()));
    sleep(Duration::from_secs(10)).await;
    assert!(!mounted(&world) && !call.is_finished());
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
    assert!(mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn one_rejected_connector_fails_the_volume() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    world.evaluator.says(
        "tools/git",
        Some(denied(Phase::Rejected, Ready::CheckRejected)),
    );
    let result = call(&world, request_for("tools/harbor,tools/git")).await;
    assert!(text(&result).starts_with("connector tools/git: access was rejected"));
}

#[tokio::test(start_paused = true)]
async fn while_the_feature_is_off_nobody_is_asked() {
    let world = World::new();
    world.switch.send_replace(OFF);
    world.evaluator.says("tools/harbor", None);
    publish(&world).await.unwrap();
    assert_eq!(
        world.kubernetes.cluster().calls,
        ["review token", "get connector"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_call_is_let_through_when_the_feature_is_switched_off() {
    let world = World::new();
    let call = held(&world).await;
    world.switch.send_replace(OFF);
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_knows_no_configuration_waits_for_it() {
    let world = World::new();
    world.switch.send_replace(None);
    let result = publish(&world).await;
    assert_eq!(result, Err(PublishError::Starting));
    assert_eq!(code(&result), Code::Unavailable);
    let call = held(&world).await;
    world.switch.send_replace(OFF);
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_a_wrong_driver_object_nothing_is_mounted() {
    let world = World::new();
    world.switch.send_replace(OFF);
    world.object.send_replace(Some(Err(DriverProblem::PodInfo)));
    assert_eq!(code(&publish(&world).await), Code::FailedPrecondition);
    world.object.send_replace(None);
    assert_eq!(publish(&world).await, Err(PublishError::Starting));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_proven_gets_nothing_even_while_the_feature_is_off() {
    let world = World::new();
    world.switch.send_replace(OFF);
    world.kubernetes.cluster().token.authenticated = Some(false);
    assert_eq!(code(&publish(&world).await), Code::Unauthenticated);
    let mut without_token = request();
    without_token.secrets.clear();
    assert_eq!(
        code(&call(&world, without_token).await),
        Code::Unauthenticated
    );
    world.kubernetes.cluster().reachable = false;
    assert_eq!(code(&publish(&world).await), Code::Unavailable);
    assert_eq!(calls(&world, "get") + calls(&world, "create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_is_gone_gives_no_volume() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    let connectors = std::mem::take(&mut world.kubernetes.cluster().connectors);
    assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
    let mut deleting = connectors;
    let harbor = deleting.get_mut("tools/harbor").unwrap();
    harbor.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
    world.kubernetes.cluster().connectors = deleting;
    assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn the_class_gives_the_address_where_the_connector_has_none() {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    let without = |world: &World| {
        let mut cluster = world.kubernetes.cluster();
        cluster
            .connectors
            .get_mut("tools/harbor")
            .unwrap()
            .spec
            .address = None;
    };
    without(&world);
    assert_eq!(code(&publish(&world).await), Code::FailedPrecondition);
    let class = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "oci"},
        "spec": {"address": {"name": "address", "default": "https://default"}},
    }));
    world.kubernetes.cluster().class = Lookup::Found(Box::new(class.unwrap()));
    publish(&world).await.unwrap();
    assert_eq!(world.mounter.node().facts[0].address, "https://default");
}
