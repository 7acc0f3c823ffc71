use std::{net::SocketAddr, time::Duration};

use prometheus::{IntCounter, Registry};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::Admin;
use crate::readiness::Readiness;

async fn bound() -> Admin {
    Admin::bind(([127, 0, 0, 1], 0).into()).await.unwrap()
}

/// Status line and body of one exchange over a real socket.
async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let (status, _, body) = ask(address, "GET", path).await;
    (status, body)
}

#[tokio::test]
async fn readyz_names_what_is_missing_from_the_start_to_the_end() {
    let (readiness, start) = Readiness::starting();
    let (policies, pods) = (readiness.part("policies"), readiness.part("pods"));
    let admin = bound().await;
    let address = admin.address();
    admin.start(readiness.clone(), Registry::new());

    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));
    let all = "waiting for start\nwaiting for policies\nwaiting for pods\n";
    assert_eq!(get(address, "/readyz").await, (503, all.to_owned()));
    start.ready();
    policies.ready();
    assert_eq!(
        get(address, "/readyz").await,
        (503, "waiting for pods\n".to_owned())
    );
    pods.ready();
    assert_eq!(get(address, "/readyz").await, (200, "ready\n".to_owned()));
    readiness.stop();
    assert_eq!(
        get(address, "/readyz").await,
        (503, "stopping\n".to_owned())
    );
    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn metrics_are_in_the_text_format() {
    let (readiness, _start) = Readiness::starting();
    let registry = Registry::new();
    let counter = IntCounter::new("held_total", "Pods held").unwrap();
    registry.register(Box::new(counter.clone())).unwrap();
    counter.inc();
    let admin = bound().await;
    let address = admin.address();
    admin.start(readiness, registry);

    let (status, head, body) = ask(address, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert_eq!(
        body,
        "# HELP held_total Pods held\n# TYPE held_total counter\nheld_total 1\n"
    );
}

#[tokio::test]
async fn other_paths_and_other_methods_are_refused() {
    let (readiness, _start) = Readiness::starting();
    let admin = bound().await;
    let address = admin.address();
    admin.start(readiness, Registry::new());

    assert_eq!(get(address, "/").await.0, 404);
    assert_eq!(get(address, "/metrics/").await.0, 404);
    assert_eq!(ask(address, "POST", "/nothing").await.0, 404);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (status, head, _) = ask(address, "POST", path).await;
        assert_eq!(status, 405, "{path}");
        assert!(head.contains("allow: get"), "{head}");
    }
}

#[tokio::test]
async fn a_taken_address_is_an_error_that_names_it() {
    let first = bound().await;
    let error = Admin::bind(first.address()).await.unwrap_err();
    let expected = format!(
        "cannot listen on {} for health and metrics",
        first.address()
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn so_many_connections_are_open_at_a_time_and_one_that_ends_makes_room() {
    let admin = bound().await;
    let address = admin.address();
    let (readiness, _start) = Readiness::starting();
    admin.start(readiness, Registry::new());
    let mut open = Vec::new();
    for _ in 0..super::CONNECTIONS {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
        connection.write_all(request).await.unwrap();
        // It is answered, and stays open.
        assert_ne!(connection.read(&mut [0; 1024]).await.unwrap(), 0);
        open.push(connection);
    }
    let mut late = Box::pin(get(address, "/healthz"));
    let is_late = tokio::time::timeout(Duration::from_millis(200), &mut late).await;
    assert!(is_late.is_err(), "one more is answered");
    open.pop();
    assert_eq!(late.await, (200, "ok\n".to_owned()));
}
