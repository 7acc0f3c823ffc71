//! A scene as the log tells it when everything is right; each test makes one thing wrong, or different and
//! still right.

mod fresh;
mod last;
mod log;
mod revoked;
mod shape;
mod tenants;

use std::str::FromStr as _;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{AuditEvent, Observer, Report, Rule, Settings, wire};

/// Milliseconds since the scene began.
fn at(ms: i64) -> Timestamp {
    let start = Timestamp::from_str("2026-11-21T12:00:00Z").unwrap();
    start + SignedDuration::from_millis(ms)
}

/// A scene: its events by audit ID, and the declarations of the test.
struct World {
    events: Vec<Value>,
    settings: Settings,
    end: i64,
}

const NS: &str = "team";
const GRANT: &str = "car-req-uid-0badcafe";
const ROLE: &str = "create-role";
const BINDING: &str = "create-binding";
const EVIDENCE: &str = "status-evidence";

fn user(name: &str) -> Value {
    match name {
        "controller" => {
            json!({"username": wire::REQUEST_CONTROLLER, "extra": {"authentication.kubernetes.io/pod-uid": ["a"]}})
        }
        "second" => {
            json!({"username": wire::REQUEST_CONTROLLER, "extra": {"authentication.kubernetes.io/pod-uid": ["b"]}})
        }
        name => json!({"username": name}),
    }
}

/// A call by `who` on `group/resource[/subresource]`, begun at a time and answered 2 ms later.
fn call(id: &str, ms: i64, who: &str, verb: &str, resource: &str, name: &str) -> Value {
    let (group, rest) = resource.split_once(':').unwrap();
    let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
    let code = if verb == "create" { 201 } else { 200 };
    json!({
        "auditID": id, "stage": "ResponseComplete", "verb": verb, "user": user(who),
        "requestURI": format!("/x/{resource}/{name}"),
        "objectRef": {"apiGroup": group, "resource": resource, "subresource": subresource, "namespace": NS, "name": name},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at(ms).to_string(), "stageTimestamp": at(ms + 2).to_string(),
    })
}

fn with(mut call: Value, body: Value) -> Value {
    call["responseObject"] = body;
    call
}

fn request(uid: &str, name: &str, pod_namespace: &str) -> Value {
    json!({
        "kind": "AccessRequest",
        "metadata": {"name": name, "namespace": NS, "uid": uid},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"}, "connectorRef": {"name": "prod"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": pod_namespace, "name": "job", "uid": "pod-uid"}},
        },
    })
}

fn policy() -> Value {
    json!({
        "kind": "AccessPolicy",
        "metadata": {"name": "release", "namespace": NS, "uid": "pol-uid"},
        "spec": {"checkGrantedPermission": {"spec": {"checks": [
            {"name": "sign", "selector": {"objectRef": {"apiVersion": "e2e.example.com/v1", "kind": "SignOff"}}},
            {"name": "config", "selector": {"objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}},
        ]}}},
    })
}

fn rules() -> Value {
    json!([{"resources": ["connectors/apis/v1/pod/team/job"], "verbs": ["*"]}])
}

fn status(phase: &str, state: &str) -> Value {
    let reference = |name: &str, kind: &str| {
        json!({
            "name": name, "ref": {"apiVersion": "x", "kind": kind, "name": format!("{name}-1")}, "status": {"state": "approved"},
        })
    };
    json!({
        "phase": phase, "evidence": if state.is_empty() { "" } else { "sha256:1" },
        "policies": [{
            "policy": policy(), "checkRefs": [reference("sign", "SignOff"), reference("config", "ConfigMap")],
            "grant": {"state": state, "rules": rules()},
        }],
    })
}

fn metadata() -> Value {
    json!({
        "name": GRANT, "namespace": NS,
        "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequestUid": "req-uid",
            "connectors.alauda.io/accessPolicyUid": "pol-uid",
        },
        "ownerReferences": [{"kind": "AccessRequest", "name": "req", "uid": "req-uid", "controller": true}],
    })
}

fn role() -> Value {
    json!({
        "kind": "Role", "metadata": metadata(),
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis/v1/pod/team/job"],
            "resourceNames": ["prod"], "verbs": ["*"],
        }],
    })
}

