//! One call of the kubelet, from its arguments to the volume.
//!
//! A call runs as a task of its own. The task has the volume's lock until the result is final. Neither a kubelet that
//! hangs up nor a panic leaves something half done behind.

mod admit;
mod deliver;
mod mount;
mod reject;
mod republish;

#[cfg(test)]
mod tests;

use std::{panic::AssertUnwindSafe, path::Path, sync::Arc, time::Duration};

use connector_files::FileConflict;
use connectors_api::config::OnEnable;
use futures::FutureExt;
use service_kit::{report, shutdown::Stop};
use thiserror::Error;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tonic::{Code, Status};
use tracing::{error, info, warn};

use mount::ToMount;

use crate::{
    caller::prove,
    content_digests::ContentDigests,
    error::{PublishError, Unreachable},
    evaluator::Evaluator,
    event_cache::EventCache,
    hold_quota::HoldQuota,
    kubernetes::Kubernetes,
    locks::{Lock, Locks},
    memory_quota::MemoryQuota,
    metrics::Metrics,
    mounter::{FoundVolume, Linux, MountError, Mounter, OnDisk},
    noted_volumes::NotedVolumes,
    proto::csi::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest},
    refused_reviews::RefusedReviews,
    request_quota::RequestQuota,
    switch::{DriverObject, Switch},
    tool_cache::ToolCache,
    volume::{PodsDir, ProxyTokens, Publish, VolumePath, VolumePathError, Wish},
};

/// The time between our answer and the kubelet's own limit, so that our text reaches the pod and not the kubelet's.
const HEAD_START: Duration = Duration::from_secs(3);
/// The pause between two tries while the API server does not answer. Each try already took its time.
const TROUBLED_PAUSE: Duration = Duration::from_secs(1);

/// The number of sets of files that are rendered at a time.
pub(crate) const RENDERS: usize = 2;

/// The settings of the driver from its start.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// This node.
    pub(crate) node: String,
    /// The folder in which volumes may appear.
    pub(crate) pods: PodsDir,
    /// How long a call may be held.
    pub(crate) hold: Duration,
    /// The pods' tokens for the proxy.
    pub(crate) proxy: ProxyTokens,
    /// How to handle a file that two classes write.
    pub(crate) conflict: FileConflict,
    /// The size of this node's pages, in bytes.
    pub(crate) page: usize,
}

/// The driver behind its socket.
pub(crate) struct Driver<E, K, M> {
    pub(crate) settings: Settings,
    pub(crate) evaluator: E,
    pub(crate) kubernetes: K,
    pub(crate) mounter: Arc<M>,
    pub(crate) switch: Switch,
    pub(crate) object: DriverObject,
    pub(crate) metrics: Metrics,
    pub(crate) stop: Stop,
    /// The quota of held calls.
    pub(crate) holds: HoldQuota,
    /// The quota of requests that were made for pods.
    pub(crate) asked: RequestQuota,
    pub(crate) events: EventCache,
    /// The standing permissions that the API server refused a moment ago.
    pub(crate) refused: RefusedReviews,
    /// The objects that were read for existing volumes.
    pub(crate) tools: ToolCache,
    /// The inputs of each volume's content, as digests.
    pub(crate) digests: ContentDigests,
    /// The quota of memory for the files of volumes.
    pub(crate) memory: MemoryQuota,
    /// The permits for rendering files, which occupies a processor.
    pub(crate) renders: Arc<Semaphore>,
    /// Volumes that were mounted while mounts were not gated. They keep their content without a permission since mounts
    /// are gated.
    pub(crate) kept: NotedVolumes<OnEnable>,
    /// Volumes whose newer content cannot be made, each with the word of the error.
    pub(crate) outdated: NotedVolumes<&'static str>,
    pub(crate) locks: Locks,
}

