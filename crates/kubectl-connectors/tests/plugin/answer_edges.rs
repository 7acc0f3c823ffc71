//! `approve` while something goes on beside it: tenants, a connection that breaks, a controller that is slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kubectl_connectors::answer::Consent;
use kubectl_connectors::run::Outcome;
use serde_json::{Value, json};
use testkit::{
    ApiServer, CallFault, CallPoint, Caller, EventFault, EventPoint, Faults, Verb, What,
};
use tokio::time::Instant;

use crate::cluster::{Cluster, change, pod};

const APPROVE: [&str; 4] = ["approve", "changerequest/chg-42", "-n", "team-a"];

/// The number of patches.
fn patches(server: &ApiServer) -> usize {
    let log = server.log();
    let is_patch = |it: &&testkit::Entry| match &it.what {
        What::Call(call) => call.point.verb == Verb::Patch,
        What::Change(_) | What::Sent(_) | What::Killed(_) => false,
    };
    log.iter().filter(is_patch).count()
}

fn state(cluster: &Cluster) -> Value {
    let change = cluster.server.get("changerequests", "team-a", "chg-42");
    change.map_or(Value::Null, |it| it["status"]["state"].clone())
}

/// Answers yes after this happened behind the preview.
async fn approved_after(cluster: &Cluster, plant: impl Fn(&Cluster) + 'static) -> Outcome {
    let behind = Cluster {
        server: cluster.server.clone(),
        program: cluster.program.clone(),
    };
    let ask = Box::new(move |_: &str| {
        plant(&behind);
        Consent::Given
    });
    cluster.run_asking(&Caller::admin(), &APPROVE, ask).await
}

/// What was shown stays as it was in each of these, and the answer would do something else as well, or less.
#[tokio::test]
async fn an_answer_is_not_written_if_an_access_came_or_went_behind_the_preview() {
    type Plant = fn(&Cluster);
    let plants: [(&str, Plant); 5] = [
        ("nothing", |_| ()),
        ("a pod that waits too", |cluster| {
            cluster.put(pod("build-3"));
            cluster.request("build-3");
        }),
        ("a pod before the others", |cluster| {
            cluster.put(pod("a-first"));
            cluster.request("a-first");
        }),
        ("a request is gone", |cluster| {
            let name = cluster.first_request();
            cluster.server.delete("accessrequests", "payments", &name);
        }),
        ("the approval is gone", |cluster| {
            cluster.server.delete("changerequests", "team-a", "chg-42");
        }),
    ];
    for (what, plant) in plants {
        let cluster = Cluster::with_shared_approval();
        let outcome = approved_after(&cluster, plant).await;
        if what == "nothing" {
            assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
            assert_eq!(state(&cluster), "approved");
            continue;
        }
        assert_eq!(outcome.exit.code(), 3, "{what}: {outcome:?}");
        let told = "changed after it was shown";
        assert!(outcome.errors.contains(told), "{what}: {outcome:?}");
        assert_eq!(patches(&cluster.server), 0, "{what}");
    }
}

/// The right to read what was shown is taken away while the user reads.
#[tokio::test]
async fn an_answer_is_not_written_if_its_effects_cannot_be_seen_again() {
    let cluster = Cluster::with_shared_approval();
    let outcome = approved_after(&cluster, |cluster| {
        cluster
            .server
            .set_faults(Arc::new(Trouble::of_reads("pods")));
    })
    .await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    assert_eq!(patches(&cluster.server), 0);
}

