//! The place of a volume. The kubelet makes both the path and the volume's id from the pod's UID and the volume's
//! name, so each is checked by the other.

use std::path::{Component, Path, PathBuf};

use connectors_api::{hex, names::is_dns_label};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The folder of every pod's volumes: `<kubeletDir>/pods`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodsDir(PathBuf);

/// The path of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VolumePath {
    pods: PathBuf,
    pod_uid: String,
    volume: String,
}

/// Why a path is not that of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum VolumePathError {
    /// No id.
    #[error("volume id is missing")]
    NoVolumeId,
    /// No path.
    #[error("target path is missing")]
    NoTargetPath,
    /// A path of another shape.
    #[error("target path is not that of a pod's inline volume in the kubelet's directory")]
    Shape,
    /// An id of another volume.
    #[error("volume id is not that of the pod and volume of the target path")]
    VolumeId,
}

impl PodsDir {
    /// The pods' folder of this kubelet.
    pub(crate) fn new(kubelet: &Path) -> Self {
        Self(kubelet.join("pods"))
    }

    /// Its path.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the path and the id of a volume.
    pub(crate) fn place(
        &self,
        volume_id: &str,
        target: &str,
    ) -> Result<VolumePath, VolumePathError> {
        if volume_id.is_empty() {
            return Err(VolumePathError::NoVolumeId);
        }
        if target.is_empty() {
            return Err(VolumePathError::NoTargetPath);
        }
        let place = self.at(Path::new(target)).ok_or(VolumePathError::Shape)?;
        if place.volume_id() != volume_id {
            return Err(VolumePathError::VolumeId);
        }
        Ok(place)
    }

    /// The place of a path, if it is valid, whatever its id.
    pub(crate) fn at(&self, target: &Path) -> Option<VolumePath> {
        let parts: Vec<_> = target.strip_prefix(&self.0).ok()?.components().collect();
        let [Component::Normal(uid), _, _, Component::Normal(volume), _] = parts.as_slice() else {
            return None;
        };
        let (uid, volume) = (uid.to_str()?, volume.to_str()?);
        let place = VolumePath {
            pods: self.0.clone(),
            pod_uid: uid.to_owned(),
            volume: volume.to_owned(),
        };
        // Byte for byte: the other parts are the kubelet's own, and two spellings of one path would be two volumes for
        // the lock.
        let is_same = place.target().as_os_str() == target.as_os_str();
        (is_same && is_uid(uid) && is_dns_label(volume)).then_some(place)
    }
}

impl VolumePath {
    /// The UID of the pod.
    pub(crate) fn pod_uid(&self) -> &str {
        &self.pod_uid
    }

    /// The folder of all pods.
    pub(crate) fn pods(&self) -> &Path {
        &self.pods
    }

    /// The folder that the kubelet makes, relative to the pods' folder. It contains the target.
    pub(crate) fn parent(&self) -> PathBuf {
        Path::new(&self.pod_uid)
            .join("volumes/kubernetes.io~csi")
            .join(&self.volume)
    }

    /// The path of the volume.
    pub(crate) fn target(&self) -> PathBuf {
        self.pods.join(self.parent()).join(Self::TARGET)
    }

    /// The last part of the path.
    pub(crate) const TARGET: &str = "mount";

    /// The id that the kubelet gives to the volume.
    pub(crate) fn volume_id(&self) -> String {
        let digest = Sha256::new()
            .chain_update(&self.pod_uid)
            .chain_update(&self.volume)
            .finalize();
        format!("csi-{}", hex(&digest))
    }
}

/// True for a valid UID of a pod. Those of static pods are digests.
pub(super) fn is_uid(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(inner)
}