/// Why a volume is not removed.
#[derive(Debug, Error)]
pub(crate) enum UnpublishError {
    /// The call is invalid.
    #[error(transparent)]
    VolumePath(#[from] VolumePathError),
    /// Another call works on the same volume.
    #[error("another call for this volume is running")]
    InFlight,
    /// A part of the volume is still there.
    #[error("the volume could not be removed; the driver's log says why")]
    Stuck,
}

impl From<UnpublishError> for Status {
    fn from(error: UnpublishError) -> Self {
        let code = match error {
            UnpublishError::VolumePath(_) => Code::InvalidArgument,
            UnpublishError::InFlight => Code::Aborted,
            UnpublishError::Stuck => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// The successful ends of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// A volume was made.
    Made,
    /// A volume was made that contains only an error.
    ErrorFile,
    /// It was there, and is now as it should be.
    LookedAfter,
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    /// Makes a volume available to a pod, or looks after an existing one. `limit` is the time that the kubelet will
    /// wait.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        request: NodePublishVolumeRequest,
        limit: Option<Duration>,
    ) -> Result<(), PublishError> {
        let result = self.begin(request, limit).await;
        let word = match &result {
            Ok(Published::Made) => "made",
            Ok(Published::ErrorFile) => "error_file",
            Ok(Published::LookedAfter) => "looked_after",
            Err(error) => error.as_str(),
        };
        self.metrics.published(word);
        result.map(|_| ())
    }

    async fn begin(
        self: &Arc<Self>,
        request: NodePublishVolumeRequest,
        limit: Option<Duration>,
    ) -> Result<Published, PublishError> {
        let deadline = Instant::now() + patience(self.settings.hold, limit);
        let pods = &self.settings.pods;
        let place = pods
            .place(&request.volume_id, &request.target_path)
            .map_err(|error| PublishError::Volume(error.into()))?;
        let lock = self.locks.take(&place).ok_or(PublishError::InFlight)?;
        let driver = Arc::clone(self);
        // Dropped when the kubelet hangs up, because this future is dropped.
        let (caller, gone) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let result = driver.supervised(&place, &request, deadline, gone).await;
            drop(lock);
            result
        });
        let result = task.await.unwrap_or(Err(PublishError::Broken));
        drop(caller);
        result
    }

    /// Whatever happens inside, the answer is correct about remains of the volume.
    async fn supervised(
        &self,
        place: &VolumePath,
        request: &NodePublishVolumeRequest,
        deadline: Instant,
        gone: oneshot::Receiver<()>,
    ) -> Result<Published, PublishError> {
        let attempt = AssertUnwindSafe(self.attempt(place, request, deadline, gone));
        let result = attempt.catch_unwind().await.unwrap_or_else(|_| {
            error!(volume = place.volume_id(), "a call panicked");
            Err(PublishError::Broken)
        });
        let error = match result {
            Ok(published) => return Ok(published),
            Err(error) => error,
        };
        info!(volume = place.volume_id(), result = error.as_str(), %error, "not published");
        if error.is_final() && !self.left_nothing(place).await {
            return Err(PublishError::Left(Box::new(error)));
        }
        Err(error)
    }

    /// Removes an incomplete volume. A volume that a pod may be using is left to the kubelet.
    async fn left_nothing(&self, place: &VolumePath) -> bool {
        let cleared = self.mounting(place, |mounter, place| match mounter.look(place)? {
            OnDisk::Nothing => Ok(true),
            OnDisk::Partial => mounter.clear(place).map(|()| true),
            OnDisk::Published(_) | OnDisk::Emptied(_) | OnDisk::Rejected(_) => Ok(false),
        });
        let cleared = cleared.await.unwrap_or(false);
        if cleared {
            self.gone(place);
        }
        cleared
    }

    /// Nothing is left of a volume.
    fn gone(&self, place: &VolumePath) {
        self.kept.forget(place);
        self.outdated.forget(place);
        self.digests.forget(place);
        self.memory.forget(place);
    }

    async fn attempt(
        &self,
        place: &VolumePath,
        request: &NodePublishVolumeRequest,
        deadline: Instant,
        mut gone: oneshot::Receiver<()>,
    ) -> Result<Published, PublishError> {
        let look = self.mounting(place, M::look);
        match look.await? {
            OnDisk::Published(record) => {
                self.look_after(place, request, &record, false).await?;
                return Ok(Published::LookedAfter);
            }
            OnDisk::Emptied(record) => {
                self.look_after(place, request, &record, true).await?;
                return Ok(Published::LookedAfter);
            }
            // The error is final. No later answer fills the volume for this pod.
            OnDisk::Rejected(record) => {
                self.recognised(place, request, &record).map(drop)?;
                return Ok(Published::LookedAfter);
            }
            // A process died here. The kubelet was never told that the volume is there.
            OnDisk::Partial => {
                self.mounting(place, M::clear).await?;
                self.gone(place);
            }
            OnDisk::Nothing => {}
        }
        let Publish { wish, token, files } = Publish::parse(place, request, &self.settings.proxy)?;
        let files = files?;
        let token = token.map_err(|error| PublishError::Caller(error.into()))?;
        let work = async {
            self.object_is_right(deadline).await?;
            self.prove(&wish, &token, deadline).await?;
            let ready = match self.admit(&wish, deadline).await {
                Ok((admitted, passage)) => {
                    let made = self.content(&wish, &admitted, &files).await?;
                    ToMount::Content(admitted, passage, made)
                }
                Err(error) => ToMount::Error(self.error_file(&wish, error).await?),
            };
            Ok::<_, PublishError>(ready)
        };
        let ready = tokio::select! {
            biased;
            _ = &mut gone => return Err(PublishError::Cancelled),
            () = self.stop.stopped() => return Err(PublishError::Stopping),
            ready = work => ready?,
        };
        let published = self.mount(place, &wish, ready).await?;
        if published == Published::Made {
            self.holds_token(&files);
        }
        Ok(published)
    }

