//! What reviews may cost in memory, together.
//!
//! A few bytes of JSON can become hundreds in memory, and the schema keeps fields that it does not know. So what is
//! asked about is weighed before it is read, and waits until there is room for it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Bodies that are held at the same time: three of the largest.
const BODIES: usize = 3 * super::http::LARGEST;
/// Trees that are held at the same time.
const TREES: usize = 40 << 20;
/// The heaviest tree that is read at all. A thousand subjects and a thousand requesters weigh half of it.
pub(super) const HEAVIEST: usize = 20 << 20;
/// Permits are counted in these.
const KIB: usize = 1 << 10;
/// Kept back for the judgement, when there was a wait.
const JUDGEMENT: Duration = Duration::from_secs(2);

/// Room for what is being reviewed.
#[derive(Clone)]
pub(super) struct Scales {
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
}

/// Room that is free again when this is dropped.
pub(super) struct Room(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Default for Scales {
    fn default() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(BODIES / KIB)),
            trees: Arc::new(Semaphore::new(TREES / KIB)),
        }
    }
}

impl Scales {
    /// Room for a body that may have so many bytes. Whoever has it may ask for a tree, never the other way round.
    pub(super) async fn body(&self, bytes: usize, deadline: Instant) -> Result<Room, Full> {
        room(&self.bodies, bytes.min(BODIES), deadline).await
    }

    /// Room for the tree of a text.
    pub(super) async fn tree(&self, weight: usize, deadline: Instant) -> Result<Room, Full> {
        room(&self.trees, weight.min(TREES), deadline).await
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
/// and a list has twice the room that it needs while it grows. Marks in strings count, too; there are few.
pub(super) fn of(text: &str) -> usize {
    let marks = text.bytes().map(|byte| match byte {
        b'{' => 704,
        b'[' => 160,
        b':' | b',' => 128,
        _ => 0,
    });
    marks.sum::<usize>() + text.len()
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
        assert!(2 * 1000 * of(subject) < HEAVIEST * 3 / 4);
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_and_gives_up_in_time_to_say_so() {
        let scales = Scales::default();
        let deadline = Instant::now() + Duration::from_secs(4);
        let first = scales.tree(TREES - KIB, deadline).await.unwrap();
        let _small = scales.tree(KIB, deadline).await.unwrap();
        assert!(scales.tree(KIB, deadline).await.is_err());
        assert!(Instant::now() < deadline);
        assert!(
            scales.body(BODIES, deadline).await.is_ok(),
            "room of their own"
        );
        drop(first);
        assert!(scales.tree(HEAVIEST, deadline).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_larger_than_all_the_room_takes_all_of_it() {
        let deadline = Instant::now() + Duration::from_secs(4);
        assert!(Scales::default().body(usize::MAX, deadline).await.is_ok());
    }
}
