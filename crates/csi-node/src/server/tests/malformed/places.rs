//! Places where no volume of the pod is.

use super::*;

/// Target paths below the kubelet's folder that are not the one of the pod's volume.
const BELOW: [&str; 30] = [
    "",
    "/",
    "/pods",
    "/pods/uid-1",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/.",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/..",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/deeper",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/./mount",
    "/pods/uid-1/volumes/kubernetes.io~csi//tool/mount",
    "/./pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/../tool/mount",
    "/pods/uid-1/../uid-2/volumes/kubernetes.io~csi/theirs/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/../../../uid-2/volumes/kubernetes.io~csi/theirs/mount",
    "/pods/../../etc/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/../mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool%2f..%2fother/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/too\\l/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool\0/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool\n/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/Tool/mount",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mоunt",
    "/pods/uid-1/volumes/kubernetes.io~csi/tool/mount ",
    "/pods/uid-1/volumes/kubernetes.io~secret/tool/mount",
    "/pods/uid-1/volume-subpaths/kubernetes.io~csi/tool/mount",
    "/pods/uid_1/volumes/kubernetes.io~csi/tool/mount",
    "/plugins/connectors-csi/csi.sock",
    "/plugins/kubernetes.io/csi/connectors-csi/tool/globalmount",
    "/../../pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
];

/// The same outside of it.
const ELSEWHERE: [&str; 8] = [
    "/",
    "/etc/shadow",
    "mount",
    "../mount",
    "pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
    "/var/lib/another/pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
    "/proc/self/root",
    "unix:///csi.sock",
];

/// Ids that are not that of the volume at the path.
const IDS: [&str; 7] = [
    "x",
    "csi-",
    "csi-0000000000000000000000000000000000000000000000000000000000000000",
    "../../uid-2",
    "tool",
    "uid-1",
    "\0",
];

const SHAPE: &str = "target path is not that of a pod's inline volume";
const ID: &str = "volume id is not that of the pod and volume";

/// Publish calls for such places.
pub(super) fn publishes(ours: &VolumePath, theirs: &VolumePath) -> Vec<Refused> {
    let kubelet = ours.pods().parent().unwrap().display();
    let below = BELOW.map(|path| format!("{kubelet}{path}"));
    let mut calls = Vec::new();
    let mut add = |name: String, told, change: &dyn Fn(&mut NodePublishVolumeRequest)| {
        let mut request = request_at(ours);
        change(&mut request);
        calls.push(Refused {
            name,
            request,
            review: None,
            code: Code::InvalidArgument,
            told,
        });
    };
    for path in below.into_iter().chain(ELSEWHERE.map(ToOwned::to_owned)) {
        add(format!("at {path:?}"), SHAPE, &|it| {
            it.target_path.clone_from(&path);
        });
    }
    add("nowhere".to_owned(), "target path is missing", &|it| {
        it.target_path.clear();
    });
    let long = format!(
        "{kubelet}/pods/{}/volumes/kubernetes.io~csi/tool/mount",
        "u".repeat(64)
    );
    add("at a UID that is too long".to_owned(), SHAPE, &|it| {
        it.target_path.clone_from(&long);
    });
    let long = format!(
        "{kubelet}/pods/uid-1/volumes/kubernetes.io~csi/{}/mount",
        "v".repeat(64)
    );
    add("at a name that is too long".to_owned(), SHAPE, &|it| {
        it.target_path.clone_from(&long);
    });
    let long = format!("{kubelet}{}", "/pods".repeat(10_000));
    add("at a path of 50,000 bytes".to_owned(), SHAPE, &|it| {
        it.target_path.clone_from(&long);
    });
    let their_target = theirs.target().display().to_string();
    add("at the other pod's volume".to_owned(), ID, &|it| {
        it.target_path.clone_from(&their_target);
    });
    for id in IDS {
        add(format!("as {id:?}"), ID, &|it| {
            id.clone_into(&mut it.volume_id);
        });
    }
    let own = ours.volume_id();
    let padded = [
        format!(" {own}"),
        format!("{own} "),
        own.to_uppercase(),
        own[..own.len() - 1].to_owned(),
    ];
    for id in padded.into_iter().chain([theirs.volume_id()]) {
        add(format!("as {id}"), ID, &|it| it.volume_id.clone_from(&id));
    }
    add("as nothing".to_owned(), "volume id is missing", &|it| {
        it.volume_id.clear();
    });
    calls
}

impl Node {
    /// Nothing but the volume at the kubelet's own path can be removed.
    pub(super) async fn refuses_removals(&mut self) {
        let kubelet = self.kubelet.path().display().to_string();
        let below = BELOW.map(|path| format!("{kubelet}{path}"));
        let paths = below.into_iter().chain(ELSEWHERE.map(ToOwned::to_owned));
        let mut refused = 0;
        for path in paths.chain([String::new()]) {
            let before = self.picture();
            let request = self.unpublish_request(&path);
            let answer = timeout(PATIENCE, self.client().node_unpublish_volume(request)).await;
            match answer.unwrap() {
                // The kubelet would ask for ever about what is not there.
                Ok(_) => assert!(fs::symlink_metadata(&path).is_err(), "{path:?}"),
                Err(status) => {
                    assert_eq!(status.code(), Code::InvalidArgument, "{path:?}: {status:?}");
                    self.says_nothing(&path, &status);
                    refused += 1;
                }
            }
            assert_eq!(self.picture(), before, "{path:?}");
            self.tried += 1;
        }
        assert!(refused > 10, "{refused}");
    }
}
