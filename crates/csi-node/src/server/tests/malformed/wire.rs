//! Bytes that are no HTTP/2, no gRPC and no message.

use http::{Method, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use tonic::body::Body;
use tower::{Service, ServiceExt};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings without any setting, which begin a connection.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PUBLISH: &str = "/csi.v1.Node/NodePublishVolume";

/// Whole conversations, of which none is one.
fn conversations() -> Vec<(&'static str, Vec<u8>)> {
    let begun = |frames: &[&[u8]]| [PREFACE, &SETTINGS, &frames.concat()].concat();
    // A generator whose numbers need not be good.
    let noise = |length: usize| -> Vec<u8> {
        let mut state = 7_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..length).map(next).collect()
    };
    vec![
        ("nothing", Vec::new()),
        ("noise", noise(1 << 16)),
        ("a megabyte of noise", noise(1 << 20)),
        ("zeros", vec![0; 1 << 16]),
        (
            "HTTP/1.1",
            b"POST /csi.v1.Node/NodePublishVolume HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        ),
        (
            "TLS",
            [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &noise(512)].concat(),
        ),
        ("JSON", br#"{"volumeId": "x"}"#.to_vec()),
        ("half a preface", PREFACE[..12].to_vec()),
        ("a preface and noise", [PREFACE, &noise(4096)].concat()),
        (
            "a frame of 16 MiB",
            begun(&[&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]]),
        ),
        (
            "data of no stream",
            begun(&[&[0, 0, 1, 0, 0, 0, 0, 0, 0, 7]]),
        ),
        (
            "headers that cannot be read",
            begun(&[&[0, 0, 4, 1, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]]),
        ),
        (
            "a continuation of nothing",
            begun(&[&[0, 0, 0, 9, 0, 0, 0, 0, 1]]),
        ),
        (
            "a window of nothing",
            begun(&[&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]]),
        ),
        (
            "a frame of no type",
            begun(&[&[0, 0, 0, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff]]),
        ),
        (
            "a thousand resets",
            begun(&[&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8].repeat(1000)]),
        ),
    ]
}

/// One message as gRPC frames it.
fn framed(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

/// Path, content and name of calls that are none.
fn calls() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let good = request().encode_to_vec();
    let length = u32::try_from(good.len()).unwrap();
    let publish = |name, body| (name, PUBLISH, body);
    vec![
        (
            "no such method",
            "/csi.v1.Node/NodeStealVolume",
            framed(0, 0, &[]),
        ),
        (
            "no controller",
            "/csi.v1.Controller/CreateVolume",
            framed(0, 0, &[]),
        ),
        (
            "no such service",
            "/csi.v2.Node/NodePublishVolume",
            framed(0, length, &good),
        ),
        (
            "no such method of the identity",
            "/csi.v1.Identity/Steal",
            framed(0, 0, &[]),
        ),
        ("no method", "/", Vec::new()),
        publish("no message", Vec::new()),
        publish("half a frame", vec![0, 0, 0]),
        publish("half a message", framed(0, length, &good[..good.len() / 2])),
        publish("a message without its frame", good.clone()),
        publish(
            "a message that is shorter than it says",
            framed(0, length + 1, &good),
        ),
        publish("a message of 4 GiB", framed(0, u32::MAX, &good)),
        publish(
            "a message that is packed and is not",
            framed(1, length, &good),
        ),
        publish("a frame of no kind", framed(9, length, &good)),
        publish("no message at all", framed(0, 16, &[0xff; 16])),
        publish("text that is none", framed(0, 4, &[0x0a, 2, 0xff, 0xfe])),
        publish("a field of the wrong type", framed(0, 2, &[0x08, 1])),
        publish("groups in groups", framed(0, 200_000, &vec![0x0b; 200_000])),
    ]
}

impl Node {
    pub(super) async fn refuses_other_bytes(&mut self) {
        for (name, bytes) in conversations() {
            let before = self.picture();
            let path = self.served.folder.path().join("csi.sock");
            let mut stream = UnixStream::connect(path).await.unwrap();
            let talk = async {
                // It may have been closed before all was said.
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer).await;
                answer
            };
            let answer = timeout(PATIENCE, talk).await.expect(name);
            let answer = String::from_utf8_lossy(&answer);
            assert!(!answer.contains(SECRET), "{name}: {answer}");
            self.still_answers(name).await;
            assert_eq!(self.picture(), before, "{name}");
            self.tried += 1;
        }
        for (name, path, body) in calls() {
            let before = self.picture();
            let status = timeout(PATIENCE, self.raw(path, body)).await.expect(name);
            assert!(
                !matches!(status.as_deref(), Some("0")),
                "{name}: {status:?}"
            );
            self.still_answers(name).await;
            assert_eq!(self.picture(), before, "{name}");
            self.tried += 1;
        }
    }

    /// A call of any content; its status, where there is one.
    async fn raw(&self, path: &str, body: Vec<u8>) -> Option<String> {
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Full::new(Bytes::from(body))))
            .unwrap();
        let mut channel = self.served.channel.clone();
        let response = channel.ready().await.unwrap().call(request).await.unwrap();
        let status = |headers: &http::HeaderMap| {
            let value = headers.get("grpc-status")?;
            Some(value.to_str().unwrap().to_owned())
        };
        let (parts, body) = response.into_parts();
        if let Some(status) = status(&parts.headers) {
            return Some(status);
        }
        // Of what is broken off there are none.
        let body = body.collect().await.ok()?;
        body.trailers().and_then(status)
    }

    async fn still_answers(&self, name: &str) {
        let path = self.served.folder.path().join("csi.sock");
        let mut client = NodeClient::new(connect(path).await);
        let info = timeout(PATIENCE, client.node_get_info(NodeGetInfoRequest {}));
        assert!(info.await.expect(name).is_ok(), "{name}");
    }
}
