//! The decision about the scheduling gate of a pod.
//!
//! A gate stays only while a request of the pod waits and nothing else decides. In every other case it goes, and the pod
//! meets at its mount what it would meet without a gate. No access depends on it.

use std::time::Duration;

use connectors_api::{
    AccessRequest,
    access_request::{MOST_OF_A_POD, Phase},
    names::SCHEDULING_GATE,
    pod_wish::VolumeTextError,
    reason::Ready,
    request_creation::Created,
    request_order, told_words,
};

use super::conditions;
use crate::{
    grant::is_terminal,
    seen::{GateQuestions, GateSeen, GatedVolumes, MountAccess, RequestMade, WantSeen},
};

/// The pause after a question without an answer.
const UNANSWERED: Duration = Duration::from_secs(10);
/// The pause while the caches do not show yet what is there.
const SOON: Duration = Duration::from_secs(1);
/// The pause while an earlier request is being deleted.
const GOING: Duration = Duration::from_secs(5);

told_words! {
    /// The reason why a gate is removed.
    GateEnd {
        /// The pod may mount all of its connectors.
        Allowed,
        /// A connector was refused, for good.
        Refused,
        /// No volume of the pod mounts a connector.
        NoConnector,
        /// A volume cannot be mounted as it is written.
        Unmountable,
        /// There is no request for a connector, and none can be made now.
        NoRequest,
        /// The namespace has too many pods with the gate, or the pod asks for too much.
        TooMany,
        /// Pods do not wait with the gate any more.
        Released,
    }
}

impl GateEnd {
    /// The reason as a sentence. All reasons for which no request waits in another namespace share one text.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Allowed => "the pod may mount all of its connectors",
            Self::Refused => "a connector was refused; the mount says which",
            Self::NoConnector => "no volume of the pod mounts a connector",
            Self::Unmountable => "the pod has a volume that no mount accepts; the mount says why",
            Self::NoRequest => "no request of the pod waits; the pod waits at its mount",
            Self::TooMany => {
                "too many pods of the namespace wait, or the pod asks for too many connectors; the pod waits at its mount"
            }
            Self::Released => "pods wait at their mounts now",
        }
    }
}

told_words! {
    /// The events about the scheduling gate of a pod.
    GateWord {
        /// The gate was removed; the action and the message say why.
        AccessGateRemoved,
        /// The gate should be removed, and the API server does not let it go.
        AccessGateKept,
    }
}

/// The event at the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateTold {
    /// The gate was removed.
    Removed(GateEnd),
    /// The gate should be removed and cannot be.
    Kept,
}

impl GateTold {
    /// The reason of the event.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removed(_) => GateWord::AccessGateRemoved.as_str(),
            Self::Kept => GateWord::AccessGateKept.as_str(),
        }
    }

    /// True for an event of the type Warning.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        match self {
            Self::Removed(_) => false,
            Self::Kept => true,
        }
    }

    /// The sentence.
    #[must_use]
    pub fn note(self) -> String {
        match self {
            Self::Removed(end) => {
                format!(
                    "scheduling gate {SCHEDULING_GATE} removed: {}",
                    end.sentence()
                )
            }
            Self::Kept => format!(
                "scheduling gate {SCHEDULING_GATE} is not needed any more and cannot be removed; the log of the \
                 request-controller says why"
            ),
        }
    }
}

/// The plan for a gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatePlan {
    /// The requests to make.
    pub make: Vec<AccessRequest>,
    /// The gate is removed for this reason.
    pub end: Option<GateEnd>,
    /// The delay until the next look at the latest. Without one, a change of a request or the next sweep causes it.
    pub again: Option<Duration>,
}

impl GatePlan {
    fn remove(end: GateEnd) -> Self {
        Self {
            end: Some(end),
            ..Self::default()
        }
    }

    fn look_again(pause: Duration) -> Self {
        Self {
            again: Some(pause),
            ..Self::default()
        }
    }
}

/// Computes the plan.
#[must_use]
pub fn plan(seen: &GateSeen) -> GatePlan {
    match seen.gates_pods {
        Some(true) => {}
        Some(false) => return GatePlan::remove(GateEnd::Released),
        // A process that does not know the switch yet changes nothing.
        None => return GatePlan::default(),
    }
    if seen.over_limit {
        return GatePlan::remove(GateEnd::TooMany);
    }
    match &seen.volumes {
        GatedVolumes::NotRead => GatePlan::default(),
        GatedVolumes::Mistaken(VolumeTextError::TooMany) => GatePlan::remove(GateEnd::TooMany),
        GatedVolumes::Unreadable | GatedVolumes::Mistaken(_) => {
            GatePlan::remove(GateEnd::Unmountable)
        }
        GatedVolumes::Want(wants) if wants.is_empty() => GatePlan::remove(GateEnd::NoConnector),
        GatedVolumes::Want(wants) => of_wants(wants),
    }
}

/// The state of one wanted connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantState {
    Allowed,
    Refused,
    Waits,
    /// A request can be made.
    Missing,
    /// No request can be made.
    Nowhere,
    /// A later look will know more.
    Later(Duration),
}

