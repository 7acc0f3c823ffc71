//! What is said and made stays within bounds, and what is taken is given back.

use std::{collections::BTreeMap, time::Duration};

use super::{
    cluster::SESAME,
    judge::{Story, askers},
    node::{Call, HOLD, Kind, Outcome, ROOM},
    truth::Verb,
};
use crate::{
    error::{PublishError, is_final},
    hold_quota::HoldQuotaFull,
    kubernetes::EventWord,
};

/// A call that looks after a volume goes on for as long when the kubelet hangs up.
const GOES_ON: Duration = Duration::from_secs(5);
/// Beside the wait itself.
const AROUND: Duration = Duration::from_secs(5);

pub(super) fn judge(story: &mut Story<'_>) {
    let calls = story.calls;
    for (number, call) in calls.iter().enumerate() {
        // One that was given up was answered in time up to then.
        let over = call.end.as_ref().map(|end| end.at).or(call.hung);
        if let Some(over) = over.filter(|over| *over - call.start > HOLD + AROUND) {
            story.wrong(over, format!("call {number} took too long"));
        }
        if let Some(end) = &call.end
            && let Outcome::Published(result) = &end.outcome
        {
            answered(story, number, call, result);
        }
    }
    notes(story);
    posts(story);
    let died = story.node.disk().died;
    for _ in 0..died {
        story.met("process died in a change");
    }
}

fn answered(story: &mut Story<'_>, number: usize, call: &Call, result: &Result<(), PublishError>) {
    let (Err(error), Some(end)) = (result, &call.end) else {
        return;
    };
    let text = error.text();
    told(story, number, &text, |home| {
        askers(call)
            .iter()
            .all(|asker| asker.right.namespace == home)
    });
    let at = end.at;
    let others = |filter: &dyn Fn(&Call) -> bool, slack: Duration| {
        let open = |other: &&Call| {
            !std::ptr::eq(*other, call)
                && other.process == call.process
                && other.start <= at
                && other.hung.is_none_or(|hung| hung + slack >= at)
                && other.end.as_ref().is_none_or(|it| it.at >= at)
                && filter(other)
        };
        story.calls.iter().filter(open).count()
    };
    let publishes = |it: &Call| matches!(it.kind, Kind::Publish { .. });
    let full = if *error == PublishError::InFlight {
        let others = others(&|it| it.place == call.place, GOES_ON);
        Some(("in flight", others > 0))
    } else if let PublishError::Crowded(HoldQuotaFull::Node(_)) = error {
        let others = others(&publishes, Duration::ZERO);
        Some(("no room on the node", others >= ROOM.node))
    } else if let PublishError::Crowded(HoldQuotaFull::Namespace(_)) = error {
        let mine = |it: &Call| {
            let of = |it: &Call| {
                askers(it)
                    .first()
                    .map(|asker| asker.right.namespace.clone())
            };
            publishes(it) && of(it) == of(call)
        };
        let others = others(&mine, Duration::ZERO);
        Some(("no room for the namespace", others >= ROOM.namespace))
    } else {
        None
    };
    if let PublishError::Waiting { .. } = error {
        waited(story, number, call);
    }
    let full = full.map(|(met, right)| (met, right && !is_final(error.code())));
    if let Some((met, right)) = full {
        story.met(met);
        if !right {
            story.wrong(at, format!("call {number}: {error}, and it is not so"));
        }
    }
}

/// One that never was let in is held for as long as the kubelet waits.
fn waited(story: &mut Story<'_>, number: usize, call: &Call) {
    let (Kind::Publish { askers, limit, .. }, Some(end)) = (&call.kind, &call.end) else {
        return;
    };
    let truths = story.truths(call.start, end.at);
    let missing = |name: &str| truths.iter().any(|(.., it)| it.address(name).is_none());
    // Without a connector there is nothing to wait for once access is there.
    if askers.iter().any(|asker| missing(&asker.right.connector)) {
        return;
    }
    let wait = limit.map_or(HOLD, |limit| {
        HOLD.min(limit.saturating_sub(Duration::from_secs(3)))
    });
    let held = end.at - call.start;
    if held < wait {
        story.wrong(
            end.at,
            format!("call {number} was held for {held:?} of {wait:?}"),
        );
    }
    story.met("held to the end");
}

