//! The progress of a request, as the API server reports it.

use std::pin::pin;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use futures::TryStreamExt;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::place::Place;

/// How long something may take that is not measured. The services may have lost their API server a moment ago.
const PATIENCE: Duration = Duration::from_mins(3);
/// A request that does not change for so long is not worked on.
const CALM: Duration = Duration::from_millis(250);

/// Watches requests of one namespace, in a thread of its own.
pub(crate) struct Follower {
    client: Client,
    namespace: String,
    runtime: Runtime,
}

/// One request, watched until this is dropped.
pub(crate) struct Followed {
    told: Receiver<Told>,
    watch: JoinHandle<()>,
}

/// A request as it was told, and when.
pub(crate) struct Told {
    pub(crate) at: Instant,
    pub(crate) request: AccessRequest,
    is_gone: bool,
}

impl Follower {
    pub(crate) fn of(place: &Place) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            client: runtime.block_on(place.client()),
            namespace: place.namespace.clone(),
            runtime,
        }
    }

    /// Follows a request from the version on that was stored a moment ago.
    pub(crate) fn follow(&self, stored: &AccessRequest) -> Followed {
        self.follow_from(stored, stored.resource_version().unwrap())
    }

    /// Follows a request from its present state on. The API server may not know the version any more that was stored.
    pub(crate) fn follow_from_now(&self, stored: &AccessRequest) -> Followed {
        self.follow_from(stored, "0".to_owned())
    }

    fn follow_from(&self, stored: &AccessRequest, version: String) -> Followed {
        let requests = Api::<AccessRequest>::namespaced(self.client.clone(), &self.namespace);
        let only = format!("metadata.name={}", stored.name_any());
        let only = WatchParams::default().fields(&only);
        let (sender, told) = channel();
        let watch = self.runtime.spawn(async move {
            let events = requests.watch(&only, &version).await.unwrap();
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await.unwrap() {
                let at = Instant::now();
                let (request, is_gone) = match event {
                    WatchEvent::Added(request) | WatchEvent::Modified(request) => (request, false),
                    WatchEvent::Deleted(request) => (request, true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) => panic!("the watch ends: {error:?}"),
                };
                let told = Told {
                    at,
                    request,
                    is_gone,
                };
                if sender.send(told).is_err() {
                    return;
                }
            }
        });
        Followed { told, watch }
    }
}

impl Followed {
    /// Waits until the request is as it is to be.
    pub(crate) fn until(&self, what: &str, accepts: impl Fn(&AccessRequest) -> bool) -> Told {
        self.await_told(what, |told| !told.is_gone && accepts(&told.request))
    }

    /// Waits until the request has its grant.
    pub(crate) fn until_granted(&self) -> Told {
        self.until("that is granted", |it| {
            it.status.as_ref().and_then(|it| it.phase) == Some(Phase::Granted)
        })
    }

    pub(crate) fn until_gone(&self) {
        self.await_told("that is gone", |told| told.is_gone);
    }

    /// Waits until the request has no more changes.
    pub(crate) fn until_calm(&self) {
        while self.told.recv_timeout(CALM).is_ok() {}
    }

    fn await_told(&self, what: &str, accepts: impl Fn(&Told) -> bool) -> Told {
        let mut last = None;
        loop {
            match self.told.recv_timeout(PATIENCE) {
                Ok(told) if accepts(&told) => return told,
                Ok(told) => last = Some(told.request),
                Err(error) => panic!("no request {what}: {error}; last seen: {last:?}"),
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
