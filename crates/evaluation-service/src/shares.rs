//! What each caller may have of the service at the same time: who asks for more is sent away, and nobody
//! else notices.
//!
//! Owns: who counts as one caller, and how many calls, streams, messages and questions to the API server
//! each has. Refuses to know: who may ask about what. Invariant: a place is given back when the last
//! thing that it stands for is gone, however that ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use k8s_openapi::api::authentication::v1::UserInfo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::error::Refused;
use crate::metrics::Metrics;
use crate::watched::{All, Part, Watched};

/// Messages of one caller that bring objects and are in memory at the same time. Fewer than there are
/// places for, and than may be evaluated before a grant: others find one.
const MESSAGES: usize = 8;
/// Messages of one caller with many questions that are in memory at the same time. Others find a place.
const BATCHES: usize = 8;
/// What is asked of the API server for one caller at the same time, fewer than of any kind for all.
const ASKED: usize = 12;

/// Where the API server says which pod a token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// How much one caller may have at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerLimits {
    /// Calls that are being answered.
    pub calls: usize,
    /// Streams that are open.
    pub streams: usize,
}

/// What is limited, by the word of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Stream,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "calls",
            Self::Stream => "streams",
        }
    }

    const fn refusal(self) -> Refused {
        match self {
            Self::Call => Refused::TooManyCalls,
            Self::Stream => Refused::TooManyStreams,
        }
    }
}

/// Who counts as one caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A user of the cluster. A daemon is one account on every node, and one caller on each: whose token
    /// is bound to a pod is told apart by that. Nothing else that a user may choose counts.
    User {
        name: String,
        pod: Option<Vec<String>>,
    },
    /// A user of this machine.
    Local(u32),
}

impl Owner {
    pub(crate) fn of(user: &UserInfo) -> Self {
        let extra = user.extra.as_ref();
        Self::User {
            name: user.username.clone().unwrap_or_default(),
            pod: extra.and_then(|extra| extra.get(POD_UID)).cloned(),
        }
    }
}

/// The shares of all callers. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Shares(Arc<Inner>);

struct Inner {
    limits: CallerLimits,
    metrics: Metrics,
    known: Mutex<HashMap<Owner, Weak<Share>>>,
    watched: Arc<All>,
}

/// The share of one caller.
pub(crate) struct Share {
    owner: Owner,
    shares: Shares,
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    messages: Semaphore,
    batches: Semaphore,
    asked: Semaphore,
    watched: Arc<Part>,
}

