//! A thousand runs of one namespace wait for their approvals: what one event costs does not depend on them.

use std::sync::Arc;

use connectors_api::AccessRequest;
use service_kit::controller::queue::Urgency;
use tokio::time::Instant;

use crate::{
    api::Name,
    cache::Job,
    reconcile::Reconciler,
    testing::{ApiServer, Cluster},
};

const RUNS: usize = 1_000;

/// The objects of the run of a small cluster, by their plurals.
const OF_A_RUN: [&str; 6] = [
    "pipelineruns",
    "taskruns",
    "customruns",
    "approvaltasks",
    "pods",
    "accessrequests",
];

/// The objects of the run, and as many copies of them under other names.
fn with_runs(copies: usize) -> Cluster {
    let cluster = Cluster::with_run();
    let server = &cluster.server;
    for plural in OF_A_RUN {
        let object = server.all(plural).remove(0).to_string();
        for number in 1..=copies {
            let run = format!("run{number}");
            let copy = object
                .replace("\"run", &format!("\"{run}"))
                .replace("-run", &format!("-{run}"))
                .replace("pod-uid", &format!("{run}-pod-uid"))
                .replace("request-uid", &format!("{run}-request-uid"))
                .replace("\"name\":\"request\"", &format!("\"name\":\"{run}\""));
            server.put(plural, serde_json::from_str(&copy).unwrap());
        }
    }
    cluster
}

async fn look(controller: &Reconciler, name: &str) {
    let name = Name::new("tools", name);
    let looked = controller.request(&name, Instant::now()).await;
    looked.unwrap();
}

/// The runs `run` and `run1` to `run999`. A look at each request of them was complete.
async fn waiting() -> (Cluster, Reconciler) {
    let mut cluster = with_runs(RUNS - 1);
    cluster.most_waiting = RUNS;
    let controller = cluster.controller();
    for number in 1..RUNS {
        look(&controller, &format!("run{number}")).await;
    }
    look(&controller, "request").await;
    cluster.fill(&controller);
    (cluster, controller)
}

fn approve(server: &ApiServer, approval: &str, answer: &str, state: &str) {
    server.change("approvaltasks", approval, |approval| {
        approval["spec"]["approvers"][0]["input"] = answer.into();
        approval["status"]["state"] = state.into();
    });
}

/// What is compared on the way is counted in `requests_are_found_by_the_label_that_tells_them_apart` and
/// `objects_are_found_by_the_label_that_tells_them_apart`.
#[tokio::test]
async fn an_event_wakes_one_of_a_thousand_runs_and_costs_the_calls_of_one() {
    let (cluster, controller) = waiting().await;
    let server = &cluster.server;
    let own = |urgency| vec![(Job::Request(Name::new("tools", "run7")), urgency)];
    for (plural, name) in [
        ("approvaltasks", "run7-wait"),
        ("customruns", "run7-wait"),
        ("taskruns", "run7-deploy"),
        ("pipelineruns", "run7"),
    ] {
        let wakes = cluster.news(&controller, plural, name);
        assert_eq!(wakes, own(Urgency::Normal), "{plural}");
    }
    approve(server, "run7-wait", "approve", "approved");
    let wakes = cluster.news(&controller, "approvaltasks", "run7-wait");
    assert_eq!(wakes, own(Urgency::Normal));
    let before = server.calls();
    look(&controller, "run7").await;
    assert_eq!(server.calls() - before, 14, "as for one run alone");
    let phase = |name: &str| {
        let request = server.named("accessrequests", name).unwrap();
        request["status"]["phase"].clone()
    };
    assert_eq!(
        (phase("run7"), phase("run8")),
        ("Granted".into(), "Pending".into())
    );
    cluster.fill(&controller);
    approve(server, "run7-wait", "reject", "rejected");
    let wakes = cluster.news(&controller, "approvaltasks", "run7-wait");
    assert_eq!(wakes, own(Urgency::Urgent));
}

/// Those beyond the limit wait for their place, not for objects.
#[tokio::test]
async fn an_event_wakes_no_request_that_waits_for_its_place() {
    let mut cluster = with_runs(1);
    cluster.most_waiting = 1;
    let controller = cluster.controller();
    look(&controller, "request").await;
    look(&controller, "run1").await;
    cluster.fill(&controller);
    let reason = |name: &str| {
        let request = cluster.server.named("accessrequests", name).unwrap();
        request["status"]["conditions"]
            .to_string()
            .contains("TooManyRequests")
    };
    assert_eq!([reason("request"), reason("run1")], [false, true]);
    for approval in ["run-wait", "run1-wait"] {
        let wakes = cluster.news(&controller, "approvaltasks", approval);
        assert_eq!(
            wakes.len(),
            usize::from(approval == "run-wait"),
            "{approval}"
        );
    }
}

/// Nothing else would wake it for half a minute.
#[tokio::test]
async fn a_request_is_woken_when_its_place_is_free_and_then_by_its_approval() {
    for is_deleted in [false, true] {
        let mut cluster = with_runs(2);
        cluster.most_waiting = 1;
        let controller = cluster.controller();
        for _ in 0..2 {
            for name in ["request", "run1", "run2"] {
                look(&controller, name).await;
            }
            cluster.fill(&controller);
        }
        // Each event of a request wakes it.
        for name in ["run1", "run2"] {
            look(&controller, name).await;
        }
        let woken = |wakes: Vec<(Job, Urgency)>| {
            let names = wakes.into_iter().filter_map(|(job, _)| match job {
                Job::Request(name) => Some(name.name.clone()),
                Job::Grant(_) | Job::Gate(_) => None,
            });
            names.collect::<Vec<_>>()
        };
        let first = Name::new("tools", "request");
        let wakes = if is_deleted {
            cluster.server.remove("accessrequests", "request");
            controller.world.write().request_gone(&first).1
        } else {
            let mut over = cluster.server.named("accessrequests", "request").unwrap();
            over["status"]["phase"] = "Rejected".into();
            let over: AccessRequest = serde_json::from_value(over).unwrap();
            cluster.server.change("accessrequests", "request", |it| {
                it["status"]["phase"] = "Rejected".into();
            });
            controller.world.write().request(&first, Ok(Arc::new(over)))
        };
        let woken_now = woken(wakes);
        assert!(woken_now.contains(&"run1".to_owned()), "{woken_now:?}");
        assert!(!woken_now.contains(&"run2".to_owned()), "{woken_now:?}");
        look(&controller, "run1").await;
        let wakes = cluster.news(&controller, "approvaltasks", "run1-wait");
        assert_eq!(woken(wakes), ["run1"], "it is in its place");
    }
}
