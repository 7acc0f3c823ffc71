//! The status subresource: the fields that it writes, and those that the main resource ignores.

use serde_json::json;

use super::super::kinds::{ACCESS_REQUEST, CONFIG_MAP, GADGET, WIDGET};
use super::super::step::{Ask, Group, Script};
use super::writes::NO_SUCH_UID;

pub(super) fn add(script: &mut Script) {
    status(script);
    status_of_requests(script);
}

fn status(script: &mut Script) {
    let group = &mut Group::new(script, "status");
    let version = "<widgets/a.version>";
    group
        .create(
            &WIDGET,
            "a",
            &json!({"spec": {"n": 1}, "status": {"ready": true}}),
        )
        .keep("first");
    group.put(
        &WIDGET,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": {"n": 1}, "status": {"ready": true},
        }),
    );
    group.put_status(&WIDGET, "a", &json!({
        "metadata": {"resourceVersion": version, "labels": {"l": "1"}, "annotations": {"n": "1"},
            "finalizers": ["example.com/f"]},
        "spec": {"n": 2}, "status": {"ready": false},
    }));
    group.get(&WIDGET, "a");
    group.put_status(
        &WIDGET,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": {"n": 1}, "status": {"ready": false},
        }),
    );
    group.put_status(
        &WIDGET,
        "a",
        &json!({
            "metadata": {"resourceVersion": "<first.version>"}, "status": {"ready": true},
        }),
    );
    group.put_status(&WIDGET, "a", &json!({"status": {"ready": true}}));
    group.put_status(&WIDGET, "b", &json!({"status": {"ready": true}}));
    group.put_status(
        &WIDGET,
        "a",
        &json!({"metadata": {"resourceVersion": version}}),
    );
    group.put(
        &WIDGET,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": {"n": 2}, "status": {"ready": true},
        }),
    );
    group.put(&WIDGET, "a", &json!({
        "metadata": {"resourceVersion": version}, "spec": {"n": 2}, "more": "a field beside the spec",
    }));
    let path = format!("{}/status", group.object(&WIDGET, "a"));
    let merge = |body| {
        Ask::new("PATCH", path.clone())
            .body(body)
            .typed("application/merge-patch+json")
    };
    group.ask(merge(
        json!({"status": {"phase": "New"}, "spec": {"n": 9}, "metadata": {"labels": {"l": "2"}}}),
    ));
    group.ask(merge(json!({"status": {"phase": "New"}})));
    group.ask(merge(
        json!({"metadata": {"resourceVersion": "<first.version>"}, "status": {"phase": "Old"}}),
    ));
    group.ask(
        Ask::new("PATCH", path.clone())
            .typed("application/json-patch+json")
            .body(json!([
                {"op": "test", "path": "/status/phase", "value": "New"},
                {"op": "replace", "path": "/status/phase", "value": "Newer"},
            ])),
    );
    group.ask(Ask::new("GET", path.clone()));
    group.ask(Ask::new("POST", path.clone()).body(WIDGET.body("a", &json!({}))));
    group.ask(Ask::new("DELETE", path));
    group.merge(&WIDGET, "a", json!({"status": {"phase": "ByMain"}}));
    group.merge(
        &WIDGET,
        "a",
        json!({"status": {"phase": "ByMain"}, "spec": {"n": 3}}),
    );
    group.put_status(&GADGET, "a", &json!({"status": {"ready": true}}));
    group.put_status(&CONFIG_MAP, "a", &json!({}));
}

fn status_of_requests(script: &mut Script) {
    let group = &mut Group::new(script, "requests");
    let spec = json!({
        "connectorRef": {"name": "c"}, "permission": "apis",
        "context": {"objectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "$run-requests", "uid": NO_SUCH_UID,
        }},
        "subject": {"kind": "ServiceAccount", "name": "s"},
    });
    let of = &ACCESS_REQUEST;
    let version = "<accessrequests/a.version>";
    group
        .create(
            of,
            "a",
            &json!({"spec": spec, "status": {"phase": "Granted"}}),
        )
        .keep("first");
    group.create(of, "a", &json!({"spec": spec}));
    let ready = json!([{
        "type": "Ready", "status": "False", "reason": "Waiting", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let pending = json!({"phase": "Pending", "observedGeneration": 1, "conditions": ready});
    group.put_status(
        of,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": spec, "status": pending,
        }),
    );
    group.put_status(
        of,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": spec, "status": pending,
        }),
    );
    group.put_status(of, "a", &json!({
        "metadata": {"resourceVersion": "<first.version>"}, "spec": spec, "status": {"phase": "Revoked"},
    }));
    group.put(of, "a", &json!({
        "metadata": {"resourceVersion": version, "labels": {"l": "1"}}, "spec": spec, "status": {"phase": "Revoked"},
    }));
    let path = format!("{}/status", group.object(of, "a"));
    let ask = Ask::new("PATCH", path).typed("application/merge-patch+json");
    group.ask(ask.body(json!({"status": {"phase": "Granted", "connectorUid": "x"}})));
    group.delete_with(of, "a", json!({"preconditions": {"uid": "<first.uid>"}}));
    group.put_status(
        of,
        "a",
        &json!({
            "metadata": {"resourceVersion": version}, "spec": spec, "status": pending,
        }),
    );
}
