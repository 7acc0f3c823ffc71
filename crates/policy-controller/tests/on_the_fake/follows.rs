//! The permissions of all subjects, before and after each change of the world.

use serde_json::{Value, json};

use crate::support::{Cluster, TOOLS, soon};

const BUILDER: &str = "system:serviceaccount:devops-ns1:builder";

#[tokio::test(start_paused = true)]
async fn a_policy_is_put_in_force_and_told() {
    let cluster = Cluster::new();
    let uid = cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    assert!(!cluster.may("alice", "*", "harbor").await);
    assert!(!cluster.may("alice", "read", "other").await);
    assert!(!cluster.may("bob", "read", "harbor").await);
    let name = format!("policy-{uid}");
    let objects: Vec<_> = cluster.objects().into_iter().collect();
    assert_eq!(
        objects,
        [format!("Role {name}"), format!("RoleBinding {name}")]
    );
    assert_eq!(
        cluster.conditions("p"),
        [
            "ConnectorsMatched=True ConnectorsMatched",
            "PermissionSynced=True PermissionGranted",
            "ChecksValid=True NoChecks",
            "Ready=True Ready"
        ]
    );
    let policy = cluster.server.get("accesspolicies", TOOLS, "p").unwrap();
    assert_eq!(policy["status"]["grantedSubjects"], 1);
    assert_eq!(
        policy["status"]["matchedConnectors"],
        json!([{"name": "harbor"}])
    );
    assert_eq!(
        cluster.events(),
        ["PermissionGranted: User alice may now use read on connectors/apis of connectors harbor"]
    );
}

#[tokio::test(start_paused = true)]
async fn each_example_of_the_source_document_grants_what_its_text_says() {
    let own = "system:serviceaccount:tools:builder";
    let deployer = "system:serviceaccount:tools:deployer";
    let default = "system:serviceaccount:devops-ns1:default";
    let elsewhere = "system:serviceaccount:elsewhere:default";
    for (subject, yes, no) in [
        // One account, with empty selectors beside its name.
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:devops-ns1:default", "nameSelector": {}, "namespaceSelector": {}}),
            vec![default],
            vec![BUILDER, own, elsewhere],
        ),
        // All accounts of one namespace.
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:devops-ns1"}),
            vec![default, BUILDER],
            vec![own, elsewhere],
        ),
        // All accounts of the namespaces of a project.
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {"cpaas.io/project": "devops"}}}),
            vec![default, BUILDER],
            vec![own, deployer, elsewhere],
        ),
        // Accounts of the own namespace by label.
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"tekton.dev/pipeline": "deploy-prod"}}}),
            vec![deployer],
            vec![own, default, BUILDER, elsewhere],
        ),
    ] {
        let cluster = Cluster::new();
        cluster.namespace("elsewhere", json!({}));
        let label = json!({"tekton.dev/pipeline": "deploy-prod"});
        cluster.account(TOOLS, "deployer", label.clone());
        cluster.account("devops-ns1", "builder", label);
        cluster.policy("p", json!({}), json!([subject]));
        let _process = cluster.start("one");
        soon().await;
        for who in yes {
            assert!(
                cluster.may(who, "read", "harbor").await,
                "{who} by {subject}"
            );
            assert!(!cluster.may(who, "*", "harbor").await, "{who} by {subject}");
        }
        for who in no {
            assert!(
                !cluster.may(who, "read", "harbor").await,
                "{who} by {subject}"
            );
        }
    }
}

fn project() -> Value {
    json!([{"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": {"matchLabels": {"cpaas.io/project": "devops"}}}])
}

