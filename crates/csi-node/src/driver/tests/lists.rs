//! Volumes with one connector, a few, and as many as a volume may have: the last counts like the first.

use super::*;

/// Sizes, and the places in them at which something is different.
fn sizes() -> impl Iterator<Item = (usize, usize)> {
    [1, 2, 3, 15, 16].into_iter().flat_map(|size| {
        let mut at = vec![0, size / 2, size - 1];
        at.dedup();
        at.into_iter().map(move |at| (size, at))
    })
}

fn name(number: usize) -> String {
    format!("tools/c{number}")
}

/// A volume with so many connectors, which all exist and are all granted.
fn world_of(size: usize) -> (World, NodePublishVolumeRequest) {
    let world = World::new();
    let names: Vec<_> = (0..size).map(name).collect();
    for name in &names {
        let key = key(name);
        let object = serde_json::json!({
            "metadata": {"namespace": key.namespace, "name": key.name},
            "spec": {"connectorClassName": "oci", "address": format!("https://{}", key.name)},
        });
        let connector = serde_json::from_value(object).unwrap();
        world
            .kubernetes
            .cluster()
            .connectors
            .insert(name.clone(), connector);
        world.evaluator.says(name, Some(granted()));
    }
    (world, request_for(&names.join(",")))
}

#[tokio::test(start_paused = true)]
async fn mounts_only_when_every_connector_of_the_list_is_allowed() {
    for (size, at) in sizes() {
        let (world, request) = world_of(size);
        let waits = denied(Phase::Pending, Ready::ChecksPending);
        world.evaluator.says(&name(at), Some(waits));
        let result = call(&world, request.clone()).await;
        assert_eq!(code(&result), Code::PermissionDenied, "{at} of {size}");
        assert!(text(&result).contains(&name(at)), "{at} of {size}");
        world.evaluator.says(&name(at), Some(granted()));
        call(&world, request).await.unwrap();
        let written: Vec<_> = {
            let node = world.mounter.node();
            let names = node.facts.iter();
            names.map(|facts| facts.connector.to_string()).collect()
        };
        assert_eq!(written, (0..size).map(name).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn empties_when_access_to_any_connector_of_the_list_ended_and_refills_when_all_is_back() {
    for (size, at) in sizes() {
        let (world, request) = world_of(size);
        call(&world, request.clone()).await.unwrap();
        let over = denied(Phase::Revoked, Ready::CheckLapsed);
        world.evaluator.says(&name(at), Some(over));
        call(&world, request.clone()).await.unwrap();
        assert!(!mounted(&world), "{at} of {size}");
        world.evaluator.says(&name(at), Some(granted()));
        call(&world, request).await.unwrap();
        assert!(mounted(&world), "{at} of {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn fails_when_any_connector_of_the_list_is_gone_or_being_deleted() {
    for (size, at) in sizes() {
        for being_deleted in [false, true] {
            let (world, request) = world_of(size);
            {
                let connectors = &mut world.kubernetes.cluster().connectors;
                if being_deleted {
                    let connector = connectors.get_mut(&name(at)).unwrap();
                    connector.metadata.deletion_timestamp =
                        serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
                } else {
                    connectors.remove(&name(at));
                }
            }
            let result = call(&world, request).await;
            assert_eq!(code(&result), Code::PermissionDenied, "{at} of {size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asks_for_every_connector_of_the_list_that_is_missing() {
    for (size, _) in sizes() {
        let (world, request) = world_of(size);
        for number in 0..size {
            world.evaluator.says(&name(number), Some(no_request()));
        }
        let result = call(&world, request).await;
        assert_eq!(code(&result), Code::PermissionDenied);
        assert_eq!(world.kubernetes.cluster().requests.len(), size);
    }
}
