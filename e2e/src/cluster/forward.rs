//! The loopback forwarder: a port of the outer network that leads to one inside the cluster's network.

use std::{
    fs::File,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

/// Listens on a free loopback port of this process' network and connects through to `target` in the network of
/// the process `inside`. Returns the port; the forwarding ends with this process.
pub(crate) fn start(inside: Pid, target: SocketAddr) -> io::Result<u16> {
    let network = File::open(format!("/proc/{}/ns/net", inside.as_raw_nonzero()))?;
    listen(target, move || {
        Ok(move_into_link_name_space(
            network.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    })
}

fn listen(
    target: SocketAddr,
    enter: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<u16> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let port = listener.local_addr()?.port();
    let (accepted, to_connect) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if accepted.send(stream).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || connect_inside(enter, target, &to_connect));
    Ok(port)
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

    #[test]
    fn bytes_and_end_of_stream_pass_both_ways() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(text.to_uppercase().as_bytes()).unwrap();
        });
        let port = listen(target, || Ok(())).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HELLO");
        echo.join().unwrap();
    }
}
