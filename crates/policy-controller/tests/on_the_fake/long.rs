//! Lists that are longer than a page, and things that are being deleted and kept by a finalizer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    stage::{Stage, delete_and_keep, let_go, policy},
    support::TOOLS,
};

/// Objects of one page of most lists, and policies of one page.
const PAGE: usize = 500;
const POLICY_PAGE: usize = 100;
const MINUTE: Duration = Duration::from_mins(1);

fn sizes(page: usize) -> [usize; 5] {
    [0, 1, page, page + 1, 2 * page + 1]
}

fn user(name: &str) -> Value {
    json!([{"kind": "User", "name": name}])
}

fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:04}")
}

/// All of so many are selected; and the last one, which is on the last page, goes and comes.
async fn follows_the_last(
    stage: &mut Stage,
    plural: &str,
    namespace: &str,
    names: &[String],
    per_name: usize,
) {
    assert_eq!(stage.judge().held().len(), names.len() * per_name);
    let Some(last) = names.last() else { return };
    delete_and_keep(&stage.cluster.server, plural, namespace, last);
    stage.settle().await;
    assert_eq!(stage.judge().held().len(), (names.len() - 1) * per_name);
    let_go(&stage.cluster.server, plural, namespace, last);
    stage.settle().await;
}

#[tokio::test(start_paused = true)]
async fn connectors_of_any_number_of_pages_are_all_followed() {
    for count in sizes(PAGE) {
        let mut stage = Stage::new();
        stage.cluster.server.delete("connectors", TOOLS, "harbor");
        let names: Vec<_> = (0..count).map(|it| name("c", it)).collect();
        for name in &names {
            stage.cluster.connector(name, json!({}));
        }
        policy(&stage.cluster, TOOLS, "p", json!({}), user("ann"));
        stage.start("one");
        stage.settle().await;
        follows_the_last(&mut stage, "connectors", TOOLS, &names, 1).await;
        stage
            .proves_right(MINUTE, &format!("{count} connectors"))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_of_any_number_of_pages_are_all_followed() {
    for count in sizes(PAGE) {
        let mut stage = Stage::new();
        stage.cluster.namespace("apps", json!({"team": "x"}));
        let names: Vec<_> = (0..count).map(|it| name("a", it)).collect();
        for name in &names {
            stage.cluster.account("apps", name, json!({"role": "ci"}));
        }
        let subject = json!([{
            "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "ci"}},
            "namespaceSelector": {"matchLabels": {"team": "x"}},
        }]);
        policy(&stage.cluster, TOOLS, "p", json!({}), subject);
        stage.start("one");
        stage.settle().await;
        follows_the_last(&mut stage, "serviceaccounts", "apps", &names, 1).await;
        stage
            .proves_right(MINUTE, &format!("{count} accounts"))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_of_any_number_of_pages_are_all_followed() {
    for count in sizes(PAGE) {
        let mut stage = Stage::new();
        let names: Vec<_> = (0..count).map(|it| name("n", it)).collect();
        for name in &names {
            stage.cluster.namespace(name, json!({"team": "x"}));
        }
        let subject = json!([{
            "kind": "Group", "name": "system:serviceaccounts",
            "namespaceSelector": {"matchLabels": {"team": "x"}},
        }]);
        policy(&stage.cluster, TOOLS, "p", json!({}), subject);
        stage.start("one");
        stage.settle().await;
        follows_the_last(&mut stage, "namespaces", "", &names, 1).await;
        stage
            .proves_right(MINUTE, &format!("{count} namespaces"))
            .await;
    }
}

/// The objects of a policy that was deleted while no process ran are found at the start, on every page. The
/// objects of a policy on a later page stay.
#[tokio::test(start_paused = true)]
async fn policies_of_any_number_of_pages_keep_what_is_theirs_when_a_leader_begins() {
    for count in sizes(POLICY_PAGE) {
        let mut stage = Stage::new();
        let names: Vec<_> = (0..count).map(|it| name("p", it)).collect();
        for (number, policy_name) in names.iter().enumerate() {
            let who = user(&name("u", number));
            policy(&stage.cluster, TOOLS, policy_name, json!({}), who);
        }
        stage.start("one");
        stage.settle().await;
        assert_eq!(stage.judge().held().len(), count);
        stage.kill("one");
        let ends = names.first().into_iter().chain(names.last());
        let ends: std::collections::BTreeSet<_> = ends.cloned().collect();
        for gone in &ends {
            stage.cluster.server.delete("accesspolicies", TOOLS, gone);
        }
        stage.start("two");
        stage.settle().await;
        assert_eq!(stage.judge().held().len(), count - ends.len());
        stage
            .proves_right(MINUTE, &format!("{count} policies"))
            .await;
    }
}

/// Every kind that a policy's permission comes from is deleted while a finalizer keeps it: while the leader
/// runs, and before the start of a leader that has not seen it before.
#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_gives_nothing_any_more_whatever_keeps_it() {
    let accounts = json!({
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "ci"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    });
    let groups = json!({
        "kind": "Group", "name": "system:serviceaccounts",
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    });
    // The last value: the number of permissions that remain of the three connectors, the account and the
    // group of the namespace.
    for (plural, namespace, name, left) in [
        ("connectors", TOOLS, "harbor", 4),
        ("serviceaccounts", "apps", "builder", 3),
        ("namespaces", "", "apps", 0),
        ("accesspolicies", TOOLS, "p", 0),
    ] {
        for is_seen_before in [true, false] {
            let mut stage = Stage::new();
            stage.cluster.namespace("apps", json!({"team": "x"}));
            stage
                .cluster
                .account("apps", "builder", json!({"role": "ci"}));
            for connector in ["harbor-2", "quay"] {
                stage.cluster.connector(connector, json!({}));
            }
            let subjects = json!([accounts, groups]);
            policy(&stage.cluster, TOOLS, "p", json!({}), subjects);
            if is_seen_before {
                stage.start("one");
                stage.settle().await;
                assert_eq!(stage.judge().held().len(), 6);
            }
            delete_and_keep(&stage.cluster.server, plural, namespace, name);
            if !is_seen_before {
                stage.start("one");
            }
            stage.settle().await;
            let told = format!("{plural}, seen before: {is_seen_before}");
            assert_eq!(stage.judge().held().len(), left, "{told}");
            assert!(stage.cluster.server.get(plural, namespace, name).is_some());
            stage.proves_right(MINUTE, &told).await;
        }
    }
}

/// A RoleBinding that has to be replaced, and that a finalizer keeps, is empty before its Role gets new
/// rules. It is also empty before its Role is deleted, because a RoleBinding without its Role cannot be
/// changed.
#[tokio::test(start_paused = true)]
async fn a_kept_binding_is_emptied_before_its_role_changes_or_goes() {
    for is_selected in [true, false] {
        let mut stage = Stage::new();
        policy(&stage.cluster, TOOLS, "p", json!({}), user("ann"));
        stage.start("one");
        stage.settle().await;
        let server = &stage.cluster.server;
        let uid = server.get("accesspolicies", TOOLS, "p").unwrap()["metadata"]["uid"].clone();
        let name = format!("policy-{}", uid.as_str().unwrap());
        server.change("rolebindings", TOOLS, &name, |it| {
            it["metadata"]["finalizers"] = json!([crate::stage::KEEPER]);
        });
        stage.cluster.edit("p", |spec| {
            if is_selected {
                let permission = &mut spec["defaultPermission"];
                permission["bindingTemplate"]["subjects"] = user("bob");
                permission["roleTemplate"]["rules"][0]["verbs"] = json!(["write"]);
            } else {
                spec["connector"] = json!({"names": ["none"]});
            }
        });
        stage.settle().await;
        assert_eq!(stage.judge().held().len(), usize::from(is_selected));
        if !is_selected {
            stage
                .cluster
                .edit("p", |spec| spec["connector"] = json!({}));
            stage.settle().await;
        }
        assert_eq!(stage.judge().held().len(), 1);
        stage
            .proves_right(MINUTE, &format!("selected: {is_selected}"))
            .await;
    }
}

/// A managed object that a foreign finalizer keeps is emptied, with each kind of end of its policy.
#[tokio::test(start_paused = true)]
async fn a_kept_role_or_binding_is_emptied_and_what_is_given_later_is_given_all_the_same() {
    for plural in ["roles", "rolebindings"] {
        for is_gone in [true, false] {
            let mut stage = Stage::new();
            policy(&stage.cluster, TOOLS, "p", json!({}), user("ann"));
            stage.start("one");
            stage.settle().await;
            let object = stage.cluster.server.list(plural).into_iter();
            let mut ours = object.filter(|it| {
                it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
            });
            let name = ours.next().unwrap()["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            stage.cluster.server.change(plural, TOOLS, &name, |it| {
                it["metadata"]["finalizers"] = json!([crate::stage::KEEPER]);
            });
            if is_gone {
                stage.cluster.server.delete("accesspolicies", TOOLS, "p");
            } else {
                stage
                    .cluster
                    .edit("p", |spec| spec["connector"] = json!({"names": ["none"]}));
            }
            stage.settle().await;
            assert!(stage.judge().held().is_empty());
            policy(&stage.cluster, TOOLS, "p-2", json!({}), user("ann"));
            stage.settle().await;
            assert_eq!(stage.judge().held().len(), 1);
            // While its Role is missing a binding cannot be emptied. The controller tries that again from
            // time to time.
            let_go(&stage.cluster.server, plural, TOOLS, &name);
            stage.settle().await;
            stage
                .proves_right(MINUTE, &format!("{plural}, gone: {is_gone}"))
                .await;
        }
    }
}