/// No token in it, and what is told of a request only in the connector's own namespace.
pub(super) fn told(
    story: &mut Story<'_>,
    number: usize,
    text: &str,
    at_home: impl Fn(&str) -> bool,
) {
    let home = text
        .split_once("told in <")
        .and_then(|(_, rest)| rest.split_once('>'));
    let misplaced = home.is_some_and(|(home, _)| !at_home(home));
    if text.contains(SESAME) || misplaced {
        story.wrong(story.began, format!("call or event {number} tells: {text}"));
    }
}

fn notes(story: &mut Story<'_>) {
    let notes = story.node.shared.log().notes.clone();
    let mut counts: BTreeMap<(usize, String, &str, String), usize> = BTreeMap::new();
    for (number, note) in notes.iter().enumerate() {
        story.met("event");
        told(story, number, &note.text, |home| note.pod.namespace == home);
        let key = (
            note.process,
            note.pod.uid.clone(),
            note.word.as_str(),
            note.text.clone(),
        );
        *counts.entry(key).or_insert(0) += 1;
    }
    let requests = story
        .versions
        .iter()
        .flat_map(|(_, truth)| truth.requests.values());
    let mut uids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in requests {
        let known = uids.entry(request.pod_uid.clone()).or_default();
        if !known.contains(&request.uid) {
            known.push(request.uid.clone());
        }
    }
    for ((process, pod, word, text), count) in counts {
        let most = if [EventWord::AccessPending.as_str()].contains(&word) {
            1
        } else if [
            EventWord::AccessDenied.as_str(),
            EventWord::AccessUnusable.as_str(),
        ]
        .contains(&word)
        {
            // One for each request, and one for none.
            1 + uids.get(&pod).map_or(0, Vec::len)
        } else {
            continue;
        };
        if count > most {
            let said = format!("process {process} told {pod} {count} times: {word} {text}");
            story.wrong(story.began, said);
        }
    }
}

/// One request is posted for a call and connector, and another one only after a pause or when the first is gone.
fn posts(story: &mut Story<'_>) {
    let posts = story.node.shared.log().posts.clone();
    for post in &posts {
        story.met("request made");
        let of_call = |call: &&Call| {
            askers(call).contains(&post.asker)
                && call.start <= post.at
                && call.hung.is_none_or(|hung| hung + GOES_ON >= post.at)
                && call.end.as_ref().is_none_or(|end| end.at >= post.at)
        };
        let calls: Vec<_> = story.calls.iter().filter(of_call).collect();
        let Some(first) = calls.first() else {
            story.wrong(post.at, format!("a request for no call: {:?}", post.asker));
            continue;
        };
        let (start, most) = (first.start, calls.len());
        let truths = story.truths(start, post.at);
        let elsewhere = !post
            .asker
            .right
            .connector
            .starts_with(&format!("{}/", post.asker.right.namespace));
        if elsewhere && truths.iter().all(|(.., it)| !it.a_policy_accepts) {
            story.wrong(
                post.at,
                format!("a request that no policy could accept: {:?}", post.asker),
            );
        }
        let changes = truths.len();
        let same = posts
            .iter()
            .filter(|it| it.asker == post.asker && it.at >= start && it.at <= post.at);
        let count = same.count();
        let seconds = usize::try_from((post.at - start).as_secs()).unwrap();
        let no_answer = |verb: Verb| truths.iter().any(|(.., it)| it.failing.contains(&verb));
        let lost = story
            .glitches
            .iter()
            .filter(|at| **at >= start && **at <= post.at);
        let pauses = if no_answer(Verb::Create) || no_answer(Verb::GetRequest) {
            seconds
        } else {
            lost.count() + seconds / 5
        };
        // Each change may bring a new try, and each pause after an answer that was none.
        if count > most * (1 + changes + pauses) {
            story.wrong(post.at, format!("{count} requests for {:?}", post.asker));
        }
    }
}
