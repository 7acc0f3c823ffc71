//! Fields that are missing, forged or too long.

use std::collections::HashMap;

use serde_json::json;

use super::*;
use crate::{
    proto::csi::{
        VolumeCapability,
        volume_capability::{AccessType, BlockVolume, MountVolume},
    },
    volume::AUDIENCE,
};

const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
const NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";
const NAME: &str = "csi.storage.k8s.io/pod.name";
const UID: &str = "csi.storage.k8s.io/pod.uid";
const ACCOUNT: &str = "csi.storage.k8s.io/serviceAccount.name";

/// More than a message may be.
const MEGABYTE: usize = 1 << 20;

type Change<'a> = &'a dyn Fn(&mut NodePublishVolumeRequest);
/// A field of a call.
type Text = fn(&mut NodePublishVolumeRequest) -> &mut String;

struct Calls<'a> {
    ours: &'a VolumePath,
    all: Vec<Refused>,
}

impl Calls<'_> {
    fn add(&mut self, name: &str, code: Code, told: &'static str, change: Change<'_>) {
        self.add_reviewed(name, None, code, told, change);
    }

    fn add_reviewed(
        &mut self,
        name: &str,
        review: Option<Review>,
        code: Code,
        told: &'static str,
        change: Change<'_>,
    ) {
        let mut request = request_at(self.ours);
        change(&mut request);
        self.all.push(Refused {
            name: name.to_owned(),
            request,
            review,
            code,
            told,
        });
    }

    /// The same with one attribute changed.
    fn attribute(&mut self, key: &str, value: &str, code: Code, told: &'static str) {
        let name = format!("{key}: {:?}", &value[..value.len().min(40)]);
        self.add(&name, code, told, &|it| set(it, key, value));
    }
}

fn set(request: &mut NodePublishVolumeRequest, key: &str, value: &str) {
    request
        .volume_context
        .insert(key.to_owned(), value.to_owned());
}

fn access(request: &mut NodePublishVolumeRequest, access_type: AccessType) {
    request.volume_capability = Some(VolumeCapability {
        access_mode: None,
        access_type: Some(access_type),
    });
}

/// All of them.
pub(super) fn publishes(ours: &VolumePath, theirs: &VolumePath) -> Vec<Refused> {
    let mut calls = Calls {
        ours,
        all: Vec::new(),
    };
    capabilities(&mut calls);
    pods(&mut calls, theirs);
    tokens(&mut calls);
    attributes(&mut calls);
    sizes(&mut calls);
    calls.all
}

fn capabilities(calls: &mut Calls<'_>) {
    use Code::InvalidArgument;
    let nothing: Change<'_> = &|it| *it = NodePublishVolumeRequest::default();
    calls.add(
        "an empty call",
        InvalidArgument,
        "volume id is missing",
        nothing,
    );
    calls.add(
        "no capability",
        InvalidArgument,
        "capability is missing",
        &|it| {
            it.volume_capability = None;
        },
    );
    calls.add(
        "no access type",
        InvalidArgument,
        "capability is missing",
        &|it| {
            it.volume_capability = Some(VolumeCapability::default());
        },
    );
    calls.add(
        "a block device",
        InvalidArgument,
        "no block devices",
        &|it| {
            access(it, AccessType::Block(BlockVolume {}));
        },
    );
    let mounts = [
        MountVolume {
            fs_type: "ext4".to_owned(),
            ..MountVolume::default()
        },
        MountVolume {
            mount_flags: vec!["exec".to_owned(), "suid".to_owned()],
            ..MountVolume::default()
        },
        MountVolume {
            volume_mount_group: "0".to_owned(),
            ..MountVolume::default()
        },
    ];
    for mount in mounts {
        let name = format!("{mount:?}");
        calls.add(&name, InvalidArgument, "are not supported", &|it| {
            access(it, AccessType::Mount(mount.clone()));
        });
    }
    calls.add(
        "writable",
        InvalidArgument,
        "must be readOnly: true",
        &|it| it.readonly = false,
    );
    for word in ["false", "True", " true", ""] {
        calls.attribute(
            EPHEMERAL,
            word,
            InvalidArgument,
            "only ephemeral inline volumes",
        );
    }
    calls.add(
        "a persistent volume",
        InvalidArgument,
        "only ephemeral inline volumes",
        &|it| {
            it.volume_context.remove(EPHEMERAL);
        },
    );
}

