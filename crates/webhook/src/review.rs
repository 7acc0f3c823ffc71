//! `AdmissionReview` in version v1, as far as this service reads and writes it.
//!
//! The object stays text until somebody wants it: one that cannot be parsed gets an answer of its own,
//! instead of making the whole review unreadable.

use json_patch::Patch;
use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What may be said of a user. No identity provider that a cluster can use says as much.
const MOST_USER_BYTES: usize = 64 * 1024;
/// The groups of a user.
const MOST_GROUPS: usize = 1024;

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
    /// A creator without a name can be granted nothing and asked about by nobody.
    #[error("the request does not say whose it is")]
    NoUser,
    /// Everything that is said of a user is sent on when it is asked what he may.
    #[error("request.userInfo has {0} bytes, and {MOST_USER_BYTES} at most are read")]
    LargeUser(usize),
    /// An empty group takes three bytes here and many more in memory.
    #[error("request.userInfo.groups has {0} groups, and {MOST_GROUPS} at most are read")]
    ManyGroups(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: Option<Sent<'a>>,
}

/// A request as it is sent. What may be large stays where it is until it is known how large.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    uid: String,
    resource: RequestResource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    operation: Operation,
    #[serde(borrow)]
    user_info: &'a RawValue,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

/// What the API server asks about.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) uid: String,
    pub(crate) resource: RequestResource,
    pub(crate) sub_resource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) operation: Operation,
    pub(crate) user_info: UserInfo,
    pub(crate) object: Option<Box<RawValue>>,
    /// What is stored, of an object that changes.
    pub(crate) old_object: Option<Box<RawValue>>,
}

impl Request {
    /// The bytes that are kept of it until the answer, but for the object itself.
    pub(crate) fn bytes_beside_object(&self) -> usize {
        // What is said of the user is sent on, once for each question about him.
        let old = self.old_object.as_ref().map_or(0, |it| it.get().len());
        old + 2 * MOST_USER_BYTES
    }
}

/// The kind of the object, as its resource.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RequestResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
}

/// What happens to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Reads a body.
pub(crate) fn parse(body: &[u8]) -> Result<Request, ReviewError> {
    let Envelope {
        api_version,
        kind,
        request,
    } = serde_json::from_slice(body).map_err(ReviewError::Shape)?;
    if api_version != API_VERSION || kind != KIND {
        return Err(ReviewError::Kind);
    }
    let sent = request.ok_or(ReviewError::NoRequest)?;
    if sent.uid.is_empty() {
        return Err(ReviewError::NoUid);
    }
    Ok(Request {
        user_info: user(sent.user_info.get())?,
        uid: sent.uid,
        resource: sent.resource,
        sub_resource: sent.sub_resource,
        namespace: sent.namespace,
        operation: sent.operation,
        object: sent.object.map(ToOwned::to_owned),
        old_object: sent.old_object.map(ToOwned::to_owned),
    })
}

/// Reads what is said of a user, within its bounds.
fn user(text: &str) -> Result<UserInfo, ReviewError> {
    if text.len() > MOST_USER_BYTES {
        return Err(ReviewError::LargeUser(text.len()));
    }
    let user: UserInfo = serde_json::from_str(text).map_err(ReviewError::Shape)?;
    let groups = user.groups.as_ref().map_or(0, Vec::len);
    if groups > MOST_GROUPS {
        return Err(ReviewError::ManyGroups(groups));
    }
    if user.username.as_deref().unwrap_or_default().is_empty() {
        return Err(ReviewError::NoUser);
    }
    Ok(user)
}

/// What the API server is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Let it pass.
    Allowed {
        /// Changed by this, if it is to be changed.
        patch: Option<Patch>,
        /// Shown to whoever sent it.
        warnings: Vec<String>,
    },
    /// Do not let it pass.
    Refused(Refusal),
}

impl Answer {
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
pub(crate) struct Refusal {
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
struct Reply<'a> {
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
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    success: &'a str,
    code: u16,
    reason: &'a str,
    message: &'a str,
}

/// Writes the answer to the review with this UID.
pub(crate) fn render(uid: &str, answer: &Answer) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = Response {
        uid,
        allowed: false,
        status: None,
        patch_type: None,
        patch: None,
        warnings: &[],
    };
    match answer {
        Answer::Allowed { patch, warnings } => {
            response.allowed = true;
            response.warnings = warnings;
            if let Some(patch) = patch {
                response.patch_type = Some("JSONPatch");
                response.patch = Some(ByteString(serde_json::to_vec(patch)?));
            }
        }
        Answer::Refused(Refusal { status, message }) => {
            let (code, reason) = status.wire();
            response.status = Some(Status {
                success: "Failure",
                code,
                reason,
                message,
            });
        }
    }
    serde_json::to_vec(&Reply {
        api_version: API_VERSION,
        kind: KIND,
        response,
    })
}

#[cfg(test)]
mod tests {
    use json_patch::{Patch, jsonptr::PointerBuf};
    use serde_json::{Value, json};

    use super::*;

