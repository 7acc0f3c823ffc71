//! The settings of the running installation. They decide nothing here. Answers report whether mounts are gated, and
//! explanations the requesters for policies that name none.

use std::sync::Arc;

use connectors_api::config::{CONFIG_MAP, Knowledge};
use service_kit::config_map::{self, ConfigMapState};
use service_kit::shutdown::Tasks;
use tracing::{info, warn};

use super::follow::Follow;
use super::{Shared, WorldChange};
use crate::metrics::Metrics;

impl Follow<'_> {
    /// Follows the `ConfigMap`. The service is not ready before its switch was known once.
    pub(super) fn start_configuration(&self, tasks: &mut Tasks) {
        let (client, watches) = (self.client.clone(), self.watches.clone());
        let (shared, metrics) = (Arc::clone(self.shared), self.metrics.clone());
        let mut ready = Some(self.readiness.part("configuration"));
        let (namespace, stop) = (self.namespace.to_owned(), tasks.stop());
        tasks.spawn_infallible("configuration", async move {
            let mut knowledge = Knowledge::default();
            let hear = |heard| {
                take(&shared, &metrics, &mut knowledge, heard);
                if knowledge.config().is_some()
                    && let Some(ready) = ready.take()
                {
                    ready.ready();
                }
            };
            config_map::follow(client, &namespace, CONFIG_MAP, &watches, &stop, hear).await;
        });
    }
}

/// Unreadable or invalid settings change nothing.
fn take(shared: &Shared, metrics: &Metrics, knowledge: &mut Knowledge, heard: ConfigMapState) {
    metrics
        .config_present
        .set((heard != ConfigMapState::Gone).into());
    let ConfigMapState::Data(data) = heard else {
        return;
    };
    for problem in knowledge.learn(&data) {
        warn!(%problem, "configuration");
    }
    let (config, keys) = (knowledge.config(), knowledge.namespace_keys());
    let (is_known, are_known) = {
        let world = shared.read();
        (world.config == config, world.namespace_keys == *keys)
    };
    if !are_known {
        // Only explanations depend on it, and no task waits for these.
        shared.change(|world| {
            world.namespace_keys = Arc::clone(keys);
            Vec::new()
        });
    }
    let Some(known) = config.filter(|_| !is_known) else {
        return;
    };
    metrics.enabled.set(known.enabled.into());
    info!(?config, "configuration");
    shared.change(|world| {
        world.config = config;
        vec![WorldChange::Everything]
    });
}

#[cfg(test)]
mod tests {
    use connectors_api::NamespaceKeys;
    use connectors_api::config::{
        DEFAULT_REQUESTERS, DefaultRequesters, ENABLE, NAMESPACE_SELECTOR_KEYS,
    };
    use evaluation_api::access::Gating;
    use prometheus::Registry;

    use super::*;

    struct Told {
        shared: Shared,
        metrics: Metrics,
        knowledge: Knowledge,
    }

    impl Told {
        fn new() -> Self {
            Self {
                shared: Shared::default(),
                metrics: Metrics::register(&Registry::new()).unwrap(),
                knowledge: Knowledge::default(),
            }
        }

        fn hear(&mut self, heard: ConfigMapState) -> (Gating, DefaultRequesters) {
            take(&self.shared, &self.metrics, &mut self.knowledge, heard);
            let world = self.shared.read();
            (world.gating(), world.default_requesters())
        }
    }

    fn data(entries: &[(&str, &str)]) -> ConfigMapState {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        ConfigMapState::Data(entries.iter().map(owned).collect())
    }

    #[test]
    fn the_last_known_values_hold() {
        use DefaultRequesters::{Any, Namespace};
        let mut told = Told::new();
        assert_eq!(told.metrics.enabled.get(), None);
        for (heard, expected) in [
            (ConfigMapState::Gone, (Gating::Unknown, Namespace)),
            (data(&[]), (Gating::Unknown, Namespace)),
            (data(&[(ENABLE, "on")]), (Gating::Unknown, Namespace)),
            (data(&[(ENABLE, "false")]), (Gating::Off, Namespace)),
            (
                data(&[(ENABLE, "true"), (DEFAULT_REQUESTERS, "Any")]),
                (Gating::On, Any),
            ),
            (
                data(&[(ENABLE, "of"), (DEFAULT_REQUESTERS, "any")]),
                (Gating::On, Any),
            ),
            (ConfigMapState::Unreadable, (Gating::On, Any)),
            (ConfigMapState::Gone, (Gating::On, Any)),
            (data(&[]), (Gating::On, Namespace)),
        ] {
            assert_eq!(told.hear(heard.clone()), expected, "{heard:?}");
        }
        assert_eq!(told.metrics.enabled.get(), Some(1.0));
    }

    #[test]
    fn an_unreadable_config_map_is_present_and_a_deleted_one_is_not() {
        let mut told = Told::new();
        for (heard, expected) in [
            (data(&[]), 1),
            (ConfigMapState::Gone, 0),
            (ConfigMapState::Unreadable, 1),
        ] {
            told.hear(heard);
            assert_eq!(told.metrics.config_present.get(), expected);
        }
    }

    #[test]
    fn the_keys_of_namespaces_follow_the_configuration() {
        let mut told = Told::new();
        for (keys, expected) in [
            (r#"["project"]"#, r#"["project"]"#),
            ("no list", r#"["project"]"#),
            ("[]", "[]"),
        ] {
            told.hear(data(&[(ENABLE, "true"), (NAMESPACE_SELECTOR_KEYS, keys)]));
            let expected = NamespaceKeys::parse(expected).unwrap();
            assert_eq!(*told.shared.read().namespace_keys, expected, "{keys}");
        }
    }

    #[test]
    fn only_a_change_is_news_and_then_to_every_question() {
        let mut told = Told::new();
        let changes = told.shared.changes().of_everything();
        told.hear(data(&[]));
        assert_eq!(changes.try_recv(), []);
        for word in ["true", "false"] {
            for _ in 0..2 {
                told.hear(data(&[(ENABLE, word)]));
            }
            assert_eq!(changes.try_recv(), [WorldChange::Everything]);
            assert_eq!(changes.try_recv(), []);
        }
    }
}
