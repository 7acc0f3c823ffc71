//! Creating, replacing, versions, preconditions.

use serde_json::json;

use super::super::kinds::{
    CONFIG_MAP, EVENT, GADGET, LEASE, POD, ROLE, ROLE_BINDING, Resource, SERVICE_ACCOUNT, WIDGET,
};
use super::super::step::{Ask, Group, Script};

pub(super) const NO_SUCH_UID: &str = "00000000-0000-4000-8000-000000000000";

pub(super) fn add(script: &mut Script) {
    creations(script);
    conflicts(script);
    kinds_without_version(script);
    deletions(script);
    missing_namespaces(script);
}

fn creations(script: &mut Script) {
    let group = &mut Group::new(script, "creations");
    let data = json!({"data": {"k": "v"}});
    group.create(&CONFIG_MAP, "a", &data);
    group.create(&CONFIG_MAP, "a", &data);
    group.get(&CONFIG_MAP, "a");
    group.get(&CONFIG_MAP, "b");
    group.create(&CONFIG_MAP, "B_not_allowed", &data);
    group.create(
        &CONFIG_MAP,
        "b",
        &json!({"metadata": {"resourceVersion": "5"}}),
    );
    group.create(
        &CONFIG_MAP,
        "b",
        &json!({"metadata": {
            "uid": NO_SUCH_UID, "creationTimestamp": "2020-01-01T00:00:00Z",
            "deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
        }}),
    );
    group.create(
        &CONFIG_MAP,
        "c",
        &json!({"metadata": {"namespace": "elsewhere"}}),
    );
    group.create(
        &CONFIG_MAP,
        "c",
        &json!({"metadata": {"namespace": "$run-creations"}}),
    );
    group.post(
        &CONFIG_MAP,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
    );
    let generated = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}, "data": {"n": "1"},
    });
    group.post(&CONFIG_MAP, generated.clone()).keep("made");
    group.get(&CONFIG_MAP, "<made.name>");
    group.post(&CONFIG_MAP, generated);
    group.create(
        &CONFIG_MAP,
        "named",
        &json!({"metadata": {"generateName": "unused-"}}),
    );
    group.post(
        &CONFIG_MAP,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}}),
    );
    group.post(
        &CONFIG_MAP,
        json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "d"}}),
    );
    group.create(
        &CONFIG_MAP,
        "e",
        &json!({"metadata": {"labels": {"bad label": "x"}}}),
    );
    group.create(
        &CONFIG_MAP,
        "e",
        &json!({"metadata": {"labels": {"l": "x y"}}}),
    );
    group.create(
        &CONFIG_MAP,
        "e",
        &json!({"metadata": {"finalizers": ["nodomain"]}}),
    );
    let path = group.object(&CONFIG_MAP, "a");
    group.ask(Ask::new("POST", path).body(CONFIG_MAP.body("a", &data)));
    creations_of_other_kinds(group);
}

fn creations_of_other_kinds(group: &mut Group<'_>) {
    group.create(
        &WIDGET,
        "w",
        &json!({"spec": {"size": 1}, "status": {"ready": true}}),
    );
    group.create(&WIDGET, "w", &json!({}));
    group.create(&WIDGET, "Bad", &json!({}));
    group.create(
        &GADGET,
        "$run-g",
        &json!({"spec": {"size": 1}, "status": {"ready": true}}),
    );
    group.get(&GADGET, "$run-g");
    group.delete(&GADGET, "$run-g");
    group.create(
        &ROLE,
        "r",
        &json!({"rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        ]}),
    );
    group.create(&ROLE, "empty", &json!({}));
    group.create(
        &ROLE,
        "wrong",
        &json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}),
    );
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let subject = json!({"kind": "ServiceAccount", "name": "s", "namespace": "$run-creations"});
    group.create(
        &ROLE_BINDING,
        "b",
        &json!({"roleRef": reference, "subjects": [subject]}),
    );
    group.create(&ROLE_BINDING, "none", &json!({"subjects": [subject]}));
    group.create(&SERVICE_ACCOUNT, "s", &json!({}));
    group.create(&LEASE, "l", &json!({"spec": {
        "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
    }}));
    group.create(&EVENT, "e", &json!({
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/script",
        "reportingInstance": "script-0", "action": "Tested", "reason": "Tested", "type": "Normal", "note": "n",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "$run-creations"},
    }));
    group.create(&POD, "p", &pod());
    group.get(&POD, "p");
    group.delete_with(&POD, "p", json!({"gracePeriodSeconds": 0}));
    group.get(&POD, "p");
}

