//! What reviews may cost in memory, together.
//!
//! A few bytes of JSON can become hundreds in memory, and the schema keeps fields that it does not know. So what is
//! asked about is weighed before it is read, and waits until there is room for it. Each kind has room of its own: who
//! writes large policies keeps nobody's pods waiting. Who only says that much will come takes no room.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

const MIB: usize = 1 << 20;
/// Permits are counted in these.
const KIB: usize = 1 << 10;
/// Kept back for the judgement, when there was a wait.
const JUDGEMENT: Duration = Duration::from_secs(2);

/// How much room a kind has.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Bodies that are held at the same time.
    bodies: usize,
    /// Trees that are held at the same time.
    trees: usize,
    /// The heaviest tree that is read at all.
    heaviest: usize,
}

/// A thousand subjects and a thousand requesters weigh three quarters of the heaviest.
pub(super) const POLICIES: Sizes = Sizes {
    bodies: 8 * MIB,
    trees: 40 * MIB,
    heaviest: 20 * MIB,
};
/// A request is small.
pub(super) const REQUESTS: Sizes = Sizes {
    bodies: 4 * MIB,
    trees: 8 * MIB,
    heaviest: 2 * MIB,
};
/// Of a connector only a few fields are read.
pub(super) const CONNECTORS: Sizes = Sizes {
    bodies: 4 * MIB,
    trees: 0,
    heaviest: 0,
};

/// Room for what is being reviewed of one kind.
#[derive(Clone)]
pub(super) struct Scales {
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
    heaviest: usize,
}

/// Room that is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Room(OwnedSemaphorePermit);

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Scales {
    pub(super) fn new(sizes: Sizes) -> Self {
        let Sizes {
            bodies,
            trees,
            heaviest,
        } = sizes;
        Self {
            bodies: Arc::new(Semaphore::new(bodies / KIB)),
            trees: Arc::new(Semaphore::new(trees / KIB)),
            heaviest,
        }
    }

    /// Whether a tree is too heavy to be read at all.
    pub(super) fn is_too_heavy(&self, weight: usize) -> bool {
        weight > self.heaviest
    }

    /// Room for a body that has so many bytes by now, of which some had room before.
    pub(super) async fn body(
        &self,
        before: Option<Room>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Room, Full> {
        let had = before.as_ref().map_or(0, |it| it.0.num_permits() * KIB);
        let more = room(&self.bodies, bytes.saturating_sub(had), deadline).await?;
        let Some(mut all) = before else {
            return Ok(more);
        };
        all.0.merge(more.0);
        Ok(all)
    }

    /// Room for the tree of a text. Who has it asks for no body any more, so nobody waits for himself.
    pub(super) async fn tree(&self, weight: usize, deadline: Instant) -> Result<Room, Full> {
        room(&self.trees, weight, deadline).await
    }
}

async fn room(of: &Arc<Semaphore>, bytes: usize, deadline: Instant) -> Result<Room, Full> {
    let permits = u32::try_from(bytes.div_ceil(KIB)).map_err(|_| Full)?;
    let room = Arc::clone(of).acquire_many_owned(permits);
    match timeout_at(deadline - JUDGEMENT, room).await {
        Ok(Ok(permit)) => Ok(Room(permit)),
        Ok(Err(_)) | Err(_) => Err(Full),
    }
}

/// What the tree of a JSON text takes at most, from the marks in it: an object is a node with room for eleven fields,
/// and a list has twice the room that it needs while it grows. Marks in strings are none.
pub(super) fn of(text: &str) -> usize {
    let (mut weight, mut is_string, mut is_escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        if is_string {
            (is_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        weight += match byte {
            b'"' => {
                is_string = true;
                0
            }
            b'{' => 704,
            b'[' => 160,
            b':' | b',' => 128,
            _ => 0,
        };
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_large_in_memory_is_heavy() {
        assert_eq!(of(""), 0);
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
        for text in [r#""{{{{[[,,""#, r#""\"{{{{[[""#, r#""\\""#] {
            assert_eq!(of(text), text.len(), "{text}");
        }
        assert_eq!(of(r#"["\\",{"#), 7 + 160 + 128 + 704, "after a string");
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_and_gives_up_in_time_to_say_so() {
        let scales = Scales::new(POLICIES);
        let deadline = Instant::now() + Duration::from_secs(4);
        let first = scales.tree(POLICIES.trees - KIB, deadline).await.unwrap();
        let _small = scales.tree(KIB, deadline).await.unwrap();
        assert!(scales.tree(KIB, deadline).await.is_err());
        assert!(Instant::now() < deadline);
        let body = scales.body(None, POLICIES.bodies, deadline).await;
        assert!(body.is_ok(), "room of their own");
        drop(first);
        assert!(scales.tree(POLICIES.heaviest, deadline).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_takes_room_as_it_comes() {
        let scales = Scales::new(REQUESTS);
        let deadline = Instant::now() + Duration::from_secs(4);
        let mut room = None;
        for bytes in [0, 10, KIB, KIB + 1, 3 * KIB] {
            room = Some(scales.body(room, bytes, deadline).await.unwrap());
            let taken = REQUESTS.bodies / KIB - scales.bodies.available_permits();
            assert_eq!(taken, bytes.div_ceil(KIB), "{bytes}");
        }
    }
}
