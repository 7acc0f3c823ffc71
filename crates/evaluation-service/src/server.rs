//! Connections: TCP with TLS, or a Unix socket of this machine; HTTP/2 on both.

mod calls;
mod inline_executor;
mod single_write;

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use service_kit::chance;
use service_kit::serve::{
    self, ConnectionLimits, Listener, UNLIMITED, UnixSocket, WhenFull, handshake,
};
use service_kit::shutdown::Stop;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use crate::gate::Gate;
use crate::service::Service;
use calls::{Calls, CountedService};
use inline_executor::InlineExecutor;
use single_write::SingleWrite;

/// One client per node and a few services need one each. Further connections are closed.
const CONNECTIONS: usize = 4096;
/// Connections of one address. A process keeps one or two, but an address may hide many pods.
const CONNECTIONS_OF_PEER: usize = 64;
/// Calls on one connection at the same time.
const CALLS: u32 = 256;
/// A client that vanished without closing is noticed after at most the sum of both.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// A connection over TCP takes no further calls after this time, or up to twice as long by chance. Its client opens another
/// one, so the clients of a replica that was away spread over all of them again.
const AGE: Duration = Duration::from_mins(10);
/// The time that its last calls may take then: longer than a stream lasts.
const LAST_CALLS: Duration = Duration::from_mins(11);
/// A connection without a call is closed after this time. A client that needs it opens it again.
const IDLE: Duration = Duration::from_mins(1);
/// The time in which the client of an idle connection has to confirm that it is closing.
const FAREWELL: Duration = Duration::from_secs(5);
/// Metadata consists of a token and little else.
const LONGEST_HEADERS: u32 = 32 * 1024;

/// Serves TCP with TLS until it is time to stop, and then until every call is answered.
pub async fn serve_tls(
    listener: TcpListener,
    service: Service,
    tls: Arc<ServerConfig>,
    stop: Stop,
) {
    let limits = ConnectionLimits {
        per_peer: CONNECTIONS_OF_PEER,
        ..ConnectionLimits::of(CONNECTIONS, WhenFull::Close)
    };
    let acceptor = TlsAcceptor::from(tls);
    serve(
        listener,
        limits,
        service,
        stop,
        move |stream, _, gate, stop| {
            let acceptor = acceptor.clone();
            async move {
                if let Some(stream) = handshake(&acceptor, stream).await {
                    converse(stream, gate, stop, age()).await;
                }
            }
        },
    )
    .await;
}

/// Serves a Unix socket in the same way. Its clients need no token.
pub async fn serve_socket(socket: UnixSocket, service: Service, stop: Stop) {
    let limits = ConnectionLimits::of(CONNECTIONS, WhenFull::Close);
    serve(socket, limits, service, stop, |stream, user, gate, stop| {
        converse(stream, gate.for_user(user), stop, UNLIMITED)
    })
    .await;
}

async fn serve<L: Listener, F>(
    listener: L,
    limits: ConnectionLimits<L::Peer>,
    service: Service,
    stop: Stop,
    converse: impl Fn(L::Stream, L::Peer, Gate, Stop) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let open = service.metrics.connections.clone();
    let gate = Gate::new(service);
    serve::serve(listener, limits, stop.stopped(), |stream, peer| {
        let conversation = converse(stream, peer, gate.clone(), stop.clone());
        let open = open.clone();
        async move {
            open.inc();
            conversation.await;
            open.dec();
        }
    })
    .await;
}

fn age() -> Duration {
    AGE.mul_f64(1.0 + chance::fraction())
}

/// Serves the calls of one connection, and further ones up to this age.
pub(crate) async fn converse<S>(stream: S, gate: Gate, stop: Stop, age: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let calls = Calls::default();
    let service = TowerToHyperService::new(CountedService {
        inner: gate,
        calls: calls.clone(),
    });
    let connection = Builder::new(InlineExecutor)
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(CALLS)
        .max_header_list_size(LONGEST_HEADERS)
        .serve_connection(TokioIo::new(SingleWrite(stream)), service);
    serve::converse(connection, closing(&calls, &stop, age)).await;
}

/// Waits until a connection takes no further calls. Returns how long those that are open may take.
async fn closing(calls: &Calls, stop: &Stop, age: Duration) -> Duration {
    tokio::select! {
        () = stop.stopped() => UNLIMITED,
        () = sleep(age) => LAST_CALLS,
        () = calls.idle(IDLE) => {
            debug!("a connection without calls is closed");
            FAREWELL
        }
    }
}

#[cfg(test)]
mod tests {
    use service_kit::shutdown::Tasks;
    use tokio::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_takes_no_further_calls_from_its_age_on() {
        let calls = Calls::default();
        let call = calls.begin();
        let tasks = Tasks::new();
        let stop = tasks.stop();
        let begun = Instant::now();
        assert_eq!(closing(&calls, &stop, LONG).await, LAST_CALLS);
        assert_eq!(begun.elapsed(), LONG);
        drop(call);
        assert_eq!(closing(&calls, &stop, LONG).await, FAREWELL);
        assert_eq!(begun.elapsed(), LONG + IDLE);
    }

    #[test]
    fn connections_that_begin_together_end_at_different_times() {
        let ages: Vec<_> = (0..64).map(|_| age()).collect();
        assert!(ages.iter().all(|it| (AGE..AGE * 2).contains(it)));
        let (first, last) = (ages.iter().min(), ages.iter().max());
        assert!(last.unwrap().saturating_sub(*first.unwrap()) > AGE / 4);
    }
}
