//! Objects of few names, many of which are the beginning of others, so that chance makes them meet.

use jiff::Timestamp;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::reference::Question;

const CONNECTOR_NAMESPACES: [&str; 2] = ["tools", "tools-1"];
const CONNECTORS: [&str; 2] = ["harbor", "harbor-2"];
const SUBJECT_NAMESPACES: [&str; 4] = ["dev", "dev-1", "team", "team-a"];
const ACCOUNTS: [&str; 2] = ["builder", "builder-1"];
const PODS: [&str; 2] = ["deploy", "deploy-1"];
const UIDS: [&str; 3] = ["u-1", "u-11", ""];
const POLICIES: [&str; 2] = ["p-1", "p-11"];

/// What objects are made with.
pub(super) struct Maker {
    pub(super) dice: StdRng,
    /// Everything is as a controller would write it.
    pub(super) is_plain: bool,
    /// Objects that were ever made: no UID is given twice.
    made: usize,
}

impl Maker {
    pub(super) fn new(dice: StdRng) -> Self {
        Self {
            dice,
            is_plain: false,
            made: 0,
        }
    }

    pub(super) fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of.choose(&mut self.dice).copied().unwrap()
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.dice.random_range(0..times) == 0
    }

    /// A side of a die; the last one is what is usual.
    fn side(&mut self, sides: u32) -> u32 {
        if self.is_plain {
            return sides - 1;
        }
        self.dice.random_range(0..sides)
    }

    fn is_odd(&mut self, sides: u32) -> bool {
        self.side(sides) == 0
    }

    fn uid(&mut self, name: &str) -> String {
        self.made += 1;
        format!("{name}-{}", self.made)
    }

    pub(super) fn question(&mut self) -> Question {
        let text = |it: &str| it.to_owned();
        let subjects = if self.once_in(2) { 2 } else { 4 };
        let namespace = text(self.one(&SUBJECT_NAMESPACES[..subjects]));
        let uids = if self.once_in(8) { 3 } else { 2 };
        Question {
            subject: (namespace, text(self.one(&ACCOUNTS))),
            connector: (
                text(self.one(&CONNECTOR_NAMESPACES)),
                text(self.one(&CONNECTORS)),
            ),
            permission: text(self.one(&["apis", "apis", "apis", "proxy"])),
            verb: text(self.one(&["*", "*", "*", "get"])),
            pod: (!self.once_in(6)).then(|| (text(self.one(&PODS)), text(self.one(&UIDS[..uids])))),
        }
    }

    /// A question that differs in one part.
    pub(super) fn neighbour(&mut self, of: &Question) -> Question {
        let other = self.question();
        let mut neighbour = of.clone();
        match self.dice.random_range(0..6) {
            0 => neighbour.subject.0 = other.subject.0,
            1 => neighbour.subject.1 = other.subject.1,
            2 => neighbour.connector = other.connector,
            3 => neighbour.permission = other.permission,
            4 => neighbour.verb = other.verb,
            _ => neighbour.pod = other.pod,
        }
        neighbour
    }

    /// Rules of which some cover the question.
    pub(super) fn rules(&mut self, question: &Question, is_pods: bool) -> Value {
        let standing = format!("connectors/{}", question.permission);
        let by_subresource = format!("*/{}", question.permission);
        let form = form(question);
        let usual = if is_pods { &form } else { &standing };
        let resource = if self.is_odd(4) {
            self.one(&[
                form.as_str(),
                &standing,
                &by_subresource,
                "*",
                "connectors",
                "connectors/*",
            ])
        } else {
            usual.as_str()
        };
        let names = match self.side(8) {
            0 => json!([]),
            1 => json!(["harbor-2"]),
            2 => Value::Null,
            _ => json!([question.connector.1]),
        };
        let verbs = match self.side(8) {
            0 => json!(["get"]),
            1 => json!(["get", "list"]),
            _ => json!(["*"]),
        };
        let group = if self.is_odd(10) {
            "apps"
        } else {
            "connectors.alauda.io"
        };
        let group = if self.is_odd(10) { "*" } else { group };
        let rule = json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": verbs});
        if self.is_odd(5) {
            let other = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]});
            return json!([other, rule]);
        }
        json!([rule])
    }

    pub(super) fn subjects(&mut self, question: &Question) -> Value {
        let (namespace, name) = &question.subject;
        let account = json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
        let other = match self.side(7) {
            0 => json!({"kind": "ServiceAccount", "name": name}),
            1 => json!({"kind": "Group", "name": format!("system:serviceaccounts:{namespace}")}),
            2 => {
                json!({"kind": "User", "name": format!("system:serviceaccount:{namespace}:{name}")})
            }
            3 => {
                json!({"kind": "Group", "name": self.one(&["system:authenticated", "system:masters", "dev"])})
            }
            4 => {
                let (namespace, name) = (self.one(&SUBJECT_NAMESPACES), self.one(&ACCOUNTS));
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
            5 => {
                json!({"kind": "Group", "name": format!("system:serviceaccounts:{}", self.one(&SUBJECT_NAMESPACES))})
            }
            _ => json!({"kind": "User", "name": format!("{namespace}:{name}")}),
        };
        match self.side(8) {
            0 => Value::Null,
            1 => json!([other]),
            2 => json!([other, account]),
            3 => json!([]),
            _ => json!([account]),
        }
    }

    /// What an object is called, and that it is ours if it is.
    pub(super) fn metadata(&mut self, namespace: &str, name: &str, labels: &Value) -> Value {
        let uid = self.uid(name);
        let mut metadata = json!({
            "name": name, "uid": uid, "labels": labels,
            "creationTimestamp": format!("2025-12-31T23:59:{:02}Z", self.dice.random_range(0..3)),
        });
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata
    }

    /// The labels of what the request-controller wrote for a request.
    pub(super) fn labels(&mut self, request: &str) -> Value {
        let policy = if self.is_odd(10) {
            POLICIES[1]
        } else {
            POLICIES[0]
        };
        json!({
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequestUid": request,
            "connectors.alauda.io/accessPolicyUid": policy,
        })
    }

    pub(super) fn request(
        &mut self,
        name: &str,
        question: &Question,
        phase: &str,
        now: Timestamp,
    ) -> Value {
        let (pod, uid) = question.pod.clone().unwrap_or_default();
        let namespace = &question.subject.0;
        let subject = if self.is_odd(2) {
            json!({"kind": "ServiceAccount", "name": question.subject.1})
        } else {
            json!({"kind": "ServiceAccount", "name": question.subject.1, "namespace": namespace})
        };
        let home = if self.is_odd(15) { "dev-1" } else { namespace };
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "namespace": home, "name": pod, "uid": uid});
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
            "metadata": self.metadata(&question.connector.0, name, &json!({})),
            "spec": {
                "subject": subject, "connectorRef": {"name": question.connector.1},
                "context": {"objectRef": object}, "permission": question.permission,
            },
            "status": self.status(phase, now),
        })
    }

    pub(super) fn status(&mut self, phase: &str, now: Timestamp) -> Value {
        let mut status = json!({"phase": phase});
        let state = if self.is_odd(4) {
            self.one(&["Granting", "Ended"])
        } else {
            "Granted"
        };
        let mut grant = json!({"state": state});
        if self.once_in(4) {
            grant["expiresAt"] = self.soon(now);
        }
        if self.once_in(4) {
            status["expiresAt"] = self.soon(now);
        }
        let entry = json!({"policy": {"metadata": {"uid": POLICIES[0]}}, "grant": grant});
        let other = json!({"policy": {"metadata": {"uid": POLICIES[1]}}});
        status["policies"] = match self.side(10) {
            0 => json!([entry, entry]),
            1 => json!([other, entry]),
            2 => json!([]),
            _ => json!([entry]),
        };
        status
    }

    fn soon(&mut self, now: Timestamp) -> Value {
        let end = now.as_second() + self.dice.random_range(1..100);
        Timestamp::from_second(end).unwrap().to_string().into()
    }

    pub(super) fn policy(&mut self, name: &str, question: &Question) -> Value {
        let (namespace, account) = &question.subject;
        let requesters =
            json!([{"kind": "ServiceAccount", "namespace": namespace, "name": account}]);
        let mut granted = json!({
            "spec": {
                "checks": [{
                    "name": "gate",
                    "selector": {"labels": {"run": "{.object.metadata.labels.run}"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
                }],
                "permissions": {"roleTemplate": {"rules": []}},
            },
        });
        if !self.is_odd(4) {
            granted["requesters"] = requesters;
        }
        let mut spec =
            json!({"checkGrantedPermission": granted, "permission": question.permission});
        if self.is_odd(2) {
            spec["connector"] = json!({"names": [self.one(&CONNECTORS)]});
        }
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": self.metadata(&question.connector.0, name, &json!({})), "spec": spec,
        })
    }

    pub(super) fn config(&mut self) -> Value {
        let word = self.one(&["true", "false", "on", ""]);
        json!({
            "metadata": {"name": "connectors-config", "namespace": "connectors-system"},
            "data": {"enable-connectors-approval": word},
        })
    }
}

/// The resource of the permission of a pod.
fn form(question: &Question) -> String {
    let Question {
        subject,
        permission,
        pod,
        ..
    } = question;
    let pod = pod.as_ref().map_or("deploy", |pod| &pod.0);
    format!("connectors/{permission}/v1/pod/{}/{pod}", subject.0)
}
