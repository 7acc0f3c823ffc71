//! Unix sockets. A process that can connect is trusted, so only the owner of the socket may.

use std::{
    fs::{self, Metadata},
    io::{self, ErrorKind},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixStream as StdStream,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, fchmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

use super::Listener;

/// Connections that wait to be accepted. A further one is an error to its client, which the kernel does not let wait: a
/// kubelet opens one for each call, and has hundreds to make when it starts anew.
const BACKLOG: i32 = 1024;
const OWNER_ONLY: Mode = Mode::from_raw_mode(0o600);

/// Why a socket cannot be served.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The path is something else, which stays.
    #[error("{}: exists and is not a socket", .0.display())]
    NoSocket(PathBuf),
    /// Another process listens there.
    #[error("{}: another process listens there", .0.display())]
    Taken(PathBuf),
    /// It cannot be made.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The path of the socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The treatment of a socket on which another process still listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// It is replaced: the other process is an older one of the same program.
    Replace,
    /// It stays, and binding fails.
    Refuse,
}

/// A bound Unix socket. Its file is removed with it, unless the path has become another file.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
}

impl UnixSocket {
    /// Binds a path. The socket of a process that has ended is replaced.
    pub fn bind(path: impl Into<PathBuf>, in_use: InUse) -> Result<Self, SocketError> {
        let path = path.into();
        make_way(&path, in_use)?;
        match listening(&path) {
            Ok((listener, identity)) => Ok(Self {
                listener,
                path,
                identity,
            }),
            Err(source) => Err(SocketError::Bind { path, source }),
        }
    }
}

/// Removes the socket that an earlier process left behind, and nothing else.
fn make_way(path: &Path, in_use: InUse) -> Result<(), SocketError> {
    let failed = |source| SocketError::Bind {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(SocketError::NoSocket(path.to_owned())),
        // Binding replaces no file, and says what is wrong.
        Err(_) => return Ok(()),
    }
    if in_use == InUse::Refuse {
        match StdStream::connect(path) {
            Ok(_) => return Err(SocketError::Taken(path.to_owned())),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(failed(error)),
        }
    }
    fs::remove_file(path).map_err(failed)
}

fn listening(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before the file exists, so that there is no moment at which others may connect.
    fchmod(&socket, OWNER_ONLY)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let identity = identity(&fs::symlink_metadata(path)?);
    listen(&socket, BACKLOG)?;
    Ok((UnixListener::from_std(socket.into())?, identity))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Listener for UnixSocket {
    type Stream = UnixStream;
    /// The user that runs the client.
    type Peer = u32;

    async fn accept(&self) -> io::Result<(UnixStream, u32)> {
        let (stream, _) = self.listener.accept().await?;
        let user = stream.peer_cred()?.uid();
        Ok((stream, user))
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| identity(&metadata) == self.identity);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(%error, "the socket cannot be removed");
        }
    }
}
