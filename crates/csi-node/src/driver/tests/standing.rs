//! A standing permission that comes, and goes, while a mount waits.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_standing_permission_that_comes_while_a_mount_waits_lets_it_through() {
    let world = World::new();
    let call = held(&world).await;
    let waits = denied(Phase::Pending, Ready::ChecksPending);
    world.evaluator.says("tools/harbor", Some(waits));
    sleep(Duration::from_mins(1)).await;
    world.kubernetes.cluster().standing = true;
    let before = Instant::now();
    world.evaluator.says("tools/harbor", Some(standing()));
    call.await.unwrap().unwrap();
    assert!(mounted(&world));
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(calls(&world, "create"), 1);
    // Access does not come from the request.
    assert_eq!(world.mounter.node().facts[0].request, "");
}

/// The standing permission that ended the request went before the volume was mounted.
#[tokio::test(start_paused = true)]
async fn a_request_that_makes_way_is_waited_out_and_made_anew() {
    let world = World::new();
    let ended = denied(Phase::Ended, Ready::StandingPermission);
    world.evaluator.says("tools/harbor", Some(ended));
    let call = held(&world).await;
    sleep(Duration::from_mins(1)).await;
    assert!(!call.is_finished());
    assert_eq!(calls(&world, "create"), 0);
    world.evaluator.says("tools/harbor", Some(no_request()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls(&world, "create"), 1);
    world.evaluator.says("tools/harbor", Some(granted()));
    call.await.unwrap().unwrap();
    assert_eq!(told(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_outlasts_its_wait_for_a_request_that_makes_way_is_told_more_at_home_alone() {
    for (connector, says) in [
        ("tools/harbor", "no access is granted to this pod yet"),
        (
            "shop/own",
            "the standing permission that ended the last request is gone; that request goes within a minute, then a new one is made",
        ),
    ] {
        let world = World::new();
        let ended = denied(Phase::Ended, Ready::StandingPermission);
        world.evaluator.says(connector, Some(ended));
        let name = connector.strip_prefix("shop/").unwrap_or(connector);
        let result = call(&world, request_for(name)).await;
        assert_eq!(code(&result), Code::PermissionDenied);
        assert_eq!(text(&result), format!("connector {connector}: {says}"));
        assert_eq!(told(&world), []);
    }
}
