//! Who may do what, naively: the rules of RBAC and of the documents over objects as they are stored.
//!
//! Nothing here uses what the service decides with.

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::{Key, Kind};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Namespace and name of the service account.
    pub(super) subject: (String, String),
    /// Namespace and name of the connector.
    pub(super) connector: (String, String),
    pub(super) permission: String,
    pub(super) verb: String,
    /// Name and UID.
    pub(super) pod: Option<(String, String)>,
}

fn strings(value: &Value) -> Vec<&str> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

fn has(value: &Value, wanted: &str) -> bool {
    strings(value)
        .into_iter()
        .any(|it| it == "*" || it == wanted)
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key)?.as_str()
}

fn is_ours(object: &Value) -> bool {
    label(object, "app.kubernetes.io/managed-by") == Some("connectors-approval")
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// An object of ours with a deletion timestamp counts as deleted. RBAC goes by any other until it is gone.
fn counts(object: &Value) -> bool {
    !(is_ours(object) && is_going(object))
}

/// Where the role of a binding is. A `ClusterRoleBinding` can bind no Role.
pub(super) fn role_of(kind: Kind, key: &Key, binding: &Value) -> Option<(Kind, Key)> {
    let name = binding["roleRef"]["name"].as_str()?.to_owned();
    match binding["roleRef"]["kind"].as_str()? {
        "Role" if kind == Kind::RoleBinding => Some((Kind::Role, (key.0.clone(), name))),
        "ClusterRole" => Some((Kind::ClusterRole, (String::new(), name))),
        _ => None,
    }
}

fn is_subject(
    subject: &Value,
    kind: Kind,
    key: &Key,
    (namespace, name): &(String, String),
) -> bool {
    let is = |text: &str| subject["name"] == *text;
    match subject["kind"].as_str() {
        Some("User") => is(&format!("system:serviceaccount:{namespace}:{name}")),
        Some("Group") => {
            is("system:authenticated")
                || is("system:serviceaccounts")
                || is(&format!("system:serviceaccounts:{namespace}"))
        }
        Some("ServiceAccount") => {
            let given = subject["namespace"].as_str().unwrap_or_default();
            // A RoleBinding may leave out its own namespace.
            let home = if given.is_empty() && kind == Kind::RoleBinding {
                &key.0
            } else {
                given
            };
            home == namespace && is(name)
        }
        _ => false,
    }
}

fn covers(rule: &Value, question: &Question, subresource: &str) -> bool {
    let resource = format!("connectors/{subresource}");
    let by_subresource = format!("*/{subresource}");
    let is_resource = |it: &str| it == "*" || it == resource || it == by_subresource;
    let names = strings(&rule["resourceNames"]);
    has(&rule["verbs"], &question.verb)
        && has(&rule["apiGroups"], "connectors.alauda.io")
        && strings(&rule["resources"]).into_iter().any(is_resource)
        && (names.is_empty() || names.contains(&question.connector.1.as_str()))
}

/// One binding and its role, each as it was at some moment.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) kind: Kind,
    pub(super) key: &'a Key,
    pub(super) binding: &'a Value,
    pub(super) role: &'a Value,
}

impl Pair<'_> {
    fn allows(self, question: &Question, subresource: &str) -> bool {
        let Self {
            kind,
            key,
            binding,
            role,
        } = self;
        let subjects = binding["subjects"].as_array();
        let mut subjects = subjects.into_iter().flatten();
        let rules = role["rules"].as_array();
        let mut rules = rules.into_iter().flatten();
        let is_here = kind == Kind::ClusterRoleBinding || key.0 == question.connector.0;
        is_here
            && counts(binding)
            && counts(role)
            && subjects.any(|it| is_subject(it, kind, key, &question.subject))
            && rules.any(|rule| covers(rule, question, subresource))
    }

    /// Whether it is a permission at any time.
    pub(super) fn is_standing(self, question: &Question) -> bool {
        self.allows(question, &question.permission)
    }

    /// Whether it is a permission of the pod that asks, by a request, at a moment.
    pub(super) fn is_pods(
        self,
        question: &Question,
        request: Option<&Value>,
        now: Timestamp,
    ) -> bool {
        let (Some((pod, _)), Some(request)) = (&question.pod, request) else {
            return false;
        };
        let (namespace, permission) = (&question.subject.0, &question.permission);
        let form = format!("{permission}/v1/pod/{namespace}/{pod}");
        let uid = request["metadata"]["uid"].as_str().unwrap_or_default();
        let binding = self.binding;
        self.allows(question, &form)
            && self.kind == Kind::RoleBinding
            && is_ours(binding)
            && !is_going(binding)
            && !uid.is_empty()
            && label(binding, "connectors.alauda.io/accessRequestUid") == Some(uid)
            && grants(request, question, pod, now)
            && is_its_policy_granted(binding, request, now)
    }
}

