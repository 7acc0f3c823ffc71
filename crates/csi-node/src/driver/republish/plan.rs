//! The decision about an existing volume, from the answers about access. It applies while mounts are gated.
//! `republish` decides about a switch that is off or unknown.

use connectors_api::{ConnectorKey, access_request::Phase, config::OnEnable};
use evaluation_api::access::{RequestSeen, Requestable};

use crate::{access::Admitted, mounter::Passage};

/// The answer about access to one connector while mounts are gated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccessHeard {
    /// It is allowed.
    Allowed(Admitted),
    /// It is not. The phase is that of the pod's request, if it has one.
    NotAllowed(PodRequest),
    /// There is no answer.
    Unknown,
}

/// The request of a pod without access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodRequest {
    /// There is none. It is known or unknown whether one could be accepted.
    Missing(Requestable),
    /// It is not decided.
    Waits,
    /// It is decided, and gives no access.
    Decided,
}

impl PodRequest {
    /// From a request that was seen.
    pub(super) fn of(request: &RequestSeen) -> Self {
        match request.phase {
            None | Some(Phase::Pending) => Self::Waits,
            // It ends, and access is requested again.
            Some(Phase::Ended) if request.makes_way() => Self::Waits,
            // A grant that gives no access by now is one that no mount can use.
            Some(
                Phase::Granted | Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended,
            ) => Self::Decided,
        }
    }
}

/// The state of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeContent {
    /// It has its content, and the pod came to it in this way.
    There(Passage),
    /// It was emptied.
    Gone,
}

/// The action on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It stays as it is, with no new knowledge about it.
    Leave,
    /// The pod has access, and the volume its content.
    Fine,
    /// The content is restored.
    Refill(Vec<Admitted>),
    /// The content, to which the pod came in this way, is removed: there is no access to this connector.
    Empty(ConnectorKey, Passage),
    /// The content stays without access to this connector.
    Keep(ConnectorKey, OnEnable),
    /// Access to these connectors is requested. The content stays if that is possible.
    Ask(Vec<(ConnectorKey, Requestable)>),
}

/// Decides about one volume. Connectors are in the order of the pod's author.
pub(super) fn plan(
    heard: &[(ConnectorKey, AccessHeard)],
    content: VolumeContent,
    on_enable: OnEnable,
) -> Act {
    let mut held = Vec::new();
    let mut over = Vec::new();
    for (connector, heard) in heard {
        match heard {
            AccessHeard::Allowed(admitted) => held.push(admitted.clone()),
            AccessHeard::NotAllowed(request) => over.push((connector, *request)),
            AccessHeard::Unknown => {}
        }
    }
    let Some((first, _)) = over.first() else {
        return match content {
            _ if held.len() < heard.len() => Act::Leave,
            VolumeContent::There(_) => Act::Fine,
            VolumeContent::Gone => Act::Refill(held),
        };
    };
    match (content, on_enable) {
        (VolumeContent::Gone | VolumeContent::There(Passage::Gated), _) => {
            Act::Empty((*first).clone(), Passage::Gated)
        }
        (VolumeContent::There(Passage::WhileOff), OnEnable::Empty) => {
            Act::Empty((*first).clone(), Passage::WhileOff)
        }
        (VolumeContent::There(Passage::WhileOff), OnEnable::Keep) => {
            Act::Keep((*first).clone(), on_enable)
        }
        (VolumeContent::There(Passage::WhileOff), OnEnable::Request) => asked(&over),
    }
}

