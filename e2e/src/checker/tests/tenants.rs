//! I3 broken and kept.

use super::*;

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name})
}

#[test]
fn a_pod_of_another_namespace_needs_a_policy_that_accepts_it() {
    let words = "no policy was seen that accepts requesters of other";
    for requesters in [
        None,
        Some(json!([])),
        Some(json!(null)),
        Some(json!([account("builder")])),
        Some(json!([account("system:serviceaccount:team:builder")])),
        Some(json!([account("system:serviceaccount:other:another")])),
        Some(json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "third"}])),
        Some(json!([{"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}}])),
        Some(json!([{"kind": "Group", "name": "system:serviceaccounts:team"}])),
        Some(json!([{"kind": "Group", "name": "people"}])),
        Some(json!([{"kind": "Other", "name": "builder", "namespace": "other"}])),
    ] {
        world().across(requesters).breaks(Rule::Tenants, words);
    }
    for requester in [
        account("system:serviceaccount:other:builder"),
        json!({"kind": "ServiceAccount", "name": "builder", "namespace": "other"}),
        json!({"kind": "ServiceAccount", "nameSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}),
        json!({"kind": "Group", "name": "system:serviceaccounts:other"}),
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {"a": "b"}}}),
        json!({"kind": "User", "name": "system:serviceaccount:other:builder"}),
    ] {
        let report = world()
            .across(Some(json!([account("x"), requester])))
            .keeps();
        assert_eq!(report.seen.grants_across, 2);
    }
}

#[test]
fn an_installation_that_accepts_any_is_told_beforehand() {
    let any = |mut scene: World| {
        scene.settings.requesters_any = true;
        scene
    };
    any(world().across(None)).keeps();
    // Where a policy names requesters, only they count.
    any(world().across(Some(json!([account("x")])))).breaks(Rule::Tenants, "no policy");
}

#[test]
fn the_policy_must_be_of_the_connectors_namespace_and_be_seen() {
    let accepted = || {
        world().across(Some(
            json!([{"kind": "Group", "name": "system:serviceaccounts:other"}]),
        ))
    };
    accepted().keeps();
    accepted()
        .without(&["create-policy"])
        .breaks(Rule::Tenants, "no policy");
    let elsewhere =
        |event: &mut Value| event["responseObject"]["metadata"]["namespace"] = "other".into();
    accepted()
        .edit("create-policy", elsewhere)
        .breaks(Rule::Tenants, "no policy");
}

#[test]
fn a_binding_binds_the_pods_service_account_alone() {
    for (key, value) in [
        ("name", "default"),
        ("namespace", "other"),
        ("namespace", ""),
    ] {
        let other = |event: &mut Value| event["responseObject"]["subjects"][0][key] = value.into();
        world()
            .edit(BINDING, other)
            .breaks(Rule::Tenants, "not the pod's service account");
    }
}

#[test]
fn a_grant_lies_beside_its_request() {
    let mut scene = world();
    for id in [ROLE, BINDING, "delete-role", "delete-binding"] {
        scene.get(id)["objectRef"]["namespace"] = "elsewhere".into();
    }
    scene.breaks(Rule::Tenants, "its request is in namespace team");
}
