//! Single calls to the Kubernetes API, repeated while that can help.
//!
//! [`verdict`] is the table of the calls that may be repeated. A call that timed out may have been carried
//! out: its repetition then meets its own work, as a 409 on a named create or a 404 on a delete. Callers that
//! cannot accept that (`generateName`) use [`Policy::once`].

mod backoff;
mod verdict;

#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use kube::core::Status;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::report;

pub use backoff::Backoff;
pub use verdict::{RetryVerdict, verdict};

/// How often and how long a call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times the call is made at most, the first included.
    pub attempts: u32,
    /// How long one attempt may take. The client itself has no limit.
    pub attempt: Duration,
    /// How long all attempts and the pauses between them may take.
    pub total: Duration,
    /// The pauses between attempts.
    pub pauses: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            attempt: Duration::from_secs(10),
            total: Duration::from_secs(30),
            pauses: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
        }
    }
}

/// A call to the Kubernetes API failed, for good or for too long.
#[derive(Debug, Error)]
pub enum CallError {
    /// The answer was an error that a repetition would not change.
    #[error("cannot {call}")]
    Refused {
        /// The call, as a verb and its object.
        call: String,
        /// The answer.
        #[source]
        source: kube::Error,
    },
    /// Every attempt failed with an error that may pass.
    #[error("cannot {call}, tried {attempts} times")]
    Exhausted {
        /// The call, as a verb and its object.
        call: String,
        /// How many times.
        attempts: u32,
        /// The error of the last attempt.
        #[source]
        source: kube::Error,
    },
    /// The last attempt had no answer in time. It may have been carried out.
    #[error("cannot {call}, tried {attempts} times: no answer in time")]
    NoAnswer {
        /// The call, as a verb and its object.
        call: String,
        /// How many times.
        attempts: u32,
    },
    /// The code of a shared read panicked, so its callers have no answer.
    #[error("a shared read panicked")]
    Panicked,
}

impl CallError {
    /// The last answer, if it came from the API server.
    #[must_use]
    pub fn answer(&self) -> Option<&Status> {
        let answer = match self {
            Self::Refused { source, .. } | Self::Exhausted { source, .. } => source,
            Self::NoAnswer { .. } | Self::Panicked => return None,
        };
        if let kube::Error::Api(status) = answer {
            Some(status)
        } else {
            None
        }
    }

    /// Whether there was no answer in time.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self, Self::NoAnswer { .. })
    }

    /// Its HTTP status.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.answer().map(|status| status.code)
    }
}

/// The failure of one attempt.
enum AttemptFailure {
    Error(kube::Error),
    Timeout,
}

impl RetryPolicy {
    /// One attempt, with a limit on its time.
    #[must_use]
    pub fn once(self) -> Self {
        Self {
            attempts: 1,
            ..self
        }
    }

    /// Makes a call, named for errors as a verb and its object: `get pod ns/name`.
    pub async fn call<T, F, A>(
        &self,
        call: impl fmt::Display,
        mut attempt: A,
    ) -> Result<T, CallError>
    where
        A: FnMut() -> F,
        F: Future<Output = Result<T, kube::Error>>,
    {
        let deadline = Instant::now() + self.total;
        let mut pauses = self.pauses;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let limit = self.attempt.min(deadline - Instant::now());
            let failure = match timeout(limit, attempt()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(source)) => AttemptFailure::Error(source),
                Err(_) => AttemptFailure::Timeout,
            };
            let pause = match &failure {
                AttemptFailure::Timeout => pauses.pause(),
                AttemptFailure::Error(source) => match verdict(source) {
                    RetryVerdict::GiveUp => return Err(refused(&call, failure)),
                    RetryVerdict::Again => pauses.pause(),
                    // Never sooner than the server wants, never all at the same moment.
                    RetryVerdict::After(time) => time + pauses.pause(),
                },
            };
            if attempts >= self.attempts || Instant::now() + pause >= deadline {
                return Err(exhausted(&call, attempts, failure));
            }
            debug!(%call, attempts, ?pause, problem = %failure, "trying again");
            sleep(pause).await;
        }
    }
}

fn refused(call: &impl fmt::Display, failure: AttemptFailure) -> CallError {
    match failure {
        AttemptFailure::Error(source) => CallError::Refused {
            call: call.to_string(),
            source,
        },
        AttemptFailure::Timeout => exhausted(call, 1, AttemptFailure::Timeout),
    }
}

fn exhausted(call: &impl fmt::Display, attempts: u32, failure: AttemptFailure) -> CallError {
    let call = call.to_string();
    match failure {
        AttemptFailure::Error(source) => CallError::Exhausted {
            call,
            attempts,
            source,
        },
        AttemptFailure::Timeout => CallError::NoAnswer { call, attempts },
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&report(error)),
            Self::Timeout => f.write_str("no answer in time"),
        }
    }
}
