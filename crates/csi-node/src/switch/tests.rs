use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use connectors_api::config::OnEnable;
use futures::{StreamExt, stream::pending};

use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::{
    readiness::{Readiness, Status},
    shutdown::Tasks,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;
use crate::testing::World;

fn judged(change: impl FnOnce(&mut Value)) -> Result<(), DriverProblem> {
    let mut driver = json!({
        "metadata": {"name": "connectors-csi"},
        "spec": {
            "podInfoOnMount": true,
            "volumeLifecycleModes": ["Ephemeral"],
            "tokenRequests": [{"audience": "other"}, {"audience": "connectors.alauda.io"}],
            "requiresRepublish": true,
        },
    });
    change(&mut driver["spec"]);
    judge(&serde_json::from_value(driver).unwrap())
}

#[test]
fn a_driver_object_that_lets_nobody_lie_is_right() {
    assert_eq!(judged(|_| {}), Ok(()));
}

#[test]
fn every_other_driver_object_is_refused() {
    use DriverProblem::{Lifecycle, PodInfo, Republish, Tokens};
    let cases = [
        ("podInfoOnMount", json!(false), PodInfo),
        ("podInfoOnMount", Value::Null, PodInfo),
        (
            "volumeLifecycleModes",
            json!(["Persistent", "Ephemeral"]),
            Lifecycle,
        ),
        ("volumeLifecycleModes", json!([]), Lifecycle),
        ("volumeLifecycleModes", Value::Null, Lifecycle),
        ("tokenRequests", json!([{"audience": "other"}]), Tokens),
        ("tokenRequests", json!([]), Tokens),
        ("tokenRequests", Value::Null, Tokens),
        ("requiresRepublish", json!(false), Republish),
        ("requiresRepublish", Value::Null, Republish),
    ];
    for (field, value, problem) in cases {
        let shown = value.to_string();
        assert_eq!(
            judged(|spec| spec[field] = value),
            Err(problem),
            "{field} {shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_object_is_read_until_it_is_right() {
    let world = World::new();
    let (sender, object) = watch::channel(None);
    let kubernetes = world.kubernetes.clone();
    let check =
        tokio::spawn(async move { check_driver(&kubernetes, "connectors-csi", &sender).await });
    let seen = async || {
        tokio::time::sleep(AGAIN * 2).await;
        *object.borrow()
    };
    assert_eq!(seen().await, Some(Err(DriverProblem::Absent)));
    world.kubernetes.cluster().driver = Lookup::Unreadable;
    assert_eq!(seen().await, Some(Err(DriverProblem::Unreadable)));
    world.kubernetes.cluster().reachable = false;
    assert_eq!(seen().await, Some(Err(DriverProblem::Unreadable)));
    let right = json!({
        "metadata": {"name": "connectors-csi"},
        "spec": {
            "podInfoOnMount": true,
            "volumeLifecycleModes": ["Ephemeral"],
            "tokenRequests": [{"audience": "connectors.alauda.io"}],
            "requiresRepublish": true,
        },
    });
    let right = serde_json::from_value(right).unwrap();
    world.kubernetes.cluster().driver = Lookup::Found(Box::new(right));
    world.kubernetes.cluster().reachable = true;
    check.await.unwrap();
    assert_eq!(*object.borrow(), Some(Ok(())));
}

/// An API server with one list, whose watch says what the test sends.
fn server(items: &Value, lines: mpsc::UnboundedReceiver<String>) -> Client {
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string();
    let lines = Arc::new(Mutex::new(Some(lines)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        assert!(
            query.contains("fieldSelector=metadata.name%3Dconnectors-config"),
            "{query}"
        );
        let lines = query
            .contains("watch=true")
            .then(|| lines.lock().unwrap().take());
        let list = list.clone();
        let body = match lines {
            None => Full::new(Bytes::from(list)).boxed_unsync(),
            Some(None) => StreamBody::new(pending()).boxed_unsync(),
            Some(Some(lines)) => {
                let lines = UnboundedReceiverStream::new(lines);
                StreamBody::new(lines.map(|line| Ok(Frame::data(Bytes::from(line + "\n")))))
                    .boxed_unsync()
            }
        };
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    Client::new(service, "default")
}

fn config(data: &Value) -> Value {
    json!({
        "metadata": {"name": CONFIG_MAP, "namespace": "connectors-system", "resourceVersion": "1"},
        "data": data,
    })
}

struct Followed {
    switch: Switch,
    readiness: Readiness,
    told: SwitchMetrics,
    lines: mpsc::UnboundedSender<String>,
    _tasks: Tasks,
}

fn followed(items: &Value) -> Followed {
    let (lines, receiver) = mpsc::unbounded_channel();
    let (sender, switch) = watch::channel(None);
    let (readiness, start) = Readiness::starting();
    start.ready();
    let tasks = Tasks::new();
    let told = SwitchMetrics::register(&Registry::new()).unwrap();
    tokio::spawn(follow_config(
        server(items, receiver),
        "connectors-system".to_owned(),
        sender,
        readiness.part("configuration"),
        (
            WatchMetrics::register(&Registry::new()).unwrap(),
            told.clone(),
        ),
        tasks.stop(),
    ));
    Followed {
        switch,
        readiness,
        told,
        lines,
        _tasks: tasks,
    }
}

impl Followed {
    async fn after(&mut self, kind: &str, object: &Value) -> Option<bool> {
        // The type comes first, as the API server writes it.
        let line = format!(r#"{{"type":"{kind}","object":{object}}}"#);
        self.lines.send(line).unwrap();
        self.settled().await
    }

    async fn settled(&mut self) -> Option<bool> {
        // The clock is paused: it moves when everybody else has nothing to do.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.switch.borrow().map(|config| config.enabled)
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_known_value_of_the_switch_holds() {
    let on = config(&json!({"enable-connectors-approval": "true"}));
    let mut followed = followed(&json!([on]));
    assert_eq!(followed.settled().await, Some(true));
    assert_eq!(followed.readiness.status(), Status::Ready);
    for odd in [
        json!({"enable-connectors-approval": "maybe"}),
        json!({}),
        Value::Null,
    ] {
        assert_eq!(followed.after("MODIFIED", &config(&odd)).await, Some(true));
    }
    assert_eq!(followed.told.present.get(), 1);
    assert_eq!(followed.after("DELETED", &on).await, Some(true));
    assert_eq!(followed.told.present.get(), 0);
    let off = config(&json!({"enable-connectors-approval": "false"}));
    assert_eq!(followed.after("ADDED", &off).await, Some(false));
    assert_eq!(followed.after("DELETED", &off).await, Some(false));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_the_switch_hear_of_a_change_and_of_nothing_else() {
    let [on, off] = ["true", "false"].map(|it| config(&json!({"enable-connectors-approval": it})));
    let mut followed = followed(&json!([on]));
    let mut heard = Vec::new();
    followed.settled().await;
    for object in [&on, &off, &off, &on] {
        heard.push(followed.switch.has_changed().unwrap());
        followed.switch.mark_unchanged();
        followed.after("MODIFIED", object).await;
    }
    heard.push(followed.switch.has_changed().unwrap());
    assert_eq!(heard, [true, false, true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_never_knew_the_switch_is_not_ready() {
    for items in [json!([]), json!([config(&json!({}))])] {
        let mut followed = followed(&items);
        assert_eq!(followed.settled().await, None);
        assert_ne!(followed.readiness.status(), Status::Ready);
        let on = config(&json!({"enable-connectors-approval": "true"}));
        assert_eq!(followed.after("ADDED", &on).await, Some(true));
        assert_eq!(followed.readiness.status(), Status::Ready);
    }
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_mounted_volumes_is_followed_like_the_switch() {
    let said =
        |word: &str| config(&json!({"enable-connectors-approval": "true", "on-enable": word}));
    let mut followed = followed(&json!([said("Request")]));
    for (word, expected) in [
        ("Request", OnEnable::Request),
        ("Empty", OnEnable::Empty),
        ("Emtpy", OnEnable::Empty),
        ("Keep", OnEnable::Keep),
    ] {
        followed.after("MODIFIED", &said(word)).await;
        let known = *followed.switch.borrow();
        assert_eq!(known.unwrap().on_enable, expected, "{word}");
    }
}
