//! The standing permissions that the API server refused a moment ago. For such an answer it walks all `RoleBindings` of the
//! connector's namespace, and all mounts of an account on this node ask the same question.
//!
//! Invariant: only a no is remembered, so the memory may delay access and never gives any.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use service_kit::cache::{Bounds, Cache};
use tokio::{sync::Mutex, time::Instant};

use crate::kubernetes::{Kubernetes, NoAnswer};

/// The age at which a no is forgotten.
pub(crate) const AGE: Duration = Duration::from_secs(3);
/// The questions of a node in that time. A forgotten one is asked again.
const BOUNDS: Bounds = Bounds {
    entries: 1024,
    bytes: 1 << 20,
    age: Some(AGE),
};

/// When the review of the last no began. Locked while a call asks.
type LastNo = Arc<Mutex<Option<Instant>>>;

/// The answer of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandingReview {
    /// Yes, in this very call.
    Allowed,
    /// No, by a review that began at this moment.
    RefusedAt(Instant),
}

/// The questions of the last seconds, as text: a no is remembered for exactly its question.
#[derive(Debug)]
pub(crate) struct RefusedReviews(Cache<String, LastNo>);

impl Default for RefusedReviews {
    fn default() -> Self {
        Self(Cache::new(BOUNDS))
    }
}

impl RefusedReviews {
    /// The API server's answer, or a no that is not older than this. Calls with the same question wait for the first of
    /// them.
    pub(crate) async fn ask<K: Kubernetes>(
        &self,
        kubernetes: &K,
        question: SubjectAccessReviewSpec,
        oldest: Instant,
    ) -> Result<StandingReview, NoAnswer> {
        let Ok(key) = serde_json::to_string(&question) else {
            return ask(kubernetes, question).await;
        };
        let last = self.of(key);
        let counts = |at: &Instant| *at >= oldest;
        let Ok(mut no) = last.try_lock() else {
            let no = *last.lock().await;
            return match no.filter(counts) {
                Some(at) => Ok(StandingReview::RefusedAt(at)),
                // The first call got a yes, which is for it alone, or no answer.
                None => ask(kubernetes, question).await,
            };
        };
        if let Some(at) = no.filter(counts) {
            return Ok(StandingReview::RefusedAt(at));
        }
        let answer = ask(kubernetes, question).await;
        *no = match answer {
            Ok(StandingReview::RefusedAt(at)) => Some(at),
            Ok(StandingReview::Allowed) | Err(NoAnswer) => None,
        };
        answer
    }

    fn of(&self, key: String) -> LastNo {
        self.0.get(&key).unwrap_or_else(|| {
            let last = LastNo::default();
            let bytes = key.len();
            self.0.put(key, Arc::clone(&last), bytes);
            last
        })
    }

    /// How many questions are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.size().0
    }
}

async fn ask<K: Kubernetes>(
    kubernetes: &K,
    question: SubjectAccessReviewSpec,
) -> Result<StandingReview, NoAnswer> {
    let at = Instant::now();
    let allowed = kubernetes.review_access(question).await?;
    Ok(if allowed {
        StandingReview::Allowed
    } else {
        StandingReview::RefusedAt(at)
    })
}

