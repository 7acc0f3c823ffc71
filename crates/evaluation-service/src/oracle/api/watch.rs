//! Watches: what comes on them, when, and what is lost on the way.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Api, Cluster, Kind};
use crate::clock;

/// The API server says something on a watch that often.
const BOOKMARK: Duration = Duration::from_secs(58);

/// Up to which version the service has been shown everything then, and as of when.
type Shows = Option<(usize, Timestamp)>;

pub(super) enum Said {
    Line(String),
    /// Half of it, and the rest a while later.
    Halves(String, Duration),
    Broken,
}

pub(super) struct Item {
    pub(super) due: Instant,
    pub(super) said: Said,
    /// The service has been shown everything up to this version, as of this moment.
    pub(super) shows: Shows,
}

pub(super) struct Open {
    pub(super) kind: Kind,
    pub(super) items: mpsc::UnboundedSender<Item>,
    pub(super) state: Arc<Mutex<Connection>>,
}

/// How a connection was lost.
#[derive(Clone, Copy)]
pub(super) enum End {
    Silent,
    Cut,
}

#[derive(Default)]
pub(super) struct Connection {
    pub(super) end: Option<End>,
    pub(super) no_bookmarks: bool,
    pub(super) garbles: bool,
    pub(super) lag: Duration,
}

/// The side of a watch that sends.
pub(super) struct Watched {
    pub(super) api: Api,
    pub(super) kind: Kind,
    pub(super) items: mpsc::UnboundedReceiver<Item>,
    pub(super) connection: Arc<Mutex<Connection>>,
    pub(super) rest: Option<(String, Duration, Shows)>,
}

impl Watched {
    fn show(&self, shows: Shows) {
        if let Some((version, as_of)) = shows {
            self.api.state().cluster.show(self.kind, version, as_of);
        }
    }

    pub(super) async fn next(&mut self) -> Option<io::Result<String>> {
        if let Some((rest, wait, shows)) = self.rest.take() {
            sleep(wait).await;
            self.lost().await?;
            self.show(shows);
            return Some(Ok(rest));
        }
        loop {
            let next = timeout(BOOKMARK, self.items.recv()).await;
            self.lost().await?;
            let Ok(item) = next else {
                if self.connection.lock().unwrap().no_bookmarks {
                    continue;
                }
                let version = self.api.state().cluster.version();
                self.show(Some((version, clock::now())));
                return Some(Ok(bookmark(self.kind, version)));
            };
            let item = item?;
            sleep_until(item.due).await;
            self.lost().await?;
            return Some(match item.said {
                Said::Line(line) => {
                    self.show(item.shows);
                    Ok(line)
                }
                Said::Halves(line, wait) => {
                    let (half, rest) = line.split_at(line.len() / 2);
                    self.rest = Some((rest.to_owned(), wait, item.shows));
                    Ok(half.to_owned())
                }
                Said::Broken => Err(io::Error::other("the connection is broken")),
            });
        }
    }

    /// None when the connection has ended; without an end when it is lost.
    async fn lost(&self) -> Option<()> {
        let end = self.connection.lock().unwrap().end;
        match end {
            None => Some(()),
            Some(End::Cut) => None,
            Some(End::Silent) => pending().await,
        }
    }
}

impl Open {
    pub(super) fn send(&self, said: Said, shows: Shows) {
        let due = Instant::now() + self.state.lock().unwrap().lag;
        // An error says that nobody watches any more.
        let _ = self.items.send(Item { due, said, shows });
    }

    pub(super) fn tell(&self, event: &str, object: &Value, version: usize) {
        if std::mem::take(&mut self.state.lock().unwrap().garbles) {
            return self.send(Said::Line("no line of a watch\n".to_owned()), None);
        }
        // The type first, as the API server writes it.
        let line = format!("{{\"type\":\"{event}\",\"object\":{object}}}\n");
        let said = if version.is_multiple_of(7) {
            Said::Halves(line, Duration::from_millis(300))
        } else {
            Said::Line(line)
        };
        self.send(said, Some((version, clock::now())));
    }
}

fn bookmark(kind: Kind, version: usize) -> String {
    let version = Cluster::resource_version(version);
    let object = json!({"kind": kind.plural(), "apiVersion": "v1", "metadata": {"resourceVersion": version}});
    format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")
}

pub(super) fn gone() -> String {
    let object = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    format!("{{\"type\":\"ERROR\",\"object\":{object}}}")
}
