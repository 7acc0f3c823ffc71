//! What happened, in order: the log that oracles read.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use crate::faults::{CallFault, CallPoint, EventFault, EventPoint};

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Since the server's start, on tokio's clock.
    pub at: Duration,
    /// The server's wall clock.
    pub wall: Timestamp,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// A call was carried out, or turned out to be one that is not. Its changes stand before it.
    Call(CallRecord),
    /// An object changed.
    Change(ChangeRecord),
    /// A line of a watch was given to its watcher, or was not, as its fault says.
    Sent(SentRecord),
    /// A process was killed.
    Killed(String),
}

/// A call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Who called what.
    pub point: CallPoint,
    /// Parameters of the query.
    pub query: BTreeMap<String, String>,
    /// When it arrived, since the server's start.
    pub begun: Duration,
    /// What was sent.
    pub body: Option<Arc<Value>>,
    /// The status of the answer; none when there is none.
    pub code: Option<u16>,
    /// Whether it was carried out. A call that was refused on its own merits was.
    pub carried_out: bool,
    /// How it broke.
    pub fault: CallFault,
    /// What was answered, or would have been.
    pub answer: Option<Arc<Value>>,
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct ChangeRecord {
    /// How.
    pub kind: ChangeKind,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the kind.
    pub plural: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// The version that the change made.
    pub version: u64,
    /// The process that did it, or `cluster`.
    pub by: String,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The object after. Of a deletion: none.
    pub after: Option<Arc<Value>>,
}

/// A line of a watch.
#[derive(Clone, Debug)]
pub struct SentRecord {
    /// Which.
    pub point: EventPoint,
    /// The version of what it says.
    pub version: u64,
    /// How it broke.
    pub fault: EventFault,
    /// The object.
    pub object: Arc<Value>,
}
