//! Where the server can break, and how.

use std::{fmt, time::Duration};

/// Decides what breaks. Asked once for each call and each watch event, in the order in which they happen.
pub trait Faults: Send + Sync {
    /// What happens to this call. Not asked for calls of the cluster itself.
    fn on_call(&self, point: &CallPoint) -> CallFault;
    /// What happens to this line of a watch, or object of its initial list.
    fn on_event(&self, point: &EventPoint) -> EventFault;
}

/// Nothing breaks.
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

/// What a call does, as RBAC names it.
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
    /// As rules write it.
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

    /// Whether it may change something.
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

/// One call, as a place to break it.
///
/// Calls that are not about objects (discovery, `/version`) have the path as their resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallPoint {
    /// The process that calls.
    pub process: String,
    /// The user that it calls as.
    pub user: String,
    /// What it does.
    pub verb: Verb,
    /// Plural of the kind.
    pub resource: String,
    /// Subresource, if any.
    pub subresource: Option<String>,
    /// Namespace; empty for none, and for all of them.
    pub namespace: String,
    /// Name; empty for many. That in the body when the path has none.
    pub name: String,
    /// How many calls with equal user, verb, resource, subresource, namespace and name came before, over all
    /// processes of that user.
    pub nth: usize,
    /// How many calls of this process came before.
    pub index: usize,
}

/// How a call breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallFault {
    /// Not at all.
    #[default]
    None,
    /// It is refused, and not carried out.
    Refuse {
        /// The status.
        code: u16,
        /// Seconds after which to try again.
        retry_after: Option<u64>,
    },
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// It is carried out, and the connection breaks before the answer arrives.
    LoseAnswer,
    /// It is neither carried out nor answered.
    HangBefore,
    /// It is carried out and never answered.
    HangAfter,
    /// It is carried out that much later, also when the caller has stopped waiting by then.
    Delay(Duration),
    /// The process is killed before the call is carried out.
    KillBefore,
    /// The process is killed after the call was carried out.
    KillAfter,
    /// It is carried out, and answered with 200 and a body that is no JSON.
    Garbage,
}

/// What kind of line of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// An object that is new, or new in the selection.
    Added,
    /// An object that changed.
    Modified,
    /// An object that is gone, or gone from the selection.
    Deleted,
    /// How far the watch has come.
    Bookmark,
    /// An object that was there when the watch began.
    InitialList,
}

/// One line of a watch, as a place to break it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventPoint {
    /// The process that watches.
    pub process: String,
    /// The user that it watches as.
    pub user: String,
    /// Plural of the kind.
    pub resource: String,
    /// What the line says.
    pub kind: EventKind,
    /// Namespace of the object; empty for none.
    pub namespace: String,
    /// Name of the object; empty for a bookmark.
    pub name: String,
    /// How many lines with equal user, resource, kind, namespace and name came before, over all watches of
    /// that user.
    pub nth: usize,
}

/// How a line of a watch breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventFault {
    /// Not at all.
    #[default]
    None,
    /// It is left out. A 410 comes instead of the next line of the stream, which is how a client learns of it.
    Drop,
    /// It comes twice.
    Twice,
    /// It comes later, and with it all that is behind it on the same stream.
    Delay(Duration),
    /// A 410 comes instead of it, and the stream ends.
    Gone,
    /// The stream ends before it.
    Close,
    /// Neither it nor anything else comes; the stream stays open.
    Silence,
    /// The process is killed before it.
    KillBefore,
}
