//! What the driver must know before it serves: the feature switch, and its own driver object.
//!
//! Both are `None` until they were read once. The switch then keeps its last known value whatever
//! happens to the `ConfigMap`; the driver object is read until it is right.

use std::time::Duration;

use connectors_api::config::{CONFIG_MAP, Knowledge};
use futures::StreamExt;
use k8s_openapi::api::{core::v1::ConfigMap, storage::v1::CSIDriver};
use kube::{
    Api, Client,
    runtime::watcher::{Config, Event},
};
use service_kit::{
    readiness::Part,
    shutdown::Stop,
    watches::{Guarded, Plain, Watch, WatchMetrics},
};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::{
    error::DriverProblem,
    kubernetes::{Kubernetes, Lookup},
    metrics::SwitchMetrics,
    volume::AUDIENCE,
};

#[cfg(test)]
mod tests;

/// Whether mounts are gated.
pub(crate) type Switch = watch::Receiver<Option<bool>>;
/// Whether the driver object is right.
pub(crate) type DriverObject = watch::Receiver<Option<Result<(), DriverProblem>>>;

/// How often a driver object is looked at that is wrong or cannot be read.
const AGAIN: Duration = Duration::from_secs(10);

/// Follows the `ConfigMap` until it is time to stop.
pub(crate) async fn follow_config(
    client: Client,
    namespace: String,
    switch: watch::Sender<Option<bool>>,
    ready: Part,
    metrics: (WatchMetrics, SwitchMetrics),
    stop: Stop,
) {
    let (watched, told) = metrics;
    let api: Api<Guarded<ConfigMap, Plain>> = Api::namespaced(client, &namespace);
    let watch = Watch {
        name: "configuration",
        config: Config::default().fields(&format!("metadata.name={CONFIG_MAP}")),
        // A list without the ConfigMap is complete and says nothing.
        ready: None,
        metrics: &watched,
    };
    let mut events = std::pin::pin!(watch.start(api));
    let mut knowledge = Knowledge::default();
    let mut ready = Some(ready);
    loop {
        let event = tokio::select! {
            () = stop.stopped() => return,
            event = events.next() => event,
        };
        match event {
            Some(Event::Apply(object) | Event::InitApply(object)) => {
                told.present(true);
                learn(&mut knowledge, &object);
            }
            Some(Event::Delete(_)) => {
                told.present(false);
                warn!("ConfigMap {CONFIG_MAP} is gone; the last known values hold");
            }
            Some(Event::Init | Event::InitDone) => {}
            // The watch has no end; without it the last known values hold.
            None => return stop.stopped().await,
        }
        let Some(config) = knowledge.config() else {
            continue;
        };
        told.enabled(config.enabled);
        let changed = switch.send_if_modified(|known| known.replace(config.enabled) != *known);
        if changed {
            info!(enabled = config.enabled, "approval of mounts");
        }
        if let Some(ready) = ready.take() {
            ready.ready();
        }
    }
}

fn learn(knowledge: &mut Knowledge, object: &Guarded<ConfigMap, Plain>) {
    // What cannot be read was logged by the watch, and changes nothing.
    let Ok(config) = &object.object else { return };
    for problem in knowledge.learn(&config.data.clone().unwrap_or_default()) {
        warn!(%problem, "configuration");
    }
}

/// Reads the driver object until it is right.
pub(crate) async fn check_driver<K: Kubernetes>(
    kubernetes: &K,
    name: &str,
    object: &watch::Sender<Option<Result<(), DriverProblem>>>,
) {
    loop {
        let verdict = match kubernetes.driver(name).await {
            Ok(Lookup::Found(driver)) => judge(&driver),
            Ok(Lookup::Absent) => Err(DriverProblem::Absent),
            Ok(Lookup::Unreadable) => Err(DriverProblem::Unreadable),
            Err(_) => {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        object.send_replace(Some(verdict));
        match verdict {
            Ok(()) => return,
            Err(problem) => error!(name, %problem, "the CSIDriver object"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What a pod could lie about if the driver object were another.
fn judge(driver: &CSIDriver) -> Result<(), DriverProblem> {
    let spec = &driver.spec;
    if spec.pod_info_on_mount != Some(true) {
        return Err(DriverProblem::PodInfo);
    }
    let modes = spec.volume_lifecycle_modes.as_deref().unwrap_or_default();
    if modes != ["Ephemeral"] {
        return Err(DriverProblem::Lifecycle);
    }
    let tokens = spec.token_requests.as_deref().unwrap_or_default();
    if !tokens.iter().any(|request| request.audience == AUDIENCE) {
        return Err(DriverProblem::Tokens);
    }
    Ok(())
}
