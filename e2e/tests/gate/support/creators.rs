//! The admission rule that keeps the creators of runs true.

use std::time::Duration;

use connectors_api::names::CREATOR_RULE;
use e2e::{
    Deadline,
    api::kinds::{ADMISSION_BINDING, ADMISSION_POLICY},
    checker::now,
    poll,
};
use jiff::SignedDuration;

use super::{Gate, timestamp};

/// A creator is believed of runs that are younger than the rule and its binding by a minute.
pub(crate) fn wait_until_creators_are_believed(gate: &Gate) {
    // Helm writes the rule and its binding one after the other, perhaps with seconds between them.
    let created = |kind| {
        timestamp(
            &gate.object(kind, CREATOR_RULE),
            "/metadata/creationTimestamp",
        )
    };
    let since = created(ADMISSION_POLICY).max(created(ADMISSION_BINDING));
    let counts = since + SignedDuration::from_secs(62);
    let is_old = || {
        (now() > counts)
            .then_some(())
            .ok_or_else(|| format!("{} now", now()))
    };
    let deadline = Deadline::after(Duration::from_mins(2));
    poll("the rule about creators to be old enough", deadline, is_old).unwrap();
}
