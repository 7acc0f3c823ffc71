//! The caller: a process, which can be killed, and a user, which is authorized.

use authz::{SystemMasters, User};

/// A process, and the user that it authenticates as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The process. Faults, lags and [`crate::ApiServer::kill`] refer to it.
    pub process: String,
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

impl Caller {
    /// A process with all permissions.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            process: "admin".to_owned(),
            user: "admin".to_owned(),
            groups: vec![
                SystemMasters::GROUP.to_owned(),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// A process that uses a service account, with its groups.
    #[must_use]
    pub fn service_account(process: &str, namespace: &str, name: &str) -> Self {
        let User { name, groups } = User::service_account(namespace, name);
        Self {
            process: process.to_owned(),
            user: name,
            groups,
        }
    }

    /// The user in the authorizer's form.
    pub(crate) fn as_user(&self) -> User {
        User {
            name: self.user.clone(),
            groups: self.groups.clone(),
        }
    }
}
