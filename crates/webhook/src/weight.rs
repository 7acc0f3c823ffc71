//! What reviews may cost in memory, together and by the address that they come from.
//!
//! A few bytes of JSON can become hundreds in memory, and the schema keeps fields that it does not know. So what is
//! asked about is weighed before it is read, and waits until there is room for it. A body has its room until the last
//! part of it is let go, a tree until nothing is made from it any more. Each kind has room of its own: who writes large
//! policies keeps nobody's pods waiting. Who only says that much will come takes no room.

use std::{net::IpAddr, sync::Arc, time::Duration};

use hyper::body::Bytes;
use k8s_openapi::api::authentication::v1::UserInfo;
use service_kit::fair::TenantTurn;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{
    metrics::Limit,
    shares::{Limits, Share},
};

const MIB: usize = 1 << 20;
/// Permits are counted in these.
const KIB: usize = 1 << 10;
/// Kept back for the judgement, when there was a wait.
const JUDGEMENT: Duration = Duration::from_secs(2);
/// Of each kind's room, one address has half. A whole control plane may be behind one address, and half is enough for it:
/// the largest body and the heaviest tree, or a hundred ordinary reviews at a time.
const PEER: usize = 2;

/// How much room a kind has.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Bodies that are held at the same time.
    bodies: usize,
    /// The largest body.
    largest: usize,
    /// Trees that are held at the same time.
    trees: usize,
    /// The heaviest tree that is read at all.
    heaviest: usize,
}

/// A thousand subjects and a thousand requesters weigh three quarters of the heaviest. Objects have at most 1.5 MiB in
/// etcd, and the API server takes requests of 3 MiB.
pub(crate) const POLICIES: Sizes = Sizes {
    bodies: 8 * MIB,
    largest: 4 * MIB,
    trees: 40 * MIB,
    heaviest: 20 * MIB,
};
/// A request is small.
pub(crate) const REQUESTS: Sizes = Sizes {
    bodies: 4 * MIB,
    largest: 2 * MIB,
    trees: 8 * MIB,
    heaviest: 2 * MIB,
};
/// Of a connector only a few fields are read.
pub(crate) const CONNECTORS: Sizes = Sizes {
    bodies: 8 * MIB,
    largest: 4 * MIB,
    trees: 4 * MIB,
    heaviest: 2 * MIB,
};

/// Room for what is being reviewed of one kind.
#[derive(Clone)]
pub(crate) struct Scales {
    bodies: Pool,
    trees: Pool,
    sizes: Sizes,
}

/// Room that is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _of_peer: TenantTurn<IpAddr>,
    _of_all: OwnedSemaphorePermit,
}

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Room of one sort.
#[derive(Clone)]
struct Pool {
    of_all: Arc<Semaphore>,
    of_peer: Share,
}

impl Pool {
    fn new(bytes: usize, limits: &Limits) -> Self {
        Self {
            of_all: Arc::new(Semaphore::new(bytes / KIB)),
            of_peer: limits.share(Limit::Memory, bytes / KIB / PEER),
        }
    }

    /// First the address's own: what waits there takes nothing from others.
    async fn take(&self, peer: IpAddr, bytes: usize, deadline: Instant) -> Result<Room, Full> {
        let permits = u32::try_from(bytes.div_ceil(KIB)).map_err(|_| Full)?;
        let both = async {
            let of_peer = self.of_peer.take(peer, permits).await;
            let of_all = Arc::clone(&self.of_all).acquire_many_owned(permits).await;
            of_all.map(|of_all| Room {
                _of_peer: of_peer,
                _of_all: of_all,
            })
        };
        match timeout_at(deadline - JUDGEMENT, both).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Full),
        }
    }
}

impl Scales {
    pub(crate) fn new(sizes: Sizes, limits: &Limits) -> Self {
        Self {
            bodies: Pool::new(sizes.bodies, limits),
            trees: Pool::new(sizes.trees, limits),
            sizes,
        }
    }

    /// The largest body that is read at all.
    pub(crate) const fn largest(&self) -> usize {
        self.sizes.largest
    }

    /// Whether a tree is too heavy to be read at all.
    pub(crate) const fn is_too_heavy(&self, weight: usize) -> bool {
        weight > self.sizes.heaviest
    }

    /// A body of this address, which takes room as it comes.
    pub(crate) const fn body(&self, peer: IpAddr, deadline: Instant) -> Growing<'_> {
        Growing {
            scales: self,
            peer,
            deadline,
            body: Held {
                text: Vec::new(),
                rooms: Vec::new(),
            },
        }
    }

    /// Room for what is made from a body.
    pub(crate) async fn tree(
        &self,
        peer: IpAddr,
        weight: usize,
        deadline: Instant,
    ) -> Result<Room, Full> {
        self.trees.take(peer, weight, deadline).await
    }

    /// How many addresses hold or wait for room.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> usize {
        self.bodies.of_peer.peers() + self.trees.of_peer.peers()
    }

    /// Kibibytes that are taken, of bodies and of trees.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> [usize; 2] {
        let taken = |pool: &Pool, bytes: usize| bytes / KIB - pool.of_all.available_permits();
        [
            taken(&self.bodies, self.sizes.bodies),
            taken(&self.trees, self.sizes.trees),
        ]
    }
}

