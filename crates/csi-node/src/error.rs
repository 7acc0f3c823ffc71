//! Why a volume is not published, and the kubelet's code for it.
//!
//! Codes follow the kubelet's interpretation. Five codes mean "uncertain": it remembers the volume and calls for its
//! removal. Every other code is final: it forgets the volume, so nothing may be left.
//!
//! The texts appear in the pod's events, which tenants read, and which Kubernetes merges when they are equal. So the
//! text for one reason never changes, and begins with the connector. Outside the connector's namespace it does not
//! distinguish a missing connector from one that the asker may not use.

use connector_files::FilesError;
use connectors_api::{ConnectorKey, reason::Ready};
use thiserror::Error;
use tonic::{Code, Status};

use crate::{
    caller::CallerError, hold_quota::HoldQuotaFull, memory_quota::MemoryQuotaFull,
    refusal::AccessRefusal, volume::VolumeError,
};

/// The kubelet's events are cut at 1024 bytes, and its own text comes first.
const LONGEST_TEXT: usize = 700;

/// Why a volume is not published.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PublishError {
    /// The call is invalid.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The caller is not the claimed pod.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// With the driver object of the cluster, pods could lie.
    #[error("the CSIDriver object is not as this driver needs it: {0}")]
    Driver(DriverProblem),
    /// Some required information is not known yet.
    #[error("the driver has just started and does not know its configuration yet")]
    Starting,
    /// Another call works on the same volume.
    #[error("another call for this volume is running")]
    InFlight,
    /// The limit of held calls is reached.
    #[error(transparent)]
    Crowded(#[from] HoldQuotaFull),
    /// The wait reached the kubelet's limit.
    #[error("connector {connector}: {awaited}")]
    Waiting {
        /// The connector.
        connector: ConnectorKey,
        /// The awaited event.
        awaited: String,
    },
    /// Access is refused or over.
    #[error("connector {}: {}", .0.connector, .0.text)]
    Denied(Box<AccessRefusal>),
    /// Access was granted in a way that no mount can use.
    #[error(
        "connector {connector}: access was granted, but not for mounting it into this pod; a mount needs verb * on connectors/<permission>, or on connectors/<permission>/v1/pod/<namespace>/<name> of this pod"
    )]
    Unusable {
        /// The connector.
        connector: ConnectorKey,
    },
    /// Another request has the name of ours.
    #[error(
        "connector {connector}: another AccessRequest has the name that this pod's would have; nothing is granted while it exists"
    )]
    Squatted {
        /// The connector.
        connector: ConnectorKey,
    },
    /// The request cannot be made.
    #[error("connector {connector}: the cluster does not accept an AccessRequest for this pod")]
    RequestRefused {
        /// The connector.
        connector: ConnectorKey,
    },
    /// The wait has no purpose any more.
    #[error("the pod is ending")]
    PodEnding,
    /// The service did not answer.
    #[error("connector {connector}: {trouble}; nothing is mounted until it can be asked")]
    Unreachable {
        /// The connector.
        connector: ConnectorKey,
        /// The service without an answer.
        trouble: Unreachable,
    },
    /// The API server did not answer whose the token is.
    #[error("{0}; nothing is mounted until it can be asked")]
    NotProven(Unreachable),
    /// The process ends.
    #[error("the driver is being restarted")]
    Stopping,
    /// No caller waits for the answer.
    #[error("the call was given up")]
    Cancelled,
    /// The volume would have no content.
    #[error("connector {connector}: it has no address, and neither has its class")]
    NoAddress {
        /// The connector.
        connector: ConnectorKey,
    },
    /// The files cannot be made.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Files of other volumes are being made.
    #[error("the files of other volumes are being made on this node; the next call tries again")]
    RendersBusy,
    /// Volumes use all the memory that they may.
    #[error(transparent)]
    NoMemory(#[from] MemoryQuotaFull),
    /// Another object is at the target path.
    #[error(
        "the volume is already there with other attributes; it cannot change while the pod runs"
    )]
    OtherVolume,
    /// The mount, a write or a part of the driver failed. The log has the reason.
    #[error("the volume could not be made; the driver's log says why")]
    Broken,
    /// The error, and in addition remains at the target path.
    #[error("{0} (and the target path could not be cleared)")]
    Left(Box<Self>),
}

/// A service that gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unreachable {
    /// The service that decides.
    #[error("the evaluation service cannot be asked at the moment")]
    Evaluator,
    /// The service that confirms.
    #[error("the Kubernetes API cannot be asked at the moment")]
    Kubernetes,
}

