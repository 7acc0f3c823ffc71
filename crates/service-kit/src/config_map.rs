//! One `ConfigMap`, followed by its name.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::watcher::{Config, Event},
};
use tracing::warn;

use crate::{
    shutdown::Stop,
    watches::{Guarded, Plain, Watch, WatchMetrics},
};

/// A state of a `ConfigMap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigMapState {
    /// It holds this now.
    Data(BTreeMap<String, String>),
    /// It exists and cannot be read.
    Unreadable,
    /// It is not there.
    Gone,
}

/// Follows the `ConfigMap` until it is time to stop. Its absence is reported once.
pub async fn follow(
    client: Client,
    namespace: &str,
    name: &str,
    metrics: &WatchMetrics,
    stop: &Stop,
    mut hear: impl FnMut(ConfigMapState),
) {
    let api: Api<Guarded<ConfigMap, Plain>> = Api::namespaced(client, namespace);
    let watch = Watch {
        name: "configuration",
        config: Config::default().fields(&format!("metadata.name={name}")),
        // The caller decides when it is ready.
        ready: None,
        metrics,
    };
    let mut events = std::pin::pin!(watch.start(api));
    let mut is_listed = false;
    // None before the first list.
    let mut is_there: Option<bool> = None;
    loop {
        let event = tokio::select! {
            () = stop.stopped() => return,
            event = events.next() => event,
        };
        match event {
            Some(Event::Init) => is_listed = false,
            Some(Event::Apply(object) | Event::InitApply(object)) => {
                (is_listed, is_there) = (true, Some(true));
                // The watch has logged an unreadable object.
                hear(object.object.map_or(ConfigMapState::Unreadable, |map| {
                    ConfigMapState::Data(map.data.unwrap_or_default())
                }));
            }
            // It may have been deleted while the watch was interrupted.
            Some(Event::InitDone) if !is_listed && is_there != Some(false) => {
                if is_there.replace(false).is_some() {
                    warn!("ConfigMap {name} is gone; the last known values hold");
                }
                hear(ConfigMapState::Gone);
            }
            Some(Event::InitDone) => {}
            Some(Event::Delete(_)) => {
                is_there = Some(false);
                warn!("ConfigMap {name} is gone; the last known values hold");
                hear(ConfigMapState::Gone);
            }
            // The watch has no end.
            None => return stop.stopped().await,
        }
    }
}

#[cfg(test)]
mod tests;
