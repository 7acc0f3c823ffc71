//! An access question: which user wants to perform which verb on which target.
//!
//! As in Kubernetes, an empty string means absent: no namespace, no name, the core group.

use std::fmt;

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{FieldSelectorAttributes, LabelSelectorAttributes};

/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The user that an access question is about, as it authenticated.
pub trait Authenticated: fmt::Debug {
    /// Name and groups: RBAC looks at nothing else.
    fn as_user(&self) -> &User;

    /// Everything that is known of the user, also the UID and the extra fields. It is made anew on each call.
    fn info(&self) -> UserInfo {
        let User { name, groups } = self.as_user().clone();
        UserInfo {
            username: Some(name),
            groups: Some(groups),
            ..UserInfo::default()
        }
    }
}

impl Authenticated for User {
    fn as_user(&self) -> &User {
        self
    }
}

/// The name and the groups of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name that the user authenticated as.
    pub name: String,
    /// The groups that came with it. A binding to a group that is missing here does not apply to the user.
    pub groups: Vec<String>,
}

impl User {
    /// A service account as it authenticates: under its user name and in its three groups.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: service_account_user_name(namespace, name),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// True when this is the service account of that namespace and name.
    #[must_use]
    pub fn is_service_account(&self, namespace: &str, name: &str) -> bool {
        let account = self.service_account_name();
        let account = account.and_then(|rest| rest.strip_prefix(namespace));
        account.and_then(|rest| rest.strip_prefix(':')) == Some(name)
    }

    /// Namespace and name of the service account, joined by a colon; none for other users.
    pub(crate) fn service_account_name(&self) -> Option<&str> {
        self.name.strip_prefix(SERVICE_ACCOUNT)
    }
}

pub(crate) fn service_account_user_name(namespace: &str, name: &str) -> String {
    [SERVICE_ACCOUNT, namespace, ":", name].concat()
}

/// One access question, with all that Kubernetes tells its authorizers about one.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The user that wants access.
    pub user: &'a dyn Authenticated,
    /// The verb. `*` is a verb like any other here: only rules for `*` allow it.
    pub verb: &'a str,
    /// The object or path that the user wants to access.
    pub target: Target<'a>,
}

/// The target of an access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target<'a> {
    /// Objects of the API.
    Resource(ResourceRequest<'a>),
    /// A path of the server that is no object, such as `/healthz`.
    Path(&'a str),
}

impl<'a> Target<'a> {
    /// The namespace whose bindings count, in addition to those of the cluster; empty for none.
    #[must_use]
    pub const fn namespace(self) -> &'a str {
        match self {
            Self::Resource(request) => request.namespace,
            Self::Path(_) => "",
        }
    }
}

/// Objects of the API, as an access review names them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceRequest<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Resource. It may hold slashes: what counts is the text of resource and subresource together.
    pub resource: &'a str,
    /// Subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Namespace; empty for the whole cluster.
    pub namespace: &'a str,
    /// Name of the object; empty for all of them, as in a list.
    pub name: &'a str,
    /// The fields by which a list is restricted. RBAC ignores them.
    pub field_selector: Option<&'a FieldSelectorAttributes>,
    /// The labels by which a list is restricted. RBAC ignores them.
    pub label_selector: Option<&'a LabelSelectorAttributes>,
}

impl ResourceRequest<'_> {
    /// True when a rule's resource covers this request: `*`, the same text, or `*/` and the subresource.
    pub(crate) fn is_covered_by(&self, resource: &str) -> bool {
        resource == "*"
            || is_joined(resource, self.resource, self.subresource)
            || is_joined(resource, "*", self.subresource)
    }
}

/// True when `text` is `resource`, or `resource/subresource` if there is a subresource.
pub(crate) fn is_joined(text: &str, resource: &str, subresource: &str) -> bool {
    let Some(rest) = text.strip_prefix(resource) else {
        return false;
    };
    if subresource.is_empty() {
        rest.is_empty()
    } else {
        rest.strip_prefix('/') == Some(subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_comes_with_its_three_groups() {
        let user = User::service_account("devops", "builder");
        assert_eq!(user.name, "system:serviceaccount:devops:builder");
        assert_eq!(
            user.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:devops",
                "system:authenticated"
            ]
        );
    }

    #[test]
    fn a_user_is_told_by_its_name_and_its_groups_alone() {
        let user = User::service_account("devops", "builder");
        let info = user.info();
        let expected = UserInfo {
            username: Some(user.name),
            groups: Some(user.groups),
            ..UserInfo::default()
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn a_user_name_is_a_service_account_only_as_a_whole() {
        let is = |name: &str| {
            let name = name.to_owned();
            User {
                name,
                groups: vec![],
            }
            .is_service_account("ns", "sa")
        };
        assert!(is("system:serviceaccount:ns:sa"));
        for name in [
            "",
            "sa",
            "ns:sa",
            "system:serviceaccount:ns:sa2",
            "system:serviceaccount:ns2:sa",
            "system:serviceaccount:nssa",
            "System:serviceaccount:ns:sa",
        ] {
            assert!(!is(name), "{name}");
        }
    }
}
