//! The kubelet: what it knows of its volumes, and how it calls.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use tonic::{Status, transport::Endpoint};

use super::{
    cluster::Cluster,
    fate::{Due, Pod},
    process::socket,
};
use crate::{
    proto::csi::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest, node_client::NodeClient},
    testing::{place_of, request_at},
    volume::{AUDIENCE, VolumePath},
};

/// How a volume stands for the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its pod waits for it.
    Wanted,
    /// The driver has said that it is published.
    Published,
    /// Its pod has ended, and the driver has not said that it is gone.
    Leaving,
}

/// A call of the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Publish,
    Republish,
    Unpublish,
}

/// The answer to a call, with what the volume was due to hold before the call and at the answer.
pub(super) struct Answer {
    pub(super) result: Result<(), Status>,
    pub(super) before: Due,
    pub(super) after: Due,
}

/// A volume of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodVolume {
    pub(super) pod: Pod,
    pub(super) place: VolumePath,
    pub(super) stage: Stage,
    /// The oldest and the newest version that it may have.
    pub(super) versions: (u64, u64),
    /// Its process died while it looked after the volume, and no later call has ended.
    pub(super) is_torn: bool,
}

impl PodVolume {
    /// The folder and the note that the kubelet makes before its first call.
    pub(super) fn new(kubelet: &Path, pod: Pod, volume: &str, version: u64) -> Self {
        let place = place_of(kubelet, &pod.name, volume);
        let new = Self {
            pod,
            place,
            stage: Stage::Wanted,
            versions: (version, version),
            is_torn: false,
        };
        new.prepare();
        new
    }

    /// Makes the folder and the note.
    fn prepare(&self) {
        fs::create_dir_all(self.folder()).unwrap();
        fs::write(self.note(), "{}").unwrap();
    }

    fn folder(&self) -> PathBuf {
        self.place.pods().join(self.place.parent())
    }

    /// The kubelet's own note, without which it never calls for the removal.
    pub(super) fn note(&self) -> PathBuf {
        self.folder().join("vol_data.json")
    }

    /// Removes its own note and folder after the driver has said that nothing is left. It fails when something is.
    pub(super) fn remove(&self) {
        if self.note().exists() {
            fs::remove_file(self.note()).unwrap();
        }
        fs::remove_dir(self.folder()).unwrap();
    }

    /// After a final refusal the kubelet forgets the volume, and begins anew with its next call.
    pub(super) fn begin_anew(&self) {
        self.remove();
        self.prepare();
    }

    /// The cluster of its kubelet.
    pub(super) fn cluster(&self) -> Cluster {
        Cluster::of(self.place.pods().parent().unwrap())
    }

    /// The call that is due.
    pub(super) const fn call(&self) -> Call {
        match self.stage {
            Stage::Wanted => Call::Publish,
            Stage::Published => Call::Republish,
            Stage::Leaving => Call::Unpublish,
        }
    }

    fn publish(&self) -> NodePublishVolumeRequest {
        let mut request = request_at(&self.place);
        let pod = &self.pod.name;
        let tokens =
            json!({AUDIENCE: {"token": pod, "expirationTimestamp": "2026-01-01T00:00:00Z"}});
        let on_rejected = if self.pod.wants_error {
            "ErrorFile"
        } else {
            "Fail"
        };
        let context = [
            ("csi.storage.k8s.io/pod.name", pod.clone()),
            ("csi.storage.k8s.io/pod.uid", pod.clone()),
            ("connectors", format!("tools/{pod}")),
            ("configuration.names", "all".to_owned()),
            ("onRejected", on_rejected.to_owned()),
        ];
        let context = context.map(|(key, value)| (key.to_owned(), value));
        request.volume_context.extend(context);
        request.secrets = HashMap::from([(
            "csi.storage.k8s.io/serviceAccount.tokens".to_owned(),
            tokens.to_string(),
        )]);
        request
    }

    /// Makes the call that is due, on a connection of its own.
    pub(super) async fn make_call(self, kubelet: PathBuf) -> Answer {
        let before = self.pod.due();
        let result = self.called(kubelet).await;
        let after = self.pod.due();
        Answer {
            result,
            before,
            after,
        }
    }

    async fn called(&self, kubelet: PathBuf) -> Result<(), Status> {
        let url = format!("unix://{}", socket(&kubelet).display());
        let connected = Endpoint::from_shared(url).unwrap().connect().await;
        let mut node =
            NodeClient::new(connected.map_err(|it| Status::unavailable(it.to_string()))?);
        match self.call() {
            Call::Publish | Call::Republish => {
                node.node_publish_volume(self.publish()).await?;
            }
            Call::Unpublish => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id: self.place.volume_id(),
                    target_path: self.place.target().display().to_string(),
                };
                node.node_unpublish_volume(request).await?;
            }
        }
        Ok(())
    }
}