/// The fault of the driver object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DriverProblem {
    /// It is missing.
    #[error("it does not exist")]
    Absent,
    /// It is not readable.
    #[error("it cannot be read")]
    Unreadable,
    /// Pods could name another pod.
    #[error("podInfoOnMount must be true")]
    PodInfo,
    /// Persistent volumes have no pod.
    #[error("volumeLifecycleModes must be [Ephemeral]")]
    Lifecycle,
    /// Pods could not prove themselves.
    #[error("tokenRequests must name audience connectors.alauda.io")]
    Tokens,
    /// Volumes would keep their content when access ends.
    #[error("requiresRepublish must be true")]
    Republish,
}

impl PublishError {
    /// The table of the kubelet's codes.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::Volume(_) => Code::InvalidArgument,
            Self::Files(error) if error.is_of_attributes() => Code::InvalidArgument,
            Self::Caller(_) => Code::Unauthenticated,
            // The fault of other files may be that of a class or a connector: a class is missing, has a template without a
            // result, gives a parameter no default, or writes what another one writes.
            Self::Driver(_) | Self::NoAddress { .. } | Self::Files(_) => Code::FailedPrecondition,
            Self::Waiting { .. }
            | Self::Denied(_)
            | Self::Unusable { .. }
            | Self::Squatted { .. }
            | Self::RequestRefused { .. } => Code::PermissionDenied,
            Self::Broken => Code::Internal,
            // The codes from here on are not final: something may be left, or another try may help.
            Self::Starting
            | Self::Unreachable { .. }
            | Self::NotProven(_)
            | Self::Stopping
            | Self::RendersBusy => Code::Unavailable,
            Self::InFlight | Self::PodEnding | Self::OtherVolume | Self::Left(_) => Code::Aborted,
            Self::Crowded(_) | Self::NoMemory(_) => Code::ResourceExhausted,
            Self::Cancelled => Code::Cancelled,
        }
    }

    /// The word in metrics and logs.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Volume(_) => "invalid",
            Self::Caller(_) => "not_proven",
            Self::Driver(_) => "driver_object",
            Self::NoAddress { .. } => "no_address",
            Self::Files(_) => "no_files",
            Self::RendersBusy => "renders_busy",
            Self::Waiting { .. } => "waiting",
            Self::Denied(_) => "denied",
            Self::Unusable { .. } => "unusable",
            Self::Squatted { .. } | Self::RequestRefused { .. } => "request_refused",
            Self::Broken => "broken",
            Self::Starting => "starting",
            Self::Unreachable { .. } | Self::NotProven(_) => "unreachable",
            Self::Stopping => "stopping",
            Self::InFlight => "in_flight",
            Self::PodEnding => "pod_ending",
            Self::OtherVolume => "other_volume",
            Self::Left(_) => "left_behind",
            Self::Crowded(_) => "crowded",
            Self::NoMemory(_) => "no_memory",
            Self::Cancelled => "cancelled",
        }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> String {
        cut(self.to_string())
    }

    /// Whether the kubelet forgets the volume.
    pub(crate) fn is_final(&self) -> bool {
        is_final(self.code())
    }
}

