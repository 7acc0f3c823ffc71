mod mistakes;

use std::path::Path;

use connectors_api::pod_wish::{WishError, attributes::OnRejected};
use proptest::prelude::*;

use super::*;
use crate::proto::csi::volume_capability::{BlockVolume, MountVolume};
use crate::testing::{proxy_tokens, request};

fn pods() -> PodsDir {
    PodsDir::new(Path::new("/var/lib/kubelet"))
}

const TARGET: &str = "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/tool/mount";

fn parse(request: &NodePublishVolumeRequest) -> Result<Publish, VolumeError> {
    let place = pods().place(&request.volume_id, &request.target_path)?;
    Publish::parse(&place, request, &proxy_tokens())
}

fn with(change: impl FnOnce(&mut NodePublishVolumeRequest)) -> Result<Publish, VolumeError> {
    let mut request = request();
    change(&mut request);
    parse(&request)
}

fn attribute(key: &str, value: &str) -> Result<Publish, VolumeError> {
    with(|request| {
        request
            .volume_context
            .insert(key.to_owned(), value.to_owned());
    })
}

#[test]
fn a_call_of_the_kubelet_is_understood() {
    let Publish { wish, token, files } = parse(&request()).unwrap();
    assert_eq!(files.unwrap().token, None);
    let expected = PodIdentity {
        namespace: "shop".to_owned(),
        name: "deploy-1".to_owned(),
        uid: "uid-1".to_owned(),
        service_account: "builder".to_owned(),
    };
    assert_eq!(wish.pod, expected);
    assert_eq!(wish.connectors[0].to_string(), "tools/harbor");
    assert_eq!(wish.permission, Permission::Apis);
    let token = token.unwrap();
    assert_eq!(token.expose(), "the-token");
    let an_hour_before = "2025-12-31T23:00:00Z".parse().unwrap();
    assert_eq!(
        token.remaining(an_hour_before),
        Some(Duration::from_hours(1))
    );
}

type Change = fn(&mut NodePublishVolumeRequest);

#[test]
fn a_call_without_its_necessary_parts_is_refused() {
    use VolumeError as Is;
    let place = |error| Is::VolumePath(error);
    let cases: [(&str, Change, VolumeError); 13] = [
        (
            "no id",
            |r| r.volume_id.clear(),
            place(VolumePathError::NoVolumeId),
        ),
        (
            "no path",
            |r| r.target_path.clear(),
            place(VolumePathError::NoTargetPath),
        ),
        (
            "no capability",
            |r| r.volume_capability = None,
            Is::NoCapability,
        ),
        (
            "no access type",
            |r| r.volume_capability = Some(VolumeCapability::default()),
            Is::NoCapability,
        ),
        (
            "block",
            |r| capability(r, AccessType::Block(BlockVolume {})),
            Is::Block,
        ),
        (
            "a file system",
            |r| mount(r, |m| m.fs_type = "ext4".to_owned()),
            Is::MountOptions,
        ),
        (
            "mount flags",
            |r| mount(r, |m| m.mount_flags = vec!["exec".to_owned()]),
            Is::MountOptions,
        ),
        (
            "a group",
            |r| mount(r, |m| m.volume_mount_group = "0".to_owned()),
            Is::MountOptions,
        ),
        ("writable", |r| r.readonly = false, Is::Writable),
        (
            "persistent",
            |r| {
                r.volume_context.remove(EPHEMERAL);
            },
            Is::NotEphemeral,
        ),
        (
            "persistent",
            |r| {
                r.volume_context
                    .insert(EPHEMERAL.to_owned(), "false".to_owned());
            },
            Is::NotEphemeral,
        ),
        (
            "another UID",
            |r| {
                r.volume_context
                    .insert("csi.storage.k8s.io/pod.uid".to_owned(), "uid-2".to_owned());
            },
            Is::OtherPod,
        ),
        (
            "too long",
            |r| {
                r.volume_context
                    .insert("connectors".to_owned(), "a".repeat(LONGEST_ATTRIBUTES));
            },
            Is::TooLong,
        ),
    ];
    for (what, change, expected) in cases {
        assert_eq!(with(change).unwrap_err(), expected, "{what}");
    }
}

#[test]
fn keys_and_values_count_together_up_to_the_longest_attributes() {
    let parts = request().volume_context;
    let others = parts.iter().filter(|(key, _)| *key != "connectors");
    let others: usize = others.map(|(key, value)| key.len() + value.len()).sum();
    let room = LONGEST_ATTRIBUTES - others - "connectors".len();
    let error = |length: usize| attribute("connectors", &"a".repeat(length)).unwrap_err();
    assert!(matches!(error(room), VolumeError::Attribute(_)));
    assert_eq!(error(room + 1), VolumeError::TooLong);
}

