//! How long connections are kept, and how a replica stops.

use service_kit::{
    readiness::Status,
    shutdown::{ProcessEnd, Signal},
};

use super::*;

#[tokio::test]
async fn a_replica_that_stops_answers_what_it_was_asked() {
    let replica = Replica::serving().await;
    // As the API server does it: a connection that stays open.
    let mut idle = replica.caller().connect().await.unwrap();
    Caller::create(&mut idle).await.unwrap();
    let mut asking = replica.caller().connect().await.unwrap();
    // The answer waits for the API server until its own deadline.
    replica.api.hang();
    let asked = tokio::spawn(async move { Caller::create(&mut asking).await });
    while replica.api.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let stopping = replica
        .tasks
        .run(terminated(), &replica.readiness, Duration::from_secs(15));
    let outcome = stopping.await;
    assert_eq!(outcome, ProcessEnd::Drained);
    // It was answered before the process could have ended.
    let answer = timeout(Duration::from_millis(200), asked).await.unwrap();
    let answer = answer.unwrap().unwrap();
    assert_eq!(answer["response"]["status"]["code"], 503);
    closed(&idle).await;
    assert!(TcpStream::connect(replica.address).await.is_err());
}

/// What the kubelet sends.
fn terminated() -> impl futures::Stream<Item = Signal> + Unpin {
    let once = futures::stream::iter([Signal::Terminate]);
    futures::StreamExt::chain(once, futures::stream::pending())
}

/// The clock goes on by so much, and nothing else happens meanwhile.
pub(super) async fn pass(time: Duration) {
    tokio::time::pause();
    sleep(time).await;
    tokio::time::resume();
}

/// Waits until the connection is closed, which it is or soon will be.
async fn closed(sender: &Sender) {
    let ended = async {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LINGER / 2, ended).await.unwrap();
}

#[tokio::test]
async fn a_connection_outlives_what_an_api_server_keeps_unused() {
    let replica = Replica::serving().await;
    let mut kept = replica.caller().connect().await.unwrap();
    for idle in [0, 5, 30, 90] {
        pass(Duration::from_secs(idle)).await;
        Caller::create(&mut kept).await.unwrap();
    }
    pass(IDLE + Duration::from_secs(1)).await;
    Caller::create(&mut kept).await.unwrap_err();
}

#[tokio::test]
async fn a_connection_may_be_made_long_before_it_is_used() {
    let replica = Replica::serving().await;
    let mut unused = replica.caller().connect().await.unwrap();
    let mut never = replica.caller().connect().await.unwrap();
    // The other side has accepted them when it has answered somebody who came later.
    let mut last = replica.caller().connect().await.unwrap();
    Caller::create(&mut last).await.unwrap();
    pass(Duration::from_secs(90)).await;
    Caller::create(&mut unused).await.unwrap();
    pass(IDLE).await;
    Caller::create(&mut never).await.unwrap_err();
}

#[tokio::test]
async fn half_a_head_holds_up_no_stop() {
    let replica = Replica::serving().await;
    let mut half = replica.caller().handshake().await.unwrap().into_inner();
    half.write_all(b"P").await.unwrap();
    let mut last = replica.caller().connect().await.unwrap();
    Caller::create(&mut last).await.unwrap();
    tokio::time::pause();
    let drain = Duration::from_secs(15);
    let stopping = replica.tasks.run(terminated(), &replica.readiness, drain);
    assert_eq!(stopping.await, ProcessEnd::Drained);
}

#[tokio::test]
async fn a_head_has_an_end_and_a_body_may_be_longer() {
    let replica = Replica::serving().await;
    let long_body = Caller::request(" ".repeat(40 * HEAD) + &Caller::review());
    let mut long_head = Caller::request(Caller::review());
    let value = "x".repeat(4 * HEAD).parse().unwrap();
    long_head.headers_mut().insert("x-long", value);
    for (request, status) in [
        (long_body, StatusCode::OK),
        (long_head, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    ] {
        let mut sender = replica.caller().connect().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), status);
    }
}

#[tokio::test]
async fn a_replica_that_stops_answers_on_kept_connections_until_everybody_knows() {
    let replica = Replica::serving().await;
    let mut kept = replica.caller().connect().await.unwrap();
    let mut unused = replica.caller().connect().await.unwrap();
    for sender in [&mut kept, &mut unused] {
        Caller::create(sender).await.unwrap();
    }
    let readiness = replica.readiness.clone();
    let patience = Duration::from_secs(15);
    let (told, tasks) = (readiness.clone(), replica.tasks);
    let stopping = tokio::spawn(async move { tasks.run(terminated(), &told, patience).await });
    while readiness.status() != Status::Stopping {
        tokio::task::yield_now().await;
    }
    Caller::create(&mut kept).await.unwrap();
    // It was told to go elsewhere, and the other one can be used still.
    closed(&kept).await;
    assert!(!unused.is_closed());
    assert_eq!(stopping.await.unwrap(), ProcessEnd::Drained);
    closed(&unused).await;
}

#[tokio::test]
async fn a_dropped_connection_gives_back_what_its_review_took() {
    let replica = Replica::serving().await;
    replica.api.hang();
    let mut sender = replica.caller().connect().await.unwrap();
    let asked = tokio::spawn(async move { Caller::create(&mut sender).await });
    while replica.api.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(replica.handler.taken() > 0);
    asked.abort();
    let given_back = async {
        while replica.handler.taken() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LINGER, given_back).await.unwrap();
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_leaves_the_rest() {
    let replica = Replica::serving().await;
    let limits = replica.handler.limits();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_OF_PEER {
        open.push(TcpStream::connect(replica.address).await.unwrap());
    }
    // It is closed before a handshake.
    replica.caller().connect().await.err().unwrap();
    assert_eq!(limits.counted(Limit::Connections), 1);
    open.pop();
    let again = async {
        while replica.caller().connect().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LINGER, again).await.unwrap();
}
