//! The words that `explain` shows for a cause, and the situations that they have.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::judge::{JudgeReason, RulesReason};
use connectors_api::lineage::LineageReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::reason::Ready;
use connectors_api::wanted_objects::CheckTrouble;
use kubectl_connectors::explain::Explanation;
use schemars::schema_for;
use serde_json::Value;

/// A set of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReasonSet {
    /// Of a proof.
    Lineage,
    /// Of a check or an object.
    Judge,
    /// Of a check that cannot be judged.
    Trouble,
    /// Of rules that grant nothing.
    Rules,
    /// Of the condition `ChecksValid` of a policy.
    ChecksValid,
    /// Of the condition `Ready` of a request, and of the end of a grant.
    Ready,
}

/// A reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReasonCode {
    set: ReasonSet,
    pub(super) word: &'static str,
}

macro_rules! reason_sets {
    ($($reasons:ident is $set:ident,)+) => {
        $(impl From<$reasons> for ReasonCode {
            fn from(reason: $reasons) -> Self {
                Self { set: ReasonSet::$set, word: reason.as_str() }
            }
        })+

        fn all() -> Vec<ReasonCode> {
            let mut all = Vec::new();
            $(all.extend($reasons::ALL.iter().copied().map(ReasonCode::from));)+
            all
        }
    };
}

reason_sets! {
    LineageReason is Lineage,
    JudgeReason is Judge,
    CheckTrouble is Trouble,
    RulesReason is Rules,
    ChecksValid is ChecksValid,
    Ready is Ready,
}

impl ReasonSet {
    /// Where an access has the words of the set.
    const fn places(self) -> [&'static str; 2] {
        match self {
            Self::Lineage | Self::Judge | Self::Trouble => [
                "policies/*/checks/*/reason",
                "policies/*/checks/*/candidates/*/reason",
            ],
            Self::Rules | Self::ChecksValid => ["policies/*/problem", ""],
            Self::Ready => ["request/reason", "policies/*/grant/reason"],
        }
    }
}

impl ReasonCode {
    /// True when an access has the reason where its set belongs. A problem of a policy begins with it.
    pub(super) fn is_in(self, access: &Value) -> bool {
        let places = self.set.places();
        let words = places.iter().flat_map(|place| at(access, place));
        let mut words = words.filter_map(Value::as_str);
        words.any(|it| it.split(": ").next() == Some(self.word))
    }
}

/// The values at a place. A star stands for every item of a list.
fn at<'a>(value: &'a Value, place: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in place.split('/') {
        let next = |it: &'a Value| match step {
            "*" => it.as_array().into_iter().flatten().collect::<Vec<_>>(),
            field => it.get(field).into_iter().collect(),
        };
        found = found.into_iter().flat_map(next).collect();
    }
    found
}

/// The reasons that no situation of the plugin has.
fn exceptions() -> Vec<(ReasonCode, &'static str)> {
    const UNSHOWN: &str = "explain shows the condition where it is False";
    vec![
        (
            LineageReason::OtherNamespace.into(),
            "the plugin reads one namespace for pod, run and approval",
        ),
        (
            JudgeReason::NotSelected.into(),
            "the plugin lists by the labels and fields by which the judge selects",
        ),
        (
            JudgeReason::BeingDeleted.into(),
            "such an object is left out, as in the controller: NoObjects names it",
        ),
        (
            JudgeReason::TemplateFailed.into(),
            "nothing can be listed: SelectorInvalid of CheckTrouble comes first",
        ),
        (
            JudgeReason::SelectorInvalid.into(),
            "nothing can be listed: SelectorInvalid of CheckTrouble comes first",
        ),
        (
            CheckTrouble::KindRefused.into(),
            "the plugin does not ask for such objects: the judge's KindRefused says it",
        ),
        (
            CheckTrouble::NotSaid.into(),
            "the plugin judges itself, and asks no evaluation service",
        ),
        (
            CheckTrouble::LineageTooLarge.into(),
            "the limit of the controller's reads; of the plugin's it is TooLarge",
        ),
        (
            ChecksValid::PolicyUnreadable.into(),
            "explain cannot read such a policy either, and shows its own error",
        ),
        (ChecksValid::ChecksValid.into(), UNSHOWN),
        (ChecksValid::NoChecks.into(), UNSHOWN),
        (ChecksValid::ChecksForgeable.into(), UNSHOWN),
        (ChecksValid::ChecksDeletable.into(), UNSHOWN),
        (ChecksValid::RequestersOpen.into(), UNSHOWN),
        (ChecksValid::ChecksNotJudged.into(), UNSHOWN),
    ]
}