/// One call or stream of a caller, until the last clone of this is dropped.
#[derive(Clone)]
pub(crate) struct Place(#[allow(dead_code, reason = "it is there to be dropped")] Arc<Taken>);

struct Taken {
    _permit: OwnedSemaphorePermit,
    /// As long as anything of it is taken, it is the share of its owner.
    _share: Arc<Share>,
}

impl Shares {
    pub(crate) fn new(limits: CallerLimits, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            limits,
            metrics,
            known: Mutex::default(),
            watched: Arc::default(),
        }))
    }

    /// The share of a caller, the same one as long as anybody holds it.
    pub(crate) fn of(&self, owner: Owner) -> Arc<Share> {
        let mut known = self.lock();
        if let Some(share) = known.get(&owner).and_then(Weak::upgrade) {
            return share;
        }
        let CallerLimits { calls, streams } = self.0.limits;
        let share = Arc::new(Share {
            owner: owner.clone(),
            shares: self.clone(),
            calls: Arc::new(Semaphore::new(calls)),
            streams: Arc::new(Semaphore::new(streams)),
            messages: Semaphore::new(MESSAGES),
            batches: Semaphore::new(BATCHES),
            asked: Semaphore::new(ASKED),
            watched: Arc::default(),
        });
        known.insert(owner, Arc::downgrade(&share));
        share
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Weak<Share>>> {
        // Entries are put in and taken out whole.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// A place for a call or a stream, at once or not at all: who waits would take memory as well.
    pub(crate) fn begin(self: &Arc<Self>, kind: Kind) -> Result<Place, Refused> {
        let places = match kind {
            Kind::Call => &self.calls,
            Kind::Stream => &self.streams,
        };
        let Ok(permit) = Arc::clone(places).try_acquire_owned() else {
            self.shares.0.metrics.caller_limit(kind.as_str());
            return Err(kind.refusal());
        };
        Ok(Place(Arc::new(Taken {
            _permit: permit,
            _share: Arc::clone(self),
        })))
    }

    /// Waits for the turn of a message that brings objects, behind none but the caller's own.
    pub(crate) async fn message(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.messages.acquire().await.ok()
    }

    /// Waits for the turn of a message with many questions, behind none but the caller's own.
    pub(crate) async fn batch(&self) -> Option<SemaphorePermit<'_>> {
        self.batches.acquire().await.ok()
    }

    /// What a new stream takes, nothing yet.
    pub(crate) fn watched(&self) -> Watched {
        let all = Arc::clone(&self.shares.0.watched);
        Watched::new(all, Arc::clone(&self.watched))
    }

    /// Waits until the API server may be asked something for this caller, behind none but its own.
    pub(crate) async fn asked(&self) -> Option<SemaphorePermit<'_>> {
        self.asked.acquire().await.ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut known = self.shares.lock();
        // Somebody may have begun a new one since this one's last holder let go.
        if known
            .get(&self.owner)
            .is_some_and(|it| it.strong_count() == 0)
        {
            known.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;

    const LIMITS: CallerLimits = CallerLimits {
        calls: 3,
        streams: 2,
    };

    fn shares() -> Shares {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        Shares::new(LIMITS, metrics)
    }

    fn user(name: &str, extra: &[(&str, &str)]) -> Owner {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), vec![(*value).to_owned()]);
        let extra: BTreeMap<_, _> = extra.iter().map(pair).collect();
        Owner::of(&UserInfo {
            username: Some(name.to_owned()),
            extra: Some(extra),
            ..UserInfo::default()
        })
    }

    fn take_all(share: &Arc<Share>, kind: Kind) -> Vec<Place> {
        std::iter::from_fn(|| share.begin(kind).ok()).collect()
    }

    #[test]
    fn one_caller_never_takes_the_places_of_another() {
        let shares = shares();
        let greedy = shares.of(user("greedy", &[]));
        let modest = shares.of(user("modest", &[]));
        let local = shares.of(Owner::Local(0));
        let calls = take_all(&greedy, Kind::Call);
        let streams = take_all(&greedy, Kind::Stream);
        assert_eq!((calls.len(), streams.len()), (LIMITS.calls, LIMITS.streams));
        let refused = [Kind::Call, Kind::Stream].map(|kind| greedy.begin(kind).err());
        assert!(matches!(
            refused,
            [Some(Refused::TooManyCalls), Some(Refused::TooManyStreams)]
        ));
        let messages: Vec<_> = (0..MESSAGES)
            .map(|_| greedy.message().now_or_never().unwrap())
            .collect();
        let asked: Vec<_> = (0..ASKED)
            .map(|_| greedy.asked().now_or_never().unwrap())
            .collect();
        let batches: Vec<_> = (0..BATCHES)
            .map(|_| greedy.batch().now_or_never().unwrap())
            .collect();
        assert!(greedy.message().now_or_never().is_none());
        assert!(greedy.batch().now_or_never().is_none());
        assert!(greedy.asked().now_or_never().is_none());
        for other in [modest, local] {
            assert_eq!(take_all(&other, Kind::Call).len(), LIMITS.calls);
            assert_eq!(take_all(&other, Kind::Stream).len(), LIMITS.streams);
            assert!(other.message().now_or_never().is_some());
            assert!(other.batch().now_or_never().is_some());
            assert!(other.asked().now_or_never().is_some());
        }
        drop((messages, batches, asked));
    }

    #[test]
    fn another_token_is_not_another_caller_and_another_pod_is() {
        let shares = shares();
        let token = "authentication.kubernetes.io/credential-id";
        let plugin = |id: &str, pod: &str| user("csi-node", &[(token, id), (POD_UID, pod)]);
        let first = shares.of(plugin("1", "a"));
        assert!(Arc::ptr_eq(&first, &shares.of(plugin("2", "a"))));
        assert!(!Arc::ptr_eq(&first, &shares.of(plugin("1", "b"))));
        let loose = shares.of(user("csi-node", &[]));
        assert!(!Arc::ptr_eq(&first, &loose));
        assert!(Arc::ptr_eq(
            &loose,
            &shares.of(user("csi-node", &[(token, "3")]))
        ));
        assert!(!Arc::ptr_eq(
            &shares.of(Owner::Local(0)),
            &shares.of(Owner::Local(1))
        ));
    }

    #[test]
    fn a_place_is_taken_until_all_that_it_stands_for_is_gone() {
        let shares = shares();
        let share = shares.of(user("a", &[]));
        let mut all = take_all(&share, Kind::Stream);
        let task = all[0].clone();
        drop(all.remove(0));
        assert!(share.begin(Kind::Stream).is_err());
        drop(task);
        assert!(share.begin(Kind::Stream).is_ok());
    }

    #[test]
    fn a_caller_is_remembered_as_long_as_it_has_something_and_no_longer() {
        let shares = shares();
        let share = shares.of(user("a", &[]));
        let place = take_all(&share, Kind::Call).pop().unwrap();
        drop(share);
        // What it has counts, even if everything else about it was forgotten meanwhile.
        let again = shares.of(user("a", &[]));
        assert_eq!(take_all(&again, Kind::Call).len(), LIMITS.calls - 1);
        drop((again, place));
        assert!(shares.lock().is_empty());
    }
}