/// Another pod than the one that the path and the token are of.
fn pods(calls: &mut Calls<'_>, theirs: &VolumePath) {
    use Code::{InvalidArgument, Unauthenticated};
    for key in [NAMESPACE, NAME, UID, ACCOUNT] {
        calls.add(
            &format!("no {key}"),
            InvalidArgument,
            "does not name the pod",
            &|it| {
                it.volume_context.remove(key);
            },
        );
        for value in ["", "..", "a/b", "A_b", "a\0b"] {
            calls.attribute(key, value, InvalidArgument, "does not name the pod");
        }
    }
    for uid in ["uid-2", "uid-10", "UID-1"] {
        calls.attribute(
            UID,
            uid,
            InvalidArgument,
            "the pod's UID is not that of the target path",
        );
    }
    calls.attribute(NAME, "deploy-2", Unauthenticated, "not of this pod");
    calls.attribute(
        NAMESPACE,
        "bank",
        Unauthenticated,
        "not of this service account",
    );
    calls.attribute(
        ACCOUNT,
        "admin",
        Unauthenticated,
        "not of this service account",
    );
    let (target, id) = (theirs.target().display().to_string(), theirs.volume_id());
    let impersonate = |it: &mut NodePublishVolumeRequest| {
        it.target_path.clone_from(&target);
        it.volume_id.clone_from(&id);
    };
    // A pod may be using what is there, so that this is no final answer.
    calls.add(
        "their volume for our pod",
        Code::Aborted,
        "with other attributes",
        &impersonate,
    );
    calls.add(
        "their volume for our connector",
        Code::Aborted,
        "with other attributes",
        &|it| {
            impersonate(it);
            set(it, UID, "uid-2");
        },
    );
}

