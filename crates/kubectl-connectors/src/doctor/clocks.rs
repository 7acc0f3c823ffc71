//! The clock of this machine beside that of the API server.

use jiff::{SignedDuration, Timestamp};

use super::{ClocksRead, DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
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

pub(super) fn of_cluster(read: &DoctorRead, now: Timestamp) -> ClocksNow {
    let here = ClocksRead {
        server: now,
        before: now,
        after: now,
    };
    let ClocksRead {
        server,
        before,
        after,
    } = read.clocks.unwrap_or(here);
    // The API server named its time between the two. A call that took long says nothing about its clock.
    let here = server.clamp(before.min(after), after);
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
        let ahead = newest.map(|it| it.duration_since(clock));
        ahead.is_some_and(|it| -SKEW <= it && it <= SKEW + read.took)
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
    let (object, clock, others, command) = if *is_here {
        (
            "this machine",
            "its clock",
            "the API server's",
            "timedatectl status",
        )
    } else {
        (
            "the API server",
            "its clock, or that of a proxy before it,",
            "those of this machine and of the controllers",
            "kubectl get --raw /version -v 8",
        )
    };
    let direction = if ahead.is_positive() {
        "ahead of"
    } else {
        "behind"
    };
    let finding = DoctorFinding::new(
        DoctorSeverity::Warning,
        DoctorWord::ClocksApart,
        object,
        format!(
            "{clock} is {} {direction} {others}, by which the other findings are judged",
            span(ahead.abs().as_secs())
        ),
        "synchronize this clock",
    );
    Some(finding.with_command(command.to_owned()))
}
