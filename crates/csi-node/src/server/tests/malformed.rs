//! Requests that no kubelet makes, on the real socket and with real mounts. Each is refused with its code and its reason,
//! mounts nothing, and neither tells nor touches anything of another pod.
//!
//! Everything else about them is right: the pod has access to its connector, so that nothing but the malformation keeps a
//! volume from being made.

mod disk;
mod fields;
mod places;
mod wire;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use rustix::mount::{MountFlags, mount};
use tokio::time::timeout;

use super::*;
use crate::{
    content::{ConnectorFacts, Content, Record},
    mounter::{Linux, Mounter, Passage},
    testing::{key, namespace::inside, place_in, place_of, request_at, wish},
    volume::VolumePath,
};

const PATIENCE: Duration = Duration::from_secs(20);
/// A word in everything that the other pod has.
const SECRET: &str = "of-another-pod";

/// A change of what the API server says about a token.
type Review = fn(&mut TokenReviewStatus);

/// A publish call that is to be refused.
struct Refused {
    name: String,
    request: NodePublishVolumeRequest,
    /// Another answer of the API server about its token than the true one.
    review: Option<Review>,
    code: Code,
    /// A part of the reason.
    told: &'static str,
}

/// A node with the volume of one pod, and a place for the volume of another.
struct Node {
    served: Served<Linux>,
    kubelet: TempDir,
    ours: VolumePath,
    theirs: VolumePath,
    tried: usize,
}

/// Everything below the kubelet's folder, and what is mounted there.
type Picture = (BTreeMap<PathBuf, String>, Vec<String>);

impl Node {
    async fn new() -> Self {
        let kubelet = tempfile::tempdir().unwrap();
        mount("kubelet", kubelet.path(), "tmpfs", MountFlags::empty(), c"").unwrap();
        let ours = place_in(kubelet.path(), "tool");
        let theirs = place_of(kubelet.path(), "uid-2", "theirs");
        for place in [&ours, &theirs] {
            fs::create_dir_all(place.pods().join(place.parent())).unwrap();
        }
        let linux = Linux::new("connectors-csi");
        let facts = ConnectorFacts {
            connector: key("bank/vault"),
            address: format!("https://{SECRET}"),
            class: "oci".to_owned(),
            permission: connectors_api::Permission::Apis,
            request: SECRET.to_owned(),
        };
        let content = Content {
            facts: vec![facts],
            ..Content::default()
        };
        let mut wish = wish(&["bank/vault"]);
        wish.pod.uid = "uid-2".to_owned();
        linux
            .publish(
                &theirs,
                &Record::new(&theirs, &wish),
                &content,
                Passage::Gated,
            )
            .unwrap();
        let served = serve(World::with(linux, kubelet.path(), 512)).await;
        served.world.evaluator.says("tools/harbor", Some(granted()));
        let node = Self {
            served,
            kubelet,
            ours,
            theirs,
            tried: 0,
        };
        node.a_good_call_is_answered().await;
        node
    }

    /// So that nothing but its malformation is wrong with a call, and the other pod has its volume.
    async fn a_good_call_is_answered(&self) {
        let before = self.picture();
        let theirs = before.0.iter().filter(|(_, text)| text.contains(SECRET));
        assert!(theirs.count() > 1 && before.1.len() == 2, "{before:?}");
        let mut client = self.client();
        let request = request_at(&self.ours);
        assert_eq!(code(client.node_publish_volume(request).await), Code::Ok);
        assert_ne!(self.picture(), before);
        let gone = self.unpublish_request(&self.ours.target().display().to_string());
        assert_eq!(code(client.node_unpublish_volume(gone).await), Code::Ok);
        assert_eq!(self.picture(), before);
    }

    fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(self.served.channel.clone()).max_encoding_message_size(usize::MAX)
    }

    fn unpublish_request(&self, target_path: &str) -> NodeUnpublishVolumeRequest {
        NodeUnpublishVolumeRequest {
            volume_id: self.ours.volume_id(),
            target_path: target_path.to_owned(),
        }
    }

    async fn refuses(&mut self, call: Refused) {
        let Refused {
            name,
            request,
            review,
            code,
            told,
        } = call;
        let before = self.picture();
        let truth = self.served.world.kubernetes.cluster().token.clone();
        if let Some(review) = review {
            review(&mut self.served.world.kubernetes.cluster().token);
        }
        let mut client = self.client();
        let answer = timeout(PATIENCE, client.node_publish_volume(request)).await;
        let status = answer.expect(&name).expect_err(&name);
        self.served.world.kubernetes.cluster().token = truth;
        assert_eq!(status.code(), code, "{name}: {status:?}");
        assert!(status.message().contains(told), "{name}: {status:?}");
        self.says_nothing(&name, &status);
        assert_eq!(self.picture(), before, "{name}");
        self.tried += 1;
    }

    /// The answer is for the pod that asked.
    fn says_nothing(&self, name: &str, status: &Status) {
        let said = status.message();
        assert!(said.len() < 1024, "{name}: {}", said.len());
        assert!(
            !said.contains(SECRET) && !said.contains("the-token"),
            "{name}: {said}"
        );
        assert!(status.details().is_empty(), "{name}");
        let cluster = self.served.world.kubernetes.cluster();
        assert!(
            cluster.requests.is_empty() && cluster.told.is_empty(),
            "{name}"
        );
    }

    fn picture(&self) -> Picture {
        let mut files = BTreeMap::new();
        draw(self.kubelet.path(), &mut files);
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let below = self.kubelet.path().display().to_string();
        let mounts = table.lines().filter(|line| line.contains(&below));
        (files, mounts.map(ToOwned::to_owned).collect())
    }
}

/// Writes down what is in a folder, without following links.
fn draw(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let what = if kind.is_dir() {
            draw(&path, files);
            String::new()
        } else if kind.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if kind.is_fifo() {
            "fifo".to_owned()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        files.insert(path, what);
    }
}

#[test]
fn a_hundred_malformed_requests_mount_nothing_and_tell_nothing() {
    if !inside(
        "server::tests::malformed::a_hundred_malformed_requests_mount_nothing_and_tell_nothing",
    ) {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut node = Node::new().await;
        for call in places::publishes(&node.ours, &node.theirs) {
            node.refuses(call).await;
        }
        for call in fields::publishes(&node.ours, &node.theirs) {
            node.refuses(call).await;
        }
        node.refuses_removals().await;
        node.refuses_what_is_on_disk().await;
        node.refuses_other_bytes().await;
        node.a_good_call_is_answered().await;
        println!("{} malformed requests", node.tried);
        assert!(node.tried >= 100, "{}", node.tried);
    });
}
