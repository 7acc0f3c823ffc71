//! One life of two tenants' policies, broken at every write and at each kind of read and event. The oracle judges
//! every instant of it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use testkit::{CallFault, CallPoint, EventFault, EventPoint, Faults};

use crate::{
    oracle::Seen,
    stage::{Stage, connector, delete_and_keep, let_go, policy},
    support::{Cluster, SYSTEMS, TOOLS},
};

/// The second tenant: the name of the first one is a prefix of its name.
const NEXT: &str = "tools-2";

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

/// A step, and the call or event in it: its verb, kind and place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spot {
    step: usize,
    what: String,
}

/// Breaks one of them: a spot, and how often it came before.
struct Break {
    place: Place,
    fault: Fault,
    target: Option<(Spot, usize)>,
    step: AtomicUsize,
    met: Mutex<Vec<Spot>>,
}

impl Break {
    fn new(place: Place, fault: Fault, target: Option<(Spot, usize)>) -> Arc<Self> {
        Arc::new(Self {
            place,
            fault,
            target,
            step: AtomicUsize::new(0),
            met: Mutex::default(),
        })
    }

    fn met(&self) -> Vec<Spot> {
        self.met.lock().unwrap().clone()
    }

    fn is_now(&self, place: Place, user: &str, resource: &str, what: String) -> bool {
        // The lease has a simulation of its own, where it is made.
        if place != self.place || !user.ends_with(":policy-controller") || resource == "leases" {
            return false;
        }
        let step = self.step.load(Ordering::SeqCst);
        let spot = Spot { step, what };
        let mut met = self.met.lock().unwrap();
        let before = met.iter().filter(|it| **it == spot).count();
        let is_target = self.target.as_ref() == Some(&(spot.clone(), before));
        met.push(spot);
        is_target
    }

    /// How late the last of everything may come, although nothing is due any more.
    fn lateness(&self) -> Duration {
        match &self.fault {
            Fault::Call(CallFault::Delay(by)) | Fault::Event(EventFault::Delay(by)) => *by,
            Fault::Call(_) | Fault::Event(_) => Duration::ZERO,
        }
    }

    /// Whether the fault was injected.
    fn is_met(&self) -> bool {
        let Some((spot, before)) = &self.target else {
            return true;
        };
        self.met().iter().filter(|it| *it == spot).count() > *before
    }
}

impl Faults for Break {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let Fault::Call(fault) = &self.fault else {
            return CallFault::None;
        };
        let (verb, resource, namespace) = (point.verb, &point.resource, &point.namespace);
        let place = if verb.writes() {
            Place::Write
        } else {
            Place::Read
        };
        let what = format!("{verb} {resource} {namespace}");
        if self.is_now(place, &point.user, resource, what) {
            fault.clone()
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        let Fault::Event(fault) = &self.fault else {
            return EventFault::None;
        };
        let (kind, resource, namespace) = (point.kind, &point.resource, &point.namespace);
        let what = format!("{kind:?} {resource} {namespace}");
        if self.is_now(Place::Event, &point.user, resource, what) {
            fault.clone()
        } else {
            EventFault::None
        }
    }
}

fn users(names: &[&str]) -> Value {
    let user = |name: &&str| json!({"kind": "User", "name": name});
    names.iter().map(user).collect()
}

/// How the world changes.
type Change = fn(&Cluster);

/// The changes, one after the other. Names are prefixes of other names, and deleted objects stay for a while.
const LIFE: [Change; 6] = [
    |cluster| {
        policy(
            cluster,
            TOOLS,
            "p",
            json!({"names": ["harbor", "quay"]}),
            users(&["alice", "bob"]),
        );
        let subject = json!([{
            "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "ci"}},
            "namespaceSelector": {"matchLabels": {"team": "x"}},
        }]);
        policy(cluster, NEXT, "p", json!({}), subject);
    },
    // Other subjects and other verbs at once: no old subject may get the new verbs.
    |cluster| {
        cluster.edit("p", |spec| {
            let given = &mut spec["defaultPermission"];
            given["roleTemplate"]["rules"][0]["verbs"] = json!(["write"]);
            given["bindingTemplate"]["subjects"] = users(&["bob", "carol"]);
        });
    },
    |cluster| {
        cluster.connector("quay", json!({}));
        cluster.server.change("namespaces", "", "apps-2", |it| {
            it["metadata"]["labels"]["team"] = json!("x");
        });
    },
    |cluster| {
        delete_and_keep(&cluster.server, "connectors", TOOLS, "harbor");
        delete_and_keep(&cluster.server, "serviceaccounts", "apps", "builder");
    },
    |cluster| {
        let_go(&cluster.server, "connectors", TOOLS, "harbor");
        delete_and_keep(&cluster.server, "accesspolicies", TOOLS, "p");
        delete_and_keep(&cluster.server, "namespaces", "", "apps-2");
    },
    |cluster| {
        let_go(&cluster.server, "accesspolicies", TOOLS, "p");
        cluster.server.delete("accesspolicies", NEXT, "p");
    },
];

