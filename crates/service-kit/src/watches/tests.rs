mod relists;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{Stream, StreamExt};
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    client::Body,
    runtime::watcher::{Config, Event},
};
use prometheus::Registry;
use tokio::time::{Instant, timeout};

use super::{CALM, Guarded, PAUSES, Watch, WatchMetrics, WatchPauses};
use crate::{
    fake_api::{self, Answer, line, list, open_watch, refusal},
    readiness::{Readiness, ReadinessPart, Status},
};

type Script = Vec<Box<dyn FnOnce() -> Answer + Send>>;

/// A server that gives these answers to lists and to watches, and is silent when it has no more.
fn server(mut lists: Script, mut watches: Script) -> Client {
    lists.reverse();
    watches.reverse();
    let scripts = Arc::new(Mutex::new((lists, watches)));
    fake_api::client(move |request: Request<Body>| {
        let is_watch = request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true");
        let mut scripts = scripts.lock().unwrap();
        let next = if is_watch {
            scripts.1.pop()
        } else {
            scripts.0.pop()
        };
        async move {
            match next {
                Some(answer) => answer(),
                None => std::future::pending().await,
            }
        }
    })
}

fn object(name: &str, rest: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"1"}}{rest}}}"#)
}

fn deep(name: &str) -> String {
    object(
        name,
        &format!(r#","data":{}{}"#, "[".repeat(200), "]".repeat(200)),
    )
}

struct Watched {
    readiness: Readiness,
    registry: Registry,
    metrics: WatchMetrics,
    part: Option<ReadinessPart>,
}

impl Watched {
    fn new() -> Self {
        let (readiness, start) = Readiness::starting();
        let part = Some(readiness.part("configmaps"));
        start.ready();
        let registry = Registry::new();
        let metrics = WatchMetrics::register(&registry).unwrap();
        Self {
            readiness,
            registry,
            metrics,
            part,
        }
    }

    fn events(&mut self, client: Client) -> impl Stream<Item = String> + Unpin + use<> {
        let watch = Watch {
            name: "configmaps",
            config: Config::default(),
            ready: self.part.take(),
            metrics: &self.metrics,
        };
        watch
            .start(Api::<Guarded<ConfigMap>>::all(client))
            .map(|event| told(&event))
            .boxed()
    }

    fn metric(&self, name: &str) -> String {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    }

    fn is_ready(&self) -> bool {
        self.readiness.status() == Status::Ready
    }
}

fn told(event: &Event<Guarded<ConfigMap>>) -> String {
    let object = |verb: &str, object: &Guarded<ConfigMap>| {
        let unreadable = if object.object.is_ok() {
            ""
        } else {
            " unreadable"
        };
        format!("{verb} {}{unreadable}", object.name_any())
    };
    match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(it) => object("listed", it),
        Event::InitDone => "done".to_owned(),
        Event::Apply(it) => object("applied", it),
        Event::Delete(it) => object("deleted", it),
    }
}

async fn take(events: &mut (impl Stream<Item = String> + Unpin), count: usize) -> Vec<String> {
    events.take(count).collect().await
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_finishes_is_asked_for_again() {
    let mut watched = Watched::new();
    let never =
        Box::new(|| open_watch(&[r#"{"metadata":{"resourceVersion":"1"},"items":["#.to_owned()]));
    let whole = Box::new(|| list(&[object("a", "")]));
    let client = server(vec![never, whole], vec![Box::new(|| open_watch(&[]))]);
    let events = watched.events(client).take(4).collect::<Vec<_>>();
    let events = timeout(Duration::from_mins(5), events).await;
    assert_eq!(events.unwrap(), ["init", "init", "listed a", "done"]);
    assert!(watched.is_ready());
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_read_are_events_like_the_others() {
    let items = [
        object("good", ""),
        object("odd", r#","data":1"#),
        deep("deep"),
    ];
    let lines = [
        line("MODIFIED", &deep("good")),
        line("MODIFIED", &object("odd", "")),
        line("DELETED", &deep("deep")),
    ];
    let client = server(
        vec![Box::new(move || list(&items))],
        vec![Box::new(move || open_watch(&lines))],
    );
    let mut watched = Watched::new();
    let mut events = watched.events(client);

    let listed = [
        "init",
        "listed good",
        "listed odd unreadable",
        "listed deep unreadable",
        "done",
    ];
    assert_eq!(take(&mut events, 5).await, listed);
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "2");
    assert_eq!(take(&mut events, 1).await, ["applied good unreadable"]);
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "3");
    assert_eq!(
        take(&mut events, 2).await,
        ["applied odd", "deleted deep unreadable"]
    );
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "1");
    assert_eq!(watched.metric("connectors_watch_restarts_total"), "0");
    // A watch that has ended knows of none.
    drop(events);
    assert_eq!(watched.metric("connectors_watch_unreadable_objects"), "0");
}

#[tokio::test(start_paused = true)]
async fn ready_comes_with_the_complete_list_and_not_before() {
    let client = server(
        vec![
            Box::new(|| refusal(StatusCode::FORBIDDEN)),
            Box::new(|| list(&[object("good", "")])),
        ],
        vec![],
    );
    let mut watched = Watched::new();
    let mut events = watched.events(client);

    assert_eq!(take(&mut events, 3).await, ["init", "init", "listed good"]);
    assert!(!watched.is_ready());
    assert_eq!(take(&mut events, 1).await, ["done"]);
    assert!(watched.is_ready());
    assert_eq!(watched.metric("connectors_watch_restarts_total"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_json_leads_to_a_new_list() {
    let lines = ["no json".to_owned(), line("ADDED", &object("after", ""))];
    let client = server(
        vec![
            Box::new(|| list(&[object("before", "")])),
            Box::new(|| list(&[object("after", "")])),
        ],
        vec![Box::new(move || open_watch(&lines))],
    );
    let mut watched = Watched::new();
    let events = take(&mut watched.events(client), 6).await;
    assert_eq!(
        events,
        [
            "init",
            "listed before",
            "done",
            "init",
            "listed after",
            "done"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_tried_again_after_growing_pauses() {
    let refusals = (0..6).map(|_| -> Box<dyn FnOnce() -> Answer + Send> {
        Box::new(|| refusal(StatusCode::FORBIDDEN))
    });
    let mut script: Script = refusals.collect();
    script.push(Box::new(|| {
        open_watch(&[line("ADDED", &object("late", ""))])
    }));
    let client = server(vec![Box::new(|| list(&[]))], script);
    let mut watched = Watched::new();
    let started = Instant::now();
    let events = take(&mut watched.events(client), 3).await;
    assert_eq!(events, ["init", "done", "applied late"]);
    let waited = started.elapsed();
    let all: Duration = [200, 400, 800, 1_600, 3_200, 6_400]
        .map(Duration::from_millis)
        .iter()
        .sum();
    assert!(
        waited >= all / 2 && waited <= all + Duration::from_secs(1),
        "{waited:?}"
    );
    assert_eq!(watched.metric("connectors_watch_restarts_total"), "6");
}

#[tokio::test(start_paused = true)]
async fn pauses_start_small_again_after_a_calm_time_only() {
    let mut trouble = WatchPauses {
        pauses: PAUSES,
        last: None,
    };
    let now = Instant::now();
    for _ in 0..8 {
        let _ = trouble.pause(now);
    }
    assert!(trouble.pause(now + CALM) >= Duration::from_secs(5));
    assert!(trouble.pause(now + CALM * 3) <= Duration::from_millis(200));
}