/// The kubelet's interpretation of codes.
pub(crate) const fn is_final(code: Code) -> bool {
    !matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

impl From<PublishError> for Status {
    fn from(error: PublishError) -> Self {
        Self::new(error.code(), error.text())
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
    text
}

/// The awaited event of a pod whose standing permission ended before its volume was mounted.
const AGAIN: &str = "the standing permission that ended the last request is gone; that request goes within a minute, then a new one is made";

/// The awaited event of a pod that is not admitted yet. The sentence of the request is for its own namespace.
pub(crate) fn awaited(reason: Option<Ready>, message: &str, at_home: bool) -> String {
    if at_home && reason == Some(Ready::StandingPermission) {
        // The sentence of the request was true when it ended.
        return AGAIN.to_owned();
    }
    if at_home && !message.is_empty() {
        return message.to_owned();
    }
    let text = match reason {
        Some(Ready::ChecksPending | Ready::ChecksFailed) => "waiting for an approval",
        Some(Ready::TooManyRequests) => "too many requests of the pod's namespace are waiting",
        Some(Ready::ApprovalsDisabled) => "approvals are switched off, nothing new is granted",
        // One text for a missing connector, for no policy and for no information at all. A pod that waits in another
        // namespace learns nothing.
        Some(_) | None => "no access is granted to this pod yet",
    };
    text.to_owned()
}

/// The awaited event of a pod of the connector's own namespace when the quota of requests is full.
pub(crate) fn quota_full(namespace: &str) -> String {
    format!(
        "no AccessRequest can be made, the quota of namespace {namespace} is used up; delete requests that are over, or raise it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{metrics::PUBLISH_RESULTS, volume::VolumePathError};

    fn connector() -> ConnectorKey {
        ConnectorKey {
            namespace: "tools".to_owned(),
            name: "harbor".to_owned(),
        }
    }

    /// Where a class may be at fault, the attributes may be as they should.
    #[test]
    fn a_name_that_no_class_knows_is_invalid_and_any_other_fault_of_files_is_not() {
        let text = || "x".to_owned();
        let unknown = || FilesError::NoConfiguration {
            name: text(),
            known: text(),
        };
        let missing = FilesError::ClassMissing {
            unknown: Box::new(unknown()),
            connector: text(),
        };
        let no_value = FilesError::NoValue {
            class: text(),
            configuration: text(),
            param: text(),
        };
        let no_param = FilesError::NoParam {
            configuration: text(),
            param: text(),
            known: text(),
        };
        let nothing_left_out = FilesError::NothingLeftOut {
            name: text(),
            known: text(),
        };
        for (error, code) in [
            (unknown(), Code::InvalidArgument),
            (no_param, Code::InvalidArgument),
            (nothing_left_out, Code::InvalidArgument),
            (missing, Code::FailedPrecondition),
            (no_value, Code::FailedPrecondition),
            (FilesError::TooMuch, Code::FailedPrecondition),
            (FilesError::FileName(text()), Code::FailedPrecondition),
        ] {
            let error = PublishError::Files(error);
            assert_eq!(error.code(), code, "{error}");
            assert!(error.is_final(), "{error}");
        }
    }

    #[test]
    fn only_what_leaves_nothing_behind_is_final() {
        let waiting = PublishError::Waiting {
            connector: connector(),
            awaited: String::new(),
        };
        let finals = [
            PublishError::Volume(VolumePathError::Shape.into()),
            PublishError::Caller(CallerError::NotAuthenticated),
            PublishError::Driver(DriverProblem::Absent),
            waiting.clone(),
            PublishError::Broken,
        ];
        assert!(finals.iter().all(PublishError::is_final));
        let uncertain = [
            PublishError::Starting,
            PublishError::InFlight,
            PublishError::Crowded(HoldQuotaFull::Node(512)),
            PublishError::Crowded(HoldQuotaFull::Namespace(256)),
            PublishError::Crowded(HoldQuotaFull::Pod),
            PublishError::Crowded(HoldQuotaFull::Requests),
            PublishError::NoMemory(MemoryQuotaFull::Node(128)),
            PublishError::NoMemory(MemoryQuotaFull::Namespace(64)),
            PublishError::PodEnding,
            PublishError::NotProven(Unreachable::Kubernetes),
            PublishError::Stopping,
            PublishError::Cancelled,
            PublishError::OtherVolume,
            PublishError::Left(Box::new(waiting)),
        ];
        assert!(!uncertain.iter().any(PublishError::is_final));
        for error in finals.iter().chain(&uncertain) {
            assert!(PUBLISH_RESULTS.contains(&error.as_str()), "{error}");
        }
    }

    /// The asker cannot tell a missing connector from one that it may not use.
    #[test]
    fn outside_the_connectors_namespace_texts_reveal_nothing() {
        let outside = |reason| awaited(reason, "the sentence of the request", false);
        assert_eq!(outside(Some(Ready::ConnectorNotFound)), outside(None));
        assert_eq!(outside(Some(Ready::NoAccessPolicy)), outside(None));
        assert_eq!(outside(Some(Ready::StandingPermission)), outside(None));
        for reason in Ready::ALL {
            let text = outside(Some(*reason));
            assert!(!text.contains("sentence"), "{text}");
        }
    }

    #[test]
    fn at_home_the_sentence_of_the_request_is_shown_if_there_is_one() {
        assert_eq!(
            awaited(Some(Ready::ChecksPending), "ask Ann", true),
            "ask Ann"
        );
        assert_eq!(
            awaited(Some(Ready::ChecksPending), "", true),
            "waiting for an approval"
        );
        let again = awaited(Some(Ready::StandingPermission), "it needs no request", true);
        assert_eq!(again, AGAIN);
    }

    #[test]
    fn a_text_of_the_greatest_length_is_shown_whole() {
        let whole = "x".repeat(LONGEST_TEXT);
        assert_eq!(cut(whole.clone()), whole);
        assert_eq!(cut(format!("{whole}x")), format!("{whole}…"));
    }

    #[test]
    fn texts_are_short_enough_for_an_event_and_begin_with_the_connector() {
        let error = PublishError::Waiting {
            connector: connector(),
            awaited: "ä".repeat(2000),
        };
        let status = Status::from(error);
        assert!(status.message().starts_with("connector tools/harbor: "));
        assert!(status.message().len() < 710, "{}", status.message().len());
        assert!(status.details().is_empty());
    }
}
