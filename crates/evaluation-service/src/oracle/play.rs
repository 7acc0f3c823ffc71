//! One history, played: everything that the service says meanwhile is judged when it is said.

use std::sync::Arc;
use std::time::Duration;

use evaluation_api::v1::CheckAccessRequest;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use super::api::Api;
use super::callers::{Callers, Right};
use super::cluster::Kind;
use super::history::{Asks, History, STREAMS, Step};
use super::judge::Judge;
use super::service::{LIMITS, Running};
use super::stage::{Stage, Tally, with_token};
use super::watching::Watching;
use crate::clock;

/// Long enough for every watch and list to be found dead and begun anew.
const RECOVERY: Duration = Duration::from_mins(4);
/// Long enough for a stream whose caller is gone to be over.
const OVER: Duration = Duration::from_secs(45);

/// After so many steps it is looked whether the last answers on streams still hold.
const LOOK_EVERY: usize = 5;

/// It is looked as well after so long a pause.
const QUIET: Duration = Duration::from_secs(10);

/// Plays a history; what was wrong, and what was said how often.
pub(super) async fn play(history: &History, begins: Timestamp) -> (Vec<String>, Tally) {
    clock::begin(begins);
    let api = Api::default();
    api.state().callers = Callers::new();
    let running = Running::start(&api);
    let judge = Judge { api: api.clone() };
    let stage = Arc::new(Stage::new(&history.questions, judge, &running));
    let mut streams: [Option<Watching>; STREAMS] = std::array::from_fn(|_| None);
    let mut ids = 0;
    // Whoever asks without a pause is looked at again all the same.
    let busy = tokio::spawn(ask_always(Arc::clone(&stage)));
    for (number, (pause, step)) in history.steps.iter().enumerate() {
        if !pause.is_zero() {
            sleep(*pause).await;
        }
        if number % LOOK_EVERY == 0 || *pause >= QUIET {
            for stream in streams.iter().flatten() {
                stream.look(&stage);
            }
        }
        act(&api, &stage, &mut streams, &mut ids, step.clone());
    }
    busy.abort();
    recover(&api, &stage, &streams).await;
    drop(streams);
    sleep(OVER).await;
    leave_nothing(&stage, &running).await;
    stage.result()
}

async fn ask_always(stage: Arc<Stage>) {
    loop {
        for (token, question) in [(0, 0), (2, 1)] {
            sleep(Duration::from_millis(2900)).await;
            let asks = Asks {
                token,
                questions: vec![question],
                patience: None,
            };
            tokio::spawn(Arc::clone(&stage).check(asks));
        }
    }
}

fn act(api: &Api, stage: &Arc<Stage>, streams: &mut [Option<Watching>], ids: &mut u64, step: Step) {
    let mut server = api.state();
    match step {
        Step::Write(kind, key, object, is_readable) => server.write(kind, key, object, is_readable),
        Step::Disturb(kind, fault) => server.disturb(kind, fault),
        Step::List(kind, plan) => server.plan_list(kind, plan),
        Step::Refuse(kind, code) => server.refuse_watch(kind, code),
        Step::Compact => server.compact(),
        Step::Reviews(plan) => server.plan_reviews(plan),
        Step::Token(token, owner) => server.callers.belongs(token, owner),
        Step::Right(right, is_allowed) => server.callers.allow(right, is_allowed),
        Step::Check(asks) => drop(tokio::spawn(Arc::clone(stage).check(asks))),
        Step::Batch(asks, details) => drop(tokio::spawn(Arc::clone(stage).batch(asks, details))),
        Step::Open(stream, token) => {
            drop(server);
            streams[stream] = Some(Watching::open(stage, token));
        }
        Step::Subscribe(stream, question) => {
            if let Some(stream) = &streams[stream] {
                *ids += 1;
                stream.subscribe(stage, *ids, question);
            }
        }
        Step::Unsubscribe(stream) => {
            if let Some(stream) = &streams[stream] {
                stream.unsubscribe();
            }
        }
        Step::HangUp(stream) => {
            drop(server);
            streams[stream] = None;
        }
    }
}

/// Nothing goes wrong any more: in time everything is answered again.
async fn recover(api: &Api, stage: &Arc<Stage>, streams: &[Option<Watching>]) {
    {
        let mut server = api.state();
        server.recover();
        server.callers.belongs(0, Some(0));
        // A process that never knew the switch is not ready.
        let config = json!({
            "metadata": {"name": "connectors-config", "namespace": "connectors-system"},
            "data": {"enable-connectors-approval": "true"},
        });
        let key = (
            "connectors-system".to_owned(),
            "connectors-config".to_owned(),
        );
        server.write(Kind::Config, key, Some(config), true);
        for namespace in ["tools", "tools-1"] {
            let right = Right {
                identity: 0,
                namespace: namespace.to_owned(),
                is_everything: true,
            };
            server.callers.allow(right, true);
        }
    }
    let begun = clock::now();
    while clock::now() < begun + RECOVERY {
        sleep(Duration::from_secs(19)).await;
        for stream in streams.iter().flatten() {
            stream.look(stage);
        }
    }
    let what = "afterwards";
    for number in 0..stage.questions.len() {
        let request = CheckAccessRequest {
            question: Some(stage.asked(number)),
        };
        let answer = stage.client(0).check_access(with_token(request, 0)).await;
        let verdict = answer.map(drop).map_err(|status| format!("{status:?}"));
        stage.note(what, verdict);
    }
}

/// When all callers have hung up, nothing of what they took is missing.
async fn leave_nothing(stage: &Arc<Stage>, running: &Running) {
    let is_left = |what: &str, count: i64| {
        let verdict = if count == 0 {
            Ok(())
        } else {
            Err(count.to_string())
        };
        stage.note(format_args!("{what} are left"), verdict);
    };
    is_left("streams", running.metrics.streams.get());
    is_left("questions", running.metrics.subscriptions.get());
    let again: Vec<_> = (0..LIMITS.streams)
        .map(|_| Watching::open(stage, 0))
        .collect();
    sleep(Duration::from_secs(1)).await;
    for stream in &again {
        let verdict = if stream.is_open() {
            Ok(())
        } else {
            Err("is not open".to_owned())
        };
        stage.note("a stream when all others are gone", verdict);
    }
    let asks = || Asks {
        token: 0,
        questions: vec![0],
        patience: None,
    };
    let calls = (0..LIMITS.calls).map(|_| Arc::clone(stage).check(asks()));
    futures::future::join_all(calls).await;
    let is_ready = matches!(
        running.readiness.status(),
        service_kit::readiness::Status::Ready
    );
    stage.note(
        "the end",
        if is_ready {
            Ok(())
        } else {
            Err("not ready".to_owned())
        },
    );
}
