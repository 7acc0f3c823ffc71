//! A peer that answers bytes with bytes and does nothing else: what any call between two threads of this machine costs.

use std::net::TcpListener as Bound;
use std::path::PathBuf;
use std::thread;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;

/// The bytes of a question and of an answer, as a question about access has them.
const QUESTION: usize = 256;
const ANSWER: usize = 512;

/// Where the peer is. It ends with this process.
pub(crate) struct Echo {
    socket: PathBuf,
    port: u16,
}

/// A connection to the peer, which carries one call at a time.
pub(crate) struct EchoConnection(Box<dyn Stream>);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Echo {
    /// Its socket is at this path.
    pub(crate) fn start(socket: PathBuf) -> Self {
        let unix = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let tcp = Bound::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        for blocking in [unix.set_nonblocking(true), tcp.set_nonblocking(true)] {
            blocking.unwrap();
        }
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let unix = UnixListener::from_std(unix).unwrap();
                let tcp = TcpListener::from_std(tcp).unwrap();
                loop {
                    tokio::select! {
                        Ok((stream, _)) = unix.accept() => drop(tokio::spawn(answer(stream))),
                        Ok((stream, _)) = tcp.accept() => {
                            stream.set_nodelay(true).unwrap();
                            drop(tokio::spawn(answer(stream)));
                        }
                    }
                }
            });
        });
        Self { socket, port }
    }

    pub(crate) async fn over_socket(&self) -> EchoConnection {
        EchoConnection(Box::new(UnixStream::connect(&self.socket).await.unwrap()))
    }

    pub(crate) async fn over_tcp(&self) -> EchoConnection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        EchoConnection(Box::new(stream))
    }
}

impl EchoConnection {
    pub(crate) async fn call(&mut self) {
        self.0.write_all(&[0; QUESTION]).await.unwrap();
        self.0.read_exact(&mut [0; ANSWER]).await.unwrap();
    }
}

/// Until the caller is gone.
async fn answer(mut stream: impl Stream) {
    let mut question = [0; QUESTION];
    while stream.read_exact(&mut question).await.is_ok() {
        if stream.write_all(&[0; ANSWER]).await.is_err() {
            return;
        }
    }
}
