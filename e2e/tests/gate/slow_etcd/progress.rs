//! The responses of an etcd watch without most of its progress notifications.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::body::{Body, Bytes, Frame, Incoming};

/// The API server asks for progress every 100 ms while a list waits. After a longer pause another list waits.
const PAUSE: Duration = Duration::from_millis(500);

/// The time after which a list that waits gets its progress notification; changed while the proxy runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Delay(Arc<AtomicU64>);

impl Delay {
    pub(super) fn set(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.0.store(millis, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The gRPC messages of one watch. Notifications are dropped and never moved, so revisions come in their order.
pub(super) struct SlowProgress {
    watch: Incoming,
    delay: Delay,
    /// The bytes of a message that is not complete yet.
    rest: Vec<u8>,
    waits: Wait,
}

/// Since when progress is asked for, and when it was asked for last.
#[derive(Debug, Default)]
struct Wait(Option<(Instant, Instant)>);

impl Wait {
    /// Whether a notification that comes now reaches the API server.
    fn is_over(&mut self, now: Instant, delay: Duration) -> bool {
        let since = self.0.filter(|(_, last)| now - *last <= PAUSE);
        let since = since.map_or(now, |(since, _)| since);
        let is_over = now - since >= delay;
        self.0 = (!is_over).then_some((since, now));
        is_over
    }
}

impl SlowProgress {
    pub(super) fn of(watch: Incoming, delay: Delay) -> Self {
        Self {
            watch,
            delay,
            rest: Vec::new(),
            waits: Wait::default(),
        }
    }

    /// The complete messages that reach the API server.
    fn passed(&mut self, data: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(data);
        let mut passed = Vec::new();
        while let Some(length) = length_of_message(&self.rest) {
            let message: Vec<u8> = self.rest.drain(..length).collect();
            let is_held = is_progress(&message[PREFIX..])
                && !self.waits.is_over(Instant::now(), self.delay.get());
            if !is_held {
                passed.extend(message);
            }
        }
        passed
    }
}

impl Body for SlowProgress {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.watch).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let passed = self.passed(&data);
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(passed.into()))));
            }
        }
    }
}

/// A byte for compression and four for the length.
const PREFIX: usize = 5;

/// The length of the first message with its prefix; none while it is not complete.
fn length_of_message(bytes: &[u8]) -> Option<usize> {
    let prefix: [u8; PREFIX] = bytes.get(..PREFIX)?.try_into().ok()?;
    let [compressed, length @ ..] = prefix;
    assert_eq!(compressed, 0, "etcd compresses no response");
    let length = PREFIX + usize::try_from(u32::from_be_bytes(length)).unwrap();
    (bytes.len() >= length).then_some(length)
}

/// The fields of a `WatchResponse` that a progress notification lacks: created, canceled, events.
const OTHERS: [u64; 3] = [3, 4, 11];

/// Whether a `WatchResponse` only tells a revision.
fn is_progress(mut message: &[u8]) -> bool {
    while !message.is_empty() {
        let tag = varint(&mut message);
        if OTHERS.contains(&(tag >> 3)) {
            return false;
        }
        match tag & 7 {
            0 => drop(varint(&mut message)),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                message = &message[length..];
            }
            wire => panic!("a WatchResponse has no field of wire type {wire}"),
        }
    }
    true
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

#[test]
fn a_notification_passes_after_the_delay_and_a_pause_begins_it_anew() {
    let start = Instant::now();
    let mut wait = Wait::default();
    let mut passes = |millis: u64| {
        let now = start + Duration::from_millis(millis);
        wait.is_over(now, Duration::from_secs(1))
    };
    for (millis, expected) in [
        (0, false),
        (100, false),
        (500, false),
        (1000, true),
        (1100, false),
        (1700, false), // after a pause
        (2100, false),
        (2600, false),
        (2700, true),
    ] {
        assert_eq!(passes(millis), expected, "after {millis} ms");
    }
}

#[test]
fn only_a_response_without_events_created_and_canceled_is_progress() {
    // Field 1 is the header, field 2 the id of the watch.
    let header = [0x0a, 0x02, 0x18, 0x07, 0x10, 0x01];
    assert!(is_progress(&header));
    for other in [&[0x18, 0x01][..], &[0x20, 0x01], &[0x5a, 0x00]] {
        assert!(!is_progress(&[&header, other].concat()), "{other:?}");
    }
}
