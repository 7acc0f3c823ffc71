//! `AdmissionReview` in version v1, as far as this service reads and writes it.
//!
//! The object stays text until it is needed: one that cannot be parsed gets an answer of its own,
//! instead of making the whole review unreadable. The text is a part of the body, which lives as long as its parts do.

use std::{borrow::Cow, collections::BTreeMap, fmt, net::IpAddr};

use hyper::body::Bytes;
use json_patch::Patch;
use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::page::UserPart;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The longest word of a review: names of API groups are the longest that there are.
const LONGEST_WORD: usize = 253;
/// The longest `userInfo`, in bytes of JSON.
const LONGEST_USER: usize = 64 * 1024;
/// Groups of a user.
const MOST_GROUPS: usize = 1024;
/// Keys and values in a user's `extra`, together.
const MOST_EXTRA: usize = 1024;

/// Why a body is no review that can be answered.
#[derive(Debug, Error)]
pub(crate) enum ReviewError {
    /// Not JSON, or of another shape.
    #[error("not an AdmissionReview")]
    Shape(#[source] serde_json::Error),
    /// Another kind, or another version of it.
    #[error("only AdmissionReview of {API_VERSION} is understood")]
    Kind,
    /// Nothing is asked.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// Without it no answer finds its question.
    #[error("the request has no uid")]
    NoUid,
    /// A creator without a name can be granted nothing, and no review can ask about it.
    #[error("the request does not say whose it is")]
    NoUser,
    /// No API server sends that.
    #[error("{0} of the request is longer than {LONGEST_WORD} bytes")]
    LongWord(&'static str),
    /// There is more of a user than is read. The question is known, and so is the answer.
    #[error("{source}")]
    User {
        /// Of the review.
        uid: String,
        /// The part that is too large.
        source: LargeUser,
    },
}

/// More of a user than is read, because it is kept until the answer and sent on with each question about rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum LargeUser {
    /// All of it.
    #[error(
        "userInfo: at most {LONGEST_USER} bytes are read; use an account with fewer groups and less extra"
    )]
    Bytes,
    /// Even empty names take memory.
    #[error(
        "userInfo.groups: at most {MOST_GROUPS} groups are read; use an account that is in fewer"
    )]
    Groups,
    /// The same.
    #[error(
        "userInfo.extra: at most {MOST_EXTRA} keys and values are read; use an account with fewer"
    )]
    Extra,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<WrittenRequest<'a>>,
}

/// A request as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRequest<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource: WrittenResource<'a>,
    #[serde(borrow, default)]
    sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    operation: Operation,
    #[serde(borrow)]
    user_info: &'a RawValue,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WrittenResource<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    resource: Cow<'a, str>,
}

/// The object of a review, and its writer.
#[derive(Debug)]
pub(crate) struct ReviewedObject {
    /// The address that asks.
    pub(crate) peer: IpAddr,
    pub(crate) uid: String,
    pub(crate) resource: RequestResource,
    pub(crate) sub_resource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) operation: Operation,
    /// Empty where no page needs it.
    pub(crate) user_info: UserInfo,
    pub(crate) object: Option<Text>,
    /// The stored object, if the write changes one.
    pub(crate) old_object: Option<Text>,
}

