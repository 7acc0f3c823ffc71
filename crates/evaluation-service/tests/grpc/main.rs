//! The service over real TLS and gRPC, with real workers, against a fake API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod doors;
mod evaluate;
mod explain;
mod fake_api;
mod limits;
mod listing;
mod staleness;
mod stream;
mod switch;
mod validate;
mod world;

use std::time::Duration;

use connectors_api::access_request::Phase;
use evaluation_api::access::Decision;
use evaluation_api::client::{EvaluationCallError, Event};
use evaluation_api::refusal::Reason;
use serde_json::json;
use service_kit::shutdown::ProcessEnd;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tonic::Code;

use fake_api::{FakeApi, token};
use world::{SOON, World, binding, next, question, request, role};

fn code(error: &EvaluationCallError) -> Code {
    error.code().unwrap()
}

#[tokio::test]
async fn there_is_no_answer_before_the_caches_are_complete() {
    let api = FakeApi::new();
    api.open(false);
    let world = World::start(api).await;
    let error = world.client.check_access(question()).await.unwrap_err();
    assert_eq!(code(&error), Code::Unavailable, "{error}");
    // A stream does not begin either, and begins by itself when it can.
    let mut watched = world.client.watcher().watch(question());
    assert_eq!(next(&mut watched).await, Event::Disconnected);

    world.api.open(true);
    world.ready().await;
    let answer = world.client.check_access(question()).await.unwrap();
    assert_eq!(answer.decision, Decision::Denied);
    assert!(answer.fresh_as_of.is_some());
    assert!(
        matches!(next(&mut watched).await, Event::Answer(answer) if answer.decision == Decision::Denied)
    );
}

/// Everything that answers rest on.
pub(crate) const FOLLOWED: [&str; 8] = [
    "accesspolicies",
    "accessrequests",
    "clusterrolebindings",
    "clusterroles",
    "connectors",
    "namespaces",
    "rolebindings",
    "roles",
];

/// The same with what answers only mention.
pub(crate) fn listed() -> Vec<&'static str> {
    let mut listed = FOLLOWED.to_vec();
    listed.push("configmaps");
    listed.sort_unstable();
    listed
}

