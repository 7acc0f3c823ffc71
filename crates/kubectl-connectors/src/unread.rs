//! The failed reads, their reasons, and the users to ask for the right.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A read without an answer. The rest is answered without it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissedRead {
    /// The verb that is forbidden or failed: get, list or create.
    pub verb: ReadVerb,
    /// The kind, as RBAC names it: plural, dot, group.
    pub resource: String,
    /// The namespace. Absent for all namespaces, and for kinds without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object, for get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why there is no answer.
    pub why: UnreadWhy,
    /// The same as a sentence, with whom to ask.
    pub message: String,
}

/// The verb of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum ReadVerb {
    /// To read one object.
    Get,
    /// To read all objects, or those with certain labels.
    List,
    /// To ask for an access review, which is created and not stored.
    Create,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum UnreadWhy {
    /// The user may not read it.
    Forbidden,
    /// The API server does not know who the user is.
    Unauthorized,
    /// The cluster does not serve the kind.
    NotServed,
    /// The API server gave no answer, or an error.
    Failed,
}

/// The object of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOf<'a> {
    /// The verb of the read.
    pub verb: ReadVerb,
    /// Plural, dot, group; the plural alone for the core group.
    pub resource: &'a str,
    /// Empty for all namespaces, and for kinds without one.
    pub namespace: &'a str,
    /// Empty unless one object is read.
    pub name: &'a str,
}

impl ReadVerb {
    /// The name that RBAC uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
        }
    }
}

impl fmt::Display for ReadOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            resource,
            namespace,
            name,
        } = self;
        write!(f, "{} {resource}", verb.as_str())?;
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in namespace {namespace}")?;
        }
        Ok(())
    }
}

impl MissedRead {
    /// Made from the read, the HTTP status of the answer if there was one, and the error as a sentence.
    #[must_use]
    pub fn of(read: ReadOf<'_>, status: Option<u16>, error: &str) -> Self {
        let ReadOf {
            verb,
            resource,
            namespace,
            name,
        } = read;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (why, message) = match status {
            Some(403) => {
                let whom = if namespace.is_empty() {
                    "an administrator of the cluster".to_owned()
                } else {
                    format!("an administrator of namespace {namespace}")
                };
                (
                    UnreadWhy::Forbidden,
                    format!("you may not {read}; ask {whom} for the right"),
                )
            }
            Some(401) => (
                UnreadWhy::Unauthorized,
                format!(
                    "the API server does not accept your credentials, so you may not {read}; log in again"
                ),
            ),
            Some(404) => (
                UnreadWhy::NotServed,
                format!(
                    "the cluster does not serve {resource}; is Connectors Approval, or what defines the kind, installed?"
                ),
            ),
            Some(_) | None => (UnreadWhy::Failed, error.to_owned()),
        };
        Self {
            verb,
            resource: resource.to_owned(),
            namespace: given(namespace),
            name: given(name),
            why,
            message,
        }
    }
}

impl fmt::Display for MissedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MissedRead {}

/// Whether an object is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Presence<T> {
    /// It could not be read.
    #[default]
    Unread,
    /// It is not there.
    Absent,
    /// It is.
    There(T),
}

impl<T> Presence<T> {
    /// Made from a read. A failed read is added to `unread`.
    pub fn of(read: Result<Option<T>, MissedRead>, unread: &mut Vec<MissedRead>) -> Self {
        match known(read, unread) {
            None => Self::Unread,
            Some(None) => Self::Absent,
            Some(Some(value)) => Self::There(value),
        }
    }

    /// The object, if it is there.
    #[must_use]
    pub const fn there(&self) -> Option<&T> {
        match self {
            Self::There(value) => Some(value),
            Self::Unread | Self::Absent => None,
        }
    }
}

/// A value. A failed read is added to `unread`.
pub fn known<T>(read: Result<T, MissedRead>, unread: &mut Vec<MissedRead>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(problem) => {
            unread.push(problem);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: ReadOf<'_> = ReadOf {
        verb: ReadVerb::List,
        resource: "accesspolicies.connectors.alauda.io",
        namespace: "payments",
        name: "",
    };

    #[test]
    fn a_forbidden_read_names_the_right_and_the_administrator_to_ask() {
        let unread = MissedRead::of(LIST, Some(403), "");
        assert_eq!(unread.why, UnreadWhy::Forbidden);
        assert_eq!(
            unread.message,
            "you may not list accesspolicies.connectors.alauda.io in namespace payments; ask an administrator of \
             namespace payments for the right"
        );
        let everywhere = ReadOf {
            namespace: "",
            ..LIST
        };
        let unread = MissedRead::of(everywhere, Some(403), "");
        assert!(
            unread
                .message
                .ends_with("ask an administrator of the cluster for the right")
        );
    }

    #[test]
    fn every_other_failure_has_a_word_of_its_own() {
        for (status, why) in [
            (Some(401), UnreadWhy::Unauthorized),
            (Some(404), UnreadWhy::NotServed),
            (Some(500), UnreadWhy::Failed),
            (None, UnreadWhy::Failed),
        ] {
            assert_eq!(MissedRead::of(LIST, status, "no answer").why, why);
        }
        assert_eq!(MissedRead::of(LIST, None, "no answer").message, "no answer");
    }
}
