//! Merge patches, JSON patches, server-side apply with its field owners and conflicts.

use serde_json::json;

use super::super::kinds::{CONFIG_MAP, ROLE, ROLE_BINDING, WIDGET};
use super::super::step::{Ask, Group, Script};

pub(super) fn add(script: &mut Script) {
    merges(script);
    json_patches(script);
    owners(script);
    conflicts(script);
    applied_roles(script);
    applied_widgets(script);
}

fn merges(script: &mut Script) {
    let group = &mut Group::new(script, "merges");
    for of in [&CONFIG_MAP, &WIDGET] {
        let field = if of.plural == "configmaps" {
            "data"
        } else {
            "spec"
        };
        group.create(of, "a", &json!({field: {"a": "1", "b": "2"}}));
        group.merge(of, "a", json!({field: {"a": null, "c": "3"}}));
        group.merge(of, "a", json!({field: {"c": "3"}}));
        group.merge(of, "a", json!({field: null}));
        group.merge(
            of,
            "a",
            json!({"metadata": {"labels": {"l": "1"}, "annotations": {"x/y": "1"}}}),
        );
        group.merge(of, "a", json!({"metadata": {"labels": null}}));
        group.merge(of, "a", json!({"metadata": {"name": "b"}}));
        group.merge(
            of,
            "a",
            json!({"metadata": {"generation": 50, "creationTimestamp": null}}),
        );
        group.merge(of, "a", json!({"kind": "Other"}));
        group.merge(of, "a", json!([1]));
        group.merge(of, "absent", json!({field: {"a": "1"}}));
        let path = group.object(of, "a");
        group.ask(Ask::new("PATCH", path).body(json!({})).typed("text/plain"));
        group.get(of, "a");
    }
}

fn json_patches(script: &mut Script) {
    let group = &mut Group::new(script, "json-patches");
    for of in [&CONFIG_MAP, &WIDGET] {
        let field = if of.plural == "configmaps" {
            "data"
        } else {
            "spec"
        };
        let at = |key: &str| format!("/{field}/{key}");
        group.create(of, "a", &json!({field: {"a": "1", "b": "2"}}));
        group.json_patch(
            of,
            "a",
            json!([{"op": "add", "path": at("c"), "value": "3"}]),
        );
        group.json_patch(
            of,
            "a",
            json!([{"op": "add", "path": at("c"), "value": "3"}]),
        );
        group.json_patch(of, "a", json!([{"op": "remove", "path": at("b")}]));
        group.json_patch(of, "a", json!([{"op": "remove", "path": at("b")}]));
        group.json_patch(
            of,
            "a",
            json!([{"op": "replace", "path": at("x"), "value": "1"}]),
        );
        group.json_patch(of, "a", json!([
            {"op": "test", "path": at("a"), "value": "other"}, {"op": "remove", "path": at("a")},
        ]));
        group.json_patch(of, "a", json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": format!("<{}/a.version>", of.plural)},
            {"op": "replace", "path": at("a"), "value": "4"},
        ]));
        group.json_patch(of, "a", json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": format!("<{}/a.before>", of.plural)},
            {"op": "replace", "path": at("a"), "value": "5"},
        ]));
        group.json_patch(
            of,
            "a",
            json!([{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}]),
        );
        group.json_patch(
            of,
            "a",
            json!([{"op": "move", "from": at("a"), "path": at("moved")}]),
        );
        group.json_patch(
            of,
            "a",
            json!([{"op": "copy", "from": at("moved"), "path": at("copied")}]),
        );
        group.json_patch(of, "a", json!([{"op": "nonsense", "path": at("a")}]));
        group.json_patch(of, "a", json!({"op": "remove"}));
        group.json_patch(of, "a", json!([]));
        group.get(of, "a");
    }
}

