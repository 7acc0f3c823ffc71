//! Who calls: the process, which can be killed, and the user, who is authorized.

use authz::{SystemMasters, User};

/// A process and the user that it calls as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The process. Faults, lags and [`crate::ApiServer::kill`] go by it.
    pub process: String,
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

impl Caller {
    /// A process that may do everything.
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

    /// A process under a service account, with the groups that come with it.
    #[must_use]
    pub fn service_account(process: &str, namespace: &str, name: &str) -> Self {
        let User { name, groups } = User::service_account(namespace, name);
        Self {
            process: process.to_owned(),
            user: name,
            groups,
        }
    }

    /// As the authorizer knows it.
    pub(crate) fn as_user(&self) -> User {
        User {
            name: self.user.clone(),
            groups: self.groups.clone(),
        }
    }
}
