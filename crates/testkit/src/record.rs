//! The log of everything that happened, in order, for oracles.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use crate::faults::{CallFault, CallPoint, EventFault, EventPoint};

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The time since the server's start, on tokio's clock.
    pub at: Duration,
    /// The server's wall clock.
    pub wall: Timestamp,
    /// The event.
    pub what: What,
}

/// The event of an entry.
#[derive(Clone, Debug)]
pub enum What {
    /// A call was executed, or it became certain that it will not be. Its changes precede it in the log.
    Call(CallRecord),
    /// An object changed.
    Change(ChangeRecord),
    /// A line of a watch was sent to its client, or was not, according to its fault.
    Sent(SentRecord),
    /// A process was killed.
    Killed(String),
}

/// A call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The caller and the call.
    pub point: CallPoint,
    /// Parameters of the query.
    pub query: BTreeMap<String, String>,
    /// The time of its arrival, since the server's start.
    pub begun: Duration,
    /// The body of the request.
    pub body: Option<Arc<Value>>,
    /// The status of the answer; none when there is none.
    pub code: Option<u16>,
    /// True when it was executed. A call that the server itself refused counts as executed.
    pub carried_out: bool,
    /// Its fault.
    pub fault: CallFault,
    /// The answer, even if it was not delivered.
    pub answer: Option<Arc<Value>>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was modified.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct ChangeRecord {
    /// The kind of the change.
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
    /// The version of the change.
    pub version: u64,
    /// The process that made it, or `cluster`.
    pub by: String,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The object after; none for a deletion.
    pub after: Option<Arc<Value>>,
}

/// A line of a watch.
#[derive(Clone, Debug)]
pub struct SentRecord {
    /// The line.
    pub point: EventPoint,
    /// The version of its content.
    pub version: u64,
    /// Its fault.
    pub fault: EventFault,
    /// The object.
    pub object: Arc<Value>,
}
