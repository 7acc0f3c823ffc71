//! What was said already, so that a kubelet that tries again for hours writes one event and no more.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::{kubernetes::Word, volume::ConnectorKey};

/// What is forgotten is said a second time, which does no harm.
pub(crate) const REMEMBERED: usize = 1024;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    /// What is said.
    pub(crate) word: Word,
    /// To which pod.
    pub(crate) pod_uid: String,
    /// About which connector.
    pub(crate) connector: ConnectorKey,
    /// About which request; another one is news.
    pub(crate) request_uid: String,
}

/// The latest topics.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    topics: HashSet<Topic>,
    order: VecDeque<Topic>,
}

impl Told {
    /// Whether this is news; afterwards it is not.
    pub(crate) fn is_news(&self, topic: Topic) -> bool {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !latest.topics.insert(topic.clone()) {
            return false;
        }
        latest.order.push_back(topic);
        if latest.order.len() > REMEMBERED
            && let Some(oldest) = latest.order.pop_front()
        {
            latest.topics.remove(&oldest);
        }
        true
    }

    /// How many topics are remembered.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Latest { topics, order } = &*latest;
        topics.len().max(order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(request_uid: &str) -> Topic {
        Topic {
            word: Word::Denied,
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
        let told = Told::default();
        assert!(told.is_news(topic("a")));
        assert!(!told.is_news(topic("a")));
        assert!(told.is_news(topic("b")));
        let other = Topic {
            word: Word::Revoked,
            ..topic("a")
        };
        assert!(told.is_news(other));
    }

    #[test]
    fn the_memory_has_an_end() {
        let told = Told::default();
        for n in 0..=REMEMBERED {
            assert!(told.is_news(topic(&n.to_string())));
        }
        let latest = told.0.lock().unwrap();
        assert_eq!(
            (latest.topics.len(), latest.order.len()),
            (REMEMBERED, REMEMBERED)
        );
        drop(latest);
        assert!(told.is_news(topic("0")));
    }
}
