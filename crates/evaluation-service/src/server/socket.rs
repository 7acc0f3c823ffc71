//! The socket of this machine: who can open it is trusted as whoever runs the process, and shows no token.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use service_kit::shutdown::Stop;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{ACCEPT_PAUSE, CONNECTIONS, converse};
use crate::gate::Gate;
use crate::service::Service;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Something else is there, and stays.
    #[error("{}: is there and is no socket", .0.display())]
    NoSocket(PathBuf),
    /// Another process listens there.
    #[error("{}: another process listens there", .0.display())]
    Taken(PathBuf),
    /// It cannot be made.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A socket that is bound. Its file goes with it.
pub struct LocalServer {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket of ours, and no other one that may be there later.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| identity(&metadata) == self.identity);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(%error, "the socket cannot be removed");
        }
    }
}

impl LocalServer {
    /// Takes the path. A socket that nobody listens on any more is replaced.
    pub fn bind(path: PathBuf) -> Result<Self, SocketError> {
        make_room(&path)?;
        match listen(&path) {
            Ok((listener, identity)) => Ok(Self {
                listener,
                file: SocketFile { path, identity },
            }),
            Err(source) => Err(SocketError::Bind { path, source }),
        }
    }

    /// Serves until it is time to stop, and then until every call has its answer.
    pub async fn run(self, service: Service, stop: Stop) {
        let Self { listener, file } = self;
        let open = service.metrics.connections.clone();
        let gate = Gate::new(service);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                () = stop.stopped() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                debug!("too many connections");
                continue;
            };
            let user = match stream.peer_cred() {
                Ok(peer) => peer.uid(),
                Err(error) => {
                    debug!(%error, "the user of a connection is not known");
                    continue;
                }
            };
            let (gate, stop, open) = (gate.for_user(user), stop.clone(), open.clone());
            connections.spawn(async move {
                open.inc();
                converse(stream, gate, stop).await;
                open.dec();
                drop(place);
            });
        }
        drop((listener, file));
        while connections.join_next().await.is_some() {}
    }
}

/// Removes a socket that a process left behind, and nothing else.
fn make_room(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Bind {
        path: path.to_owned(),
        source,
    };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::Taken(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Nobody can connect before `listen`, and by then nobody else may.
fn listen(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    let identity = identity(&fs::symlink_metadata(path)?);
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = UnixListener::from_std(socket.into())?;
    Ok((listener, identity))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn only_its_owner_may_open_it_and_it_goes_with_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let server = LocalServer::bind(path.clone()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(server);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_process_left_behind_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        // std removes no file.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let server = LocalServer::bind(path.clone()).unwrap();
        let taken = LocalServer::bind(path.clone()).err();
        assert!(matches!(taken, Some(SocketError::Taken(_))));
        drop(server);
        fs::write(&path, "precious").unwrap();
        let there = LocalServer::bind(path.clone()).err();
        assert!(matches!(there, Some(SocketError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let nowhere = LocalServer::bind(directory.path().join("a/b")).err();
        assert!(matches!(nowhere, Some(SocketError::Bind { .. })));
    }

    #[tokio::test]
    async fn a_file_that_somebody_else_put_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let server = LocalServer::bind(path.clone()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(server);
        assert!(path.exists());
    }
}
