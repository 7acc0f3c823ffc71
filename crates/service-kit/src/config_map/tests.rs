use std::sync::{Arc, Mutex};

use http::StatusCode;
use prometheus::Registry;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use super::*;
use crate::{
    fake_api::{self, Answer, answer, line, list, open_watch, refusal},
    readiness::Readiness,
    shutdown::{Signal, Tasks},
};

type Script = Vec<Box<dyn FnOnce() -> Answer + Send>>;

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn map(data: &str, rest: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"config","namespace":"system","resourceVersion":"1"{rest}}},"data":{data}}}"#
    )
}

fn expired() -> String {
    line(
        "ERROR",
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#,
    )
}

fn data(value: &str) -> ConfigMapState {
    ConfigMapState::Data([("k".to_owned(), value.to_owned())].into())
}

/// The states that the follower reported, its queries, and the signal that ends it.
struct Follower {
    heard: Arc<Mutex<Vec<ConfigMapState>>>,
    asked: Arc<Mutex<Vec<String>>>,
    end: oneshot::Sender<()>,
    process: JoinHandle<()>,
}

/// Follows a map on a server that answers lists and watches so, and is silent when it has no more to say.
fn followed(mut lists: Script, mut watches: Script) -> Follower {
    lists.reverse();
    watches.reverse();
    let scripts = Arc::new(Mutex::new((lists, watches)));
    let (heard, asked) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (words, queries) = (Arc::clone(&heard), Arc::clone(&asked));
    let client = fake_api::client(move |request| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let mut scripts = scripts.lock().unwrap();
        let next = if query.contains("watch=true") {
            scripts.1.pop()
        } else {
            scripts.0.pop()
        };
        queries
            .lock()
            .unwrap()
            .push(format!("{}?{query}", request.uri().path()));
        async move {
            match next {
                Some(answer) => answer(),
                None => std::future::pending().await,
            }
        }
    });
    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn_infallible("configuration", async move {
        let metrics = WatchMetrics::register(&Registry::new()).unwrap();
        let hear = |it| words.lock().unwrap().push(it);
        follow(client, "system", "config", &metrics, &stop, hear).await;
    });
    let (end, ended) = oneshot::channel();
    let process = tokio::spawn(async move {
        let (readiness, _start) = Readiness::starting();
        let signals = futures::stream::once(async {
            let _ = ended.await;
            Signal::Terminate
        });
        let outcome = tasks.run(Box::pin(signals), &readiness, SECOND).await;
        assert_eq!(outcome, crate::shutdown::ProcessEnd::Drained);
    });
    Follower {
        heard,
        asked,
        end,
        process,
    }
}

impl Follower {
    /// The states that were reported within a minute. Then the follower is ended.
    async fn heard(self) -> Vec<ConfigMapState> {
        sleep(SECOND * 60).await;
        self.end.send(()).unwrap();
        self.process.await.unwrap();
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

/// A map that is being deleted, but is kept by a finalizer, still has its content.
const GOING: &str =
    r#","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/keep"]"#;

#[tokio::test(start_paused = true)]
async fn each_state_of_the_map_is_heard_in_the_list_and_in_the_watch() {
    let states = [
        (map(r#"{"k":"v"}"#, ""), data("v")),
        (map(r#"{"k":"w"}"#, GOING), data("w")),
        (map("null", ""), ConfigMapState::Data(BTreeMap::new())),
        (map(r#"{"k":7}"#, ""), ConfigMapState::Unreadable),
    ];
    for (object, expected) in &states {
        let listed = object.clone();
        let lists: Script = vec![Box::new(move || list(&[listed]))];
        let heard = followed(lists, vec![]).heard().await;
        assert_eq!(heard, std::slice::from_ref(expected), "{object}");
        for kind in ["ADDED", "MODIFIED"] {
            let lines = [line(kind, object)];
            let watches: Script = vec![Box::new(move || open_watch(&lines))];
            let heard = followed(vec![Box::new(|| list(&[]))], watches)
                .heard()
                .await;
            assert_eq!(
                heard,
                [ConfigMapState::Gone, expected.clone()],
                "{kind} {object}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_heard_of_once_however_that_was_learnt() {
    let there =
        || -> Box<dyn FnOnce() -> Answer + Send> { Box::new(|| list(&[map(r#"{"k":"v"}"#, "")])) };
    let empty = || -> Box<dyn FnOnce() -> Answer + Send> { Box::new(|| list(&[])) };
    let begins_anew =
        || -> Box<dyn FnOnce() -> Answer + Send> { Box::new(|| open_watch(&[expired()])) };
    let deleted = || -> Box<dyn FnOnce() -> Answer + Send> {
        Box::new(|| open_watch(&[line("DELETED", &map(r#"{"k":"v"}"#, "")), expired()]))
    };
    for (name, lists, watches, expected) in [
        (
            "never there",
            vec![empty(), empty()],
            vec![begins_anew()],
            vec![ConfigMapState::Gone],
        ),
        (
            "deleted",
            vec![there(), empty()],
            vec![deleted()],
            vec![data("v"), ConfigMapState::Gone],
        ),
        (
            "gone while nobody watched",
            vec![there(), empty(), empty()],
            vec![begins_anew(), begins_anew()],
            vec![data("v"), ConfigMapState::Gone],
        ),
        (
            "back again",
            vec![there(), empty(), there(), empty()],
            vec![begins_anew(), begins_anew(), begins_anew()],
            vec![
                data("v"),
                ConfigMapState::Gone,
                data("v"),
                ConfigMapState::Gone,
            ],
        ),
    ] {
        assert_eq!(followed(lists, watches).heard().await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_or_breaks_off_says_nothing() {
    let lists: Script = vec![
        Box::new(|| refusal(StatusCode::FORBIDDEN)),
        Box::new(|| {
            answer(
                StatusCode::OK,
                r#"{"metadata":{"resourceVersion":"1"},"items":["#,
            )
        }),
        Box::new(|| list(&[map(r#"{"k":"v"}"#, "")])),
    ];
    let follower = followed(lists, vec![]);
    let asked = Arc::clone(&follower.asked);
    assert_eq!(follower.heard().await, [data("v")]);
    // Queries ask for the one map only: its name may be a prefix of another name.
    for query in asked.lock().unwrap().iter() {
        assert!(
            query.starts_with("/api/v1/namespaces/system/configmaps?"),
            "{query}"
        );
        assert!(
            query.contains("fieldSelector=metadata.name%3Dconfig"),
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn following_ends_when_it_is_time_at_whatever_it_waits_for() {
    let open: fn() -> Answer = || open_watch(&[]);
    let whole: fn() -> Answer = || list(&[]);
    let refused: fn() -> Answer = || refusal(StatusCode::FORBIDDEN);
    let scripts: [(Script, Script); 4] = [
        (vec![], vec![]),
        (vec![Box::new(whole)], vec![]),
        (vec![Box::new(whole)], vec![Box::new(open)]),
        (vec![Box::new(refused), Box::new(refused)], vec![]),
    ];
    for (lists, watches) in scripts {
        // It drains within a second, or its outcome is another one.
        followed(lists, watches).heard().await;
    }
}
