//! Who calls, and what they may ask about.
//!
//! Both are asked of the API server. Only a yes is remembered, and not for long: somebody who was let
//! in should not be reviewed for each question, and somebody who was not may be a moment later.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connectors_api::names::GROUP;
use evaluation_api::TOKEN_AUDIENCE;
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use service_kit::retry::{CallError, Policy};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tonic::metadata::MetadataMap;

use crate::error::Refused;
use crate::metrics::Metrics;

/// How long a token stands for its owner.
const TOKEN_HOLDS: Duration = Duration::from_secs(10);
/// How long a caller may ask about a namespace.
const PERMISSION_HOLDS: Duration = Duration::from_secs(30);
/// As much as is remembered of each.
const REMEMBERED: usize = 4096;
/// Reviews at the same time: anybody who reaches the port can cause one.
const REVIEWS: usize = 64;

/// How long a review waits for its turn: after a restart all callers come at once.
const PLACE: Duration = Duration::from_secs(2);

type Sha = [u8; 32];

/// Somebody whom the API server knows.
#[derive(Clone)]
pub struct Caller(Arc<Known>);

struct Known {
    user: UserInfo,
    digest: Sha,
}

/// Asks the API server about callers.
#[derive(Clone)]
pub struct Callers(Arc<Inner>);

struct Inner {
    client: Client,
    metrics: Metrics,
    reviews: Semaphore,
    tokens: Remembered<Sha, Caller>,
    permissions: Remembered<(Sha, String), ()>,
}

impl Callers {
    /// Remembers nobody yet.
    #[must_use]
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            client,
            metrics,
            reviews: Semaphore::new(REVIEWS),
            tokens: Remembered::new(TOKEN_HOLDS),
            permissions: Remembered::new(PERMISSION_HOLDS),
        }))
    }

    /// Who shows this token?
    pub async fn authenticate(&self, metadata: &MetadataMap) -> Result<Caller, Refused> {
        let token = bearer(metadata).ok_or(Refused::NoToken)?;
        let digest = Sha256::digest(token).into();
        if let Some(caller) = self.0.tokens.get(&digest) {
            return Ok(caller);
        }
        let status = self.0.review_token(token).await?;
        let user = status.and_then(owner);
        let result = if user.is_some() { "yes" } else { "no" };
        self.0.metrics.review("token", result);
        let caller = Caller::new(user.ok_or(Refused::BadToken)?)?;
        self.0.tokens.put(digest, caller.clone());
        Ok(caller)
    }

    /// May the caller ask about the connectors of this namespace?
    pub async fn authorize(&self, caller: &Caller, namespace: &str) -> Result<(), Refused> {
        let key = (caller.0.digest, namespace.to_owned());
        if self.0.permissions.get(&key).is_some() {
            return Ok(());
        }
        let is_allowed = self.0.review_access(&caller.0.user, namespace).await?;
        let result = if is_allowed { "yes" } else { "no" };
        self.0.metrics.review("access", result);
        if !is_allowed {
            return Err(Refused::Forbidden(namespace.to_owned()));
        }
        self.0.permissions.put(key, ());
        Ok(())
    }
}

fn bearer(metadata: &MetadataMap) -> Option<&str> {
    let mut values = metadata.get_all("authorization").iter();
    let value = values.next()?.to_str().ok()?;
    // Two of them could mean different things to different readers.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then_some(token)
}

/// The owner of a token that the API server found good, for us.
fn owner(status: TokenReviewStatus) -> Option<UserInfo> {
    let is_for_us = status
        .audiences
        .is_some_and(|audiences| audiences.iter().any(|one| one == TOKEN_AUDIENCE));
    let is_good = status.authenticated == Some(true) && status.error.is_none_or(|it| it.is_empty());
    let user = status.user.filter(|_| is_good && is_for_us)?;
    let is_somebody = user.username.as_ref().is_some_and(|name| !name.is_empty());
    is_somebody.then_some(user)
}

impl Caller {
    fn new(user: UserInfo) -> Result<Self, Refused> {
        let json = serde_json::to_vec(&user).map_err(|_| Refused::Internal)?;
        let digest = Sha256::digest(&json).into();
        Ok(Self(Arc::new(Known { user, digest })))
    }
}