fn tokens(calls: &mut Calls<'_>) {
    use Code::Unauthenticated;
    let none: Change<'_> = &|it| it.secrets.clear();
    // A kubelet that knows no tokens, or a driver object that asks for none.
    calls.add(
        "no token",
        Unauthenticated,
        "the node needs Kubernetes 1.22 or newer",
        none,
    );
    for (text, told) in [
        ("", "cannot be read"),
        ("the-token", "cannot be read"),
        ("[]", "cannot be read"),
        ("{", "cannot be read"),
        (r#"{"connectors.alauda.io": "the-token"}"#, "cannot be read"),
        (
            r#"{"connectors.alauda.io": {"token": ""}}"#,
            "cannot be read",
        ),
        (
            r#"{"connectors.alauda.io": {"token": 7}}"#,
            "cannot be read",
        ),
        (r#"{"connectors.alauda.io": {}}"#, "cannot be read"),
        ("{}", "no token of the pod for audience"),
        (
            r#"{"vault": {"token": "the-token"}}"#,
            "no token of the pod for audience",
        ),
        (
            r#"{"Connectors.alauda.io": {"token": "the-token"}}"#,
            "no token of the pod for audience",
        ),
    ] {
        calls.add(&format!("tokens {text:?}"), Unauthenticated, told, &|it| {
            it.secrets = HashMap::from([(TOKENS.to_owned(), text.to_owned())]);
        });
    }
    calls.add(
        "a good token where it is not looked for",
        Unauthenticated,
        "cannot be read",
        &|it| {
            let good = json!({AUDIENCE: {"token": "the-token"}}).to_string();
            set(it, TOKENS, &good);
            it.secrets = HashMap::from([(TOKENS.to_owned(), "{".to_owned())]);
        },
    );
    let reviews: [(&str, Review, &str); 5] = [
        (
            "an unknown token",
            |it| it.authenticated = Some(false),
            "is not valid",
        ),
        (
            "a token for others",
            |it| it.audiences = Some(vec!["vault".to_owned()]),
            "not for audience",
        ),
        (
            "a token of the other pod",
            |it| claim(it, "pod-uid", "uid-2"),
            "not of this pod",
        ),
        (
            "a token of another node",
            |it| claim(it, "node-name", "node-2"),
            "not of this node",
        ),
        (
            "a token of no pod",
            |it| it.user.as_mut().unwrap().extra = None,
            "not of this pod",
        ),
    ];
    for (name, review, told) in reviews {
        calls.add_reviewed(name, Some(review), Unauthenticated, told, &|_| {});
    }
}

fn claim(review: &mut TokenReviewStatus, name: &str, value: &str) {
    let user = review.user.as_mut().unwrap();
    let key = format!("authentication.kubernetes.io/{name}");
    user.extra
        .as_mut()
        .unwrap()
        .insert(key, vec![value.to_owned()]);
}

fn attributes(calls: &mut Calls<'_>) {
    use Code::InvalidArgument;
    let many: Vec<_> = (0..17).map(|it| format!("c{it}")).collect();
    for (key, value, told) in [
        ("connectors", "", "`connectors` cannot list ``"),
        ("connectors", "../../uid-2", "`connectors` cannot list"),
        ("connectors", "tools/harbor/..", "`connectors` cannot list"),
        ("connectors", "tools/harbor\0", "`connectors` cannot list"),
        ("connectors", "tools/*", "`connectors` cannot list"),
        (
            "connectors",
            "tools/harbor,tools/harbor",
            "lists `tools/harbor` twice",
        ),
        ("connectors", &many.join(","), "it lists 17, use at most 16"),
        ("permission", "*", "`permission` cannot be"),
        ("connector.name", "harbor", "exclude each other"),
        ("csi.storage.k8s.io", "x", "is unknown"),
        ("mountOptions", "exec", "is unknown"),
        ("configuration.params", "{", "configuration.params"),
        (
            "configuration.names",
            "../../etc/passwd",
            "configuration.names",
        ),
        ("token.expiration", "1s", "`token.expiration` cannot be"),
        ("onRejected", "Ignore", "`onRejected` cannot be"),
    ] {
        calls.attribute(key, value, InvalidArgument, told);
    }
}

/// Whatever a pod's author may write, and the kubelet passes on.
fn sizes(calls: &mut Calls<'_>) {
    use Code::{InvalidArgument, OutOfRange};
    let told = "longer than 64 KiB";
    calls.attribute("connectors", &"a".repeat(64 * 1024), InvalidArgument, told);
    calls.attribute(&"k".repeat(64 * 1024), "x", InvalidArgument, told);
    calls.add("10,000 attributes", InvalidArgument, told, &|it| {
        let many = (0..10_000).map(|number| (format!("key-{number}"), "x".to_owned()));
        it.volume_context.extend(many);
    });
    let long = "a".repeat(MEGABYTE);
    let too_long = "message length too large";
    calls.attribute("connectors", &long, OutOfRange, too_long);
    calls.attribute(&long, "x", OutOfRange, too_long);
    calls.add(
        "a megabyte of small attributes",
        OutOfRange,
        too_long,
        &|it| {
            let many = (0..60_000).map(|number| (format!("key-{number}"), "0123456789".to_owned()));
            it.volume_context.extend(many);
        },
    );
    let fields: [(&str, Text); 3] = [
        ("id", |it| &mut it.volume_id),
        ("path", |it| &mut it.target_path),
        ("staging path", |it| &mut it.staging_target_path),
    ];
    for (name, field) in fields {
        let name = format!("a megabyte of {name}");
        calls.add(&name, OutOfRange, too_long, &|it| {
            field(it).clone_from(&long);
        });
    }
    calls.add("a megabyte of secrets", OutOfRange, too_long, &|it| {
        it.secrets.insert("secret".to_owned(), long.clone());
    });
    calls.add(
        "a megabyte of publish context",
        OutOfRange,
        too_long,
        &|it| {
            it.publish_context.insert("device".to_owned(), long.clone());
        },
    );
}
