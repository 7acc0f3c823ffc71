//! One call of the kubelet, and its faults.

use std::{collections::BTreeMap, fmt};

use jiff::{SignedDuration, Timestamp};
use prost::Message;

use crate::view::Target;

/// The calls that are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `NodePublishVolume`.
    Publish,
    /// `NodeUnpublishVolume`.
    Unpublish,
}

impl Method {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/csi.v1.Node/NodePublishVolume" => Some(Self::Publish),
            "/csi.v1.Node/NodeUnpublishVolume" => Some(Self::Unpublish),
            _ => None,
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The driver's status, also where the driver could not be reached: that is UNAVAILABLE.
    Status {
        /// The code of gRPC.
        code: u16,
        /// The text beside it.
        message: String,
    },
    /// The kubelet gave up before the driver answered.
    Abandoned,
}

impl Answer {
    /// Whether the call succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Status { code: 0, .. })
    }

    /// Whether the kubelet takes the answer for a promise that nothing is left: it will not unpublish.
    #[must_use]
    pub fn is_final_error(&self) -> bool {
        /// OK, and then CANCELLED, `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`, ABORTED and UNAVAILABLE.
        const OTHERS: [u16; 6] = [0, 1, 4, 8, 10, 14];
        match self {
            Self::Status { code, .. } => !OTHERS.contains(code),
            Self::Abandoned => false,
        }
    }
}

/// A call, as far as it has come.
#[derive(Debug, Clone)]
pub struct Call {
    /// The called method.
    pub method: Method,
    /// The volume.
    pub volume_id: String,
    /// Where it appears.
    pub target_path: String,
    /// The namespace of the volume's pod, as the kubelet gives it; empty for an unpublish.
    pub pod_namespace: String,
    /// The pod's name.
    pub pod_name: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The connectors that the volume is for.
    pub connectors: String,
    /// When the kubelet called.
    pub started: Timestamp,
    /// When it had its answer.
    pub ended: Option<Timestamp>,
    /// The answer.
    pub answer: Option<Answer>,
    /// The state of the target path before the call.
    pub before: Option<Target>,
    /// The state of the target path after the answer.
    pub after: Option<Target>,
    /// The faults.
    pub findings: Vec<Finding>,
}

/// A fault of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The target path could not be inspected.
    Unseen(String),
    /// OK was answered, and the volume is not complete.
    Incomplete(Target),
    /// Content was delivered, and access was not allowed.
    NotAllowed(String),
    /// A final error was answered, or the volume unpublished, and something is left.
    Leftover(Target),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unseen(why) => write!(f, "nobody could look at the target path: {why}"),
            Self::Incomplete(target) => {
                write!(f, "OK was answered, and at the target path is: {target}")
            }
            Self::NotAllowed(why) => write!(
                f,
                "content was delivered, and access was not allowed: {why}"
            ),
            Self::Leftover(target) => write!(
                f,
                "nothing may be left, and at the target path is: {target}"
            ),
        }
    }
}

impl Call {
    /// A call that begins. An unparsable one is recorded as a call without fields.
    pub(crate) fn begin(method: Method, body: &[u8], started: Timestamp) -> Self {
        let said = Said::decode(message(body).unwrap_or_default()).unwrap_or_default();
        let (target_path, mut context) = match method {
            Method::Publish => (said.published_at, said.context),
            Method::Unpublish => (said.unpublished_at, BTreeMap::new().into_iter().collect()),
        };
        // Nothing else is taken over: among the rest are tokens.
        let mut word = |key: &str| context.remove(key).unwrap_or_default();
        Self {
            method,
            volume_id: said.volume_id,
            target_path,
            pod_namespace: word("csi.storage.k8s.io/pod.namespace"),
            pod_name: word("csi.storage.k8s.io/pod.name"),
            pod_uid: word("csi.storage.k8s.io/pod.uid"),
            connectors: word("connectors"),
            started,
            ended: None,
            answer: None,
            before: None,
            after: None,
            findings: Vec::new(),
        }
    }

    /// How long the call took.
    #[must_use]
    pub fn took(&self) -> Option<SignedDuration> {
        Some(self.ended?.duration_since(self.started))
    }

    /// Whether content is there for the pod that was asked for in this call.
    pub(crate) fn delivers(&self) -> bool {
        self.method == Method::Publish
            && self.answer.as_ref().is_some_and(Answer::is_ok)
            && self.after == Some(Target::Complete)
    }

    /// The fault that the target path shows, given the answer.
    pub(crate) fn judge(&self) -> Option<Finding> {
        let (answer, after) = (self.answer.as_ref()?, self.after?);
        let empty = after == Target::Nothing;
        match self.method {
            Method::Publish if answer.is_ok() => {
                let before = self.before;
                let had_error = before == Some(Target::Rejected);
                let had_content = matches!(before, Some(Target::Complete | Target::Revoked));
                let was_mounted = before.is_some_and(Target::is_mounted);
                let is_right = match after {
                    // An error stays, and takes the place of no content.
                    Target::Complete => !had_error,
                    Target::Rejected => !had_content,
                    Target::Revoked => was_mounted && !had_error,
                    Target::Nothing | Target::Unmounted | Target::Unmarked => false,
                };
                (!is_right).then_some(Finding::Incomplete(after))
            }
            Method::Publish => {
                (answer.is_final_error() && !empty).then_some(Finding::Leftover(after))
            }
            Method::Unpublish => (answer.is_ok() && !empty).then_some(Finding::Leftover(after)),
        }
    }
}

/// The parsed fields of both requests. Their other fields, secrets among them, are not even parsed.
#[derive(Clone, PartialEq, Message)]
struct Said {
    #[prost(string, tag = "1")]
    volume_id: String,
    #[prost(string, tag = "2")]
    unpublished_at: String,
    #[prost(string, tag = "4")]
    published_at: String,
    #[prost(map = "string, string", tag = "8")]
    context: std::collections::HashMap<String, String>,
}

/// The one message of a call with one message, if it is not compressed.
fn message(body: &[u8]) -> Option<&[u8]> {
    let (&[0, a, b, c, d], rest) = body.split_first_chunk()? else {
        return None;
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    rest.get(..length)
}
