//! Policies that cannot be put in force, processes that were away, and two that lead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use testkit::{CallFault, CallPoint, EventFault, EventPoint, Faults, Lag, Verb};
use tokio::time::sleep;

use crate::support::{Cluster, SYSTEMS, TOOLS, reading, soon};

fn alice() -> Value {
    json!([{"kind": "User", "name": "alice"}])
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_is_not_written_to() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), alice());
    cluster.policy("nothing", json!({"names": ["not-there"]}), alice());
    cluster.policy(
        "odd",
        json!({}),
        json!([{"kind": "ServiceAccount", "nameSelector": {}}]),
    );
    let _process = cluster.start("one");
    soon().await;
    let since = cluster.now();
    sleep(Duration::from_mins(30)).await;
    assert_eq!(cluster.writes(since), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_depends_on_the_switch() {
    let cluster = Cluster::new();
    for map in cluster.server.list("configmaps") {
        assert!(map["data"]["enable-connectors-approval"].is_null(), "{map}");
    }
    cluster.policy("p", json!({}), alice());
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_read_gives_nothing_any_more_and_says_why_once() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), alice());
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    cluster.edit("p", |spec| spec["connector"] = json!({"name": ["harbor"]}));
    soon().await;
    assert!(!cluster.may("alice", "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False PolicyUnreadable"
    );
    let policy = cluster.server.get("accesspolicies", TOOLS, "p").unwrap();
    let message = policy["status"]["conditions"][1]["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("spec.connector.name") && message.contains("names"),
        "{message}"
    );
    let since = cluster.now();
    sleep(Duration::from_mins(30)).await;
    assert_eq!(cluster.writes(since), [""; 0]);
    cluster.edit("p", |spec| spec["connector"] = json!({"names": ["harbor"]}));
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn rules_that_no_policy_may_hand_out_give_nothing() {
    let cluster = Cluster::new();
    let mut spec = reading(json!({}), alice());
    spec["defaultPermission"]["roleTemplate"]["rules"][0]["resources"] = json!(["connectors/*"]);
    cluster.put(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": TOOLS}, "spec": spec,
    }));
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.objects().is_empty());
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False RulesInvalid"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_told_and_tried_again() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), alice());
    let take = |cluster: &Cluster, verbs| {
        cluster
            .server
            .change("clusterroles", "", "connectors-policy-controller", |it| {
                it["rules"][1]["verbs"] = verbs;
            });
    };
    take(&cluster, json!(["get", "list", "watch"]));
    let _process = cluster.start("one");
    soon().await;
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False WriteFailed"
    );
    take(
        &cluster,
        json!(["get", "list", "watch", "create", "patch", "delete"]),
    );
    sleep(Duration::from_mins(3)).await;
    assert!(cluster.may("alice", "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=True PermissionGranted"
    );
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_was_there_is_made_good_at_the_start() {
    let cluster = Cluster::new();
    cluster.server.collect_garbage(None);
    cluster.policy("p", json!({}), alice());
    cluster.policy("q", json!({}), json!([{"kind": "User", "name": "bob"}]));
    cluster.connector("quay", json!({}));
    let first = cluster.start("one");
    soon().await;
    cluster.kill(&first);
    cluster.server.delete("accesspolicies", TOOLS, "q");
    cluster.server.delete("connectors", TOOLS, "harbor");
    cluster.policy("r", json!({}), json!([{"kind": "User", "name": "carol"}]));
    soon().await;
    assert!(
        cluster.may("bob", "read", "harbor").await,
        "nobody is there"
    );
    let since = cluster.now();
    let _second = cluster.start("two");
    sleep(Duration::from_mins(1)).await;
    assert!(!cluster.may("bob", "read", "harbor").await);
    assert!(!cluster.may("alice", "read", "harbor").await);
    assert!(cluster.may("alice", "read", "quay").await);
    assert!(cluster.may("carol", "read", "quay").await);
    let writes = cluster.writes(since);
    assert!(writes[0].starts_with("delete rolebindings"), "{writes:?}");
    assert!(writes[1].starts_with("delete roles"), "{writes:?}");
    let given = writes
        .iter()
        .position(|it| it.starts_with("create"))
        .unwrap();
    let taken = writes
        .iter()
        .position(|it| it.starts_with("patch roles"))
        .unwrap();
    assert!(taken < given, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn the_follower_goes_on_when_the_leader_is_gone() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), alice());
    let first = cluster.start("one");
    soon().await;
    let _second = cluster.start("two");
    soon().await;
    cluster.kill(&first);
    cluster.edit("p", |spec| {
        spec["defaultPermission"]["bindingTemplate"]["subjects"] =
            json!([{"kind": "User", "name": "bob"}]);
    });
    sleep(Duration::from_mins(1)).await;
    assert!(cluster.may("bob", "read", "harbor").await);
    assert!(!cluster.may("alice", "read", "harbor").await);
}

