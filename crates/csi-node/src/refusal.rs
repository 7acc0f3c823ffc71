//! A request that is over and gives no access, with the text that the pod may read.

use connectors_api::{ConnectorKey, Permission, access_request::Phase, reason::Ready};
use evaluation_api::access::RequestSeen;

use crate::volume::Wish;

/// Why a pod has no access, according to one of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessRefusal {
    /// The connector.
    pub(crate) connector: ConnectorKey,
    /// The permission.
    pub(crate) permission: Permission,
    /// The request that refuses.
    pub(crate) request: RefusedRequest,
    /// The end of the request, in one word.
    pub(crate) kind: RefusalKind,
    /// The text for people. The sentence of the request is for its own namespace.
    pub(crate) text: String,
    /// The pod is in the connector's namespace, and may read about the connector.
    pub(crate) at_home: bool,
}

/// The request behind a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedRequest {
    /// Its name; it is in the connector's namespace.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// Its final phase.
    pub(crate) phase: Phase,
    /// The reason.
    pub(crate) reason: Option<Ready>,
}

/// How a request ended. Pods of every namespace may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The answer was no.
    Rejected,
    /// There was no answer in time.
    NotInTime,
    /// Access was there, and is over.
    TakenBack,
    /// Anything else.
    Refused,
}

impl RefusalKind {
    const fn of(reason: Option<Ready>) -> Self {
        match reason {
            Some(Ready::CheckRejected) => Self::Rejected,
            Some(Ready::PendingTimeout) => Self::NotInTime,
            Some(
                Ready::CheckLapsed
                | Ready::Expired
                | Ready::PolicyDeleted
                | Ready::ConnectorDeleted,
            ) => Self::TakenBack,
            Some(_) | None => Self::Refused,
        }
    }

    /// The word for programs. Words may be added; the meaning of a word never changes.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Rejected => "ACCESS_REJECTED",
            Self::NotInTime => "ACCESS_NOT_APPROVED_IN_TIME",
            Self::TakenBack => "ACCESS_TAKEN_BACK",
            Self::Refused => "ACCESS_REFUSED",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Rejected => "access was rejected",
            Self::NotInTime => "access was not approved in time",
            Self::TakenBack => "access was taken back",
            Self::Refused => "access was refused",
        }
    }
}

impl AccessRefusal {
    /// From a request that was seen in a final phase.
    pub(crate) fn of(
        wish: &Wish,
        connector: &ConnectorKey,
        seen: &RequestSeen,
        phase: Phase,
    ) -> Self {
        let at_home = connector.is_home_of(&wish.pod);
        let kind = RefusalKind::of(seen.ready_reason);
        Self {
            connector: connector.clone(),
            permission: wish.permission,
            request: RefusedRequest {
                name: seen.name.clone(),
                uid: seen.uid.clone(),
                phase,
                reason: seen.ready_reason,
            },
            kind,
            text: sentence(kind, &seen.message, at_home),
            at_home,
        }
    }

    /// True if no request of this pod can give access any more.
    pub(crate) const fn is_for_good(&self) -> bool {
        is_for_good(self.request.phase)
    }
}

/// True for a phase after which no other request of the same pod, account, connector and permission gives access. An
/// invalid request is none of these, because another one decides beside it. An ended request ended with its pod.
pub(crate) const fn is_for_good(phase: Phase) -> bool {
    match phase {
        Phase::Rejected | Phase::Revoked => true,
        Phase::Pending | Phase::Granted | Phase::Invalid | Phase::Ended => false,
    }
}

fn sentence(kind: RefusalKind, message: &str, at_home: bool) -> String {
    if at_home && !message.is_empty() {
        return message.to_owned();
    }
    format!("{}; a new pod may ask again", kind.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{key, seen, wish};

    fn refused(connector: &str, phase: Phase, reason: Option<Ready>) -> AccessRefusal {
        let wish = wish(&[connector]);
        AccessRefusal::of(
            &wish,
            &key(connector),
            &seen("r1", Some(phase), reason),
            phase,
        )
    }

    #[test]
    fn only_a_rejection_and_a_revocation_are_for_good() {
        for phase in Phase::ALL {
            let expected = [Phase::Rejected, Phase::Revoked].contains(phase);
            assert_eq!(
                refused("shop/own", *phase, None).is_for_good(),
                expected,
                "{phase}"
            );
        }
    }

    #[test]
    fn elsewhere_the_sentence_of_the_request_is_in_no_text() {
        for reason in Ready::ALL {
            let refusal = refused("tools/harbor", Phase::Rejected, Some(*reason));
            assert!(!refusal.text.contains("sentence"), "{}", refusal.text);
        }
        let told = |reason| refused("tools/harbor", Phase::Rejected, reason).text;
        assert_eq!(
            told(Some(Ready::CheckRejected)),
            "access was rejected; a new pod may ask again"
        );
        assert_eq!(told(None), "access was refused; a new pod may ask again");
    }

    #[test]
    fn at_home_a_refusal_is_told_in_the_words_of_the_request() {
        let refusal = refused("shop/own", Phase::Rejected, Some(Ready::CheckRejected));
        assert_eq!(refusal.text, "the sentence of the request");
        assert_eq!(
            sentence(RefusalKind::Refused, "", true),
            "access was refused; a new pod may ask again"
        );
    }
}
