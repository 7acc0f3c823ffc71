//! Refusals of calls, with the Status in the answer.

use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// The reason, as a word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The server has no reason for it.
    Unknown,
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::InternalError => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotFound => "NotFound",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }

    const fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::Unknown | Self::InternalError => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }

    const fn of_code(code: u16) -> Self {
        match code {
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            409 => Self::Conflict,
            410 => Self::Expired,
            415 => Self::UnsupportedMediaType,
            422 => Self::Invalid,
            429 => Self::TooManyRequests,
            500 => Self::InternalError,
            503 => Self::ServiceUnavailable,
            504 => Self::Timeout,
            _ => Self::Unknown,
        }
    }
}

/// A call that is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    code: u16,
    reason: Reason,
    message: String,
    details: Map<String, Value>,
    /// The position at which an expired list continues.
    pub(crate) continue_at: Option<String>,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code: reason.code(),
            reason,
            message: message.into(),
            details: Map::new(),
            continue_at: None,
        }
    }

    /// A refusal by a fault.
    pub(crate) fn of_code(code: u16, retry_after: Option<u64>) -> Self {
        let mut refusal = Self::new(Reason::of_code(code), "refused by a fault");
        refusal.code = code;
        if let Some(seconds) = retry_after {
            refusal = refusal.with("retryAfterSeconds", seconds.into());
        }
        refusal
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.details.insert(key.to_owned(), value);
        self
    }

    /// Adds the details of one object.
    fn about(self, kind: &Kind, name: &str, as_kind: bool) -> Self {
        let word = if as_kind { &kind.kind } else { &kind.plural };
        let mut refusal = self
            .with("name", name.into())
            .with("kind", word.clone().into());
        if !kind.group.is_empty() {
            refusal = refusal.with("group", kind.group.clone().into());
        }
        refusal
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.plural);
        Self::new(Reason::NotFound, message).about(kind, name, false)
    }

    /// A path of an existing group without such a resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(
            Reason::NotFound,
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.plural);
        Self::new(Reason::AlreadyExists, message).about(kind, name, false)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            kind.plural
        );
        Self::new(Reason::Conflict, message).about(kind, name, false)
    }

    /// The object has changed since the version that the caller knows.
    pub(crate) fn stale(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// Fields that other managers own.
    pub(crate) fn owned_by_others(conflicts: &[(String, String)]) -> Self {
        let causes: Vec<_> = conflicts
            .iter()
            .map(|(manager, field)| {
                let message = format!("conflict with {manager:?}");
                json!({"reason": "FieldManagerConflict", "message": message, "field": field})
            })
            .collect();
        let message = format!("Apply failed with {} conflicts", causes.len());
        Self::new(Reason::Conflict, message).with("causes", causes.into())
    }

    /// A field with an invalid value.
    pub(crate) fn invalid(kind: &Kind, name: &str, cause: Cause, field: &str, why: &str) -> Self {
        Self::invalid_in(kind, name, &[(cause, field.to_owned(), why)])
    }

    /// Fields with invalid values.
    pub(crate) fn invalid_in(kind: &Kind, name: &str, faults: &[(Cause, String, &str)]) -> Self {
        let causes = faults.iter().map(
            |(cause, field, why)| json!({"reason": cause.as_str(), "message": why, "field": field}),
        );
        let told = faults
            .iter()
            .map(|(_, field, why)| format!("{field}: {why}"));
        let told = told.collect::<Vec<_>>().join(", ");
        let message = format!("{} {name:?} is invalid: {told}", kind.kind);
        Self::new(Reason::Invalid, message)
            .about(kind, name, true)
            .with("causes", causes.collect())
    }

    /// Query parameters that are invalid, alone or in combination.
    pub(crate) fn invalid_options(options: &str, causes: &[Cause], field: &str, why: &str) -> Self {
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {why}");
        let causes = causes
            .iter()
            .map(|it| json!({"reason": it.as_str(), "message": why, "field": field}));
        Self::new(Reason::Invalid, message)
            .with("group", "meta.k8s.io".into())
            .with("kind", options.into())
            .with("causes", causes.collect())
    }

    pub(crate) fn forbidden(kind: &str, group: &str, name: &str, why: &str) -> Self {
        let message = format!("{kind} {name:?} is forbidden: {why}");
        let mut refusal = Self::new(Reason::Forbidden, message).with("kind", kind.into());
        if !name.is_empty() {
            refusal = refusal.with("name", name.into());
        }
        if !group.is_empty() {
            refusal = refusal.with("group", group.into());
        }
        refusal
    }

    /// A terminating namespace accepts no new objects.
    pub(crate) fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = json!({"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"});
        Self::forbidden(&kind.plural, &kind.group, name, &why).with("causes", json!([cause]))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(Reason::MethodNotAllowed, message)
    }

    pub(crate) fn expired(wanted: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {wanted} ({oldest})");
        Self::new(Reason::Expired, message)
    }

    /// A version that the cache does not have yet.
    pub(crate) fn too_large_version(wanted: u64, newest: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {newest}");
        let cause =
            json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::new(Reason::Timeout, message)
            .with("causes", json!([cause]))
            .with("retryAfterSeconds", 1.into())
    }

    pub(crate) const fn code(&self) -> u16 {
        self.code
    }

    /// The value of the header, in seconds.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds")?.as_u64()
    }

    /// The body of the answer.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if self.reason != Reason::Unknown {
            status["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        if let Some(continue_at) = &self.continue_at {
            status["metadata"]["continue"] = continue_at.clone().into();
        }
        status
    }
}

/// The errors in an object: kind of error, field, and message.
pub(crate) type Faults = Vec<(Cause, String, &'static str)>;

/// The kind of error in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Forbidden,
    Invalid,
    NotSupported,
    Required,
}

impl Cause {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Required => "FieldValueRequired",
        }
    }
}
