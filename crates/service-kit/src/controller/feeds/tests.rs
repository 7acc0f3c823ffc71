use std::{
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use prometheus::Registry;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    fake_api::{self, line, list, open_watch},
    readiness::Status,
    shutdown::Tasks,
};

const SECOND: Duration = Duration::from_secs(1);

/// What happened, and whether the process was ready then.
#[derive(Clone)]
struct Told(Arc<Mutex<Vec<(String, bool)>>>, Readiness);

impl Told {
    fn tell(&self, what: &str) {
        let is_ready = self.1.status() == Status::Ready;
        self.0.lock().unwrap().push((what.to_owned(), is_ready));
    }

    fn all(&self) -> Vec<(String, bool)> {
        mem::take(&mut self.0.lock().unwrap())
    }
}

/// Of a process whose readiness waits for the watches alone.
fn told() -> Told {
    let (readiness, start) = Readiness::starting();
    start.ready();
    Told(Arc::default(), readiness)
}

/// A server that lists the object `a`, and then adds `b`.
fn server() -> Client {
    let object =
        |name: &str| format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}"#);
    fake_api::client(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let answer = if query.contains("watch=true") {
            open_watch(&[line("ADDED", &object("b"))])
        } else {
            list(&[object("a")])
        };
        async { answer }
    })
}

fn there(change: &Change<Guarded<ConfigMap>>) -> &str {
    match change {
        Change::There(name, _) | Change::Gone(name) => &name.name,
    }
}

/// What the watches tell until the process ends, which ends them too.
async fn run(told: &Told, feeds: Feeds<'_, Told, String>) -> Vec<(String, bool)> {
    let tasks = Tasks::new();
    let running = tokio::spawn(feeds.run(tasks.stop()));
    sleep(SECOND).await;
    assert!(!running.is_finished());
    drop(tasks);
    timeout(SECOND, running).await.unwrap().unwrap();
    told.all()
}

fn lines(lines: &[(&str, bool)]) -> Vec<(String, bool)> {
    let line = |(line, is_ready): &(&str, bool)| ((*line).to_owned(), *is_ready);
    lines.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn each_change_fills_the_caches_and_then_wakes_its_jobs() {
    let (told, metrics) = (told(), WatchMetrics::register(&Registry::new()).unwrap());
    let ready = [&told.1];
    let wake = |told: &Told, woken: String| told.tell(&format!("woken by {woken}"));
    let mut feeds = Feeds::new(told.clone(), wake, &ready, &metrics);
    let api: Api<Guarded<ConfigMap>> = Api::all(server());
    feeds.follow("doors", api, Config::default(), |told, change| {
        told.tell(there(&change));
        there(&change).to_owned()
    });
    let beside = told.clone();
    feeds.beside(async move { beside.tell("beside") });
    assert_eq!(told.1.status(), Status::Missing(vec!["doors".to_owned()]));
    let mut all = run(&told, feeds).await;
    let place = all.iter().position(|it| it.0 == "beside").unwrap();
    all.remove(place);
    let expected = [
        ("a", false),
        ("woken by a", false),
        ("b", true),
        ("woken by b", true),
    ];
    assert_eq!(all, lines(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_list_begins_before_its_objects_and_ends_before_its_part_is_ready() {
    let (told, metrics) = (told(), WatchMetrics::register(&Registry::new()).unwrap());
    let mut feeds = Feeds::new(told.clone(), |_, _| {}, &[], &metrics);
    let api: Api<Guarded<ConfigMap>> = Api::all(server());
    let steps = told.clone();
    feeds.follow_steps(
        ("doors", &[&told.1]),
        api,
        Config::default(),
        move |fed| match &fed {
            Fed::Listing(ListState::Begins) => steps.tell("begins"),
            Fed::Listing(ListState::Ends) => steps.tell("ends"),
            Fed::Change(change) => steps.tell(there(change)),
        },
    );
    let expected = [
        ("begins", false),
        ("a", false),
        ("ends", false),
        ("b", true),
    ];
    assert_eq!(run(&told, feeds).await, lines(&expected));
}