/// A text with the room that its memory takes.
struct Held {
    text: Vec<u8>,
    rooms: Vec<Room>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// A body that is being read.
pub(crate) struct Growing<'a> {
    scales: &'a Scales,
    peer: IpAddr,
    deadline: Instant,
    body: Held,
}

impl Growing<'_> {
    /// Adds to it, when there is room.
    pub(crate) async fn push(&mut self, data: &[u8]) -> Result<(), Full> {
        let Held { text, rooms } = &mut self.body;
        let length = text.len() + data.len();
        if length > text.capacity() {
            // What comes in one piece takes no more than that; the rest doubles, so that little is moved.
            let wanted = if text.is_empty() {
                length
            } else {
                length.next_power_of_two().min(self.scales.sizes.largest)
            };
            let wanted = wanted.max(length).next_multiple_of(KIB);
            let more = wanted - text.capacity();
            let room = self.scales.bodies.take(self.peer, more, self.deadline);
            rooms.push(room.await?);
            text.reserve_exact(wanted - text.len());
        }
        text.extend_from_slice(data);
        Ok(())
    }

    /// The whole. Its room is free when the last part of it is dropped.
    pub(crate) fn end(self) -> Bytes {
        Bytes::from_owner(self.body)
    }
}

/// What a user takes at most: the texts, a place in a list or map for each of them, and the question about a right that
/// names them all, in the copies that a call makes.
pub(crate) fn of_user(user: &UserInfo) -> usize {
    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = user;
    let texts = |list: &[String]| list.iter().map(|it| of_text(it)).sum::<usize>();
    let extra = extra.iter().flatten();
    username.as_deref().map_or(0, of_text)
        + uid.as_deref().map_or(0, of_text)
        + groups.as_deref().map_or(0, texts)
        + extra
            .map(|(key, values)| of_text(key) + texts(values))
            .sum::<usize>()
}

fn of_text(text: &str) -> usize {
    128 + 5 * text.len()
}

/// What a buffer takes that holds a few bytes.
const SMALLEST_BUFFER: usize = 16;

