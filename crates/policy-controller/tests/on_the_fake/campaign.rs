//! One life of a policy, broken at every write in every way: nobody ever holds what neither the old nor the
//! new state of the world gives, and in the end everybody holds what he should.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use testkit::{CallFault, CallPoint, EventFault, EventPoint, Faults, What};
use tokio::time::sleep;

use crate::support::{Cluster, TOOLS};

/// Somebody, a verb and a connector.
type Access = BTreeSet<(String, String, String)>;

/// Breaks the n-th write of controllers.
struct Nth {
    number: usize,
    seen: AtomicUsize,
    fault: CallFault,
}

impl Faults for Nth {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let is_ours = point.user.ends_with(":policy-controller") && point.resource != "leases";
        if !is_ours
            || !point.verb.writes()
            || self.seen.fetch_add(1, Ordering::SeqCst) != self.number
        {
            return CallFault::None;
        }
        self.fault.clone()
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

/// What Roles and RoleBindings of the namespace give.
fn access(objects: &BTreeMap<(String, String), Arc<Value>>) -> Access {
    let mut access = Access::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for ((plural, _), binding) in objects {
        let role = ("roles".to_owned(), text(&binding["roleRef"]["name"]));
        let Some(role) = objects.get(&role).filter(|_| plural == "rolebindings") else {
            continue;
        };
        for subject in list(&binding["subjects"]) {
            for rule in list(&role["rules"]) {
                for verb in list(&rule["verbs"]) {
                    for connector in list(&rule["resourceNames"]) {
                        access.insert((text(&subject["name"]), text(&verb), text(&connector)));
                    }
                }
            }
        }
    }
    access
}

fn all(names: &[&str], verbs: &[&str], connectors: &[&str]) -> Access {
    let mut access = Access::new();
    for name in names {
        for verb in verbs {
            for connector in connectors {
                access.insert((
                    (*name).to_owned(),
                    (*verb).to_owned(),
                    (*connector).to_owned(),
                ));
            }
        }
    }
    access
}

fn users(names: &[&str]) -> Value {
    let user = |name: &&str| json!({"kind": "User", "name": name});
    names.iter().map(user).collect()
}

/// How the world changes.
type Change = fn(&Cluster);

/// The states of the world, one after the other, and how each comes to be.
fn life() -> Vec<(Access, Change)> {
    vec![
        (all(&["alice", "bob"], &["read"], &["harbor"]), |cluster| {
            cluster.policy("p", json!({}), users(&["alice", "bob"]));
        }),
        // Other people and other verbs at once: nobody of the old ones may see the new verbs.
        (all(&["bob", "carol"], &["write"], &["harbor"]), |cluster| {
            cluster.edit("p", |spec| {
                let given = &mut spec["defaultPermission"];
                given["roleTemplate"]["rules"][0]["verbs"] = json!(["write"]);
                given["bindingTemplate"]["subjects"] = users(&["bob", "carol"]);
            });
        }),
        (
            all(&["bob", "carol"], &["write"], &["harbor", "quay"]),
            |cluster| {
                cluster.connector("quay", json!({}));
            },
        ),
        (all(&["bob", "carol"], &["write"], &["quay"]), |cluster| {
            cluster.server.delete("connectors", TOOLS, "harbor");
        }),
        (Access::new(), |cluster| {
            cluster.server.delete("accesspolicies", TOOLS, "p");
        }),
    ]
}

/// Lives it, and says how many writes that took.
async fn live(faults: Arc<Nth>, name: &str) -> usize {
    let cluster = Cluster::new();
    cluster.server.collect_garbage(None);
    cluster.server.set_faults(faults.clone());
    let mut process = cluster.start("one");
    sleep(Duration::from_secs(5)).await;
    let mut old = Access::new();
    let mut objects = BTreeMap::new();
    for (number, (new, step)) in life().into_iter().enumerate() {
        let since = cluster.now();
        step(&cluster);
        sleep(Duration::from_secs(15)).await;
        let was_killed = |it: &testkit::Entry| matches!(&it.what, What::Killed(_));
        if cluster.server.log_since(since).iter().any(was_killed) {
            cluster.kill(&process);
            process = cluster.start(&format!("successor-{number}"));
            sleep(Duration::from_secs(40)).await;
        }
        for entry in cluster.server.log_since(since) {
            let What::Change(change) = entry.what else {
                continue;
            };
            if change.namespace != TOOLS
                || !["roles", "rolebindings"].contains(&change.plural.as_str())
            {
                continue;
            }
            let key = (change.plural, change.name);
            match change.after {
                Some(after) => objects.insert(key, after),
                None => objects.remove(&key),
            };
            let now = access(&objects);
            let wider: Access = now
                .iter()
                .filter(|it| !old.contains(*it) && !new.contains(*it))
                .cloned()
                .collect();
            assert_eq!(wider, Access::new(), "{name}: in step {number}");
        }
        assert_eq!(access(&objects), new, "{name}: after step {number}");
        old = new;
    }
    assert!(cluster.objects().is_empty(), "{name}");
    faults.seen.load(Ordering::SeqCst)
}

fn nth(number: usize, fault: CallFault) -> Arc<Nth> {
    Arc::new(Nth {
        number,
        seen: AtomicUsize::new(0),
        fault,
    })
}

/// Breaks each write of its own life in one way.
async fn break_each(fault: CallFault) {
    let writes = live(nth(usize::MAX, CallFault::None), "without a fault").await;
    // Fewer would not reach every kind of write; more would mean that some are redundant.
    assert!((12..=24).contains(&writes), "{writes}");
    for number in 0..writes {
        let name = format!("{fault:?} at write {number}");
        live(nth(number, fault.clone()), &name).await;
    }
}

const fn refused(code: u16) -> CallFault {
    CallFault::Refuse {
        code,
        retry_after: None,
    }
}

macro_rules! each_write {
    ($($name:ident $fault:expr;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            break_each($fault).await;
        }
    )+};
}

each_write! {
    a_write_may_meet_a_conflict refused(409);
    a_write_may_be_one_too_many refused(429);
    a_write_may_meet_a_broken_server refused(500);
    a_write_may_never_arrive CallFault::LoseRequest;
    a_write_may_be_made_and_its_answer_lost CallFault::LoseAnswer;
    a_write_may_hang CallFault::HangBefore;
    a_write_may_be_made_and_never_answered CallFault::HangAfter;
    a_write_may_come_late CallFault::Delay(Duration::from_secs(8));
    an_answer_may_be_garbage CallFault::Garbage;
    a_process_may_end_before_a_write CallFault::KillBefore;
    a_process_may_end_after_a_write CallFault::KillAfter;
}
