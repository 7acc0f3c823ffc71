//! One event of the audit log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::wire;

/// One call to the API server, as its audit log tells it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: Stage,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) verb: String,
    pub(super) user: User,
    #[serde(default)]
    pub(super) object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    pub(super) request_object: Option<Value>,
    pub(super) response_object: Option<Value>,
    #[serde(rename = "requestReceivedTimestamp")]
    pub(super) begun: Timestamp,
    #[serde(rename = "stageTimestamp")]
    pub(super) done: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    #[serde(default)]
    pub(super) username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

/// The object of a call; empty for a path that is no resource.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectRef {
    pub(super) api_group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl AuditEvent {
    /// Reads one line of the log.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// When the call was answered.
    #[must_use]
    pub fn done(&self) -> Timestamp {
        self.done
    }

    pub(super) fn code(&self) -> u16 {
        self.response_status.code
    }

    pub(super) fn succeeded(&self) -> bool {
        (200..300).contains(&self.code())
    }

    /// The API server gave up on it: it may have been carried out or not.
    pub(super) fn is_uncertain(&self) -> bool {
        self.stage == Stage::Panic || self.code() >= 500
    }

    /// The calling process: two replicas share an account, but not a pod.
    pub(super) fn process(&self) -> String {
        let pod = self.user.extra.get("authentication.kubernetes.io/pod-uid");
        let pod = pod.map(|uids| uids.join(",")).unwrap_or_default();
        format!("{}/{pod}", self.user.username)
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list")
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether the call created an object, with any verb.
    pub(super) fn creates(&self) -> bool {
        self.code() == 201 || (self.verb == "create" && self.is_uncertain())
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun")
            .is_some_and(|value| !value.is_empty())
    }

    /// Whether a read asked for the newest state: a version, even 0, allows an older one, and a further page
    /// of a list is as old as the first.
    pub(super) fn is_live(&self) -> bool {
        ["resourceVersion", "continue"]
            .iter()
            .all(|key| self.parameter(key).is_none_or(|value| value.is_empty()))
    }

    /// Whether a call is about only some of the objects of its resource.
    pub(super) fn selects(&self) -> bool {
        ["labelSelector", "fieldSelector"]
            .iter()
            .any(|key| self.parameter(key).is_some_and(|value| !value.is_empty()))
    }

    /// Whether the call is about this resource itself.
    pub(super) fn is_of(&self, group: &str, resource: &str) -> bool {
        let object = &self.object_ref;
        object.api_group == group && object.resource == resource && object.subresource.is_empty()
    }

    /// Whether a pod is gone after it was deleted. The kubelet and the garbage collector of pods delete ended
    /// pods; all other clients request a graceful end.
    pub(super) fn ends_pod(&self) -> bool {
        let user = self.user.username.as_str();
        user.starts_with(wire::NODES) || user == wire::POD_GARBAGE_COLLECTOR
    }

    /// The object as it was stored, or as it was sent when the answer tells nothing.
    pub(super) fn object(&self) -> Option<&Value> {
        let is_object = |object: &&Value| object["kind"] != "Status";
        let stored = self.response_object.as_ref().filter(is_object);
        stored.or(self.request_object.as_ref())
    }

    fn parameter(&self, key: &str) -> Option<String> {
        let (_, query) = self.request_uri.split_once('?')?;
        let mut pairs = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .find(|(name, _)| decoded(name) == key)
            .map(|(_, value)| decoded(value))
    }
}

/// A part of a query, as the API server understands it: an escaped name is the same name.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = text_of(tail.get(..2)).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (byte, tail) = match (first, hex) {
            (b'%', Some(byte)) => (byte, tail.get(2..).unwrap_or_default()),
            (b'+', _) => (b' ', tail),
            (byte, _) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text_of(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(uri: &str) -> AuditEvent {
        serde_json::from_value(json!({
            "auditID": "1", "stage": "ResponseComplete", "requestURI": uri, "verb": "get", "user": {},
            "requestReceivedTimestamp": "2026-11-21T14:07:02.182894Z",
            "stageTimestamp": "2026-11-21T14:07:02.183370Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_read_is_live_when_no_older_state_will_do() {
        for uri in [
            "/p",
            "/p?",
            "/p?resourceVersion=",
            "/p?limit=1&continue=",
            "/p?labelSelector=resourceVersion%3D1",
        ] {
            assert!(event(uri).is_live(), "{uri}");
        }
        for uri in [
            "/p?resourceVersion=0",
            "/p?limit=500&resourceVersion=12",
            "/p?resource%56ersion=0",
            "/p?continue=abc",
        ] {
            assert!(!event(uri).is_live(), "{uri}");
        }
    }

    #[test]
    fn dry_runs_and_selections_are_recognised() {
        assert!(event("/p?dryRun=All").is_dry_run());
        assert!(!event("/p?dryRun=").is_dry_run() && !event("/p").is_dry_run());
        assert!(event("/p?labelSelector=a%3Db").selects() && event("/p?fieldSelector=a").selects());
        assert!(!event("/p?labelSelector=").selects() && !event("/p?limit=1").selects());
    }

    #[test]
    fn a_query_is_decoded_whatever_is_in_it() {
        for (text, plain) in [
            ("a%20b+c", "a b c"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("", ""),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(decoded(text), plain);
        }
    }

    #[test]
    fn replicas_of_one_account_are_told_apart() {
        let with = |extra: Value| {
            let mut user = event("/p");
            user.user = serde_json::from_value(json!({"username": "u", "extra": extra})).unwrap();
            user.process()
        };
        let pod = |uid: &str| with(json!({"authentication.kubernetes.io/pod-uid": [uid]}));
        assert_ne!(pod("1"), pod("2"));
        assert_eq!(with(json!({})), "u/");
    }
}
