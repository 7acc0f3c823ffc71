//! Every call: its path, its token, its deadline, the size of its messages, and its errors.

use std::future::pending;

use super::super::{ClientParts, UnsentCall};
use super::*;
use crate::access::{AccessTarget, TokenQuestion};
use crate::client::fake_server::Seen;

fn target() -> AccessTarget {
    let AccessQuestion {
        connector,
        permission,
        verb,
        ..
    } = question("harbor");
    AccessTarget {
        connector,
        permission,
        verb,
    }
}

/// Makes every call once, whatever its answer is.
async fn call_all(client: &Client) {
    let _ = client.batch_check_access(&[question("a")]).await;
    let _ = client.batch_check_access_in_detail(&[question("a")]).await;
    let _ = client.who_can(target()).await;
    let token = TokenQuestion {
        token: "of-a-pod".to_owned(),
        target: target(),
    };
    let _ = client.review_token(token).await;
    let _ = client.validate_policy(b"{}".to_vec()).await;
    let _ = client.explain(v1::ExplainRequest::default()).await;
}

/// `grpc-timeout` in milliseconds.
fn told_timeout((_, headers): &Seen) -> Option<u128> {
    let text = headers.get("grpc-timeout")?.to_str().unwrap();
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u128 = number.parse().unwrap();
    Some(match unit {
        "n" => number / 1_000_000,
        "u" => number / 1_000,
        "m" => number,
        "S" => number * 1_000,
        other => panic!("{other}"),
    })
}

/// Half a second more than the client itself waits, so that the client's own error comes first.
#[tokio::test]
async fn every_call_has_its_path_the_token_of_its_time_and_its_own_deadline() {
    let mut world = World::new().await;
    let paths = [
        ("BatchCheckAccess", Some(5_500)),
        ("BatchCheckAccess", Some(5_500)),
        ("WhoCan", Some(5_500)),
        ("ReviewToken", Some(10_500)),
        ("ValidatePolicy", Some(15_500)),
        ("Explain", Some(15_500)),
        ("CheckAccess", Some(5_500)),
        ("EvaluateChecks", Some(15_500)),
        // It lasts as long as there is a watcher.
        ("WatchAccess", None),
    ];
    for token in ["first", "second"] {
        world.token(token);
        call_all(&world.client).await;
        world.check(Ok(no(""))).await.1.unwrap();
        let asking = world.client.clone();
        let asking = asking.evaluate_checks(v1::EvaluateChecksRequest::default());
        let answering = async {
            let Asked::Evaluate(reply) = world.server.next().await else {
                panic!("another call");
            };
            let passed = v1::EvaluateChecksResponse {
                verdict: v1::CheckVerdict::Passed.into(),
                ..v1::EvaluateChecksResponse::default()
            };
            reply.send(Ok(passed)).await.unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap().verdict, 2);
        let watched = world.client.watcher().watch(question("harbor"));
        let stream = world.server.next_stream().await;
        let seen = std::mem::take(&mut *world.server.seen.lock().unwrap());
        assert_eq!(seen.len(), paths.len());
        for (call, (name, timeout)) in seen.iter().zip(paths) {
            let path = format!("/connectors.evaluation.v1.Evaluation/{name}");
            assert_eq!(call.0, path);
            let shown = call.1.get_all("authorization").iter();
            let shown: Vec<_> = shown.map(|it| it.to_str().unwrap()).collect();
            assert_eq!(shown, [format!("Bearer {token}")], "{name}");
            assert_eq!(told_timeout(call), timeout, "{name}");
        }
        // The next stream is opened with the next token.
        drop((watched, stream));
        world.client = world.client_of_the_same_files();
    }
}

impl World {
    fn client_of_the_same_files(&self) -> Client {
        let client = Client::new(ClientSettings {
            url: self.server.url.clone(),
            tls: self.tls.subscribe(),
            token_file: self.directory.path().join("token"),
        });
        client.unwrap()
    }
}

