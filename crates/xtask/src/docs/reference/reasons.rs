//! `reasons.md`: every word that the product writes into objects, events and answers, with its meaning.

use std::{any::type_name, collections::BTreeSet, fs};

use connectors_api::{
    AccessPolicyCondition, AccessRequestCondition, ConditionStatus,
    access_request::{GrantState, Phase},
    check_state::CheckOutcome,
    class_reason::ClassEvent,
    judge::{JudgeReason, RulesReason},
    lineage::LineageReason,
    policy_reason,
    policy_words::PolicyWord,
    reason,
    validate::{FindingCode, Severity},
    wanted_objects::CheckTrouble,
};
use kubectl_connectors::{
    convert::{NoteWord, RefusalWord},
    doctor::DoctorWord,
};
use request_controller::plan::{
    gate::{GateEnd, GateWord},
    tell::ToldKind,
};

use super::{
    Table, all_described,
    cells::{code, prose},
    chart_values, hold, page, refusals,
};
use crate::docs::{tree, troubleshooting};

pub(super) const PAGE: &str = "reasons.md";

const INTRO: &str = "This page is for readers of a status, an event or a log line: every word, and its meaning in one sentence. Search it for the
word that you see. [troubleshooting.md](../troubleshooting.md) says what to do about it. Begin there if a pod waits.

A condition is `True`, `False` or `Unknown`. An `Unknown` condition has the reason `NotJudged`: its subject was not checked,
or is not checked any more.";

/// A set of words of the code.
pub(super) struct WordSet {
    /// The path of its type.
    pub(super) path: &'static str,
    pub(super) subject: &'static str,
    /// The words and their meanings.
    pub(super) words: Vec<(&'static str, &'static str)>,
}

macro_rules! set {
    ($($set:ty),+ $(,)?) => {
        [$($crate::docs::reference::reasons::WordSet {
            path: std::any::type_name::<$set>(),
            subject: <$set>::SUBJECT,
            words: <$set>::ALL.iter().map(|it| (it.as_str(), it.about())).collect(),
        }),+]
    };
}
pub(super) use set;

impl WordSet {
    pub(super) fn table(&self, head: &str) -> Table {
        all_sentences(&self.words);
        let mut table = Table::new(&[head, "meaning"]);
        for (word, about) in &self.words {
            table.row(&[code(word), prose(about)]);
        }
        table
    }
}

/// Fails with the words whose meaning is no sentence of its own, such as "It is.". Readers search for a word and do not see
/// the heading that such a sentence refers to.
fn all_sentences(words: &[(&str, &str)]) {
    all_described(words.iter().copied());
    let is_short = |about: &str| about.split_whitespace().count() < 3;
    let short = words.iter().filter(|(_, about)| is_short(about));
    let short: Vec<_> = short.map(|(word, _)| word).collect();
    assert!(short.is_empty(), "without a whole sentence: {short:?}");
}

/// A section of the page with one set.
struct Section {
    heading: &'static str,
    head: &'static str,
    /// The link to a page that explains more.
    more: &'static str,
    set: WordSet,
}

const WAITS: &str = "Explained in [troubleshooting.md](../troubleshooting.md#the-pod-waits).";
const ENDED: &str =
    "Explained in [troubleshooting.md](../troubleshooting.md#the-request-has-ended).";
const POLICY: &str = "Explained in [troubleshooting.md](../troubleshooting.md#what-a-policy-says).";
const CHECKS: &str =
    "The word is at the check in `status.policies[].checkRefs[].status.reason` of a request.";
const LINEAGE: &str = "Explained in [troubleshooting.md](../troubleshooting.md#lineage).";
const EVENTS: &str = "Explained in [troubleshooting.md](../troubleshooting.md#events).";
const FINDINGS: &str = "The webhook, `kubectl connectors policy lint` and `ValidatePolicy` find them.\n\
                        Explained in [evaluation-api.md](../evaluation-api.md#findings-about-policies).";

fn of(
    heading: &'static str,
    head: &'static str,
    more: &'static str,
    [set]: [WordSet; 1],
) -> Section {
    Section {
        heading,
        head,
        more,
        set,
    }
}

fn sections() -> Vec<Section> {
    let parts = [of_requests(), of_checks(), of_policies()];
    parts.into_iter().flatten().collect()
}

