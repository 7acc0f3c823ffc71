//! Writes the result of a first call: content, or an error alone. Its memory is counted before the write.

use tracing::info;

use super::{Driver, Published, deliver::MadeContent, reject::Rejection};
use crate::{
    access::Admitted,
    content::{Content, Record, memory_of_error},
    error::PublishError,
    evaluator::Evaluator,
    kubernetes::{EventWord, Kubernetes},
    mounter::{MountError, Mounter, Passage},
    volume::{VolumePath, Wish},
};

/// The result of a first call.
pub(super) enum ToMount {
    /// The content for a pod with access, and how the pod comes to it.
    Content(Vec<Admitted>, Passage, MadeContent),
    /// The error for a pod that is finally refused.
    Error(Rejection),
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    /// Makes the volume where nothing is.
    pub(super) async fn mount(
        &self,
        place: &VolumePath,
        wish: &Wish,
        ready: ToMount,
    ) -> Result<Published, PublishError> {
        match ready {
            ToMount::Content(admitted, passage, made) => {
                self.mount_content(place, wish, passage, made).await?;
                if let Some(since) = admitted.iter().map(|admitted| admitted.since).max() {
                    self.metrics.mounted(since.elapsed());
                }
                Ok(Published::Made)
            }
            ToMount::Error(rejection) => {
                self.mount_error(place, wish, rejection).await?;
                Ok(Published::ErrorFile)
            }
        }
    }

    async fn mount_content(
        &self,
        place: &VolumePath,
        wish: &Wish,
        passage: Passage,
        made: MadeContent,
    ) -> Result<(), PublishError> {
        let (pod, record) = (&wish.pod, Record::new(place, wish));
        self.write(place, wish, made, move |mounter, place, content| {
            mounter.publish(place, &record, content, passage)
        })
        .await?;
        info!(
            volume = place.volume_id(),
            namespace = pod.namespace,
            pod = pod.name,
            "published"
        );
        Ok(())
    }

    /// Writes a content in one of the ways of the mounter. The digest of its inputs is kept only after a complete write.
    pub(super) async fn write<T, F>(
        &self,
        place: &VolumePath,
        wish: &Wish,
        made: MadeContent,
        way: F,
    ) -> Result<T, PublishError>
    where
        T: Send + 'static,
        F: FnOnce(&M, &VolumePath, &Content) -> Result<T, MountError> + Send + 'static,
    {
        let MadeContent { content, digest } = made;
        let memory = content.memory(self.settings.page);
        self.memory.take(place, &wish.pod.namespace, memory)?;
        self.digests.forget(place);
        let work = move |mounter: &M, place: &VolumePath| way(mounter, place, &content);
        let written = self.mounting(place, work).await?;
        self.digests.put(place, digest);
        Ok(written)
    }

    async fn mount_error(
        &self,
        place: &VolumePath,
        wish: &Wish,
        rejection: Rejection,
    ) -> Result<(), PublishError> {
        let Rejection { file, text } = rejection;
        let (pod, record) = (&wish.pod, Record::new(place, wish));
        let memory = memory_of_error(&file, self.settings.page);
        self.memory.take(place, &pod.namespace, memory)?;
        self.mounting(place, move |mounter, place| {
            mounter.publish_error(place, &record, &file)
        })
        .await?;
        info!(
            volume = place.volume_id(),
            namespace = pod.namespace,
            pod = pod.name,
            "refused for good, the volume says why"
        );
        let note = format!("{text}; the pod starts with a volume that holds .error.json alone");
        self.kubernetes.tell(pod, EventWord::MountedErrorFile, note);
        Ok(())
    }
}
