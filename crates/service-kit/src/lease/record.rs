//! The Lease object: its holder, and its next version.

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

/// The holder of the lease; none when it was released.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease
        .spec
        .as_ref()?
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// How long the holder asked to be left alone.
pub(super) fn duration(lease: &Lease) -> Duration {
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    Duration::from_secs(
        seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0),
    )
}

/// Whether two sightings are of one version of one object.
pub(super) fn same(one: &Lease, other: &Lease) -> bool {
    one.metadata.uid == other.metadata.uid
        && one.metadata.resource_version == other.metadata.resource_version
}

/// The record by which a candidate becomes or stays the holder.
pub(super) fn claimed(
    before: Option<&Lease>,
    name: &str,
    me: &str,
    duration: Duration,
    wall: Timestamp,
) -> Lease {
    let mut lease = before.cloned().unwrap_or_default();
    lease.metadata.name = Some(name.to_owned());
    let time = MicroTime(after(before, wall));
    let keeps = before.and_then(holder) == Some(me);
    let spec = lease.spec.get_or_insert_default();
    if !keeps {
        // The first holder is no transition.
        spec.lease_transitions = Some(
            before
                .and(spec.lease_transitions)
                .map_or(0, |count| count.saturating_add(1)),
        );
        spec.acquire_time = Some(time.clone());
    }
    spec.holder_identity = Some(me.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(time);
    lease
}

/// The record of a lease that its holder has given back.
pub(super) fn released(before: &Lease, wall: Timestamp) -> Lease {
    let mut lease = before.clone();
    lease.spec = Some(LeaseSpec {
        holder_identity: None,
        renew_time: Some(MicroTime(after(Some(before), wall))),
        ..before.spec.clone().unwrap_or_default()
    });
    lease
}

/// The wall clock, but never the time that is in the record already: a write that changes nothing gets
/// no new resource version, and the others would take the holder for silent.
fn after(before: Option<&Lease>, wall: Timestamp) -> Timestamp {
    let last = before.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    match last {
        Some(MicroTime(last)) if last.as_microsecond() == wall.as_microsecond() => {
            last.checked_add(1.microsecond()).unwrap_or(wall)
        }
        Some(_) | None => wall,
    }
}
