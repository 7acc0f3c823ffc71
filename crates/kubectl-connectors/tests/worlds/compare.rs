//! The forecast of a world beside what the controllers then did.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_request::Phase;
use kubectl_connectors::simulate::{ForecastWord, RequestForecast, Simulation, StandingWord};

use crate::tally::Tally;
use crate::world::Ask;
use crate::written::{AskSeen, RuleHeld, StandingHeld};

/// The begin of the reason of a forecast about a granted request's successor.
const ANEW: &str = "it keeps its grant, which is frozen";

/// What the controllers had written before, and what they wrote afterwards.
pub(crate) struct Happened {
    pub(crate) before: BTreeMap<Ask, AskSeen>,
    pub(crate) after: BTreeMap<Ask, AskSeen>,
    pub(crate) standing_before: BTreeSet<StandingHeld>,
    pub(crate) standing_after: BTreeSet<StandingHeld>,
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
            of_ask.partition(|it| it.because.starts_with(ANEW));
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
    of_ask.filter(|it| it.because.starts_with(ANEW))
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
    if after.phase != Some(Phase::Granted) {
        return Some("a granted request lost its grant".to_owned());
    }
    for (policy, rules) in &before.rules {
        if after.rules.get(policy) != Some(rules) {
            return Some(format!("the grant of policy {policy} is another one now"));
        }
    }
    let more: BTreeMap<_, _> = after
        .rules
        .iter()
        .filter(|(policy, _)| !before.rules.contains_key(*policy))
        .collect();
    let mut expected = forecast.map_or_else(Vec::new, shown_after);
    let mut found: Vec<RuleHeld> = more.values().flat_map(|it| it.iter().cloned()).collect();
    expected.sort();
    found.sort();
    tally.add(if forecast.is_some() {
        "granted request: gets more"
    } else {
        "granted request: as it was"
    });
    (expected != found).then(|| {
        format!("the forecast has the further rules {expected:?}, and there are {found:?}")
    })
}

fn shown_after(forecast: &RequestForecast) -> Vec<RuleHeld> {
    let rules = forecast.rules_after.iter();
    rules
        .map(|it| (it.resources.clone(), it.verbs.clone()))
        .collect()
}

/// Without those that are there twice.
pub(crate) fn all_rules(rules: &BTreeMap<String, Vec<RuleHeld>>) -> Vec<RuleHeld> {
    let mut all: Vec<_> = rules.values().flatten().cloned().collect();
    all.sort();
    all.dedup();
    all
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
    let gained: BTreeSet<_> = after.difference(before).cloned().collect();
    let lost: BTreeSet<_> = before.difference(after).cloned().collect();
    ((&gains, &loses) != (&gained, &lost)).then(|| {
        format!("standing: the forecast gains {gains:#?} and loses {loses:#?}, and it gained {gained:#?} and lost {lost:#?}")
    })
}