    fn body() -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u1",
                "kind": {"group": "connectors.alauda.io", "version": "v1alpha1", "kind": "AccessRequest"},
                "resource": {"group": "connectors.alauda.io", "version": "v1alpha1", "resource": "accessrequests"},
                "namespace": "team", "name": "", "operation": "CREATE",
                "userInfo": {"username": "ada", "groups": ["dev"], "extra": {"k": ["v"]}},
                "object": {"spec": {}}, "oldObject": null, "dryRun": true,
            },
        })
    }

    #[test]
    fn reads_what_the_api_server_sends() {
        let request = parse(body().to_string().as_bytes()).unwrap();
        assert_eq!(request.uid, "u1");
        assert_eq!(request.operation, Operation::Create);
        assert_eq!(request.namespace.as_deref(), Some("team"));
        assert_eq!(request.sub_resource, None);
        assert_eq!(request.object.unwrap().get(), r#"{"spec":{}}"#);
        assert_eq!(request.user_info.username.as_deref(), Some("ada"));
    }

    #[test]
    fn refuses_bodies_that_cannot_be_answered() {
        let without = |pointer: &str, value: Value| {
            let mut body = body();
            *body.pointer_mut(pointer).unwrap() = value;
            parse(body.to_string().as_bytes()).unwrap_err().to_string()
        };
        let cases = [
            (
                "/apiVersion",
                json!("admission.k8s.io/v1beta1"),
                "only AdmissionReview of admission.k8s.io/v1 is understood",
            ),
            (
                "/kind",
                json!("Pod"),
                "only AdmissionReview of admission.k8s.io/v1 is understood",
            ),
            (
                "/request",
                Value::Null,
                "the AdmissionReview has no request",
            ),
            ("/request/uid", json!(""), "the request has no uid"),
            (
                "/request/userInfo",
                json!({}),
                "the request does not say whose it is",
            ),
            (
                "/request/userInfo/username",
                json!(""),
                "the request does not say whose it is",
            ),
            (
                "/request/operation",
                json!("PATCH"),
                "not an AdmissionReview",
            ),
        ];
        for (pointer, value, expected) in cases {
            assert_eq!(without(pointer, value), expected, "{pointer}");
        }
        assert!(matches!(parse(b""), Err(ReviewError::Shape(_))));
    }

    #[test]
    fn says_how_much_it_reads_of_a_user() {
        let with = |user: Value| {
            let mut body = body();
            body["request"]["userInfo"] = user;
            parse(body.to_string().as_bytes())
        };
        let groups = |count| json!({"username": "ada", "groups": vec![""; count]});
        assert!(with(groups(MOST_GROUPS)).is_ok());
        assert_eq!(
            with(groups(MOST_GROUPS + 1)).unwrap_err().to_string(),
            "request.userInfo.groups has 1025 groups, and 1024 at most are read"
        );
        // Half a million groups are refused by their length, before a list of them is made.
        assert!(matches!(
            with(groups(500_000)),
            Err(ReviewError::LargeUser(_))
        ));
        for user in [
            json!({"username": "x".repeat(MOST_USER_BYTES)}),
            json!({"username": "ada", "extra": {"k": ["x".repeat(MOST_USER_BYTES)]}}),
        ] {
            assert!(matches!(with(user), Err(ReviewError::LargeUser(_))));
        }
        assert!(with(json!({"username": "ada"})).is_ok());
        assert!(with(json!({"username": "ada", "groups": []})).is_ok());
    }

    #[test]
    fn what_is_kept_of_a_request_is_counted() {
        let mut body = body();
        let empty = parse(body.to_string().as_bytes()).unwrap();
        body["request"]["oldObject"] = json!({"spec": "x".repeat(1000)});
        let updated = parse(body.to_string().as_bytes()).unwrap();
        let more = updated.bytes_beside_object() - empty.bytes_beside_object();
        assert_eq!(more, updated.old_object.unwrap().get().len());
    }

    #[test]
    fn an_object_of_any_depth_leaves_the_review_readable() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = body().to_string().replace(r#"{"spec":{}}"#, &deep);
        assert_eq!(parse(text.as_bytes()).unwrap().uid, "u1");
    }

    fn rendered(answer: &Answer) -> Value {
        let reply: Value = serde_json::from_slice(&render("u1", answer).unwrap()).unwrap();
        assert_eq!(reply["apiVersion"], API_VERSION);
        assert_eq!(reply["kind"], KIND);
        assert_eq!(reply["response"]["uid"], "u1");
        reply["response"].clone()
    }

    #[test]
    fn an_answer_says_no_more_than_it_has_to() {
        assert_eq!(
            rendered(&Answer::allowed()),
            json!({"uid": "u1", "allowed": true})
        );
    }

    #[test]
    fn warnings_are_shown_to_whoever_is_let_through() {
        let warnings = vec!["spec.a: is odd".to_owned()];
        let patch = None;
        assert_eq!(
            rendered(&Answer::Allowed { patch, warnings }),
            json!({"uid": "u1", "allowed": true, "warnings": ["spec.a: is odd"]})
        );
    }

    #[test]
    fn a_patch_is_sent_in_base64() {
        let operation = json_patch::AddOperation {
            path: PointerBuf::parse("/a").unwrap(),
            value: json!(1),
        };
        let patch = Patch(vec![json_patch::PatchOperation::Add(operation)]);
        let expected = json!({
            "uid": "u1", "allowed": true, "patchType": "JSONPatch",
            "patch": ByteString(br#"[{"op":"add","path":"/a","value":1}]"#.to_vec()),
        });
        assert_eq!(rendered(&Answer::patched(Some(patch))), expected);
    }

    #[test]
    fn every_refusal_has_its_code() {
        let cases = [
            (RefusalStatus::Unavailable, 503, "ServiceUnavailable"),
            (RefusalStatus::Forbidden, 403, "Forbidden"),
            (RefusalStatus::Invalid, 422, "Invalid"),
            (RefusalStatus::BadRequest, 400, "BadRequest"),
        ];
        for (status, code, reason) in cases {
            let answer = Answer::Refused(Refusal {
                status,
                message: "no".to_owned(),
            });
            let expected =
                json!({"status": "Failure", "code": code, "reason": reason, "message": "no"});
            let response = rendered(&answer);
            assert_eq!(
                (&response["allowed"], &response["status"]),
                (&json!(false), &expected)
            );
        }
    }
}