#[cfg(test)]
mod tests {
    use connectors_api::{AccessResource, Permission};
    use futures::future::join_all;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::{
        kubernetes::review,
        testing::{FakeKubernetes, wish},
        volume::Wish,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A memory, and the API server behind it.
    struct Asking {
        refused: RefusedReviews,
        kubernetes: FakeKubernetes,
    }

    impl Asking {
        fn new(standing: bool, reachable: bool) -> Self {
            let asking = Self {
                refused: RefusedReviews::default(),
                kubernetes: FakeKubernetes::new(),
            };
            asking.becomes(standing, reachable);
            asking
        }

        fn becomes(&self, standing: bool, reachable: bool) {
            let mut cluster = self.kubernetes.cluster();
            (cluster.standing, cluster.reachable) = (standing, reachable);
        }

        async fn ask_since(
            &self,
            wish: &Wish,
            oldest: Instant,
        ) -> Result<StandingReview, NoAnswer> {
            let standing = AccessResource::standing(wish.permission);
            let question = review(&wish.pod, &wish.connectors[0], &standing);
            self.refused.ask(&self.kubernetes, question, oldest).await
        }

        /// True for a yes, of any no of the last seconds.
        async fn ask(&self, wish: &Wish) -> Result<bool, NoAnswer> {
            let answer = self.ask_since(wish, Instant::now() - AGE).await?;
            Ok(answer == StandingReview::Allowed)
        }

        /// How often the API server was asked.
        fn reviews(&self) -> usize {
            self.kubernetes.cluster().calls.len()
        }
    }

    fn usual() -> Wish {
        wish(&["tools/harbor"])
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_holds_for_its_seconds_however_often_it_is_used() {
        let asking = Asking::new(false, true);
        advance(10 * SECOND).await;
        assert_eq!(asking.ask(&usual()).await, Ok(false));
        asking.becomes(true, true);
        for _ in 0..2 {
            advance(SECOND).await;
            assert_eq!(asking.ask(&usual()).await, Ok(false));
        }
        assert_eq!(asking.reviews(), 1);
        advance(SECOND).await;
        assert_eq!(asking.ask(&usual()).await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_from_before_the_wanted_moment_is_asked_again() {
        let asking = Asking::new(false, true);
        let first = Instant::now();
        let no = |at| Ok(StandingReview::RefusedAt(at));
        assert_eq!(asking.ask_since(&usual(), first).await, no(first));
        advance(SECOND).await;
        let second = Instant::now();
        assert_eq!(asking.ask_since(&usual(), first).await, no(first));
        assert_eq!(asking.ask_since(&usual(), second).await, no(second));
        assert_eq!(asking.ask_since(&usual(), first).await, no(second));
        assert_eq!(asking.reviews(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_and_a_missing_answer_are_never_remembered() {
        let asking = Asking::new(true, true);
        for (standing, reachable, expected) in [
            (true, true, Ok(true)),
            (true, false, Err(NoAnswer)),
            (true, true, Ok(true)),
            (false, true, Ok(false)),
        ] {
            asking.becomes(standing, reachable);
            assert_eq!(asking.ask(&usual()).await, expected);
        }
        assert_eq!(asking.reviews(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_is_for_its_account_connector_and_permission_alone() {
        type Change = fn(&mut Wish);
        let changes: [(Change, bool); 8] = [
            (|it| it.pod.namespace.push_str("-2"), true),
            (|it| it.pod.service_account.push_str("-2"), true),
            (|it| it.permission = Permission::Proxy, true),
            (|it| it.connectors[0].name.push_str("-2"), true),
            (|it| it.connectors[0].namespace.push_str("-2"), true),
            // Namespace and name of the connector are not just joined.
            (
                |it| {
                    it.connectors[0].namespace = "tool".to_owned();
                    it.connectors[0].name = "sharbor".to_owned();
                },
                true,
            ),
            // Pods of one account share it.
            (|it| it.pod.name.push('0'), false),
            (|it| it.pod.uid.push('0'), false),
        ];
        for (number, (change, is_asked)) in changes.into_iter().enumerate() {
            let asking = Asking::new(false, true);
            assert_eq!(asking.ask(&usual()).await, Ok(false));
            let mut other = usual();
            change(&mut other);
            assert_eq!(asking.ask(&other).await, Ok(false));
            assert_eq!(asking.reviews(), 1 + usize::from(is_asked), "{number}");
        }
    }

    /// All pods of a node that starts.
    #[tokio::test(start_paused = true)]
    async fn calls_at_the_same_time_share_a_no_and_nothing_else() {
        for (standing, reachable, expected, reviews) in [
            (false, true, Ok(false), 1),
            (true, true, Ok(true), 100),
            (false, false, Err(NoAnswer), 100),
        ] {
            let asking = Asking::new(standing, reachable);
            asking.kubernetes.cluster().review_takes = SECOND / 50;
            let wish = usual();
            let answers = join_all((0..100).map(|_| asking.ask(&wish))).await;
            assert_eq!(answers, [expected; 100]);
            assert_eq!(asking.reviews(), reviews);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_keeps_no_other_one_waiting() {
        let asking = Asking::new(false, true);
        asking.kubernetes.cluster().review_takes = 60 * SECOND;
        assert!(timeout(SECOND, asking.ask(&usual())).await.is_err());
        asking.kubernetes.cluster().review_takes = Duration::ZERO;
        let answer = timeout(SECOND, asking.ask(&usual())).await;
        assert_eq!(answer, Ok(Ok(false)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_has_an_end() {
        let asking = Asking::new(false, true);
        for number in 0..2 * BOUNDS.entries {
            let wish = wish(&[&*format!("tools/c{number}")]);
            assert_eq!(asking.ask(&wish).await, Ok(false));
        }
        let (entries, bytes) = asking.refused.0.size();
        assert!(entries <= BOUNDS.entries, "{entries}");
        assert!(bytes <= BOUNDS.bytes, "{bytes}");
    }
}