/// What the tree of a JSON text takes at most, from the marks in it: an object is a node with room for eleven fields,
/// and a list has twice the room that it needs while it grows. Marks in strings are none. A string with escapes is put
/// together beside the text, in a buffer that grows and is used again.
pub(crate) fn of(text: &str) -> usize {
    let (mut weight, mut is_string, mut is_escaped) = (text.len(), false, false);
    let (mut string, mut has_escapes, mut longest) = (0, false, 0);
    for byte in text.bytes() {
        if is_string {
            string += 1;
            (is_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            has_escapes |= is_escaped;
            if !is_string && has_escapes {
                longest = longest.max(string);
            }
            continue;
        }
        weight += match byte {
            b'"' => {
                (is_string, string, has_escapes) = (true, 0, false);
                0
            }
            b'{' => 704,
            b'[' => 160,
            b':' | b',' => 128,
            _ => 0,
        };
    }
    weight + SMALLEST_BUFFER + 2 * longest
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_becomes_large_in_memory_is_heavy() {
        assert_eq!(of(""), SMALLEST_BUFFER);
        let list = |item: &str| format!("[{}]", vec![item; 1000].join(","));
        for (text, at_least) in [
            (list("1"), 1000 * 64),
            (list("[]"), 1000 * 64),
            (list("{}"), 1000 * 640),
            (list(r#"{"":0}"#), 1000 * 640),
            (list(&format!("{:?}", "x".repeat(1000))), 1_000_000),
        ] {
            assert!(of(&text) >= at_least, "{}: {}", &text[..20], of(&text));
        }
    }

    #[test]
    fn the_largest_policy_that_the_schema_allows_is_light_enough() {
        let subject = r#"{"kind":"ServiceAccount","nameSelector":{"matchLabels":{"app.kubernetes.io/name":"builder-1000"}},
            "namespaceSelector":{"matchExpressions":[{"key":"team","operator":"In","values":["a","b"]}]}}"#;
        assert!(2 * 1000 * of(subject) < POLICIES.heaviest * 3 / 4);
    }

    #[test]
    fn marks_in_strings_weigh_nothing() {
        let plain = r#""{{{{[[,,""#;
        assert_eq!(of(plain), plain.len() + SMALLEST_BUFFER);
        // Where there are escapes the string is put together in a buffer.
        for text in [r#""\"{{{{[[""#, r#""\\""#] {
            let buffer = SMALLEST_BUFFER + 2 * (text.len() - 1);
            assert_eq!(of(text), text.len() + buffer, "{text}");
        }
        let after = 7 + 160 + 128 + 704 + SMALLEST_BUFFER + 2 * 3;
        assert_eq!(of(r#"["\\",{"#), after, "after a string");
    }

    /// Any JSON: nested, wide, full of small objects or of long texts.
    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            "[a-z]{200,400}".prop_map(Value::from),
            "([a-z]|\\n|\"){200,400}".prop_map(Value::from),
        ];
        leaf.prop_recursive(8, 400, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,12}", inner, 0..40)
                    .prop_map(|it| Value::from(serde_json::Map::from_iter(it))),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_tree_takes_more_bytes_than_it_weighs(tree in trees()) {
            for text in [tree.to_string(), format!("{tree:#}")] {
                let cost = measure(|| drop(serde_json::from_str::<Value>(&text)));
                let weight = u64::try_from(of(&text)).unwrap();
                prop_assert!(cost.bytes_max <= weight, "{} of {weight}: {text}", cost.bytes_max);
            }
        }
    }

    const PEER_A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER_B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const PEER_C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn scales(sizes: Sizes) -> Scales {
        Scales::new(sizes, &Limits::for_tests())
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_and_gives_up_in_time_to_say_so() {
        let scales = scales(POLICIES);
        let deadline = Instant::now() + Duration::from_secs(4);
        let half = POLICIES.trees / PEER;
        let first = scales.tree(PEER_A, half, deadline).await.unwrap();
        let _second = scales.tree(PEER_B, half, deadline).await.unwrap();
        assert!(scales.tree(PEER_C, KIB, deadline).await.is_err());
        assert!(Instant::now() < deadline);
        let deadline = Instant::now() + Duration::from_secs(4);
        let mut body = scales.body(PEER_C, deadline);
        assert!(body.push(b"x").await.is_ok(), "room of their own");
        drop(first);
        let heaviest = scales.tree(PEER_C, POLICIES.heaviest, deadline).await;
        assert!(heaviest.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_takes_half_and_waits_for_itself_alone() {
        for sizes in [POLICIES, REQUESTS, CONNECTORS] {
            let scales = scales(sizes);
            let deadline = Instant::now() + Duration::from_secs(4);
            let _half = scales.tree(PEER_A, sizes.trees / PEER, deadline).await;
            let deadline = Instant::now() + Duration::from_secs(4);
            {
                let mut waits = std::pin::pin!(scales.tree(PEER_A, KIB, deadline));
                assert!(futures::poll!(&mut waits).is_pending());
                let half = sizes.trees / PEER / KIB;
                assert_eq!(scales.taken(), [0, half], "it takes nothing while it waits");
                assert!(waits.await.is_err());
            }
            let deadline = Instant::now() + Duration::from_secs(4);
            let heaviest = scales.tree(PEER_B, sizes.heaviest, deadline).await;
            assert!(
                heaviest.is_ok(),
                "what one may have at all fits into its half"
            );
            let mut body = scales.body(PEER_B, deadline);
            assert!(body.push(&vec![0; sizes.largest]).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_body_takes_room_as_it_comes_and_keeps_it_with_its_last_part() {
        let scales = scales(REQUESTS);
        let deadline = Instant::now() + Duration::from_secs(4);
        let mut body = scales.body(PEER_A, deadline);
        assert_eq!(scales.taken(), [0, 0]);
        for (bytes, taken) in [
            (0, 0),
            (10, 1),
            (KIB - 10, 1),
            (1, 2),
            (2 * KIB, 4),
            (2 * KIB, 8),
        ] {
            body.push(&vec![b'x'; bytes]).await.unwrap();
            assert_eq!(scales.taken(), [taken, 0], "{bytes}");
            assert!(body.body.text.capacity() <= taken * KIB);
        }
        let whole = body.end();
        let part = whole.slice(7..9);
        drop(whole);
        assert_eq!(scales.taken(), [8, 0]);
        drop(part);
        assert_eq!(scales.taken(), [0, 0]);
        let mut broken = scales.body(PEER_A, deadline);
        broken.push(&[0; KIB]).await.unwrap();
        drop(broken);
        assert_eq!(scales.taken(), [0, 0]);
    }

    #[test]
    fn every_kept_byte_of_a_user_weighs() {
        let weight = |user: serde_json::Value| of_user(&serde_json::from_value(user).unwrap());
        assert_eq!(weight(serde_json::json!({})), 0);
        let long = "x".repeat(1000);
        for user in [
            serde_json::json!({"username": long}),
            serde_json::json!({"uid": long}),
            serde_json::json!({"groups": [long]}),
            serde_json::json!({"extra": {"k": [long]}}),
            serde_json::json!({"extra": {long.as_str(): []}}),
        ] {
            assert!(weight(user.clone()) >= 5000, "{user}");
        }
        let names = serde_json::json!({"groups": vec![""; 1000]});
        assert!(weight(names) >= 1000 * size_of::<String>());
        // The largest that is read at all, beside a request.
        let large = serde_json::json!({"groups": vec!["x".repeat(60); 1024], "extra": {"k": vec![""; 1023]}});
        assert!(weight(large) < REQUESTS.heaviest / 2);
    }
}