fn of_requests() -> Vec<Section> {
    vec![
        of("## Phases of an AccessRequest", "phase", ENDED, set![Phase]),
        of(
            "## Conditions of an AccessRequest",
            "condition",
            "",
            set![AccessRequestCondition],
        ),
        of("### Reasons of Ready", "reason", WAITS, set![reason::Ready]),
        of(
            "### Reasons of ContextObjectValid",
            "reason",
            "",
            set![reason::ContextObjectValid],
        ),
        of(
            "### Reasons of ConnectorResolved",
            "reason",
            "",
            set![reason::ConnectorResolved],
        ),
        of(
            "### Reasons of AccessPolicyMatched",
            "reason",
            "",
            set![reason::AccessPolicyMatched],
        ),
        of(
            "### Reasons of AccessCheckReady",
            "reason",
            "",
            set![reason::AccessCheckReady],
        ),
        of(
            "### Reasons of AccessPermissionSync",
            "reason",
            "",
            set![reason::AccessPermissionSync],
        ),
        of(
            "### States of a policy's result",
            "state",
            "",
            set![GrantState],
        ),
    ]
}

fn of_checks() -> Vec<Section> {
    vec![
        of("## Reasons of a check", "reason", CHECKS, set![JudgeReason]),
        of(
            "### Reasons of the request-controller",
            "reason",
            CHECKS,
            set![CheckTrouble],
        ),
        of(
            "### Reasons of a lineage",
            "reason",
            LINEAGE,
            set![LineageReason],
        ),
        of("### Reasons of rules", "reason", "", set![RulesReason]),
        of("### Outcomes of a state", "outcome", "", set![CheckOutcome]),
    ]
}

fn of_policies() -> Vec<Section> {
    vec![
        of(
            "## Conditions of an AccessPolicy",
            "condition",
            "",
            set![AccessPolicyCondition],
        ),
        of(
            "### Reasons of a policy's Ready",
            "reason",
            POLICY,
            set![policy_reason::Ready],
        ),
        of(
            "### Reasons of ConnectorsMatched",
            "reason",
            POLICY,
            set![policy_reason::ConnectorsMatched],
        ),
        of(
            "### Reasons of PermissionSynced",
            "reason",
            POLICY,
            set![policy_reason::PermissionSynced],
        ),
        of(
            "### Reasons of ChecksValid",
            "reason",
            POLICY,
            set![policy_reason::ChecksValid],
        ),
        of("### Whether a policy applies", "word", "", set![PolicyWord]),
        of(
            "## Values of a condition",
            "status",
            "",
            set![ConditionStatus],
        ),
        of(
            "## Findings about a policy",
            "code",
            FINDINGS,
            set![FindingCode],
        ),
        of(
            "### Severities of a finding",
            "severity",
            "",
            set![Severity],
        ),
    ]
}

/// The sets of events, each with its heading and the types of its events.
fn events() -> Vec<(Section, Vec<bool>)> {
    macro_rules! events {
        ($heading:literal, $more:expr, $set:ty, $is_warning:expr) => {{
            let [set] = set![$set];
            let section = Section {
                heading: $heading,
                head: "event",
                more: $more,
                set,
            };
            (section, <$set>::ALL.iter().map($is_warning).collect())
        }};
    }
    vec![
        events!(
            "### Events of the request-controller",
            "At the pod, at the request, and for a grant at the policy.",
            ToldKind,
            |it| it.is_warning()
        ),
        events!(
            "### Events about the scheduling gate",
            "At the pod.",
            GateWord,
            |it| *it == GateWord::AccessGateKept
        ),
        events!(
            "### Events of csi-node",
            "At the pod.",
            csi_node::EventWord,
            |it| it.is_warning()
        ),
        events!(
            "### Events at a policy",
            POLICY,
            policy_reason::Event,
            |it| it.is_warning()
        ),
        events!("### Events at a ConnectorClass", POLICY, ClassEvent, |it| {
            it.is_warning()
        }),
    ]
}

/// The sets of the plugin, whose tables are on its own page.
fn of_the_plugin() -> [WordSet; 3] {
    set![DoctorWord, NoteWord, RefusalWord]
}

