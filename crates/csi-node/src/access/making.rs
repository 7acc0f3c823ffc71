//! The request that a case makes when there is none.
//!
//! A request costs the owner of the connector's namespace something. So it is made only by a call that has room
//! to wait, within the pod's share, and in another namespace than the pod's only where a policy could accept it.

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

/// Between two tries while the namespace of the connector takes no more requests.
const QUOTA_PAUSE: Duration = Duration::from_secs(30);

/// What an attempt to have a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is there, or was there a moment ago.
    There,
    /// It leads nowhere, so that there is none.
    Nowhere,
    /// The quota of its namespace is used up until this moment, or longer.
    QuotaFull(Instant),
    /// An old one is on its way out.
    Blocked,
    /// The API server gave no answer.
    NoAnswer,
    /// The API server or one of its webhooks will not have it.
    Refused,
    /// Another request has its name.
    Squatted,
    /// The pod asked for as much as a pod may ask for.
    TooMany(HoldQuotaFull),
}

/// The request of one case.
pub(super) struct Making<'a, K> {
    kubernetes: &'a K,
    asked: &'a RequestQuota,
    wish: &'a Wish,
    connector: &'a ConnectorKey,
    /// The request that we would make.
    ours: AccessRequest,
    /// It was made, or need not be.
    made: bool,
    /// The namespace takes none before that moment.
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

    /// One that was seen is gone, and somebody wants a new start.
    pub(super) const fn again(&mut self) {
        self.made = false;
    }

    /// Makes the request once per call.
    pub(super) async fn ensure(&mut self, requestable: Requestable) -> Attempt {
        if self.made {
            return Attempt::There;
        }
        // What leads nowhere is waited for as well, and followed.
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
            // Without a namespace there is no connector, and a missing connector is waited for.
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

    /// Of a connector at home the request itself tells what is missing.
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

    /// Something has the name of our request. It is ours if it says the same.
    async fn meet(&mut self) -> Attempt {
        let name = self.ours.metadata.name.as_deref().unwrap_or_default();
        let namespace = &self.connector.namespace;
        match self.kubernetes.request(namespace, name).await {
            Err(_) => Attempt::NoAnswer,
            Ok(Lookup::Unreadable) => Attempt::Squatted,
            Ok(Lookup::Absent) => Attempt::Blocked,
            Ok(Lookup::Found(found)) if !asks_the_same(&found, &self.ours) => Attempt::Squatted,
            // On its way out: a new one can be made when it is gone.
            Ok(Lookup::Found(found)) if found.metadata.deletion_timestamp.is_some() => {
                Attempt::Blocked
            }
            Ok(Lookup::Found(_)) => self.there(Attempt::There),
        }
    }
}