fn owners(script: &mut Script) {
    let group = &mut Group::new(script, "owners");
    let of = &CONFIG_MAP;
    group.apply(of, "a", "one", &json!({"data": {"a": "1", "b": "1"}}));
    group.apply(of, "a", "one", &json!({"data": {"a": "1", "b": "1"}}));
    group.apply(of, "a", "one", &json!({"data": {"a": "2", "b": "1"}}));
    group.apply(of, "a", "one", &json!({"data": {"a": "2"}}));
    group.apply(of, "a", "two", &json!({"data": {"c": "1"}}));
    group.apply(of, "a", "two", &json!({"data": {"a": "2", "c": "1"}}));
    // Both own the field now, so that it stays when one of them releases it.
    group.apply(of, "a", "one", &json!({"data": {}}));
    group.apply(of, "a", "two", &json!({"data": {}}));
    group.apply(
        of,
        "a",
        "one",
        &json!({"metadata": {"labels": {"l": "1", "m": "1"}}}),
    );
    group.apply(of, "a", "one", &json!({"metadata": {"labels": {"l": "1"}}}));
    group.apply(
        of,
        "a",
        "two",
        &json!({"metadata": {"annotations": {"l": "1"}}}),
    );
    group.get(of, "a");
    group.apply(
        of,
        "a",
        "one",
        &json!({"metadata": {"resourceVersion": "1"}}),
    );
    group.apply(
        of,
        "a",
        "one",
        &json!({"metadata": {"resourceVersion": "<configmaps/a.version>"}}),
    );
    group.apply(
        of,
        "a",
        "one",
        &json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}),
    );
    group.apply(of, "a", "one", &json!({"metadata": {"name": "b"}}));
    group.apply(of, "a", "one", &json!({"kind": "Secret"}));
    let path = group.object(of, "a");
    let bare = Ask::new("PATCH", path).typed("application/apply-patch+yaml");
    group.ask(bare.body(of.body("a", &json!({"data": {"z": "1"}}))));
    group.apply(
        of,
        "new",
        "one",
        &json!({"metadata": {"resourceVersion": "1"}}),
    );
    group.apply(
        of,
        "new",
        "one",
        &json!({"metadata": {"managedFields": [{"manager": "x"}]}}),
    );
}

fn conflicts(script: &mut Script) {
    let group = &mut Group::new(script, "applied-conflicts");
    let of = &CONFIG_MAP;
    group.apply(
        of,
        "a",
        "one",
        &json!({"data": {"a": "1", "b": "1"}, "metadata": {"labels": {"l": "1"}}}),
    );
    group.apply(of, "a", "two", &json!({"data": {"a": "2"}}));
    group.apply(
        of,
        "a",
        "two",
        &json!({"data": {"a": "2", "b": "2", "c": "2"}}),
    );
    group.apply(of, "a", "two", &json!({"metadata": {"labels": {"l": "2"}}}));
    group.apply(of, "a", "two", &json!({"data": {"a": "1"}}));
    group.apply(of, "a", "two", &json!({"data": {"a": "2"}}));
    group
        .apply(of, "a", "two", &json!({"data": {"a": "2"}}))
        .query("force", "true");
    group.apply(of, "a", "one", &json!({"data": {"a": "1", "b": "1"}}));
    group.apply(of, "a", "one", &json!({"data": {"b": "1"}}));
    group.get(of, "a");
    // Fields written by other means than apply have an owner, too.
    group
        .put(of, "a", &json!({"data": {"a": "9", "b": "9"}}))
        .query("fieldManager", "writer")
        .managers();
    group.apply(of, "a", "one", &json!({"data": {"b": "1"}}));
    group
        .apply(of, "a", "one", &json!({"data": {"b": "1"}}))
        .query("force", "true");
    group
        .create(of, "posted", &json!({"data": {"a": "1"}}))
        .query("fieldManager", "writer");
    group.apply(of, "posted", "one", &json!({"data": {"a": "1"}}));
    group.apply(of, "posted", "one", &json!({"data": {"a": "2"}}));
    group.apply(of, "posted", "one", &json!({"data": {"b": "2"}}));
    group
        .apply(of, "posted", "one", &json!({"data": {"a": "2"}}))
        .query("force", "true");
    group
        .merge(of, "posted", json!({"data": {"a": "3"}}))
        .query("fieldManager", "writer")
        .managers();
    group.apply(of, "posted", "one", &json!({"data": {"a": "2"}}));
    group.delete(of, "posted");
    group.apply(of, "posted", "one", &json!({"data": {"a": "2"}}));
}

