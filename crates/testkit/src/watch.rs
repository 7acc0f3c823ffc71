//! The lines that a watch sends, and their starting point.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    event_view,
    faults::EventKind,
    kind::Kind,
    list, meta,
    refusal::{Cause, Refusal},
    request::{Asked, Resource},
    selector::Selection,
    store::{self, Change, Store},
};

/// The default duration of a watch, in seconds.
const LONGEST: u64 = 1800;

/// A line that a watch will send.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) kind: EventKind,
    pub(crate) version: u64,
    pub(crate) object: Arc<Value>,
}

/// The position of a watch, and its pending lines.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) kind: Kind,
    selection: Selection,
    /// All changes up to this version were processed.
    pub(crate) position: u64,
    pub(crate) lines: VecDeque<Line>,
    pub(crate) bookmarks: bool,
    /// Its duration.
    pub(crate) lasts: Duration,
    /// The kind as which the objects are shown, if it is another.
    pub(crate) shown_as: Option<Kind>,
    /// The error of a watch that began at a compacted version.
    pub(crate) expired: Option<Refusal>,
}

impl Watch {
    pub(crate) fn new(
        store: &Store,
        kind: &Kind,
        on: &Resource,
        asked: &Asked,
        visible: u64,
    ) -> Result<Self, Refusal> {
        let sends_initial = check_options(asked)?;
        let wanted = asked.text("resourceVersion");
        let from = match wanted {
            "" => store.version(),
            "0" => visible,
            wanted => list::version(wanted)?,
        };
        let seconds = match asked.text("timeoutSeconds") {
            "" | "0" => LONGEST,
            seconds => list::number(seconds)?,
        };
        let mut watch = Self {
            kind: kind.clone(),
            selection: Selection::of(kind, on, asked)?,
            position: from,
            lines: VecDeque::new(),
            bookmarks: asked.is_set("allowWatchBookmarks"),
            shown_as: None,
            lasts: Duration::from_secs(seconds),
            expired: (from < store.compacted).then(|| Refusal::expired(from, store.compacted)),
        };
        match sends_initial {
            Some(true) => {
                if from > visible {
                    return Err(Refusal::too_large_version(from, visible));
                }
                // Not older than requested, and the newest visible state.
                watch.position = if wanted.is_empty() { from } else { visible };
                watch.expired = None;
                watch.begin_with_all(store, &on.namespace);
                if watch.bookmarks {
                    watch.lines.push_back(watch.bookmark(true));
                }
            }
            None if matches!(wanted, "" | "0") => watch.begin_with_all(store, &on.namespace),
            Some(false) | None => {}
        }
        Ok(watch)
    }

    fn begin_with_all(&mut self, store: &Store, namespace: &str) {
        let objects = store.at_version(&self.kind, namespace, self.position);
        let selected = objects.into_values().filter(|it| self.selection.has(it));
        self.lines = selected
            .map(|object| Line {
                kind: EventKind::InitialList,
                version: meta::version(&object),
                object,
            })
            .collect();
    }

    /// A bookmark with the position of the watch.
    pub(crate) fn bookmark(&self, ends_initial: bool) -> Line {
        let version = self.position.to_string();
        let mut metadata = json!({ "resourceVersion": version, "creationTimestamp": null });
        if ends_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        Line {
            kind: EventKind::Bookmark,
            version: self.position,
            object: Arc::new(json!({
                "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
            })),
        }
    }

    /// Processes changes up to a version, until one of them makes a line.
    pub(crate) fn advance(&mut self, store: &Store, visible: u64) {
        while self.lines.is_empty() && self.position < visible {
            if let Some(change) = store.since(self.position).first() {
                self.lines.extend(self.line(change));
            }
            self.position += 1;
        }
    }

    /// The line of a change for a client that sees only the selected objects.
    fn line(&self, change: &Change) -> Option<Line> {
        if !self.kind.is_plural(&change.key.group, &change.key.plural) {
            return None;
        }
        let record = &change.record;
        let selected = |it: &&Arc<Value>| self.selection.has(it);
        let before = record.before.as_ref().filter(selected);
        let after = record.after.as_ref().filter(selected);
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => (EventKind::Added, after.clone()),
            (Some(_), Some(after)) => (EventKind::Modified, after.clone()),
            (Some(before), None) => {
                let last = store::at(before, record.version);
                (EventKind::Deleted, Arc::new(last))
            }
        };
        Some(Line {
            kind,
            version: record.version,
            object,
        })
    }
}

impl Line {
    /// The line in its wire format.
    pub(crate) fn text(&self, shown_as: Option<&Kind>) -> String {
        let word = match self.kind {
            EventKind::Added | EventKind::InitialList => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
            EventKind::Bookmark => "BOOKMARK",
        };
        let object = match shown_as {
            Some(kind) => event_view::shown(kind, &self.object).to_string(),
            None => self.object.to_string(),
        };
        format!("{{\"type\":\"{word}\",\"object\":{object}}}\n")
    }
}

/// An error as a line.
pub(crate) fn error_line(refusal: &Refusal) -> String {
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", refusal.status())
}

/// Whether the request asks for initial events; none when it does not say.
fn check_options(asked: &Asked) -> Result<Option<bool>, Refusal> {
    let refuse = |causes: &[Cause], why: &str| {
        let field = "resourceVersionMatch";
        Err(Refusal::invalid_options("ListOptions", causes, field, why))
    };
    let sends_initial = asked.query.get("sendInitialEvents");
    match (sends_initial, asked.text("resourceVersionMatch")) {
        (None, "") => Ok(None),
        (None, _) => {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            refuse(&[Cause::Forbidden], why)
        }
        (Some(_), "NotOlderThan") => Ok(Some(asked.is_set("sendInitialEvents"))),
        (Some(_), matching) => {
            let causes: &[Cause] = match matching {
                "" => &[Cause::Forbidden],
                _ => &[Cause::Forbidden, Cause::NotSupported],
            };
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            refuse(causes, why)
        }
    }
}