#[tokio::test(start_paused = true)]
async fn connectors_come_go_and_get_other_labels() {
    let cluster = Cluster::new();
    let oci = json!({"selector": {"matchLabels": {"class": "oci"}}});
    cluster.policy("p", oci, json!([{"kind": "User", "name": "alice"}]));
    let _process = cluster.start("one");
    soon().await;
    cluster.connector("quay", json!({"class": "oci"}));
    cluster.connector("git", json!({"class": "git"}));
    soon().await;
    assert!(cluster.may("alice", "read", "quay").await);
    assert!(!cluster.may("alice", "read", "git").await);
    cluster.server.change("connectors", TOOLS, "git", |it| {
        it["metadata"]["labels"]["class"] = json!("oci");
    });
    cluster.server.change("connectors", TOOLS, "quay", |it| {
        it["metadata"]["labels"]["class"] = json!("npm");
    });
    soon().await;
    assert!(cluster.may("alice", "read", "git").await);
    assert!(!cluster.may("alice", "read", "quay").await);
    cluster.server.delete("connectors", TOOLS, "git");
    cluster.server.delete("connectors", TOOLS, "harbor");
    soon().await;
    assert!(!cluster.may("alice", "read", "harbor").await);
    assert!(
        cluster.objects().is_empty(),
        "without a connector there is no Role"
    );
    assert_eq!(
        cluster.conditions("p")[0],
        "ConnectorsMatched=False NoConnectorMatched"
    );
    cluster.connector("harbor", json!({"class": "oci"}));
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn a_class_selects_its_connectors_whatever_their_labels_say() {
    let cluster = Cluster::new();
    for (policy, user, key) in [
        ("p", "alice", "connectors.cpaas.io/connectorclass"),
        ("q", "bob", "connectors.alauda.io/connectorclass"),
    ] {
        let oci = json!({"selector": {"matchLabels": {key: "oci"}}});
        cluster.policy(policy, oci, json!([{"kind": "User", "name": user}]));
        cluster.server.change("connectors", TOOLS, "harbor", |it| {
            it["metadata"]["labels"][key] = json!("oci");
        });
    }
    let _process = cluster.start("one");
    soon().await;
    for user in ["alice", "bob"] {
        // Its class is another one.
        assert!(!cluster.may(user, "read", "harbor").await, "{user}");
    }
    cluster.server.change("connectors", TOOLS, "harbor", |it| {
        it["metadata"]["labels"] = json!({});
        it["spec"]["connectorClassName"] = json!("oci");
    });
    soon().await;
    for user in ["alice", "bob"] {
        assert!(cluster.may(user, "read", "harbor").await, "{user}");
    }
    cluster.server.change("connectors", TOOLS, "harbor", |it| {
        it["spec"]["connectorClassName"] = json!("git");
    });
    soon().await;
    for user in ["alice", "bob"] {
        assert!(!cluster.may(user, "read", "harbor").await, "{user}");
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_come_go_and_get_other_labels() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), project());
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may(BUILDER, "read", "harbor").await);
    let second = "system:serviceaccount:devops-ns2:builder";
    cluster.namespace("devops-ns2", json!({"cpaas.io/project": "devops"}));
    soon().await;
    assert!(cluster.may(second, "read", "harbor").await);
    cluster.server.change("namespaces", "", "devops-ns1", |it| {
        it["metadata"]["labels"] = json!({});
    });
    soon().await;
    assert!(!cluster.may(BUILDER, "read", "harbor").await);
    assert!(cluster.may(second, "read", "harbor").await);
    cluster.server.delete("namespaces", "", "devops-ns2");
    soon().await;
    assert!(!cluster.may(second, "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=True NothingToGrant"
    );
}

