//! Whether it can help to repeat a failed call, and after which pause the API server allows it.

use std::time::Duration;

use kube::{Error, core::Status};

/// Whether it can help to repeat a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// The error may pass.
    Again,
    /// The error may pass, and the server said when to come back at the soonest.
    After(Duration),
    /// The same call would fail the same way.
    GiveUp,
}

/// The table of the answers after which a call may be repeated.
///
/// | answer | verdict |
/// |---|---|
/// | 429, 503 and other passing ones below, with `retryAfterSeconds` | `After` |
/// | 408, 429, 500, 502, 503, 504 | `Again`: the server is busy, starting, or behind something that is |
/// | every other status, among them 401, 403, 404, 409, 410, 422 | `GiveUp`: an answer, not a failure |
/// | no connection, a broken one | `Again` |
/// | a response that cannot be read | `GiveUp`: it would be the same |
/// | a request, a configuration or a credential that is wrong here | `GiveUp` |
#[must_use]
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "what may pass is named, and nothing else is repeated"
)]
pub fn verdict(error: &Error) -> RetryVerdict {
    match error {
        Error::Api(status) => of_status(status),
        Error::HyperError(_) | Error::Service(_) | Error::ReadEvents(_) => RetryVerdict::Again,
        _ => RetryVerdict::GiveUp,
    }
}

fn of_status(status: &Status) -> RetryVerdict {
    if !matches!(status.code, 408 | 429 | 500 | 502 | 503 | 504) {
        return RetryVerdict::GiveUp;
    }
    match status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds)
    {
        0 => RetryVerdict::Again,
        seconds => RetryVerdict::After(Duration::from_secs(seconds.into())),
    }
}
