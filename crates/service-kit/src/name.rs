//! The name of an object.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The namespace; empty for an object that is in none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Name {
    /// From both parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Of an object.
    #[must_use]
    pub fn of(object: &impl Resource) -> Self {
        Self::in_metadata(object.meta())
    }

    /// Of the object with this metadata.
    #[must_use]
    pub fn in_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
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
