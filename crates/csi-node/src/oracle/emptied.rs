//! Whether content was taken away rightly: after a no that was heard twice, and where the switch says so.

use connectors_api::config::OnEnable;
use tokio::time::Instant;

use super::{
    judge::{LOOKED_AFTER, Story, TWICE, askers, short},
    node::{Call, Gate},
    truth::{Asker, Creation, Says, Truth, Verb},
};

impl Story<'_> {
    pub(super) fn emptied(&mut self, number: usize, call: &Call, at: Instant, while_off: bool) {
        self.met(if while_off {
            "emptied, while off"
        } else {
            "emptied, gated"
        });
        let from = call.start.max(at - LOOKED_AFTER);
        let truths = self.truths(from, at);
        let gates = self.gates(call.process, from, at);
        // A volume of which it cannot be read how it was mounted counts as gated.
        let unread = self.failures.iter().any(|it| *it >= from && *it <= at);
        let while_off = while_off && !unread;
        let says_no = |truth: &Truth, asker: &Asker| matches!(truth.says(asker), Says::No(_));
        let no_twice = |asker: &Asker| {
            let no: Vec<_> = truths
                .iter()
                .filter(|(.., it)| says_no(it, asker))
                .collect();
            let (Some(first), Some(last)) = (no.first(), no.last()) else {
                return false;
            };
            let reviewed = truths.iter().any(|(.., it)| {
                !it.failing.contains(&Verb::ReviewAccess) && !it.reviews_standing(&asker.right)
            });
            last.1 - first.0 >= TWICE && reviewed
        };
        let over = |asker: &Asker| {
            let hopeless = |truth: &Truth| {
                let squatted = truth
                    .requests
                    .values()
                    .any(|it| it.squats && it.pod_uid == asker.pod_uid);
                truth.creation == Creation::Refused || squatted
            };
            truths.iter().any(|(.., it)| {
                it.request_of(asker)
                    .is_some_and(|(_, request)| request.is_over())
                    || hopeless(it)
            })
        };
        let ways = gates.iter().filter_map(|gate| match gate {
            Gate::On(way) => Some(*way),
            Gate::Off | Gate::Unknown => None,
        });
        let ways: Vec<_> = ways.collect();
        let rightly = askers(call).iter().any(|asker| {
            let way_is = ways.iter().any(|way| match way {
                _ if !while_off => true,
                OnEnable::Keep => false,
                OnEnable::Request => over(asker),
                OnEnable::Empty => true,
            });
            way_is && no_twice(asker)
        });
        if !rightly {
            self.wrong(
                at,
                format!("call {number} emptied {}: {gates:?}", short(&call.place)),
            );
        }
    }
}
