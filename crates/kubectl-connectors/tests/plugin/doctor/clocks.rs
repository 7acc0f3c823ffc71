//! Clocks that differ, and calls that take long.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use testkit::{CallFault, CallPoint, EventFault, EventPoint, Faults};

use super::{DOCTOR, SYSTEM, in_order};
use crate::cluster::{Cluster, START};

/// Longer than the difference of clocks that is tolerated.
const HANGS: Duration = Duration::from_secs(40);
/// The leaders.
const LED: [&str; 2] = ["policy-controller", "request-controller"];

/// Answers the calls about one resource late.
struct SlowResource(&'static str);

impl Faults for SlowResource {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        if point.resource == self.0 {
            CallFault::Delay(HANGS)
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

fn renewed(cluster: &Cluster, at: &str) {
    for name in LED {
        cluster.server.change("leases", SYSTEM, name, |it| {
            it["spec"]["renewTime"] = at.into();
        });
    }
}

/// The answer with the time of the API server comes late, or the leases do, which were renewed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_makes_no_clock_wrong() {
    for resource in ["/version", "leases"] {
        let cluster = in_order();
        cluster.server.set_faults(Arc::new(SlowResource(resource)));
        let seconds = i64::try_from(HANGS.as_secs()).unwrap();
        let late = START.parse::<jiff::Timestamp>().unwrap()
            + SignedDuration::from_mins(12)
            + SignedDuration::from_secs(seconds);
        renewed(&cluster, &late.to_string().replace('Z', ".000000Z"));
        let args = [&DOCTOR[..], &["--request-timeout", "120"]].concat();
        let outcome = cluster.run(&args).await;
        assert_eq!(
            outcome.output, "nothing to mend\n",
            "{resource}: {outcome:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_is_told_though_the_call_hangs() {
    let cluster = in_order();
    cluster
        .server
        .set_faults(Arc::new(SlowResource("/version")));
    cluster.server.jump(SignedDuration::from_mins(-5));
    let args = [&DOCTOR[..], &["--request-timeout", "120"]].concat();
    let outcome = cluster.run(&args).await;
    // As much of the difference as the length of the call leaves certain.
    let told = "its clock, or that of a proxy before it, is 4m behind those of this machine";
    assert!(outcome.output.contains(told), "{outcome:?}");
}
