//! Whether what the service said may be said.

use std::time::Duration;

use evaluation_api::access::{AccessAnswer, BindingRef, Decision, Gating, Requestable};
use evaluation_api::refusal::Reason;
use jiff::Timestamp;

use super::api::{Api, State};
use super::callers::Right;
use super::cluster::Kind;
use super::reference::Question;
use super::truth::{Named, Shown, Told, Truth, switches};

/// What the service is told: the least that it may be.
pub(super) const MAX_STALENESS: Duration = Duration::from_secs(90);
/// A watch line may have been that long on its way (docs/evaluation-api.md).
const DELIVERY: Duration = Duration::from_secs(1);
/// A token and a right are remembered that long, from when they were found on; a review takes so long at most.
const TOKEN_HOLDS: Duration = Duration::from_secs(12);
const REFUSAL_HOLDS: Duration = Duration::from_secs(7);
const RIGHT_HOLDS: Duration = Duration::from_secs(32);
/// A stream looks at the rights of its caller that often.
const LOOKS: Duration = Duration::from_secs(30);
/// How long the waits of a review may take together while reviews are slow.
const REVIEWED: Duration = Duration::from_secs(12);
/// How soon a stream follows what came on a watch.
const FOLLOWS: Duration = Duration::from_millis(200);
/// How soon a stream tells what ended by time alone.
const ENDS: Duration = Duration::from_secs(31);

/// A while in which something was said.
#[derive(Clone, Copy, Debug)]
pub(super) struct While {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

impl While {
    pub(super) fn before(self, time: Duration) -> Self {
        let from = self.from - time;
        Self { from, ..self }
    }
}

pub(super) struct Judge {
    pub(super) api: Api,
}

/// What is wrong, if anything is.
pub(super) type Verdict = Result<(), String>;

fn refuted(why: impl Into<String>) -> Verdict {
    Err(why.into())
}

fn after(moment: Timestamp) -> Timestamp {
    moment + Duration::from_micros(1)
}

fn named(binding: &BindingRef) -> Named {
    let BindingRef {
        kind,
        namespace,
        name,
        uid,
    } = binding.clone();
    (kind, namespace, name, uid)
}

pub(super) fn told(decision: &Decision) -> Told {
    match decision {
        Decision::Denied => Told::No,
        Decision::AllowedStanding(binding) => Told::Standing(Some(named(binding))),
        Decision::AllowedPod(binding) => Told::Pods(Some(named(binding))),
    }
}

pub(super) fn shown(answer: &AccessAnswer) -> Shown {
    let request = answer.request.as_ref()?;
    let phase = request.phase.map(|it| it.as_str().to_owned());
    Some((request.uid.clone(), phase.unwrap_or_default()))
}

impl Judge {
    /// A whole answer to a question.
    pub(super) fn answer(
        &self,
        question: &Question,
        answer: &AccessAnswer,
        when: While,
    ) -> Verdict {
        let state = self.api.state();
        fresh(&state, answer.fresh_as_of, when)?;
        gates(&state, answer.gating, when)?;
        let truth = Truth::new(&state.cluster, when.from, (when.from, when.to));
        let (told, shown) = (told(&answer.decision), shown(answer));
        if let Some(why) = truth.refute(question, &told, Some(&shown)) {
            return refuted(why);
        }
        let known = state.cluster.known_as_of(Kind::SOURCES, after(when.to));
        let is_late = known.is_none_or(|known| known + MAX_STALENESS <= when.from);
        let may_say = told == Told::No && shown.is_none();
        let (may, may_not) = truth.requestable(question);
        match answer.requestable {
            Requestable::Unknown => Ok(()),
            _ if is_late || !may_say => refuted("nobody knows whether a request leads anywhere"),
            Requestable::Yes if !may => refuted("no request leads anywhere"),
            Requestable::No if !may_not => refuted("a request leads somewhere"),
            Requestable::Yes | Requestable::No => Ok(()),
        }
    }

    /// One decision of several, of which the rest is said once.
    pub(super) fn decision(&self, question: &Question, told: &Told, when: While) -> Verdict {
        let state = self.api.state();
        let truth = Truth::new(&state.cluster, when.from, (when.from, when.to));
        truth.refute(question, told, None).map_or(Ok(()), refuted)
    }

    pub(super) fn common(
        &self,
        fresh_as_of: Option<Timestamp>,
        gating: Gating,
        when: While,
    ) -> Verdict {
        let state = self.api.state();
        fresh(&state, fresh_as_of, when)?;
        gates(&state, gating, when)
    }

    /// Somebody with this token was answered about a namespace.
    pub(super) fn may_ask(
        &self,
        token: usize,
        namespace: &str,
        for_mounts: bool,
        when: While,
    ) -> Verdict {
        let state = self.api.state();
        let While { from, to } = when.before(TOKEN_HOLDS);
        let owners = state.callers.owners(token, from, to);
        let may = owners.into_iter().flatten().any(|identity| {
            rights(
                &state,
                identity,
                namespace,
                for_mounts,
                when.before(RIGHT_HOLDS),
            )
            .0
        });
        if may {
            Ok(())
        } else {
            refuted(format!("token {token} was answered about {namespace}"))
        }
    }

