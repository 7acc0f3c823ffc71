//! The driver's unix sockets. Whoever may connect may ask for mounts, so only root may.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixListener as StdListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, fchmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;

const BACKLOG: i32 = 128;
const OWNER_ONLY: Mode = Mode::from_raw_mode(0o600);

/// A socket cannot be served.
#[derive(Debug, Error)]
#[error("cannot listen on {}", path.display())]
pub struct SocketError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A socket that is listened on. Its file is removed with it, unless it is another's by then.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: Option<UnixListener>,
    path: PathBuf,
    file: (u64, u64),
}

impl Socket {
    /// Listens at a path. What an earlier process left there is removed: nobody listens behind it.
    pub(crate) fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError {
            path: path.to_owned(),
            source,
        };
        let listener = listener(path).map_err(failed)?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener: Some(listener),
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
        })
    }

    /// The connections, to be served once.
    pub(crate) fn connections(&mut self) -> Option<UnixListenerStream> {
        self.listener.take().map(UnixListenerStream::new)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if ours {
            // If it stays, the next process removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn listener(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("something else than a socket is there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before the file exists, so that there is no moment at which others may connect.
    fchmod(&socket, OWNER_ONLY)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    UnixListener::from_std(StdListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_only_and_goes_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugins/connectors-csi/csi.sock");
        let socket = Socket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(&path).await.unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_the_successors_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        let first = Socket::bind(&path).unwrap();
        let second = Socket::bind(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).await.unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        fs::write(&path, "precious").unwrap();
        assert!(Socket::bind(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