/// Trouble with some calls.
struct Trouble {
    /// The verb and the resource of the calls.
    of: (Verb, &'static str),
    fault: CallFault,
    /// They have it once an answer was written.
    after_the_write: bool,
    is_written: AtomicBool,
    /// So many of them.
    left: AtomicUsize,
}

impl Trouble {
    fn new(of: (Verb, &'static str), fault: CallFault, after_the_write: bool) -> Self {
        Self {
            of,
            fault,
            after_the_write,
            is_written: AtomicBool::new(false),
            left: AtomicUsize::new(usize::MAX),
        }
    }

    fn of_reads(resource: &'static str) -> Self {
        let fault = CallFault::Refuse {
            code: 403,
            retry_after: None,
        };
        Self::new((Verb::Get, resource), fault, false)
    }
}

impl Faults for Trouble {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let is_behind = self.is_written.load(Ordering::SeqCst);
        if point.verb == Verb::Patch {
            self.is_written.store(true, Ordering::SeqCst);
        }
        let is_of = (point.verb, point.resource.as_str()) == self.of;
        let take = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        if is_of
            && (is_behind || !self.after_the_write)
            && self.left.fetch_update(set, get, take).is_ok()
        {
            self.fault.clone()
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

fn by_script(more: &'static [&'static str]) -> Vec<&'static str> {
    APPROVE
        .iter()
        .chain(&["--yes"])
        .chain(more)
        .copied()
        .collect()
}

/// Without an answer the object itself says whether it was written, and it is written once.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_neither_a_yes_nor_repeated() {
    let refuse = |code| CallFault::Refuse {
        code,
        retry_after: Some(1),
    };
    for (fault, after) in [
        (CallFault::LoseAnswer, "approved"),
        (CallFault::LoseRequest, "pending"),
        (CallFault::HangBefore, "pending"),
        (refuse(500), "pending"),
        (refuse(429), "pending"),
    ] {
        let cluster = Cluster::with_shared_approval();
        let of = (Verb::Patch, "changerequests");
        cluster
            .server
            .set_faults(Arc::new(Trouble::new(of, fault.clone(), false)));
        let args: Vec<_> = by_script(&["-o", "json"]);
        let outcome = cluster.run(&args).await;
        assert_eq!(outcome.exit.code(), 3, "{fault:?}: {outcome:?}");
        let answer: Value = serde_json::from_str(&outcome.output).unwrap();
        assert_eq!(answer["outcome"], "Unknown", "{fault:?}: {answer:#}");
        assert_eq!(answer["stateAfter"], after, "{fault:?}: {answer:#}");
        assert_eq!(patches(&cluster.server), 1, "{fault:?}");
        assert_eq!(state(&cluster), after, "{fault:?}");
    }
}

/// Another approver or the controller behind the approval writes at the same time. No user has read anything yet.
#[tokio::test(start_paused = true)]
async fn a_script_answers_an_object_that_changes_meanwhile_up_to_three_times() {
    for (conflicts, exit, after, writes) in [
        (1, 0, "approved", 2),
        (2, 0, "approved", 3),
        (3, 3, "pending", 3),
    ] {
        let cluster = Cluster::with_shared_approval();
        let conflict = CallFault::Refuse {
            code: 409,
            retry_after: None,
        };
        let trouble = Trouble::new((Verb::Patch, "changerequests"), conflict, false);
        trouble.left.store(conflicts, Ordering::SeqCst);
        cluster.server.set_faults(Arc::new(trouble));
        let outcome = cluster.run(&by_script(&[])).await;
        assert_eq!(outcome.exit.code(), exit, "{conflicts}: {outcome:?}");
        assert_eq!(state(&cluster), after, "{conflicts}");
        assert_eq!(patches(&cluster.server), writes, "{conflicts}");
        let is_told = outcome.errors.contains("it changed after it was read");
        assert_eq!(is_told, exit != 0, "{outcome:?}");
    }
}

/// The time counts from the write, and includes looks that hang.
#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_it_was_asked_to() {
    let reads = (Verb::Get, "accessrequests");
    let refuse = CallFault::Refuse {
        code: 403,
        retry_after: None,
    };
    for (fault, told) in [
        (CallFault::None, "was not decided in time"),
        (
            CallFault::HangBefore,
            "could not be read: cannot get accessrequests",
        ),
        (refuse, "could not be read: you may not get accessrequests"),
    ] {
        let cluster = Cluster::with_shared_approval();
        cluster
            .server
            .set_faults(Arc::new(Trouble::new(reads, fault.clone(), true)));
        let begin = Instant::now();
        let outcome = cluster.run(&by_script(&["--wait=30"])).await;
        let waited = begin.elapsed();
        assert_ne!(outcome.exit.code(), 0, "{fault:?}: {outcome:?}");
        assert!(outcome.errors.contains(told), "{fault:?}: {outcome:?}");
        let (least, most) = (Duration::from_secs(30), Duration::from_secs(32));
        assert!(waited >= least && waited < most, "{fault:?}: {waited:?}");
        assert_eq!(state(&cluster), "approved", "{fault:?}");
    }
}

