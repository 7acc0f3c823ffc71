//! No permission is given on reads that are too old, however often a write has to be repeated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use testkit::{CallFault, CallPoint, EventFault, EventPoint, Faults, Verb};

use crate::{
    stage::{Stage, policy},
    support::TOOLS,
};

/// Lists of connectors come late, and the first write of a kind breaks.
struct SlowAndBroken {
    list: Duration,
    verb: Verb,
    resource: &'static str,
    write: CallFault,
    is_on: AtomicBool,
    is_broken: AtomicBool,
}

impl Faults for SlowAndBroken {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        if !self.is_on.load(Ordering::SeqCst) || !point.user.ends_with(":policy-controller") {
            return CallFault::None;
        }
        if point.verb == Verb::List && point.resource == "connectors" {
            return CallFault::Delay(self.list);
        }
        let is_it = point.verb == self.verb && point.resource == self.resource;
        if is_it && !self.is_broken.swap(true, Ordering::SeqCst) {
            return self.write.clone();
        }
        CallFault::None
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

#[tokio::test(start_paused = true)]
async fn a_gift_that_has_to_be_repeated_is_not_sent_on_reads_of_more_than_five_seconds_ago() {
    let refused = CallFault::Refuse {
        code: 429,
        retry_after: Some(3),
    };
    for write in [CallFault::HangBefore, CallFault::HangAfter, refused] {
        for (verb, resource) in [
            (Verb::Create, "roles"),
            (Verb::Create, "rolebindings"),
            (Verb::Patch, "rolebindings"),
        ] {
            let faults = Arc::new(SlowAndBroken {
                list: Duration::from_millis(2400),
                verb,
                resource,
                write: write.clone(),
                is_on: AtomicBool::new(false),
                is_broken: AtomicBool::new(false),
            });
            let mut stage = Stage::new();
            stage.cluster.server.set_faults(faults.clone());
            stage.start("one");
            let user = |name: &str| json!({"kind": "User", "name": name});
            if verb == Verb::Patch {
                policy(&stage.cluster, TOOLS, "p", json!({}), json!([user("ann")]));
            }
            stage.settle().await;
            faults.is_on.store(true, Ordering::SeqCst);
            if verb == Verb::Patch {
                stage.cluster.edit("p", |spec| {
                    let subjects = &mut spec["defaultPermission"]["bindingTemplate"]["subjects"];
                    *subjects = json!([user("ann"), user("bob")]);
                });
            } else {
                policy(&stage.cluster, TOOLS, "p", json!({}), json!([user("ann")]));
            }
            stage.settle().await;
            let name = format!("{verb} {resource} meets {write:?}");
            assert!(faults.is_broken.load(Ordering::SeqCst), "{name}");
            assert!(stage.judge().is_settled(), "{name}");
            stage.proves_right(Duration::from_secs(20), &name).await;
        }
    }
}
