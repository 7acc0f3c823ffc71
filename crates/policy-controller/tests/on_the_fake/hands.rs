//! Changes by users to the Roles and RoleBindings themselves.

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use testkit::Caller;

use crate::support::{Cluster, TOOLS, soon};

async fn granted() -> (Cluster, String, crate::support::Process) {
    let cluster = Cluster::new();
    let uid = cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    let process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    (cluster, format!("policy-{uid}"), process)
}

fn bindings(cluster: &Cluster) -> Api<RoleBinding> {
    Api::namespaced(cluster.server.client(&Caller::admin()), TOOLS)
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_hand_is_put_back_and_told_with_its_author() {
    let (cluster, name, _process) = granted().await;
    // This API server records the writers of fields only after an apply.
    cluster.edit("p", |spec| {
        let subjects = &mut spec["defaultPermission"]["bindingTemplate"]["subjects"];
        *subjects = json!([{"kind": "User", "name": "alice"}, {"kind": "User", "name": "bob"}]);
    });
    soon().await;
    let patch = json!({"subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]});
    let params = PatchParams {
        field_manager: Some("kubectl-edit".to_owned()),
        ..PatchParams::default()
    };
    let api = bindings(&cluster);
    api.patch(&name, &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    soon().await;
    assert!(!cluster.may("mallory", "read", "harbor").await);
    assert!(cluster.may("alice", "read", "harbor").await);
    let restored = format!(
        "PermissionRestored: RoleBinding {name} was changed by kubectl-edit and is put back"
    );
    assert!(
        cluster.events().contains(&restored),
        "{:?}",
        cluster.events()
    );
    let since = cluster.now();
    soon().await;
    assert_eq!(cluster.writes(since), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_hand_is_made_good_and_told() {
    let (cluster, name, _process) = granted().await;
    let api = bindings(&cluster);
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    let restored = format!("PermissionRestored: RoleBinding {name} was deleted and is made again");
    assert!(
        cluster.events().contains(&restored),
        "{:?}",
        cluster.events()
    );
}

#[tokio::test(start_paused = true)]
async fn notes_of_others_on_our_objects_stay() {
    let (cluster, name, _process) = granted().await;
    let patch = json!({"metadata": {"annotations": {"note": "seen"}}});
    let api = bindings(&cluster);
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let since = cluster.now();
    soon().await;
    assert_eq!(cluster.writes(since), [""; 0]);
    cluster.edit("p", |spec| {
        spec["defaultPermission"]["bindingTemplate"]["subjects"] =
            json!([{"kind": "User", "name": "bob"}]);
    });
    soon().await;
    let binding = cluster.server.get("rolebindings", TOOLS, &name).unwrap();
    assert_eq!(binding["metadata"]["annotations"]["note"], "seen");
    assert!(cluster.may("bob", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_only_says_it_is_ours_goes() {
    let (cluster, name, _process) = granted().await;
    let role = cluster.server.get("roles", TOOLS, &name).unwrap();
    for (name, uid) in [
        (
            "forged",
            role["metadata"]["labels"]["connectors.alauda.io/accessPolicyUid"].clone(),
        ),
        ("stray", json!("no-such-policy")),
    ] {
        let mut labels = role["metadata"]["labels"].clone();
        labels["connectors.alauda.io/accessPolicyUid"] = uid;
        cluster.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": TOOLS, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]},
            "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}],
        }));
    }
    soon().await;
    assert!(!cluster.may("mallory", "read", "harbor").await);
    assert_eq!(cluster.objects().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_finalizer_keeps_gives_nothing() {
    let (cluster, name, _process) = granted().await;
    cluster.server.change("rolebindings", TOOLS, &name, |it| {
        it["metadata"]["finalizers"] = json!(["example.com/keep"]);
    });
    cluster.server.delete("accesspolicies", TOOLS, "p");
    soon().await;
    assert!(cluster.server.get("rolebindings", TOOLS, &name).is_some());
    assert!(!cluster.may("alice", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_not_touched_and_is_told() {
    let cluster = Cluster::new();
    let uid = cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    let name = format!("policy-{uid}");
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": name, "namespace": TOOLS},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }));
    let before = cluster.server.get("roles", TOOLS, &name);
    let _process = cluster.start("one");
    soon().await;
    assert_eq!(cluster.server.get("roles", TOOLS, &name), before);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False NameTaken"
    );
    assert_eq!(cluster.conditions("p")[3], "Ready=False NameTaken");
    assert!(!cluster.may("alice", "read", "harbor").await);
    let told = cluster.events();
    assert!(
        told[0].starts_with("PermissionNotSynced: NameTaken: "),
        "{told:?}"
    );
    assert_eq!(told.len(), 1, "once: {told:?}");
    cluster.server.delete("roles", TOOLS, &name);
    // No watch shows an object that is not ours: the job is tried again by itself.
    tokio::time::sleep(std::time::Duration::from_mins(3)).await;
    assert!(cluster.may("alice", "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=True PermissionGranted"
    );
}

/// Repeated reverts by another client cost two looks a second, and no more.
#[tokio::test(start_paused = true)]
async fn what_somebody_undoes_each_time_is_put_right_twice_a_second_at_most() {
    const TIMES: usize = 12;
    for plural in ["roles", "rolebindings"] {
        for deletes in [true, false] {
            let (cluster, name, _process) = granted().await;
            let since = cluster.now();
            let begun = tokio::time::Instant::now();
            for _ in 0..TIMES {
                let field = if plural == "roles" {
                    "rules"
                } else {
                    "subjects"
                };
                if deletes {
                    cluster.server.delete(plural, TOOLS, &name);
                } else {
                    cluster
                        .server
                        .change(plural, TOOLS, &name, |it| it[field] = json!([]));
                }
                let is_right = || {
                    let object = cluster.server.get(plural, TOOLS, &name);
                    object.is_some_and(|it| it[field].as_array().is_some_and(|it| !it.is_empty()))
                };
                while !is_right() {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            let took = begun.elapsed();
            // Nothing is before the first time, which may be taken for an edit like others.
            let least = std::time::Duration::from_millis(500) * u32::try_from(TIMES - 2).unwrap();
            assert!(took >= least, "{plural}, deleted: {deletes}: {took:?}");
            assert!(took <= least * 2, "{plural}, deleted: {deletes}: {took:?}");
            let writes = cluster.writes(since);
            let writes = writes.iter().filter(|it| it.contains(plural));
            assert_eq!(writes.count(), TIMES, "{plural}, deleted: {deletes}");
        }
    }
}
