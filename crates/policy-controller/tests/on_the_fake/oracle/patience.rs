//! How long the effect of a fault may last. An incident excuses delays during its effect, and none before or
//! after.
//!
//! The seconds are the longest that were measured, and a little more.

use std::time::Duration;

use testkit::{CallFault, EventFault};

/// Something went wrong, and for some time it may be felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incident {
    pub(super) at: Duration,
    pub(super) recovery: Duration,
}

const fn seconds(at: Duration, seconds: u64) -> Incident {
    Incident {
        at,
        recovery: Duration::from_secs(seconds),
    }
}

/// Until when something is excused that is due since then. The incidents are in their order.
pub(super) fn until(incidents: &[Incident], since: Duration, usual: Duration) -> Duration {
    incidents.iter().fold(since + usual, |until, incident| {
        if incident.at <= until {
            until.max(incident.at + incident.recovery)
        } else {
            until
        }
    })
}

/// From when a call was sent.
pub(super) fn of_call(at: Duration, fault: &CallFault) -> Option<Incident> {
    Some(match fault {
        CallFault::None => return None,
        // Tried again after a pause of at most a tenth of a second, or looked at again after half a second.
        CallFault::Refuse { .. }
        | CallFault::LoseRequest
        | CallFault::LoseAnswer
        | CallFault::Garbage => seconds(at, 1),
        // As long as one attempt may take: three seconds, and five for an event.
        CallFault::HangBefore | CallFault::HangAfter => seconds(at, 6),
        CallFault::Delay(by) => late(at, *by),
        CallFault::KillBefore | CallFault::KillAfter => of_death(at),
    })
}

/// From when a line of a watch was due; it is in the log when it was sent.
pub(super) fn of_event(at: Duration, fault: &EventFault) -> Option<Incident> {
    Some(match fault {
        EventFault::None | EventFault::Twice => return None,
        // The next line tells of it, and each minute there is one.
        EventFault::Drop => seconds(at, 62),
        // As long as a watch lasts.
        EventFault::Silence => seconds(at, 300),
        EventFault::Delay(by) => late(at.saturating_sub(*by), *by),
        EventFault::Gone | EventFault::Close => seconds(at, 1),
        EventFault::KillBefore => of_death(at),
    })
}

fn late(at: Duration, by: Duration) -> Incident {
    Incident {
        at,
        recovery: by + Duration::from_secs(1),
    }
}

/// Until the lease of a dead process has run out, and a new leader has seen that and has looked at
/// everything.
pub(super) const fn of_death(at: Duration) -> Incident {
    seconds(at, 18)
}
