//! Connectors and classes that were read a moment ago. The kubelet's calls for the volumes of a pod, or of pods that
//! started together, do not read the same objects again.
//!
//! A first mount never uses it: its content was read during that very call.

use std::{sync::Arc, time::Duration};

use connectors_api::{Connector, ConnectorClass, ConnectorKey};
use serde::Serialize;
use service_kit::cache::{Bounds, Cache};

/// The maximum age of an object for the renewal of a volume: much less than the time between two calls for a volume, so
/// that nearly each change is delivered by the first call after it.
pub(crate) const AGE: Duration = Duration::from_secs(10);
/// The objects of a node with many pods. Further objects are read again.
const BOUNDS: Bounds = Bounds {
    entries: 512,
    bytes: 16 << 20,
    age: Some(AGE),
};

/// The latest objects.
#[derive(Debug)]
pub(crate) struct ToolCache {
    connectors: Cache<ConnectorKey, Arc<Connector>>,
    classes: Cache<String, Arc<ConnectorClass>>,
}

impl Default for ToolCache {
    fn default() -> Self {
        Self {
            connectors: Cache::new(BOUNDS),
            classes: Cache::new(BOUNDS),
        }
    }
}

impl ToolCache {
    /// How many objects are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.connectors.size().0 + self.classes.size().0
    }

    /// A connector.
    pub(crate) fn connector(&self, key: &ConnectorKey) -> Option<Arc<Connector>> {
        self.connectors.get(key)
    }

    /// A class.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<ConnectorClass>> {
        self.classes.get(name)
    }

    /// Keeps a connector that was just read.
    pub(crate) fn put_connector(&self, key: &ConnectorKey, connector: &Arc<Connector>) {
        let bytes = weight(connector.as_ref());
        self.connectors
            .put(key.clone(), Arc::clone(connector), bytes);
    }

    /// Keeps a class that was just read.
    pub(crate) fn put_class(&self, name: &str, class: &Arc<ConnectorClass>) {
        let bytes = weight(class.as_ref());
        self.classes.put(name.to_owned(), Arc::clone(class), bytes);
    }
}

/// A tree takes several times the bytes of its text.
fn weight(object: &impl Serialize) -> usize {
    serde_json::to_string(object).map_or(usize::MAX / 2, |text| text.len() * 4)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::key;

    fn connector(notes: usize) -> Arc<Connector> {
        let connector = json!({
            "metadata": {"name": "harbor", "annotations": {"note": "x".repeat(notes)}},
            "spec": {"connectorClassName": "oci"},
        });
        Arc::new(serde_json::from_value(connector).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_kept_for_ten_seconds_however_often_it_is_used() {
        let cache = ToolCache::default();
        let key = key("tools/harbor");
        cache.put_connector(&key, &connector(0));
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(cache.connector(&key).is_some());
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(cache.connector(&key).is_none());
    }

    #[test]
    fn the_memory_has_an_end() {
        let cache = ToolCache::default();
        for number in 0..2_000 {
            cache.put_connector(&key(&format!("tools/c{number}")), &connector(20_000));
        }
        let (entries, bytes) = cache.connectors.size();
        assert!(entries <= 512 && bytes <= 16 << 20, "{entries} {bytes}");
        assert!(entries * 4 * 20_000 <= bytes, "{entries} {bytes}");
    }
}
