//! Selectors, pages, versions of reads, discovery.

use serde_json::json;

use super::super::kinds::{CONFIG_MAP, EVENT, GADGET, LEASE, POD, ROLE, TEST_GROUP, WIDGET};
use super::super::step::{Ask, Group, Script};
use super::writes::pod;

pub(super) fn add(script: &mut Script) {
    labels(script);
    fields(script);
    pages(script);
    versions(script);
    discovery(script);
}

fn labels(script: &mut Script) {
    let group = &mut Group::new(script, "labels");
    for (name, labels) in [
        ("a", json!({"run": "$run", "app": "x", "tier": "1"})),
        ("b", json!({"run": "$run", "app": "y", "tier": "1"})),
        ("c", json!({"run": "$run", "app": "z"})),
        ("d", json!({"run": "$run"})),
        ("e", json!({"run": "$run", "app": ""})),
    ] {
        group.create(&WIDGET, name, &json!({"metadata": {"labels": labels}}));
        group.create(&LEASE, name, &json!({"metadata": {"labels": labels}}));
    }
    for selector in [
        "app=x",
        "app==x",
        "app!=x",
        "app in (x,y)",
        "app in (x)",
        "app notin (x,y)",
        "app",
        "!app",
        "app=",
        "app=x,tier=1",
        "app!=x,tier",
        "app in (x,y),tier!=2",
        "app in ()",
        "app=x=y",
        "(app)",
        ",",
        " app = x ",
        "app,!tier",
        "tier>0",
        "tier<1",
        "nosuch",
        "app in (,x)",
        "example.com/app=x",
        "bad label=x",
    ] {
        group.list(&WIDGET).query("labelSelector", selector);
    }
    group
        .list(&LEASE)
        .query("labelSelector", "app in (x,y),tier=1");
    let ask = Ask::new("GET", WIDGET.everywhere());
    group.ask(ask).query("labelSelector", "run=$run,tier=1");
    let ask = Ask::new("DELETE", WIDGET.collection("$run-labels"));
    group.ask(ask).query("labelSelector", "tier=1");
    group.list(&WIDGET);
}

fn fields(script: &mut Script) {
    let group = &mut Group::new(script, "fields");
    for name in ["a", "b"] {
        group.create(&CONFIG_MAP, name, &json!({}));
        group.create(&WIDGET, name, &json!({}));
        group.create(&POD, name, &pod());
    }
    for of in [&CONFIG_MAP, &WIDGET] {
        for selector in [
            "metadata.name=a",
            "metadata.name!=a",
            "metadata.name==b",
            "metadata.namespace=$run-fields",
            "metadata.namespace=other",
            "metadata.name=a,metadata.name=b",
            "spec.nope=1",
            "metadata.name",
            "metadata.name=nosuch",
        ] {
            // Objects that a full cluster creates in every namespace would be hidden, but count as items.
            group.list(of).query("fieldSelector", selector);
        }
    }
    for selector in [
        "status.phase=Pending",
        "status.phase!=Pending",
        "spec.nodeName=n",
        "spec.nodeName=",
        "spec.x=1",
    ] {
        group.list(&POD).query("fieldSelector", selector);
    }
    let regarding = |name: &str| {
        json!({
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/script",
            "reportingInstance": "script-0", "action": "Tested", "reason": "Tested", "type": "Normal", "note": "n",
            "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": "$run-fields"},
        })
    };
    group.create(&EVENT, "about-a", &regarding("a"));
    group.create(&EVENT, "about-b", &regarding("b"));
    group
        .list(&EVENT)
        .query("fieldSelector", "regarding.name=a");
    group
        .list(&EVENT)
        .query("fieldSelector", "involvedObject.name=a");
    let ask = Ask::new("GET", "/api/v1/namespaces/$run-fields/events");
    group.ask(ask).query(
        "fieldSelector",
        "involvedObject.name=a,involvedObject.kind=ConfigMap",
    );
}

fn pages(script: &mut Script) {
    let group = &mut Group::new(script, "pages");
    for name in ["a", "b", "c", "d", "e"] {
        group.create(&LEASE, name, &json!({}));
    }
    group.list(&LEASE).query("limit", "2").keep("one");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("continue", "<one.continue>")
        .keep("two");
    // The pages show the state at the time of the first one.
    group.create(&LEASE, "dd", &json!({}));
    group.delete(&LEASE, "e");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("continue", "<two.continue>")
        .keep("three");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("continue", "<two.continue>")
        .query("resourceVersion", "1");
    group.list(&LEASE).query("continue", "<one.continue>");
    group.list(&LEASE).query("continue", "nonsense");
    group.list(&LEASE).query("limit", "5");
    group.list(&LEASE).query("limit", "100");
    group.list(&LEASE).query("limit", "0");
    group.list(&LEASE).query("limit", "-1");
    group.list(&LEASE).query("limit", "x");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("labelSelector", "nosuch");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("fieldSelector", "metadata.name!=a")
        .keep("selected");
    group
        .list(&LEASE)
        .query("limit", "2")
        .query("fieldSelector", "metadata.name!=a")
        .query("continue", "<selected.continue>");
}