/// A pod that no kubelet starts.
pub(super) fn pod() -> serde_json::Value {
    json!({"spec": {
        "schedulerName": "nobody", "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "example.com/none"}],
    }})
}

fn conflicts(script: &mut Script) {
    let group = &mut Group::new(script, "conflicts");
    for of in [&CONFIG_MAP, &WIDGET, &LEASE, &ROLE] {
        let key = format!("{}/a", of.plural);
        let at = |field: &str| format!("<{key}.{field}>");
        group.create(of, "a", &content(of, 1)).keep("first");
        group.put(
            of,
            "a",
            &with(of, 2, &json!({"resourceVersion": at("version")})),
        );
        group.put(
            of,
            "a",
            &with(of, 3, &json!({"resourceVersion": "<first.version>"})),
        );
        group.put(
            of,
            "a",
            &with(of, 3, &json!({"resourceVersion": "99999999999"})),
        );
        group.put(of, "a", &with(of, 3, &json!({"resourceVersion": "0"})));
        group.put(of, "a", &with(of, 3, &json!({"resourceVersion": "abc"})));
        group.put(of, "a", &with(of, 4, &json!({})));
        group.put(
            of,
            "a",
            &with(of, 4, &json!({"resourceVersion": at("version")})),
        );
        group.put(
            of,
            "a",
            &with(
                of,
                5,
                &json!({"resourceVersion": at("version"), "uid": NO_SUCH_UID}),
            ),
        );
        group.put(of, "a", &with(of, 5, &json!({"uid": NO_SUCH_UID})));
        group.put(
            of,
            "a",
            &with(
                of,
                5,
                &json!({"resourceVersion": at("version"), "uid": at("uid")}),
            ),
        );
        group.put(
            of,
            "a",
            &with(
                of,
                6,
                &json!({"resourceVersion": at("version"), "name": "b"}),
            ),
        );
        group.put(
            of,
            "a",
            &with(
                of,
                6,
                &json!({"resourceVersion": at("version"), "namespace": "elsewhere"}),
            ),
        );
        let labels = json!({"resourceVersion": at("version"), "labels": {"l": "1"}, "annotations": {"n": "1"}});
        group.put(of, "a", &with(of, 5, &labels));
        group.put(of, "a", &with(of, 5, &json!({
            "resourceVersion": at("version"), "generation": 99, "creationTimestamp": "2020-01-01T00:00:00Z",
        })));
        group.merge(
            of,
            "a",
            json!({"metadata": {"resourceVersion": "<first.version>", "labels": {"l": "2"}}}),
        );
        group.merge(
            of,
            "a",
            json!({"metadata": {"resourceVersion": at("version"), "labels": {"l": "2"}}}),
        );
        group.merge(
            of,
            "a",
            json!({"metadata": {"uid": NO_SUCH_UID, "labels": {"l": "3"}}}),
        );
        group.merge(of, "a", json!({"metadata": {"labels": {"l": "2"}}}));
        group.get(of, "a");
    }
}

/// Content of a kind that differs by number.
pub(super) fn content(of: &Resource, number: u32) -> serde_json::Value {
    match of.plural {
        "configmaps" => json!({"data": {"n": number.to_string()}}),
        "leases" => json!({"spec": {"holderIdentity": number.to_string()}}),
        "roles" | "clusterroles" => json!({"rules": [{
            "apiGroups": ["example.com"], "resources": [format!("r{number}")], "verbs": ["get"],
        }]}),
        _ => json!({"spec": {"n": number}}),
    }
}

