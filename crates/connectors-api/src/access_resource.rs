//! The string under which RBAC knows an access: `connectors/<permission>`, alone or followed by the
//! object that may use it.
//!
//! RBAC compares these strings whole; there is no path prefix. A grant on the standing form says
//! nothing about the pod form, and the other way round.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::Permission;
use crate::names::{CONNECTORS, is_dns_label, is_dns_subdomain};

/// An access as RBAC names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessResource {
    /// The capability that is accessed.
    pub permission: Permission,
    /// The only object that may; without it whoever is bound may, at any time.
    pub context: Option<Context>,
}

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

/// Why a text is not an access resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessResourceError {
    /// The number of segments, or the first one, is wrong.
    #[error(
        "must be connectors/<permission> or connectors/<permission>/<apiVersion>/<kind>/<namespace>/<name>"
    )]
    Shape,
    /// The second segment is no permission.
    #[error("`{0}` is not a permission: use apis or proxy")]
    Permission(String),
    /// A segment is empty, or holds what no name of its place can hold.
    #[error("`{value}` cannot be the {segment} of an object")]
    Segment {
        /// Which segment.
        segment: &'static str,
        /// What stands there.
        value: String,
    },
}

impl AccessResource {
    /// Access that is held until it is taken away.
    #[must_use]
    pub const fn standing(permission: Permission) -> Self {
        Self {
            permission,
            context: None,
        }
    }

    /// Access of one pod. What a mount asks for.
    #[must_use]
    pub fn pod(permission: Permission, namespace: &str, name: &str) -> Self {
        let context = Context {
            api_version: "v1".to_owned(),
            kind: "pod".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Self {
            permission,
            context: Some(context),
        }
    }

    /// The part behind `connectors/`: what an access review takes as its subresource.
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

fn is_version(text: &str) -> bool {
    is_dns_label(text)
        && text.starts_with('v')
        && text.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_two_forms_of_an_access() {
        let standing = AccessResource::standing(Permission::Apis);
        assert_eq!(standing.to_string(), "connectors/apis");
        assert_eq!(standing.subresource(), "apis");
        let pod = AccessResource::pod(Permission::Proxy, "devops-ns1", "deploy-prod-xxx");
        assert_eq!(
            pod.to_string(),
            "connectors/proxy/v1/pod/devops-ns1/deploy-prod-xxx"
        );
        assert_eq!(pod.subresource(), "proxy/v1/pod/devops-ns1/deploy-prod-xxx");
    }

    #[test]
    fn other_contexts_than_pods_are_read() {
        let parsed: AccessResource = "connectors/apis/tekton.dev/v1/pipelineruns/ns/run-1"
            .parse()
            .unwrap();
        let context = parsed.context.unwrap();
        assert_eq!(
            (context.api_version.as_str(), context.kind.as_str()),
            ("tekton.dev/v1", "pipelineruns")
        );
    }

    #[test]
    fn refuses_what_rbac_would_never_match_or_match_too_widely() {
        use AccessResourceError::{Permission, Segment, Shape};
        let segment = |segment, value: &str| Segment {
            segment,
            value: value.to_owned(),
        };
        for (text, error) in [
            ("", Shape),
            ("connectors", Shape),
            ("*", Shape),
            ("pods/apis", Shape),
            ("/connectors/apis", Shape),
            ("connectors/apis/", Shape),
            ("connectors/apis/v1/pod/ns", Shape),
            ("connectors/apis/a/v1/pod/ns/n/more", Shape),
            ("connectors/*", Permission("*".to_owned())),
            ("connectors/Apis", Permission("Apis".to_owned())),
            ("connectors/apis/v1/pod/ns/*", segment("name", "*")),
            ("connectors/apis/v1/pod//n", segment("namespace", "")),
            ("connectors/apis/v1/Pod/ns/n", segment("kind", "Pod")),
            ("connectors/apis/pod/v1/ns/n", segment("API version", "pod")),
            (
                "connectors/apis/a_b/v1/pod/ns/n",
                segment("API group", "a_b"),
            ),
            (
                "connectors/apis/v1/pod/ns/{.object.metadata.name}",
                segment("name", "{.object.metadata.name}"),
            ),
        ] {
            assert_eq!(text.parse::<AccessResource>(), Err(error), "{text}");
        }
    }

    fn resources() -> impl Strategy<Value = AccessResource> {
        let context = (
            "([a-z]{1,5}\\.[a-z]{1,3}/)?v[1-9](beta1)?",
            "[a-z]{1,12}",
            "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
            "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]{1,9})?",
        );
        let context = context.prop_map(|(api_version, kind, namespace, name)| Context {
            api_version,
            kind,
            namespace,
            name,
        });
        (
            proptest::sample::select(Permission::ALL),
            proptest::option::of(context),
        )
            .prop_map(|(permission, context)| AccessResource {
                permission,
                context,
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(resource in resources()) {
            prop_assert_eq!(resource.to_string().parse(), Ok(resource));
        }

        #[test]
        fn what_is_read_is_written_back(text in "connectors/[a-z/.*0-9-]{0,40}") {
            if let Ok(resource) = text.parse::<AccessResource>() {
                prop_assert_eq!(resource.to_string(), text);
            }
        }
    }
}
