//! Authorization: requests that RBAC refuses, allows, and refuses again.

use serde_json::{Value, json};

use super::super::kinds::{ACCESS_REQUEST, CONFIG_MAP, ROLE, ROLE_BINDING, Resource, WIDGET};
use super::super::step::{Action, Ask, Group, Script, Step, Until, Who};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn add(script: &mut Script) {
    let group = &mut Group::new(script, "refusals");
    let alice = &Who::user("$run-alice");
    refused(group, alice);
    named(group, alice);
    by_group(group, alice);
    by_account(group);
    group.delete(&ROLE_BINDING, "reader");
    until(
        group,
        alice,
        Ask::new("GET", CONFIG_MAP.object("$run-refusals", "a")),
        403,
    );
    group.list(&ACCESS_REQUEST).by(alice);
}

/// Rules about a core kind, with names or without.
pub(super) fn rules(resource: &str, names: &[&str], verbs: &[&str]) -> Value {
    let mut rule =
        json!({"apiGroups": ["", "example.com"], "resources": [resource], "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    json!([rule])
}

pub(super) fn user(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "User", "name": name})
}

pub(super) fn binding(of: &Resource, role: &str, subject: &Value) -> Value {
    json!({"roleRef": {"apiGroup": RBAC, "kind": of.kind, "name": role}, "subjects": [subject]})
}

/// Repeats the request until the answer has the code, because the authorizer learns of roles and bindings
/// asynchronously.
pub(super) fn until<'g>(group: &'g mut Group<'_>, who: &Who, ask: Ask, code: u16) -> &'g mut Step {
    group.step(Action::AskUntil(ask, Until::Code(code))).by(who)
}

fn refused(group: &mut Group<'_>, alice: &Who) {
    group.create(&CONFIG_MAP, "a", &json!({"data": {"n": "1"}}));
    group.create(&CONFIG_MAP, "b", &json!({}));
    group.get(&CONFIG_MAP, "a").by(alice);
    group.get(&CONFIG_MAP, "nosuch").by(alice);
    group.list(&CONFIG_MAP).by(alice);
    group.open("w", &CONFIG_MAP).by(alice);
    group.create(&CONFIG_MAP, "c", &json!({})).by(alice);
    group.put(&CONFIG_MAP, "a", &json!({})).by(alice);
    group.merge(&CONFIG_MAP, "a", json!({})).by(alice);
    group.delete(&CONFIG_MAP, "a").by(alice);
    group
        .ask(Ask::new("GET", CONFIG_MAP.everywhere()))
        .by(alice);
    group
        .ask(Ask::new("DELETE", CONFIG_MAP.collection("$run-refusals")))
        .by(alice);
}

/// A permission for one name covers lists and watches of that name only.
fn named(group: &mut Group<'_>, alice: &Who) {
    group.create(
        &ROLE,
        "reader",
        &json!({"rules": rules("configmaps", &["a"], &["get", "watch", "list"])}),
    );
    group.create(
        &ROLE_BINDING,
        "reader",
        &binding(&ROLE, "reader", &user("$run-alice")),
    );
    until(
        group,
        alice,
        Ask::new("GET", CONFIG_MAP.object("$run-refusals", "a")),
        200,
    );
    group.get(&CONFIG_MAP, "b").by(alice);
    group.list(&CONFIG_MAP).by(alice);
    group
        .list(&CONFIG_MAP)
        .query("fieldSelector", "metadata.name=a")
        .by(alice);
    group
        .list(&CONFIG_MAP)
        .query("fieldSelector", "metadata.name=b")
        .by(alice);
    group
        .list(&CONFIG_MAP)
        .query("fieldSelector", "metadata.name!=a")
        .by(alice);
    group.merge(&CONFIG_MAP, "a", json!({})).by(alice);
}

fn by_group(group: &mut Group<'_>, alice: &Who) {
    let bob = &Who::User {
        name: "$run-bob".to_owned(),
        groups: vec!["$run-team".to_owned()],
    };
    group.get(&CONFIG_MAP, "a").by(bob);
    let team = json!({"apiGroup": RBAC, "kind": "Group", "name": "$run-team"});
    group.create(
        &ROLE,
        "writer",
        &json!({"rules": rules("configmaps", &[], &["create", "patch", "update"])}),
    );
    group.create(&ROLE_BINDING, "writer", &binding(&ROLE, "writer", &team));
    let create = Ask::new("POST", CONFIG_MAP.collection("$run-refusals"))
        .body(CONFIG_MAP.body("team", &json!({})));
    until(group, bob, create, 201);
    group.get(&CONFIG_MAP, "team").by(bob);
    group
        .put(&CONFIG_MAP, "team", &json!({"data": {"n": "2"}}))
        .by(bob);
    group.apply(&CONFIG_MAP, "team", "m", &json!({})).by(bob);
    group.apply(&CONFIG_MAP, "applied", "m", &json!({})).by(bob);
    group
        .apply(&CONFIG_MAP, "applied", "m", &json!({}))
        .by(alice);
}

/// A permission for the status only.
fn by_account(group: &mut Group<'_>) {
    let account = &Who::user("system:serviceaccount:$run-refusals:worker");
    group.create(&ROLE, "widgets", &json!({"rules": [
        {"apiGroups": ["conformance.example.com"], "resources": ["widgets/status"], "verbs": ["update"]},
    ]}));
    let worker = json!({"kind": "ServiceAccount", "name": "worker", "namespace": "$run-refusals"});
    group.create(&WIDGET, "w", &json!({"spec": {"n": 1}}));
    group.create(
        &ROLE_BINDING,
        "widgets",
        &binding(&ROLE, "widgets", &worker),
    );
    let status = WIDGET.body(
        "w",
        &json!({
            "metadata": {"resourceVersion": "<widgets/w.version>"}, "status": {"by": "worker"},
        }),
    );
    let path = format!("{}/status", WIDGET.object("$run-refusals", "w"));
    until(group, account, Ask::new("PUT", path).body(status), 200);
    group
        .put(
            &WIDGET,
            "w",
            &json!({"metadata": {"resourceVersion": "<widgets/w.version>"}}),
        )
        .by(account);
    group.get(&WIDGET, "w").by(account);
}
