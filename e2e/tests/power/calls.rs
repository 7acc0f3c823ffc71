//! The calls of our accounts, from the audit log.

use std::{collections::BTreeSet, fmt, io::BufRead};

use e2e::install::NAMESPACE;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The accounts of the installation, as users.
const PREFIX: &str = "system:serviceaccount:";

/// A call, as often as it was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) account: String,
    pub(crate) verb: String,
    pub(crate) group: String,
    /// With its subresource.
    pub(crate) resource: String,
    /// Empty: none, or all.
    pub(crate) namespace: String,
    /// Empty: none, or all.
    pub(crate) name: String,
    pub(crate) allowed: bool,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            ..
        } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}")
    }
}

/// The parsed part of a line. Objects may be nested to any depth.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    user: Value,
    verb: String,
    #[serde(default)]
    object_ref: Value,
    #[serde(default)]
    response_status: Value,
    #[serde(default)]
    annotations: Value,
    #[serde(borrow)]
    response_object: Option<&'a RawValue>,
}

/// All calls of an audit log, up to a line that the API server is still writing.
pub(crate) fn read(mut log: impl BufRead) -> BTreeSet<Call> {
    let mut found = BTreeSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        log.read_until(b'\n', &mut line).unwrap();
        if !line.ends_with(b"\n") {
            return found;
        }
        let event: Result<Event<'_>, _> = serde_json::from_slice(&line);
        let event = event.unwrap_or_else(|error| {
            panic!("{error} in a line of {} bytes of the audit log", line.len())
        });
        found.extend(calls(&event));
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn calls(event: &Event<'_>) -> Vec<Call> {
    let mut calls: Vec<Call> = made(event).into_iter().collect();
    // Server-side apply of something that is not there needs the right to create it, too.
    let is_new = event.response_status["code"] == 201;
    if let Some(call) = calls.first().filter(|it| is_new && it.verb == "patch") {
        let verb = "create".to_owned();
        calls.push(Call {
            verb,
            ..call.clone()
        });
    }
    calls.extend(asked_about(event));
    calls
}

fn made(event: &Event<'_>) -> Option<Call> {
    let object = &event.object_ref;
    let resource = match (text(object, "resource"), text(object, "subresource")) {
        ("", _) => return None,
        (resource, "") => resource.to_owned(),
        (resource, part) => format!("{resource}/{part}"),
    };
    let decision = text(&event.annotations, "authorization.k8s.io/decision");
    // A busy API server says so before it looks at any right.
    if decision.is_empty() && event.response_status["code"] == 429 {
        return None;
    }
    Some(Call {
        account: account(text(&event.user, "username"))?,
        verb: event.verb.clone(),
        group: text(object, "apiGroup").to_owned(),
        resource,
        namespace: text(object, "namespace").to_owned(),
        name: text(object, "name").to_owned(),
        allowed: decision == "allow",
    })
}

/// The right to ask the evaluation service is used by being asked about: there is no such object.
fn asked_about(event: &Event<'_>) -> Option<Call> {
    if text(&event.object_ref, "resource") != "subjectaccessreviews" {
        return None;
    }
    let answer: Value = serde_json::from_str(event.response_object?.get()).unwrap();
    let spec = &answer["spec"];
    let asked = &spec["resourceAttributes"];
    if text(asked, "resource") != "evaluations" {
        return None;
    }
    let resource = match text(asked, "subresource") {
        "" => "evaluations".to_owned(),
        part => format!("evaluations/{part}"),
    };
    Some(Call {
        account: account(text(spec, "user"))?,
        verb: text(asked, "verb").to_owned(),
        group: text(asked, "group").to_owned(),
        resource,
        namespace: text(asked, "namespace").to_owned(),
        name: text(asked, "name").to_owned(),
        allowed: answer["status"]["allowed"] == true,
    })
}

fn account(user: &str) -> Option<String> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    (namespace == NAMESPACE).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(user: &str, verb: &str, object: &Value, decision: &str, code: u16) -> Value {
        json!({
            "user": {"username": user}, "verb": verb, "objectRef": object, "responseStatus": {"code": code},
            "annotations": {"authorization.k8s.io/decision": decision},
        })
    }

    fn said(events: &[Value]) -> Vec<String> {
        let mut log = String::new();
        for event in events {
            log.push_str(&event.to_string());
            log.push('\n');
        }
        let calls = read(log.as_bytes());
        calls
            .iter()
            .map(|it| format!("{} {it} {}", it.account, it.allowed))
            .collect()
    }

    #[test]
    fn a_log_tells_what_our_accounts_called() {
        let webhook = "system:serviceaccount:connectors-system:webhook";
        let secret = json!({"resource": "secrets", "namespace": "n", "name": "s"});
        let status = json!({"resource": "x", "subresource": "status", "apiGroup": "g"});
        let mut busy = event(webhook, "get", &secret, "", 429);
        busy["annotations"] = json!({});
        assert_eq!(
            said(&[
                event(webhook, "patch", &secret, "allow", 201),
                event(webhook, "update", &status, "forbid", 403),
                event(
                    "system:serviceaccount:other:webhook",
                    "get",
                    &secret,
                    "allow",
                    200
                ),
                event("ada", "get", &secret, "allow", 200),
                busy,
                event(webhook, "get", &json!(null), "allow", 200),
            ]),
            [
                "webhook create secrets true",
                "webhook patch secrets true",
                "webhook update x/status.g false"
            ]
        );
    }

    #[test]
    fn a_line_that_is_still_being_written_is_left_out() {
        let line = |verb| {
            let user = "system:serviceaccount:connectors-system:webhook";
            event(user, verb, &json!({"resource": "é"}), "allow", 200).to_string()
        };
        let (whole, begun) = (line("get"), line("list"));
        for end in 0..=begun.len() {
            let log = [whole.as_bytes(), b"\n", &begun.as_bytes()[..end]].concat();
            assert_eq!(read(log.as_slice()).len(), 1, "{end}");
        }
    }

    #[test]
    fn what_somebody_nests_deeply_is_not_read() {
        let webhook = "system:serviceaccount:connectors-system:webhook";
        let secret = json!({"resource": "secrets"});
        let line = event(webhook, "create", &secret, "allow", 201).to_string();
        let deep = "{\"a\":".repeat(1000) + "1" + &"}".repeat(1000);
        let line = line.replacen('{', &format!("{{\"responseObject\":{deep},"), 1) + "\n";
        assert_eq!(read(line.as_bytes()).len(), 1);
    }

    #[test]
    fn the_right_to_ask_is_used_when_it_is_asked_about() {
        let asked = |part: Option<&str>| {
            let mut asked = event(
                "system:serviceaccount:x:y",
                "create",
                &json!({"resource": "subjectaccessreviews"}),
                "allow",
                201,
            );
            asked["responseObject"] = json!({
                "spec": {
                    "user": "system:serviceaccount:connectors-system:csi-node",
                    "resourceAttributes": {
                        "resource": "evaluations", "subresource": part, "group": "g", "verb": "create",
                    },
                },
                "status": {"allowed": true},
            });
            said(&[asked])
        };
        assert_eq!(asked(None), ["csi-node create evaluations.g true"]);
        assert_eq!(
            asked(Some("mount")),
            ["csi-node create evaluations/mount.g true"]
        );
    }
}
