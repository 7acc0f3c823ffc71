//! Files that belong together, such as a certificate and its key, read again when one changes.

use std::{fs, path::PathBuf, time::Duration};

use tokio::time::sleep;
use tracing::{info, warn};

use super::{ReadFile, TlsError};
use crate::{families, report, shutdown::Stop};

/// The kubelet takes up to a minute to bring a change to a pod; this adds little to it.
const PERIOD: Duration = Duration::from_secs(5);

families! {
    /// The results of changed files.
    pub struct TlsMetrics {
        reloads: counters(
            "connectors_tls_reloads_total", "Changes of TLS files, by what became of them", &["files", "result"]
        ),
    }
}

impl TlsMetrics {
    #[cfg(test)]
    pub(super) fn counted(&self, files: &str, result: &str) -> u64 {
        self.reloads.with_label_values(&[files, result]).get()
    }

    fn count(&self, files: &str, result: &str) {
        self.reloads.with_label_values(&[files, result]).inc();
    }
}

/// For each file its bytes, or the text of the error.
type Contents<const N: usize> = [Result<Vec<u8>, String>; N];

/// Files that make up one thing, with the content that they had when they were last looked at.
///
/// They are small and live in the memory of the node: reading them is not worth another thread.
#[derive(Debug)]
pub(super) struct WatchedFiles<const N: usize> {
    name: &'static str,
    paths: [PathBuf; N],
    last: Contents<N>,
    metrics: TlsMetrics,
}

impl<const N: usize> WatchedFiles<N> {
    /// Looks for the first time. There is no last good content yet: a failure is final.
    pub(super) fn open<T>(
        name: &'static str,
        paths: [PathBuf; N],
        metrics: &TlsMetrics,
        make: impl FnOnce([ReadFile<'_>; N]) -> Result<T, TlsError>,
    ) -> Result<(Self, T), TlsError> {
        // Both results are there from the start, so that a rate over them has a zero to begin from.
        for result in ["loaded", "refused"] {
            metrics.reloads.with_label_values(&[name, result]);
        }
        let (last, failure) = read(&paths);
        let files = Self {
            name,
            paths,
            last,
            metrics: metrics.clone(),
        };
        let thing = failure.map_or_else(|| files.make(make), Err)?;
        Ok((files, thing))
    }

    /// Waits for the next look; false says that it is time to stop.
    pub(super) async fn pause(&self, stop: &Stop) -> bool {
        tokio::select! {
            biased;
            () = stop.stopped() => false,
            () = sleep(PERIOD) => true,
        }
    }

    /// The value made from the files, if they have changed and are valid.
    pub(super) fn changed<T>(
        &mut self,
        make: impl FnOnce([ReadFile<'_>; N]) -> Result<T, TlsError>,
    ) -> Option<T> {
        let (contents, failure) = read(&self.paths);
        if contents == self.last {
            return None;
        }
        self.last = contents;
        match failure.map_or_else(|| self.make(make), Err) {
            Ok(thing) => {
                info!(files = self.name, "TLS files changed");
                self.metrics.count(self.name, "loaded");
                Some(thing)
            }
            Err(error) => {
                let error = report(&error);
                warn!(files = self.name, error, "changed TLS files are not used");
                self.metrics.count(self.name, "refused");
                None
            }
        }
    }

    fn make<T>(
        &self,
        make: impl FnOnce([ReadFile<'_>; N]) -> Result<T, TlsError>,
    ) -> Result<T, TlsError> {
        let mut contents = self.last.iter();
        make(self.paths.each_ref().map(|path| {
            // As many contents as paths, and bytes in all of them, or there would have been a failure.
            let content = contents.next().and_then(|content| content.as_deref().ok());
            (path.as_path(), content.unwrap_or_default())
        }))
    }
}

/// The files as they are, and the first failure.
fn read<const N: usize>(paths: &[PathBuf; N]) -> (Contents<N>, Option<TlsError>) {
    let mut failure = None;
    let contents = paths.each_ref().map(|path| {
        fs::read(path).map_err(|source| {
            let text = source.to_string();
            let path = path.clone();
            failure.get_or_insert(TlsError::Read { path, source });
            text
        })
    });
    (contents, failure)
}