fn text_of(parts: &[&str]) -> String {
    let parts = parts.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

fn written() -> String {
    let mut text = page("Reasons, conditions and events", INTRO);
    for Section {
        heading,
        head,
        more,
        set,
    } in sections()
    {
        let subject = prose(set.subject);
        text += &set.table(head).below(heading, &text_of(&[&subject, more]));
    }
    text.extend(["\n## Events\n", EVENTS, "\n"]);
    for (section, are_warnings) in events() {
        let Section {
            heading,
            head,
            more,
            set,
        } = section;
        all_sentences(&set.words);
        let mut table = Table::new(&[head, "type", "meaning"]);
        for ((word, about), is_warning) in set.words.iter().zip(are_warnings) {
            let kind = if is_warning { "Warning" } else { "Normal" };
            table.row(&[code(word), kind.to_owned(), prose(about)]);
        }
        let subject = prose(set.subject);
        text += &table.below(heading, &text_of(&[&subject, more]));
    }
    let [end] = set![GateEnd];
    text += &end.table("action").below(
        "### Actions of AccessGateRemoved",
        &text_of(&[
            &prose(end.subject),
            "The label `reason` of `connectors_pod_gates_removed_total` has the same words.",
        ]),
    );
    text += &refusals::table().below(
        "## Refusals by admission policies",
        "These rules of the chart are in force in the API server itself, also while the webhook is away. An object with several\n\
         faults gets the first message. [policies.md](../policies.md#what-is-refused) has the refusals of the webhook in its own\n\
         words, and [fields.md](fields.md) those by the schemas of the kinds.",
    );
    text += "\n## Words elsewhere\n\
             - The evaluation service refuses calls with a word: [rpcs.md](rpcs.md#refusals).\n\
             - `kubectl connectors doctor` and `convert` have words of their own: [cli.md](../cli.md).\n\
             - Metrics and alerts: [operate.md](../operate.md#metrics).\n";
    text
}

#[test]
fn the_page_of_reasons_is_that_of_the_code() {
    hold(PAGE, &written());
}

/// A set that another crate or file adds is missing here until a section shows it.
#[test]
fn every_set_of_words_of_the_sources_is_on_a_page() {
    let shown = sections().into_iter().map(|it| it.set);
    let shown = shown.chain(events().into_iter().map(|(it, _)| it.set));
    let shown = shown.chain(set![GateEnd]).chain(of_the_plugin());
    let shown = shown.chain(chart_values::sets());
    let shown: BTreeSet<String> = shown.map(|it| it.path.to_owned()).collect();
    let files = tree::files(&e2e::repository());
    let mut declared = BTreeSet::new();
    for source in tree::shipped(&files) {
        let module = source.file.trim_end_matches(".rs").replace('/', "::");
        let member = source.member.replace('-', "_");
        for text in source.code.split("words! {\n").skip(1) {
            let mut lines = text.lines().map(str::trim);
            let Some(name) = lines.find(|it| !it.starts_with("///") && !it.starts_with('#')) else {
                continue;
            };
            // The macros themselves are no sets.
            if let Some(name) = name
                .strip_suffix(" {")
                .filter(|it| it.chars().all(char::is_alphanumeric))
            {
                declared.insert(format!("{member}::{module}::{name}"));
            }
        }
    }
    assert!(declared.len() > 25, "{declared:?}");
    assert_eq!(shown, declared);
}

#[test]
fn every_word_of_the_plugin_is_on_its_page() {
    let page = fs::read_to_string(e2e::repository().join("docs/cli.md")).unwrap();
    for set in of_the_plugin() {
        for (word, _) in set.words {
            assert!(
                page.contains(&format!("\n| `{word}` |")),
                "{}: {word}",
                set.path
            );
        }
    }
}

/// A reader who comes from troubleshooting finds the word here, and the other way round.
#[test]
fn every_event_that_troubleshooting_explains_is_on_the_page() {
    let text = troubleshooting();
    let (_, section) = text.split_once("\n## Events\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let explained = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<&str> = explained.filter(|it| *it != "FailedMount").collect();
    let sets = events();
    let at_pods = sets.iter().take(3).flat_map(|(it, _)| &it.set.words);
    let shown: BTreeSet<&str> = at_pods.map(|(word, _)| *word).collect();
    assert_eq!(explained, shown);
}

#[test]
fn a_set_knows_its_type_its_words_and_their_meanings() {
    let [set] = set![Phase];
    assert_eq!(set.path, type_name::<Phase>());
    assert_eq!(set.words.len(), Phase::ALL.len());
    assert!(
        set.words
            .iter()
            .any(|(word, about)| *word == "Ended" && about.contains("nothing is awaited"))
    );
}
