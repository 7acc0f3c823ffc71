//! Volumes that are there already.

use evaluation_api::access::AccessAnswer;

use super::*;

#[tokio::test(start_paused = true)]
async fn looking_after_a_volume_writes_nothing_and_asks_the_api_server_nothing() {
    let world = published().await;
    publish(&world).await.unwrap();
    assert_eq!(world.kubernetes.cluster().calls, [""; 0]);
    let node = world.mounter.node();
    assert_eq!((node.emptied, node.refilled), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_access_ended_is_emptied_without_an_error() {
    let world = published().await;
    world.evaluator.says(
        "tools/harbor",
        Some(denied(Phase::Revoked, Ready::CheckLapsed)),
    );
    for _ in 0..2 {
        publish(&world).await.unwrap();
        assert_eq!(world.mounter.node().emptied, 1);
    }
    assert_eq!(told(&world), [EventWord::AccessRevoked]);
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    assert_eq!(world.mounter.node().refilled, 1);
    assert!(mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn an_emptied_volume_is_filled_only_when_the_api_server_confirms() {
    type Change = fn(&World);
    let refused: [(&str, AccessAnswer, Change); 3] = [
        ("pod form", granted(), |world| {
            world.kubernetes.cluster().pod_form = false;
        }),
        ("standing form", standing(), |world| {
            world.kubernetes.cluster().standing = false;
        }),
        ("no answer", granted(), |world| {
            world.kubernetes.cluster().reachable = false;
        }),
    ];
    for (what, answer, change) in refused {
        let world = published().await;
        world.driver.mounter.empty(&place("tool")).unwrap();
        world.evaluator.says("tools/harbor", Some(answer));
        change(&world);
        publish(&world).await.unwrap();
        assert!(!mounted(&world), "{what}");
        // Nobody says that access ended either.
        assert_eq!(told(&world), [], "{what}");
        {
            let mut cluster = world.kubernetes.cluster();
            (cluster.pod_form, cluster.standing, cluster.reachable) = (true, true, true);
        }
        publish(&world).await.unwrap();
        assert!(mounted(&world), "{what}");
    }
    let world = published().await;
    world.driver.mounter.empty(&place("tool")).unwrap();
    publish(&world).await.unwrap();
    assert_eq!(
        world.kubernetes.cluster().calls,
        ["review apis/v1/pod/shop/deploy-1", "get connector"]
    );
}

/// The kubelet may not have heard the first answer.
#[tokio::test(start_paused = true)]
async fn a_first_call_that_is_repeated_when_the_volume_is_complete_is_answered_ok() {
    type Change = fn(&World);
    let changes: [Change; 4] = [
        |_| {},
        |world| world.kubernetes.cluster().pod_form = false,
        |world| world.kubernetes.cluster().reachable = false,
        |world| world.evaluator.says("tools/harbor", None),
    ];
    for change in changes {
        let world = published().await;
        change(&world);
        publish(&world).await.unwrap();
        assert!(mounted(&world));
        assert_eq!(world.mounter.node().facts.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_denial_of_a_replica_that_lags_empties_nothing() {
    let world = published().await;
    world.evaluator.says("tools/harbor", Some(no_request()));
    let driver = Arc::clone(&world.driver);
    let mut call = std::pin::pin!(driver.publish(request(), None));
    assert!(poll!(&mut call).is_pending());
    sleep(Duration::from_millis(500)).await;
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap();
    assert_eq!(world.mounter.node().emptied, 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_stays_as_it_is_while_nobody_can_be_asked() {
    type Change = fn(&World);
    let unknown: [(&str, Change); 3] = [
        ("evaluator", |world| {
            world.evaluator.says("tools/harbor", None);
        }),
        ("switch", |world| {
            world.switch.send_replace(None);
        }),
        ("api server", |world| {
            world.evaluator.says("tools/harbor", Some(no_request()));
            world.kubernetes.cluster().reachable = false;
        }),
    ];
    for (what, change) in unknown {
        let world = published().await;
        change(&world);
        publish(&world).await.unwrap();
        assert!(mounted(&world), "{what}");
        world.driver.mounter.empty(&place("tool")).unwrap();
        publish(&world).await.unwrap();
        assert!(!mounted(&world), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_rests_on_another_authorizer_is_kept() {
    let world = published().await;
    world.evaluator.says("tools/harbor", Some(no_request()));
    world.kubernetes.cluster().standing = true;
    publish(&world).await.unwrap();
    assert!(mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn an_emptied_volume_is_filled_when_the_feature_is_switched_off() {
    let world = published().await;
    world.driver.mounter.empty(&place("tool")).unwrap();
    world.evaluator.says("tools/harbor", Some(no_request()));
    world.switch.send_replace(OFF);
    publish(&world).await.unwrap();
    assert!(mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn looking_after_a_volume_never_needs_the_token_or_the_driver_object() {
    let world = published().await;
    world.kubernetes.cluster().token.authenticated = Some(false);
    world.object.send_replace(Some(Err(DriverProblem::Tokens)));
    let mut without_token = request();
    without_token.secrets.clear();
    call(&world, without_token).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_volume_with_other_attributes_is_left_alone_and_the_error_is_not_final() {
    let world = published().await;
    for other in [request_for("tools/git"), request_for("")] {
        let result = call(&world, other).await;
        assert_eq!(result, Err(PublishError::OtherVolume));
        assert!(mounted(&world));
    }
}