fn capability(request: &mut NodePublishVolumeRequest, access: AccessType) {
    request.volume_capability = Some(VolumeCapability {
        access_mode: None,
        access_type: Some(access),
    });
}

fn mount(request: &mut NodePublishVolumeRequest, change: fn(&mut MountVolume)) {
    let mut mount = MountVolume::default();
    change(&mut mount);
    capability(request, AccessType::Mount(mount));
}

#[test]
fn a_pod_is_named_whole_or_not_at_all() {
    for key in [
        "csi.storage.k8s.io/pod.namespace",
        "csi.storage.k8s.io/pod.name",
        "csi.storage.k8s.io/pod.uid",
        "csi.storage.k8s.io/serviceAccount.name",
    ] {
        let missing = with(|request| {
            request.volume_context.remove(key);
        });
        assert_eq!(missing.unwrap_err(), VolumeError::PodInfo(key));
        for bad in ["", "a/b", "..", "A_b"] {
            assert_eq!(
                attribute(key, bad).unwrap_err(),
                VolumeError::PodInfo(key),
                "{bad}"
            );
        }
    }
}

#[test]
fn only_the_kubelets_own_path_is_a_place() {
    let id = pods().at(Path::new(TARGET)).unwrap().volume_id();
    assert!(pods().place(&id, TARGET).is_ok());
    for path in [
        "/",
        "mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/tool",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/",
        "/var/lib/kubelet/pods//uid-1/volumes/kubernetes.io~csi/tool/mount",
        "/var/lib/kubelet/pods/./uid-1/volumes/kubernetes.io~csi/tool/mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/tool/mount/..",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/../mount",
        "/var/lib/kubelet/pods/../volumes/kubernetes.io~csi/tool/mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~nfs/tool/mount",
        "/var/lib/kubelet/pods/uid-1/secrets/kubernetes.io~csi/tool/mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/tool/globalmount",
        "/var/lib/other/pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
        "/etc/pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
    ] {
        assert_eq!(
            pods().place(&id, path),
            Err(VolumePathError::Shape),
            "{path}"
        );
    }
}

#[test]
fn the_id_must_be_that_of_the_pod_and_the_volume() {
    // Made with `printf uid-1tool | sha256sum`.
    let id = "csi-90545fb610cb5561ba93813174757ad22045f3c03934c24fb7fcdc3af9377028";
    let place = pods().at(Path::new(TARGET)).unwrap();
    assert_eq!(place.volume_id(), id);
    for target in [
        "/var/lib/kubelet/pods/uid-2/volumes/kubernetes.io~csi/tool/mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/other/mount",
    ] {
        let other = pods().place(&place.volume_id(), target);
        assert_eq!(other, Err(VolumePathError::VolumeId), "{target}");
    }
}

/// The rules of these attributes have their tests in `connectors_api::pod_wish`.
#[test]
fn what_is_written_about_connectors_is_read_in_the_pods_namespace_or_refused() {
    let wish = attribute("connectors", "harbor,tools/git").unwrap().wish;
    let named: Vec<_> = wish.connectors.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["shop/harbor", "tools/git"]);
    let proxy = attribute("permission", "proxy").unwrap().wish;
    assert_eq!(proxy.permission, Permission::Proxy);
    let unknown = attribute("connector", "x").unwrap_err();
    assert!(unknown.to_string().contains("did you mean"), "{unknown}");
    let expected = WishError::Permission("write".to_owned());
    assert_eq!(
        attribute("permission", "write").unwrap_err(),
        VolumeError::Attribute(expected.into())
    );
}

/// The files that are asked for, or what is wrong with them alone.
fn asked(parsed: Result<Publish, VolumeError>) -> Result<FileRequest, VolumeError> {
    parsed.unwrap().files.map(|files| files.request)
}

