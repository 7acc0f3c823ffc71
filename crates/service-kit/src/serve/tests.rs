use std::{fs, os::unix::fs::PermissionsExt, sync::Arc};

use tokio::{net::UnixStream, sync::Semaphore, task::yield_now};

use super::*;
use crate::telemetry::{LogFormat, tests::listen};

#[tokio::test]
async fn only_its_owner_may_open_a_socket_and_it_goes_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("csi.sock");
    let socket = UnixSocket::bind(&path, InUse::Replace).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    UnixStream::connect(&path).await.unwrap();
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_a_process_left_behind_is_replaced_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let bind = |path: &std::path::Path| UnixSocket::bind(path, InUse::Refuse);
    // std removes no file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = bind(&path).unwrap();
    assert!(matches!(bind(&path), Err(SocketError::Taken(_))));
    drop(server);
    fs::write(&path, "precious").unwrap();
    for in_use in [InUse::Refuse, InUse::Replace] {
        let there = UnixSocket::bind(&path, in_use);
        assert!(matches!(there, Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
    // Nobody listens there, but its process may be alive.
    let path = directory.path().join("datagrams");
    let _other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert!(matches!(bind(&path), Err(SocketError::Bind { .. })));
    assert!(path.exists());
    let nowhere = bind(&directory.path().join("a/b"));
    assert!(matches!(nowhere, Err(SocketError::Bind { .. })));
}

#[tokio::test]
async fn a_successor_may_replace_a_socket_in_use_and_its_own_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("csi.sock");
    let first = UnixSocket::bind(&path, InUse::Replace).unwrap();
    let second = UnixSocket::bind(&path, InUse::Replace).unwrap();
    drop(first);
    UnixStream::connect(&path).await.unwrap();
    drop(second);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_somebody_else_put_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let server = UnixSocket::bind(&path, InUse::Refuse).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(server);
    assert!(path.exists());
}

/// Connections of one peer after the other; the loop takes as many as it asks for.
struct Peers(Arc<Semaphore>, u8);

impl Listener for Peers {
    type Stream = ();
    type Peer = u8;

    async fn accept(&self) -> io::Result<((), u8)> {
        let Self(waiting, peer) = self;
        waiting.acquire().await.unwrap().forget();
        Ok(((), *peer))
    }
}

/// Waits until all that can happen has happened.
async fn settled() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// How many of ten connections are open and how many are waiting after all that can happen has happened.
async fn flooded(limits: ConnectionLimits<u8>) -> (usize, usize) {
    let waiting = Arc::new(Semaphore::new(10));
    let listener = Peers(Arc::clone(&waiting), 7);
    let open = Arc::new(Semaphore::new(0));
    let count = Arc::clone(&open);
    let serving = serve(listener, limits, std::future::pending(), move |(), _| {
        count.add_permits(1);
        std::future::pending()
    });
    let serving = tokio::spawn(serving);
    settled().await;
    serving.abort();
    (open.available_permits(), waiting.available_permits())
}

#[tokio::test]
async fn above_a_limit_connections_wait_or_are_closed() {
    assert_eq!(
        flooded(ConnectionLimits::of(4, WhenFull::Wait)).await,
        (4, 6)
    );
    assert_eq!(
        flooded(ConnectionLimits::of(4, WhenFull::Close)).await,
        (4, 0)
    );
    let limits = ConnectionLimits {
        per_peer: 3,
        ..ConnectionLimits::of(4, WhenFull::Wait)
    };
    assert_eq!(flooded(limits).await, (3, 0));
}

/// Clients that come and go around the limit must not fill the log.
#[tokio::test]
async fn a_full_server_says_so_once_until_half_of_its_places_are_free() {
    let log = listen("warn", LogFormat::Text);
    let (waiting, ends) = (Arc::new(Semaphore::new(4)), Arc::new(Semaphore::new(0)));
    let listener = Peers(Arc::clone(&waiting), 7);
    let ended = Arc::clone(&ends);
    let limits = ConnectionLimits::of(4, WhenFull::Wait);
    let serving = serve(listener, limits, std::future::pending(), move |(), _| {
        let ended = Arc::clone(&ended);
        async move { ended.acquire().await.unwrap().forget() }
    });
    let serving = tokio::spawn(serving);
    // So many connections end, and as many come.
    for (end, warnings) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3)] {
        ends.add_permits(end);
        settled().await;
        waiting.add_permits(end);
        settled().await;
        assert_eq!(waiting.available_permits(), 0);
        let text = log.text();
        let told = text.matches("no further connections").count();
        assert_eq!(told, warnings, "after {end} ended: {text}");
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_when_its_last_connection_has_ended() {
    let listener = Peers(Arc::new(Semaphore::new(2)), 7);
    let stop = sleep(Duration::from_secs(1));
    let started = tokio::time::Instant::now();
    serve(
        listener,
        ConnectionLimits::of(4, WhenFull::Wait),
        stop,
        |(), _| sleep(Duration::from_secs(5)),
    )
    .await;
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_peer_has_one_address_in_both_families() {
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _open = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (_, peer) = Listener::accept(&listener).await.unwrap();
    assert_eq!(peer, IpAddr::from([127, 0, 0, 1]));
}
