//! The forecast of a world beside what the controllers then did.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::Phase;
use kubectl_connectors::explain::report::RuleShown;
use kubectl_connectors::simulate::{
    ForecastAbout, ForecastWord, RequestForecast, Simulation, StandingWord,
};

use crate::tally::Tally;
use crate::world::Ask;
use crate::written::{AskSeen, RuleHeld, StandingHeld};

/// What the controllers had written before, and what they wrote afterwards.
pub(crate) struct Happened {
    pub(crate) before: BTreeMap<Ask, AskSeen>,
    pub(crate) after: BTreeMap<Ask, AskSeen>,
    pub(crate) standing_before: BTreeSet<StandingHeld>,
    pub(crate) standing_after: BTreeSet<StandingHeld>,
}

impl Happened {
    /// True when a request or a standing permission is another one now.
    pub(crate) fn has_change(&self) -> bool {
        let is_other = |(ask, before): (&Ask, &AskSeen)| {
            let after = &self.after[ask];
            let is_granted = before.phase == Some(Phase::Granted);
            let has_other_rules = is_granted && before.rules != after.rules;
            before.word.is_some() && (before.word != after.word || has_other_rules)
        };
        let (before, after) = (&self.standing_before, &self.standing_after);
        let mut asks = self.before.iter();
        asks.any(is_other) || !beyond(after, before).is_empty() || !beyond(before, after).is_empty()
    }
}

/// Every difference between a forecast and what happened.
pub(crate) fn compare(
    simulation: &Simulation,
    happened: &Happened,
    names: &BTreeMap<Ask, String>,
    tally: &mut Tally,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (ask, before) in &happened.before {
        let after = &happened.after[ask];
        let of_ask = simulation
            .requests
            .iter()
            .filter(|it| is_about(it, ask, names));
        let (anew, as_it_is): (Vec<_>, Vec<_>) =
            of_ask.partition(|it| it.about == ForecastAbout::NewRequest);
        let ([] | [_]) = as_it_is.as_slice() else {
            wrong.push(format!("{ask:?}: two forecasts: {as_it_is:#?}"));
            continue;
        };
        let forecast = as_it_is.first().copied();
        let found = match before.phase {
            Some(Phase::Granted) if before.word.is_some() => {
                granted(forecast, before, after, tally)
            }
            None | Some(Phase::Pending) if before.word.is_some() => {
                open(forecast, before, after, tally)
            }
            _ if forecast.is_some() || !anew.is_empty() => {
                Some("a request that is decided has a forecast".to_owned())
            }
            _ => {
                tally.add("request: decided before");
                let is_same = before.phase == after.phase;
                (!is_same).then(|| "a decided request is another one now".to_owned())
            }
        };
        if let Some(found) = found {
            wrong.push(format!(
                "{ask:?}: {found}\nforecast {forecast:#?}\nbefore {before:#?}\nafter {after:#?}"
            ));
        }
    }
    wrong.extend(standing(simulation, happened, tally));
    wrong
}

pub(crate) fn is_about(
    forecast: &RequestForecast,
    ask: &Ask,
    names: &BTreeMap<Ask, String>,
) -> bool {
    forecast.request == names[ask] && forecast.connector.namespace == ask.owner
}

/// The forecasts about new requests of granted pods.
pub(crate) fn anew<'a>(
    simulation: &'a Simulation,
    ask: &'a Ask,
    names: &'a BTreeMap<Ask, String>,
) -> impl Iterator<Item = &'a RequestForecast> {
    let of_ask = simulation
        .requests
        .iter()
        .filter(move |it| is_about(it, ask, names));
    of_ask.filter(|it| it.about == ForecastAbout::NewRequest)
}

fn open(
    forecast: Option<&RequestForecast>,
    before: &AskSeen,
    after: &AskSeen,
    tally: &mut Tally,
) -> Option<String> {
    let (was, is) = forecast.map_or((before.word, before.word), |it| {
        (Some(it.before), Some(it.after))
    });
    let told = |it: Option<ForecastWord>| it.map_or("none".to_owned(), |it| format!("{it:?}"));
    tally.add(format!("request: {} → {}", told(was), told(is)));
    if forecast.is_some() && was == is {
        tally.add("request: other terms");
    }
    if was != before.word {
        return Some(format!(
            "the forecast says it is {was:?}, and it is {:?}",
            before.word
        ));
    }
    if is != after.word {
        return Some(format!(
            "the forecast says {is:?}, and it is {:?}",
            after.word
        ));
    }
    if is == Some(ForecastWord::Granted) {
        tally.add("rules of a grant");
        let expected = forecast.map_or_else(Vec::new, shown_after);
        let found = all_rules(&after.rules);
        if expected != found {
            return Some(format!(
                "the forecast has the rules {expected:?}, and there are {found:?}"
            ));
        }
    }
    None
}