#[tokio::test(start_paused = true)]
async fn service_accounts_come_go_and_get_other_labels() {
    let cluster = Cluster::new();
    let subject = json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}},
        "namespaceSelector": {"matchLabels": {"cpaas.io/project": "devops"}}});
    cluster.policy("p", json!({}), json!([subject]));
    let _process = cluster.start("one");
    soon().await;
    assert!(!cluster.may(BUILDER, "read", "harbor").await);
    cluster.account("devops-ns1", "builder", json!({"role": "builder"}));
    cluster.account(TOOLS, "builder", json!({"role": "builder"}));
    soon().await;
    assert!(cluster.may(BUILDER, "read", "harbor").await);
    assert!(
        !cluster
            .may("system:serviceaccount:tools:builder", "read", "harbor")
            .await
    );
    cluster
        .server
        .change("serviceaccounts", "devops-ns1", "builder", |it| {
            it["metadata"]["labels"] = json!({"role": "tester"});
        });
    soon().await;
    assert!(!cluster.may(BUILDER, "read", "harbor").await);
    assert!(cluster.objects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn selectors_of_the_own_and_of_other_namespaces_find_their_accounts_side_by_side() {
    let by_label = |role: &str| json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": role}}});
    let own = by_label("builder");
    let mut elsewhere = by_label("tester");
    elsewhere["namespaceSelector"] = json!({"matchLabels": {"cpaas.io/project": "devops"}});
    for subjects in [[&own, &elsewhere], [&elsewhere, &own]] {
        let cluster = Cluster::new();
        cluster.account(TOOLS, "builder", json!({"role": "builder"}));
        cluster.account("devops-ns1", "builder", json!({"role": "tester"}));
        cluster.policy("p", json!({}), json!(subjects));
        let _process = cluster.start("one");
        soon().await;
        for account in ["system:serviceaccount:tools:builder", BUILDER] {
            let may = cluster.may(account, "read", "harbor").await;
            assert!(may, "{account}: {subjects:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn policies_are_edited_and_deleted() {
    let cluster = Cluster::new();
    cluster.server.collect_garbage(None);
    cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    let _process = cluster.start("one");
    soon().await;
    let told = cluster.events().len();
    cluster.edit("p", |spec| {
        let given = &mut spec["defaultPermission"];
        given["roleTemplate"]["rules"][0]["verbs"] = json!(["*"]);
        given["bindingTemplate"]["subjects"] = json!([{"kind": "User", "name": "bob"}]);
    });
    soon().await;
    assert!(cluster.may("bob", "*", "harbor").await);
    assert!(!cluster.may("alice", "read", "harbor").await);
    cluster.server.delete("accesspolicies", TOOLS, "p");
    soon().await;
    assert!(!cluster.may("bob", "*", "harbor").await);
    assert!(
        cluster.objects().is_empty(),
        "nobody else collects garbage here"
    );
    assert_eq!(cluster.events().len(), told + 3, "{:?}", cluster.events());
    assert_eq!(
        cluster.events().last().unwrap(),
        "PermissionRevoked: the policy was deleted: its 1 subjects may no longer use connectors harbor by it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_something_keeps_from_going_counts_as_gone() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    cluster.server.change("accesspolicies", TOOLS, "p", |it| {
        it["metadata"]["finalizers"] = json!(["example.com/keep"]);
    });
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    cluster.server.delete("accesspolicies", TOOLS, "p");
    soon().await;
    assert!(!cluster.may("alice", "read", "harbor").await);
    assert!(cluster.objects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn policies_are_independent_of_each_other() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    cluster.policy(
        "q",
        json!({"names": ["harbor"]}),
        json!([{"kind": "User", "name": "alice"}]),
    );
    let _process = cluster.start("one");
    soon().await;
    assert_eq!(cluster.objects().len(), 4);
    cluster.server.delete("accesspolicies", TOOLS, "p");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await, "by q");
    assert_eq!(cluster.objects().len(), 2);
}

/// A list of all accounts is the dearest thing that a look does.
#[tokio::test(start_paused = true)]
async fn many_selectors_cost_one_list_of_accounts() {
    let lists = |subjects: usize| async move {
        let cluster = Cluster::new();
        let _process = cluster.start("one");
        soon().await;
        let since = cluster.now();
        let by_label = |number: usize| {
            json!({
                "kind": "ServiceAccount",
                "nameSelector": {"matchLabels": {"team": number.to_string()}},
                "namespaceSelector": {"matchLabels": {"team": "b"}},
            })
        };
        let subjects: Vec<_> = (0..subjects).map(by_label).collect();
        cluster.policy("p", json!({}), json!(subjects));
        soon().await;
        let named = cluster.conditions("p");
        assert!(named[1].starts_with("PermissionSynced=True"), "{named:?}");
        cluster.lists_of("serviceaccounts", since)
    };
    let one = lists(1).await;
    assert!(one > 0);
    assert_eq!(lists(16).await, one);
}
