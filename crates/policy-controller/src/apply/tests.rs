//! Writes to an API server in memory.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use service_kit::controller::worker::LookError;
use testkit::ApiServer;

use super::*;
use crate::{
    reconcile::ReconcileError,
    seen::Labels,
    testing::{
        OWN, Refuses, api_server, calls, job, labels, managed_for, owner, rbac, reconciler,
        reconciler_that,
    },
};

fn role(name: &str, labels: &Labels) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    rbac("Role", name, labels, &json!({"rules": rules}))
}

fn binding(name: &str, labels: &Labels) -> Value {
    let group = "rbac.authorization.k8s.io";
    let rest = json!({
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    rbac("RoleBinding", name, labels, &rest)
}

/// The version of an object that the server has.
fn pin(object: &Value) -> Pin {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    Pin {
        uid: text("uid"),
        version: text("resourceVersion"),
    }
}

/// A version that no object has.
fn old() -> Pin {
    Pin {
        uid: "uid".to_owned(),
        version: "1".to_owned(),
    }
}

fn create(name: &str) -> Write {
    let role = serde_json::from_value(role(name, &Labels::new())).unwrap();
    Write::Create(WrittenObject::Role(role))
}

fn delete(kind: ManagedKind, name: &str, pin: Pin) -> WriteStep {
    let write = Write::Delete(kind, name.to_owned(), pin);
    WriteStep {
        write,
        gives: false,
    }
}

const fn given(write: Write) -> WriteStep {
    WriteStep { write, gives: true }
}

async fn apply(applier: &Applier, steps: &[WriteStep]) -> Result<(), ApplyError> {
    applier.apply(&job(), steps, Instant::now(), &|_| ()).await
}

/// Of one write of each verb: the word of its failure, empty if there is none, and its message.
async fn each_write(applier: &Applier) -> [(&'static str, String); 4] {
    let changed = serde_json::from_value(binding("x", &Labels::new())).unwrap();
    let change = Write::Change(WrittenObject::Binding(changed), old());
    let policy = PolicyLive {
        owner: owner(),
        version: "1".to_owned(),
        generation: Some(1),
        deleting: false,
        spec: Err(String::new()),
        status: None,
    };
    [
        apply(applier, &[given(create("x"))]).await,
        apply(applier, &[given(change)]).await,
        apply(applier, &[delete(ManagedKind::Role, "x", old())]).await,
        applier
            .status(&policy, &AccessPolicyStatus::default())
            .await
            .map(drop),
    ]
    .map(|result| match result.map_err(ReconcileError::from) {
        Ok(()) => ("", String::new()),
        Err(error) => (error.word(), error.to_string()),
    })
}

#[tokio::test]
async fn only_a_write_that_another_client_anticipated_is_a_conflict() {
    for (code, expected) in [
        (403, ["apply"; 4]),
        // An object that is to be deleted may be gone.
        (404, ["apply", "conflict", "", "conflict"]),
        (409, ["conflict"; 4]),
    ] {
        let server = api_server();
        server.set_faults(Arc::new(Refuses(code)));
        let found = each_write(&reconciler(&server).applier).await;
        assert_eq!(found.map(|(word, _)| word), expected, "{code}");
    }
}

#[tokio::test]
async fn a_write_names_its_manager_and_is_counted_and_its_failure_names_its_object() {
    let server = api_server();
    server.set_faults(Arc::new(Refuses(403)));
    let reconciler = reconciler(&server);
    let messages = each_write(&reconciler.applier).await.map(|(_, it)| it);
    assert_eq!(
        messages,
        [
            "cannot create role tools/x",
            "cannot apply rolebinding tools/x",
            "cannot delete role tools/x",
            "cannot patch status of accesspolicy tools/p",
        ]
    );
    let [create, change, delete, status] = calls(&server).try_into().unwrap();
    for call in [create, change, status] {
        assert_eq!(call.query["fieldManager"], MANAGER, "{}", call.point.verb);
    }
    // A deletion in the foreground would keep the object effective.
    assert_eq!(delete.body.unwrap()["propagationPolicy"], "Background");
    for (verb, resource) in [
        ("create", "roles"),
        ("patch", "rolebindings"),
        ("delete", "roles"),
        ("patch", "accesspolicies/status"),
    ] {
        let writes = reconciler
            .metrics
            .writes
            .with_label_values(&[verb, resource]);
        assert_eq!(writes.get(), 1, "{verb} {resource}");
    }
}

#[tokio::test]
async fn a_process_that_does_not_lead_writes_nothing() {
    let server = api_server();
    let found = each_write(&reconciler_that(&server, false).applier).await;
    assert_eq!(found.map(|(word, _)| word), ["not-leading"; 4]);
    assert!(calls(&server).is_empty());
}

#[tokio::test]
async fn an_object_of_the_name_is_in_the_way_unless_it_is_managed_for_the_same_policy() {
    let with = |key: &str, value: &str| {
        let mut labels = managed_for("uid-p");
        labels.insert(key.to_owned(), value.to_owned());
        labels
    };
    for (labels, expected) in [
        (managed_for("uid-p"), "conflict"),
        (managed_for("uid-q"), "name-taken"),
        (
            with("connectors.alauda.io/accessRequestUid", "r"),
            "name-taken",
        ),
        (with("app.kubernetes.io/managed-by", "helm"), "name-taken"),
        (Labels::new(), "name-taken"),
    ] {
        let server = api_server();
        server.create(role("x", &labels));
        let result = apply(&reconciler(&server).applier, &[given(create("x"))]).await;
        let error = ReconcileError::from(result.unwrap_err());
        assert_eq!(error.word(), expected, "{labels:?}");
    }
}

#[tokio::test]
async fn what_a_finalizer_keeps_is_emptied_and_keeps_its_labels() {
    let server = api_server();
    let applier = reconciler(&server).applier;
    let labels = managed_for("uid-p");
    for (kind, plural, mut object, content) in [
        (ManagedKind::Role, "roles", role("x", &labels), "rules"),
        (
            ManagedKind::RoleBinding,
            "rolebindings",
            binding("x", &labels),
            "subjects",
        ),
    ] {
        object["metadata"]["finalizers"] = json!(["example.com/keep"]);
        let pin = pin(&server.create(object));
        apply(&applier, &[delete(kind, "x", pin)]).await.unwrap();
        let kept = server.get(plural, OWN, "x").unwrap();
        assert_eq!(kept["metadata"]["labels"], json!(labels));
        let content = kept[content].as_array();
        assert!(content.is_none_or(Vec::is_empty), "{kept}");
    }
}

/// The objects that a change replaces are deleted last, and the gift before it replaces them.
#[tokio::test]
async fn nothing_is_taken_after_a_gift_that_failed() {
    let server = api_server();
    server.create(role("taken", &labels(&[])));
    let replaced = pin(&server.create(role("replaced", &managed_for("uid-p"))));
    let steps = [
        given(create("taken")),
        delete(ManagedKind::Role, "replaced", replaced),
    ];
    let result = apply(&reconciler(&server).applier, &steps).await;
    assert!(
        matches!(result, Err(ApplyError::NameTaken(..))),
        "{result:?}"
    );
    assert!(server.get("roles", OWN, "replaced").is_some());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_back_keeps_gifts_back_and_nothing_else() {
    let server = api_server();
    let taken_back = |name: &str, is_known: bool| {
        let found = pin(&server.create(role(name, &Labels::new())));
        let version = if is_known {
            found.version
        } else {
            old().version
        };
        let uid = found.uid;
        delete(ManagedKind::Role, name, Pin { uid, version })
    };
    let steps = [
        taken_back("a", true),
        taken_back("b", false),
        taken_back("c", true),
        given(create("given")),
    ];
    let applier = reconciler(&server).applier;
    let result = apply(&applier, &steps).await;
    assert!(matches!(result, Err(ApplyError::Conflict(_))), "{result:?}");
    let is_there = ["a", "b", "c", "given"].map(|name| server.get("roles", OWN, name).is_some());
    assert_eq!(is_there, [false, true, false, false]);
    apply(&applier, &[given(create("given"))]).await.unwrap();
    assert!(server.get("roles", OWN, "given").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_role_of_a_binding_that_stays_is_not_deleted() {
    let server = api_server();
    let of_role = pin(&server.create(role("x", &Labels::new())));
    let of_binding = pin(&server.create(binding("x", &Labels::new())));
    // Another client has changed the binding since it was read.
    server.change("rolebindings", OWN, "x", |it| it["subjects"] = json!([]));
    let there = |server: &ApiServer| server.get("rolebindings", OWN, "x").unwrap();
    let applier = reconciler(&server).applier;
    for (read, stays) in [(of_binding, true), (pin(&there(&server)), false)] {
        let steps = [
            delete(ManagedKind::RoleBinding, "x", read),
            delete(ManagedKind::Role, "x", of_role.clone()),
        ];
        assert_eq!(apply(&applier, &steps).await.is_err(), stays);
        assert_eq!(server.get("roles", OWN, "x").is_some(), stays);
    }
}

#[test]
fn only_what_the_api_server_stored_as_sent_counts_before_its_event() {
    type Change = fn(&mut Role);
    let changes: [(Change, bool); 4] = [
        (
            |it| it.metadata.resource_version = Some("7".to_owned()),
            true,
        ),
        // Such labels say nothing about access.
        (
            |it| {
                let labels = it.metadata.labels.get_or_insert_default();
                labels.insert("a".to_owned(), "b".to_owned());
            },
            true,
        ),
        (|it| it.rules = None, false),
        (
            |it| {
                it.metadata.deletion_timestamp =
                    serde_json::from_value(json!("2026-03-01T10:00:00Z")).unwrap();
            },
            false,
        ),
    ];
    let sent: Role = serde_json::from_value(role("x", &managed_for("uid-p"))).unwrap();
    for (number, (change, counts)) in changes.into_iter().enumerate() {
        let mut stored = sent.clone();
        change(&mut stored);
        let new = NewVersion::of(&stored, &sent);
        assert_eq!(new.said.is_some(), counts, "{number}");
    }
}

#[tokio::test]
async fn each_write_is_told_with_all_versions_of_its_object_before_the_next_one() {
    let server = api_server();
    let labels = managed_for("uid-p");
    let [changed, deleted] =
        ["changed", "deleted"].map(|name| pin(&server.create(role(name, &labels))));
    let change = |name: &str, verb: &str| {
        let mut object: Role = serde_json::from_value(role(name, &labels)).unwrap();
        object.rules.as_mut().unwrap()[0].verbs = vec![verb.to_owned()];
        WrittenObject::Role(object)
    };
    let before = [&changed, &deleted].map(|it| it.version.clone());
    let steps = [
        given(Write::Change(change("changed", "list"), changed.clone())),
        given(Write::Change(change("changed", "watch"), changed)),
        given(Write::Change(change("deleted", "list"), deleted.clone())),
        delete(ManagedKind::Role, "deleted", deleted),
        given(Write::Create(change("new", "get"))),
        given(Write::Change(change("gone", "get"), old())),
    ];
    let applier = reconciler(&server).applier;
    let told = Mutex::new(Vec::new());
    let wrote = |own: OwnObject| {
        let (_, name) = own.key;
        // The object is as the last write has left it.
        let version = pin(&server.get("roles", OWN, &name).unwrap()).version;
        assert_eq!(own.versions.made.last(), Some(&version), "{name}");
        let OwnVersions { before, made } = own.versions;
        told.lock().unwrap().push((name, before, made.len()));
    };
    let failed = applier.apply(&job(), &steps, Instant::now(), &wrote).await;
    // What was written before counts.
    assert!(matches!(failed, Err(ApplyError::Conflict(_))), "{failed:?}");
    let [changed, deleted] = before.map(Some);
    let expected = [
        ("changed", changed.clone(), 1),
        ("changed", changed, 2),
        ("deleted", deleted, 1),
        ("new", None, 1),
    ];
    let expected = expected.map(|(name, before, made)| (name.to_owned(), before, made));
    assert_eq!(told.into_inner().unwrap(), expected);
}