/// A wait for one of two requests is no wait for both.
#[tokio::test(start_paused = true)]
async fn a_wait_is_over_when_the_last_of_its_requests_is_decided() {
    for phases in [["Granted", "Granted"], ["Granted", "Revoked"]] {
        let cluster = Cluster::with_shared_approval();
        let requests = cluster.server.list("accessrequests");
        let names = requests
            .iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        let names: Vec<_> = names.collect();
        let args = by_script(&["--wait=60"]);
        let begin = Instant::now();
        let controller = async {
            for (name, phase) in names.iter().zip(phases) {
                tokio::time::sleep(Duration::from_secs(10)).await;
                cluster.say(name, phase, phase, phase);
            }
        };
        let (outcome, ()) = tokio::join!(cluster.run(&args), controller);
        let waited = begin.elapsed().as_secs();
        let is_good = phases[1] == "Granted";
        assert_eq!(outcome.exit.code() == 0, is_good, "{outcome:?}");
        assert!((20..22).contains(&waited), "{waited}");
    }
}

/// A look that failed says nothing once a later one succeeds.
#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_behind_looks_that_fail() {
    let cluster = Cluster::with_shared_approval();
    let fault = CallFault::Refuse {
        code: 403,
        retry_after: None,
    };
    let mut trouble = Trouble::new((Verb::Get, "accessrequests"), fault, true);
    trouble.left = AtomicUsize::new(5);
    cluster.server.set_faults(Arc::new(trouble));
    let requests = cluster.server.list("accessrequests");
    let controller = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for request in requests {
            let name = request["metadata"]["name"].as_str().unwrap();
            cluster.say(name, "Granted", "Granted", "granted");
        }
    };
    let args = by_script(&["--wait=30"]);
    let (outcome, ()) = tokio::join!(cluster.run(&args), controller);
    assert_eq!(
        (outcome.exit.code(), outcome.errors.as_str()),
        (0, ""),
        "{outcome:?}"
    );
}

/// A request that is gone is never granted, and the wait for it ends at once.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_request_that_is_deleted_ends_with_it() {
    let cluster = Cluster::with_shared_approval();
    let requests = cluster.server.list("accessrequests");
    let begin = Instant::now();
    let controller = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for request in requests {
            let name = request["metadata"]["name"].as_str().unwrap();
            cluster.server.delete("accessrequests", "payments", name);
        }
    };
    let args = by_script(&["--wait=300"]);
    let (outcome, ()) = tokio::join!(cluster.run(&args), controller);
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("is Ended, and not Granted"),
        "{outcome:?}"
    );
    assert!(begin.elapsed() < Duration::from_secs(8));
}

/// Programs read the first effects.
#[tokio::test]
async fn the_accesses_that_an_answer_opens_come_first() {
    let cluster = Cluster::with_shared_approval();
    cluster.policy(|it| {
        let checks = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"];
        let mut own = checks[0].clone();
        own["name"] = "own".into();
        own["selector"]["labels"] = json!({"pod": "{.object.metadata.name}"});
        checks.as_array_mut().unwrap().push(own);
    });
    let mut of_second = change("chg-43", Some("approved"));
    of_second["metadata"]["labels"] = json!({"pod": "build-2"});
    cluster.put(of_second);
    let args: Vec<_> = APPROVE.into_iter().chain(["-o", "json"]).collect();
    let ask = Box::new(|_: &str| Consent::Declined);
    let outcome = cluster.run_asking(&Caller::admin(), &args, ask).await;
    let answer: Value = serde_json::from_str(&outcome.output).unwrap();
    let effects = answer["effects"].as_array().unwrap().iter();
    let told: Vec<_> = effects
        .map(|it| (&it["effect"], &it["pod"]["name"]))
        .collect();
    let expected = [
        (&json!("Opens"), &json!("build-2")),
        (&json!("Waits"), &json!("build-1")),
    ];
    assert_eq!(told, expected, "{answer:#}");
}