impl Inner {
    const POLICY: Policy = Policy {
        attempts: 2,
        attempt: Duration::from_secs(2),
        total: Duration::from_secs(4),
        pauses: service_kit::retry::Backoff::new(
            Duration::from_millis(50),
            Duration::from_millis(500),
        ),
    };

    async fn review_token(&self, token: &str) -> Result<Option<TokenReviewStatus>, Refused> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let answer = self.create("token", &review).await?;
        Ok(answer.status)
    }

    async fn review_access(&self, user: &UserInfo, namespace: &str) -> Result<bool, Refused> {
        let UserInfo {
            extra,
            groups,
            uid,
            username,
        } = user.clone();
        let attributes = ResourceAttributes {
            verb: Some("create".to_owned()),
            group: Some(GROUP.to_owned()),
            resource: Some("evaluations".to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                extra,
                groups,
                uid,
                user: username,
                resource_attributes: Some(attributes),
                non_resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let answer = self.create("access", &review).await?;
        let status = answer.status;
        Ok(status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }

    async fn create<K>(&self, kind: &'static str, review: &K) -> Result<K, Refused>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let place = timeout(PLACE, self.reviews.acquire()).await;
        let _place = place
            .map_err(|_| Refused::TooManyReviews)?
            .map_err(|_| Refused::Internal)?;
        let api = Api::<K>::all(self.client.clone());
        let parameters = PostParams::default();
        let answer = Self::POLICY
            .call(format!("create the review of a caller's {kind}"), || {
                api.create(&parameters, review)
            })
            .await;
        answer.map_err(|error: CallError| {
            self.metrics.review(kind, "error");
            Refused::NoReview(error)
        })
    }
}

/// What was found good, for a while.
struct Remembered<K, V> {
    holds: Duration,
    known: Mutex<HashMap<K, (V, Instant)>>,
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    fn new(holds: Duration) -> Self {
        Self {
            holds,
            known: Mutex::default(),
        }
    }

    fn get(&self, key: &K) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, since) = known.get(key)?;
        (since.elapsed() < self.holds).then(|| value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (_, since)| since.elapsed() < self.holds);
        }
        // As many at once is nobody's normal day: starting over costs reviews, not correctness.
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, (value, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn metadata(values: &[&str]) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        for value in values {
            metadata.append("authorization", value.parse().unwrap());
        }
        metadata
    }

    #[test]
    fn exactly_one_bearer_token_is_one() {
        assert_eq!(bearer(&metadata(&["Bearer a.b"])), Some("a.b"));
        assert_eq!(bearer(&metadata(&["bearer a.b"])), Some("a.b"));
        for wrong in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Basic a.b"],
            &["Bearer a b"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(bearer(&metadata(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_token_has_an_owner_only_when_everything_says_so() {
        type Change = fn(&mut TokenReviewStatus);
        let good = TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
            error: None,
            user: Some(UserInfo {
                username: Some("somebody".to_owned()),
                ..UserInfo::default()
            }),
        };
        assert!(owner(good.clone()).is_some());
        let changes: [Change; 9] = [
            |it| it.authenticated = Some(false),
            |it| it.authenticated = None,
            |it| it.audiences = None,
            |it| it.audiences = Some(vec![]),
            |it| it.audiences = Some(vec!["connectors.alauda.io".to_owned()]),
            |it| it.error = Some("odd".to_owned()),
            |it| it.user = None,
            |it| it.user.as_mut().unwrap().username = None,
            |it| it.user.as_mut().unwrap().username = Some(String::new()),
        ];
        for change in changes {
            let mut status = good.clone();
            change(&mut status);
            assert!(owner(status.clone()).is_none(), "{status:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_good_is_forgotten_in_time_and_never_too_much_of_it() {
        let remembered = Remembered::new(Duration::from_secs(10));
        remembered.put(1_usize, "one");
        assert_eq!(remembered.get(&1), Some("one"));
        assert_eq!(remembered.get(&2), None);
        advance(Duration::from_secs(10)).await;
        assert_eq!(remembered.get(&1), None);
        for key in 0..=REMEMBERED * 2 {
            remembered.put(key, "x");
            assert!(remembered.known.lock().unwrap().len() <= REMEMBERED);
        }
    }
}
