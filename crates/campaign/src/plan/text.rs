//! A plan as text, with which it can be repeated.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{CallId, CallTrouble, EventId, EventTrouble, Fault, Plan, Undeletable};
use crate::evaluator::{Hearsay, Mood};

/// The text is not the identifier of a plan.
#[derive(Debug, Error)]
#[error("{0:?} is no plan: expected SCENARIO or SCENARIO+FAULT+FAULT…, as a campaign prints it")]
pub struct NoPlan(String);

const NONE: &str = "-";

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

fn or_empty(text: &str) -> String {
    if text == NONE {
        String::new()
    } else {
        text.to_owned()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scenario)?;
        self.faults
            .iter()
            .try_for_each(|fault| write!(f, "+{fault}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { at, what, times } => write!(
                f,
                "call/{}/{}/{}/{}/{}/{}/{times}",
                at.verb,
                at.resource,
                or_none(&at.namespace),
                or_none(&at.name),
                at.nth,
                what.as_str(),
            ),
            Self::Event { at, what } => write!(
                f,
                "event/{}/{}/{}/{}/{}/{}",
                at.kind,
                at.resource,
                or_none(&at.namespace),
                or_none(&at.name),
                at.nth,
                what.as_str(),
            ),
            Self::Evaluator {
                mood,
                from,
                questions,
            } => write!(f, "evaluator/{}/{from}/{questions}", mood.as_str()),
            Self::Standing {
                hearsay,
                from,
                calls,
            } => write!(f, "standing/{}/{from}/{calls}", hearsay.as_str()),
            Self::Lag(versions) => write!(f, "lag/{versions}"),
            Self::TwoLeaders => f.write_str("two-leaders"),
            Self::NoisyNeighbour => f.write_str("noisy-neighbour"),
            Self::NoGarbageCollection => f.write_str("no-gc"),
            Self::ClockJump { step, forward } => {
                let way = if *forward { "forward" } else { "back" };
                write!(f, "clock/{step}/{way}")
            }
            Self::NodeLost { step } => write!(f, "node-lost/{step}"),
            Self::Unrecorded { step, forbidden } => {
                let why = if *forbidden { "403" } else { "409" };
                write!(f, "unrecorded/{step}/{why}")
            }
            Self::Kept { step, what } => write!(f, "kept/{step}/{}", what.as_str()),
            Self::Restart { step } => write!(f, "restart/{step}"),
        }
    }
}

impl FromStr for Plan {
    type Err = NoPlan;

    fn from_str(text: &str) -> Result<Self, NoPlan> {
        let no_plan = || NoPlan(text.to_owned());
        let mut parts = text.split('+');
        let scenario = parts.next().unwrap_or_default().to_owned();
        if scenario.is_empty() {
            return Err(no_plan());
        }
        let faults = parts
            .map(|part| fault(part).ok_or_else(no_plan))
            .collect::<Result<_, _>>()?;
        Ok(Self { scenario, faults })
    }
}

fn fault(text: &str) -> Option<Fault> {
    let words: Vec<&str> = text.split('/').collect();
    Some(match words.as_slice() {
        ["call", verb, resource, namespace, name, nth, what, times] => Fault::Call {
            at: CallId {
                verb: (*verb).to_owned(),
                resource: (*resource).to_owned(),
                namespace: or_empty(namespace),
                name: or_empty(name),
                nth: nth.parse().ok()?,
            },
            what: CallTrouble::parse(what)?,
            times: times.parse().ok()?,
        },
        ["event", kind, resource, namespace, name, nth, what] => Fault::Event {
            at: EventId {
                kind: (*kind).to_owned(),
                resource: (*resource).to_owned(),
                namespace: or_empty(namespace),
                name: or_empty(name),
                nth: nth.parse().ok()?,
            },
            what: EventTrouble::parse(what)?,
        },
        ["evaluator", mood, from, questions] => Fault::Evaluator {
            mood: Mood::ALL.into_iter().find(|it| it.as_str() == *mood)?,
            from: from.parse().ok()?,
            questions: questions.parse().ok()?,
        },
        ["standing", hearsay, from, calls] => Fault::Standing {
            hearsay: Hearsay::ALL
                .into_iter()
                .find(|it| it.as_str() == *hearsay)?,
            from: from.parse().ok()?,
            calls: calls.parse().ok()?,
        },
        ["node-lost", step] => Fault::NodeLost {
            step: step.parse().ok()?,
        },
        ["unrecorded", step, why @ ("403" | "409")] => Fault::Unrecorded {
            step: step.parse().ok()?,
            forbidden: *why == "403",
        },
        ["kept", step, what] => Fault::Kept {
            step: step.parse().ok()?,
            what: Undeletable::parse(what)?,
        },
        ["lag", versions] => Fault::Lag(versions.parse().ok()?),
        ["two-leaders"] => Fault::TwoLeaders,
        ["noisy-neighbour"] => Fault::NoisyNeighbour,
        ["no-gc"] => Fault::NoGarbageCollection,
        ["clock", step, way @ ("forward" | "back")] => Fault::ClockJump {
            step: step.parse().ok()?,
            forward: *way == "forward",
        },
        ["restart", step] => Fault::Restart {
            step: step.parse().ok()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_says_everything() {
        let at = CallId {
            verb: "update".to_owned(),
            resource: "accessrequests.status".to_owned(),
            namespace: "tools".to_owned(),
            name: "r".to_owned(),
            nth: 2,
        };
        let event = EventId {
            kind: "modified".to_owned(),
            resource: "pods".to_owned(),
            namespace: String::new(),
            name: String::new(),
            nth: 0,
        };
        let calls = CallTrouble::ALL.iter().map(|what| Fault::Call {
            at: at.clone(),
            what: *what,
            times: 20,
        });
        let events = EventTrouble::ALL.iter().map(|what| Fault::Event {
            at: event.clone(),
            what: *what,
        });
        let moods = Mood::ALL.into_iter().map(|mood| Fault::Evaluator {
            mood,
            from: 3,
            questions: 7,
        });
        let rumours = Hearsay::ALL.into_iter().map(|hearsay| Fault::Standing {
            hearsay,
            from: 2,
            calls: 5,
        });
        let others = [
            Fault::Lag(5),
            Fault::TwoLeaders,
            Fault::NoisyNeighbour,
            Fault::NoGarbageCollection,
            Fault::ClockJump {
                step: 1,
                forward: false,
            },
            Fault::Restart { step: 4 },
            Fault::NodeLost { step: 2 },
        ];
        let kept = Undeletable::ALL.iter().map(|what| Fault::Kept {
            step: 3,
            what: *what,
        });
        let unrecorded = [false, true].map(|forbidden| Fault::Unrecorded { step: 3, forbidden });
        let plan = Plan {
            scenario: "x".to_owned(),
            faults: calls
                .chain(events)
                .chain(moods)
                .chain(rumours)
                .chain(others)
                .chain(kept)
                .chain(unrecorded)
                .collect(),
        };
        assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
    }

    #[test]
    fn what_is_no_identifier_is_refused_and_named() {
        for text in [
            "",
            "+two-leaders",
            "x+",
            "x+call",
            "x+clock/1/up",
            "x+lag/many",
            "x+kept/1/pods",
            "x+unrecorded/1/500",
            "x+standing/maybe/1/1",
        ] {
            let error = text.parse::<Plan>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
