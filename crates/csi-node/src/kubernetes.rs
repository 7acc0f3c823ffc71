//! The Kubernetes API, as far as a mount needs it.

mod live;
mod review;

use connectors_api::{AccessRequest, Connector, ConnectorClass, PodIdentity};
use k8s_openapi::api::{
    authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
    storage::v1::CSIDriver,
};
use thiserror::Error;

use crate::volume::Token;

pub(crate) use connectors_api::request_creation::Created;
pub(crate) use live::Live;
pub(crate) use review::review;

/// The API server gave no answer that can be used. The log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the Kubernetes API cannot be asked at the moment")]
pub(crate) struct NoAnswer;

/// What is under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lookup<K> {
    /// Nothing.
    Absent,
    /// Something that cannot be read.
    Unreadable,
    /// The object.
    Found(Box<K>),
}

/// What a pod is told by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventWord {
    /// Nothing is granted yet, and no request tells so.
    Pending,
    /// Access was refused, for good.
    Denied,
    /// Access was granted in a way that no mount can use.
    Unusable,
    /// Access ended, and the content of the volume with it.
    Revoked,
    /// The volume was mounted while nothing was gated, and keeps its content without a permission.
    MountedWhileOff,
    /// Access was refused for good, and the volume holds an error alone.
    MountedErrorFile,
}

impl EventWord {
    /// The event's reason.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "AccessPending",
            Self::Denied => "AccessDenied",
            Self::Unusable => "AccessUnusable",
            Self::Revoked => "AccessRevoked",
            Self::MountedWhileOff => "MountedWhileOff",
            Self::MountedErrorFile => "MountedErrorFile",
        }
    }

    /// Whether somebody should look at it.
    pub(crate) const fn is_warning(self) -> bool {
        match self {
            Self::Pending => false,
            Self::Denied
            | Self::Unusable
            | Self::Revoked
            | Self::MountedWhileOff
            | Self::MountedErrorFile => true,
        }
    }
}

/// Who is asked, and told.
pub(crate) trait Kubernetes: Send + Sync + 'static {
    /// Whose is a token?
    fn review_token(
        &self,
        token: &Token,
    ) -> impl Future<Output = Result<TokenReviewStatus, NoAnswer>> + Send;

    /// May somebody do something?
    fn review_access(
        &self,
        question: SubjectAccessReviewSpec,
    ) -> impl Future<Output = Result<bool, NoAnswer>> + Send;

    /// Creates a request in a namespace.
    fn create_request(
        &self,
        namespace: &str,
        request: &AccessRequest,
    ) -> impl Future<Output = Result<Created, NoAnswer>> + Send;

    /// Reads a request.
    fn request(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Lookup<AccessRequest>, NoAnswer>> + Send;

    /// Reads a connector.
    fn connector(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Lookup<Connector>, NoAnswer>> + Send;

    /// Reads a class.
    fn class(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Lookup<ConnectorClass>, NoAnswer>> + Send;

    /// Reads a driver object.
    fn driver(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Lookup<CSIDriver>, NoAnswer>> + Send;

    /// Tells a pod, sooner or later. Nobody waits for it.
    fn tell(&self, pod: &PodIdentity, word: EventWord, note: String);
}

#[cfg(test)]
mod tests {
    use super::EventWord;

    const POLICY: &str =
        include_str!("../../../charts/connectors-approval/templates/admission/node-events.yaml");

    #[test]
    fn the_admission_policy_lets_the_driver_write_its_events_and_no_others() {
        let (_, reasons) = POLICY
            .split_once("object.?reason.orValue('') in [")
            .unwrap();
        let (reasons, _) = reasons.split_once(']').unwrap();
        let mut allowed: Vec<&str> = reasons.split('\'').skip(1).step_by(2).collect();
        allowed.sort_unstable();
        let all = [
            EventWord::Pending,
            EventWord::Denied,
            EventWord::Unusable,
            EventWord::Revoked,
            EventWord::MountedWhileOff,
            EventWord::MountedErrorFile,
        ];
        let mut written = all.map(|word| match word {
            // Another word belongs into the list above.
            EventWord::Pending
            | EventWord::Denied
            | EventWord::Unusable
            | EventWord::Revoked
            | EventWord::MountedWhileOff
            | EventWord::MountedErrorFile => word.as_str(),
        });
        written.sort_unstable();
        assert_eq!(allowed, written);
        assert!(POLICY.contains("'connectors.alauda.io/csi-node'"));
    }
}
