//! Calls as the kubelet makes them.

use std::{path::Path, time::Duration};

use connectors_api::Permission;

use super::{
    node::Kind,
    truth::{Asker, PodFacts, Right},
};
use crate::{
    proto::csi::NodePublishVolumeRequest,
    testing::{KUBELET, place_of, request_at},
    volume::VolumePath,
};

/// A volume of a pod, as its author wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) name: &'static str,
    /// Its connectors.
    pub(super) list: &'static str,
    pub(super) permission: Permission,
    /// The pod wants to start when it is refused for good.
    pub(super) error_file: bool,
}

pub(super) const FOREVER: Duration = Duration::from_hours(10_000);

/// Where a pod's volume is.
pub(super) fn place(pod: &PodFacts, volume: Volume) -> VolumePath {
    place_of(Path::new(KUBELET), &pod.uid, volume.name)
}

/// The call for a volume of a pod that is said to be this one.
pub(super) fn publish(
    pod: &PodFacts,
    volume: Volume,
    token: String,
    limit: Option<Duration>,
) -> (VolumePath, NodePublishVolumeRequest, Kind) {
    let Volume {
        list,
        permission,
        error_file,
        ..
    } = volume;
    let place = place(pod, volume);
    let mut request = request_at(&place);
    let tokens = serde_json::json!({"connectors.alauda.io": {"token": &token}});
    for (key, value) in [
        ("csi.storage.k8s.io/pod.name", pod.name),
        ("csi.storage.k8s.io/pod.namespace", pod.namespace),
        ("csi.storage.k8s.io/pod.uid", &pod.uid),
        ("csi.storage.k8s.io/serviceAccount.name", pod.account),
        ("connectors", list),
        ("permission", permission.as_str()),
    ] {
        let context = &mut request.volume_context;
        context.insert(key.to_owned(), value.to_owned());
    }
    if error_file {
        let attribute = ("onRejected".to_owned(), "ErrorFile".to_owned());
        request.volume_context.extend([attribute]);
    }
    let key = "csi.storage.k8s.io/serviceAccount.tokens".to_owned();
    request.secrets.insert(key, tokens.to_string());
    let asker = |connector: &str| Asker {
        right: right(pod, connector, permission),
        pod_name: pod.name.to_owned(),
        pod_uid: pod.uid.clone(),
    };
    let kind = Kind::Publish {
        askers: list.split(',').map(asker).collect(),
        token,
        limit,
        error_file,
    };
    (place, request, kind)
}

/// The right of a pod's account on a connector, which may be named without its namespace.
pub(super) fn right(pod: &PodFacts, connector: &str, permission: Permission) -> Right {
    let home = format!("{}/{connector}", pod.namespace);
    Right {
        namespace: pod.namespace.to_owned(),
        account: pod.account.to_owned(),
        connector: if connector.contains('/') {
            connector.to_owned()
        } else {
            home
        },
        permission,
    }
}