fn binding() -> Value {
    json!({
        "kind": "RoleBinding", "metadata": metadata(),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": GRANT},
        "subjects": [{"kind": "ServiceAccount", "namespace": NS, "name": "builder"}],
    })
}

const REQUESTS: &str = "connectors.alauda.io:accessrequests";
const POLICIES: &str = "connectors.alauda.io:accesspolicies";
const CONNECTORS: &str = "connectors.alauda.io:connectors";
const ROLES: &str = "rbac.authorization.k8s.io:roles";
const BINDINGS: &str = "rbac.authorization.k8s.io:rolebindings";
const PODS: &str = ":pods";
const SIGN_OFFS: &str = "e2e.example.com:signoffs";
const STATUS: &str = "connectors.alauda.io:accessrequests/status";

fn status_write(id: &str, ms: i64, phase: &str, state: &str) -> Value {
    let mut body = request("req-uid", "req", NS);
    body["status"] = status(phase, state);
    with(call(id, ms, "controller", "update", STATUS, "req"), body)
}

/// Asked at 1 s, granted at 10 s, the pod gone at 20 s, everything gone half a second later.
fn world() -> World {
    let controller = "controller";
    let events = vec![
        with(
            call("create-policy", 0, "admin", "create", POLICIES, "release"),
            policy(),
        ),
        call("create-connector", 0, "admin", "create", CONNECTORS, "prod"),
        call("create-pod", 500, "admin", "create", PODS, "job"),
        with(
            call("create-request", 1_000, "csi", "create", REQUESTS, "req"),
            request("req-uid", "req", NS),
        ),
        status_write("status-pending", 1_500, "Pending", ""),
        call("create-sign", 5_000, "admin", "create", SIGN_OFFS, "sign-1"),
        call("read-pod", 9_000, controller, "get", PODS, "job"),
        call(
            "read-connector",
            9_000,
            controller,
            "get",
            CONNECTORS,
            "prod",
        ),
        call("read-policies", 9_000, controller, "list", POLICIES, ""),
        call("read-signs", 9_000, controller, "list", SIGN_OFFS, ""),
        call("read-configs", 9_000, controller, "list", ":configmaps", ""),
        status_write(EVIDENCE, 10_000, "Pending", "Granting"),
        with(call(ROLE, 10_010, controller, "create", ROLES, ""), role()),
        with(
            call(BINDING, 10_020, controller, "create", BINDINGS, ""),
            binding(),
        ),
        status_write("status-granted", 10_030, "Granted", "Granted"),
        call("delete-pod", 19_000, "admin", "delete", PODS, "job"),
        call("end-pod", 20_000, "system:node:one", "delete", PODS, "job"),
        status_write("status-ended", 20_300, "Granted", "Ended"),
        with(
            call(
                "delete-binding",
                20_498,
                controller,
                "delete",
                BINDINGS,
                GRANT,
            ),
            json!({"kind": "Status"}),
        ),
        with(
            call("delete-role", 20_510, controller, "delete", ROLES, GRANT),
            json!({"kind": "Status"}),
        ),
        status_write("status-revoked", 20_600, "Revoked", "Ended"),
    ];
    World {
        events,
        settings: Settings::default(),
        end: 60_000,
    }
}

impl World {
    fn get(&mut self, id: &str) -> &mut Value {
        self.events
            .iter_mut()
            .find(|event| event["auditID"] == id)
            .unwrap()
    }

    /// Both halves of the grant, as they were stored.
    fn grants(&mut self) -> impl Iterator<Item = &mut Value> {
        let grants = self
            .events
            .iter_mut()
            .filter(|event| event["auditID"] == ROLE || event["auditID"] == BINDING);
        grants.map(|event| &mut event["responseObject"])
    }

    fn without(mut self, ids: &[&str]) -> Self {
        for id in ids {
            self.get(id);
        }
        self.events
            .retain(|event| !ids.iter().any(|id| event["auditID"] == *id));
        self
    }

    fn plus(mut self, event: Value) -> Self {
        self.events.push(event);
        self
    }

