//! Authentication and authorization of callers, by reviews of the API server.
//!
//! RBAC's yes about a namespace is read from the own index. Every other positive answer is cached for a short time, so that
//! a caller is not reviewed for each question. Of the negative answers, only a failed token review is cached, for a few
//! seconds. A denied namespace is not cached, because the permission may be granted at any time.
//!
//! Every client that reaches the port can send tokens. A token that cannot be for this service is not reviewed. Known
//! callers have reviews set aside for them, however many unknown tokens are sent.

mod indexed;
mod right;
mod subject;
mod token;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use authz::User;
use connectors_api::names::GROUP;
use evaluation_api::TOKEN_AUDIENCE;
use http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use service_kit::cache::Cache;
use service_kit::fair::{TenantTurn, TenantTurns};
use service_kit::retry::{CallError, RetryPolicy};
use service_kit::reviews::{self, NoOwner};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::caller_identity::CallerIdentity;
use crate::caller_quotas::{CallerLimits, CallerQuotas, LONGEST_WAIT, Quotas};
use crate::error::Refused;
use crate::metrics::Metrics;
pub use indexed::IndexedRights;
pub use right::Right;
use right::{EVALUATIONS, VERB};
use token::{Looks, bearer, looks};

pub(crate) use subject::TokenOwner;

/// How long an authenticated token is trusted without a new review.
const TOKEN_HOLDS: Duration = Duration::from_secs(10);
/// How long a caller may ask about a namespace.
const PERMISSION_HOLDS: Duration = Duration::from_secs(30);
/// How long a token that the API server does not know is not reviewed again.
const REFUSAL_HOLDS: Duration = Duration::from_secs(5);
/// How long a good token counts as known, and has reviews set aside.
const KNOWN_FOR: Duration = Duration::from_mins(10);
/// Entries of each cache. A flood evicts the least recently used entries, which costs reviews and not correctness.
const CACHED: usize = 4096;
/// Reviews of unknown tokens at the same time: every client that reaches the port can cause one.
const UNKNOWN_REVIEWS: usize = 32;
/// Reviews of tokens that were good lately.
const KNOWN_REVIEWS: usize = 32;
/// Reviews of tokens in the questions of callers.
const SUBJECT_REVIEWS: usize = 32;
/// Reviews of callers' rights, which only callers with a good token cause.
const ACCESS_REVIEWS: usize = 64;

type Sha = [u8; 32];
/// A caller, its right and the namespace.
type RightKey = (Sha, Right, String);

/// The caller.
#[derive(Clone)]
pub struct Caller {
    who: CallerOrigin,
    /// Its limits at the same time.
    pub(crate) quotas: CallerQuotas,
}

#[derive(Clone)]
enum CallerOrigin {
    /// A user that the API server knows.
    Known(Arc<KnownUser>),
    /// A user that could open the Unix socket of this process.
    Local,
}

#[derive(Debug)]
struct KnownUser {
    /// Name and groups.
    user: User,
    /// Everything that is known of it.
    info: UserInfo,
    digest: Sha,
}

/// Asks the API server about callers.
#[derive(Clone)]
pub struct CallerReviews(Arc<AuthState>);

struct AuthState {
    client: Client,
    /// A second audience of the tokens of pods: that of the tokens in their volumes.
    proxy_audience: Option<String>,
    indexed: IndexedRights,
    metrics: Metrics,
    quotas: Quotas,
    unknown_reviews: Semaphore,
    known_reviews: Semaphore,
    subject_reviews: Semaphore,
    access_reviews: Semaphore,
    tokens: Cache<Sha, Caller>,
    refused: Cache<Sha, ()>,
    /// Recently good tokens, with the quotas of their owners.
    known: Cache<Sha, CallerQuotas>,
    permissions: Cache<RightKey, ()>,
    /// Simultaneous calls with one token ask once.
    token_turns: TenantTurns<Sha>,
    permission_turns: TenantTurns<RightKey>,
}

impl CallerReviews {
    /// Starts with empty caches. Tokens of pods are of the product's audience, or of the proxy's if that is not empty.
    #[must_use]
    pub fn new(
        client: Client,
        metrics: Metrics,
        limits: CallerLimits,
        indexed: IndexedRights,
        proxy_audience: Option<String>,
    ) -> Self {
        Self(Arc::new(AuthState {
            client,
            proxy_audience: proxy_audience.filter(|it| !it.is_empty()),
            indexed,
            quotas: Quotas::new(limits, metrics.clone()),
            metrics,
            unknown_reviews: Semaphore::new(UNKNOWN_REVIEWS),
            known_reviews: Semaphore::new(KNOWN_REVIEWS),
            subject_reviews: Semaphore::new(SUBJECT_REVIEWS),
            access_reviews: Semaphore::new(ACCESS_REVIEWS),
            tokens: Cache::for_a_while(CACHED, TOKEN_HOLDS),
            refused: Cache::for_a_while(CACHED, REFUSAL_HOLDS),
            known: Cache::for_a_while(CACHED, KNOWN_FOR),
            permissions: Cache::for_a_while(CACHED, PERMISSION_HOLDS),
            token_turns: TenantTurns::of(1),
            permission_turns: TenantTurns::of(1),
        }))
    }