/// The socket itself is the proof: a token would be shown to any process that listens there.
#[tokio::test]
async fn over_a_socket_every_call_works_and_shows_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let client = Client::over_socket(socket.clone());
    let error = client.batch_check_access(&[question("a")]).await;
    assert_eq!(error.unwrap_err().code(), Some(Code::Unavailable));
    let mut server = FakeServer::start_on(&socket);
    let decisions = client.batch_check_access(&[question("a")]).await.unwrap();
    assert_eq!(decisions, [Ok(Permitted::No)]);
    call_all(&client).await;
    let mut harbor = client.watcher().watch(question("harbor"));
    let Asked::Watch(mut stream) = server.next().await else {
        panic!("another call");
    };
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "over a socket").await;
    assert_eq!(next_reason(&mut harbor).await, "over a socket");
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.len(), 8);
    for (path, headers) in seen.iter() {
        assert!(headers.get("authorization").is_none(), "{path}");
    }
}

/// In either direction, of every kind of call.
#[tokio::test]
async fn messages_are_as_long_as_the_service_makes_them_and_no_longer() {
    let world = World::new().await;
    let long = crate::LONGEST_MESSAGE - 1024;
    let policy = "x".repeat(long);
    let answer = world
        .client
        .validate_policy(policy.clone().into_bytes())
        .await;
    assert!(answer.unwrap().findings[0].message == policy);
    let questions = [question(&policy)];
    let answers = world.client.batch_check_access_in_detail(&questions);
    assert!(answers.await.unwrap().remove(0).unwrap().reason == policy);

    // The request is as long as may be, and its echo a little longer.
    let policy = "x".repeat(crate::LONGEST_MESSAGE - 5);
    let error = world.client.validate_policy(policy.into_bytes()).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), Some(Code::OutOfRange), "{error}");
    let longer = "x".repeat(crate::LONGEST_MESSAGE - 4);
    let error = world
        .client
        .validate_policy(longer.clone().into_bytes())
        .await;
    assert!(error.is_err());
    let error = world.client.batch_check_access(&[question(&longer)]).await;
    assert!(error.is_err());
}

/// Also while nothing was sent yet.
#[tokio::test(start_paused = true)]
async fn a_call_takes_no_longer_than_its_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::over_socket(directory.path().join("socket"));
    for limit in [Duration::from_secs(5), Duration::from_secs(15)] {
        let call: UnsentCall<()> = client.call("Anything", limit, ());
        let began = Instant::now();
        let error = call
            .ask(async |_, _| pending::<Result<tonic::Response<()>, Status>>().await)
            .await
            .unwrap_err();
        let took = began.elapsed();
        assert!(took >= limit && took < limit + Duration::from_millis(5));
        assert!(
            matches!(error, EvaluationCallError::Deadline { call: "Anything", limit: told } if told == limit)
        );
    }
    let ClientParts { proof, .. } = &client.service;
    assert!(proof.shown_with((), None).unwrap().metadata().is_empty());
}

fn status(code: Code) -> EvaluationCallError {
    EvaluationCallError::Status {
        call: "CheckAccess",
        status: Box::new(Status::new(code, "words")),
    }
}

/// A caller asks again for what may pass, and gives up on what lasts.
#[test]
fn every_error_says_whether_it_may_pass() {
    let passing = [1, 2, 4, 8, 10, 13, 14, 16];
    for number in 0..=16 {
        let code = Code::from_i32(number);
        let error = status(code);
        assert_eq!(error.may_pass(), passing.contains(&number), "{code:?}");
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.reason(), None);
        let text = error.to_string();
        assert!(
            text.contains("CheckAccess")
                && text.contains("words")
                && text.contains(&format!("{code:?}")),
            "{text}"
        );
    }
    let deadline = EvaluationCallError::Deadline {
        call: "Explain",
        limit: Duration::from_secs(15),
    };
    assert_eq!(
        deadline.to_string(),
        "the evaluation service did not answer Explain within 15s"
    );
    let token = crate::client::CallerTokenError::NotAToken { path: "/t".into() };
    for (error, may_pass, code) in [
        (deadline, true, Some(Code::DeadlineExceeded)),
        (EvaluationCallError::Token(token), true, None),
        (AnswerError::Empty.into(), false, None),
        (crate::verdict::UnknownVerdict(7).into(), false, None),
    ] {
        assert_eq!(error.may_pass(), may_pass, "{error}");
        assert_eq!((error.code(), error.reason()), (code, None), "{error}");
    }
}

#[test]
fn the_reason_of_a_refused_call_is_that_of_its_status() {
    for reason in Reason::ALL {
        let refused = crate::refusal::status(Code::Unavailable, "m", *reason, [], None);
        let error = EvaluationCallError::Status {
            call: "CheckAccess",
            status: Box::new(refused),
        };
        assert_eq!(error.reason(), Some(*reason));
    }
}