#[test]
fn files_are_asked_for_by_configuration_and_values() {
    let parsed = with(|request| {
        let fields = [
            ("configuration.names", "docker,!.env"),
            ("configuration.params", r#"{"docker": {"registry": "eu"}}"#),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned()));
        request.volume_context.extend(fields);
    });
    let expected = FileRequest::parse(
        Some("docker,!.env"),
        Some(r#"{"docker": {"registry": "eu"}}"#),
    );
    assert_eq!(asked(parsed).unwrap(), expected.unwrap());
    assert_eq!(asked(parse(&request())).unwrap(), FileRequest::default());
    let error = asked(attribute("configuration.names", "a b")).unwrap_err();
    assert!(error.to_string().contains("cannot list `a b`"), "{error}");
}

#[test]
fn a_token_lives_as_long_as_a_pod_wants_or_the_volume_is_refused() {
    for good in ["10m", "30m", "1h", " 30m "] {
        assert!(asked(attribute("token.expiration", good)).is_ok(), "{good}");
    }
    for (bad, told) in [
        ("", "from 10m to 24h"),
        ("9m59s", "from 10m to 24h"),
        ("24h1s", "from 10m to 24h"),
        ("-1h", "from 10m to 24h"),
        ("soon", "cannot be `soon`"),
        ("2h", "tokens live 60m here"),
    ] {
        let error = asked(attribute("token.expiration", bad)).unwrap_err();
        assert!(error.to_string().contains(told), "{bad}: {error}");
    }
    let none = ProxyTokens::new(String::new(), Duration::from_hours(1));
    let mut request = request();
    let key = "token.expiration".to_owned();
    request.volume_context.insert(key, "30m".to_owned());
    let place = pods()
        .place(&request.volume_id, &request.target_path)
        .unwrap();
    let error = asked(Publish::parse(&place, &request, &none)).unwrap_err();
    assert!(
        error.to_string().contains("no token for a proxy"),
        "{error}"
    );
}

#[test]
fn the_way_out_of_a_refused_pod_is_read_with_the_connectors() {
    let way = |word: &str| attribute("onRejected", word).map(|it| it.wish.options.on_rejected);
    assert_eq!(
        parse(&request()).unwrap().wish.options.on_rejected,
        OnRejected::Fail
    );
    assert_eq!(way("ErrorFile"), Ok(OnRejected::ErrorFile));
    assert!(way("FailPod").is_err());
}

#[test]
fn the_token_is_looked_for_among_the_secrets_first_and_a_kubelet_without_one_is_told_its_version() {
    let key = "csi.storage.k8s.io/serviceAccount.tokens";
    let json = |token: &str| {
        format!(r#"{{"{AUDIENCE}":{{"token":"{token}","expirationTimestamp":"x"}}}}"#)
    };
    let token = |secret: Option<String>, context: Option<String>| {
        with(|request| {
            request.secrets.clear();
            request
                .secrets
                .extend(secret.map(|value| (key.to_owned(), value)));
            request
                .volume_context
                .extend(context.map(|value| (key.to_owned(), value)));
        })
        .unwrap()
        .token
    };
    assert_eq!(token(Some(json("a")), Some(json("b"))), Ok(Token::of("a")));
    // As kubelets before 1.35 send it.
    assert_eq!(token(None, Some(json("b"))), Ok(Token::of("b")));
    let none = token(None, None).unwrap_err();
    assert_eq!(none, PodTokenError::Missing);
    assert_eq!(
        none.to_string(),
        "the kubelet sent no token of the pod, neither in secrets nor in the volume context: the node needs \
         Kubernetes 1.22 or newer, and tokenRequests of the CSIDriver object must name audience connectors.alauda.io"
    );
    for bad in [
        "",
        "[]",
        "the-token",
        r#"{"connectors.alauda.io":"the-token"}"#,
        &json(""),
    ] {
        assert_eq!(
            token(Some(bad.to_owned()), None),
            Err(PodTokenError::Unreadable),
            "{bad}"
        );
    }
    assert_eq!(
        token(Some("{}".to_owned()), None),
        Err(PodTokenError::Audience)
    );
}

#[test]
fn the_token_for_the_proxy_is_there_if_the_kubelet_hands_one() {
    let key = "csi.storage.k8s.io/serviceAccount.tokens";
    let handed = |audiences: &[&str]| {
        let tokens = audiences.iter().map(|audience| {
            let token = serde_json::json!({"token": format!("for-{audience}")});
            ((*audience).to_owned(), token)
        });
        let tokens = serde_json::Value::Object(tokens.collect());
        let parsed = with(|request| {
            request.secrets.insert(key.to_owned(), tokens.to_string());
        });
        parsed.unwrap().files.unwrap().token
    };
    let ours = Some(Token::of("for-connectors-proxy"));
    assert_eq!(handed(&[AUDIENCE, "connectors-proxy"]), ours);
    assert_eq!(handed(&[AUDIENCE, "vault"]), None);
}

#[test]
fn a_token_is_never_printed() {
    let publish = parse(&request()).unwrap();
    let printed = format!("{publish:?}");
    assert!(printed.contains("Token(..)") && !printed.contains("the-token"));
}

proptest! {
    #[test]
    fn no_attributes_make_it_panic_and_every_message_is_short(
        key in "\\PC{0,300}", value in "\\PC{0,300}", target in "\\PC{0,80}",
    ) {
        for result in [attribute(&key, &value), attribute("connectors", &value)] {
            if let Err(error) = result {
                prop_assert!(error.to_string().len() < 1024);
            }
        }
        prop_assert!(pods().place("x", &target).is_err());
    }
}
