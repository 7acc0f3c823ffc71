//! Finalizers, propagation policies, owners and the garbage collector, deletion of namespaces.

use serde_json::{Value, json};

use super::super::kinds::{CONFIG_MAP, NAMESPACE, ROLE, Resource, WIDGET};
use super::super::step::{Ask, Group, Script};
use super::writes::content;

const NO_SUCH_UID: &str = "00000000-0000-4000-8000-000000000001";

pub(super) fn add(script: &mut Script) {
    finalizers(script);
    propagation(script);
    owners(script);
    collections(script);
    namespaces(script);
}

fn finalizers(script: &mut Script) {
    let group = &mut Group::new(script, "finalizers");
    for of in [&CONFIG_MAP, &WIDGET, &ROLE] {
        let version = format!("<{}/a.version>", of.plural);
        let mut held = content(of, 1);
        json_patch::merge(
            &mut held,
            &json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}),
        );
        group.create(of, "a", &held).keep("start");
        group.delete(of, "a");
        group.get(of, "a");
        group.delete(of, "a");
        group.create(of, "a", &held);
        group.merge(of, "a", json!({"metadata": {"labels": {"l": "1"}}}));
        group.merge(
            of,
            "a",
            json!({"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}),
        );
        group.merge(
            of,
            "a",
            json!({"metadata": {"finalizers": ["example.com/b"]}}),
        );
        group.merge(of, "a", content(of, 2));
        group.merge(of, "a", json!({"metadata": {"deletionTimestamp": null}}));
        group.delete_with(of, "a", json!({"preconditions": {"uid": NO_SUCH_UID}}));
        let mut last = content(of, 2);
        json_patch::merge(
            &mut last,
            &json!({"metadata": {"resourceVersion": version}}),
        );
        group.put(of, "a", &last);
        group.get(of, "a");
        group
            .open("watch", of)
            .query("resourceVersion", "<start.version>");
        group.read("watch", 5);
        group.close("watch");
    }
    group.create(
        &WIDGET,
        "s",
        &json!({"metadata": {"finalizers": ["example.com/a"]}}),
    );
    group.delete(&WIDGET, "s");
    let version =
        json!({"metadata": {"resourceVersion": "<widgets/s.version>"}, "status": {"n": 1}});
    group.put_status(&WIDGET, "s", &version);
    group.json_patch(
        &WIDGET,
        "s",
        json!([{"op": "remove", "path": "/metadata/finalizers"}]),
    );
    group.gone(&WIDGET, "s");
}

fn owned_by(owner: &Resource, name: &str, more: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": owner.api_version(), "kind": owner.kind, "name": name,
        "uid": format!("<{}/{name}.uid>", owner.plural),
    });
    json_patch::merge(&mut reference, more);
    json!({"metadata": {"ownerReferences": [reference]}})
}

fn propagation(script: &mut Script) {
    let group = &mut Group::new(script, "propagation");
    for (owner, child) in [
        ("bg", "bg-child"),
        ("fg", "fg-child"),
        ("or", "or-child"),
        ("none", "none-child"),
    ] {
        group.create(&CONFIG_MAP, owner, &json!({}));
        group.create(&ROLE, child, &owned_by(&CONFIG_MAP, owner, &json!({})));
    }
    group.delete_with(
        &CONFIG_MAP,
        "bg",
        json!({"propagationPolicy": "Background"}),
    );
    group.get(&CONFIG_MAP, "bg");
    group.gone(&ROLE, "bg-child");
    group.delete_with(&CONFIG_MAP, "none", json!({}));
    group.gone(&ROLE, "none-child");
    group.delete_with(
        &CONFIG_MAP,
        "fg",
        json!({"propagationPolicy": "Foreground"}),
    );
    group.gone(&ROLE, "fg-child");
    group.gone(&CONFIG_MAP, "fg");
    group.delete_with(&CONFIG_MAP, "or", json!({"propagationPolicy": "Orphan"}));
    group.gone(&CONFIG_MAP, "or");
    group.get(&ROLE, "or-child");
    // A child that blocks its owner's deletion and is kept by its own finalizer.
    group.create(&CONFIG_MAP, "held", &json!({}));
    let mut blocking = owned_by(
        &CONFIG_MAP,
        "held",
        &json!({"blockOwnerDeletion": true, "controller": true}),
    );
    json_patch::merge(
        &mut blocking,
        &json!({"metadata": {"finalizers": ["example.com/a"]}}),
    );
    group.create(&ROLE, "holder", &blocking);
    group
        .delete(&CONFIG_MAP, "held")
        .query("propagationPolicy", "Foreground");
    group.get(&CONFIG_MAP, "held");
    group.marked(&ROLE, "holder");
    group.merge(&ROLE, "holder", json!({"metadata": {"finalizers": null}}));
    group.gone(&ROLE, "holder");
    group.gone(&CONFIG_MAP, "held");
    group.create(&CONFIG_MAP, "a", &json!({}));
    group.delete_with(&CONFIG_MAP, "a", json!({"propagationPolicy": "Sideways"}));
    group.delete_with(
        &CONFIG_MAP,
        "a",
        json!({"propagationPolicy": "Background", "orphanDependents": true}),
    );
    group.delete_with(&CONFIG_MAP, "a", json!({"orphanDependents": false}));
}

