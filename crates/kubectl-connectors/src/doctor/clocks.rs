//! The clock of this machine beside that of the API server.

use jiff::{SignedDuration, Timestamp};

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::terms::span;

/// The largest tolerated difference between clocks.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// The time now, by two clocks.
pub(super) struct ClocksNow {
    /// By the API server. By this machine if the API server named no time.
    pub(super) cluster: Timestamp,
    /// By this machine.
    here: Timestamp,
}

pub(super) fn of_cluster(read: &DoctorRead, here: Timestamp) -> ClocksNow {
    ClocksNow {
        cluster: read.server_time.unwrap_or(here),
        here,
    }
}

pub(super) fn examine(now: &ClocksNow) -> Option<DoctorFinding> {
    let ahead = now.here.duration_since(now.cluster);
    if ahead.abs() <= SKEW {
        return None;
    }
    let direction = if ahead.is_positive() {
        "ahead of"
    } else {
        "behind"
    };
    Some(DoctorFinding::new(
        DoctorSeverity::Warning,
        DoctorWord::ClocksApart,
        "this machine",
        format!(
            "its clock is {} {direction} the API server's; the times below are judged by the API server's",
            span(ahead.abs().as_secs())
        ),
        "synchronize the clock of this machine; the plugin's ages and expiries are wrong by as much",
    ))
}