/// What is wrong with the reasons of all situations: one is missing, or an exception is none.
pub(super) fn unplanted(planted: &BTreeSet<ReasonCode>) -> Vec<String> {
    let exceptions: BTreeMap<_, _> = exceptions().into_iter().collect();
    let missing = all()
        .into_iter()
        .filter(|it| !planted.contains(it) && !exceptions.contains_key(it))
        .map(|it| format!("no situation of {it:?}"));
    let stale = planted.iter().filter(|it| exceptions.contains_key(it));
    let stale = stale.map(|it| format!("{it:?} is an exception, and has a situation"));
    missing.chain(stale).collect()
}

/// Where an explanation has the words of its own sets.
const STATES: &[(&str, &[&str])] = &[
    ("AccessWord", &["accesses/*/state"]),
    ("GatingWord", &["gating"]),
    ("PodWord", &["pod/state"]),
    ("PolicyWord", &["accesses/*/policies/*/applies"]),
    ("Phase", &["accesses/*/request/phase"]),
    ("GrantState", &["accesses/*/policies/*/grant/state"]),
    (
        "AccessCheckReady",
        &["accesses/*/policies/*/checks/*/verdict"],
    ),
    ("VerdictSource", &["accesses/*/policies/*/source"]),
    (
        "ApproverWord",
        &["accesses/*/policies/*/checks/*/candidates/*/approvers/*/answer"],
    ),
    (
        "LinkWord",
        &["accesses/*/policies/*/checks/*/candidates/*/links/*/state"],
    ),
];

/// The sets of an explanation that name no cause, or that are bound otherwise.
const NO_STATES: [(&str, &str); 3] = [
    ("Ready", "its words are reasons, each of which has a row"),
    ("Permission", "the question, not an answer"),
    ("EndCause", "what will end, not what is wrong"),
];

/// A word of a set of an explanation.
pub(super) type StateWord = (&'static str, String);

/// The words of states in an explanation.
pub(super) fn words_of_states(explained: &Value) -> Vec<StateWord> {
    let mut words = Vec::new();
    for (set, places) in STATES {
        let found = places.iter().flat_map(|place| at(explained, place));
        let found = found.filter_map(Value::as_str);
        words.extend(found.map(|it| (*set, it.to_owned())));
    }
    words
}

/// The words of the schema that no situation showed, and the sets without a place.
pub(super) fn unseen_states(seen: &BTreeSet<StateWord>) -> Vec<String> {
    let schema = serde_json::to_value(schema_for!(Explanation)).unwrap();
    let mut problems = Vec::new();
    let mut sets = 0;
    for (set, definition) in schema["$defs"].as_object().unwrap() {
        let words = at(definition, "oneOf/*/const").into_iter();
        let words: Vec<_> = words.chain(at(definition, "enum/*")).collect();
        if words.is_empty() || NO_STATES.iter().any(|(name, _)| name == set) {
            continue;
        }
        sets += 1;
        let Some((set, _)) = STATES.iter().find(|(name, _)| name == set) else {
            problems.push(format!("no place of the words of {set}"));
            continue;
        };
        let words = words.into_iter().filter_map(Value::as_str);
        let unseen = words.filter(|it| !seen.contains(&(*set, (*it).to_owned())));
        problems.extend(unseen.map(|it| format!("no situation shows {set} {it}")));
    }
    if sets != STATES.len() {
        problems.push(format!("the schema has {sets} sets of states"));
    }
    problems
}
