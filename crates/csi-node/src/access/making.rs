//! The request that a case makes when there is none.
//!
//! A request costs the owner of the connector's namespace something. So only a call with room to wait makes one,
//! within the pod's share. In another namespace than the pod's it is made only if a policy could accept it.

use std::time::Duration;

use connectors_api::{AccessRequest, ConnectorKey, pod_wish::asks_the_same};
use evaluation_api::access::Requestable;
use tokio::time::Instant;

use crate::{
    hold_quota::HoldQuotaFull,
    kubernetes::{Created, Kubernetes, Lookup},
    request_quota::RequestQuota,
    volume::Wish,
};

/// The pause between two tries while the namespace of the connector accepts no more requests.
const QUOTA_PAUSE: Duration = Duration::from_secs(30);

/// The result of an attempt to get a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is there, or was there a moment ago.
    There,
    /// It would have no effect, so there is none.
    Nowhere,
    /// The quota of its namespace is used up until this moment, or longer.
    QuotaFull(Instant),
    /// An old one is being deleted.
    Blocked,
    /// The API server gave no answer.
    NoAnswer,
    /// The API server or one of its webhooks refuses it.
    Refused,
    /// Another request has its name.
    Squatted,
    /// The pod has already caused its maximum of requests.
    TooMany(HoldQuotaFull),
}

/// The request of one case.
pub(super) struct Making<'a, K> {
    kubernetes: &'a K,
    asked: &'a RequestQuota,
    wish: &'a Wish,
    connector: &'a ConnectorKey,
    /// The request that this call would make.
    ours: AccessRequest,
    /// It was made, or is not needed.
    made: bool,
    /// The namespace accepts none before this moment.
    full_until: Option<Instant>,
}

impl<'a, K: Kubernetes> Making<'a, K> {
    /// Not made yet.
    pub(super) fn new(
        kubernetes: &'a K,
        asked: &'a RequestQuota,
        wish: &'a Wish,
        connector: &'a ConnectorKey,
    ) -> Self {
        Self {
            kubernetes,
            asked,
            wish,
            connector,
            ours: wish.request(connector),
            made: false,
            full_until: None,
        }
    }

    /// A request that was seen is gone, and a user wants a new start.
    pub(super) const fn again(&mut self) {
        self.made = false;
    }

    /// Makes the request once per call.
    pub(super) async fn ensure(&mut self, requestable: Requestable) -> Attempt {
        if self.made {
            return Attempt::There;
        }
        // A call without a useful request waits as well, and follows the answers.
        let Wish {
            pod, permission, ..
        } = self.wish;
        if let Err(full) = self.asked.count(&pod.uid, self.connector, *permission) {
            return Attempt::TooMany(full);
        }
        if self.leads_nowhere(requestable) {
            return Attempt::Nowhere;
        }
        if let Some(until) = self.full_until.filter(|until| *until > Instant::now()) {
            return Attempt::QuotaFull(until);
        }
        let namespace = &self.connector.namespace;
        let Ok(created) = self.kubernetes.create_request(namespace, &self.ours).await else {
            return Attempt::NoAnswer;
        };
        match created {
            Created::Made => self.there(Attempt::There),
            // Without a namespace there is no connector. The call waits for a missing connector.
            Created::NoNamespace => self.there(Attempt::Nowhere),
            Created::QuotaFull => {
                let until = Instant::now() + QUOTA_PAUSE;
                self.full_until = Some(until);
                Attempt::QuotaFull(until)
            }
            Created::Refused => Attempt::Refused,
            Created::Exists => self.meet().await,
        }
    }

    /// In the connector's own namespace the request itself reports what is missing.
    fn leads_nowhere(&self, requestable: Requestable) -> bool {
        match requestable {
            Requestable::Yes | Requestable::Unknown => false,
            Requestable::No => !self.connector.is_home_of(&self.wish.pod),
        }
    }

    const fn there(&mut self, attempt: Attempt) -> Attempt {
        self.made = true;
        attempt
    }

    /// An object has the name of our request. It is ours if its content is the same.
    async fn meet(&mut self) -> Attempt {
        let name = self.ours.metadata.name.as_deref().unwrap_or_default();
        let namespace = &self.connector.namespace;
        match self.kubernetes.request(namespace, name).await {
            Err(_) => Attempt::NoAnswer,
            Ok(Lookup::Unreadable) => Attempt::Squatted,
            Ok(Lookup::Absent) => Attempt::Blocked,
            Ok(Lookup::Found(found)) if !asks_the_same(&found, &self.ours) => Attempt::Squatted,
            // It is being deleted. A new one can be made when it is gone.
            Ok(Lookup::Found(found)) if found.metadata.deletion_timestamp.is_some() => {
                Attempt::Blocked
            }
            Ok(Lookup::Found(_)) => self.there(Attempt::There),
        }
    }
}
