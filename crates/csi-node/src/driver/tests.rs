//! One call after another against a world of fakes, with a clock that stands still until everybody waits.

mod away;
mod calls;
mod churn;
mod deliver;
mod flood;
mod gate;
mod lapses;
mod lists;
mod memory;
mod reject;
mod republish;
mod standing;
mod switched;
mod unchanged;

use std::{sync::Arc, time::Duration};

use connectors_api::{
    AccessRequest,
    access_request::{AccessRequestStatus, Phase},
    reason::Ready,
};
use evaluation_api::access::Requestable;
use futures::poll;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::*;
use crate::{
    error::{DriverProblem, is_final},
    kubernetes::{Created, EventWord, Lookup},
    testing::{
        OFF, ON, World, denied, granted, key, no_request, no_request_and, place, request,
        request_for, standing, wish,
    },
};

type Result_ = Result<(), PublishError>;

/// The call of the usual pod, answered as if the kubelet waited its two minutes.
async fn publish(world: &World) -> Result_ {
    call(world, request()).await
}

async fn call(world: &World, request: NodePublishVolumeRequest) -> Result_ {
    let result = world
        .driver
        .publish(request, Some(Duration::from_mins(2)))
        .await;
    check_invariant(world, &result);
    result
}

/// What the kubelet relies on, after every call of every test.
fn check_invariant(world: &World, result: &Result_) {
    let node = world.mounter.node();
    let found = node.found.get(&place("tool"));
    match result {
        Ok(()) => assert!(
            matches!(
                found,
                Some(OnDisk::Published(_) | OnDisk::Emptied(_) | OnDisk::Rejected(_))
            ),
            "published: {found:?}"
        ),
        Err(error) if is_final(error.code()) => assert_eq!(found, None, "{error}"),
        Err(_) => {}
    }
}

fn mounted(world: &World) -> bool {
    let node = world.mounter.node();
    matches!(node.found.get(&place("tool")), Some(OnDisk::Published(_)))
}

fn calls(world: &World, call: &str) -> usize {
    let cluster = world.kubernetes.cluster();
    cluster
        .calls
        .iter()
        .filter(|made| made.starts_with(call))
        .count()
}

/// The same of exactly this call.
fn exactly(world: &World, call: &str) -> usize {
    let cluster = world.kubernetes.cluster();
    cluster.calls.iter().filter(|made| *made == call).count()
}

/// How often something had this result.
fn counted(world: &World, family: &str, result: &str) -> f64 {
    let families = world.registry.gather();
    let family = families.iter().find(|it| it.name() == family);
    let metrics = family.map_or(&[][..], |it| it.get_metric());
    let metric = metrics
        .iter()
        .find(|it| it.get_label()[0].value() == result);
    metric.map_or(0.0, |it| it.get_counter().get_value())
}

fn told(world: &World) -> Vec<EventWord> {
    world
        .kubernetes
        .cluster()
        .told
        .iter()
        .map(|(word, _)| *word)
        .collect()
}

fn code(result: &Result_) -> Code {
    result.as_ref().unwrap_err().code()
}

fn text(result: &Result_) -> String {
    result.as_ref().unwrap_err().text()
}

/// A call that is held: it runs by itself until it is joined.
async fn held(world: &World) -> tokio::task::JoinHandle<Result_> {
    let driver = Arc::clone(&world.driver);
    let call = tokio::spawn(async move {
        driver
            .publish(request(), Some(Duration::from_mins(2)))
            .await
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!call.is_finished());
    call
}

/// The request of a pod as the API server has it in the end.
fn over(pod: &str, connector: &str, phase: Phase) -> AccessRequest {
    let mut wish = wish(&[connector]);
    pod.clone_into(&mut wish.pod.uid);
    let mut request = wish.request(&key(connector));
    request.metadata.uid = Some("r1".to_owned());
    request.status = Some(AccessRequestStatus {
        phase: Some(phase),
        ..AccessRequestStatus::default()
    });
    request
}

/// A pod is rejected, and the API server says so too.
fn rejects(world: &World, pod: &str) {
    let rejected = denied(Phase::Rejected, Ready::CheckRejected);
    world.evaluator.says("tools/harbor", Some(rejected));
    let request = over(pod, "tools/harbor", Phase::Rejected);
    world.kubernetes.cluster().found = Lookup::Found(Box::new(request));
}

fn asks_for_a_file(request: &mut NodePublishVolumeRequest) {
    let attribute = ("onRejected".to_owned(), "ErrorFile".to_owned());
    request.volume_context.extend([attribute]);
}

fn unpublish_request() -> NodeUnpublishVolumeRequest {
    NodeUnpublishVolumeRequest {
        volume_id: request().volume_id,
        target_path: request().target_path,
    }
}

async fn published() -> World {
    let world = World::new();
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    world.kubernetes.cluster().calls.clear();
    world
}
