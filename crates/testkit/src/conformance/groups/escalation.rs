//! Escalation checks: users cannot grant rights that they do not hold. Covers roles, changes of roles,
//! bindings, and the verbs that lift the check.

use serde_json::{Value, json};

use super::super::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
use super::super::step::{Ask, Group, Script, Who};
use super::access::{RBAC, binding, until, user};

const OURS: &str = "connectors.alauda.io";

pub(super) fn add(script: &mut Script) {
    let group = &mut Group::new(script, "escalation");
    let carol = &Who::user("$run-carol");
    held(group, carol);
    roles(group, carol);
    changes(group, carol);
    bindings(group, carol);
    lifted(group, carol);
    for (of, name) in [
        (&CLUSTER_ROLE_BINDING, "$run-rbac"),
        (&CLUSTER_ROLE_BINDING, "$run-c"),
        (&CLUSTER_ROLE, "$run-rbac"),
        (&CLUSTER_ROLE, "$run-c"),
        (&CLUSTER_ROLE, "$run-d"),
    ] {
        group.delete(of, name);
    }
}

/// A role with one rule; without names it covers all of them.
fn role(api_group: &str, resource: &str, names: &[&str], verbs: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": [api_group], "resources": [resource], "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    json!({"rules": [rule]})
}

/// The objects that carol may write, and the rights that she holds.
fn held(group: &mut Group<'_>, carol: &Who) {
    let all = ["create", "update", "patch", "get", "delete"];
    let kinds = [
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
    ];
    let rules = json!({"rules": [
        {"apiGroups": [RBAC], "resources": kinds, "verbs": all},
        {"apiGroups": [OURS], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["x"], "resources": ["ones"], "verbs": ["get", "list"]},
        {"apiGroups": ["x"], "resources": ["named"], "resourceNames": ["n", "m"], "verbs": ["get"]},
        {"apiGroups": ["x"], "resources": ["twos/status", "*/scale"], "verbs": ["get"]},
    ]});
    group.create(&CLUSTER_ROLE, "$run-rbac", &rules);
    let to_carol = binding(&CLUSTER_ROLE, "$run-rbac", &user("$run-carol"));
    group.create(&CLUSTER_ROLE_BINDING, "$run-rbac", &to_carol);
    let first = ROLE.body("a", &role("x", "ones", &[], &["get"]));
    let ask = Ask::new("POST", ROLE.collection("$run-escalation")).body(first);
    until(group, carol, ask, 201);
}

fn roles(group: &mut Group<'_>, carol: &Who) {
    let pod_form = "connectors/apis/v1/pod/ns/p";
    for (name, content) in [
        ("b", role("x", "ones", &[], &["get", "list"])),
        ("c", role("x", "ones", &[], &["watch"])),
        ("d", role("x", "ones", &[], &["*"])),
        ("e", role("x", "ones", &["n"], &["get"])),
        ("f", role("x", "named", &["n"], &["get"])),
        ("g", role("x", "named", &["n", "m"], &["get"])),
        ("h", role("x", "named", &["n", "o"], &["get"])),
        ("i", role("x", "named", &[], &["get"])),
        ("j", role("x", "twos", &[], &["get"])),
        ("k", role("x", "twos/status", &[], &["get"])),
        ("l", role("x", "twos/scale", &[], &["get"])),
        ("m", role("x", "*", &[], &["get"])),
        ("n", role("y", "ones", &[], &["get"])),
        ("o", role("*", "ones", &[], &["get"])),
        ("p", role(OURS, "connectors/apis", &["c"], &["*"])),
        ("q", role(OURS, pod_form, &["c"], &["get", "create"])),
        ("r", role(OURS, "*", &[], &["*"])),
        ("s", json!({"rules": []})),
        (
            "t",
            json!({"rules": [
                {"apiGroups": ["x"], "resources": ["ones"], "verbs": ["get"]},
                {"apiGroups": ["x"], "resources": ["secrets"], "verbs": ["get"]},
            ]}),
        ),
    ] {
        group.create(&ROLE, name, &content).by(carol);
    }
}

fn changes(group: &mut Group<'_>, carol: &Who) {
    let others = role("x", "others", &[], &["get"]);
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    group.put(&ROLE, "a", &others).by(carol);
    group.put(&ROLE, "new", &others).by(carol);
    group.merge(&ROLE, "a", others.clone()).by(carol);
    group.merge(&ROLE, "a", label.clone()).by(carol);
    group.apply(&ROLE, "z", "m", &others).by(carol);
    group.create(&ROLE, "strong", &others);
    group.merge(&ROLE, "strong", label).by(carol);
    group.create(&CLUSTER_ROLE, "$run-c", &others).by(carol);
    let held = role("x", "ones", &[], &["get"]);
    group.create(&CLUSTER_ROLE, "$run-d", &held).by(carol);
    let paths = json!({"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]});
    group.create(&CLUSTER_ROLE, "$run-e", &paths).by(carol);
}

fn bindings(group: &mut Group<'_>, carol: &Who) {
    let dave = user("$run-dave");
    // The check reads the role from a cache that may not have it yet.
    for (of, name, role, roles, code) in [
        (&ROLE_BINDING, "weak", "a", &ROLE, 201),
        (&ROLE_BINDING, "strong", "strong", &ROLE, 403),
        (&ROLE_BINDING, "nosuch", "nosuch", &ROLE, 404),
        (&ROLE_BINDING, "cluster", "$run-d", &CLUSTER_ROLE, 201),
        (
            &CLUSTER_ROLE_BINDING,
            "$run-c",
            "$run-d",
            &CLUSTER_ROLE,
            201,
        ),
        (
            &CLUSTER_ROLE_BINDING,
            "$run-d",
            "cluster-admin",
            &CLUSTER_ROLE,
            403,
        ),
    ] {
        let body = of.body(name, &binding(roles, role, &dave));
        let ask = Ask::new("POST", of.collection("$run-escalation")).body(body);
        until(group, carol, ask, code);
    }
    let of = &ROLE_BINDING;
    group.create(of, "by-admin", &binding(&ROLE, "strong", &dave));
    let to_herself = json!({"subjects": [user("$run-carol")]});
    group.merge(of, "by-admin", to_herself).by(carol);
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    group.merge(of, "by-admin", label).by(carol);
    group.delete(of, "by-admin").by(carol);
}

/// The verbs that lift the check, for names.
fn lifted(group: &mut Group<'_>, carol: &Who) {
    let lift = role(RBAC, "roles", &["lifted", "strong"], &["escalate", "bind"]);
    group.create(&ROLE, "lift", &lift);
    let to_carol = binding(&ROLE, "lift", &user("$run-carol"));
    group.create(&ROLE_BINDING, "lift", &to_carol);
    let bound = ROLE_BINDING.body("bound", &binding(&ROLE, "strong", &user("$run-dave")));
    let ask = Ask::new("POST", ROLE_BINDING.collection("$run-escalation")).body(bound);
    until(group, carol, ask, 201);
    let more = role("x", "more", &[], &["get"]);
    group.put(&ROLE, "strong", &more).by(carol);
    let others = role("x", "others", &[], &["get"]);
    group.create(&ROLE, "lifted", &others).by(carol);
}
