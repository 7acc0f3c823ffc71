//! The recent events. A kubelet that retries for hours causes only one event.

use connectors_api::ConnectorKey;
use service_kit::cache::{Bounds, Cache};

use crate::kubernetes::EventWord;

/// A forgotten event is written a second time, which is harmless.
pub(crate) const MOST: usize = 1024;

/// The topic of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    /// The message.
    pub(crate) word: EventWord,
    /// The pod.
    pub(crate) pod_uid: String,
    /// The connector.
    pub(crate) connector: ConnectorKey,
    /// The request. Another request makes a new event.
    pub(crate) request_uid: String,
}

/// The latest topics.
#[derive(Debug)]
pub(crate) struct EventCache(Cache<Topic, ()>);

impl Default for EventCache {
    fn default() -> Self {
        Self(Cache::new(Bounds {
            entries: MOST,
            bytes: usize::MAX,
            age: None,
        }))
    }
}

impl EventCache {
    /// True if no event about this topic was written lately. Afterwards the event counts as written.
    pub(crate) fn is_news(&self, topic: Topic) -> bool {
        self.0.put(topic, (), 0)
    }

    /// How many topics are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.size().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(request_uid: &str) -> Topic {
        Topic {
            word: EventWord::AccessDenied,
            pod_uid: "uid-1".to_owned(),
            connector: ConnectorKey {
                namespace: "tools".to_owned(),
                name: "harbor".to_owned(),
            },
            request_uid: request_uid.to_owned(),
        }
    }

    #[test]
    fn the_same_thing_is_news_once_and_another_request_is_news_again() {
        let events = EventCache::default();
        assert!(events.is_news(topic("a")));
        assert!(!events.is_news(topic("a")));
        assert!(events.is_news(topic("b")));
        let other = Topic {
            word: EventWord::AccessRevoked,
            ..topic("a")
        };
        assert!(events.is_news(other));
    }

    #[test]
    fn the_memory_has_an_end() {
        let events = EventCache::default();
        for n in 0..=MOST {
            assert!(events.is_news(topic(&n.to_string())));
        }
        assert!((1..=MOST).contains(&events.len()), "{}", events.len());
        assert!(events.is_news(topic("0")));
    }
}
