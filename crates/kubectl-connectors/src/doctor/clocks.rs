//! The clock of this machine beside that of the API server.

use jiff::{SignedDuration, Timestamp};

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::terms::span;

/// The largest tolerated difference between clocks.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// The time now, by two clocks.
pub(super) struct ClocksNow {
    /// By the cluster.
    pub(super) cluster: Timestamp,
    /// The clock that differs from the others, if one does.
    apart: Option<ClockApart>,
}

/// A clock that differs from the others.
struct ClockApart {
    /// True for that of this machine. Otherwise the controllers agree with this machine, and not with the API server.
    is_here: bool,
    /// Its time less that of the others.
    ahead: SignedDuration,
}

pub(super) fn of_cluster(read: &DoctorRead, here: Timestamp) -> ClocksNow {
    let server = read.server_time.unwrap_or(here);
    let ahead = here.duration_since(server);
    if ahead.abs() <= SKEW {
        return ClocksNow {
            cluster: server,
            apart: None,
        };
    }
    // A leader renews its lease every few seconds. A proxy before the API server may put its own time into answers.
    let leases = read.leases.iter().flatten();
    let renewed = leases.filter_map(|it| it.spec.as_ref()?.renew_time.as_ref().map(|it| it.0));
    let newest = renewed.max();
    let is_near = |clock: Timestamp| {
        let apart = newest.map(|it| clock.duration_since(it).abs());
        apart.is_some_and(|it| it <= SKEW)
    };
    let is_here = is_near(server) || !is_near(here);
    let (cluster, ahead) = if is_here {
        (server, ahead)
    } else {
        (here, -ahead)
    };
    ClocksNow {
        cluster,
        apart: Some(ClockApart { is_here, ahead }),
    }
}

pub(super) fn examine(now: &ClocksNow) -> Option<DoctorFinding> {
    let ClockApart { is_here, ahead } = now.apart.as_ref()?;
    let (object, clock, others) = if *is_here {
        ("this machine", "its clock", "the API server's")
    } else {
        (
            "the API server",
            "its clock, or that of a proxy before it,",
            "those of this machine and of the controllers",
        )
    };
    let direction = if ahead.is_positive() {
        "ahead of"
    } else {
        "behind"
    };
    Some(DoctorFinding::new(
        DoctorSeverity::Warning,
        DoctorWord::ClocksApart,
        object,
        format!(
            "{clock} is {} {direction} {others}, by which the other findings are judged",
            span(ahead.abs().as_secs())
        ),
        "synchronize this clock",
    ))
}
