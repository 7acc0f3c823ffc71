//! Watches: their start, their events with a selector, their end.

use serde_json::json;

use super::super::kinds::{CONFIG_MAP, GIZMO, LEASE, NAMESPACE, Resource, WIDGET};
use super::super::step::{Action, Ask, Group, Script};
use super::writes::content;

pub(super) fn add(script: &mut Script) {
    from_a_version(script);
    from_the_state(script);
    streamed_lists(script);
    selections(script);
    refused(script);
    kinds_that_go(script);
}

fn from_a_version(script: &mut Script) {
    let group = &mut Group::new(script, "watch-versions");
    for of in [&WIDGET, &CONFIG_MAP] {
        group.create(of, "a", &content(of, 1)).keep("start");
        group.create(of, "b", &content(of, 1));
        group.merge(of, "a", content(of, 2)).keep("middle");
        group.merge(of, "a", content(of, 2)); // changes nothing, so no event
        group.delete(of, "a");
        group.create(of, "a", &content(of, 3)).keep("end");
        group
            .open("past", of)
            .query("resourceVersion", "<start.version>");
        group.read("past", 4);
        group
            .open("later", of)
            .query("resourceVersion", "<middle.version>");
        group.read("later", 2);
        group
            .open("end", of)
            .query("resourceVersion", "<end.version>");
        group.read("end", 0);
        group.merge(of, "b", content(of, 5));
        group.delete_with(of, "b", json!({"preconditions": {"uid": "none"}}));
        for stream in ["past", "later", "end"] {
            group.read(stream, 1);
        }
        group.merge(
            of,
            "a",
            json!({"metadata": {"finalizers": ["example.com/f"]}}),
        );
        group.delete(of, "a");
        group.merge(of, "a", json!({"metadata": {"finalizers": null}}));
        group.read("end", 3);
        for stream in ["past", "later", "end"] {
            group.close(stream);
        }
    }
    let all = Ask::new("GET", WIDGET.everywhere());
    group
        .step(Action::Open("all", all))
        .query("watch", "true")
        .query("resourceVersion", "<end.version>")
        .query("fieldSelector", "metadata.namespace=$run-watch-versions");
    group.create(&WIDGET, "z", &json!({})).keep("last");
    let status = json!({"metadata": {"resourceVersion": "<last.version>"}, "status": {"n": 1}});
    group.put_status(&WIDGET, "z", &status);
    group.read("all", 2);
    group.close("all");
}

fn from_the_state(script: &mut Script) {
    let group = &mut Group::new(script, "watch-states");
    for of in [&WIDGET, &LEASE] {
        group.create(of, "a", &content(of, 1));
        group.create(of, "b", &content(of, 1)).keep("newest");
        // After an answer not older than the newest version, the cache has that version.
        group
            .list(of)
            .query("resourceVersion", "<newest.version>")
            .query("resourceVersionMatch", "NotOlderThan");
        group.open("any", of).query("resourceVersion", "0");
        group.read("any", 2).in_any_order();
        group.open("newest", of);
        group.read("newest", 2).in_any_order();
        group
            .open("one", of)
            .query("resourceVersion", "0")
            .query("fieldSelector", "metadata.name=b");
        group.read("one", 1);
        group.merge(of, "a", content(of, 2));
        group.merge(of, "b", content(of, 2));
        for stream in ["any", "newest"] {
            group.read(stream, 2);
        }
        group.read("one", 1);
        for stream in ["any", "newest", "one"] {
            group.close(stream);
        }
        group
            .open("short", of)
            .query("resourceVersion", "<newest.version>")
            .query("timeoutSeconds", "1");
        group.read_to_end("short");
        group
            .open("short", of)
            .query("resourceVersion", "<newest.version>")
            .query("timeoutSeconds", "1")
            .query("allowWatchBookmarks", "true")
            .query("fieldSelector", "metadata.name=b");
        group.read_to_end("short");
    }
}

fn streamed_lists(script: &mut Script) {
    let group = &mut Group::new(script, "streamed-lists");
    for of in [&WIDGET, &LEASE] {
        group.create(of, "a", &content(of, 1)).keep("old");
        group
            .create(of, "b", &json!({"metadata": {"labels": {"l": "1"}}}))
            .keep("new");
        for version in ["", "0", "<old.version>", "<new.version>"] {
            streamed(group, of).query("resourceVersion", version);
            group.read("list", 3).in_any_order();
            group.close("list");
        }
        streamed(group, of).query("labelSelector", "l=1");
        group.read("list", 2);
        group.create(of, "c", &json!({"metadata": {"labels": {"l": "1"}}}));
        group.read("list", 1);
        group.delete(of, "c");
        group.read("list", 1);
        group.close("list");
        streamed(group, of).query("labelSelector", "l=nosuch");
        group.read("list", 1);
        group.close("list");
        group.open("list", of).query("sendInitialEvents", "true");
        group
            .open("list", of)
            .query("sendInitialEvents", "true")
            .query("resourceVersionMatch", "Exact");
        group
            .open("list", of)
            .query("resourceVersionMatch", "NotOlderThan");
        group
            .open("list", of)
            .query("sendInitialEvents", "false")
            .query("resourceVersionMatch", "NotOlderThan")
            .query("resourceVersion", "<old.version>");
        group.read("list", 3);
        group.close("list");
    }
}

