mod calls;
mod connections;
mod files;
mod streams;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use connectors_api::Permission;
use rustls::ClientConfig;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::channel::{PING_EVERY, PONG_WITHIN};
use super::fake_server::{Asked, Authority, Conversation, FakeServer, bearer, tls};
use super::{AnswerError, Client, ClientSettings, EvaluationCallError, Event};
use crate::access::{
    AccessQuestion, ConnectorName, Decision, Permitted, PodRef, ServiceAccountName,
};
use crate::refusal::{DOMAIN, Reason};
use crate::v1;
use crate::v1::watch_access_request::Action;
use crate::v1::watch_access_response::Event as WireEvent;

const SOON: Duration = Duration::from_secs(20);

struct World {
    authority: Authority,
    server: FakeServer,
    client: Client,
    tls: watch::Sender<Arc<ClientConfig>>,
    directory: TempDir,
}

impl World {
    async fn new() -> Self {
        let authority = Authority::new();
        let server = FakeServer::start(&authority).await;
        let directory = tempfile::tempdir().unwrap();
        let (tls, roots) = tls(&authority);
        let client = Client::new(ClientSettings {
            url: server.url.clone(),
            tls: roots,
            token_file: directory.path().join("token"),
        });
        let world = Self {
            authority,
            server,
            client: client.unwrap(),
            tls,
            directory,
        };
        world.token("first");
        world
    }

    fn token(&self, token: &str) {
        fs::write(self.directory.path().join("token"), token).unwrap();
    }

    /// Asks, and sends the server's answer.
    async fn check(&mut self, answer: Result<v1::AccessAnswer, Status>) -> (String, CheckResult) {
        let client = self.client.clone();
        let asking = client.check_access(question("harbor"));
        let answering = async {
            let Asked::Check(request, reply) = self.server.next().await else {
                panic!("another call");
            };
            assert!(request.metadata().get("grpc-timeout").is_some());
            let answer = answer.map(|answer| v1::CheckAccessResponse {
                answer: Some(answer),
            });
            reply.send(answer).await.unwrap();
            bearer(&request)
        };
        let (answer, bearer) = timeout(SOON, async { tokio::join!(asking, answering) })
            .await
            .unwrap();
        (bearer, answer)
    }
}

type CheckResult = Result<crate::access::AccessAnswer, EvaluationCallError>;

pub(super) fn question(connector: &str) -> AccessQuestion {
    let text = str::to_owned;
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: text("devops"),
            name: text("builder"),
        },
        ConnectorName {
            namespace: text("tools"),
            name: text(connector),
        },
        Permission::Apis,
        PodRef {
            name: text("pod"),
            uid: text("uid"),
        },
    )
}

fn no(reason: &str) -> v1::AccessAnswer {
    v1::AccessAnswer {
        decision: v1::AccessDecision::Denied.into(),
        reason: reason.to_owned(),
        ..v1::AccessAnswer::default()
    }
}

impl Conversation {
    async fn hear(&mut self) -> Action {
        let message = timeout(SOON, self.heard.message()).await.unwrap();
        message.unwrap().unwrap().action.unwrap()
    }

    async fn hear_subscription(&mut self) -> (u64, String) {
        match self.hear().await {
            Action::Subscribe(v1::Subscribe { id, question }) => {
                (id, question.unwrap().connector.unwrap().name)
            }
            Action::Unsubscribe(gone) => panic!("{gone:?}"),
        }
    }

    async fn say(&self, id: u64, event: Option<WireEvent>) {
        let message = v1::WatchAccessResponse { id, event };
        self.said.send(Ok(message)).await.unwrap();
    }

    async fn answer(&self, id: u64, reason: &str) {
        self.say(id, Some(WireEvent::Answer(no(reason)))).await;
    }
}

async fn next(subscription: &mut super::Subscription) -> Event {
    timeout(SOON, subscription.next()).await.unwrap().unwrap()
}

async fn next_reason(subscription: &mut super::Subscription) -> String {
    loop {
        if let Event::Answer(answer) = next(subscription).await {
            return answer.reason;
        }
    }
}

