//! The limits of each caller at the same time. A caller that wants more is refused or waits, and no other caller
//! notices.
//!
//! Owns: how many calls, streams, messages and questions to the API server each caller has. Refuses to know: which
//! connections and tokens count as one caller (`caller_identity`), and the rights of callers.
//!
//! Invariant: a share is returned when its last use is over, however that ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evaluation_api::MOST_OBJECT_CALLS;
use service_kit::quota::{self, Quota};
use tokio::time::timeout;

use crate::caller_identity::CallerIdentity;
use crate::error::Refused;
use crate::metrics::Metrics;
use crate::stream_memory::{StreamBudget, StreamMemory};

/// Messages with objects of all callers that are in memory at the same time. One caller has fewer than may be evaluated
/// before a grant, so that others find a place.
pub(crate) const MESSAGES: usize = 12;
/// The same for messages with many questions.
const BATCHES: usize = 24;
const BATCHES_OF_ONE: usize = 8;
/// Questions to the API server for one caller at the same time. There are fewer than of any kind for all.
const QUESTIONS: usize = 12;
/// How long a call waits to ask the API server. After a restart all callers come at once.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The limits of one caller at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerLimits {
    /// Calls that are being answered.
    pub calls: usize,
    /// Streams that are open.
    pub streams: usize,
}

/// The limited resource, by the word of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rpc {
    Call,
    Stream,
}

impl Rpc {
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

/// A caller's share of one quota, until this is dropped.
pub(crate) type CallerPermit = quota::Permit<Arc<CallerIdentity>>;
/// One call or stream of a caller, until the last clone of this is dropped.
pub(crate) type OpenCall = Arc<CallerPermit>;

/// The quotas of all callers. Clones share them.
#[derive(Clone)]
pub(crate) struct Quotas(Arc<CallerQuotaState>);

struct CallerQuotaState {
    metrics: Metrics,
    calls: Quota<Arc<CallerIdentity>>,
    streams: Quota<Arc<CallerIdentity>>,
    messages: Quota<Arc<CallerIdentity>>,
    batches: Quota<Arc<CallerIdentity>>,
    questions: Quota<Arc<CallerIdentity>>,
    memory: Arc<Mutex<StreamBudget>>,
}

/// The quotas of one caller.
#[derive(Clone)]
pub(crate) struct CallerQuotas {
    caller: Arc<CallerIdentity>,
    all: Quotas,
}

impl Quotas {
    pub(crate) fn new(limits: CallerLimits, metrics: Metrics) -> Self {
        Self(Arc::new(CallerQuotaState {
            metrics,
            calls: Quota::per_tenant(limits.calls),
            streams: Quota::per_tenant(limits.streams),
            messages: Quota::new(MESSAGES, MOST_OBJECT_CALLS),
            batches: Quota::new(BATCHES, BATCHES_OF_ONE),
            questions: Quota::per_tenant(QUESTIONS),
            memory: Arc::default(),
        }))
    }

    /// The quotas of a caller.
    pub(crate) fn of(&self, caller: CallerIdentity) -> CallerQuotas {
        CallerQuotas {
            caller: Arc::new(caller),
            all: self.clone(),
        }
    }
}

impl CallerQuotas {
    /// Begins a call or a stream, at once or not at all, because waiting would also take memory.
    pub(crate) fn begin(&self, kind: Rpc) -> Result<OpenCall, Refused> {
        let quotas = &self.all.0;
        let quota = match kind {
            Rpc::Call => &quotas.calls,
            Rpc::Stream => &quotas.streams,
        };
        let open = quota.try_take(self.caller(), 1).map_err(|_| {
            quotas.metrics.caller_limit(kind.as_str());
            kind.refusal()
        })?;
        Ok(Arc::new(open))
    }

    /// Waits for a place for a message with objects, behind only the caller's own messages.
    pub(crate) async fn message(&self) -> CallerPermit {
        self.all.0.messages.take(self.caller(), 1).await
    }

    /// Waits for a place for a message with many questions, behind only the caller's own messages.
    pub(crate) async fn batch(&self) -> CallerPermit {
        self.all.0.batches.take(self.caller(), 1).await
    }

    /// Waits until the API server may be asked for this caller, behind only its own questions.
    pub(crate) async fn question(&self) -> Result<CallerPermit, Refused> {
        let question = self.all.0.questions.take(self.caller(), 1);
        let question = timeout(LONGEST_WAIT, question).await;
        question.map_err(|_| Refused::TooManyReviews)
    }