fn streamed<'g>(group: &'g mut Group<'_>, of: &Resource) -> &'g mut super::super::step::Step {
    group
        .open("list", of)
        .query("sendInitialEvents", "true")
        .query("resourceVersionMatch", "NotOlderThan")
        .query("allowWatchBookmarks", "true")
}

fn selections(script: &mut Script) {
    let group = &mut Group::new(script, "watch-selections");
    for of in [&WIDGET, &LEASE] {
        group.create(of, "start", &json!({})).keep("start");
        group
            .open("x", of)
            .query("resourceVersion", "<start.version>")
            .query("labelSelector", "app=x");
        group
            .open("not-x", of)
            .query("resourceVersion", "<start.version>")
            .query("labelSelector", "app!=x");
        group
            .open("a", of)
            .query("resourceVersion", "<start.version>")
            .query("fieldSelector", "metadata.name=a");
        group.create(of, "a", &json!({"metadata": {"labels": {"app": "y"}}}));
        group.merge(of, "a", json!({"metadata": {"labels": {"app": "x"}}}));
        group.merge(of, "a", json!({"metadata": {"labels": {"more": "1"}}}));
        group.merge(of, "a", json!({"metadata": {"labels": {"app": null}}}));
        group.merge(of, "a", json!({"metadata": {"labels": {"app": "x"}}}));
        group.delete(of, "a");
        group.create(of, "b", &json!({"metadata": {"labels": {"app": "y"}}}));
        group.delete(of, "b");
        group.read("x", 5);
        group.read("not-x", 6);
        group.read("a", 6);
        for stream in ["x", "not-x", "a"] {
            group.close(stream);
        }
        group
            .open("past", of)
            .query("resourceVersion", "<start.version>")
            .query("labelSelector", "app=x");
        group.read("past", 5);
        group.close("past");
    }
    let namespaces = Ask::new("GET", NAMESPACE.everywhere());
    group
        .step(Action::Open("home", namespaces))
        .query("watch", "true")
        .query("resourceVersion", "0")
        .query("fieldSelector", "metadata.name=$run-watch-selections");
    group.read("home", 1);
    group.close("home");
}

fn refused(script: &mut Script) {
    let group = &mut Group::new(script, "watch-refusals");
    group.create(&WIDGET, "a", &json!({})).keep("a");
    group.step(Action::ForgetHistory);
    group.open("old", &WIDGET).query("resourceVersion", "1");
    group.read_to_end("old");
    group
        .open("old", &WIDGET)
        .query("resourceVersion", "1")
        .query("allowWatchBookmarks", "true")
        .query("labelSelector", "l=1");
    group.read_to_end("old");
    group
        .open("future", &WIDGET)
        .query("resourceVersion", "abc");
    group.open("future", &WIDGET).query("resourceVersion", "-5");
    group.open("bad", &WIDGET).query("labelSelector", "a in (");
    group
        .open("bad", &WIDGET)
        .query("fieldSelector", "spec.nope=1");
    group.open("bad", &WIDGET).query("timeoutSeconds", "x");
    group
        .open("here", &WIDGET)
        .query("resourceVersion", "<a.version>");
    group.merge(&WIDGET, "a", json!({"metadata": {"labels": {"l": "1"}}}));
    group.read("here", 1);
    group.close("here");
    // A path of one object cannot be watched: the object is read.
    group
        .get(&WIDGET, "a")
        .query("watch", "true")
        .query("resourceVersion", "<a.version>");
}

fn kinds_that_go(script: &mut Script) {
    let group = &mut Group::new(script, "kinds-that-go");
    group
        .create(&GIZMO, "a", &json!({"spec": {"n": 1}}))
        .keep("a");
    group
        .open("gizmos", &GIZMO)
        .query("resourceVersion", "<a.version>");
    group.merge(&GIZMO, "a", json!({"spec": {"n": 2}}));
    group.read("gizmos", 1);
    group.step(Action::RemoveKind(GIZMO));
    group.read_to_end("gizmos");
    group.get(&GIZMO, "a");
    group.list(&GIZMO);
    group.create(&GIZMO, "b", &json!({}));
}