#[tokio::test]
async fn there_is_no_answer_while_one_list_is_missing_whichever_it_is() {
    for missing in listed() {
        let api = FakeApi::new();
        api.withhold(Some(missing));
        let world = World::start(api).await;
        let all_but_one: Vec<_> = listed().into_iter().filter(|it| *it != missing).collect();
        let watched = async {
            while world.api.watched() != all_but_one {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, watched).await.unwrap();
        let error = world.client.check_access(question()).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::NotReady), "{missing}: {error}");
        world.api.withhold(None);
        world.ready().await;
        assert!(
            world.client.check_access(question()).await.is_ok(),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn what_is_there_at_the_start_counts() {
    let api = FakeApi::new();
    api.put("accessrequests", &request("Granted"));
    api.put("roles", &role());
    api.put("rolebindings", &binding());
    let world = World::start(api).await;
    world.ready().await;
    let answer = world.client.check_access(question()).await.unwrap();
    assert!(
        matches!(answer.decision, Decision::AllowedPod(_)),
        "{answer:?}"
    );
    let mut later = question();
    later.pod.as_mut().unwrap().uid = "another".to_owned();
    let answer = world.client.check_access(later).await.unwrap();
    assert_eq!(answer.decision, Decision::Denied);
}

#[tokio::test]
async fn a_grant_reaches_its_watcher_at_once_and_so_does_its_end() {
    let world = World::new().await;
    let mut watched = world.client.watcher().watch(question());
    let phase = |event: Event| match event {
        Event::Answer(answer) => (answer.is_allowed(), answer.request.and_then(|it| it.phase)),
        Event::Refused(_) | Event::Disconnected => panic!("{event:?}"),
    };
    assert_eq!(phase(next(&mut watched).await), (false, None));
    world.api.put("accessrequests", &request("Pending"));
    assert_eq!(
        phase(next(&mut watched).await),
        (false, Some(Phase::Pending))
    );

    world.api.put("roles", &role());
    world.api.put("rolebindings", &binding());
    // The binding alone is news only as a reason.
    assert!(!phase(next(&mut watched).await).0);
    world.api.put("accessrequests", &request("Granted"));
    assert_eq!(
        phase(next(&mut watched).await),
        (true, Some(Phase::Granted))
    );

    world.api.remove("rolebindings", &binding());
    assert!(!phase(next(&mut watched).await).0);
    world.api.put("rolebindings", &binding());
    assert!(phase(next(&mut watched).await).0);
    world.api.put("accessrequests", &request("Revoked"));
    assert_eq!(
        phase(next(&mut watched).await),
        (false, Some(Phase::Revoked))
    );
    assert_eq!(world.metric("connectors_evaluation_subscriptions"), "1");
}

#[tokio::test]
async fn a_request_that_becomes_unreadable_lets_nobody_in() {
    let world = World::new().await;
    world.api.put("accessrequests", &request("Granted"));
    world.api.put("roles", &role());
    world.api.put("rolebindings", &binding());
    let mut watched = world.client.watcher().watch(question());
    let allowed = async |watched: &mut _, wanted: bool| loop {
        if let Event::Answer(answer) = next(watched).await
            && answer.is_allowed() == wanted
        {
            return answer;
        }
    };
    allowed(&mut watched, true).await;
    let mut odd = request("Granted");
    odd["spec"]["unknown"] = json!(1);
    world.api.put("accessrequests", &odd);
    assert_eq!(allowed(&mut watched, false).await.request, None);
}

#[tokio::test]
async fn a_caller_without_permission_learns_nothing_of_the_namespace() {
    let world = World::new().await;
    world.api.allow(&["elsewhere"]);
    let error = world.client.check_access(question()).await.unwrap_err();
    assert_eq!(code(&error), Code::PermissionDenied);
    let mut watched = world.client.watcher().watch(question());
    match next(&mut watched).await {
        Event::Refused(refusal) => assert_eq!(refusal.code, Code::PermissionDenied),
        other @ (Event::Answer(_) | Event::Disconnected) => panic!("{other:?}"),
    }
    // Another namespace on the same stream is answered.
    let mut other = question();
    other.connector.namespace = "elsewhere".to_owned();
    let mut watched = world.client.watcher().watch(other);
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));

    let asked = world.api.access_reviews();
    let mut expected = json!({"verb": "create", "group": "connectors.alauda.io", "resource": "evaluations", "subresource": "mount", "namespace": "tools"});
    assert_eq!(asked[0]["resourceAttributes"], expected);
    expected.as_object_mut().unwrap().remove("subresource");
    assert_eq!(asked[1]["resourceAttributes"], expected);
    assert_eq!(asked[0]["user"], "system:serviceaccount:tools:csi-node");
    assert_eq!(asked[0]["groups"], json!(["system:serviceaccounts"]));
    assert_eq!(asked[0]["extra"], json!({"a": ["b"]}));

    // A no is not remembered.
    world.api.allow(&["tools"]);
    world.client.check_access(question()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_nobody_knows_is_refused_and_a_good_one_is_remembered() {
    let world = World::new().await;
    // What is no token for the service is not even asked about.
    world.token("forged");
    let error = world.client.check_access(question()).await.unwrap_err();
    assert_eq!(code(&error), Code::Unauthenticated);
    assert!(!error.to_string().contains("forged"), "{error}");
    assert_eq!(world.api.token_reviews(), 0);
    let forged = token("forged");
    world.token(&forged);
    for _ in 0..5 {
        let error = world.client.check_access(question()).await.unwrap_err();
        assert_eq!(code(&error), Code::Unauthenticated);
        assert!(!error.to_string().contains(&forged), "{error}");
    }
    assert_eq!(world.api.token_reviews(), 1);

    world.token(&token("good-one"));
    for _ in 0..5 {
        world.client.check_access(question()).await.unwrap();
    }
    assert_eq!(
        (world.api.token_reviews(), world.api.access_reviews().len()),
        (2, 1)
    );
    // Another caller is somebody else.
    world.token(&token("good-two"));
    world.client.check_access(question()).await.unwrap();
    assert_eq!(
        (world.api.token_reviews(), world.api.access_reviews().len()),
        (3, 2)
    );
}

#[tokio::test]
async fn an_api_server_that_fails_is_no_yes() {
    let world = World::new().await;
    world.api.break_reviews();
    let error = world.client.check_access(question()).await.unwrap_err();
    assert_eq!(code(&error), Code::Unavailable);
    assert!(error.may_pass());
    assert!(!error.to_string().contains("broken"), "{error}");
    let mut watched = world.client.watcher().watch(question());
    assert_eq!(next(&mut watched).await, Event::Disconnected);
}

#[tokio::test]
async fn a_question_that_is_none_is_refused_and_the_stream_goes_on() {
    let world = World::new().await;
    let mut wrong = question();
    wrong.connector.name = "Not A Name".to_owned();
    let error = world.client.check_access(wrong.clone()).await.unwrap_err();
    assert_eq!(code(&error), Code::InvalidArgument);
    let mut watched = world.client.watcher().watch(wrong);
    match next(&mut watched).await {
        Event::Refused(refusal) => assert_eq!(refusal.code, Code::InvalidArgument),
        other @ (Event::Answer(_) | Event::Disconnected) => panic!("{other:?}"),
    }
    let mut watched = world.client.watcher().watch(question());
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
}

#[tokio::test]
async fn the_end_of_the_process_ends_its_streams() {
    let world = World::new().await;
    let mut watched = world.client.watcher().watch(question());
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
    world.signal();
    assert_eq!(next(&mut watched).await, Event::Disconnected);
    assert_eq!(world.ended().await, ProcessEnd::Drained);
}

#[tokio::test]
async fn ten_thousand_questions_are_answered_each_for_itself() {
    let world = World::new().await;
    let about = |number: usize| {
        let mut asked = question();
        asked.pod.as_mut().unwrap().uid = format!("pod-{number}");
        asked
    };
    let watcher = world.client.watcher();
    let mut all: Vec<_> = (0..10_000)
        .map(|number| watcher.watch(about(number)))
        .collect();
    for watched in &mut all {
        assert!(matches!(next(watched).await, Event::Answer(_)));
    }
    let mut mine = request("Pending");
    mine["spec"]["context"]["objectRef"]["uid"] = "pod-7".into();
    world.api.put("accessrequests", &mine);
    assert!(matches!(next(&mut all[7]).await, Event::Answer(answer) if answer.request.is_some()));
    let others = timeout(Duration::from_millis(100), all[8].next()).await;
    assert!(others.is_err());
    drop(all);
    let gone = async {
        while world.metric("connectors_evaluation_subscriptions") != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, gone).await.unwrap();
}

#[tokio::test]
async fn questions_about_many_namespaces_are_all_reviewed_and_a_few_at_a_time() {
    let world = World::new().await;
    let names: Vec<String> = (0..100).map(|number| format!("tools-{number}")).collect();
    world
        .api
        .allow(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let about = |namespace: String| {
        let mut asked = question();
        asked.connector.namespace = namespace;
        asked
    };
    let watcher = world.client.watcher();
    let mut all: Vec<_> = names
        .into_iter()
        .map(|name| watcher.watch(about(name)))
        .collect();
    for watched in &mut all {
        assert!(matches!(next(watched).await, Event::Answer(_)));
    }
    let mut refused = watcher.watch(about("not-allowed".to_owned()));
    assert!(matches!(next(&mut refused).await, Event::Refused(_)));
    // The refused one was asked about the right for mounts and about the one that comprises it.
    assert_eq!(world.api.access_reviews().len(), 102);
    let most = world.api.most_reviews();
    assert!((2..=8).contains(&most), "{most}");
}

#[tokio::test]
async fn one_peer_that_opens_many_connections_is_cut_off_and_let_in_again() {
    let world = World::new().await;
    world.client.check_access(question()).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(world.connect().await);
    }
    let mut last = open.pop().unwrap();
    // Before any time limit of a handshake.
    let ended = timeout(Duration::from_secs(3), last.read(&mut [0])).await;
    assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
    // What was open before goes on.
    world.client.check_access(question()).await.unwrap();
    drop(open);
    let counted = async {
        while world.metric("connectors_evaluation_connections") != "1" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, counted).await.unwrap();
    let mut again = world.connect().await;
    let waits = timeout(Duration::from_millis(100), again.read(&mut [0])).await;
    assert!(waits.is_err());
}