fn of_wants(wants: &[WantSeen]) -> GatePlan {
    let states: Vec<_> = wants.iter().map(state).collect();
    let is_any = |wanted: WantState| states.contains(&wanted);
    if is_any(WantState::Refused) {
        return GatePlan::remove(GateEnd::Refused);
    }
    if states.iter().all(|it| *it == WantState::Allowed) {
        return GatePlan::remove(GateEnd::Allowed);
    }
    if is_any(WantState::Nowhere) {
        return GatePlan::remove(GateEnd::NoRequest);
    }
    if are_too_many(&states) {
        return GatePlan::remove(GateEnd::TooMany);
    }
    let later = states.iter().filter_map(|it| match it {
        WantState::Later(pause) => Some(*pause),
        WantState::Allowed
        | WantState::Refused
        | WantState::Waits
        | WantState::Missing
        | WantState::Nowhere => None,
    });
    // Nothing is made while an answer is missing: it may show that nothing is needed.
    if let Some(pause) = later.min() {
        return GatePlan::look_again(pause);
    }
    let missing = wants.iter().zip(&states);
    let missing = missing.filter(|(_, state)| **state == WantState::Missing);
    GatePlan {
        make: missing.map(|(want, _)| want.ours.clone()).collect(),
        ..GatePlan::default()
    }
}

/// True when more requests are needed than a pod may have. A connector without an answer may need none.
fn are_too_many(states: &[WantState]) -> bool {
    let needed = states.iter().filter(|it| match it {
        WantState::Waits | WantState::Missing | WantState::Nowhere => true,
        WantState::Allowed | WantState::Refused | WantState::Later(_) => false,
    });
    needed.count() > MOST_OF_A_POD
}

/// The questions whose answers the plan needs.
pub const QUESTIONS: GateQuestions = GateQuestions {
    is_needed: needs_answer,
    are_enough,
};

/// True when the gate goes, whatever the answers about further connectors are.
fn are_enough(answered: &[&WantSeen]) -> bool {
    let states: Vec<_> = answered.iter().map(|it| state(it)).collect();
    let is_final = |it: &WantState| matches!(it, WantState::Refused | WantState::Nowhere);
    states.iter().any(is_final) || are_too_many(&states)
}

/// True when the question whether the pod may mount a connector can change the plan. A request that waits or is granted
/// decides without it.
fn needs_answer(want: &WantSeen) -> bool {
    match deciding(want) {
        Some(request) => phase(request).is_some_and(|it| it != Phase::Granted && is_terminal(it)),
        None => true,
    }
}

/// The request that decides about a connector, unless it is being deleted.
fn deciding(want: &WantSeen) -> Option<&AccessRequest> {
    let known = want.requests.iter().map(AsRef::as_ref);
    let is_going = |it: &AccessRequest| it.metadata.deletion_timestamp.is_some();
    request_order::deciding(known.filter(|it| !is_going(it)))
}

fn phase(request: &AccessRequest) -> Option<Phase> {
    request.status.as_ref().and_then(|it| it.phase)
}

fn state(want: &WantSeen) -> WantState {
    if want.access == MountAccess::Allowed {
        return WantState::Allowed;
    }
    match deciding(want) {
        Some(request) => of_request(request),
        // It is looked at again when the request is gone.
        None if !want.requests.is_empty() => WantState::Waits,
        None => without_request(want),
    }
}

fn of_request(request: &AccessRequest) -> WantState {
    let status = request.status.as_ref();
    let ready = status.and_then(|it| conditions::ready(&it.conditions));
    match phase(request) {
        Some(Phase::Granted) => WantState::Allowed,
        // The permission that ended it is gone again. It is looked at again when the request is gone.
        Some(Phase::Ended) if ready == Some(Ready::StandingPermission) => WantState::Waits,
        Some(phase) if is_terminal(phase) => WantState::Refused,
        Some(_) | None => WantState::Waits,
    }
}

fn without_request(want: &WantSeen) -> WantState {
    match want.access {
        MountAccess::Allowed => WantState::Allowed,
        MountAccess::Unknown => WantState::Later(UNANSWERED),
        MountAccess::Requested => WantState::Later(SOON),
        // At home, the request itself says what is missing.
        MountAccess::Unaccepted if !want.at_home => WantState::Nowhere,
        MountAccess::Denied | MountAccess::Unaccepted if want.line_is_full => WantState::Nowhere,
        MountAccess::Denied | MountAccess::Unaccepted => WantState::Missing,
    }
}

/// The plan when not all requests were made in time. The next look makes the others.
#[must_use]
pub fn unfinished() -> GatePlan {
    GatePlan::look_again(UNANSWERED)
}

/// The plan after the requests were made.
#[must_use]
pub fn after(made: &[RequestMade]) -> GatePlan {
    let is_refused = |it: &RequestMade| match it {
        RequestMade::There | RequestMade::Going => false,
        RequestMade::Squatted => true,
        RequestMade::NotAccepted(created) => match created {
            Created::Made | Created::Exists => false,
            Created::NoNamespace | Created::QuotaFull | Created::Refused => true,
        },
    };
    if made.iter().any(is_refused) {
        return GatePlan::remove(GateEnd::NoRequest);
    }
    if made.contains(&RequestMade::Going) {
        return GatePlan::look_again(GOING);
    }
    GatePlan::default()
}