fn owners(script: &mut Script) {
    let group = &mut Group::new(script, "owners-gone");
    group.create(&CONFIG_MAP, "a", &json!({}));
    group.create(&CONFIG_MAP, "b", &json!({}));
    group.create(
        &ROLE,
        "wrong",
        &json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}),
    );
    group.create(&ROLE, "two-controllers", &json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "<configmaps/a.uid>", "controller": true},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "<configmaps/b.uid>", "controller": true},
    ]}}));
    let bogus = json!({"uid": NO_SUCH_UID});
    group.create(&ROLE, "bogus", &owned_by(&CONFIG_MAP, "a", &bogus));
    group.gone(&ROLE, "bogus");
    let both = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "<configmaps/a.uid>"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "<configmaps/b.uid>"},
    ]}});
    group.create(&ROLE, "both", &both).keep("both");
    group.create(&ROLE, "only-a", &owned_by(&CONFIG_MAP, "a", &json!({})));
    group.delete(&CONFIG_MAP, "a");
    group.gone(&ROLE, "only-a");
    group
        .open("both", &ROLE)
        .query("resourceVersion", "<both.version>")
        .query("fieldSelector", "metadata.name=both");
    group.read("both", 1);
    group.close("both");
    group.create(&CONFIG_MAP, "a", &json!({})); // the same name, but another object
    group.delete(&CONFIG_MAP, "b");
    group.gone(&ROLE, "both");
    // Deleting the head of a chain deletes all of it.
    group.create(&CONFIG_MAP, "head", &json!({}));
    group.create(
        &CONFIG_MAP,
        "middle",
        &owned_by(&CONFIG_MAP, "head", &json!({})),
    );
    group.create(&ROLE, "tail", &owned_by(&CONFIG_MAP, "middle", &json!({})));
    group.delete(&CONFIG_MAP, "head");
    group.gone(&ROLE, "tail");
    group.gone(&CONFIG_MAP, "middle");
    // A child with a finalizer is marked for deletion, and stays until the finalizer is removed.
    group.create(&CONFIG_MAP, "c", &json!({}));
    let mut held = owned_by(&CONFIG_MAP, "c", &json!({}));
    json_patch::merge(
        &mut held,
        &json!({"metadata": {"finalizers": ["example.com/a"]}}),
    );
    group.create(&ROLE, "held", &held).keep("held");
    group.delete(&CONFIG_MAP, "c");
    group
        .open("held", &ROLE)
        .query("resourceVersion", "<held.version>");
    group.read("held", 1);
    group.close("held");
    group.merge(&ROLE, "held", json!({"metadata": {"finalizers": null}}));
    group.gone(&ROLE, "held");
    // Custom resources as owners.
    group.create(&WIDGET, "w", &json!({}));
    group.create(&ROLE, "of-widget", &owned_by(&WIDGET, "w", &json!({})));
    group.delete(&WIDGET, "w");
    group.gone(&ROLE, "of-widget");
}

fn collections(script: &mut Script) {
    let group = &mut Group::new(script, "collections");
    for name in ["a", "b", "c"] {
        group.create(&WIDGET, name, &json!({"metadata": {"labels": {"n": name}}}));
    }
    let all = Ask::new("DELETE", WIDGET.collection(&group.namespace));
    group
        .ask(all.clone())
        .query("fieldSelector", "metadata.name=b");
    group.list(&WIDGET);
    group.ask(all.clone());
    group.list(&WIDGET);
    group.ask(all);
}

fn namespaces(script: &mut Script) {
    let group = &mut Group::new(script, "leaving");
    let home = group.namespace.clone();
    group.create(&NAMESPACE, &home, &json!({}));
    group.create(
        &CONFIG_MAP,
        "a",
        &json!({"metadata": {"finalizers": ["example.com/a"]}}),
    );
    group.create(&WIDGET, "b", &json!({}));
    group.delete(&NAMESPACE, &home);
    group.gone(&WIDGET, "b");
    group.marked(&CONFIG_MAP, "a");
    group.create(&CONFIG_MAP, "late", &json!({}));
    group.create(&WIDGET, "late", &json!({}));
    group.apply(&CONFIG_MAP, "late", "m", &json!({}));
    group.merge(&CONFIG_MAP, "a", json!({"metadata": {"finalizers": null}}));
    group.gone(&CONFIG_MAP, "a");
    group.gone(&NAMESPACE, &home);
    group.create(&CONFIG_MAP, "late", &json!({}));
}
