use connectors_api::{
    AccessRequest,
    access_request::{GrantState, Phase},
};
use jiff::SignedDuration;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleBinding};
use serde_json::json;

use super::scene::Scene;
use crate::api::Name;
use crate::grant::{self, keep};
use crate::seen::{Managed, ManagedObject, Unread};

fn kept(scene: &Scene, change_request: impl FnOnce(&mut AccessRequest)) -> Vec<bool> {
    let mut request = scene.seen.request.clone();
    change_request(&mut request);
    let grants = scene.seen.grants.iter();
    grants
        .map(|it| keep(it, Some(&request), scene.now.wall))
        .collect()
}

fn kept_as(change: impl Fn(&mut Managed)) -> Vec<bool> {
    let scene = Scene::granted();
    let mut grants = scene.seen.grants.clone();
    grants.iter_mut().for_each(&change);
    let request = Some(&scene.seen.request);
    let kept = |it: &Managed| keep(it, request, scene.now.wall);
    for object in &grants {
        let cached = as_cached(object);
        assert_eq!(kept(&cached), kept(object), "as the cache keeps {object:?}");
        assert_eq!(cached.is_ours(), object.is_ours());
        assert_eq!(cached.is_going(), object.is_going());
    }
    grants.iter().map(kept).collect()
}

/// The object as the cache gives it back.
fn as_cached(object: &Managed) -> Managed {
    let mut cache = crate::cache::State::default();
    let name = Name::in_metadata(&object.metadata);
    let _ = cache.grant(object.kind(), &name, Some(object), None);
    cache.grants.get(object.kind(), &name).unwrap()
}

const BOTH: [bool; 2] = [true, true];
const NONE: [bool; 2] = [false, false];

#[test]
fn what_a_request_describes_stays() {
    assert_eq!(kept(&Scene::granted(), |_| {}), BOTH);
    // Also between the decision and its confirmation.
    let granting = |it: &mut AccessRequest| {
        let status = it.status.as_mut().unwrap();
        status.phase = Some(Phase::Pending);
        status.policies[0].grant.as_mut().unwrap().state = GrantState::Granting;
    };
    assert_eq!(kept(&Scene::granted(), granting), BOTH);
}

type Change = fn(&mut AccessRequest);

#[test]
fn what_no_request_describes_goes() {
    let scene = Scene::granted();
    assert!(
        scene
            .seen
            .grants
            .iter()
            .all(|it| !keep(it, None, scene.now.wall))
    );
    let cases: [(&str, Change); 9] = [
        ("another UID", |it| {
            it.metadata.uid = Some("other".to_owned());
        }),
        ("no UID", |it| it.metadata.uid = None),
        ("being deleted", |it| {
            it.metadata.deletion_timestamp = it.metadata.creation_timestamp.clone();
        }),
        ("no status", |it| it.status = None),
        ("no policies", |it| {
            it.status.as_mut().unwrap().policies.clear();
        }),
        ("not decided", |it| {
            it.status.as_mut().unwrap().policies[0].grant = None;
        }),
        ("ended", |it| {
            it.status.as_mut().unwrap().policies[0]
                .grant
                .as_mut()
                .unwrap()
                .state = GrantState::Ended;
        }),
        ("other rules", |it| {
            it.status.as_mut().unwrap().policies[0]
                .grant
                .as_mut()
                .unwrap()
                .rules[0]
                .verbs = vec!["get".to_owned()];
        }),
        ("another policy", |it| {
            it.status.as_mut().unwrap().policies[0].policy.0["metadata"]["uid"] = json!("other");
        }),
    ];
    for (case, change) in cases {
        let kept = kept(&scene, change);
        // The binding of a Role with other rules is as it was described; the Role is not.
        assert!(!kept[0], "{case}");
        assert!(case == "other rules" || !kept[1], "{case}");
    }
    for phase in [Phase::Rejected, Phase::Revoked, Phase::Invalid] {
        assert_eq!(
            kept(&scene, |it| it.status.as_mut().unwrap().phase = Some(phase)),
            NONE
        );
    }
}

#[test]
fn a_status_that_describes_more_than_may_be_granted_describes_nothing() {
    let scene = Scene::granted();
    let wide = "connectors/apis".to_owned();
    let edit_status = |it: &mut AccessRequest| {
        let grant = it.status.as_mut().unwrap().policies[0].grant.as_mut();
        grant.unwrap().rules[0].resources = vec![wide.clone()];
    };
    let wider = scene.with(|seen| {
        for object in &mut seen.grants {
            if let ManagedObject::Role(Ok(role)) = &mut object.object {
                role.rules.as_mut().unwrap()[0].resources = Some(vec![wide.clone()]);
            }
        }
    });
    assert_eq!(kept(&wider, edit_status), NONE);
}

#[test]
fn what_has_expired_goes() {
    let scene = Scene::granted_under(&json!({"maxDuration": "1h"}));
    assert_eq!(
        kept(
            &scene.clone().after(SignedDuration::from_secs(3599)),
            |_| {}
        ),
        BOTH
    );
    assert_eq!(
        kept(&scene.after(SignedDuration::from_secs(3600)), |_| {}),
        NONE
    );
}

