//! The connectors that a pod asks for, from its volumes. The node plugin reads them at the mount, and the controller before
//! the pod is scheduled: both come to the same requests under the same names.
//!
//! Messages name the words that the author of the pod wrote, because they are shown in the pod's events.

pub mod attributes;
mod request;
mod volumes;

use std::fmt;

pub use attributes::{
    ATTRIBUTES, KnownAttribute, LONGEST_ATTRIBUTES, MOST_CONNECTORS, NoConnector, VolumeAttributes,
    WishError, connector,
};
pub use request::{asks_the_same, request};
pub use volumes::{MOST_WANTED, VolumeTextError, Wanted, wanted};

/// A connector by its full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectorKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ConnectorKey {
    /// True when the pod lives in the connector's namespace, and may therefore read about it.
    #[must_use]
    pub fn is_home_of(&self, pod: &PodIdentity) -> bool {
        self.namespace == pod.namespace
    }
}

impl fmt::Display for ConnectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The pod that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodIdentity {
    /// Its namespace, which is also that of its service account.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The service account that it runs as.
    pub service_account: String,
}
