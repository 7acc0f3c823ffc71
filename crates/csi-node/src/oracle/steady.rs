//! What must come of a call during which nothing changes: that what should happen does.

use std::time::Duration;

use connectors_api::config::OnEnable;
use tokio::time::Instant;

use super::{
    disk::State,
    judge::{Story, askers},
    node::{Call, End, Gate, Kind, Outcome},
    server::proven,
    truth::{Asker, Creation, RequestFacts, Says, Truth},
};
use crate::{
    error::{PublishError, is_final},
    refused_reviews::AGE,
};

/// A call that has not to wait for anything is answered within this.
const SOON: Duration = Duration::from_secs(5);

/// What there is during a call from its begin to its end.
struct Scene<'a> {
    truth: &'a Truth,
    gate: Gate,
    proven: bool,
    askers: &'a [Asker],
    took: Duration,
    /// The pod wants an error when it is refused for good.
    error_file: bool,
    /// The API server said no to a standing permission so short before that the no may be remembered.
    refused_lately: bool,
}

pub(super) fn judge(story: &mut Story<'_>, number: usize, call: &Call) {
    let (
        Kind::Publish {
            token, error_file, ..
        },
        Some(end),
    ) = (&call.kind, &call.end)
    else {
        return;
    };
    let Some(truth) = unchanged(story, call, end) else {
        return;
    };
    let [gate] = story.gates(call.process, call.start, end.at)[..] else {
        return;
    };
    let disturbed = |at: &Instant| *at >= call.start && *at <= end.at;
    if story.glitches.iter().any(disturbed) || story.failures.iter().any(disturbed) {
        return;
    }
    let bearer = |at: Instant| proven(&truth, token, at - story.began);
    let (first, last) = (bearer(call.start), bearer(end.at));
    if first != last {
        return;
    }
    let askers = askers(call);
    let pod = first.and_then(|uid| truth.pods.get(&uid));
    let proven = pod.is_some_and(|pod| {
        askers.iter().all(|asker| {
            asker.pod_uid == pod.uid
                && asker.pod_name == pod.name
                && asker.right.namespace == pod.namespace
                && asker.right.account == pod.account
        })
    });
    let lately = story.truths(call.start - AGE, call.start);
    let refused_lately = lately.iter().any(|(.., truth)| {
        let mut rights = askers.iter().map(|asker| &asker.right);
        !rights.all(|right| truth.reviews_standing(right))
    });
    let scene = Scene {
        refused_lately,
        truth: &truth,
        gate,
        proven,
        askers,
        took: end.at - call.start,
        error_file: *error_file,
    };
    let Outcome::Published(result) = &end.outcome else {
        return;
    };
    if matches!(
        result,
        Err(PublishError::InFlight | PublishError::Stopping | PublishError::OtherVolume)
    ) {
        return;
    }
    let (met, right) = match call.before {
        State::Absent | State::Partial => first_mount(&scene, result, end.state),
        State::Full { while_off } => looked_after(&scene, result, end.state, while_off),
        State::Empty => refilled(&scene, result, end.state),
        State::Rejected => {
            let right = result.is_ok() && end.state == State::Rejected && scene.took <= SOON;
            (Some("steady: error stays"), right)
        }
    };
    if let Some(met) = met {
        story.met(met);
    }
    if !right {
        let Scene {
            gate, proven, took, ..
        } = scene;
        let says: Vec<_> = askers.iter().map(|asker| truth.says(asker)).collect();
        story.wrong(
            end.at,
            format!(
                "call {number}, steady: {gate:?}, proven {proven}, after {took:?}, {says:?}: {:?} and {:?} of {:?}",
                result, end.state, call.before
            ),
        );
    }
}

/// The only truth from the begin to the end of a call, in which requests may have been made.
fn unchanged(story: &Story<'_>, call: &Call, end: &End) -> Option<Truth> {
    let truths = story.truths(call.start, end.at);
    let (.., last) = truths.last()?;
    let mut truth = Truth::clone(last);
    truth.requests.clear();
    let fresh = |phase: Option<_>| phase.is_none();
    for (.., other) in &truths {
        let mut same = Truth::clone(other);
        let added = last
            .requests
            .iter()
            .filter(|(key, _)| !other.requests.contains_key(*key));
        let only_added = other
            .requests
            .iter()
            .all(|(key, it)| last.requests.get(key) == Some(it))
            && added.into_iter().all(|(_, it)| fresh(it.phase));
        same.requests.clear();
        if same != truth || !only_added {
            return None;
        }
    }
    truth.requests = last.requests.clone();
    Some(truth)
}