#[tokio::test(start_paused = true)]
async fn two_that_lead_agree_though_one_is_far_behind() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), alice());
    let _first = cluster.start("one");
    let _second = cluster.start_in(SYSTEMS[1], "two");
    soon().await;
    let lag = Lag {
        versions: 40,
        at_most: Duration::from_mins(2),
    };
    cluster.server.set_watch_lag("two", Some(lag));
    for user in ["bob", "carol", "dave"] {
        let since = cluster.now();
        cluster.edit("p", |spec| {
            spec["defaultPermission"]["bindingTemplate"]["subjects"] =
                json!([{"kind": "User", "name": user}]);
        });
        soon().await;
        assert!(cluster.may(user, "read", "harbor").await);
        let writes = cluster.writes(since);
        assert!(writes.len() <= 6, "{writes:?}");
    }
    assert!(!cluster.may("bob", "read", "harbor").await);
    sleep(Duration::from_mins(6)).await;
    let since = cluster.now();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.writes(since), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_away_keeps_nothing_else_from_going() {
    let cluster = Cluster::new();
    let stray = |uid: &str, name: &str, role: &str, finalizers: Value| {
        let labels = json!({"app.kubernetes.io/managed-by": "connectors-approval", "connectors.alauda.io/accessPolicyUid": uid});
        cluster.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": TOOLS, "labels": labels, "finalizers": finalizers},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}],
        }));
    };
    // A binding to a missing Role cannot be written, not even to empty it.
    stray("a", "policy-a", "missing", json!(["example.com/keep"]));
    cluster.server.delete("rolebindings", TOOLS, "policy-a");
    // Others of the same policy, before it and behind it.
    stray("a", "policy-0", "policy-0", json!([]));
    stray("a", "policy-z", "policy-z", json!([]));
    stray("b", "policy-b", "policy-b", json!([]));
    let _process = cluster.start("one");
    sleep(Duration::from_millis(100)).await;
    let left = |name: &str| cluster.server.get("rolebindings", TOOLS, name).is_some();
    assert!(left("policy-a"));
    for name in ["policy-0", "policy-z", "policy-b"] {
        assert!(!left(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_configuration_permissions_by_name_hold_and_nothing_waits() {
    let cluster = Cluster::new();
    for system in SYSTEMS {
        cluster
            .server
            .delete("configmaps", system, "connectors-config");
    }
    let project = json!({"matchLabels": {"cpaas.io/project": "devops"}});
    let group =
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project});
    cluster.policy(
        "p",
        json!({}),
        json!([{"kind": "User", "name": "alice"}, group]),
    );
    let _process = cluster.start("one");
    soon().await;
    assert!(cluster.may("alice", "read", "harbor").await);
    let builder = "system:serviceaccount:devops-ns1:builder";
    assert!(!cluster.may(builder, "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False SubjectsInvalid"
    );
}

/// The keys of an installation count at once, and a process that starts gives and takes nothing before it knows them.
#[tokio::test(start_paused = true)]
async fn a_key_that_the_installation_names_counts_at_once_and_until_it_does_not() {
    let cluster = Cluster::new();
    let project = json!({"matchLabels": {"cpaas.io/project": "devops"}});
    let group =
        json!([{"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project}]);
    cluster.policy("p", json!({}), group);
    let process = cluster.start("one");
    soon().await;
    let builder = "system:serviceaccount:devops-ns1:builder";
    assert!(cluster.may(builder, "read", "harbor").await);
    cluster.kill(&process);
    let since = cluster.now();
    let _process = cluster.start("two");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        cluster.writes(since),
        [""; 0],
        "nothing was taken meanwhile"
    );
    let name = |keys: &str| {
        cluster
            .server
            .change("configmaps", SYSTEMS[0], "connectors-config", |it| {
                it["data"]["namespace-selector-keys"] = json!(keys);
            });
    };
    name(r#"["kubernetes.io/metadata.name"]"#);
    soon().await;
    assert!(!cluster.may(builder, "read", "harbor").await);
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False SubjectsInvalid"
    );
    let policy = cluster.server.get("accesspolicies", TOOLS, "p").unwrap();
    let message = policy["status"]["conditions"][1]["message"].to_string();
    for word in ["cpaas.io/project", "policies.namespaceSelectorKeys"] {
        assert!(message.contains(word), "{message}");
    }
    name("no list");
    soon().await;
    assert!(!cluster.may(builder, "read", "harbor").await);
    name(r#"["cpaas.io/project"]"#);
    soon().await;
    assert!(cluster.may(builder, "read", "harbor").await);
}

/// The lists that are read for a policy: of what it gave, and of what it selects from.
const LISTS: [&str; 5] = [
    "roles",
    "rolebindings",
    "connectors",
    "namespaces",
    "serviceaccounts",
];

/// Answers these lists so many milliseconds late.
#[derive(Default)]
struct SlowLists(AtomicU64);

impl Faults for SlowLists {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let delay = self.0.load(Ordering::Relaxed);
        if delay > 0 && point.verb == Verb::List && LISTS.contains(&&*point.resource) {
            CallFault::Delay(Duration::from_millis(delay))
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

/// A policy of a user and of service accounts that labels select: it needs all lists.
fn selecting(cluster: &Cluster) {
    let subject = json!({
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"app": "ci"}},
        "namespaceSelector": {"matchLabels": {"cpaas.io/project": "devops"}},
    });
    let subjects = json!([{"kind": "User", "name": "alice"}, subject]);
    cluster.policy("p", json!({}), subjects);
}

/// An API server may wait for a tenth of a second before each list.
#[tokio::test(start_paused = true)]
async fn five_lists_for_a_policy_take_the_time_of_one() {
    let cluster = Cluster::new();
    let slow = Arc::new(SlowLists::default());
    cluster.server.set_faults(slow.clone());
    let _process = cluster.start("one");
    soon().await;
    slow.0.store(1000, Ordering::Relaxed);
    let since = cluster.now();
    selecting(&cluster);
    sleep(Duration::from_millis(1500)).await;
    for resource in LISTS {
        assert_eq!(cluster.lists_of(resource, since), 1, "{resource}");
    }
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=True PermissionGranted"
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_takes_too_long_to_read_is_looked_at_less_and_less_and_told_once() {
    let cluster = Cluster::new();
    cluster.connector("quay", json!({}));
    let slow = Arc::new(SlowLists::default());
    cluster.server.set_faults(slow.clone());
    let _process = cluster.start("one");
    soon().await;
    // Two pages of a list take longer than reads may be old.
    cluster.server.page_at_most(1);
    slow.0.store(2700, Ordering::Relaxed);
    let since = cluster.now();
    selecting(&cluster);
    // The objects from which it selects change all the time.
    for number in 0..300 {
        sleep(Duration::from_secs(4)).await;
        let project = if number % 2 == 0 { "devops" } else { "other" };
        cluster.server.change("namespaces", "", "devops-ns1", |it| {
            it["metadata"]["labels"]["cpaas.io/project"] = json!(project);
        });
    }
    let looks = cluster.lists_of("connectors", since) / 2;
    assert!((5..30).contains(&looks), "{looks} looks");
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=False ReadTooSlow"
    );
    assert_eq!(cluster.writes(since), ["patch accesspolicies p"]);
    let told = cluster.events();
    let told = told.iter().filter(|it| it.contains("took too long"));
    assert_eq!(told.count(), 1);
    slow.0.store(0, Ordering::Relaxed);
    sleep(Duration::from_mins(3)).await;
    assert_eq!(
        cluster.conditions("p")[1],
        "PermissionSynced=True PermissionGranted"
    );
}
