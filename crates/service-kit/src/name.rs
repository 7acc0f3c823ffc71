//! The name of an object.

use std::{fmt, ops::Deref, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Namespace and name of an object. A copy is a reference: the caches, the queue and the timers share one text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<NameParts>);

/// The parts of a [`Name`].
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameParts {
    /// The namespace; empty for an object that is in none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Name {
    /// From both parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(Arc::new(NameParts {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }))
    }

    /// Of an object.
    #[must_use]
    pub fn of(object: &impl Resource) -> Self {
        Self::in_metadata(object.meta())
    }

    /// Of the object with this metadata.
    #[must_use]
    pub fn in_metadata(metadata: &ObjectMeta) -> Self {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        Self::new(namespace, name)
    }
}

impl Deref for Name {
    type Target = NameParts;

    fn deref(&self) -> &NameParts {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_with_its_namespace_even_if_that_is_empty() {
        assert_eq!(Name::new("team", "build").to_string(), "team/build");
        let metadata = ObjectMeta {
            name: Some("team".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(Name::in_metadata(&metadata).to_string(), "/team");
    }
}