    fn edit(mut self, id: &str, change: impl FnOnce(&mut Value)) -> Self {
        change(self.get(id));
        self
    }

    fn moved(self, id: &str, ms: i64) -> Self {
        self.edit(id, |event| {
            event["requestReceivedTimestamp"] = at(ms).to_string().into();
            event["stageTimestamp"] = at(ms + 2).to_string().into();
        })
    }

    /// The pod is of another namespace.
    fn across(mut self, requesters: Option<Value>) -> Self {
        for event in &mut self.events {
            let text = event.to_string().replace("pod/team/job", "pod/other/job");
            *event = serde_json::from_str(&text).unwrap();
            let body = &mut event["responseObject"];
            if body["kind"] == "AccessRequest" {
                body["spec"]["context"]["objectRef"]["namespace"] = "other".into();
            }
            if body["kind"] == "RoleBinding" {
                body["subjects"][0]["namespace"] = "other".into();
            }
            let of_pod = ["pods", "signoffs", "configmaps"];
            if of_pod
                .iter()
                .any(|resource| event["objectRef"]["resource"] == *resource)
            {
                event["objectRef"]["namespace"] = "other".into();
            }
        }
        if let Some(requesters) = requesters {
            self.get("create-policy")["responseObject"]["spec"]["checkGrantedPermission"]["requesters"] =
                requesters;
        }
        self
    }

    fn observe(self, declare: impl FnOnce(&mut Observer)) -> Report {
        let mut observer = Observer::new(self.settings);
        for event in self.events {
            observer.event(serde_json::from_value::<AuditEvent>(event).unwrap());
        }
        declare(&mut observer);
        observer.finish(at(self.end))
    }

    fn report(self) -> Report {
        self.observe(|_| {})
    }

    /// Fails unless exactly this rule was broken, and something said so in these words.
    fn breaks(self, rule: Rule, words: &str) {
        expect(&self.report(), rule, words);
    }

    fn keeps(self) -> Report {
        let report = self.report();
        report.assert_kept();
        report
    }
}

fn expect(report: &Report, rule: Rule, words: &str) {
    assert!(
        !report.violations.is_empty(),
        "nothing was found of: {words}"
    );
    assert!(
        report
            .violations
            .iter()
            .all(|violation| violation.rule == rule),
        "not only {rule}: {report}"
    );
    assert!(
        report
            .violations
            .iter()
            .any(|violation| violation.what.contains(words)),
        "`{words}` is not in {report}"
    );
}

#[test]
fn a_scene_in_which_everything_is_right_keeps_every_promise() {
    let report = world().keeps();
    let seen = report.seen;
    assert_eq!(
        (seen.requests, seen.policies, seen.reads, seen.grants),
        (1, 1, 5, 2)
    );
    assert_eq!(
        (seen.ended_grants, seen.open_grants, seen.final_requests),
        (2, 0, 1)
    );
    // From the pod's end on, since that was the first reason to end; the status came later.
    assert_eq!(report.p99(), Some(SignedDuration::from_millis(498)));
}

#[test]
fn the_order_of_the_log_does_not_matter() {
    let mut scene = world();
    scene.events.reverse();
    let report = scene.keeps();
    assert_eq!(report.seen, world().report().seen);
}

#[test]
fn what_was_not_seen_is_visible() {
    let nothing = Observer::new(Settings::default()).finish(at(0));
    assert_eq!(
        (nothing.seen.grants, nothing.p99(), nothing.violations.len()),
        (0, None, 0)
    );
}

#[test]
#[should_panic(expected = "no grant to judge")]
fn a_scene_without_a_grant_proves_nothing() {
    Observer::new(Settings::default())
        .finish(at(0))
        .assert_kept();
}

#[test]
fn grants_of_other_namespaces_are_not_judged_when_one_is_asked_for() {
    let broken = || world().without(&["read-pod"]);
    let mut scene = broken();
    scene.settings = Settings::in_namespace("elsewhere");
    let report = scene.report();
    assert_eq!((report.seen.grants, report.violations.len()), (0, 0));
    let mut scene = broken();
    scene.settings = Settings::in_namespace(NS);
    scene.breaks(Rule::Fresh, "pod team/job was not read");
}
