//! Whether a volume holds an error rightly: after a no that stays, for a pod that wants it, and for as long as there is a
//! volume.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{
    bounds,
    cluster::LATE,
    disk::What,
    judge::{Story, askers, short},
    node::{Call, Gate, Kind},
    truth::{Asker, Truth, Verb},
};
use crate::kubernetes::EventWord;

/// How long before the file the API server was asked.
const CONFIRMED: Duration = LATE.saturating_mul(5);

impl Story<'_> {
    pub(super) fn rejected(&mut self, number: usize, call: &Call, at: Instant, text: &str) {
        self.met("mounted, error alone");
        let Kind::Publish { error_file, .. } = call.kind else {
            return self.wrong(at, format!("call {number} rejected what is removed"));
        };
        let from = call.start.max(at - CONFIRMED);
        let truths = self.truths(from, at);
        let gates = self.gates(call.process, call.start, at);
        let answers = |truth: &Truth, verb: Verb| !truth.failing.contains(&verb);
        let is_no = |asker: &&Asker| {
            let is_over = truths.iter().any(|(.., it)| {
                let request = it.request_of(asker);
                answers(it, Verb::GetRequest)
                    && request.is_some_and(|(_, request)| request.is_no_for_good())
            });
            let no_right = truths.iter().any(|(.., it)| {
                answers(it, Verb::ReviewAccess) && !it.reviews_standing(&asker.right)
            });
            is_over && no_right
        };
        let named = askers(call).iter().filter(is_no).find(|asker| {
            let connector = format!("\"connector\": \"{}\"", asker.right.connector);
            text.contains(&connector)
        });
        let is_gated = gates.iter().any(|gate| matches!(gate, Gate::On(_)));
        if !error_file || named.is_none() || !is_gated {
            let place = short(&call.place);
            let what = format!("call {number} rejected {place}: {gates:?} {text}");
            self.wrong(at, what);
        }
        let pod = askers(call)
            .first()
            .map(|asker| asker.right.namespace.clone());
        bounds::told(self, number, text, |home| pod.as_deref() == Some(home));
        self.bearer(number, call, at);
    }
}

/// Such a volume is filled by nothing that comes later, and its pod is told of it once.
pub(super) fn judge(story: &mut Story<'_>) {
    let mut rejected = BTreeMap::new();
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for change in story.changes.clone() {
        let place = short(&change.place);
        match change.what {
            What::Rejected(_) => {
                rejected.insert(place, change.at);
                *made.entry(change.place.pod_uid().to_owned()).or_default() += 1;
            }
            What::Cleared => {
                rejected.remove(&place);
            }
            What::Delivered { .. } | What::Emptied { .. } => {
                if rejected.contains_key(&place) {
                    story.wrong(change.at, format!("{place} was rejected, and changed"));
                }
            }
        }
    }
    let notes = story.node.shared.log().notes.clone();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for note in notes {
        if note.word == EventWord::MountedErrorFile {
            *told.entry(note.pod.uid).or_default() += 1;
        }
    }
    for (pod, count) in told {
        let most = made.get(&pod).copied().unwrap_or_default();
        if count > most {
            let what = format!("{pod} was told {count} times of {most} errors");
            story.wrong(story.began, what);
        }
    }
}