/// One final decision without access ends the wait of all connectors.
fn asked(over: &[(&ConnectorKey, PodRequest)]) -> Act {
    let first = |wanted| {
        let found = over.iter().find(|(_, request)| *request == wanted);
        found.map(|(connector, _)| (*connector).clone())
    };
    if let Some(connector) = first(PodRequest::Decided) {
        return Act::Empty(connector, Passage::WhileOff);
    }
    let missing = over
        .iter()
        .filter_map(|(connector, request)| match request {
            PodRequest::Missing(requestable) => Some(((*connector).clone(), *requestable)),
            PodRequest::Waits | PodRequest::Decided => None,
        });
    let missing: Vec<_> = missing.collect();
    match first(PodRequest::Waits) {
        Some(connector) if missing.is_empty() => Act::Keep(connector, OnEnable::Request),
        Some(_) | None => Act::Ask(missing),
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::reason::Ready;
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::{AccessHeard::*, Passage::*, PodRequest::*, VolumeContent::*, *};
    use crate::testing::{key, seen};

    fn held() -> AccessHeard {
        Allowed(Admitted {
            request: String::new(),
            since: Instant::now(),
        })
    }

    fn planned(heard: &[AccessHeard], content: VolumeContent, on_enable: OnEnable) -> Act {
        let names = ["t/a", "t/b", "t/c"].map(key);
        let heard: Vec<_> = names.into_iter().zip(heard.iter().cloned()).collect();
        plan(&heard, content, on_enable)
    }

    #[test]
    fn a_volume_that_was_mounted_while_nothing_was_gated() {
        let (keep, empty) = (
            |c, way| Act::Keep(key(c), way),
            |c| Act::Empty(key(c), WhileOff),
        );
        let to_ask = |name: &&str| (key(name), Requestable::Yes);
        let ask = |names: &[&str]| Act::Ask(names.iter().map(to_ask).collect());
        let missing = NotAllowed(Missing(Requestable::Yes));
        let (waits, decided) = (NotAllowed(Waits), NotAllowed(Decided));
        let none = [missing.clone(), missing.clone()];
        let mixed = [held(), missing.clone()];
        let late = [waits.clone(), missing.clone()];
        let waiting = [waits.clone(), waits.clone()];
        let unsure = [Unknown, missing.clone()];
        let refused = [missing, waits, decided];
        for (heard, on_enable, expected) in [
            (&none[..], OnEnable::Keep, keep("t/a", OnEnable::Keep)),
            (&none, OnEnable::Empty, empty("t/a")),
            (&none, OnEnable::Request, ask(&["t/a", "t/b"])),
            (&mixed, OnEnable::Keep, keep("t/b", OnEnable::Keep)),
            (&mixed, OnEnable::Request, ask(&["t/b"])),
            (&late, OnEnable::Request, ask(&["t/b"])),
            (&waiting, OnEnable::Request, keep("t/a", OnEnable::Request)),
            (&unsure, OnEnable::Request, ask(&["t/b"])),
            (&unsure, OnEnable::Empty, empty("t/b")),
            (&refused, OnEnable::Request, empty("t/c")),
            (&refused, OnEnable::Keep, keep("t/a", OnEnable::Keep)),
        ] {
            let act = planned(heard, There(WhileOff), on_enable);
            assert_eq!(act, expected, "{heard:?} {on_enable}");
        }
    }

    #[test]
    fn only_a_request_that_waits_or_makes_way_is_waited_for() {
        for (phase, ready, expected) in [
            (None, None, Waits),
            (Some(Phase::Pending), None, Waits),
            (Some(Phase::Granted), None, Decided),
            (Some(Phase::Rejected), None, Decided),
            (Some(Phase::Revoked), None, Decided),
            (Some(Phase::Invalid), None, Decided),
            (Some(Phase::Ended), None, Decided),
            (Some(Phase::Ended), Some(Ready::PodFinished), Decided),
            (Some(Phase::Ended), Some(Ready::StandingPermission), Waits),
            (
                Some(Phase::Revoked),
                Some(Ready::StandingPermission),
                Decided,
            ),
        ] {
            let request = seen("r1", phase, ready);
            assert_eq!(PodRequest::of(&request), expected, "{phase:?} {ready:?}");
        }
    }

    fn any_heard() -> impl Strategy<Value = AccessHeard> {
        prop_oneof![
            Just(held()),
            Just(NotAllowed(Missing(Requestable::No))),
            Just(NotAllowed(Waits)),
            Just(NotAllowed(Decided)),
            Just(Unknown),
        ]
    }

    proptest! {
        /// Earlier events while nothing was gated do not affect volumes that were mounted while mounts were gated.
        #[test]
        fn a_gated_volume_without_access_is_emptied_whatever_is_configured(
            heard in prop::collection::vec(any_heard(), 1..4),
            content in prop::sample::select(vec![There(Gated), Gone]),
            on_enable in prop::sample::select(OnEnable::ALL.to_vec()),
        ) {
            let act = planned(&heard, content, on_enable);
            let over = heard.iter().any(|it| matches!(it, NotAllowed(_)));
            prop_assert_eq!(over, matches!(act, Act::Empty(_, Gated)));
            prop_assert!(!matches!(act, Act::Keep(..) | Act::Ask(_) | Act::Empty(_, WhileOff)));
        }

        #[test]
        fn content_comes_back_only_with_access_to_every_connector(
            heard in prop::collection::vec(any_heard(), 1..4),
            content in prop::sample::select(vec![There(Gated), There(WhileOff), Gone]),
            on_enable in prop::sample::select(OnEnable::ALL.to_vec()),
        ) {
            let act = planned(&heard, content, on_enable);
            let all = heard.iter().all(|it| matches!(it, Allowed(_)));
            prop_assert_eq!(matches!(act, Act::Refill(_)), all && content == Gone);
            prop_assert_eq!(act == Act::Fine, all && content != Gone);
        }

        /// A missing answer removes no volume.
        #[test]
        fn without_a_no_nothing_is_taken_away(
            heard in prop::collection::vec(prop_oneof![Just(held()), Just(Unknown)], 1..4),
            content in prop::sample::select(vec![There(Gated), There(WhileOff)]),
            on_enable in prop::sample::select(OnEnable::ALL.to_vec()),
        ) {
            let act = planned(&heard, content, on_enable);
            prop_assert!(matches!(act, Act::Leave | Act::Fine), "{:?}", act);
        }
    }
}
