//! The faults that the server can simulate.

use std::{fmt, time::Duration};

/// Decides which calls and events fail. It is asked once for each call and each watch event, in the order in
/// which they happen.
pub trait Faults: Send + Sync {
    /// The fault of this call. Not asked for calls of the cluster itself.
    fn on_call(&self, point: &CallPoint) -> CallFault;
    /// The fault of this line of a watch, or object of its initial list.
    fn on_event(&self, point: &EventPoint) -> EventFault;
}

/// No faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn on_call(&self, _: &CallPoint) -> CallFault {
        CallFault::None
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

/// The verb of a call, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows changes.
    Watch,
    /// Makes a new object.
    Create,
    /// Replaces one.
    Update,
    /// Changes one.
    Patch,
    /// Deletes one.
    Delete,
    /// Deletes all that are selected.
    DeleteCollection,
}

impl Verb {
    /// The spelling in rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// True when it may change something.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call, as the input of a fault decision.
///
/// Calls that are not about objects (discovery, `/version`) have the path as their resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallPoint {
    /// The calling process.
    pub process: String,
    /// The user that it authenticates as.
    pub user: String,
    /// The verb.
    pub verb: Verb,
    /// Plural of the kind.
    pub resource: String,
    /// Subresource, if any.
    pub subresource: Option<String>,
    /// Namespace; empty for none, and for all of them.
    pub namespace: String,
    /// Name; empty for many. If the path has none, the name in the body.
    pub name: String,
    /// The number of earlier calls with equal user, verb, resource, subresource, namespace and name, over all
    /// processes of that user.
    pub nth: usize,
    /// The number of earlier calls of this process.
    pub index: usize,
}

/// The fault of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallFault {
    /// No fault.
    #[default]
    None,
    /// It is refused, and not executed.
    Refuse {
        /// The status.
        code: u16,
        /// Seconds after which to try again.
        retry_after: Option<u64>,
    },
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// It is executed, and the connection breaks before the answer arrives.
    LoseAnswer,
    /// It is neither executed nor answered.
    HangBefore,
    /// It is executed but never answered.
    HangAfter,
    /// It is executed after this delay, even if the caller has stopped waiting by then.
    Delay(Duration),
    /// The process is killed before the call is executed.
    KillBefore,
    /// The process is killed after the call was executed.
    KillAfter,
    /// It is executed, and answered with 200 and a body that is not JSON.
    Garbage,
}

/// The kind of a line of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// An object that is new, or new in the selection.
    Added,
    /// An object that changed.
    Modified,
    /// An object that is deleted, or no longer in the selection.
    Deleted,
    /// The position of the watch.
    Bookmark,
    /// An object that existed when the watch began.
    InitialList,
}

/// One line of a watch, as the input of a fault decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventPoint {
    /// The watching process.
    pub process: String,
    /// The user that it authenticates as.
    pub user: String,
    /// Plural of the kind.
    pub resource: String,
    /// The kind of the line.
    pub kind: EventKind,
    /// Namespace of the object; empty for none.
    pub namespace: String,
    /// Name of the object; empty for a bookmark.
    pub name: String,
    /// The number of earlier lines with equal user, resource, kind, namespace and name, over all watches of
    /// that user.
    pub nth: usize,
}

/// The fault of a line of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventFault {
    /// No fault.
    #[default]
    None,
    /// It is dropped. A 410 replaces the next line of the stream, so that the client learns of it.
    Drop,
    /// It is sent twice.
    Twice,
    /// It is delayed, and with it everything after it on the same stream.
    Delay(Duration),
    /// A 410 is sent instead, and the stream ends.
    Gone,
    /// The stream ends before it.
    Close,
    /// Neither it nor anything else is sent; the stream stays open.
    Silence,
    /// The process is killed before it is sent.
    KillBefore,
}
