//! The loopback forwarder: a port of the outer network that leads to one inside the cluster's network.

use std::{
    fs::File,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

/// The sender to the thread that connects at present; none before there is one.
type Connector = Arc<Mutex<Option<Sender<TcpStream>>>>;

/// A loopback port of this process' network. It leads into the network of another process, and into that of the next one
/// after a reboot. The forwarding ends with this process.
pub(crate) struct Forwarder {
    port: u16,
    target: SocketAddr,
    connector: Connector,
}

impl Forwarder {
    /// Listens on a free port. Connections are closed until the port leads somewhere.
    pub(crate) fn listen(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let port = listener.local_addr()?.port();
        let connector = Connector::default();
        let sender = Arc::clone(&connector);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(sender) = &*locked(&sender) {
                    // The thread may have failed. Then the connection is closed.
                    let _ = sender.send(stream);
                }
            }
        });
        Ok(Self {
            port,
            target,
            connector,
        })
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on connections lead into the network of this process.
    pub(crate) fn lead_into(&self, inside: Pid) -> io::Result<()> {
        let network = File::open(format!("/proc/{}/ns/net", inside.as_raw_nonzero()))?;
        self.lead(move || {
            Ok(move_into_link_name_space(
                network.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?)
        });
        Ok(())
    }

    fn lead(&self, enter: impl FnOnce() -> io::Result<()> + Send + 'static) {
        let (accepted, to_connect) = mpsc::channel();
        let target = self.target;
        thread::spawn(move || connect_inside(enter, target, &to_connect));
        // The thread before ends with its sender.
        *locked(&self.connector) = Some(accepted);
    }
}

fn locked(connector: &Connector) -> MutexGuard<'_, Option<Sender<TcpStream>>> {
    connector.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A namespace belongs to a thread: sockets made by this one are in the cluster's network, the
/// listener's stay outside.
fn connect_inside(
    enter: impl FnOnce() -> io::Result<()>,
    target: SocketAddr,
    accepted: &Receiver<TcpStream>,
) {
    if let Err(error) = enter() {
        eprintln!("cannot enter the cluster's network: {error}");
        return;
    }
    for outer in accepted {
        // Refused inside means closed outside: the client sees a closed connection and retries.
        if let Ok(inner) = TcpStream::connect(target) {
            join(outer, inner);
        }
    }
}

fn join(outer: TcpStream, inner: TcpStream) {
    for end in [&outer, &inner] {
        // Otherwise a small message waits until the one before it is acknowledged: 40 ms for every other call.
        let _ = end.set_nodelay(true);
    }
    if let (Ok(outer_copy), Ok(inner_copy)) = (outer.try_clone(), inner.try_clone()) {
        thread::spawn(move || pump(&outer, &inner));
        thread::spawn(move || pump(&inner_copy, &outer_copy));
    }
}

fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    // Either side may break off at any time. In each case the other side is closed.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A server that answers one connection with its name and the text in upper case.
    fn echo(name: &'static str) -> SocketAddr {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let answer = format!("{name} {}", text.to_uppercase());
            stream.write_all(answer.as_bytes()).unwrap();
        });
        target
    }

    fn ask(port: u16) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A closed connection is an answer too.
        let _ = client.write_all(b"hello");
        let _ = client.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn bytes_and_end_of_stream_pass_both_ways() {
        let forwarder = Forwarder::listen(echo("one")).unwrap();
        assert_eq!(ask(forwarder.port()), "", "it leads nowhere yet");
        forwarder.lead(|| Err(io::Error::other("no such network")));
        assert_eq!(ask(forwarder.port()), "", "it cannot enter");
        forwarder.lead(|| Ok(()));
        assert_eq!(ask(forwarder.port()), "one HELLO");
    }

    #[test]
    fn small_messages_wait_for_no_acknowledgement() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let ends = [connect(), connect()];
        let [outer, inner] = [0, 1].map(|at: usize| ends[at].try_clone().unwrap());
        join(outer, inner);
        assert!(ends.iter().all(|it| it.nodelay().unwrap()));
    }
}
