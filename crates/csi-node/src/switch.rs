//! Two inputs that the driver needs before it serves: the feature switch, and its own driver object.
//!
//! Both are `None` until they were read once. The switch then keeps its last known value, whatever happens to the
//! `ConfigMap`. The driver object is read until it is right.

use std::time::Duration;

use connectors_api::config::{CONFIG_MAP, Config, Knowledge};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Client;
use service_kit::{
    config_map::{self, ConfigMapState},
    readiness::ReadinessPart,
    shutdown::Stop,
    watches::WatchMetrics,
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

/// Whether mounts are gated, and how to treat volumes from before.
pub(crate) type Switch = watch::Receiver<Option<Config>>;
/// Whether the driver object is right.
pub(crate) type DriverObject = watch::Receiver<Option<Result<(), DriverProblem>>>;

/// The pause before a wrong or unreadable driver object is read again.
const AGAIN: Duration = Duration::from_secs(10);

/// Follows the `ConfigMap` until it is time to stop.
pub(crate) async fn follow_config(
    client: Client,
    namespace: String,
    switch: watch::Sender<Option<Config>>,
    ready: ReadinessPart,
    metrics: (WatchMetrics, SwitchMetrics),
    stop: Stop,
) {
    let (watched, told) = metrics;
    let mut knowledge = Knowledge::default();
    let mut ready = Some(ready);
    let hear = |heard| {
        told.present.set((heard != ConfigMapState::Gone).into());
        match heard {
            ConfigMapState::Data(data) => {
                for problem in knowledge.learn(&data) {
                    warn!(%problem, "configuration");
                }
            }
            ConfigMapState::Unreadable | ConfigMapState::Gone => {}
        }
        let Some(config) = knowledge.config() else {
            return;
        };
        told.enabled.set(config.enabled.into());
        let changed = switch.send_if_modified(|known| known.replace(config) != *known);
        if changed {
            let on_enable = config.on_enable.as_str();
            info!(enabled = config.enabled, on_enable, "approval of mounts");
        }
        if let Some(ready) = ready.take() {
            ready.ready();
        }
    };
    config_map::follow(client, &namespace, CONFIG_MAP, &watched, &stop, hear).await;
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

/// Refuses driver objects with which a pod could lie, or keep content.
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
    if spec.requires_republish != Some(true) {
        return Err(DriverProblem::Republish);
    }
    Ok(())
}