/// Whether a request lets a pod in at a moment.
fn grants(request: &Value, question: &Question, pod: &str, now: Timestamp) -> bool {
    let object = &request["spec"]["context"]["objectRef"];
    request["status"]["phase"] == "Granted"
        && object["name"] == *pod
        && object["namespace"] == *question.subject.0
        && !is_over(&request["status"]["expiresAt"], now)
}

/// Of the policies of the request the one that the binding was written for.
fn is_its_policy_granted(binding: &Value, request: &Value, now: Timestamp) -> bool {
    let uid = label(binding, "connectors.alauda.io/accessPolicyUid").unwrap_or_default();
    let policies = request["status"]["policies"].as_array();
    let mut its: Vec<_> = policies.into_iter().flatten().collect();
    its.retain(|it| it["policy"]["metadata"]["uid"] == *uid);
    !uid.is_empty()
        && matches!(its[..], [it] if it["grant"]["state"] == "Granted" && !is_over(&it["grant"]["expiresAt"], now))
}

fn is_over(end: &Value, now: Timestamp) -> bool {
    let end = end.as_str().map(|end| end.parse::<Timestamp>().unwrap());
    end.is_some_and(|end| end <= now)
}

/// Whether a request is about the tuple of a question: subject, connector, permission and the UID of the pod.
pub(super) fn is_about(request: &Value, question: &Question) -> bool {
    let Some((_, uid)) = question.pod.as_ref().filter(|pod| !pod.1.is_empty()) else {
        return false;
    };
    let spec = &request["spec"];
    let object = &spec["context"]["objectRef"];
    let given = spec["subject"]["namespace"].as_str().unwrap_or_default();
    let home = if given.is_empty() {
        object["namespace"].as_str().unwrap_or_default()
    } else {
        given
    };
    !is_going(request)
        && request["metadata"]["namespace"] == *question.connector.0
        && spec["connectorRef"]["name"] == *question.connector.1
        && spec["permission"].as_str().unwrap_or("apis") == question.permission
        && home == question.subject.0
        && spec["subject"]["name"] == *question.subject.1
        && object["uid"] == *uid
}

/// Of several requests of one tuple the decided ones come first and the invalid ones last, then the oldest, then the
/// smaller UID.
pub(super) fn deciding<'a>(requests: impl IntoIterator<Item = &'a Value>) -> Option<&'a Value> {
    let text =
        |request: &'a Value, field: &str| request["metadata"][field].as_str().unwrap_or_default();
    requests.into_iter().min_by_key(|request| {
        let phase = request["status"]["phase"].as_str().unwrap_or_default();
        let is_decided = ["Granted", "Rejected", "Revoked", "Ended"].contains(&phase);
        (
            !is_decided,
            phase == "Invalid",
            text(request, "creationTimestamp"),
            text(request, "uid"),
        )
    })
}

/// Whether a policy of the connector's namespace accepts a request of the asker.
pub(super) fn accepts(policy: &Value, question: &Question) -> bool {
    let spec = &policy["spec"];
    let connector = &question.connector;
    let names = &spec["connector"]["names"];
    let is_selected = names.is_null() || strings(names).contains(&connector.1.as_str());
    let granted = &spec["checkGrantedPermission"];
    let requesters = &granted["requesters"];
    let is_asker =
        |it: &Value| it["namespace"] == *question.subject.0 && it["name"] == *question.subject.1;
    let accepts = match requesters.as_array() {
        Some(requesters) => requesters.iter().any(is_asker),
        // Who may ask where nobody is named are the accounts of the namespace.
        None => question.subject.0 == connector.0,
    };
    policy["metadata"]["namespace"] == *connector.0
        && !is_going(policy)
        && spec["permission"].as_str().unwrap_or("apis") == question.permission
        && is_selected
        && !granted.is_null()
        && accepts
}

/// The word of the switch, if it says one.
pub(super) fn switch(config: &Value) -> Option<bool> {
    match config["data"]["enable-connectors-approval"].as_str()? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}