    /// Authenticates the owner of the token in the headers.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, Refused> {
        let token = bearer(headers).ok_or(Refused::NoToken)?;
        let inner = &self.0;
        let digest = Sha256::digest(token).into();
        if let Some(caller) = inner.tokens.get(&digest) {
            return Ok(caller);
        }
        let looks = looks(token, TOKEN_AUDIENCE, clock::now());
        if looks != Looks::Good || inner.refused.has(&digest) {
            return Err(Refused::BadToken);
        }
        let _turn = turn(&inner.token_turns, digest).await;
        if let Some(caller) = inner.tokens.get(&digest) {
            return Ok(caller);
        }
        if inner.refused.has(&digest) {
            return Err(Refused::BadToken);
        }
        let known = inner.known.get(&digest);
        // A caller with many good tokens has no more reviews than one with a single token.
        let _asked = match &known {
            Some(quotas) => Some(quotas.question().await?),
            None => None,
        };
        let places = match known {
            Some(_) => &inner.known_reviews,
            None => &inner.unknown_reviews,
        };
        let user = inner.review_token(token, TOKEN_AUDIENCE, places).await?;
        let result = if user.is_ok() { "yes" } else { "no" };
        inner.metrics.review("token", result);
        let Ok(user) = user else {
            inner.known.forget(&digest);
            inner.refused.put(digest, (), 0);
            return Err(Refused::BadToken);
        };
        let caller = inner.caller(user)?;
        inner.known.put(digest, caller.quotas.clone(), 0);
        inner.tokens.put(digest, caller.clone(), 0);
        Ok(caller)
    }

    /// Checks that the caller may ask this about the connectors of this namespace. A right that includes the needed
    /// one is enough.
    pub async fn authorize(
        &self,
        caller: &Caller,
        right: Right,
        namespace: &str,
    ) -> Result<(), Refused> {
        let CallerOrigin::Known(known) = &caller.who else {
            return Ok(());
        };
        let key = |right| (known.digest, right, namespace.to_owned());
        let is_known = || {
            let mut enough = right.enough().iter();
            enough.any(|right| self.0.permissions.has(&key(*right)))
        };
        let is_indexed = || self.0.indexed.has(known, right, namespace, clock::now());
        if is_known() || is_indexed() {
            return Ok(());
        }
        let _turn = turn(&self.0.permission_turns, key(right)).await;
        if is_known() {
            return Ok(());
        }
        let _asked = caller.quotas.question().await?;
        for right in right.enough() {
            let review = self.0.review_access(&known.info, *right, namespace);
            let is_allowed = review.await?;
            let result = if is_allowed { "yes" } else { "no" };
            self.0.metrics.review("access", result);
            if is_allowed {
                self.0.permissions.put(key(*right), (), 0);
                return Ok(());
            }
        }
        Err(Refused::Forbidden(namespace.to_owned()))
    }

    /// A user that could open the socket may ask about everything, because it could read the memory of the process.
    pub(crate) fn local(&self, user: u32) -> Caller {
        Caller {
            who: CallerOrigin::Local,
            quotas: self.0.quotas.of(CallerIdentity::Local(user)),
        }
    }
}

/// Waits for the turn of a key, but not for long: the review that blocks the earlier call may succeed for this one.
async fn turn<K: Clone + Eq + Hash>(turns: &TenantTurns<K>, key: K) -> Option<TenantTurn<K>> {
    timeout(LONGEST_WAIT, turns.take(key)).await.ok()
}

impl AuthState {
    fn caller(&self, user: UserInfo) -> Result<Caller, Refused> {
        let json = serde_json::to_vec(&user).map_err(|_| Refused::Internal)?;
        let digest = Sha256::digest(&json).into();
        let quotas = self.quotas.of(CallerIdentity::of(&user));
        let known = User {
            name: user.username.clone().unwrap_or_default(),
            groups: user.groups.clone().unwrap_or_default(),
        };
        let who = CallerOrigin::Known(Arc::new(KnownUser {
            user: known,
            info: user,
            digest,
        }));
        Ok(Caller { who, quotas })
    }

    /// A call may need two reviews. If neither is answered, both end before the caller gives up, so that the caller
    /// gets the reason.
    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 2,
        attempt: Duration::from_secs(2),
        total: Duration::from_secs(2),
        pauses: service_kit::retry::Backoff::new(
            Duration::from_millis(50),
            Duration::from_millis(500),
        ),
    };

    async fn review_token(
        &self,
        token: &str,
        audience: &str,
        places: &Semaphore,
    ) -> Result<Result<UserInfo, NoOwner>, Refused> {
        let review = reviews::review_token(&self.client, &Self::POLICY, token, audience);
        let status = self.within("token", places, review).await?;
        Ok(reviews::owner(status, audience))
    }

    async fn review_access(
        &self,
        user: &UserInfo,
        right: Right,
        namespace: &str,
    ) -> Result<bool, Refused> {
        let attributes = ResourceAttributes {
            verb: Some(VERB.to_owned()),
            group: Some(GROUP.to_owned()),
            resource: Some(EVALUATIONS.to_owned()),
            subresource: right.subresource().map(str::to_owned),
            namespace: Some(namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = reviews::may(&self.client, &Self::POLICY, user.into(), &attributes);
        self.within("access", &self.access_reviews, review).await
    }

    /// Runs a review in a place of its kind. The wait for the place is short.
    async fn within<T>(
        &self,
        kind: &'static str,
        places: &Semaphore,
        review: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, Refused> {
        let place = timeout(LONGEST_WAIT, places.acquire()).await;
        let _place = place
            .map_err(|_| Refused::TooManyReviews)?
            .map_err(|_| Refused::Internal)?;
        review.await.map_err(|error| {
            self.metrics.review(kind, "error");
            Refused::NoReview(error)
        })
    }
}

#[cfg(test)]
mod hung_up;
#[cfg(test)]
mod tests;
