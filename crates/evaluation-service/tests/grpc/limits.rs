//! What one caller may have at the same time, and that nobody else notices when it has all of that.

use std::time::Duration;

use evaluation_api::client::{Client, Event};
use evaluation_api::refusal::Reason;
use evaluation_api::v1::evaluation_client::EvaluationClient;
use evaluation_api::v1::{CheckAccessRequest, CheckAccessResponse};
use evaluation_service::caller_quotas::CallerLimits;
use http::uri::PathAndQuery;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

use crate::stream::{Spoken, with_token};
use crate::world::{SOON, World, next, question};

const LIMITS: CallerLimits = CallerLimits {
    calls: 4,
    streams: 1,
};

/// A call of `somebody` that is in progress until this is dropped. It may have to wait for a place that
/// another one has for a moment.
async fn in_progress(world: &World) {
    loop {
        expect(&unsaid(world).await, Reason::TooManyCalls);
        sleep(Duration::from_millis(10)).await;
    }
}

/// A call whose message never comes, until it is refused.
async fn unsaid(world: &World) -> Status {
    let mut grpc = Grpc::new(world.channel());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/connectors.evaluation.v1.Evaluation/CheckAccess");
    let codec = ProstCodec::<CheckAccessRequest, CheckAccessResponse>::default();
    let nothing = with_token(tokio_stream::pending());
    grpc.client_streaming(nothing, path, codec)
        .await
        .unwrap_err()
}

/// A whole call of `somebody`.
async fn said(world: &World) -> Result<(), Status> {
    let mut stub = EvaluationClient::new(world.channel());
    let question = Some(question().into());
    let answer = stub.check_access(with_token(CheckAccessRequest { question }));
    answer.await.map(|_| ())
}

fn expect(status: &Status, reason: Reason) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(Reason::of(status), Some(reason));
    let again = status.get_details_retry_info();
    assert!(again.unwrap().retry_delay.unwrap() >= Duration::from_secs(1));
}

