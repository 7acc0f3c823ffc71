//! Objects for explanations that no cache contains: read from the API server on demand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use connectors_api::AccessRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use service_kit::gets;
use service_kit::retry::{Backoff, RetryPolicy};
use service_kit::watches::Guarded;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::Refused;
use crate::world::Strict;

/// Reads at the same time.
const READS: usize = 16;
/// The time that a read waits for its turn.
const PLACE: Duration = Duration::from_secs(2);
const POLICY: RetryPolicy = RetryPolicy {
    attempts: 2,
    attempt: Duration::from_secs(2),
    total: Duration::from_secs(4),
    pauses: Backoff::new(Duration::from_millis(50), Duration::from_millis(500)),
};

type LiveRead = Guarded<AccessRequest, Strict>;

/// Reads single objects. Clones share their turns.
#[derive(Clone)]
pub struct Live {
    client: Client,
    places: Arc<Semaphore>,
}

impl Live {
    /// A reader without reads so far.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            places: Arc::new(Semaphore::new(READS)),
        }
    }

    /// The labels of a service account. None when it does not exist.
    pub(crate) async fn account_labels(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Refused> {
        let _place = self.place().await?;
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let found = POLICY
            .call("read the metadata of a ServiceAccount", || {
                gets::find_metadata(&api, name)
            })
            .await;
        let found = found.map_err(Refused::NoReview)?;
        Ok(found.map(|found| found.metadata.labels.unwrap_or_default()))
    }

    /// A whole request. None when there is none that can be read.
    pub(crate) async fn request(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<AccessRequest>, Refused> {
        let _place = self.place().await?;
        let api = Api::<LiveRead>::namespaced(self.client.clone(), namespace);
        let found = POLICY
            .call("read an AccessRequest", || gets::find(&api, name))
            .await;
        let found = found.map_err(Refused::NoReview)?;
        Ok(found.and_then(|found| found.object.ok()))
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refused> {
        let place = timeout(PLACE, self.places.acquire()).await;
        place
            .map_err(|_| Refused::TooManyReviews)?
            .map_err(|_| Refused::Internal)
    }
}
