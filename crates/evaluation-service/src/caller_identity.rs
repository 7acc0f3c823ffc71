//! Which connections and tokens count as one caller.

use k8s_openapi::api::authentication::v1::UserInfo;
use service_kit::reviews::POD_UID;

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CallerIdentity {
    /// A user of the cluster. A daemon has one account on every node and is one caller on each: tokens that are bound
    /// to a pod are distinguished by the pod. Nothing else that a user may choose counts.
    User {
        name: String,
        pod: Option<Vec<String>>,
    },
    /// A user of this machine.
    Local(u32),
}

impl CallerIdentity {
    pub(crate) fn of(user: &UserInfo) -> Self {
        let extra = user.extra.as_ref();
        Self::User {
            name: user.username.clone().unwrap_or_default(),
            pod: extra.and_then(|extra| extra.get(POD_UID)).cloned(),
        }
    }
}