type Met = (Option<&'static str>, bool);

fn first_mount(scene: &Scene<'_>, result: &Result<(), PublishError>, after: State) -> Met {
    let Scene {
        truth,
        gate,
        proven,
        askers,
        took,
        error_file,
        refused_lately,
    } = scene;
    let done = result.is_ok() && after != State::Rejected;
    if !truth.is_whole() {
        return (None, true);
    }
    if !proven {
        let right = matches!(result, Err(PublishError::Caller(_)));
        return (Some("token of another pod"), right && *took <= SOON);
    }
    let has_content = askers
        .iter()
        .all(|it| truth.address(&it.right.connector).is_some());
    let allowed = match gate {
        Gate::Unknown => return (None, matches!(result, Err(PublishError::Starting))),
        Gate::Off => true,
        Gate::On(_) => askers.iter().all(|asker| truth.allows(asker)),
    };
    if allowed && has_content {
        // A wait asks again; a refusal is for the next call to look at.
        let told_before = *refused_lately && matches!(result, Err(error) if is_final(error.code()));
        let right = (done && *took <= SOON) || told_before;
        return (Some("steady: mounted"), right);
    }
    if done {
        return (Some("steady: not mounted"), false);
    }
    if allowed {
        return (Some("steady: not mounted"), result.is_err());
    }
    let of = |asker: &Asker, is: fn(&RequestFacts) -> bool| {
        let request = truth.request_of(asker).map(|(_, request)| request);
        !truth.allows(asker) && request.is_some_and(is)
    };
    let is_no = askers.iter().any(|it| of(it, RequestFacts::is_no_for_good));
    if *error_file && is_no {
        // The end of the pod comes first.
        let ends = askers
            .iter()
            .any(|it| of(it, RequestFacts::is_with_its_pod));
        let has_error = after == State::Rejected && *took <= SOON;
        let right = if ends {
            *result == Err(PublishError::PodEnding)
        } else {
            result.is_ok() && has_error
        };
        return (Some("steady: error alone"), right);
    }
    if result.is_ok() {
        return (Some("steady: not mounted"), false);
    }
    let over = |asker: &&Asker| {
        let request = truth.request_of(asker).map(|(_, request)| request);
        !truth.allows(asker) && request.is_some_and(|it| it.is_over() && !it.is_granted())
    };
    if askers.iter().any(|asker| over(&asker)) {
        let right = matches!(
            result,
            Err(PublishError::Denied(_) | PublishError::PodEnding | PublishError::Unusable { .. })
        );
        // Of several connectors another one may fail first, or there may be no room to ask for it.
        let several = askers.len() > 1;
        return (Some("steady: refused"), several || (right && *took <= SOON));
    }
    (Some("steady: not mounted"), true)
}

/// The evaluation service says no, and so does the API server.
fn is_denied(truth: &Truth, asker: &Asker) -> bool {
    matches!(truth.says(asker), Says::No(_)) && !truth.reviews_standing(&asker.right)
}

fn looked_after(
    scene: &Scene<'_>,
    result: &Result<(), PublishError>,
    after: State,
    while_off: bool,
) -> Met {
    let Scene {
        truth,
        gate,
        askers,
        took,
        ..
    } = scene;
    if result.is_err() || *took > SOON {
        return (None, false);
    }
    let kept = after == State::Full { while_off };
    let Gate::On(way) = gate else {
        return (Some("steady: kept"), kept);
    };
    if !truth.evaluator_answers || !truth.failing.is_empty() {
        // A no of which nothing is known takes nothing away; one that can be heard may.
        let met = Some("steady: left without an answer");
        return (met, kept || truth.evaluator_answers);
    }
    if !askers.iter().any(|asker| is_denied(truth, asker)) {
        return (Some("steady: kept"), kept);
    }
    let emptied = after == State::Empty;
    if !while_off {
        return (Some("steady: emptied"), emptied);
    }
    let decided = |asker: &Asker| {
        let request = truth.request_of(asker);
        is_denied(truth, asker) && request.is_some_and(|(_, request)| request.is_over())
    };
    let hopeless =
        truth.creation == Creation::Refused || truth.requests.values().any(|it| it.squats);
    match way {
        OnEnable::Keep => (Some("steady: kept while off"), kept),
        OnEnable::Empty => (Some("steady: emptied"), emptied),
        OnEnable::Request if askers.iter().any(decided) => (Some("steady: emptied"), emptied),
        OnEnable::Request => (Some("steady: kept while off"), kept || hopeless),
    }
}

fn refilled(scene: &Scene<'_>, result: &Result<(), PublishError>, after: State) -> Met {
    let Scene {
        truth,
        gate,
        askers,
        took,
        ..
    } = scene;
    if result.is_err() || *took > SOON {
        return (None, false);
    }
    if !truth.is_whole() {
        return (Some("steady: left without an answer"), true);
    }
    let has_content = askers
        .iter()
        .all(|it| truth.address(&it.right.connector).is_some());
    let allowed = match gate {
        Gate::Unknown => false,
        Gate::Off => true,
        Gate::On(_) => askers.iter().all(|asker| truth.allows(asker)),
    };
    let expected = if allowed && has_content {
        State::Full { while_off: false }
    } else {
        State::Empty
    };
    let met = (expected != State::Empty).then_some("steady: refilled");
    (met, after == expected)
}
