//! One life of a policy, broken at every write, read and event: nobody ever holds what neither the old nor the
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
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, SYSTEMS, TOOLS};

/// Somebody, a verb and a connector.
type Access = BTreeSet<(String, String, String)>;

/// Which of a controller's doings is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Write,
    Read,
    Event,
}

/// How it is broken.
#[derive(Clone, Debug)]
enum Fault {
    Call(CallFault),
    Event(EventFault),
}

/// Breaks the n-th of them.
struct Nth {
    place: Place,
    number: usize,
    fault: Fault,
    seen: AtomicUsize,
}

impl Nth {
    fn new(place: Place, number: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            place,
            number,
            fault,
            seen: AtomicUsize::new(0),
        })
    }

    fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// How long it may take until all is well again, beyond what a change takes. What a watch loses without a word
    /// is found late.
    const fn patience(&self) -> Duration {
        match self.fault {
            Fault::Event(EventFault::Drop | EventFault::Silence) => AT_LAST,
            Fault::Event(_) | Fault::Call(_) => Duration::from_secs(30),
        }
    }

    fn is_now(&self, place: Place, user: &str, resource: &str) -> bool {
        // The lease has a campaign of its own, where it is made.
        user.ends_with(":policy-controller")
            && resource != "leases"
            && place == self.place
            && self.seen.fetch_add(1, Ordering::SeqCst) == self.number
    }
}

impl Faults for Nth {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let place = if point.verb.writes() {
            Place::Write
        } else {
            Place::Read
        };
        match &self.fault {
            Fault::Call(fault) if self.is_now(place, &point.user, &point.resource) => fault.clone(),
            Fault::Call(_) | Fault::Event(_) => CallFault::None,
        }
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        match &self.fault {
            Fault::Event(fault) if self.is_now(Place::Event, &point.user, &point.resource) => {
                fault.clone()
            }
            Fault::Call(_) | Fault::Event(_) => EventFault::None,
        }
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

/// How many believe that they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaders {
    One,
    /// In installations of their own, so that neither knows of the other.
    Two,
}

/// Longer than everything that only happens from time to time: a turn of every policy, and a watch that is given up.
const AT_LAST: Duration = Duration::from_mins(20);

/// Lives it, and says how many of the places that are to be broken it has.
async fn live(leaders: Leaders, faults: Arc<Nth>, name: &str) -> usize {
    let cluster = Cluster::new();
    cluster.server.collect_garbage(None);
    cluster.server.set_faults(faults.clone());
    let mut process = cluster.start("one");
    let _second = (leaders == Leaders::Two).then(|| cluster.start_in(SYSTEMS[1], "two"));
    sleep(Duration::from_secs(5)).await;
    let mut old = Access::new();
    let mut objects = BTreeMap::new();
    for (number, (new, step)) in life().into_iter().enumerate() {
        let mut since = cluster.now();
        step(&cluster);
        sleep(Duration::from_secs(15)).await;
        let was_killed =
            |it: &testkit::Entry| matches!(&it.what, What::Killed(who) if who == "one");
        if cluster.server.log_since(since).iter().any(was_killed) {
            cluster.kill(&process);
            process = cluster.start(&format!("successor-{number}"));
            sleep(Duration::from_secs(40)).await;
        }
        // What has been broken once may be missed much later.
        let is_broken = faults.seen() > faults.number;
        let deadline = Instant::now() + faults.patience();
        loop {
            take_in(&cluster, &mut since, &mut objects, |now| {
                let wider: Access = now
                    .iter()
                    .filter(|it| !old.contains(*it) && !new.contains(*it))
                    .cloned()
                    .collect();
                assert_eq!(wider, Access::new(), "{name}: in step {number}");
            });
            if access(&objects) == new || !is_broken || Instant::now() > deadline {
                break;
            }
            sleep(Duration::from_secs(15)).await;
        }
        assert_eq!(access(&objects), new, "{name}: after step {number}");
        old = new;
    }
    sleep(Duration::from_mins(1)).await;
    assert!(cluster.objects().is_empty(), "{name}");
    faults.seen()
}