/// Tries until it is answered, which it is as soon as a place is free.
async fn until_answered(world: &World) {
    let answered = async {
        while let Err(status) = said(world).await {
            expect(&status, Reason::TooManyCalls);
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, answered).await.unwrap();
}

async fn until_begun(world: &World) -> Spoken {
    let begun = async {
        loop {
            match Spoken::begin_on(world.channel()).await {
                Ok(spoken) => return spoken,
                Err(status) => expect(&status, Reason::TooManyStreams),
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, begun).await.unwrap()
}

#[tokio::test]
async fn a_caller_that_has_all_it_may_changes_nothing_for_another() {
    let world = World::limited(LIMITS).await;
    let spoken = until_begun(&world).await;
    let refused = Spoken::begin_on(world.channel()).await.err().unwrap();
    expect(&refused, Reason::TooManyStreams);

    let calls = futures::future::join_all((0..LIMITS.calls).map(|_| in_progress(&world)));
    let others = async {
        let full = async {
            loop {
                if let Err(status) = said(&world).await {
                    return status;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let refused = timeout(SOON, full).await.unwrap();
        expect(&refused, Reason::TooManyCalls);
        // Another account, and a user of this machine.
        for client in [
            world.client.clone(),
            Client::over_socket(world.socket.clone()),
        ] {
            client.check_access(question()).await.unwrap();
            let mut watched = client.watcher().watch(question());
            assert!(matches!(next(&mut watched).await, Event::Answer(_)));
        }
    };
    tokio::select! {
        ended = calls => panic!("{ended:?}"),
        () = others => {}
    }
    // Nobody waits for the calls any more, so that there are places again.
    until_answered(&world).await;
    let counted = |limit: &str| {
        let line = format!("connectors_evaluation_caller_limits_total{{limit=\"{limit}\"}}");
        world.metric(&line).parse::<u32>().unwrap()
    };
    assert!(counted("calls") > 0 && counted("streams") > 0);
    drop(spoken);
}

#[tokio::test]
async fn users_of_this_machine_have_limits_as_well() {
    let world = World::limited(LIMITS).await;
    let (first, second) = (
        Client::over_socket(world.socket.clone()),
        Client::over_socket(world.socket.clone()),
    );
    let mut watched = first.watcher().watch(question());
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
    // One user, however many connections.
    let mut refused = second.watcher().watch(question());
    assert_eq!(next(&mut refused).await, Event::Disconnected);
    drop((first, watched));
    assert!(matches!(next(&mut refused).await, Event::Answer(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_gives_its_place_back_whatever_way_it_ends() {
    let world = World::limited(LIMITS).await;

    // The caller has said all, and hears the end.
    let mut spoken = until_begun(&world).await;
    drop(spoken.said);
    while timeout(SOON, spoken.heard.message())
        .await
        .unwrap()
        .unwrap()
        .is_some()
    {}

    // The caller has said all, and does not listen any more.
    let spoken = until_begun(&world).await;
    drop(spoken);

    // The service ends it.
    let mut spoken = until_begun(&world).await;
    for _ in 0..2 {
        spoken.subscribe(1).await;
    }
    while timeout(SOON, spoken.heard.message()).await.unwrap().is_ok() {}

    // The caller is gone without a word, and so is its connection.
    drop(until_begun(&world).await);
    std::thread::scope(|scope| {
        let gone = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let spoken = runtime.block_on(until_begun(&world));
            runtime.shutdown_background();
            drop(spoken);
        });
        gone.join().unwrap();
    });
    until_begun(&world).await;
}

#[tokio::test]
async fn a_call_gives_its_place_back_when_it_is_refused() {
    let world = World::limited(LIMITS).await;
    world.api.allow(&[]);
    for _ in 0..LIMITS.calls * 5 {
        let status = said(&world).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
    }
    world.api.allow(&["tools"]);
    said(&world).await.unwrap();
}

/// A call of any kind whose message never comes.
async fn half_said(channel: Channel, path: &'static str) -> Status {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<CheckAccessRequest, CheckAccessResponse>::default();
    let nothing = with_token(tokio_stream::pending());
    grpc.client_streaming(nothing, PathAndQuery::from_static(path), codec)
        .await
        .unwrap_err()
}

#[tokio::test]
async fn whoever_asks_how_the_service_is_has_to_do_so_soon() {
    let world = World::new().await;
    let late = half_said(world.channel(), "/grpc.health.v1.Health/Check");
    let late = timeout(SOON, late).await.unwrap();
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late:?}");
    assert_eq!(Reason::of(&late), Some(Reason::CallTooLong));
}

#[tokio::test]
async fn many_who_begin_to_ask_how_the_service_is_are_sent_away() {
    let world = World::new().await;
    // One connection carries more than there are places.
    let channel = world.channel();
    let asked = (0..100).map(|_| half_said(channel.clone(), "/grpc.health.v1.Health/Check"));
    let all = timeout(SOON, futures::future::join_all(asked))
        .await
        .unwrap();
    let count = |reason| {
        all.iter()
            .filter(|it| Reason::of(it) == Some(reason))
            .count()
    };
    let (late, refused) = (count(Reason::CallTooLong), count(Reason::TooManyCalls));
    assert!(
        late >= 64 && refused > 0 && late + refused == 100,
        "{late}, {refused}"
    );
    assert!(said(&world).await.is_ok());
}

#[tokio::test]
async fn a_message_with_many_questions_has_to_come_soon() {
    let world = World::new().await;
    let path = "/connectors.evaluation.v1.Evaluation/BatchCheckAccess";
    let late = timeout(SOON, half_said(world.channel(), path))
        .await
        .unwrap();
    assert_eq!(Reason::of(&late), Some(Reason::CallTooLong), "{late:?}");
}

#[tokio::test]
async fn a_call_of_the_same_name_of_another_service_is_unknown() {
    let world = World::new().await;
    let path = "/another.v1.Evaluation/BatchCheckAccess";
    let unknown = timeout(SOON, half_said(world.channel(), path))
        .await
        .unwrap();
    assert_eq!(unknown.code(), Code::Unimplemented, "{unknown:?}");
}

#[tokio::test]
async fn one_question_is_short_and_whoever_sends_more_is_refused() {
    let world = World::new().await;
    let mut long = question();
    long.verb = "x".repeat(100 * 1024);
    let refused = world.client.check_access(long).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::OutOfRange), "{refused:?}");
    let mut health = tonic_health::pb::health_client::HealthClient::new(world.channel());
    let service = "x".repeat(2 * 1024);
    let refused = health
        .check(tonic_health::pb::HealthCheckRequest { service })
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
}