fn versions(script: &mut Script) {
    let group = &mut Group::new(script, "versions");
    for of in [&WIDGET, &LEASE] {
        group
            .create(of, "a", &json!({"spec": {"holderIdentity": "1"}}))
            .keep("old");
        group.list(of).keep("list");
        group
            .merge(of, "a", json!({"spec": {"holderIdentity": "2"}}))
            .keep("new");
        for matching in ["", "Exact", "NotOlderThan"] {
            for version in ["", "<old.version>", "<new.version>", "abc", "-1"] {
                let list = group.list(of).query("resourceVersion", version);
                if !matching.is_empty() {
                    list.query("resourceVersionMatch", matching);
                }
            }
        }
        group
            .list(of)
            .query("resourceVersion", "<old.version>")
            .query("resourceVersionMatch", "Sometime");
        group.list(of).query("resourceVersionMatch", "Sometime");
        // The cache has the newest version by now, because it has answered reads not older than it.
        group.list(of).query("resourceVersion", "0");
        group
            .list(of)
            .query("resourceVersion", "0")
            .query("resourceVersionMatch", "NotOlderThan");
        group.get(of, "a").query("resourceVersion", "0");
        group
            .list(of)
            .query("resourceVersion", "0")
            .query("resourceVersionMatch", "Exact");
        group
            .list(of)
            .query("resourceVersion", "<new.version>")
            .query("limit", "1");
        group
            .list(of)
            .query("resourceVersion", "<old.version>")
            .query("limit", "1")
            .query("resourceVersionMatch", "Exact");
        group.get(of, "a").query("resourceVersion", "<new.version>");
        group.get(of, "a").query("resourceVersion", "<old.version>");
        group.get(of, "a").query("resourceVersion", "abc");
        group
            .get(of, "nosuch")
            .query("resourceVersion", "<new.version>");
        group.list(of).query("sendInitialEvents", "true");
    }
    // The server waits some seconds before it rejects a future version.
    let future = "99999999999";
    group.list(&WIDGET).query("resourceVersion", future);
    group
        .list(&WIDGET)
        .query("resourceVersion", future)
        .query("resourceVersionMatch", "NotOlderThan");
    group
        .list(&WIDGET)
        .query("resourceVersion", future)
        .query("resourceVersionMatch", "Exact");
    group.get(&WIDGET, "a").query("resourceVersion", future);
}

fn discovery(script: &mut Script) {
    let group = &mut Group::without_namespace(script, "discovery");
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/rbac.authorization.k8s.io",
        "/apis/rbac.authorization.k8s.io/v1",
        "/apis/coordination.k8s.io",
        "/apis/coordination.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/connectors.alauda.io",
        "/apis/connectors.alauda.io/v1alpha1",
        "/apis/conformance.example.com",
        "/apis/conformance.example.com/v1",
        "/apis/conformance.example.com/v2",
        "/apis/nosuch.example.com",
        "/apis/nosuch.example.com/v1",
        "/api/v2",
        "/version",
        "/nosuch",
    ] {
        group.ask(Ask::new("GET", path));
    }
    let root = format!("/apis/{TEST_GROUP}/v1");
    group.ask(Ask::new("GET", format!("{root}/nosuchs")));
    group.ask(Ask::new(
        "GET",
        format!("{root}/namespaces/default/nosuchs/a"),
    ));
    group.ask(Ask::new("POST", format!("{root}/nosuchs")).body(json!({})));
    group.ask(Ask::new(
        "GET",
        format!("{root}/namespaces/default/widgets/a/nosuch"),
    ));
    group.ask(Ask::new(
        "GET",
        "/api/v1/namespaces/default/configmaps/a/nosuch",
    ));
    group.ask(Ask::new("POST", WIDGET.everywhere()).body(WIDGET.body("a", &json!({}))));
    group.ask(Ask::new("POST", ROLE.everywhere()).body(ROLE.body("a", &json!({}))));
    group.ask(Ask::new("PUT", GADGET.everywhere()).body(GADGET.body("a", &json!({}))));
}