/// The objects at the start. Most of them have names that are similar to the selected ones.
fn before(cluster: &Cluster) {
    cluster.namespace(NEXT, json!({}));
    cluster.namespace("apps", json!({"team": "x"}));
    cluster.namespace("apps-2", json!({"team": "X"}));
    cluster.connector("harbor-2", json!({}));
    connector(cluster, NEXT, "harbor", json!({}));
    for (place, name, role) in [
        ("apps", "builder", "ci"),
        ("apps", "builder-2", "CI"),
        ("apps-2", "builder", "ci"),
    ] {
        cluster.account(place, name, json!({"role": role}));
    }
}

/// As long as this nothing is written in the end.
const IDLE: Duration = Duration::from_secs(10);

/// How many believe that they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaders {
    One,
    /// In installations of their own, so that neither knows the other.
    Two,
}

/// Runs all changes, and returns what the judge counted.
async fn live(leaders: Leaders, faults: Arc<Break>, name: &str) -> Seen {
    let mut stage = Stage::new();
    before(&stage.cluster);
    stage.cluster.server.set_faults(faults.clone());
    stage.start("one");
    if leaders == Leaders::Two {
        stage.start_in(SYSTEMS[1], "two");
    }
    stage.settle().await;
    for (step, change) in (1..).zip(LIFE) {
        faults.step.store(step, Ordering::SeqCst);
        change(&stage.cluster);
        stage.settle().await;
    }
    stage.pass(faults.lateness()).await;
    let objects = stage.cluster.objects();
    let seen = stage.proves_right(IDLE, name).await;
    assert!(objects.is_empty(), "{name}: {objects:?}");
    assert!(faults.is_met(), "{name}: did not come to that");
    seen
}

/// The spots to break. Of reads and lines of watches: the first of each kind of spot, and of lost lines the
/// last one too. Of silent watches: only the first, because a silent watch is the same in each step, and
/// takes long to be noticed. Of writes: all, except events for people. With two leaders: only writes that
/// both may make.
fn targets(leaders: Leaders, place: Place, fault: &Fault, met: &[Spot]) -> Vec<(Spot, usize)> {
    let count = |spot: &Spot, until: usize| met[..until].iter().filter(|it| *it == spot).count();
    let is_first = |what: &str, at: usize| met[..at].iter().all(|it| it.what != what);
    let is_wanted = |at: usize, spot: &Spot| {
        let nth = count(spot, at);
        match (place, fault, leaders) {
            (Place::Write, _, Leaders::Two) => spot.what.contains(" role"),
            (Place::Write, _, Leaders::One) => nth == 0 || !spot.what.contains(" events "),
            (_, Fault::Event(EventFault::Silence), _) => is_first(&spot.what, at),
            (_, Fault::Event(EventFault::Drop), _) => nth == 0 || nth + 1 == count(spot, met.len()),
            _ => nth == 0,
        }
    };
    let all = met.iter().enumerate();
    let wanted = all.filter(|(at, spot)| is_wanted(*at, spot));
    wanted
        .map(|(at, spot)| (spot.clone(), count(spot, at)))
        .collect()
}

/// Breaks each place of its own life in one way.
async fn break_each(leaders: Leaders, place: Place, fault: Fault) {
    let whole = Break::new(place, fault.clone(), None);
    let usual = live(leaders, whole.clone(), "without a fault").await;
    assert_eq!((usual.gifts, usual.withdrawals), (6, 6), "{usual:?}");
    // A repeated attempt, or a repeated look, writes no more than this.
    let more = match leaders {
        Leaders::One => 3,
        Leaders::Two => 8,
    };
    for target in targets(leaders, place, &fault, &whole.met()) {
        let name = format!("{fault:?} at {target:?}");
        let faults = Break::new(place, fault.clone(), Some(target));
        let seen = live(leaders, faults, &name).await;
        println!("{name}: {seen:?}");
        assert!(
            seen.writes <= usual.writes + more,
            "{name}: {seen:?}, without it {usual:?}"
        );
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