    async fn object_is_right(&self, deadline: Instant) -> Result<(), PublishError> {
        let mut object = self.object.clone();
        let known = timeout_at(deadline, object.wait_for(Option::is_some)).await;
        match known {
            Ok(Ok(known)) => match *known {
                Some(Ok(())) => Ok(()),
                Some(Err(problem)) => Err(PublishError::Driver(problem)),
                None => Err(PublishError::Starting),
            },
            Ok(Err(_)) | Err(_) => Err(PublishError::Starting),
        }
    }

    async fn prove(
        &self,
        wish: &Wish,
        token: &crate::volume::Token,
        deadline: Instant,
    ) -> Result<(), PublishError> {
        let review = async {
            loop {
                if let Ok(review) = self.kubernetes.review_token(token).await {
                    return review;
                }
                sleep(TROUBLED_PAUSE).await;
            }
        };
        let review = timeout_at(deadline, review)
            .await
            .map_err(|_| PublishError::NotProven(Unreachable::Kubernetes))?;
        prove(review, &wish.pod, &self.settings.node).map_err(PublishError::Caller)
    }

    /// Removes a volume. A missing volume counts as removed.
    pub(crate) async fn unpublish(
        self: &Arc<Self>,
        request: &NodeUnpublishVolumeRequest,
    ) -> Result<(), UnpublishError> {
        let NodeUnpublishVolumeRequest {
            volume_id,
            target_path,
        } = request;
        if volume_id.is_empty() {
            return Err(VolumePathError::NoVolumeId.into());
        }
        if target_path.is_empty() {
            return Err(VolumePathError::NoTargetPath.into());
        }
        // The id is ignored. Any object at the kubelet's own path must go.
        let Some(place) = self.settings.pods.at(Path::new(target_path)) else {
            return self.never_ours(target_path).await;
        };
        let lock: Lock = self.locks.take(&place).ok_or(UnpublishError::InFlight)?;
        let driver = Arc::clone(self);
        let id = place.volume_id();
        // The lock and the quotas go with the work, which a kubelet that hangs up does not stop.
        let cleared = tokio::task::spawn_blocking(move || {
            let cleared = driver.mounter.clear(&place);
            if cleared.is_ok() {
                driver.gone(&place);
                driver.asked.forget(place.pod_uid());
            }
            drop(lock);
            cleared
        });
        match cleared.await {
            Ok(Ok(())) => {
                info!(volume = id, "unpublished");
                Ok(())
            }
            Ok(Err(error)) => {
                warn!(volume = id, error = report(&error), "cannot unpublish");
                Err(UnpublishError::Stuck)
            }
            Err(_) => Err(UnpublishError::Stuck),
        }
    }

    /// A path where no volume of ours can be. After an error the kubelet would ask for ever.
    async fn never_ours(&self, path: &str) -> Result<(), UnpublishError> {
        match tokio::fs::symlink_metadata(path).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Ok(_) | Err(_) => Err(VolumePathError::Shape.into()),
        }
    }

    /// Work on the file system, which blocks.
    async fn mounting<T, F>(&self, place: &VolumePath, work: F) -> Result<T, PublishError>
    where
        T: Send + 'static,
        F: FnOnce(&M, &VolumePath) -> Result<T, MountError> + Send + 'static,
    {
        let mounter = Arc::clone(&self.mounter);
        let owned = place.clone();
        match tokio::task::spawn_blocking(move || work(&mounter, &owned)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(problem)) => {
                let volume = place.volume_id();
                error!(volume, error = report(&problem), "the volume's place");
                Err(PublishError::Broken)
            }
            Err(_) => Err(PublishError::Broken),
        }
    }
}

impl<E, K> Driver<E, K, Linux> {
    /// Removes the half-made and forgotten volumes of earlier processes, and counts the memory of the others.
    pub(crate) fn take_over(&self) {
        for found in self.mounter.sweep(&self.settings.pods) {
            let FoundVolume {
                place,
                record,
                memory,
            } = found;
            let namespace = record.namespace().to_owned();
            self.memory.found(place, namespace, memory);
        }
    }
}

/// The limit of the whole call.
fn patience(hold: Duration, limit: Option<Duration>) -> Duration {
    match limit {
        // Of a very short limit most is left for the wait.
        Some(limit) => hold.min(limit.saturating_sub(HEAD_START).max(limit / 2)),
        None => hold,
    }
}
