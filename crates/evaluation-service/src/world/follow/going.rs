//! What is being deleted and kept by a finalizer: of every kind, in lists and in events.

use evaluation_api::access::Decision;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::access_decision;
use crate::fixtures::{POD_FORM, question, request, role, role_binding};

#[derive(Clone, Copy, Debug, PartialEq)]
enum GoingKind {
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    Request,
}

const ALL: [GoingKind; 5] = [
    GoingKind::Role,
    GoingKind::RoleBinding,
    GoingKind::ClusterRole,
    GoingKind::ClusterRoleBinding,
    GoingKind::Request,
];

/// How something becomes known.
#[derive(Clone, Copy, Debug)]
enum Way {
    Event,
    List,
}

struct GoingObjects {
    shared: Shared,
    metrics: Metrics,
}

impl GoingObjects {
    fn new() -> Self {
        Self {
            shared: Shared::default(),
            metrics: Metrics::register(&prometheus::Registry::new()).unwrap(),
        }
    }

    fn hear<K: Source, P: Parse<K>>(&self, way: Way, object: &Value) {
        let object: Guarded<K, P> = serde_json::from_value(object.clone()).unwrap();
        let mut listed = None;
        let events = match way {
            Way::Event => vec![Event::Apply(object)],
            Way::List => vec![Event::Init, Event::InitApply(object), Event::InitDone],
        };
        for event in events {
            take(&self.shared, &self.metrics, event, &mut listed);
        }
    }

    fn put(&self, kind: GoingKind, way: Way, object: &Value) {
        match kind {
            GoingKind::Role => self.hear::<Role, Rbac>(way, object),
            GoingKind::RoleBinding => self.hear::<RoleBinding, Rbac>(way, object),
            GoingKind::ClusterRole => self.hear::<ClusterRole, Rbac>(way, object),
            GoingKind::ClusterRoleBinding => self.hear::<ClusterRoleBinding, Rbac>(way, object),
            GoingKind::Request => self.hear::<AccessRequest, Strict>(way, object),
        }
    }

    fn allows(&self) -> bool {
        let answer =
            access_decision::answer(&self.shared.read(), &question(), Timestamp::UNIX_EPOCH);
        answer.decision != Decision::Denied
    }
}

/// A permission that is made of one object of each of these kinds.
fn permission(kinds: &[GoingKind], is_ours: bool) -> Vec<(GoingKind, Value)> {
    let is_pods = kinds.contains(&GoingKind::Request);
    let form = if is_pods { POD_FORM } else { "connectors/apis" };
    let object = |kind: &GoingKind| {
        let mut object = match kind {
            GoingKind::Role | GoingKind::ClusterRole => json!(role("a", form)),
            GoingKind::RoleBinding | GoingKind::ClusterRoleBinding => json!(role_binding("a")),
            GoingKind::Request => json!(request("a", "Granted")),
        };
        if kinds.contains(&GoingKind::ClusterRole) && object["roleRef"].is_object() {
            object["roleRef"]["kind"] = "ClusterRole".into();
        }
        let labels = json!({
            "connectors.alauda.io/accessRequestUid": "uid-a", "connectors.alauda.io/accessPolicyUid": "policy-uid",
        });
        object["metadata"]["labels"] = labels;
        if is_ours {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] =
                "connectors-approval".into();
        }
        if matches!(kind, GoingKind::ClusterRole | GoingKind::ClusterRoleBinding) {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("namespace");
        }
        (*kind, object)
    };
    kinds.iter().map(object).collect()
}

const PERMISSIONS: [&[GoingKind]; 4] = [
    &[GoingKind::Role, GoingKind::RoleBinding],
    &[GoingKind::ClusterRole, GoingKind::RoleBinding],
    &[GoingKind::ClusterRole, GoingKind::ClusterRoleBinding],
    &[GoingKind::Role, GoingKind::RoleBinding, GoingKind::Request],
];

/// Whether a permission still holds when the object of one kind is being deleted.
fn outlasts(kinds: &[GoingKind], going: GoingKind, way: Way, is_ours: bool) -> bool {
    let known = GoingObjects::new();
    let objects = permission(kinds, is_ours);
    for (kind, object) in &objects {
        known.put(*kind, way, object);
    }
    assert!(known.allows(), "{kinds:?}");
    let (kind, mut object) = objects.into_iter().find(|it| it.0 == going).unwrap();
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["finalizers"] = json!(["example.com/keeps"]);
    known.put(kind, way, &object);
    known.allows()
}

#[test]
fn what_is_ours_gives_nothing_from_its_deletion_on_whatever_keeps_it() {
    let mut seen = Vec::new();
    for kinds in PERMISSIONS {
        for going in kinds {
            for way in [Way::Event, Way::List] {
                let holds = outlasts(kinds, *going, way, true);
                assert!(!holds, "{going:?} of {kinds:?} by {way:?}");
                seen.push(*going);
            }
        }
    }
    assert!(ALL.iter().all(|kind| seen.contains(kind)));
}

#[test]
fn what_is_not_ours_counts_until_it_is_gone_as_it_does_for_rbac() {
    for kinds in &PERMISSIONS[..3] {
        for going in *kinds {
            for way in [Way::Event, Way::List] {
                let holds = outlasts(kinds, *going, way, false);
                assert!(holds, "{going:?} of {kinds:?} by {way:?}");
            }
        }
    }
}
