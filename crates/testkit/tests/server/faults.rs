//! Calls that break.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Client;
use serde_json::{Value, json};
use testkit::{
    ApiServer, CallFault, CallPoint, Caller, EventFault, EventPoint, Faults, Verb, What,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{MAPS, admin, call, get, map, server};

/// Applies the fault to the first creation.
struct First(Mutex<Option<CallFault>>);

impl Faults for First {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        if point.verb == Verb::Create {
            self.0.lock().unwrap().take().unwrap_or_default()
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

fn breaking(fault: CallFault) -> (ApiServer, Client) {
    let server = server();
    server.set_faults(Arc::new(First(Mutex::new(Some(fault)))));
    let caller = Caller {
        process: "p".to_owned(),
        ..Caller::admin()
    };
    let client = server.client(&caller);
    (server, client)
}

fn request() -> http::Request<kube::client::Body> {
    let body = map("a", &json!({})).to_string().into_bytes();
    http::Request::post(MAPS).body(body.into()).unwrap()
}

fn exists(server: &ApiServer) -> bool {
    server.get("configmaps", "default", "a").is_some()
}

/// Whether the last creation is logged as answered, and as executed.
fn last(server: &ApiServer) -> (bool, bool) {
    let log = server.log();
    let mut calls = log.iter().rev().filter_map(|it| match &it.what {
        What::Call(call) if call.point.verb == Verb::Create => Some(call),
        What::Call(_) | What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    });
    let call = calls.next().unwrap();
    (call.code.is_some(), call.carried_out)
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_not_carried_out() {
    let (server, client) = breaking(CallFault::Refuse {
        code: 429,
        retry_after: Some(3),
    });
    let response = client.send(request()).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "3");
    assert!(!exists(&server));
    assert_eq!(last(&server), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_not_a_lost_request() {
    for (fault, carried_out) in [
        (CallFault::LoseRequest, false),
        (CallFault::LoseAnswer, true),
    ] {
        let (server, client) = breaking(fault);
        assert!(client.send(request()).await.is_err());
        assert_eq!(exists(&server), carried_out);
        assert_eq!(last(&server), (false, carried_out));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_was_carried_out_or_not() {
    for (fault, carried_out) in [(CallFault::HangBefore, false), (CallFault::HangAfter, true)] {
        let (server, client) = breaking(fault);
        assert!(
            timeout(Duration::from_hours(1), client.send(request()))
                .await
                .is_err()
        );
        assert_eq!(exists(&server), carried_out);
        assert_eq!(last(&server), (false, carried_out));
        assert_eq!(get(&client, MAPS).await.0, 200, "the process lives");
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_process_does_nothing_any_more_and_others_go_on() {
    for (fault, carried_out) in [(CallFault::KillBefore, false), (CallFault::KillAfter, true)] {
        let (server, client) = breaking(fault);
        assert!(
            timeout(Duration::from_hours(1), client.send(request()))
                .await
                .is_err()
        );
        assert_eq!(exists(&server), carried_out);
        let put = format!("PUT {MAPS}/a");
        let dead = call(&client, &put, map("a", &json!({"x": "1"})));
        assert!(timeout(Duration::from_hours(1), dead).await.is_err());
        assert_eq!(exists(&server), carried_out);
        assert_eq!(get(&admin(&server), MAPS).await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_is_carried_out_later_though_nobody_waits() {
    let (server, client) = breaking(CallFault::Delay(Duration::from_secs(20)));
    let begun = Instant::now();
    assert!(
        timeout(Duration::from_secs(5), client.send(request()))
            .await
            .is_err()
    );
    assert!(!exists(&server));
    sleep(Duration::from_secs(16)).await;
    assert!(exists(&server));
    assert_eq!(last(&server), (false, true));
    assert_eq!(begun.elapsed(), Duration::from_secs(21));
}

#[tokio::test(start_paused = true)]
async fn garbage_comes_with_success() {
    let (server, client) = breaking(CallFault::Garbage);
    let response = client.send(request()).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect_bytes().await.unwrap();
    assert!(serde_json::from_slice::<Value>(&body).is_err());
    assert!(exists(&server));
}

#[tokio::test(start_paused = true)]
async fn calls_are_numbered_by_what_they_are_and_by_process() {
    let server = server();
    let client = admin(&server);
    for _ in 0..2 {
        get(&client, MAPS).await;
        get(&client, &format!("{MAPS}/a")).await;
    }
    let log = server.log();
    let numbers: Vec<_> = log
        .iter()
        .filter_map(|it| match &it.what {
            What::Call(call) => Some((call.point.verb, call.point.nth, call.point.index)),
            What::Change(_) | What::Sent(_) | What::Killed(_) => None,
        })
        .collect();
    let (list, read) = (Verb::List, Verb::Get);
    assert_eq!(
        numbers,
        [(list, 0, 0), (read, 0, 1), (list, 1, 2), (read, 1, 3)]
    );
}