fn applied_roles(script: &mut Script) {
    let group = &mut Group::new(script, "applied-roles");
    let rules =
        |resource: &str| json!([{"apiGroups": ["x"], "resources": [resource], "verbs": ["get"]}]);
    group.apply(
        &ROLE,
        "r",
        "one",
        &json!({"rules": rules("a"), "metadata": {"labels": {"l": "1"}}}),
    );
    group.apply(
        &ROLE,
        "r",
        "one",
        &json!({"rules": rules("b"), "metadata": {"labels": {"l": "1"}}}),
    );
    group.apply(&ROLE, "r", "two", &json!({"rules": rules("a")}));
    group.apply(&ROLE, "r", "two", &json!({"rules": rules("b")}));
    group.apply(
        &ROLE,
        "r",
        "one",
        &json!({"metadata": {"labels": {"l": "1"}}}),
    );
    group.apply(&ROLE, "r", "two", &json!({}));
    let reference =
        |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let user =
        |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    group.apply(
        &ROLE_BINDING,
        "b",
        "one",
        &json!({"roleRef": reference("r"), "subjects": [user("u")]}),
    );
    group.apply(
        &ROLE_BINDING,
        "b",
        "one",
        &json!({"roleRef": reference("r"), "subjects": [user("u"), user("v")]}),
    );
    group.apply(
        &ROLE_BINDING,
        "b",
        "one",
        &json!({"roleRef": reference("r"), "subjects": [user("v")]}),
    );
    group.apply(
        &ROLE_BINDING,
        "b",
        "two",
        &json!({"roleRef": reference("r"), "subjects": [user("w")]}),
    );
    group.apply(
        &ROLE_BINDING,
        "b",
        "one",
        &json!({"roleRef": reference("x"), "subjects": [user("v")]}),
    );
    group.apply(
        &ROLE_BINDING,
        "b",
        "one",
        &json!({"roleRef": reference("r")}),
    );
    let owner = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("<configmaps/{name}.uid>"),
        })
    };
    group.create(&CONFIG_MAP, "x", &json!({}));
    group.create(&CONFIG_MAP, "y", &json!({}));
    group.apply(
        &ROLE,
        "owned",
        "one",
        &json!({"metadata": {"ownerReferences": [owner("x")]}, "rules": rules("a")}),
    );
    group.apply(
        &ROLE,
        "owned",
        "two",
        &json!({"metadata": {"ownerReferences": [owner("y")]}}),
    );
    group.apply(&ROLE, "owned", "one", &json!({"rules": rules("a")}));
    group.apply(
        &ROLE,
        "f",
        "one",
        &json!({"metadata": {"finalizers": ["example.com/a"]}, "rules": rules("a")}),
    );
    group.apply(
        &ROLE,
        "f",
        "two",
        &json!({"metadata": {"finalizers": ["example.com/b"]}}),
    );
    group.apply(&ROLE, "f", "one", &json!({"rules": rules("a")}));
    group.apply(&ROLE, "f", "two", &json!({}));
}

fn applied_widgets(script: &mut Script) {
    let group = &mut Group::new(script, "applied-widgets");
    let of = &WIDGET;
    group.apply(
        of,
        "a",
        "one",
        &json!({"spec": {"n": 1, "list": ["a"], "map": {"x": 1}}, "status": {"s": 1}}),
    );
    group.apply(of, "a", "two", &json!({"spec": {"map": {"y": 2}}}));
    group.apply(
        of,
        "a",
        "two",
        &json!({"spec": {"list": ["a", "b"], "map": {"y": 2}}}),
    );
    group.apply(
        of,
        "a",
        "two",
        &json!({"spec": {"list": ["a"], "map": {"y": 3}}}),
    );
    group.apply(of, "a", "one", &json!({"spec": {"n": 1}}));
    group.apply(of, "a", "two", &json!({"spec": {}}));
    let path = format!("{}/status", group.object(of, "a"));
    let status = |manager: &str, status: serde_json::Value| {
        let body = of.body("a", &json!({"status": status}));
        let mut ask = Ask::new("PATCH", path.clone())
            .body(body)
            .typed("application/apply-patch+yaml");
        ask.query
            .push(("fieldManager".to_owned(), manager.to_owned()));
        ask
    };
    group
        .ask(status("controller", json!({"phase": "A", "count": 1})))
        .managers();
    group
        .ask(status("controller", json!({"phase": "B"})))
        .managers();
    group.ask(status("other", json!({"phase": "C"}))).managers();
    group.apply(
        of,
        "a",
        "one",
        &json!({"spec": {"n": 2}, "status": {"phase": "Z"}}),
    );
    group.get(of, "a");
    group
        .put(
            of,
            "a",
            &json!({"metadata": {"resourceVersion": "<widgets/a.version>"}, "spec": {"n": 3}}),
        )
        .query("fieldManager", "writer");
    group.apply(of, "a", "one", &json!({"spec": {"n": 2}}));
}
