//! Why the service refuses a call or a question, in words that programs can tell apart.
//!
//! Every refusal of the service carries a `google.rpc.ErrorInfo`: one word of [`Reason`], the domain
//! [`DOMAIN`], and where there is one the field or the namespace that it is about.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::v1;

/// Whose words the reasons are.
pub const DOMAIN: &str = "connectors.alauda.io";
/// The key of the field that a refusal is about.
pub const FIELD: &str = "field";
/// The key of the namespace that a refusal is about.
pub const NAMESPACE: &str = "namespace";

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $word:literal)+) => {
        /// One word per kind of refusal. Words are added; none changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[$doc])* $reason,)+ }

        impl Reason {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$reason),+];

            /// The word as it is sent.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $word,)+ }
            }
        }
    };
}

reasons! {
    /// The caches are not complete yet, or the process is about to end.
    NotReady "NOT_READY"
    /// A cache has not heard from the API server for too long.
    CacheStale "CACHE_STALE"
    /// The caller shows no token.
    TokenMissing "TOKEN_MISSING"
    /// The caller's token is not valid here.
    TokenInvalid "TOKEN_INVALID"
    /// The API server cannot be asked what has to be asked of it.
    ApiServerUnavailable "API_SERVER_UNAVAILABLE"
    /// Too many callers are being reviewed.
    TooManyReviews "TOO_MANY_REVIEWS"
    /// The caller may not ask about the namespace.
    NamespaceForbidden "NAMESPACE_FORBIDDEN"
    /// A field is missing.
    FieldMissing "FIELD_MISSING"
    /// A field holds what it cannot hold.
    FieldInvalid "FIELD_INVALID"
    /// A field that must be JSON is none.
    JsonInvalid "JSON_INVALID"
    /// The bytes of a message cannot be read.
    MessageInvalid "MESSAGE_INVALID"
    /// A list or a field is longer than one call may bring, or takes too much memory to be read.
    TooLong "TOO_LONG"
    /// One check is named twice.
    CheckTwice "CHECK_TWICE"
    /// A policy, an object or candidates make no sense together.
    EvaluationInvalid "EVALUATION_INVALID"
    /// One call asks for more Rego than it may.
    TooMuchRego "TOO_MUCH_REGO"
    /// Others are being served.
    TooBusy "TOO_BUSY"
    /// A message of a stream says nothing.
    ActionMissing "ACTION_MISSING"
    /// An id stands for two questions.
    IdTwice "ID_TWICE"
    /// A stream carries as many questions as it may.
    TooManyQuestions "TOO_MANY_QUESTIONS"
    /// A stream has carried as many ids as it may.
    TooManyIds "TOO_MANY_IDS"
    /// The stream is old; the caller proves again who it is.
    StreamTooOld "STREAM_TOO_OLD"
    /// The caller does not read what it is told.
    StreamUnread "STREAM_UNREAD"
    /// The caller has as many calls in progress as it may.
    TooManyCalls "TOO_MANY_CALLS"
    /// The caller has as many streams open as it may.
    TooManyStreams "TOO_MANY_STREAMS"
    /// The call took longer than any may.
    CallTooLong "CALL_TOO_LONG"
    /// The token that is asked about is not valid.
    SubjectTokenInvalid "SUBJECT_TOKEN_INVALID"
    /// The token that is asked about is for somebody else.
    SubjectTokenWrongAudience "SUBJECT_TOKEN_WRONG_AUDIENCE"
    /// The token that is asked about belongs to no pod.
    SubjectTokenWithoutPod "SUBJECT_TOKEN_WITHOUT_POD"
    /// A part of the service failed.
    Internal "INTERNAL"
}

impl Reason {
    /// Reads a word; none for one of another version.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == word)
    }

    /// The reason of an answer that is an error; none when it does not come from the service.
    #[must_use]
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        (info.domain == DOMAIN).then(|| Self::from_word(&info.reason))?
    }
}

/// Why one question of several is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which kind of reason.
    pub code: Code,
    /// The reason as one word; none when it comes from another version.
    pub reason: Option<Reason>,
    /// The reason, as a sentence.
    pub message: String,
}

impl From<v1::Refusal> for Refusal {
    fn from(refusal: v1::Refusal) -> Self {
        let v1::Refusal {
            code,
            message,
            reason,
            metadata: _,
        } = refusal;
        Self {
            code: Code::from_i32(code),
            reason: Reason::from_word(&reason),
            message,
        }
    }
}

/// An error as the service answers with it.
#[must_use]
pub fn status(
    code: Code,
    message: impl Into<String>,
    reason: Reason,
    metadata: impl Into<HashMap<String, String>>,
    again: Option<Duration>,
) -> Status {
    let mut details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, metadata);
    if again.is_some() {
        details.set_retry_info(again);
    }
    Status::with_error_details(code, message, details)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_word_is_its_own_and_shouts() {
        let words: HashSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let word = reason.as_str();
            assert_eq!(Reason::from_word(word), Some(*reason));
            let is_shouted = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            assert!(word.bytes().all(is_shouted) && word.len() < 64, "{word}");
        }
        assert_eq!(Reason::from_word("not_ready"), None);
    }

    #[test]
    fn a_reason_comes_back_as_it_was_sent() {
        let metadata = HashMap::from([(NAMESPACE.to_owned(), "tools".to_owned())]);
        let again = Some(Duration::from_secs(1));
        let sent = status(
            Code::Unavailable,
            "m",
            Reason::NotReady,
            metadata.clone(),
            again,
        );
        assert_eq!(Reason::of(&sent), Some(Reason::NotReady));
        let details = sent.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata, metadata);
        assert_eq!(details.retry_info().unwrap().retry_delay, again);
    }

    #[test]
    fn words_of_others_are_no_reason() {
        for (domain, word) in [("example.com", "NOT_READY"), (DOMAIN, "TOMORROW")] {
            let details = ErrorDetails::with_error_info(word, domain, HashMap::new());
            let status = Status::with_error_details(Code::Unavailable, "m", details);
            assert_eq!(Reason::of(&status), None);
        }
        assert_eq!(Reason::of(&Status::unavailable("m")), None);
    }
}
