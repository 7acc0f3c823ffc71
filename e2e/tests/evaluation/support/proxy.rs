//! The proxy between the service and its API server. It fails as networks do.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The treatment of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// They are reset.
    Refused,
    /// They are taken, and no byte comes through, ever.
    Silent,
}

/// The treatment of existing connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Reset,
    /// No byte comes through any more, and they stay open.
    Silenced,
}

/// A way to a server. Connections end with it.
pub(super) struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
    fate: watch::Sender<Option<Fate>>,
    running: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Proxy {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (way, ways) = watch::channel(Way::Open);
        let fate = watch::Sender::new(None);
        let fates = fate.clone();
        let running = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // It sees only later changes.
                let fate = fates.subscribe();
                tokio::spawn(serve(stream, server, *ways.borrow(), fate));
            }
        });
        Self {
            address,
            way,
            fate,
            running,
        }
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Decides about connections that are made from now on.
    pub(super) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Breaks off every connection. Later bytes of the server are lost.
    pub(super) fn reset(&self) {
        self.fate.send_replace(Some(Fate::Reset));
    }

    /// Keeps every connection open, and passes on no later bytes.
    pub(super) fn silence(&self) {
        self.fate.send_replace(Some(Fate::Silenced));
    }
}

async fn serve(
    mut near: TcpStream,
    server: SocketAddr,
    way: Way,
    mut fate: watch::Receiver<Option<Fate>>,
) {
    match way {
        Way::Open => {}
        Way::Refused => return drop(near.set_zero_linger()),
        Way::Silent => return hold(&near).await,
    }
    // No listener means closed: the caller sees a connection that ends.
    let Ok(mut far) = TcpStream::connect(server).await else {
        return;
    };
    tokio::select! {
        // The fate is older than all bytes that arrive after it, even when this task runs late.
        biased;
        changed = fate.changed() => if changed.is_err() { return },
        _ = copy_bidirectional(&mut near, &mut far) => return,
    }
    let fate = *fate.borrow();
    match fate {
        Some(Fate::Silenced) => {
            // Both ends stay open and know of nothing.
            hold(&(near, far)).await;
        }
        Some(Fate::Reset) | None => drop(near.set_zero_linger()),
    }
}

/// Longer than any test: a client that gets no sign of a dead connection has to detect it itself.
async fn hold<T>(_connection: &T) {
    sleep(Duration::from_mins(10)).await;
}

/// One thread, so that the connection's task runs only after the bytes are there too.
#[tokio::test]
async fn bytes_that_arrive_after_a_reset_are_not_passed_on() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    for _ in 0..20 {
        let proxy = Proxy::to(listener.local_addr().unwrap()).await;
        let mut near = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        far.write_all(b"before").await.unwrap();
        let mut read = [0; 6];
        near.read_exact(&mut read).await.unwrap();
        proxy.reset();
        far.try_write(b"after").unwrap();
        let after = near.read(&mut read).await;
        assert!(after.is_err(), "read {after:?} after the reset");
    }
}
