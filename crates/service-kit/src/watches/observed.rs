//! The events of one watch, counted and logged on their way to a cache.

use std::collections::BTreeSet;

use kube::{Resource, ResourceExt, runtime::watcher::Event};
use prometheus::{IntCounter, IntGauge};
use tracing::warn;

use super::Guarded;
use crate::families;

families! {
    /// The metrics of watch failures.
    ///
    /// Objects have no name in metrics: their authors could otherwise grow the metrics. The log names them.
    pub struct WatchMetrics {
        restarts: counters(
            "connectors_watch_restarts_total", "Lists and watches that failed and were started again", &["watch"]
        ),
        unreadable: gauges("connectors_watch_unreadable_objects", "Objects that are there and cannot be read", &["watch"]),
    }
}

impl WatchMetrics {
    pub(super) fn observe(&self, watch: &str) -> ObservedWatch {
        ObservedWatch {
            watch: watch.to_owned(),
            restarts: self.restarts.with_label_values(&[watch]),
            gauge: self.unreadable.with_label_values(&[watch]),
            unreadable: BTreeSet::new(),
        }
    }
}

/// The troubles of one watch.
pub(super) struct ObservedWatch {
    watch: String,
    restarts: IntCounter,
    gauge: IntGauge,
    unreadable: BTreeSet<(Option<String>, String)>,
}

/// An ended watch says nothing about its objects.
impl Drop for ObservedWatch {
    fn drop(&mut self) {
        self.gauge.set(0);
    }
}

impl ObservedWatch {
    pub(super) fn restart(&self) {
        self.restarts.inc();
    }

    pub(super) fn event<K: Resource, P>(&mut self, event: &Event<Guarded<K, P>>) {
        match event {
            Event::Init => self.unreadable.clear(),
            Event::InitApply(object) | Event::Apply(object) => self.object(object),
            Event::Delete(object) => {
                self.unreadable.remove(&key(object));
            }
            // Only now the set is whole again.
            Event::InitDone => {}
        }
        if !matches!(event, Event::Init | Event::InitApply(_)) {
            self.gauge
                .set(self.unreadable.len().try_into().unwrap_or(i64::MAX));
        }
    }

    fn object<K: Resource, P>(&mut self, object: &Guarded<K, P>) {
        let key = key(object);
        match &object.object {
            Ok(_) => {
                self.unreadable.remove(&key);
            }
            Err(unreadable) => {
                let (namespace, name) = (key.0.as_deref().unwrap_or_default(), &key.1);
                let problem = &unreadable.problem;
                warn!(
                    watch = self.watch,
                    namespace, name, problem, "object cannot be read"
                );
                self.unreadable.insert(key);
            }
        }
    }
}

fn key(object: &impl Resource) -> (Option<String>, String) {
    (object.meta().namespace.clone(), object.name_any())
}
