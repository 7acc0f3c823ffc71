//! The part of the Kubernetes API that a mount needs.

mod live;
mod review;

use connectors_api::{AccessRequest, Connector, ConnectorClass, PodIdentity, told_words};
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

/// The object under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lookup<K> {
    /// No object.
    Absent,
    /// An object that cannot be read.
    Unreadable,
    /// The object.
    Found(Box<K>),
}

told_words! {
    /// The events of the node plugin at a pod.
    EventWord {
        /// Nothing is granted yet, and no request reports so.
        AccessPending,
        /// Access was finally refused.
        AccessDenied,
        /// Access was granted in a way that no mount can use.
        AccessUnusable,
        /// Access ended, and the content of the volume was removed.
        AccessRevoked,
        /// The volume was mounted while nothing was gated, and keeps its content without a permission.
        MountedWhileOff,
        /// Access was finally refused, and the volume contains only an error.
        MountedErrorFile,
        /// Newer content of the volume cannot be made, and the older content stays.
        VolumeOutdated,
    }
}

impl EventWord {
    /// Whether a person should look at it.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        match self {
            Self::AccessPending => false,
            Self::AccessDenied
            | Self::AccessUnusable
            | Self::AccessRevoked
            | Self::MountedWhileOff
            | Self::MountedErrorFile
            | Self::VolumeOutdated => true,
        }
    }
}

/// The reads, reviews and writes of a mount.
pub(crate) trait Kubernetes: Send + Sync + 'static {
    /// Reviews a token.
    fn review_token(
        &self,
        token: &Token,
    ) -> impl Future<Output = Result<TokenReviewStatus, NoAnswer>> + Send;

    /// Reviews an access.
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

    /// Sends an event to a pod, sooner or later. No task waits for it.
    fn tell(&self, pod: &PodIdentity, word: EventWord, note: String);
}

#[cfg(test)]
mod tests {
    use super::EventWord;

    #[test]
    fn every_event_but_that_of_a_pod_that_waits_is_a_warning() {
        for word in EventWord::ALL {
            let waits = *word == EventWord::AccessPending;
            assert_eq!(word.is_warning(), !waits, "{}", word.as_str());
        }
    }

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
        let mut written: Vec<_> = EventWord::ALL.iter().map(|it| it.as_str()).collect();
        written.sort_unstable();
        assert_eq!(allowed, written);
        assert!(POLICY.contains("'connectors.alauda.io/csi-node'"));
    }
}
