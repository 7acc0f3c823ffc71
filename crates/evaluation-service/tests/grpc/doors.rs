//! The other ways in: the socket, health, and reflection.

use std::time::Duration;

use evaluation_api::client::{Client, Event};
use evaluation_api::v1::evaluation_server::SERVICE_NAME;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::fake_api::FakeApi;
use crate::stream::with_token;
use crate::world::{SOON, World, next, question};

#[tokio::test]
async fn over_the_socket_nobody_shows_a_token_and_nobody_is_reviewed() {
    let world = World::new().await;
    let client = Client::over_socket(world.socket.clone());
    let mut elsewhere = question();
    elsewhere.connector.namespace = "elsewhere".to_owned();
    for asked in [question(), elsewhere.clone()] {
        assert!(!client.check_access(asked).await.unwrap().is_allowed());
    }
    let mut watched = client.watcher().watch(elsewhere);
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
    assert_eq!(
        (world.api.token_reviews(), world.api.access_reviews().len()),
        (0, 0)
    );
    let socket = world.socket.clone();
    world.signal();
    assert_eq!(next(&mut watched).await, Event::Disconnected);
    world.ended().await;
    assert!(!socket.exists());
}

async fn health(world: &World, service: &str) -> Result<ServingStatus, Status> {
    let mut client = HealthClient::new(world.channel());
    let service = service.to_owned();
    let answer = client.check(HealthCheckRequest { service }).await?;
    Ok(answer.into_inner().status())
}

#[tokio::test]
async fn health_needs_no_token_and_follows_readiness() {
    let api = FakeApi::new();
    api.open(false);
    let world = World::start(api).await;
    for service in ["", SERVICE_NAME] {
        assert_eq!(
            health(&world, service).await.unwrap(),
            ServingStatus::NotServing
        );
    }
    world.api.open(true);
    world.ready().await;
    for service in ["", SERVICE_NAME] {
        assert_eq!(
            health(&world, service).await.unwrap(),
            ServingStatus::Serving
        );
    }
    let other = health(&world, "grpc.health.v1.Health").await.unwrap_err();
    assert_eq!(other.code(), Code::NotFound);
    let mut client = HealthClient::new(world.channel());
    let watched = client.watch(HealthCheckRequest::default()).await;
    assert_eq!(watched.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(world.api.token_reviews(), 0);
}

#[tokio::test]
async fn a_service_that_is_stale_is_not_healthy() {
    let world = World::start_with(FakeApi::new(), Duration::from_secs(1)).await;
    world.ready().await;
    let ill = async {
        while health(&world, "").await.unwrap() == ServingStatus::Serving {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, ill).await.unwrap();
}

async fn reflected(
    world: &World,
    has_token: bool,
    asked: MessageRequest,
) -> Result<MessageResponse, Status> {
    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(asked),
    };
    let asked = tokio_stream::once(asked);
    let asked = if has_token {
        with_token(asked)
    } else {
        Request::new(asked)
    };
    let mut client = ServerReflectionClient::new(world.channel());
    let mut answers = client.server_reflection_info(asked).await?.into_inner();
    let answer = answers.next().await.unwrap()?;
    Ok(answer.message_response.unwrap())
}

#[tokio::test]
async fn reflection_names_the_service_to_whom_shows_a_token() {
    let world = World::new().await;
    let all = || MessageRequest::ListServices(String::new());
    let refused = reflected(&world, false, all()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let MessageResponse::ListServicesResponse(list) = reflected(&world, true, all()).await.unwrap()
    else {
        panic!("no list");
    };
    for service in [SERVICE_NAME, "grpc.health.v1.Health"] {
        assert!(list.service.iter().any(|it| it.name == service), "{list:?}");
    }
    // Without it, tools show the details of refusals as bytes.
    let details = MessageRequest::FileContainingSymbol("google.rpc.ErrorInfo".to_owned());
    let described = reflected(&world, true, details).await.unwrap();
    assert!(
        matches!(described, MessageResponse::FileDescriptorResponse(_)),
        "{described:?}"
    );
}

#[tokio::test]
async fn nothing_older_than_tls_1_3_is_spoken() {
    let world = World::new().await;
    let handshake = async |version| world.handshake(version).await;
    assert!(handshake(&rustls::version::TLS13).await.is_ok());
    let error = handshake(&rustls::version::TLS12).await.unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
}
