//! The node, seen from outside.

use csi_recorder::View;
use e2e::Cluster;

use super::wait_until;

/// Waits until neither a mount nor a folder of these pods is on the node.
pub(crate) fn wait_until_nothing_left(cluster: &Cluster, pod_uids: &[String]) {
    let kubelet = cluster.kubelet_dir();
    let view = View::of_kubelet(&kubelet).unwrap();
    wait_until("nothing of the pods to be on the node", || {
        let mut paths = pod_uids.iter().map(|uid| kubelet.join("pods").join(uid));
        paths.all(|path| !path.exists() && !view.has_mounts_below(&path).unwrap())
    });
}