fn granted(
    forecast: Option<&RequestForecast>,
    before: &AskSeen,
    after: &AskSeen,
    tally: &mut Tally,
) -> Option<String> {
    let is = forecast.map_or(ForecastWord::Granted, |it| it.after);
    let phase = if is == ForecastWord::Granted {
        Phase::Granted
    } else {
        Phase::Revoked
    };
    if after.phase != Some(phase) {
        return Some(format!(
            "the forecast says {is:?}, and it is {:?}",
            after.phase
        ));
    }
    // A policy that is deleted and made again is another one.
    let without = |of: &AskSeen, others: &AskSeen| -> Vec<RuleHeld> {
        let policies = of.rules.iter();
        let alone = policies.filter(|(policy, rules)| others.rules.get(*policy) != Some(rules));
        let mut rules: Vec<_> = alone.flat_map(|(_, rules)| rules.iter().cloned()).collect();
        rules.sort();
        rules
    };
    let (lost, more) = (without(before, after), without(after, before));
    let (loses, gets) = forecast.map_or_else(Default::default, |it| {
        (shown(&it.rules_before), shown_after(it))
    });
    tally.add(match (forecast, is) {
        (None, _) => "granted request: as it was",
        (Some(_), ForecastWord::Granted) if loses.is_empty() => "granted request: gets more",
        (Some(_), ForecastWord::Granted) => "granted request: loses a grant, and has another",
        (Some(_), _) => "granted request: revoked",
    });
    ((&loses, &gets) != (&lost, &more)).then(|| {
        format!(
            "the forecast loses {loses:?} and gets {gets:?}, and it lost {lost:?} and got {more:?}"
        )
    })
}

fn shown(rules: &[RuleShown]) -> Vec<RuleHeld> {
    let rules = rules.iter();
    rules
        .map(|it| (it.resources.clone(), it.verbs.clone()))
        .collect()
}

fn shown_after(forecast: &RequestForecast) -> Vec<RuleHeld> {
    shown(&forecast.rules_after)
}

/// Without those that are there twice.
pub(crate) fn all_rules(rules: &BTreeMap<String, Vec<RuleHeld>>) -> Vec<RuleHeld> {
    let mut all: Vec<_> = rules.values().flatten().cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// The widest permissions of a set that another set lacks.
fn beyond(of: &BTreeSet<StandingHeld>, others: &BTreeSet<StandingHeld>) -> BTreeSet<StandingHeld> {
    let by_every_verb = |of: &BTreeSet<StandingHeld>, row: &StandingHeld| {
        let (namespace, holder, resource, _, connector) = row.clone();
        of.contains(&(namespace, holder, resource, "*".to_owned(), connector))
    };
    let alone = of.difference(others);
    let alone = alone.filter(|row| !by_every_verb(others, row));
    let widest = alone.filter(|row| row.3 == "*" || !by_every_verb(of, row));
    widest.cloned().collect()
}

fn standing(simulation: &Simulation, happened: &Happened, tally: &mut Tally) -> Option<String> {
    let of = |word: StandingWord| -> BTreeSet<StandingHeld> {
        let changes = simulation.standing.iter().filter(|it| it.change == word);
        changes
            .flat_map(|it| {
                it.connectors.iter().map(|connector| {
                    (
                        it.namespace.clone(),
                        it.holder.clone(),
                        it.resource.clone(),
                        it.verb.clone(),
                        connector.clone(),
                    )
                })
            })
            .collect()
    };
    let (gains, loses) = (of(StandingWord::Gains), of(StandingWord::Loses));
    for (set, word) in [(&gains, "gains"), (&loses, "loses")] {
        if !set.is_empty() {
            tally.add(format!("standing: {word}"));
        }
        for (_, holder, ..) in set {
            let kind = holder.split(' ').next().unwrap_or_default();
            tally.add(format!("standing: {kind} {word}"));
        }
    }
    let (before, after) = (&happened.standing_before, &happened.standing_after);
    let (gained, lost) = (beyond(after, before), beyond(before, after));
    ((&gains, &loses) != (&gained, &lost)).then(|| {
        format!("standing: the forecast gains {gains:#?} and loses {loses:#?}, and it gained {gained:#?} and lost {lost:#?}")
    })
}
