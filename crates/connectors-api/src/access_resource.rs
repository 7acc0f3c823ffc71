//! The resource string of an access in RBAC: `connectors/<permission>`, alone or followed by the object that
//! may use it.
//!
//! RBAC compares these strings as a whole; there is no prefix match. A grant of the standing form does not
//! cover the pod form, nor the reverse.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use thiserror::Error;

use crate::Permission;
use crate::names::{CONNECTORS, GROUP, is_dns_label, is_dns_subdomain};

/// An access as RBAC names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessResource {
    /// The permission of the access.
    pub permission: Permission,
    /// The only object that may use it; without one, every bound subject may, at any time.
    pub context: Option<Context>,
}

/// The API version and the kind of a pod in an access.
pub(crate) const POD: (&str, &str) = ("v1", "pod");

/// The object that an access is limited to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context {
    /// `v1`, or group and version.
    pub api_version: String,
    /// The kind, in lower case.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// The reason why a text is not an access resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessResourceError {
    /// The number of segments, or the first one, is wrong.
    #[error(
        "must be connectors/<permission> or connectors/<permission>/<apiVersion>/<kind>/<namespace>/<name>"
    )]
    Shape,
    /// The second segment is not a permission.
    #[error("`{0}` is not a permission: use apis or proxy")]
    Permission(String),
    /// A segment is empty, or contains characters that are not allowed in its place.
    #[error("`{value}` cannot be the {segment} of an object")]
    Segment {
        /// The name of the segment.
        segment: &'static str,
        /// The text of the segment.
        value: String,
    },
}

impl AccessResource {
    /// Access that is held until it is revoked.
    #[must_use]
    pub const fn standing(permission: Permission) -> Self {
        Self {
            permission,
            context: None,
        }
    }

    /// Access of one pod, as a mount requests it.
    #[must_use]
    pub fn pod(permission: Permission, namespace: &str, name: &str) -> Self {
        let (api_version, kind) = POD;
        let context = Context {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Self {
            permission,
            context: Some(context),
        }
    }

    /// The subresource of one pod's access, built with one allocation because every check of a pod needs it.
    #[must_use]
    pub fn subresource_of_pod(permission: Permission, namespace: &str, name: &str) -> String {
        let (api_version, kind) = POD;
        let permission = permission.as_str();
        [
            permission,
            "/",
            api_version,
            "/",
            kind,
            "/",
            namespace,
            "/",
            name,
        ]
        .concat()
    }

    /// The same access, limited to another object: with this namespace, this name or both.
    pub(crate) fn with_object(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Self, AccessResourceError> {
        let mut resource = self.clone();
        if let Some(context) = &mut resource.context {
            if let Some(namespace) = namespace {
                check("namespace", namespace, is_dns_label)?;
                namespace.clone_into(&mut context.namespace);
            }
            if let Some(name) = name {
                check("name", name, is_dns_subdomain)?;
                name.clone_into(&mut context.name);
            }
        }
        Ok(resource)
    }

    /// True if the access is limited to the object of this namespace and name. The kind does not matter.
    #[must_use]
    pub fn is_of(&self, namespace: &str, name: &str) -> bool {
        let is_of = |context: &Context| context.namespace == namespace && context.name == name;
        self.context.as_ref().is_some_and(is_of)
    }

    /// The question of an access review: may an account do everything on this resource of a connector? RBAC takes a
    /// subresource with slashes as one string.
    #[must_use]
    pub fn review(&self, namespace: &str, connector: &str) -> ResourceAttributes {
        ResourceAttributes {
            group: Some(GROUP.to_owned()),
            resource: Some(CONNECTORS.to_owned()),
            subresource: Some(self.subresource()),
            verb: Some("*".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(connector.to_owned()),
            ..ResourceAttributes::default()
        }
    }

    /// The part after `connectors/`, which an access review takes as its subresource.
    #[must_use]
    pub fn subresource(&self) -> String {
        let Self {
            permission,
            context,
        } = self;
        match context {
            None => permission.to_string(),
            Some(Context {
                api_version,
                kind,
                namespace,
                name,
            }) => {
                format!("{permission}/{api_version}/{kind}/{namespace}/{name}")
            }
        }
    }
}

impl fmt::Display for AccessResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CONNECTORS}/{}", self.subresource())
    }
}

impl FromStr for AccessResource {
    type Err = AccessResourceError;

    fn from_str(text: &str) -> Result<Self, AccessResourceError> {
        let segments: Vec<&str> = text.split('/').collect();
        let (permission, context) = match *segments.as_slice() {
            [CONNECTORS, permission] => (permission, None),
            [CONNECTORS, permission, version, kind, namespace, name] => (
                permission,
                Some(context("", version, kind, namespace, name)?),
            ),
            [
                CONNECTORS,
                permission,
                group,
                version,
                kind,
                namespace,
                name,
            ] => {
                check("API group", group, is_dns_subdomain)?;
                (
                    permission,
                    Some(context(group, version, kind, namespace, name)?),
                )
            }
            _ => return Err(AccessResourceError::Shape),
        };
        let permission = Permission::from_segment(permission)
            .ok_or_else(|| AccessResourceError::Permission(permission.to_owned()))?;
        Ok(Self {
            permission,
            context,
        })
    }
}

fn context(
    group: &str,
    version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Context, AccessResourceError> {
    check("API version", version, is_version)?;
    check("kind", kind, is_dns_label)?;
    check("namespace", namespace, is_dns_label)?;
    check("name", name, is_dns_subdomain)?;
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(Context {
        api_version,
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn check(
    segment: &'static str,
    value: &str,
    valid: fn(&str) -> bool,
) -> Result<(), AccessResourceError> {
    if valid(value) {
        Ok(())
    } else {
        Err(AccessResourceError::Segment {
            segment,
            value: value.to_owned(),
        })
    }
}

/// True for a version that the schema accepts, without its group.
pub(crate) fn is_version(text: &str) -> bool {
    is_dns_label(text)
        && !text.contains('-')
        && text.starts_with('v')
        && text.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests;