/// JSON, as a part of the body that it came in.
#[derive(Clone, Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    fn of(body: &Bytes, part: &RawValue) -> Self {
        Self(body.slice_ref(part.get().as_bytes()))
    }

    #[cfg(test)]
    pub(crate) fn for_tests(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The text. It was read as such before.
    pub(crate) fn get(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The kind of the object, as its resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
}

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Reads a body, and of the user as much as matters.
pub(crate) fn parse(
    body: &Bytes,
    peer: IpAddr,
    user_part: UserPart,
) -> Result<ReviewedObject, ReviewError> {
    let Envelope {
        api_version,
        kind,
        request,
    } = serde_json::from_slice(body).map_err(ReviewError::Shape)?;
    if api_version != API_VERSION || kind != KIND {
        return Err(ReviewError::Kind);
    }
    let WrittenRequest {
        uid,
        resource,
        sub_resource,
        namespace,
        operation,
        user_info,
        object,
        old_object,
    } = request.ok_or(ReviewError::NoRequest)?;
    let uid = word("the uid", uid)?;
    if uid.is_empty() {
        return Err(ReviewError::NoUid);
    }
    let maybe = |name, text: Option<_>| text.map(|text| word(name, text)).transpose();
    let request = ReviewedObject {
        peer,
        resource: RequestResource {
            group: word("the group", resource.group)?,
            version: word("the version", resource.version)?,
            resource: word("the resource", resource.resource)?,
        },
        sub_resource: maybe("the subresource", sub_resource)?,
        namespace: maybe("the namespace", namespace)?,
        operation,
        user_info: match user_part {
            UserPart::Nothing => UserInfo::default(),
            UserPart::Name => user_name(user_info)?,
            UserPart::Whole => user(&uid, user_info)?,
        },
        object: object.map(|part| Text::of(body, part)),
        old_object: old_object.map(|part| Text::of(body, part)),
        uid,
    };
    Ok(request)
}

fn word(name: &'static str, text: Cow<'_, str>) -> Result<String, ReviewError> {
    if text.len() > LONGEST_WORD {
        return Err(ReviewError::LongWord(name));
    }
    Ok(text.into_owned())
}

/// The name of a user, whatever else there is of it.
fn user_name(text: &RawValue) -> Result<UserInfo, ReviewError> {
    #[derive(Deserialize)]
    struct OnlyName {
        #[serde(default)]
        username: Option<String>,
    }
    let OnlyName { username } = serde_json::from_str(text.get()).map_err(ReviewError::Shape)?;
    Ok(UserInfo {
        username,
        ..UserInfo::default()
    })
}

/// A user with a name, counted before anything of it is kept.
fn user(uid: &str, text: &RawValue) -> Result<UserInfo, ReviewError> {
    let large = |source| ReviewError::User {
        uid: uid.to_owned(),
        source,
    };
    let text = text.get();
    if text.len() > LONGEST_USER {
        return Err(large(LargeUser::Bytes));
    }
    let UserSize { groups, extra } = serde_json::from_str(text).map_err(ReviewError::Shape)?;
    if groups.is_some_and(|it| it.0 > MOST_GROUPS) {
        return Err(large(LargeUser::Groups));
    }
    if extra.is_some_and(|it| it.0 > MOST_EXTRA) {
        return Err(large(LargeUser::Extra));
    }
    let WrittenUser {
        username,
        uid,
        groups,
        extra,
    } = serde_json::from_str(text).map_err(ReviewError::Shape)?;
    if username.as_deref().unwrap_or_default().is_empty() {
        return Err(ReviewError::NoUser);
    }
    let listed = |(key, values): (_, Option<_>)| (key, values.unwrap_or_default());
    Ok(UserInfo {
        username,
        uid,
        groups,
        extra: extra.map(|it| it.into_iter().map(listed).collect()),
    })
}

/// A user as it is written. The API server writes an empty list of values as null.
#[derive(Deserialize)]
struct WrittenUser {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// How much there is of a user, of which nothing is kept.
#[derive(Deserialize)]
struct UserSize {
    #[serde(default)]
    groups: Option<ListSize>,
    #[serde(default)]
    extra: Option<ListSize>,
}

/// The items of a list, or the keys and values of a map of lists.
struct ListSize(usize);

impl<'de> Deserialize<'de> for ListSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counter).map(Self)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or a map of lists")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some((IgnoredAny, ListSize(values))) = entries.next_entry()? {
            count += 1 + values;
        }
        Ok(count)
    }
}

/// The answer to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AdmissionAnswer {
    /// Let it pass.
    Allowed {
        /// Changed by this, if it is to be changed.
        patch: Option<Patch>,
        /// Shown to the sender.
        warnings: Vec<String>,
    },
    /// Do not let it pass.
    Refused(AdmissionRefusal),
}

impl AdmissionAnswer {
    /// Lets it pass as it is.
    pub(crate) const fn allowed() -> Self {
        Self::patched(None)
    }

    /// Lets it pass with a change, if there is one.
    pub(crate) const fn patched(patch: Option<Patch>) -> Self {
        let warnings = Vec::new();
        Self::Allowed { patch, warnings }
    }
}

/// A refusal, as its creator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionRefusal {
    pub(crate) status: RefusalStatus,
    pub(crate) message: String,
}

/// Why, for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusalStatus {
    /// It could not be judged, and may be tried again.
    Unavailable,
    /// It is not for this creator.
    Forbidden,
    /// It says something that cannot be.
    Invalid,
    /// It was sent to the wrong place.
    BadRequest,
}

impl RefusalStatus {
    /// The table of codes and reasons.
    const fn wire(self) -> (u16, &'static str) {
        match self {
            Self::Unavailable => (503, "ServiceUnavailable"),
            Self::Forbidden => (403, "Forbidden"),
            Self::Invalid => (422, "Invalid"),
            Self::BadRequest => (400, "BadRequest"),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReply<'a> {
    api_version: &'a str,
    kind: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<AdmissionStatus<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct AdmissionStatus<'a> {
    #[serde(rename = "status")]
    success: &'a str,
    code: u16,
    reason: &'a str,
    message: &'a str,
}

/// Writes the answer to the review with this UID.
pub(crate) fn render(uid: &str, answer: &AdmissionAnswer) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = Response {
        uid,
        allowed: false,
        status: None,
        patch_type: None,
        patch: None,
        warnings: &[],
    };
    match answer {
        AdmissionAnswer::Allowed { patch, warnings } => {
            response.allowed = true;
            response.warnings = warnings;
            if let Some(patch) = patch {
                response.patch_type = Some("JSONPatch");
                response.patch = Some(ByteString(serde_json::to_vec(patch)?));
            }
        }
        AdmissionAnswer::Refused(AdmissionRefusal { status, message }) => {
            let (code, reason) = status.wire();
            response.status = Some(AdmissionStatus {
                success: "Failure",
                code,
                reason,
                message,
            });
        }
    }
    serde_json::to_vec(&AdmissionReply {
        api_version: API_VERSION,
        kind: KIND,
        response,
    })
}

#[cfg(test)]
mod tests;
