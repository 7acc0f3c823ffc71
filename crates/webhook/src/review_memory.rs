//! The memory of reviews, in total and by client address.
//!
//! A few bytes of JSON can become hundreds in memory, and the schema keeps unknown fields. So an object is weighed
//! before it is read, and waits until there is enough memory. A body keeps its memory until its last part is dropped, a
//! tree until it is no longer used. Each kind has memory of its own, so that large policies do not delay pods. A
//! declared Content-Length alone reserves no memory.

use std::{net::IpAddr, time::Duration};

use hyper::body::Bytes;
use k8s_openapi::api::authentication::v1::UserInfo;
use service_kit::quota::{Permit, Quota};
use tokio::time::{Instant, timeout_at};

use crate::{
    metrics::Limit,
    peer_quota::{PeerLimits, PeerQuota},
};

const MIB: usize = 1 << 20;
/// Permits are counted in these.
const KIB: usize = 1 << 10;
/// The time that is kept for the judgement when a review had to wait.
const JUDGEMENT: Duration = Duration::from_secs(2);
/// Of each kind's room, one address has half. A whole control plane may be behind one address, and half is enough for
/// it: the largest body and the heaviest tree, or a hundred ordinary reviews at a time.
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

/// Of a pipeline run only the annotations are looked for.
pub(crate) const RUNS: Sizes = Sizes {
    bodies: 8 * MIB,
    largest: 4 * MIB,
    trees: MIB,
    heaviest: MIB / 2,
};

/// Of a pod only its volumes and gates are looked for.
pub(crate) const PODS: Sizes = Sizes {
    bodies: 8 * MIB,
    largest: 4 * MIB,
    trees: MIB,
    heaviest: MIB / 2,
};

/// Room for what is being reviewed of one kind.
#[derive(Clone)]
pub(crate) struct Scales {
    bodies: PeerQuota,
    trees: PeerQuota,
    sizes: Sizes,
}

/// Room that is free again when this is dropped.
pub(crate) type Room = Permit<IpAddr>;

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Scales {
    pub(crate) fn new(sizes: Sizes, limits: &PeerLimits) -> Self {
        let room = |bytes: usize| {
            let quota = Quota::new(bytes / KIB, bytes / KIB / PEER);
            limits.quota(Limit::Memory, quota)
        };
        Self {
            bodies: room(sizes.bodies),
            trees: room(sizes.trees),
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
            body: HeldText {
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
    ) -> Result<Room, NoRoom> {
        take(&self.trees, peer, weight, deadline).await
    }

    /// How many addresses hold or wait for room.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> usize {
        self.bodies.peers() + self.trees.peers()
    }

    /// Kibibytes that are taken, of bodies and of trees.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> [usize; 2] {
        [self.bodies.held(), self.trees.held()]
    }
}

async fn take(
    quota: &PeerQuota,
    peer: IpAddr,
    bytes: usize,
    deadline: Instant,
) -> Result<Room, NoRoom> {
    let units = u32::try_from(bytes.div_ceil(KIB)).map_err(|_| NoRoom)?;
    let room = timeout_at(deadline - JUDGEMENT, quota.take(peer, units));
    room.await.map_err(|_| NoRoom)
}

/// A text with the room that its memory takes.
struct HeldText {
    text: Vec<u8>,
    rooms: Vec<Room>,
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// A body that is being read.
pub(crate) struct Growing<'a> {
    scales: &'a Scales,
    peer: IpAddr,
    deadline: Instant,
    body: HeldText,
}

impl Growing<'_> {
    /// Adds to it, when there is room.
    pub(crate) async fn push(&mut self, data: &[u8]) -> Result<(), NoRoom> {
        let HeldText { text, rooms } = &mut self.body;
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
            let room = take(&self.scales.bodies, self.peer, more, self.deadline);
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

/// The most that a user takes: the texts, a place in a list or map for each of them, and the question about a right that
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

#[cfg(test)]
mod tests {
    use service_kit::json_weight::weigh;

    use super::*;

    #[test]
    fn the_largest_policy_that_the_schema_allows_is_light_enough() {
        let subject = r#"{"kind":"ServiceAccount","nameSelector":{"matchLabels":{"app.kubernetes.io/name":"builder-1000"}},
            "namespaceSelector":{"matchExpressions":[{"key":"team","operator":"In","values":["a","b"]}]}}"#;
        assert!(2 * 1000 * weigh(subject.as_bytes()) < POLICIES.heaviest * 3 / 4);
    }

    const PEER_A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER_B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const PEER_C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn scales(sizes: Sizes) -> Scales {
        Scales::new(sizes, &PeerLimits::for_tests())
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
        for sizes in [POLICIES, REQUESTS, CONNECTORS, RUNS, PODS] {
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
            assert!(
                !scales.is_too_heavy(sizes.heaviest) && scales.is_too_heavy(sizes.heaviest + 1)
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
        // A piece that fills the room to its end takes no more.
        let mut filled = scales.body(PEER_A, deadline);
        for (bytes, taken) in [(2 * KIB + 1, 3), (KIB - 1, 3), (1, 4)] {
            filled.push(&vec![b'x'; bytes]).await.unwrap();
            assert_eq!(scales.taken(), [taken, 0], "{bytes}");
        }
        drop(filled);
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