/// Goes through everything that was written since, one change after the other.
fn take_in(
    cluster: &Cluster,
    since: &mut usize,
    objects: &mut BTreeMap<(String, String), Arc<Value>>,
    mut look: impl FnMut(&Access),
) {
    for entry in cluster.server.log_since(*since) {
        *since += 1;
        let What::Change(change) = entry.what else {
            continue;
        };
        if change.namespace != TOOLS || !["roles", "rolebindings"].contains(&change.plural.as_str())
        {
            continue;
        }
        let key = (change.plural, change.name);
        match change.after {
            Some(after) => objects.insert(key, after),
            None => objects.remove(&key),
        };
        look(&access(objects));
    }
}

/// Breaks each place of its own life in one way.
async fn break_each(leaders: Leaders, place: Place, fault: Fault) {
    let whole = Nth::new(place, usize::MAX, fault.clone());
    let count = live(leaders, whole, "without a fault").await;
    // Fewer writes would not reach every kind of them; more would mean that some are redundant.
    let usual = match (place, leaders) {
        (Place::Write, Leaders::One) => 12..=24,
        (Place::Write, Leaders::Two) => 14..=60,
        (Place::Read, _) => 40..=250,
        (Place::Event, _) => 20..=250,
    };
    assert!(usual.contains(&count), "{place:?}: {count}");
    // Reads and events are many, and much alike.
    let step = match place {
        Place::Write => 1,
        Place::Read | Place::Event => 3,
    };
    for number in (0..count).step_by(step) {
        let name = format!("{fault:?} at {place:?} {number}");
        live(leaders, Nth::new(place, number, fault.clone()), &name).await;
    }
}

const fn refused(code: u16) -> CallFault {
    CallFault::Refuse {
        code,
        retry_after: None,
    }
}

macro_rules! each {
    ($($name:ident $leaders:ident $place:ident $fault:expr;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            break_each(Leaders::$leaders, Place::$place, $fault).await;
        }
    )+};
}

each! {
    a_write_may_meet_a_conflict One Write Fault::Call(refused(409));
    a_write_may_be_one_too_many One Write Fault::Call(refused(429));
    a_write_may_meet_a_broken_server One Write Fault::Call(refused(500));
    a_write_may_never_arrive One Write Fault::Call(CallFault::LoseRequest);
    a_write_may_be_made_and_its_answer_lost One Write Fault::Call(CallFault::LoseAnswer);
    a_write_may_hang One Write Fault::Call(CallFault::HangBefore);
    a_write_may_be_made_and_never_answered One Write Fault::Call(CallFault::HangAfter);
    a_write_may_come_late One Write Fault::Call(CallFault::Delay(Duration::from_secs(8)));
    an_answer_may_be_garbage One Write Fault::Call(CallFault::Garbage);
    a_process_may_end_before_a_write One Write Fault::Call(CallFault::KillBefore);
    a_process_may_end_after_a_write One Write Fault::Call(CallFault::KillAfter);
    a_read_may_meet_a_broken_server One Read Fault::Call(refused(503));
    an_event_may_be_lost One Event Fault::Event(EventFault::Drop);
    an_event_may_come_twice One Event Fault::Event(EventFault::Twice);
    an_event_may_come_late One Event Fault::Event(EventFault::Delay(Duration::from_secs(20)));
    a_watch_may_have_to_begin_anew One Event Fault::Event(EventFault::Gone);
    a_watch_may_fall_silent One Event Fault::Event(EventFault::Silence);
    one_of_two_leaders_may_meet_a_conflict Two Write Fault::Call(refused(409));
    one_of_two_leaders_may_not_hear_that_it_has_written Two Write Fault::Call(CallFault::LoseAnswer);
    one_of_two_leaders_may_write_late Two Write Fault::Call(CallFault::Delay(Duration::from_secs(8)));
}