#[test]
fn what_was_edited_goes() {
    fn role(it: &mut Managed, change: impl FnOnce(&mut PolicyRule)) {
        if let ManagedObject::Role(Ok(role)) = &mut it.object {
            change(&mut role.rules.as_mut().unwrap()[0]);
        }
    }
    fn binding(it: &mut Managed, change: impl FnOnce(&mut RoleBinding)) {
        if let ManagedObject::RoleBinding(Ok(binding)) = &mut it.object {
            change(binding);
        }
    }
    let one = |text: &str| Some(vec![text.to_owned()]);
    assert_eq!(kept_as(|_| {}), BOTH);
    let roles: [&dyn Fn(&mut Managed); 5] = [
        &|it| {
            role(it, |rule| rule.resource_names = None);
        },
        &|it| {
            role(it, |rule| rule.resource_names = one("other"));
        },
        &|it| {
            role(it, |rule| rule.resources = one("connectors/apis"));
        },
        &|it| {
            role(it, |rule| rule.api_groups = one("*"));
        },
        &|it| {
            role(it, |rule| rule.non_resource_urls = one("/"));
        },
    ];
    for change in roles {
        assert_eq!(kept_as(change), [false, true]);
    }
    let bindings: [&dyn Fn(&mut Managed); 4] = [
        &|it| {
            binding(it, |it| it.subjects = None);
        },
        &|it| {
            binding(it, |it| {
                it.subjects.as_mut().unwrap()[0].name = "other".to_owned();
            });
        },
        &|it| {
            binding(it, |it| {
                let more = it.subjects.clone().unwrap();
                it.subjects.as_mut().unwrap().extend(more);
            });
        },
        &|it| {
            binding(it, |it| it.role_ref.kind = "ClusterRole".to_owned());
        },
    ];
    for change in bindings {
        assert_eq!(kept_as(change), [true, false]);
    }
    let both: [&dyn Fn(&mut Managed); 6] = [
        &|it| it.metadata.labels = None,
        &|it| it.metadata.owner_references = None,
        &|it| it.metadata.name = Some("car-other".to_owned()),
        &|it| it.metadata.namespace = Some("other".to_owned()),
        &|it| {
            it.metadata.deletion_timestamp = Scene::new().seen.request.metadata.creation_timestamp;
        },
        &|it| {
            it.object = match it.object {
                ManagedObject::Role(_) => ManagedObject::Role(Err(Unread)),
                ManagedObject::RoleBinding(_) => ManagedObject::RoleBinding(Err(Unread)),
                ManagedObject::Kept(kind, _) => ManagedObject::Kept(kind, Err(Unread)),
            }
        },
    ];
    for change in both {
        assert_eq!(kept_as(change), NONE);
    }
}

#[test]
fn what_the_server_adds_does_not_matter() {
    let kept = kept_as(|it| {
        it.metadata.resource_version = Some("99".to_owned());
        if let ManagedObject::RoleBinding(Ok(binding)) = &mut it.object {
            binding.subjects.as_mut().unwrap()[0].api_group = Some(String::new());
        }
    });
    assert_eq!(kept, BOTH);
}

#[test]
fn rules_are_about_the_pods_own_use_of_connectors_alone() {
    let request = super::scene::request();
    let own = "connectors/apis/v1/pod/apps/run-deploy-pod";
    let allowed = |resources: &[&str], verbs: &[&str]| {
        let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        let rule = connectors_api::access_request::GrantedRule {
            resources: list(resources),
            verbs: list(verbs),
        };
        grant::allowed(&request, &[rule])
    };
    assert!(allowed(&[own], &["*"]));
    assert!(allowed(
        &[
            own,
            "connectors/apis/tekton.dev/v1/pipelineruns/apps/run-deploy-pod"
        ],
        &["get"]
    ));
    assert!(!grant::allowed(&request, &[]));
    for (resources, verbs) in [
        (&[][..], &["*"][..]),
        (&[own], &[]),
        (&[own], &[""]),
        (&["connectors/apis"], &["*"]),
        (&["connectors/*"], &["*"]),
        (&["*"], &["*"]),
        (&["secrets"], &["*"]),
        (&["connectors/proxy/v1/pod/apps/run-deploy-pod"], &["*"]),
        (&["connectors/apis/v1/pod/apps/deploy-2"], &["*"]),
        (&["connectors/apis/v1/pod/other/run-deploy-pod"], &["*"]),
        (&["connectors/apis/v1/pod/apps/*"], &["*"]),
        (&[own, "connectors/apis"], &["*"]),
    ] {
        assert!(!allowed(resources, verbs), "{resources:?} {verbs:?}");
    }
}

#[test]
fn names_and_labels_are_those_that_others_look_for() {
    let scene = Scene::granted();
    let role = &scene.seen.grants[0];
    // The first eight digits of the SHA-256 of the policy's UID.
    assert_eq!(role.name(), "car-request-uid-6da07d50");
    assert_ne!(grant::name("r", "a"), grant::name("r", "b"));
    let labels = serde_json::to_value(&role.metadata.labels).unwrap();
    assert_eq!(
        labels,
        json!({
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequest": "harbor-1",
            "connectors.alauda.io/accessRequestUid": "request-uid",
            "connectors.alauda.io/accessPolicy": "p",
            "connectors.alauda.io/accessPolicyUid": "p-uid",
        })
    );
    let owner = serde_json::to_value(&role.metadata.owner_references).unwrap();
    assert_eq!(owner[0]["controller"], true);
    assert_eq!(owner[0]["blockOwnerDeletion"], false);
    assert_eq!(grant::owner_name(&role.metadata), Some("harbor-1"));
    for (field, value) in [("kind", "Pod"), ("apiVersion", "v1")] {
        let mut other = owner.clone();
        other[0][field] = value.into();
        let mut metadata = role.metadata.clone();
        metadata.owner_references = serde_json::from_value(other).unwrap();
        assert_eq!(grant::owner_name(&metadata), None, "another {field}");
    }
}