fn with(of: &Resource, number: u32, metadata: &serde_json::Value) -> serde_json::Value {
    let mut whole = content(of, number);
    json_patch::merge(&mut whole, &json!({"metadata": metadata}));
    whole
}

fn kinds_without_version(script: &mut Script) {
    let group = &mut Group::new(script, "unconditional");
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let other = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"});
    group.create(&ROLE_BINDING, "a", &json!({"roleRef": reference}));
    group.put(&ROLE_BINDING, "a", &json!({"roleRef": other}));
    group.put(
        &ROLE_BINDING,
        "a",
        &json!({"roleRef": reference, "metadata": {"labels": {"l": "1"}}}),
    );
    group.create(&SERVICE_ACCOUNT, "a", &json!({}));
    group.put(
        &SERVICE_ACCOUNT,
        "a",
        &json!({"metadata": {"labels": {"l": "1"}}}),
    );
    // A PUT of a missing name: some kinds are created by it, for others it is not found.
    for of in [&CONFIG_MAP, &LEASE, &ROLE, &WIDGET, &SERVICE_ACCOUNT] {
        group.put(of, "absent", &content_or_none(of));
        group.put(
            of,
            "absent-v",
            &with(of, 1, &json!({"resourceVersion": "77"})),
        );
        group.put(of, "absent-u", &with(of, 1, &json!({"uid": NO_SUCH_UID})));
        group.list(of);
    }
    group.put(&ROLE_BINDING, "absent", &json!({"roleRef": reference}));
}

fn content_or_none(of: &Resource) -> serde_json::Value {
    if of.plural == "serviceaccounts" {
        json!({})
    } else {
        content(of, 1)
    }
}

fn deletions(script: &mut Script) {
    let group = &mut Group::new(script, "deletions");
    for of in [&CONFIG_MAP, &WIDGET, &ROLE, &POD, &SERVICE_ACCOUNT] {
        let body = match of.plural {
            "pods" => pod(),
            _ => content_or_none(of),
        };
        let uid = format!("<{}/a.uid>", of.plural);
        let version = format!("<{}/a.version>", of.plural);
        group.delete(of, "a");
        group.create(of, "a", &body).keep("first");
        group.merge(of, "a", json!({"metadata": {"labels": {"l": "1"}}}));
        group.delete_with(of, "a", json!({"preconditions": {"uid": NO_SUCH_UID}}));
        group.delete_with(
            of,
            "a",
            json!({"preconditions": {"resourceVersion": "<first.version>"}}),
        );
        group.delete_with(
            of,
            "a",
            json!({"preconditions": {"uid": uid, "resourceVersion": "1"}}),
        );
        group.get(of, "a");
        group.delete_with(
            of,
            "a",
            json!({"preconditions": {"uid": uid, "resourceVersion": version}}),
        );
        group.get(of, "a");
        group.create(of, "a", &body);
        group.delete_with(of, "a", json!({"preconditions": {"uid": "<first.uid>"}}));
        group.delete_with(of, "a", json!({"preconditions": {"uid": uid}}));
        group.delete(of, "a");
        group.merge(of, "a", json!({"metadata": {"labels": {"l": "1"}}}));
    }
}

fn missing_namespaces(script: &mut Script) {
    let group = &mut Group::without_namespace(script, "nowhere");
    for of in [&CONFIG_MAP, &WIDGET, &ROLE] {
        group.create(of, "a", &content(of, 1));
        group.get(of, "a");
        group.list(of);
        group.delete(of, "a");
        group.put(of, "a", &with(of, 1, &json!({"resourceVersion": "5"})));
        group.apply(of, "a", "m", &content(of, 1));
    }
}
