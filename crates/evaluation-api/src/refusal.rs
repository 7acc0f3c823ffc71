//! The reasons why the service refuses a call or a question, as words for programs.
//!
//! Every refusal of the service carries a `google.rpc.ErrorInfo`: one word of [`Reason`], the domain
//! [`DOMAIN`], and if applicable the field or the namespace that caused it. Which refusal has which gRPC code is decided
//! in `error` of the evaluation service.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::v1;

/// The domain of the reasons.
pub const DOMAIN: &str = "connectors.alauda.io";
/// The metadata key of the field that caused a refusal.
pub const FIELD: &str = "field";
/// The metadata key of the namespace that caused a refusal.
pub const NAMESPACE: &str = "namespace";

macro_rules! reasons {
    ($($(#[doc = $about:literal])+ $reason:ident $word:literal)+) => {
        /// One word per kind of refusal. Words may be added; the meaning of a word never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[doc = $about])+ $reason,)+ }

        impl Reason {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$reason),+];

            /// The word as it is sent.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $word,)+ }
            }

            /// The meaning of the word.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$reason => concat!($($about),+),)+ }
            }
        }
    };
}

reasons! {
    /// The caches are not complete yet, or the process is shutting down.
    NotReady "NOT_READY"
    /// A cache has had no contact with the API server for too long.
    CacheStale "CACHE_STALE"
    /// The call has no token.
    TokenMissing "TOKEN_MISSING"
    /// The caller's token is not valid here.
    TokenInvalid "TOKEN_INVALID"
    /// The API server is needed but cannot be reached.
    ApiServerUnavailable "API_SERVER_UNAVAILABLE"
    /// Too many calls to the API server are in progress: reviews, or reads of an explanation.
    TooManyReviews "TOO_MANY_REVIEWS"
    /// The caller may not ask about the namespace.
    NamespaceForbidden "NAMESPACE_FORBIDDEN"
    /// A field is missing.
    FieldMissing "FIELD_MISSING"
    /// A field has an invalid value.
    FieldInvalid "FIELD_INVALID"
    /// A field that must be JSON is not.
    JsonInvalid "JSON_INVALID"
    /// The bytes of a message cannot be decoded.
    MessageInvalid "MESSAGE_INVALID"
    /// A list or a field is longer than allowed, or would need too much memory.
    TooLong "TOO_LONG"
    /// One check is named twice.
    CheckTwice "CHECK_TWICE"
    /// A policy, an object or candidates do not fit together.
    EvaluationInvalid "EVALUATION_INVALID"
    /// One call needs more Rego evaluations than allowed.
    TooMuchRego "TOO_MUCH_REGO"
    /// Too many checks or modules are being evaluated.
    TooBusy "TOO_BUSY"
    /// A message of a stream has no action.
    ActionMissing "ACTION_MISSING"
    /// An id is used for two questions.
    IdTwice "ID_TWICE"
    /// A stream has the maximum number of questions.
    TooManyQuestions "TOO_MANY_QUESTIONS"
    /// A stream has used the maximum number of ids.
    TooManyIds "TOO_MANY_IDS"
    /// The stream is too old; the caller must authenticate again.
    StreamTooOld "STREAM_TOO_OLD"
    /// The caller does not read its messages.
    StreamUnread "STREAM_UNREAD"
    /// The caller has the maximum number of calls in progress.
    TooManyCalls "TOO_MANY_CALLS"
    /// The caller has the maximum number of streams open.
    TooManyStreams "TOO_MANY_STREAMS"
    /// The call took longer than any call may.
    CallTooLong "CALL_TOO_LONG"
    /// The token to be reviewed is not valid.
    SubjectTokenInvalid "SUBJECT_TOKEN_INVALID"
    /// The token to be reviewed has another audience.
    SubjectTokenWrongAudience "SUBJECT_TOKEN_WRONG_AUDIENCE"
    /// The token to be reviewed is not bound to a pod.
    SubjectTokenWithoutPod "SUBJECT_TOKEN_WITHOUT_POD"
    /// A part of the service failed.
    Internal "INTERNAL"
}

impl Reason {
    /// Parses a word; none for one of another version.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == word)
    }

    /// The reason in an error; none when the error does not come from the service.
    #[must_use]
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        (info.domain == DOMAIN).then(|| Self::from_word(&info.reason))?
    }
}

/// The reason why one question of several is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRefusal {
    /// The gRPC status code.
    pub code: Code,
    /// The reason as one word; none for one of another version.
    pub reason: Option<Reason>,
    /// The reason, as a sentence.
    pub message: String,
}

impl From<v1::Refusal> for QuestionRefusal {
    fn from(refusal: v1::Refusal) -> Self {
        let v1::Refusal {
            code,
            message,
            reason,
            metadata: _,
        } = refusal;
        // A refusal is no success, whatever its number says, or if it says none.
        let code = Some(Code::from_i32(code)).filter(|it| *it != Code::Ok);
        Self {
            code: code.unwrap_or(Code::Unknown),
            reason: Reason::from_word(&reason),
            message,
        }
    }
}

/// An error in the form in which the service sends it.
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
    fn a_refusal_without_a_code_is_no_success() {
        for (sent, read) in [
            (0, Code::Unknown),
            (7, Code::PermissionDenied),
            (14, Code::Unavailable),
            (99, Code::Unknown),
        ] {
            let refusal = v1::Refusal {
                code: sent,
                ..v1::Refusal::default()
            };
            assert_eq!(QuestionRefusal::from(refusal).code, read);
        }
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

    #[test]
    fn a_refusal_keeps_its_sentence_and_its_word_and_knows_no_other_word() {
        for reason in Reason::ALL {
            let word = reason.as_str();
            for (sent, read) in [
                (word.to_owned(), Some(*reason)),
                (word.to_lowercase(), None),
                (format!("{word} "), None),
                (format!("{word}_X"), None),
            ] {
                let refusal = v1::Refusal {
                    code: 5,
                    message: format!("because of {word}"),
                    reason: sent,
                    metadata: HashMap::new(),
                };
                let expected = QuestionRefusal {
                    code: Code::NotFound,
                    reason: read,
                    message: format!("because of {word}"),
                };
                assert_eq!(QuestionRefusal::from(refusal), expected);
            }
            assert!(!reason.about().trim().is_empty());
        }
        assert_eq!(Reason::from_word(""), None);
    }

    /// A caller that may not try again gets no time for it.
    #[test]
    fn a_status_has_its_code_its_sentence_and_only_then_a_time_when_one_was_given() {
        for reason in Reason::ALL {
            for again in [
                None,
                Some(Duration::ZERO),
                Some(Duration::from_millis(1_500)),
            ] {
                let sent = status(Code::Aborted, "sentence", *reason, HashMap::new(), again);
                assert_eq!((sent.code(), sent.message()), (Code::Aborted, "sentence"));
                assert_eq!(Reason::of(&sent), Some(*reason));
                let details = sent.get_error_details();
                let told = details.retry_info().and_then(|it| it.retry_delay);
                assert_eq!(told, again);
                assert_eq!(details.retry_info().is_some(), again.is_some());
                let info = details.error_info().unwrap();
                assert_eq!(
                    (&*info.domain, &*info.reason),
                    ("connectors.alauda.io", reason.as_str())
                );
                assert!(info.metadata.is_empty());
            }
        }
    }
}
