//! One object of the cluster, exactly: by its UID, in one version.

use std::fmt;

/// The identity of an object, and its version. Ordered by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// The resource version that was judged.
    pub resource_version: String,
}

/// Messages contain names only, never more of the object.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
