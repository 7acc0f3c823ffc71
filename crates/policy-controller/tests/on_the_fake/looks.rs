//! What a look costs, and how many looks a change takes. The events of the controller's own writes say nothing new.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use testkit::{CallFault, CallPoint, EventFault, EventKind, EventPoint, Faults, Verb};
use tokio::time::sleep;

use crate::support::{Cluster, TOOLS, soon};

/// What becomes of the events of the kinds that the controller writes, their first lists apart.
struct OnOwnEvents(EventFault);

impl Faults for OnOwnEvents {
    fn on_call(&self, _: &CallPoint) -> CallFault {
        CallFault::None
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        let is_written = ["accesspolicies", "roles", "rolebindings"];
        if is_written.contains(&&*point.resource) && point.kind != EventKind::InitialList {
            self.0.clone()
        } else {
            EventFault::None
        }
    }
}

fn late(by: Duration) -> Arc<OnOwnEvents> {
    Arc::new(OnOwnEvents(EventFault::Delay(by)))
}

fn alice() -> Value {
    json!([{"kind": "User", "name": "alice"}])
}

/// Reads of policies, and lists of connectors, Roles and RoleBindings.
fn reads(cluster: &Cluster, since: usize) -> [usize; 4] {
    [
        cluster.calls_of(Verb::Get, "accesspolicies", since),
        cluster.lists_of("connectors", since),
        cluster.lists_of("roles", since),
        cluster.lists_of("rolebindings", since),
    ]
}

const WRITES: [&str; 3] = [
    "create roles",
    "create rolebindings",
    "patch accesspolicies",
];

#[tokio::test(start_paused = true)]
async fn a_policy_from_nothing_costs_one_look_whenever_the_events_of_its_writes_come() {
    // Each event waits for those before it.
    for (by, policies) in [(0, 40), (20, 40), (500, 4), (4000, 1)] {
        let by = Duration::from_millis(by);
        let cluster = Cluster::new();
        let _process = cluster.start("one");
        soon().await;
        cluster.server.set_faults(late(by));
        let since = cluster.now();
        for number in 0..policies {
            cluster.policy(&format!("p{number}"), json!({}), alice());
        }
        soon().await;
        soon().await;
        let [looks, lists @ ..] = reads(&cluster, since);
        assert_eq!(looks, policies, "{by:?}");
        // Looks that wait at the same time share them.
        assert!(lists.iter().all(|it| *it <= looks), "{lists:?}");
        let writes = cluster.writes(since);
        assert_eq!(writes.len(), WRITES.len() * policies, "{by:?}");
        for kind in WRITES {
            let of_kind = writes.iter().filter(|it| it.starts_with(kind));
            assert_eq!(of_kind.count(), policies, "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_costs_one_look_whenever_the_events_of_its_writes_come() {
    for by in [0, 500, 5000].map(Duration::from_millis) {
        let cluster = Cluster::new();
        let users =
            |names: [&str; 2]| json!(names.map(|name| json!({"kind": "User", "name": name})));
        cluster.policy("p", json!({}), users(["alice", "dave"]));
        let _process = cluster.start("one");
        soon().await;
        cluster.server.set_faults(late(by));
        let since = cluster.now();
        // The RoleBinding loses a subject first, and gets another one after the Role has other rules.
        cluster.edit("p", |spec| {
            let given = &mut spec["defaultPermission"];
            given["roleTemplate"]["rules"][0]["verbs"] = json!(["*"]);
            given["bindingTemplate"]["subjects"] = users(["alice", "bob"]);
        });
        soon().await;
        soon().await;
        assert_eq!(reads(&cluster, since), [1; 4], "{by:?}");
        assert!(cluster.may("bob", "*", "harbor").await);
        assert!(!cluster.may("dave", "read", "harbor").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_another_client_before_the_event_of_the_write_is_undone() {
    type Change = fn(&Cluster, &str);
    let changes: [Change; 4] = [
        |cluster, name| {
            cluster.server.change("rolebindings", TOOLS, name, |it| {
                it["subjects"][0]["name"] = json!("mallory");
            });
        },
        |cluster, name| {
            cluster.server.change("roles", TOOLS, name, |it| {
                it["rules"][0]["verbs"] = json!(["*"]);
            });
        },
        |cluster, name| cluster.server.delete("rolebindings", TOOLS, name),
        |cluster, name| cluster.server.delete("roles", TOOLS, name),
    ];
    for change in changes {
        let cluster = Cluster::new();
        let _process = cluster.start("one");
        soon().await;
        cluster.server.set_faults(late(Duration::from_secs(2)));
        let uid = cluster.policy("p", json!({}), alice());
        while !cluster.may("alice", "read", "harbor").await {
            sleep(Duration::from_millis(10)).await;
        }
        change(&cluster, &format!("policy-{uid}"));
        soon().await;
        assert!(cluster.may("alice", "read", "harbor").await);
        assert!(!cluster.may("alice", "*", "harbor").await);
        assert!(!cluster.may("mallory", "read", "harbor").await);
        assert_eq!(cluster.objects().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_event_never_comes_is_looked_at_once_more() {
    let cluster = Cluster::new();
    let _process = cluster.start("one");
    soon().await;
    let since = cluster.now();
    let uid = cluster.policy("p", json!({}), alice());
    let silent = Arc::new(OnOwnEvents(EventFault::Silence));
    // The event of the policy itself is under way.
    sleep(Duration::from_millis(1)).await;
    cluster.server.set_faults(silent);
    soon().await;
    soon().await;
    let [looks, ..] = reads(&cluster, since);
    assert!((1..=2).contains(&looks), "{looks}");
    assert_eq!(cluster.writes(since).len(), WRITES.len());
    assert!(cluster.objects().contains(&format!("Role policy-{uid}")));
}