    /// An answer on a stream that somebody began with a token.
    pub(super) fn may_watch(
        &self,
        owners: &[Option<usize>],
        namespace: &str,
        now: Timestamp,
    ) -> Verdict {
        let state = self.api.state();
        let when = While { from: now, to: now };
        let when = when.before(RIGHT_HOLDS + LOOKS + REVIEWED);
        let may = |identity: &usize| rights(&state, *identity, namespace, true, when).0;
        if owners.iter().flatten().any(may) {
            Ok(())
        } else {
            refuted(format!("{owners:?} is told about {namespace}"))
        }
    }

    /// Whether somebody who began a stream with a token may be told that he may not ask.
    pub(super) fn may_not_watch(
        &self,
        owners: &[Option<usize>],
        namespace: &str,
        now: Timestamp,
    ) -> bool {
        let state = self.api.state();
        let when = While { from: now, to: now };
        let may_not = |identity: &usize| {
            let when = when.before(REVIEWED);
            rights(&state, *identity, namespace, true, when).1
        };
        owners.iter().flatten().any(may_not)
    }

    /// What was said last on a stream still holds, each of it, but for what changed just now.
    pub(super) fn last(&self, said: &[(&Question, &AccessAnswer)], now: Timestamp) -> Vec<Verdict> {
        let state = self.api.state();
        let truth = Truth::new(&state.cluster, now - FOLLOWS, (now - ENDS, now));
        let known = state.cluster.known_as_of(Kind::DECIDING, after(now));
        let is_late = known.is_none_or(|known| known + MAX_STALENESS + FOLLOWS < now);
        let lasts = |(question, answer): &(&Question, &AccessAnswer)| {
            let (told, shown) = (told(&answer.decision), shown(answer));
            if let Some(why) = truth.refute(question, &told, Some(&shown)) {
                return refuted(why);
            }
            if is_late {
                return refuted("the stream goes on though the caches are too old");
            }
            let when = While {
                from: now - FOLLOWS,
                to: now,
            };
            gates(&state, answer.gating, when)
        };
        said.iter().map(lasts).collect()
    }

    /// A refusal for this reason.
    pub(super) fn refusal(
        &self,
        reason: Option<Reason>,
        (token, namespace, for_mounts): (usize, &str, bool),
        when: While,
    ) -> Verdict {
        let state = self.api.state();
        let is_right = match reason {
            Some(Reason::NotReady) => {
                let known = state.cluster.known_as_of(&Kind::ALL, when.from);
                let words = switches(&state.cluster, when.from, when.from);
                known.is_none() || words.is_empty()
            }
            Some(Reason::CacheStale) => is_stale(&state, when),
            Some(Reason::NamespaceForbidden) => {
                let While { from, to } = when.before(TOKEN_HOLDS);
                let owners = state.callers.owners(token, from, to);
                let mut owners = owners.into_iter().flatten();
                owners.any(|identity| rights(&state, identity, namespace, for_mounts, when).1)
            }
            Some(Reason::TokenInvalid) => {
                let While { from, to } = when.before(REFUSAL_HOLDS);
                state.callers.owners(token, from, to).contains(&None)
            }
            Some(Reason::ApiServerUnavailable | Reason::TooManyReviews) => {
                let trouble = state.review_trouble;
                trouble.is_some_and(|trouble| trouble >= when.from - REVIEWED)
            }
            _ => false,
        };
        if is_right {
            Ok(())
        } else {
            refuted(format!("refused for {reason:?}"))
        }
    }
}

/// Whether a right was there at some moment, and whether it was not.
fn rights(
    state: &State,
    identity: usize,
    namespace: &str,
    for_mounts: bool,
    when: While,
) -> (bool, bool) {
    let held = |is_everything| {
        let right = Right {
            identity,
            namespace: namespace.to_owned(),
            is_everything,
        };
        state.callers.held(&right, when.from, when.to)
    };
    let (all, mounts) = (held(true), held(false));
    let may = all.contains(&true) || for_mounts && mounts.contains(&true);
    let may_not = all.contains(&false) && (!for_mounts || mounts.contains(&false));
    (may, may_not)
}

fn is_stale(state: &State, when: While) -> bool {
    let known = state.cluster.known_as_of(Kind::DECIDING, when.from);
    known.is_none_or(|known| known + MAX_STALENESS <= when.to + DELIVERY)
}

/// Freshness is neither more nor less than what was shown, and never too old.
fn fresh(state: &State, said: Option<Timestamp>, when: While) -> Verdict {
    let said = said.ok_or("an answer of no moment")?;
    if said + MAX_STALENESS <= when.from {
        return refuted(format!("{said} is too old to be said"));
    }
    let known = state.cluster.known_as_of(Kind::DECIDING, after(when.to));
    if known.is_none_or(|known| said > known) {
        return refuted(format!(
            "says that it is as of {said}, and was shown {known:?}"
        ));
    }
    let known = state.cluster.known_as_of(Kind::DECIDING, when.from);
    if known.is_some_and(|known| said + DELIVERY < known) {
        return refuted(format!(
            "says that it is as of {said}, and had been shown {known:?}"
        ));
    }
    Ok(())
}

fn gates(state: &State, gating: Gating, when: While) -> Verdict {
    let is_on = match gating {
        Gating::On => true,
        Gating::Off => false,
        Gating::Unknown => return refuted("the switch is known and was not told"),
    };
    if switches(&state.cluster, when.from, when.to).contains(&is_on) {
        Ok(())
    } else {
        refuted(format!("the switch does not stand so: {gating:?}"))
    }
}