#[tokio::test]
async fn every_call_shows_the_token_that_the_file_holds_then() {
    let mut world = World::new().await;
    let (bearer, answer) = world.check(Ok(no("why"))).await;
    assert_eq!(bearer, "Bearer first");
    let answer = answer.unwrap();
    assert_eq!(
        (answer.decision, &*answer.reason),
        (Decision::Denied, "why")
    );

    world.token("second");
    let (bearer, _) = world.check(Ok(no(""))).await;
    assert_eq!(bearer, "Bearer second");

    world.token("");
    let error = world
        .client
        .check_access(question("harbor"))
        .await
        .unwrap_err();
    assert!(matches!(error, EvaluationCallError::Token(_)), "{error}");
}

#[tokio::test]
async fn an_error_of_the_service_and_an_answer_of_no_meaning_are_errors() {
    let mut world = World::new().await;
    let (_, answer) = world
        .check(Err(Status::permission_denied("not here")))
        .await;
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Some(Code::PermissionDenied));
    assert!(!error.may_pass());
    assert_eq!(
        error.to_string(),
        "the evaluation service did not answer CheckAccess: not here (PermissionDenied)"
    );

    let (_, answer) = world.check(Ok(v1::AccessAnswer::default())).await;
    let error = answer.unwrap_err();
    assert!(matches!(
        error,
        EvaluationCallError::Answer(AnswerError::Decision(0))
    ));

    let client = world.client.clone();
    let asking = client.evaluate_checks(v1::EvaluateChecksRequest::default());
    let answering = async {
        let Asked::Evaluate(reply) = world.server.next().await else {
            panic!("another call");
        };
        let unknown = v1::EvaluateChecksResponse {
            verdict: 17,
            ..v1::EvaluateChecksResponse::default()
        };
        reply.send(Ok(unknown)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert!(matches!(answer, Err(EvaluationCallError::Verdict(_))));
}

#[tokio::test]
async fn many_questions_in_one_call_have_an_answer_each() {
    let world = World::new().await;
    let questions = ["harbor", "gitlab", "harbor"].map(question);
    let decisions = world.client.batch_check_access(&questions).await.unwrap();
    let decisions: Vec<_> = decisions.into_iter().map(Result::unwrap).collect();
    assert_eq!(decisions, [Permitted::No; 3]);
    let answers = world.client.batch_check_access_in_detail(&questions).await;
    let answers = answers.unwrap().into_iter().map(Result::unwrap);
    let reasons: Vec<_> = answers.map(|answer| answer.reason).collect();
    assert_eq!(reasons, ["harbor", "gitlab", "harbor"]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_no_more_than_the_deadline() {
    let mut world = World::new().await;
    let client = world.client.clone();
    let started = Instant::now();
    let asking = client.check_access(question("harbor"));
    let (answer, _held) = tokio::join!(asking, world.server.next());
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Some(Code::DeadlineExceeded), "{error}");
    assert!(error.may_pass());
    assert!(started.elapsed() < super::CHECK_ACCESS + Duration::from_secs(2));
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_spoken_to_until_its_root_is_known() {
    let mut world = World::new().await;
    let stranger = Authority::new();
    world.tls.send_replace(stranger.client());
    let error = world
        .client
        .check_access(question("harbor"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
    assert!(error.may_pass());

    world.tls.send_replace(world.authority.client());
    let (_, answer) = world.check(Ok(no("back"))).await;
    assert_eq!(answer.unwrap().reason, "back");
}

#[tokio::test]
async fn a_server_without_http_2_is_not_spoken_to() {
    let authority = Authority::new();
    let any = ([127, 0, 0, 1], 0).into();
    let server = FakeServer::start_at(&authority, any, b"http/1.1").await;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("token"), "t").unwrap();
    let (_tls, roots) = tls(&authority);
    let client = Client::new(ClientSettings {
        url: server.url.clone(),
        tls: roots,
        token_file: directory.path().join("token"),
    });
    let error = client
        .unwrap()
        .check_access(question("harbor"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
}

#[tokio::test]
async fn one_stream_carries_all_questions_and_each_answer_to_its_own() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let mut gitlab = world.client.watcher().watch(question("gitlab"));
    assert_eq!(harbor.latest(), None);
    let mut stream = world.server.next_stream().await;
    assert_eq!(stream.bearer, "Bearer first");
    let (first, name) = stream.hear_subscription().await;
    assert_eq!(name, "harbor");
    let (second, name) = stream.hear_subscription().await;
    assert_eq!(name, "gitlab");

    stream.answer(second, "b").await;
    stream.answer(first, "a").await;
    assert_eq!(next_reason(&mut harbor).await, "a");
    assert_eq!(next_reason(&mut gitlab).await, "b");

    // A third question joins the open stream; an answer with an unknown id affects no subscription.
    let mut nexus = world.client.watcher().clone().watch(question("nexus"));
    let (third, _) = stream.hear_subscription().await;
    assert!(third != first && third != second);
    stream.answer(77, "nobody's").await;
    stream.answer(third, "c").await;
    assert_eq!(next_reason(&mut nexus).await, "c");

    drop(harbor);
    match stream.hear().await {
        Action::Unsubscribe(v1::Unsubscribe { id }) => assert_eq!(id, first),
        Action::Subscribe(new) => panic!("{new:?}"),
    }
    stream.answer(first, "too late").await;
    stream.answer(second, "still here").await;
    assert_eq!(next_reason(&mut gitlab).await, "still here");
}

#[tokio::test]
async fn a_slow_subscriber_sees_the_latest_only() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let mut marker = world.client.watcher().watch(question("marker"));
    let mut stream = world.server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    let (mark, _) = stream.hear_subscription().await;
    for number in 0..50 {
        stream.answer(id, &number.to_string()).await;
    }
    stream.answer(mark, "").await;
    next(&mut marker).await;
    assert_eq!(next_reason(&mut harbor).await, "49");
}

#[tokio::test]
async fn a_refusal_and_what_is_not_understood_are_told_as_such() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let mut stream = world.server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    let refusal = v1::Refusal {
        reason: "NAMESPACE_FORBIDDEN".to_owned(),
        metadata: std::collections::HashMap::new(),
        code: Code::PermissionDenied.into(),
        message: "not in this namespace".to_owned(),
    };
    let mut unknown = no("");
    unknown.decision = 9;
    let said = [
        (Some(WireEvent::Refusal(refusal)), Code::PermissionDenied),
        (Some(WireEvent::Answer(unknown)), Code::Internal),
        (None, Code::Internal),
    ];
    for (event, code) in said {
        stream.say(id, event).await;
        match next(&mut harbor).await {
            Event::Refused(refusal) => assert_eq!(refusal.code, code),
            other @ (Event::Answer(_) | Event::Disconnected) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn after_the_end_of_a_stream_answers_are_stale_and_questions_asked_again() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let gitlab = world.client.watcher().watch(question("gitlab"));
    let mut stream = world.server.next_stream().await;
    let (first, _) = stream.hear_subscription().await;
    stream.hear_subscription().await;
    stream.answer(first, "before").await;
    assert_eq!(next_reason(&mut harbor).await, "before");

    world.token("renewed");
    drop(gitlab);
    let end = Status::unavailable("prove again who you are");
    stream.said.send(Err(end)).await.unwrap();
    assert_eq!(next(&mut harbor).await, Event::Disconnected);

    let mut stream = world.server.next_stream().await;
    assert_eq!(stream.bearer, "Bearer renewed");
    let (id, name) = stream.hear_subscription().await;
    assert_eq!((id, &*name), (first, "harbor"));
    stream.answer(id, "after").await;
    assert_eq!(next_reason(&mut harbor).await, "after");
    // The dropped question was neither subscribed again nor unsubscribed.
    let new = world.client.watcher().watch(question("new"));
    assert_eq!(stream.hear_subscription().await.1, "new");
    drop(new);
}

/// Each reason of the service, an error without a reason, and an end without an error.
#[tokio::test]
async fn however_a_stream_ends_its_answers_are_stale_before_another_one_begins() {
    let because = |reason: &Reason| {
        let info = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, []);
        Some(Status::with_error_details(Code::Unavailable, "", info))
    };
    let ends = Reason::ALL.iter().map(because);
    for end in ends.chain([Some(Status::internal("")), None]) {
        let mut world = World::new().await;
        let mut harbor = world.client.watcher().watch(question("harbor"));
        let mut stream = world.server.next_stream().await;
        let (id, _) = stream.hear_subscription().await;
        stream.answer(id, "before").await;
        assert_eq!(next_reason(&mut harbor).await, "before");
        if let Some(end) = end.clone() {
            stream.said.send(Err(end)).await.unwrap();
        }
        drop(stream);
        assert_eq!(next(&mut harbor).await, Event::Disconnected, "{end:?}");
    }
}

/// A node that disappears closes no connection.
#[tokio::test]
async fn a_connection_that_carries_nothing_any_more_ends_within_seconds() {
    let authority = Authority::new();
    let mut server = FakeServer::start(&authority).await;
    let (url, silence) = server.behind_a_relay().await;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("token"), "t").unwrap();
    let (_tls, roots) = tls(&authority);
    let client = Client::new(ClientSettings {
        url,
        tls: roots,
        token_file: directory.path().join("token"),
    });
    let mut harbor = client.unwrap().watcher().watch(question("harbor"));
    let mut stream = server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "before").await;
    assert_eq!(next_reason(&mut harbor).await, "before");

    silence.send_replace(true);
    tokio::time::pause();
    let most = PING_EVERY + PONG_WITHIN;
    let silent = Instant::now();
    assert_eq!(next(&mut harbor).await, Event::Disconnected);
    assert!(silent.elapsed() <= most + Duration::from_secs(1));
}

/// Includes more questions than fit into the channel of unwritten messages.
#[tokio::test]
async fn every_question_is_asked_again_however_many_there_are() {
    let mut world = World::new().await;
    let watcher = world.client.watcher();
    let mut all = Vec::new();
    for count in [1, 2, 63, 64, 65, 200] {
        while all.len() < count {
            all.push(watcher.watch(question(&format!("c-{}", all.len()))));
        }
        let mut stream = world.server.next_stream().await;
        let mut asked = BTreeMap::new();
        for _ in 0..count {
            let (id, name) = stream.hear_subscription().await;
            asked.insert(name, id);
        }
        assert_eq!(asked.len(), count);
        let last = count - 1;
        stream.answer(asked[&format!("c-{last}")], "here").await;
        assert_eq!(next_reason(&mut all[last]).await, "here");
        let end = Status::unavailable("begin again");
        stream.said.send(Err(end)).await.unwrap();
        assert_eq!(next(&mut all[last]).await, Event::Disconnected);
        for question in &all {
            assert_eq!(question.latest(), Some(Event::Disconnected));
        }
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_and_nobody_is_told_twice_that_it_was_gone() {
    let World {
        authority,
        mut server,
        client,
        tls: _tls,
        directory: _directory,
    } = World::new().await;
    let mut harbor = client.watcher().watch(question("harbor"));
    let mut stream = server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "before").await;
    assert_eq!(next_reason(&mut harbor).await, "before");

    let address = server.stop().await;
    drop(stream);
    assert_eq!(next(&mut harbor).await, Event::Disconnected);
    // Long enough for several attempts.
    assert!(
        timeout(Duration::from_secs(1), harbor.next())
            .await
            .is_err()
    );
    assert_eq!(harbor.latest(), Some(Event::Disconnected));

    let mut server = FakeServer::start_at(&authority, address, b"h2").await;
    let mut stream = server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "after").await;
    assert_eq!(next_reason(&mut harbor).await, "after");
}

/// A panic ends it in the same way.
#[test]
fn after_the_end_of_its_task_no_answer_counts_and_no_subscriber_waits() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let (world, mut harbor) = first.block_on(async {
        let mut world = World::new().await;
        let mut harbor = world.client.watcher().watch(question("harbor"));
        let mut stream = world.server.next_stream().await;
        let (id, _) = stream.hear_subscription().await;
        stream.answer(id, "before").await;
        assert_eq!(next_reason(&mut harbor).await, "before");
        (world, harbor)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(next(&mut harbor).await, Event::Disconnected);
        assert_eq!(harbor.next().await, None);
        assert_eq!(harbor.latest(), Some(Event::Disconnected));
        let mut late = world.client.watcher().watch(question("late"));
        assert_eq!(next(&mut late).await, Event::Disconnected);
        assert_eq!(late.next().await, None);
    });
}

#[tokio::test]
async fn without_questions_there_is_no_stream_and_without_clients_it_ends() {
    let mut world = World::new().await;
    world.check(Ok(no(""))).await.1.unwrap();
    assert!(world.server.asked.try_recv().is_err());

    let harbor = world.client.watcher().watch(question("harbor"));
    let mut stream = world.server.next_stream().await;
    stream.hear_subscription().await;
    drop(world.client);
    // The subscription alone keeps the stream open.
    let more = timeout(Duration::from_millis(200), stream.heard.message());
    assert!(more.await.is_err());
    drop(harbor);
    match timeout(SOON, async {
        while let Ok(Some(_)) = stream.heard.message().await {}
    })
    .await
    {
        Ok(()) => {}
        Err(late) => panic!("the stream is still open: {late}"),
    }
}