    /// The memory of a new stream, none yet.
    pub(crate) fn stream_memory(&self) -> StreamMemory {
        StreamMemory::new(Arc::clone(&self.all.0.memory), self.caller())
    }

    fn caller(&self) -> Arc<CallerIdentity> {
        Arc::clone(&self.caller)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::FutureExt;
    use prometheus::Registry;

    use k8s_openapi::api::authentication::v1::UserInfo;
    use service_kit::reviews::POD_UID;

    use super::*;

    const LIMITS: CallerLimits = CallerLimits {
        calls: 3,
        streams: 2,
    };

    fn quotas() -> Quotas {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        Quotas::new(LIMITS, metrics)
    }

    fn user(name: &str, extra: &[(&str, &str)]) -> CallerIdentity {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), vec![(*value).to_owned()]);
        let extra: BTreeMap<_, _> = extra.iter().map(pair).collect();
        CallerIdentity::of(&UserInfo {
            username: Some(name.to_owned()),
            extra: Some(extra),
            ..UserInfo::default()
        })
    }

    fn take_all(caller: &CallerQuotas, kind: Rpc) -> Vec<OpenCall> {
        std::iter::from_fn(|| caller.begin(kind).ok()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_never_takes_the_places_of_another() {
        let quotas = quotas();
        let greedy = quotas.of(user("greedy", &[]));
        let modest = quotas.of(user("modest", &[]));
        let local = quotas.of(CallerIdentity::Local(0));
        let calls = take_all(&greedy, Rpc::Call);
        let streams = take_all(&greedy, Rpc::Stream);
        assert_eq!((calls.len(), streams.len()), (LIMITS.calls, LIMITS.streams));
        let refused = [Rpc::Call, Rpc::Stream].map(|kind| greedy.begin(kind).err());
        assert!(matches!(
            refused,
            [Some(Refused::TooManyCalls), Some(Refused::TooManyStreams)]
        ));
        let messages: Vec<_> = (0..MOST_OBJECT_CALLS)
            .map(|_| greedy.message().now_or_never().unwrap())
            .collect();
        let questions: Vec<_> = (0..QUESTIONS)
            .map(|_| greedy.question().now_or_never().unwrap())
            .collect();
        let batches: Vec<_> = (0..BATCHES_OF_ONE)
            .map(|_| greedy.batch().now_or_never().unwrap())
            .collect();
        assert!(greedy.message().now_or_never().is_none());
        assert!(greedy.batch().now_or_never().is_none());
        assert!(greedy.question().now_or_never().is_none());
        for other in [modest, local] {
            assert_eq!(take_all(&other, Rpc::Call).len(), LIMITS.calls);
            assert_eq!(take_all(&other, Rpc::Stream).len(), LIMITS.streams);
            assert!(other.message().now_or_never().is_some());
            assert!(other.batch().now_or_never().is_some());
            assert!(other.question().now_or_never().is_some());
        }
        drop((messages, batches, questions));
    }

    #[test]
    fn another_token_is_not_another_caller_and_another_pod_is() {
        let token = "authentication.kubernetes.io/credential-id";
        let plugin = |id: &str, pod: &str| user("csi-node", &[(token, id), (POD_UID, pod)]);
        assert_eq!(plugin("1", "a"), plugin("2", "a"));
        assert_ne!(plugin("1", "a"), plugin("1", "b"));
        let loose = user("csi-node", &[]);
        assert_ne!(plugin("1", "a"), loose);
        assert_eq!(user("csi-node", &[(token, "3")]), loose);
        assert_ne!(CallerIdentity::Local(0), CallerIdentity::Local(1));
    }

    #[test]
    fn a_place_is_taken_until_all_that_it_stands_for_is_gone() {
        let quotas = quotas();
        let caller = quotas.of(user("a", &[]));
        let mut all = take_all(&caller, Rpc::Stream);
        let task = all[0].clone();
        drop(all.remove(0));
        assert!(caller.begin(Rpc::Stream).is_err());
        drop(task);
        assert!(caller.begin(Rpc::Stream).is_ok());
    }

    #[test]
    fn a_caller_is_remembered_as_long_as_it_has_something_and_no_longer() {
        let quotas = quotas();
        let caller = quotas.of(user("a", &[]));
        let place = take_all(&caller, Rpc::Call).pop().unwrap();
        drop(caller);
        // Its open calls count, even if the rest about it was forgotten meanwhile.
        let again = quotas.of(user("a", &[]));
        assert_eq!(take_all(&again, Rpc::Call).len(), LIMITS.calls - 1);
        drop((again, place));
        assert_eq!(quotas.0.calls.tenants(), 0);
    }
}
